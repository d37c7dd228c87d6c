"""Accuracy on private test data."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent import encoders, errors
from reticent.gate import grid
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum
from reticent.gate.noise import NoiseSource
from reticent.labels import LabelSpace
from reticent.privacy import accounting, events
from reticent.released.model import Model
from reticent.released.release import Release
from reticent.released.sums import Sums
from reticent.sensitive import scoring

WIDTH = 64
BUDGET = rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=50)
FEATURES = np.random.default_rng(3).normal(size=(40, WIDTH))
LABELS = ["a", "b"] * 20


def trained(budget: rt.Budget = BUDGET) -> rt.ContinualClassifier:
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=budget)
    return model.learn_task(FEATURES, LABELS, name="march")


@pytest.fixture
def recorded(monkeypatch):
    """What happens, in order: "spend", or the exact sums that noise is drawn for."""
    seen: list[Any] = []

    class Recorded(GaussianSum):
        def __call__(self, sums: Any, *, rng: NoiseSource) -> Any:
            seen.append(sums.tolist())
            return super().__call__(sums, rng=rng)

    real = Ledger.spend

    def spend(*given: Any, **others: Any) -> int:
        seen.append("spend")
        return real(*given, **others)

    monkeypatch.setattr(scoring, "GaussianSum", Recorded)
    monkeypatch.setattr(Ledger, "spend", spend)
    return seen


def counted(
    seen: list[Any], model: rt.ContinualClassifier, x: Any, y: Sequence[object] | None, persons: Any = None
) -> tuple[int, int]:
    """Returns right answers and examples, as the mechanism was given them."""
    model.private_score(x, y, epsilon=0.01, name=f"test {len(seen)}", persons=persons)
    one = math.floor(grid.SCALE / math.sqrt(2))
    right, total = seen[-1]
    assert right % one == total % one == 0
    return right // one, total // one


def test_private_accuracy_spends_before_it_draws(recorded):
    model = trained()
    recorded.clear()
    model.private_score(FEATURES, LABELS, epsilon=0.1, name="test")
    assert [what if what == "spend" else "draw" for what in recorded] == ["spend", "draw"]
    with pytest.raises(errors.BudgetExceeded):
        model.private_score(FEATURES, LABELS, epsilon=30.0, name="too much")
    assert recorded[2:] == ["spend"]  # nothing was drawn for it


def test_private_accuracy_reads_a_source_after_the_spend(recorded):
    """Batch by batch, with the counts of arrays; persons are bounded over all batches."""
    model = trained(rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=50, examples_per_person=2))
    ids = [f"person {i % 15}" for i in range(len(LABELS))]
    expected = counted(recorded, model, FEATURES, LABELS, ids)
    spends: list[int] = []

    class Tells(rt.Batches):
        def __iter__(self) -> Any:
            spends.append(len(model.statement().spends))
            return super().__iter__()

    x = pa.FixedSizeListArray.from_arrays(pa.array(FEATURES.ravel()), WIDTH)
    batches = pa.table({"x": x, "y": LABELS, "who": ids}).to_batches(max_chunksize=7)
    before = len(model.statement().spends)
    assert counted(recorded, model, Tells(batches, features="x", label="y", person="who"), None) == expected
    assert expected[1] == 30
    assert spends == [before + 1]


def test_one_example_moves_the_sums_by_at_most_one(recorded):
    """The vector of one example, in units of the noise's grid."""
    model = trained()
    every = counted(recorded, model, FEATURES, LABELS)
    for i in range(8):
        without = [j for j in range(len(LABELS)) if j != i]
        fewer = counted(recorded, model, FEATURES[without], [LABELS[j] for j in without])
        right, total = every[0] - fewer[0], every[1] - fewer[1]
        assert (right, total) in ((0, 1), (1, 1))
        assert math.hypot(right, total) * math.floor(grid.SCALE / math.sqrt(2)) <= grid.SCALE


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_its_event_costs_what_was_asked_for(epsilon):
    """And half the noise costs more."""
    event = accounting.score(BUDGET, epsilon)
    assert accounting.epsilon(event, BUDGET.delta) == pytest.approx(epsilon, rel=1e-6)
    broken = events.Gaussian(noise_multiplier=event.noise_multiplier / 2)
    assert accounting.epsilon(broken, BUDGET.delta) > 1.5 * epsilon


