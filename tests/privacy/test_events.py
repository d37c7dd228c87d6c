import dataclasses
import math

import pytest

from reticent import errors
from reticent.privacy import events, stored_events

COUNTS = events.LabelCounts(noise_multiplier=12.0, threshold=52.0)
ALL = [
    events.Public(),
    events.NonPrivate(),
    events.Gaussian(noise_multiplier=1.5),
    events.JointGaussian(noise_multiplier=3.7, count_weight=0.1, threshold=51.3, examples_per_person=2),
    events.TruncatedGeometric(epsilon=0.1, delta=1e-6),
    events.OptimalSelection(epsilon=0.1, delta=1e-6),
    events.LaplaceThreshold(epsilon=0.1, delta=1e-6),
    events.BinaryTest(epsilon=0.1, delta=1e-6),
    events.Exposure(chance=1e-6),
    events.DpSgd(noise_multiplier=1.1, rate=0.01, steps=500),
    COUNTS,
    events.LabelledTraining(counts=COUNTS, training=events.DpSgd(noise_multiplier=1.1, rate=0.01, steps=500)),
    events.PrivateSelection(run=events.compose(COUNTS, events.Gaussian(noise_multiplier=9.0)), eta=0.0, gamma=0.1),
    events.Remembered(noise_multiplier=3.7, epoch=2, tasks_per_person=2, examples_per_person=3),
    events.Remembered(noise_multiplier=3.7, epoch=1, eighths=3, horizon=60, count_weight=0.2, deviations=5.5),
    events.Composed((events.Public(), events.Gaussian(noise_multiplier=2.0))),
]


@pytest.mark.parametrize("event", ALL, ids=lambda e: type(e).__name__)
def test_events_survive_json(event):
    assert stored_events.from_json(stored_events.to_json(event)) == event
    assert hash(event) == hash(stored_events.from_json(stored_events.to_json(event)))


@pytest.mark.parametrize("event", ALL, ids=lambda e: type(e).__name__)
def test_events_are_frozen(event):
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.noise_multiplier = 0.0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: events.Gaussian(noise_multiplier=math.nan), "Expected noise_multiplier > 1e-100"),
        (lambda: events.Gaussian(noise_multiplier=math.inf), "Expected noise_multiplier > 1e-100"),
        (lambda: events.JointGaussian(noise_multiplier=1.0, count_weight=1.0, threshold=3.0), "count_weight < 1"),
        (lambda: events.JointGaussian(noise_multiplier=1.0, count_weight=0.1, threshold=math.inf), "threshold"),
        (lambda: events.DpSgd(noise_multiplier=1.0, rate=1.01, steps=3), "rate"),
        (lambda: events.DpSgd(noise_multiplier=1.0, rate=0.0, steps=3), "rate"),
        (lambda: events.DpSgd(noise_multiplier=1.0, rate=0.5, steps=0), "steps"),
        (lambda: events.OptimalSelection(epsilon=1.0, delta=0.0), "without a public superset"),
        (lambda: events.OptimalSelection(epsilon=1.0, delta=-0.1), "Expected delta > 0"),
        (lambda: events.LaplaceThreshold(epsilon=0.0, delta=0.1), "Expected epsilon > 0"),
        (lambda: events.DpSgd(noise_multiplier=1.0, rate=0.5, steps=1, examples_per_person=0), "examples_per_person"),
        (lambda: events.LabelCounts(noise_multiplier=1.0, threshold=math.nan), "threshold"),
        (lambda: events.LabelledTraining(counts=COUNTS, training=COUNTS), "training to be DpSgd"),  # type: ignore[arg-type]
        (
            lambda: events.LabelledTraining(
                counts=COUNTS, training=events.DpSgd(noise_multiplier=1.0, rate=0.5, steps=1, examples_per_person=2)
            ),
            "same number of examples",
        ),
        (lambda: events.PrivateSelection(run=COUNTS, eta=-1.0, gamma=0.5), "eta > -1"),
        (lambda: events.PrivateSelection(run=COUNTS, eta=0.0, gamma=0.0), "gamma"),
        (lambda: events.PrivateSelection(run=COUNTS, eta=0.0, gamma=1.0), "gamma < 1"),
        (lambda: events.PrivateSelection(run="tuning", eta=0.0, gamma=0.5), "run to be an event"),  # type: ignore[arg-type]
        (lambda: events.Composed([events.Public()]), "tuple of events"),  # type: ignore[arg-type]
        (lambda: events.Gaussian(noise_multiplier=1e-300), "Expected noise_multiplier > 1e-100"),
        (lambda: events.Gaussian(noise_multiplier=1.0, examples_per_person=10**400), "examples_per_person <= 100000"),
        (lambda: events.DpSgd(noise_multiplier=1.0, rate=0.5, steps=10**12), "steps <= 1000000, got a larger number"),
        (lambda: events.DpSgd(noise_multiplier=1e11, rate=0.5, steps=1), "noise_multiplier < 1e\\+06"),
    ],
)
def test_bad_events_are_refused(make, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        make()


def test_unknown_events_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Homemade(events.Event):
        pass

    with pytest.raises(errors.UnsupportedEvent, match="No ledger can store Homemade"):
        stored_events.to_json(Homemade())
    with pytest.raises(errors.UnsupportedEvent, match="no event of kind 'Telepathy'"):
        stored_events.from_json({"kind": "Telepathy"})
    with pytest.raises(errors.UnsupportedEvent, match="fields this version lacks"):
        stored_events.from_json({"kind": "Gaussian", "noise_multiplier": 1.0, "colour": "red"})


def test_stored_events_have_a_limited_size():
    """A file may hold anything: nothing that is nested or repeated without end is followed."""
    deep: object = {"kind": "Public"}
    for _ in range(500):
        deep = {"kind": "Composed", "parts": [deep]}
    wide = {"kind": "Composed", "parts": [{"kind": "Public"}] * 10_000}
    for endless in (deep, wide):
        with pytest.raises(errors.UnsupportedEvent, match="more parts than reticent ever writes"):
            stored_events.from_json(endless)
    for strange in (None, 3, "Public", [], [{"kind": "Public"}], {1: 2}):
        with pytest.raises(errors.UnsupportedEvent, match="not one that reticent wrote"):
            stored_events.from_json(strange)
