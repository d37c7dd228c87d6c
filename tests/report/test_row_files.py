"""Rows in batches: the same files as from one table, whole or not at all."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.report.row_files import ENDINGS, write_batches, write_rows

TABLE: dict[str, Any] = {
    "row": np.arange(1, 7),
    "id": ["a", "b", None, "=c", "d", "é"],
    "kept": [1, 2, None, 3, 4, 5],
    "score": np.array([0.5, -np.inf, 1.0, 2.0, np.nan, 3.0], np.float32),
    "label": Coded(np.array([0, 1, 1, 0, 0, 1]), ["E10", 7]),
}


def rows_of(table: dict[str, Any], at: slice) -> dict[str, Any]:
    return {name: column.taken(at) if isinstance(column, Coded) else column[at] for name, column in table.items()}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("safe", [False, True], ids=["plain", "safe"])
def test_batches_are_written_like_one_table(tmp_path, ending, safe):
    one, several = tmp_path / f"one{ending}", tmp_path / f"several{ending}"
    write_rows(one, TABLE, texts=["label"], safe=safe)
    cuts = [slice(0, 0), slice(0, 3), slice(3, 3), slice(3, 4), slice(4, 6)]
    write_batches(several, (rows_of(TABLE, at) for at in cuts), texts=["label"], safe=safe)
    if ending == ".parquet":
        assert pq.read_table(several).equals(pq.read_table(one))
    else:
        assert several.read_bytes() == one.read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == sorted([one.name, several.name])


def test_rows_are_what_other_programs_expect(tmp_path):
    write_rows(tmp_path / "out.json", TABLE, texts=["label"])
    assert json.loads((tmp_path / "out.json").read_text())[1] == {
        "row": 2,
        "id": "b",
        "kept": 2,
        "score": None,
        "label": 7,
    }
    write_rows(tmp_path / "none.json", rows_of(TABLE, slice(0, 0)))
    assert (tmp_path / "none.json").read_text() == "[]\n"
    write_rows(tmp_path / "out.parquet", TABLE, texts=["label"])
    found = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert found["label"] == ["E10", "7", "7", "E10", "E10", "7"]
    assert (found["kept"], found["score"]) == ([1, 2, None, 3, 4, 5], [0.5, None, 1.0, 2.0, None, 3.0])


@pytest.mark.parametrize(
    "parts",
    [
        ([None, None], [1, 2]),
        ([1, 2], [None, 2.5]),
        ([1.5, 2.5], ["a", None]),
        ([True, False], [3, 4]),
        ([2**70], [1]),
        ([True, 1], [2]),
    ],
    ids=str,
)
def test_a_column_has_the_type_of_all_its_cells(tmp_path, parts):
    write_batches(tmp_path / "out.parquet", ({"x": part} for part in parts))
    cells = [cell for part in parts for cell in part]
    numbers = {type(cell) for cell in cells} <= {int, float, type(None)} and max(c or 0 for c in cells) < 2**60
    expected = cells if numbers else [None if cell is None else str(cell) for cell in cells]
    assert pq.read_table(tmp_path / "out.parquet")["x"].to_pylist() == expected
    assert os.listdir(tmp_path) == ["out.parquet"]


def failing() -> Iterator[dict[str, Any]]:
    yield {"row": [1]}
    raise errors.InvalidValue("Cannot read new.csv.")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_is_written_whole_or_not_at_all(tmp_path, ending):
    out = tmp_path / f"out{ending}"
    with pytest.raises(errors.InvalidValue, match=r"Cannot read new\.csv"):
        write_batches(out, failing())
    assert os.listdir(tmp_path) == []
    out.write_text("before")
    out.chmod(0o600)
    with pytest.raises(errors.InvalidValue, match=r"Cannot read new\.csv"):
        write_batches(out, failing())
    assert out.read_text() == "before"
    write_batches(out, [{"row": [1]}])
    assert (os.listdir(tmp_path), stat.S_IMODE(out.stat().st_mode)) == ([out.name], 0o600)


def test_links_stay_and_devices_are_written_to(tmp_path):
    (tmp_path / "real.csv").write_text("before")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_rows(tmp_path / "link.csv", {"row": [1]})
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "row\n1\n" or (tmp_path / "real.csv").read_bytes() == b"row\r\n1\r\n"
    (tmp_path / "null.csv").symlink_to("/dev/null")
    write_rows(tmp_path / "null.csv", {"row": [1]})
    assert not Path("/dev/null").is_file()


def test_no_more_than_one_table_is_held(tmp_path):
    alive, most = [0], [0]

    class Counted(list[object]):
        def __init__(self) -> None:
            super().__init__(range(10))
            alive[0] += 1
            most[0] = max(most[0], alive[0])

        def __del__(self) -> None:
            alive[0] -= 1

    for ending in ENDINGS:
        write_batches(tmp_path / f"out{ending}", ({"row": Counted()} for _ in range(20)))
    assert most[0] <= 2
