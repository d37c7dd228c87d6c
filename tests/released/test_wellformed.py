"""Releases whose arrays do not fit together are refused when a model is opened, before anything relies on them."""

import hashlib
import json
import shutil
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


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("memory")
    model = classifier(place / "model", memory=rt.Memory(vault=place / "vault", horizon=3))
    model.learn_task(X, Y, name="march").learn_task(X, Y, name="april")
    for ledger in (place / "model").glob("ledger.sqlite*"):
        ledger.unlink()
    return Path(place, "model")


@pytest.fixture
def remembering(tmp_path, learned) -> Path:
    """A model with memory, whose releases have places."""
    shutil.copytree(learned, tmp_path / "remembering")
    return Path(tmp_path, "remembering")


def rewrite(model: Path, change: Callable[[Arrays], Arrays], which: int = 1) -> None:
    """Changes the arrays of a release, the second by default, and renews its digest."""
    manifest = json.loads((model / "manifest.json").read_text())
    entry = manifest["releases"][which]
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


UNIT = np.eye(2, 8, dtype=np.float32)
NAMES = {"named": np.array([0, 1], np.int32), "names": UNIT}
PLACE = {"place": np.array([3], np.int32)}
EARLIER = {
    "earlier_rows": np.array([1, 1], np.int32),
    "earlier_places": np.array([1, 2], np.int32),
    "earlier_sums": UNIT,
    "earlier_noise": np.ones(2, np.float32),
}
OPTIONAL: Arrays = {**NAMES, "centre": UNIT[0], **PLACE, **EARLIER}


def test_releases_with_optional_arrays_are_read(remembering):
    rewrite(remembering, lambda arrays: {**arrays, **OPTIONAL})
    assert set(OPTIONAL) < set(rt.load(remembering).releases[1].parameters)


def test_only_tasks_of_an_epoch_have_a_place(model, remembering):
    rewrite(model, lambda arrays: {**arrays, **PLACE})
    rewrite(remembering, lambda arrays: {**arrays, "place": np.array([4], np.int32)})
    for wrong in (model, remembering):
        with pytest.raises(errors.InvalidValue, match="does not fit the labels or the other releases"):
            rt.load(wrong)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("named", rows) for rows in ([0, 2], [-1, 1], [1, 0], [1, 1], [0.0, 1.0], [[0, 1]], [0], None)),
        *(("names", rows) for rows in (2 * UNIT, UNIT * np.nan, 0 * UNIT, UNIT[:1], UNIT[:, :3], UNIT[0], None)),
        ("names", UNIT.astype(np.float64)),
        *(
            ("centre", value)
            for value in (UNIT, UNIT[0, :3], UNIT[0] * np.nan, UNIT[0] * np.float32(1.01), np.eye(2, 8)[0])
        ),
        *(("place", value) for value in ([0], [2], [1, 2], [3.0], 3, None)),
        *(("earlier_rows", rows) for rows in ([1, 2], [-1, 1], [1], [1.0, 1.0], [[1, 1]], None)),
        *(("earlier_places", places) for places in ([1, 1], [0, 1], [1, 3], [1], [1.0, 2.0], None)),
        *(("earlier_sums", sums) for sums in (UNIT[:1], UNIT[:, :3], UNIT * np.nan, None)),
        *(("earlier_noise", noise) for noise in ([1.0], [0.0, 1.0], [np.inf, 1.0], None)),
    ],
)
def test_optional_arrays_are_checked(remembering, name, value):
    arrays = {**OPTIONAL, name: None if value is None else np.asarray(value)}

    def change(stored: Arrays) -> Arrays:
        kept = {key: array for key, array in stored.items() if key not in arrays}
        return {**kept, **{key: array.copy() for key, array in arrays.items() if array is not None}}

    rewrite(remembering, change)
    with pytest.raises(errors.InvalidValue, match="does not fit the labels or the other releases"):
        rt.load(remembering)


def test_a_label_is_named_once(model):
    rewrite(model, lambda arrays: {**arrays, **NAMES})
    rewrite(model, lambda arrays: {**arrays, **NAMES}, which=0)
    with pytest.raises(errors.InvalidValue, match="Two releases name the same label"):
        rt.load(model)
