"""What fails while private rows are read: one sentence, the same for everything, with nothing chained to it."""

import gc
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.gate.noise import NoiseSource
from reticent.released.sums import Sums
from reticent.sensitive.tuning import tune_privately
from tests.cli.command import EACH, refused, reticent

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
CANARY = "I20.9 of patient 4711"
DATA = np.eye(2), ["a", CANARY]


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


@dataclass(frozen=True)
class Failing:
    """A learner of one's own that fails at some point, as rows make it."""

    error: BaseException
    after_spend: bool = True
    rule: Sums = Sums()  # noqa: RUF009 (a frozen value)

    def learn_task(self, task: Any, policy: Any, *, known: Any, encoder: Any, gate: Any, past: Any = ()) -> Any:
        row = gate.admit(task).labels[1]
        if self.after_spend:
            gate.spend(policy.sums(gate.budget), task=task.name)
        try:
            raise KeyError(row)  # what a failure is chained to tells as much as the failure
        except KeyError:
            raise self.error  # noqa: B904


def classifier(learner: Any = None, *, noise: NoiseSource | None = None, path: Path | None = None) -> Any:
    labels = rt.PublicLabels(["a", "b"])
    return rt.ContinualClassifier(labels=labels, learner=learner, budget=BUDGET, noise=noise, path=path)


FAILURES = [
    ValueError(CANARY),
    MemoryError("Unable to allocate 153. MiB for an array with shape (1001, 20000)"),
    RuntimeError("CUDA out of memory. Tried to allocate 4321 MiB."),
    UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, "invalid"),
    OSError(5, "Input/output error", CANARY),
    AssertionError(),
    StopIteration(CANARY),
    ExceptionGroup(CANARY, [ValueError(CANARY)]),
]


def failure_of(call: Callable[[], object]) -> errors.LearningFailed:
    with pytest.raises(errors.LearningFailed) as caught:
        call()
    failure = caught.value
    assert failure.__context__ is None
    assert failure.__cause__ is None
    shown = "".join(traceback.format_exception(failure))
    assert CANARY not in shown
    assert "1001" not in shown
    reached = gc.get_referents(failure)
    assert [type(it).__name__ for it in reached if isinstance(it, BaseException)] == []
    return failure


@pytest.mark.parametrize("after_spend", [True, False])
@pytest.mark.parametrize("error", [*FAILURES, errors.InvalidValue(CANARY)], ids=lambda error: type(error).__name__)
def test_failures_that_depend_on_rows_are_one_sentence(error, after_spend):
    model = classifier(Failing(error, after_spend))
    if isinstance(error, errors.ReticentError) and not after_spend:  # a refusal, before anything is spent
        with pytest.raises(errors.InvalidValue):
            model.learn_task(*DATA, name="march")
    else:
        failure = failure_of(lambda: model.learn_task(*DATA, name="march"))
        assert str(failure) == str(errors.LearningFailed())
    assert len(model.statement().spends) == after_spend
    model.set_params(learner=rt.Cosine())
    assert model.learn_task(*DATA, name="april").releases  # the object is as before


def test_frames_of_private_code_are_not_in_the_traceback():
    failure = failure_of(lambda: classifier(Failing(ValueError(CANARY))).learn_task(*DATA, name="march"))
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(failure.__traceback__)]
    assert {"learn", "writer"} <= set(frames)
    assert str(pickle.loads(pickle.dumps(failure))) == str(failure)  # noqa: S301 (from a process of a pool)
    assert Failing.learn_task.__code__ not in [frame.f_code for frame, _ in traceback.walk_tb(failure.__traceback__)]


def test_seeded_noise_shows_the_cause():
    model = classifier(Failing(ValueError(CANARY)), noise=NoiseSource.seeded(0))
    with pytest.raises(ValueError, match=CANARY):
        model.learn_task(*DATA, name="march")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3)])
def test_interrupts_pass(stop):
    with pytest.raises(type(stop)):
        classifier(Failing(stop)).learn_task(*DATA, name="march")


def test_public_refusals_pass():
    model = classifier()
    model.learn_task(*DATA, name="march")
    with pytest.raises(errors.BudgetExceeded, match="in the ledger already"):
        model.learn_task(*DATA, name="march")
    with pytest.raises(errors.InvalidValue, match="Expected features of shape"):
        model.learn_task(["text"], ["a"], name="april")
    for refusal in (errors.NotPaidFor("not paid for"), errors.BudgetExceeded("too much")):  # of the gate, at any time
        with pytest.raises(type(refusal), match=str(refusal)):
            classifier(Failing(refusal)).learn_task(*DATA, name="march")


def test_a_full_disk_is_no_secret(tmp_path, monkeypatch):
    """Publishing reads releases alone: what fails there is told."""
    from reticent.released import store

    model = classifier(path=tmp_path)
    monkeypatch.setattr(store, "write_release", raising(errors.InvalidValue("Cannot write: No space left on device.")))
    with pytest.raises(errors.InvalidValue, match="No space left"):
        model.learn_task(*DATA, name="march")


def test_private_scores_fail_in_the_same_sentence(monkeypatch):
    model = classifier().learn_task(*DATA, name="march")
    monkeypatch.setattr("reticent.released.model.Model.answers", raising(MemoryError("(1001, 20000)")))
    failure = failure_of(lambda: model.private_score(*DATA, epsilon=0.1, name="test"))
    assert str(failure) == str(errors.LearningFailed())
    with pytest.raises(errors.InvalidValue, match="epsilon"):
        model.private_score(*DATA, epsilon=-1, name="test")


def test_private_tuning_fails_in_the_same_sentence(monkeypatch):
    model = classifier(rt.PeftEnsemble(task_size=10))
    monkeypatch.setattr("reticent.sensitive.tuning.trials.train", raising(MemoryError("(1001, 20000)")))

    def tune() -> None:
        with model.directory.writer() as gate:
            tune_privately(
                rt.PeftEnsemble(task_size=10),
                np.eye(2),
                ["a", CANARY],
                policy=model.labels,
                public_validation=(np.eye(2), ["a", "b"]),
                budget=BUDGET,
                gate=gate,
                name="tuning",
            )

    assert str(failure_of(tune)) == str(errors.LearningFailed())
    assert len(model.statement().spends) == 1


def test_settings_that_cannot_be_trained_with_are_refused_before_the_spend():
    model = classifier(rt.PeftEnsemble(clip_norm=1e31))
    with pytest.raises(errors.InvalidValue, match="clip_norm"):
        model.learn_task(*DATA, name="march")
    assert model.statement().spends == ()


CODE = f"""
from reticent import Cosine

class Mine(Cosine):
    def to_json(self):
        return {{"kind": "mine"}}

    def learn_task(self, task, policy, *, known, encoder, gate, past=()):
        task = gate.admit(task)
        gate.spend(policy.sums(gate.budget), task=task.name)
        raise ValueError(f"{CANARY} {{task.labels[0]}}")
"""


def test_the_command_line_says_the_same_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failing_code.py").write_text(CODE)
    (tmp_path / "labels.txt").write_text("a\nb\n")
    (tmp_path / "march.csv").write_text("x,y,code\n1,0,a\n0,1,b\n")
    again = ("--learner", "failing_code:Mine")
    words = (
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--tasks-per-person",
        "1",
        "--labels",
        "labels.txt",
        "--encoder",
        "none",
        *again,
    )
    assert reticent("init", "model", *words).returncode == 0
    columns = ("--features", "x,y", "--label", "code")
    said = refused(reticent("learn", EACH, "march.csv", "--model", "model", *columns, *again))
    assert said == f"Error: {errors.LearningFailed()}"
