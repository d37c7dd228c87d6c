"""Reading files: sources of examples beside the readers of pyarrow, pandas, polars and numpy, which read columns."""

import atexit
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from contests import Contest, Family, in_turn

ROWS, LINES, WIDTH, LABELS = 100_000, 10_000, 384, 1_000
NAMES = tuple(f"f{i}" for i in range(WIDTH))
BATCH = 10_000  # rows of a record batch: what a source reads at a time
BLOCK = 1 << 22  # bytes of CSV


def families() -> list[Family]:
    """Returns the one family."""
    return [
        Family(
            name="reading",
            title="Reading files",
            words=f"""
Rows of {WIDTH} numbers, one of {LABELS:,} labels and an id, read in batches of bounded size: ours gives an array of
features, and labels and ids as codes. Peers read columns and stop there; where the file has a column for each feature,
a line more shows what it takes pyarrow to make rows of them. That table depends on what else uses the caches: seven
runs on a busy machine gave 0.49 to 1.09 of pyarrow's columns, the median is shown, and 0.68 to 1.25 of its rows. A line
of CSV is an example by itself, whatever other lines are; to peers an open quote is the end of all of them.
""",
            contests=_contests,
        )
    ]


def _contests() -> list[Contest]:
    return [
        Contest(
            name="reading/csv",
            title=f"CSV, a line of {WIDTH} numbers",
            play=lambda rounds: in_turn({name: (run, LINES) for name, run in _csv().items()}, rounds),
            goals={"pyarrow": 0.5},
        ),
        Contest(
            name="reading/parquet-lists",
            title="Parquet, one column of lists of fixed size, a row",
            play=lambda rounds: in_turn({name: (run, ROWS) for name, run in _parquet("lists", ("x",)).items()}, rounds),
            rounds=9,
            goals={"pyarrow": 0.8},
        ),
        Contest(
            name="reading/parquet-columns",
            title=f"Parquet, {WIDTH} columns, a row",
            play=lambda rounds: in_turn(
                {name: (run, ROWS) for name, run in _parquet("columns", NAMES).items()}, rounds
            ),
            rounds=9,
            goals={"pyarrow": 0.8},
        ),
        Contest(
            name="reading/npz",
            title="NPZ, a row",
            play=lambda rounds: in_turn({name: (run, ROWS) for name, run in _npz().items()}, rounds),
        ),
    ]


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)


@cache
def _data() -> tuple[Any, list[str], list[str]]:
    draw = np.random.default_rng(0)
    labels = [f"label {i}" for i in draw.integers(0, LABELS, ROWS)]
    return draw.normal(size=(ROWS, WIDTH)).astype(np.float32), labels, [f"person {i}" for i in draw.permutation(ROWS)]


def _read(name: str, features: tuple[str, ...]) -> Callable[[], None]:
    from reticent.readers import Columns, open_source

    columns = Columns(features=features, label="code", person="who")

    def run() -> None:
        for _ in open_source(_folder() / name, columns):
            pass

    return run


def _csv() -> dict[str, Callable[[], Any]]:
    os.environ["POLARS_MAX_THREADS"] = "1"
    import pandas
    import polars
    from pyarrow import csv

    path = _folder() / "lines.csv"
    x, labels, ids = _data()
    with path.open("w") as file:
        file.write(",".join([*NAMES, "code", "who"]) + "\n")
        for row, label, person in zip(x[:LINES].tolist(), labels, ids, strict=False):
            file.write(",".join([*map(repr, row), label, person]) + "\n")

    def pyarrow() -> None:
        with csv.open_csv(path, read_options=csv.ReadOptions(use_threads=False, block_size=BLOCK)) as batches:
            for _ in batches:
                pass

    return {
        "reticent": _read("lines.csv", NAMES),
        "pyarrow": pyarrow,
        "polars": lambda: polars.read_csv(path),
        "pandas": lambda: pandas.read_csv(path),
    }


def _parquet(kind: str, features: tuple[str, ...]) -> dict[str, Callable[[], Any]]:
    import pyarrow
    from pyarrow import parquet

    path = _folder() / f"{kind}.parquet"
    x, labels, ids = _data()
    if kind == "lists":
        columns = {"x": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.reshape(-1)), WIDTH)}
    else:
        columns = {name: pyarrow.array(x[:, i]) for i, name in enumerate(NAMES)}
    parquet.write_table(pyarrow.table({**columns, "code": labels, "who": ids}), path)

    def batches() -> None:
        with parquet.ParquetFile(path) as file:
            for _ in file.iter_batches(batch_size=BATCH, use_threads=False):
                pass

    def rows() -> None:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH, use_threads=False):
                batch.select(list(features)).to_tensor(row_major=True).to_numpy()

    peers: dict[str, Callable[[], Any]] = {"reticent": _read(path.name, features), "pyarrow": batches}
    return peers if kind == "lists" else {**peers, "pyarrow, and rows of its columns": rows}


def _npz() -> dict[str, Callable[[], Any]]:
    path = _folder() / "arrays.npz"
    x, labels, ids = _data()
    np.savez(path, x=x, code=np.array(labels), who=np.array(ids))

    def numpy() -> None:
        with np.load(path) as arrays:
            for name in arrays.files:
                arrays[name]

    return {"reticent": _read("arrays.npz", ("x",)), "numpy": numpy}