def test_private_accuracy_raises_for_no_row(recorded):
    """One invalid cell, label or id changes only its own part of the counts: no error, no warning, no other row."""
    model = trained()
    right, total = counted(recorded, model, FEATURES[1:], LABELS[1:])
    extreme: list[Any] = [math.nan, math.inf, 1e300, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in extreme:
            rows = FEATURES.copy()
            rows[0] = value
            found = counted(recorded, model, rows, LABELS)
            assert found[0] - right in (0, 1)
            assert found[1] == total + 1
        for label, more in ((None, 0), (math.nan, 0), (object(), 0), (("a", "nested"), 1), ("never seen", 1)):
            assert counted(recorded, model, FEATURES, [label, *LABELS[1:]]) == (right, total + more)
        assert counted(recorded, model, FEATURES, LABELS, [None, *range(1, 40)]) == (right, total)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([list(row) for row in FEATURES[:2]], ["a", "b"]),
        ([[1.0, "secret"], [2.0]], ["a", "b"]),
        (np.array([["1.0", "secret"]]), ["a"]),
        (np.array([[1.0, "secret"]], dtype=object), ["a"]),
        (FEATURES[:, :5], LABELS),
        (FEATURES, LABELS[1:]),
    ],
    ids=["lists", "ragged lists", "texts", "objects", "another width", "fewer labels"],
)
def test_refusals_come_from_shapes_and_cost_nothing(x, y):
    model = trained()
    with pytest.raises(errors.InvalidValue, match=r"^Expected") as refused:
        model.private_score(x, y, epsilon=0.1, name="test")
    assert "secret" not in str(refused.value)
    assert [spend.task for spend in model.statement().spends] == ["march"]


def test_what_the_encoder_refuses_costs_nothing():
    encoder = encoders.wrap(np.asarray, width=WIDTH, name="same")
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=BUDGET, encoder=encoder)
    model.learn_task(list(FEATURES), LABELS, name="march")
    with pytest.raises(errors.InvalidValue, match=r"^Expected inputs that same can encode"):
        model.private_score(np.zeros((2, 3), dtype="M8[D]"), ["a", "b"], epsilon=0.1, name="test")
    assert [spend.task for spend in model.statement().spends] == ["march"]


@pytest.mark.parametrize(("limit", "kept"), [(1, 4), (3, 11)])
def test_private_accuracy_bounds_persons(recorded, limit, kept):
    """Four persons with 10 examples, 10, 17 and 2, one without an id."""
    model = trained(rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=50, examples_per_person=limit))
    persons = [*["x"] * 10, *["y"] * 10, *["z"] * 17, "v", "v", None]
    assert counted(recorded, model, FEATURES, LABELS, persons)[1] == kept
    (spend,) = [spend for spend in model.statement().spends if spend.task != "march"]
    assert spend.event.examples_per_person == limit  # type: ignore[attr-defined]


def test_answers_depend_on_their_example_alone():
    """Examples halfway between two labels, so that the last bit decides: the same answer at every position."""
    draw = np.random.default_rng(5)
    sums = draw.normal(size=(30, 384)).astype(np.float32) * 1000
    release = Release(
        task="march",
        labels=LabelSpace(()),
        parameters={"rows": np.arange(30, dtype=np.int32), "sums": sums, "noise": np.ones(30, np.float32)},
        event=events.Gaussian(noise_multiplier=1.0),
        private=True,
    )
    model = Model(LabelSpace(tuple(f"{i}" for i in range(30))), Sums(), (release,))
    a, b = (row / np.linalg.norm(row) for row in model._scorer.score(np.eye(384)).T[:2].astype(np.float64))
    ties = a + b + 0.1 * draw.normal(size=(300, 384))
    ties -= ((ties @ (a - b)) / np.square(a - b).sum())[:, None] * (a - b)
    alone = [int(model.answers(tie[None], None)[0]) for tie in ties]
    assert {0, 1} == set(alone)
    for shift in (1, 2, 3, 5, 8, 13):
        before = draw.normal(size=(shift, 384))
        assert model.answers(np.concatenate([before, ties]), None)[shift:].tolist() == alone
