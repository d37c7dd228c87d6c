"""What is the same object, memory or file is noticed; what merely is equal never is."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from reticent.numerics.shared_memory import share_a_file, share_memory

X = np.arange(96.0).reshape(12, 8)
TEXTS = [f"a note {i}" for i in range(12)]


def containers() -> dict[str, Any]:
    pa, pl, torch = (pytest.importorskip(name) for name in ("pyarrow", "polars", "torch"))
    return {
        "array": X.copy(),
        "columns first": np.asfortranarray(X),
        "masked": np.ma.array(X.copy()),
        "frame": pd.DataFrame(X.copy()),
        "mixed frame": pd.DataFrame(X).assign(note=TEXTS),
        "texts": pd.Series(TEXTS),
        "categories": pd.Series(TEXTS, dtype="category"),
        "texts in arrow": pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string())),
        "polars": pl.DataFrame(X),
        "table": pa.table({"x": X[:, 0], "note": TEXTS}),
        "column": pa.chunked_array([TEXTS]),
        "tensor": torch.from_numpy(X.copy()),
        "bfloat16": torch.from_numpy(X).bfloat16(),
        "rows": list(X.copy()),
    }


def some_of(values: Any, rows: slice) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values.slice(rows.start, rows.stop - rows.start) if hasattr(values, "slice") else values[rows]


@pytest.mark.parametrize("kind", list(containers()))
def test_memory_is_compared_and_no_value(kind):
    values, equal = containers()[kind], containers()[kind]
    part = some_of(values, slice(3, 9))
    for one, other in ((values, values), (values, part), (part, values)):
        assert share_memory(one, other)
        assert not share_memory(one, equal)
        assert not share_memory(equal, other)
    if kind in ("array", "columns first", "frame", "tensor", "rows"):  # halves are other rows
        assert not share_memory(some_of(values, slice(0, 6)), some_of(values, slice(6, 12)))
        assert share_memory(some_of(values, slice(0, 7)), some_of(values, slice(6, 12)))


def test_views_of_other_kinds_are_noticed_and_equal_objects_are_not():
    sparse = csr_array(X)
    for other in (X[::-1], X.T, X[:, 2:3], list(X), pd.DataFrame(X, copy=False), X.view(np.int64)):
        assert share_memory(X, other)
        assert share_memory(other, X)
    assert share_memory(sparse, csr_array((sparse.data, sparse.indices, sparse.indptr)))
    assert not share_memory(sparse, sparse.copy())
    assert not share_memory(X[::2], X[1::2])
    assert not share_memory(TEXTS, list(TEXTS))  # its texts are the same objects, as equal ones may be
    assert not share_memory(["a"] * 3, ["a"] * 3)
    nothings: list[Any] = [None, [], np.empty((0, 8)), iter([]), 3]
    for nothing in nothings:
        assert not share_memory(nothing, X)
        assert not share_memory(X, nothing)
    assert not share_memory(None, None)


@pytest.mark.posix
def test_files_are_compared_and_nothing_in_them(tmp_path):
    march, other = tmp_path / "march.csv", tmp_path / "folder" / "other"
    march.write_text("x\n1\n", encoding="utf-8")
    other.mkdir(parents=True)
    shutil.copy(march, tmp_path / "copy.csv")
    shutil.copy(march, other / "copy.csv")
    assert not share_a_file(march, tmp_path / "copy.csv")
    assert not share_a_file(march, tmp_path / "folder")
    assert not share_a_file(march, tmp_path / "missing.csv")
    os.link(march, tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(march)
    os.link(march, other / "shard.csv")
    for same in ("march.csv", "folder/../march.csv", "hard.csv", "soft.csv", "folder", "folder/other", "."):
        assert share_a_file(march, tmp_path / same)
        assert share_a_file(tmp_path / same, march)
    assert share_a_file(Path("-"), Path("-"))
