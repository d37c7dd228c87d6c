"""Features and settings that are kept: made once, and made again where damaged."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from reticent.budget import Budget
from reticent.lab.bench import workspace
from reticent.lab.bench.catalogue import learner_of
from reticent.lab.bench.run import Run
from reticent.lab.bench.versions import VERSIONS
from reticent.lab.bench.workspace import Workspace, read
from reticent.lab.data.datasets import Data
from reticent.privacy import events
from reticent.sensitive.learners import PeftEnsemble
from reticent.sensitive.tuning import CLIP_NORMS
from tests.lab.tiny import a_run, write_features

BUDGET = Budget(epsilon=8.0, delta=1e-5)


@pytest.mark.parametrize("content", [b"", b'{"a": ', b"\xff\xfe"])
def test_damaged_json_reads_as_none(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    assert read(tmp_path / "a.json") is read(tmp_path / "none.json") is read(tmp_path) is None


def test_damaged_settings_are_tuned_again(tmp_path, monkeypatch):
    tuned: list[int] = []

    def tune(learner: PeftEnsemble, *arguments: object, **others: object) -> PeftEnsemble:
        tuned.append(1)
        return learner

    monkeypatch.setattr(workspace, "tune_uncounted", tune)
    place, learner = Workspace(tmp_path, tmp_path), PeftEnsemble(task_size=10)
    for _ in range(2):
        assert place.tuned(a_run(learner="peft-paper"), learner, [], np.array([])) == learner
    assert len(tuned) == 1
    (file,) = (tmp_path / "tuned").glob("*.json")
    file.write_text(file.read_text()[:-10])
    assert place.tuned(a_run(learner="peft-paper"), learner, [], np.array([])) == learner
    assert len(tuned) == 2


def test_settings_of_another_version_are_not_taken_over(tmp_path, monkeypatch):
    found = iter((0.5, 2.0))

    def tune(learner: PeftEnsemble, *arguments: object, **others: object) -> PeftEnsemble:
        return replace(learner, clip_norm=next(found))

    monkeypatch.setattr(workspace, "tune_uncounted", tune)
    place, learner = Workspace(tmp_path, tmp_path), PeftEnsemble(task_size=10)
    for version, clip_norm in ((1, 0.5), (2, 2.0), (1, 0.5)):
        monkeypatch.setitem(VERSIONS, "peft-paper", version)
        assert place.tuned(a_run(learner="peft-paper"), learner, [], np.array([])).clip_norm == clip_norm


@pytest.mark.parametrize("kept", [0, 40, 2_000], ids=["nothing", "half a heading", "some rows"])
def test_damaged_features_are_encoded_again(tmp_path, kept):
    place = Workspace(write_features(tmp_path / "data"), tmp_path / "out")
    whole = np.array(place.features(a_run()))
    (file,) = (tmp_path / "out" / "features").glob("*.npy")
    content = file.read_bytes()
    workspace._mapped.cache_clear()
    file.write_bytes(content[:kept])
    assert (place.features(a_run()) == whole).all()
    assert file.read_bytes() == content


def test_features_that_several_ask_for_are_encoded_once(tmp_path, monkeypatch):
    encoded: list[str] = []

    def slowly(data: Data, speed: object = None) -> npt.NDArray[np.float32]:
        encoded.append(data.name)
        time.sleep(0.2)
        return np.asarray(data.inputs, np.float32)

    monkeypatch.setattr(workspace, "_encoded", slowly)
    place = Workspace(write_features(tmp_path / "data"), tmp_path / "out")
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(place.features, [a_run(seed=seed) for seed in range(3)]))
    assert len(encoded) == 1
    assert all((features == found[0]).all() for features in found)


@pytest.mark.parametrize("stored", [np.zeros(3, np.float32), np.zeros((3, 2)), np.array([[None]])])
def test_features_of_another_kind_are_made_again(tmp_path, stored):
    np.save(tmp_path / "features.npy", stored, allow_pickle=True)
    assert not workspace._readable(tmp_path / "features.npy")
    np.save(tmp_path / "features.npy", np.zeros((3, 2), np.float32))
    assert workspace._readable(tmp_path / "features.npy")


def test_without_privacy_trials_have_no_noise_and_clip_nothing(tmp_path, monkeypatch):
    seen: list[tuple[PeftEnsemble, tuple[float, float]]] = []

    def tune(
        learner: PeftEnsemble, *arguments: object, clip_norms: tuple[float, float], **rest: object
    ) -> PeftEnsemble:
        seen.append((learner, clip_norms))
        return learner

    monkeypatch.setattr(workspace, "tune_uncounted", tune)
    place = Workspace(tmp_path, tmp_path)

    def settings(run: Run, peft: PeftEnsemble) -> PeftEnsemble:
        return place.tuned(run, peft, [], np.array([]))

    for epsilon in (None, 8.0):
        run = a_run(learner="peft-paper", epsilon=epsilon)
        learner_of(run, 100, partial(settings, run))
    (bare, fixed), (private, searched) = seen
    noise = [one.calibrate(events.Public(), BUDGET, rate=0.1, steps=10).noise_multiplier for one in (bare, private)]
    assert noise[0] < 1e-5 < 0.1 < noise[1]
    assert fixed == (bare.clip_norm, bare.clip_norm)
    assert (bare.clip_norm or 0) > 10
    assert searched == CLIP_NORMS
    assert len(list((tmp_path / "tuned").glob("*.json"))) == 2
