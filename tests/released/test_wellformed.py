"""Releases whose arrays do not fit together are refused when a model is opened, before anything relies on them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import reticent as rt
from reticent import errors
from tests.stored import X, Y, classifier

Arrays = dict[str, Any]


@pytest.fixture
def model(tmp_path) -> Path:
    classifier(tmp_path / "model").learn_task(X, Y, name="march").learn_task(X, Y, name="april")
    for ledger in (tmp_path / "model").glob("ledger.sqlite*"):
        ledger.unlink()  # the manifest decides
    return Path(tmp_path, "model")


def rewrite(model: Path, change: Callable[[Arrays], Arrays]) -> None:
    """Changes the arrays of the second release, and renews its digest."""
    manifest = json.loads((model / "manifest.json").read_text())
    entry = manifest["releases"][1]
    blob = (model / entry["file"]).read_bytes()
    about = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])["__metadata__"]
    blob = safetensors.numpy.save(change(dict(safetensors.numpy.load(blob))), metadata=about)
    (model / entry["file"]).write_bytes(blob)
    entry["sha256"] = hashlib.sha256(blob).hexdigest()
    (model / "manifest.json").write_text(json.dumps(manifest))


def test_releases_that_fit_are_read(model):
    rewrite(model, lambda arrays: arrays)
    assert rt.load(model).predict(np.eye(2, 8)).shape == (2,)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: {**a, "rows": np.array([0, 2], np.int32)},
        lambda a: {**a, "rows": np.array([-1, 1], np.int32)},
        lambda a: {**a, "rows": np.array([1, 0], np.int32)},
        lambda a: {**a, "rows": np.array([1, 1], np.int32)},
        lambda a: {**a, "rows": np.array([0, 1], np.float32)},
        lambda a: {**a, "rows": np.array([[0, 1]], np.int32)},
        lambda a: {**a, "sums": a["sums"] * np.nan},
        lambda a: {**a, "sums": a["sums"][:1]},
        lambda a: {**a, "sums": a["sums"][:, :3].copy()},
        lambda a: {**a, "sums": a["sums"].ravel()},
        lambda a: {**a, "noise": a["noise"] * 0},
        lambda a: {**a, "noise": a["noise"] / np.float32(0)},
        lambda a: {**a, "extra": a["noise"]},
        lambda a: {name: array for name, array in a.items() if name != "sums"},
        lambda a: {name: array for name, array in a.items() if name != "rows"},
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_releases_that_do_not_fit_are_refused(model, change):
    rewrite(model, change)
    with pytest.raises(errors.InvalidValue, match="does not fit the labels or the other releases"):
        rt.load(model)
