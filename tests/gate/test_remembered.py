from collections.abc import Sequence

import numpy as np
import pytest

from reticent import errors
from reticent.gate import grid, label_sums
from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import FINE, Entry, RememberedRows, RememberedSums, StreamSums
from reticent.labels import Label, LabelSpace
from reticent.privacy import events

WIDTH = 3
PUBLIC = events.Remembered(noise_multiplier=2.0, epoch=1, horizon=12)
GATHERED = events.Remembered(noise_multiplier=2.0, epoch=1, horizon=12, count_weight=0.2, deviations=5.5)
QUIET = events.Remembered(noise_multiplier=1e-12, epoch=1, horizon=12, count_weight=0.2, deviations=5.5)


def task(labels: Sequence[str], known: Sequence[Label] = (), weight: float = 0.2) -> label_sums.LabelSums:
    features = np.random.default_rng(0).normal(size=(len(labels), WIDTH))
    return label_sums.sum_by_label(features, labels, known=LabelSpace(tuple(known)), count_weight=weight)


def learn(
    event: events.Remembered, tasks: Sequence[Sequence[str]], known: tuple[Label, ...] = ()
) -> tuple[list[RememberedRows], list[Entry]]:
    """Runs tasks, lists of labels, one after another: what is published of each, and the entries."""
    rng, gathered = NoiseSource.from_os(), frozenset[Label]()
    past: list[Entry] = []
    seen: list[RememberedRows] = []
    for labels in tasks:
        mechanism = RememberedSums(event, LabelSpace(known), gathered)
        drawn = mechanism(StreamSums(task(labels, known, event.count_weight), tuple(past), len(past) + 1), rng=rng)
        past.append(drawn.entry)
        seen.append(drawn)
        known, gathered = known + drawn.released, gathered | set(drawn.released)
    return seen, past


def test_rows_are_sums_by_the_matrix():
    seen, past = learn(QUIET, [["a", "b"], [], ["a", "c", "a"]], known=("a", "b"))
    c = QUIET.correlation.coefficients
    a = [entry.sums[entry.labels.index("a"), 1:] if "a" in entry.labels else 0 for entry in past]
    assert (seen[2].known[0] == c[0] * a[2] + c[1] * a[1] + c[2] * a[0]).all()
    assert (seen[1].known[1] == c[1] * past[0].sums[1, 1:]).all()
    assert seen[2].place == 3


def test_earlier_rows_are_published_in_retrospect():
    """Three examples are beyond one example and 5.5 deviations of hardly any noise; one is not."""
    seen, past = learn(QUIET, [["new"], [], ["new", "new"], ["new"]])
    assert [drawn.released for drawn in seen] == [(), (), ("new",), ()]
    c, x = QUIET.correlation.coefficients, [entry.sums[0, 1:] if entry.labels else 0 for entry in past]
    assert (seen[2].earlier[0] == np.stack([c[0] * x[0], c[1] * x[0]])).all()
    assert (seen[2].vectors[0] == c[0] * x[2] + c[2] * x[0]).all()
    assert (seen[3].known[0] == c[0] * x[3] + c[1] * x[2] + c[3] * x[0]).all()
    assert [entry.known for entry in past] == [(False,), (), (False,), (True,)]


def test_labels_that_become_public_are_published_like_absent_ones():
    _, past = learn(QUIET, [["new"], ["new"][:0]])
    known = LabelSpace(("new",))
    drawn = RememberedSums(QUIET, known)(StreamSums(task([], known.labels), past, 3), rng=NoiseSource.from_os())
    assert (drawn.known == 0).all()
    kept = RememberedSums(QUIET, known, frozenset({"new"}))
    assert kept(StreamSums(task([], known.labels), past, 3), rng=NoiseSource.from_os()).known.any()


def test_entries_are_opaque():
    _, (entry,) = learn(GATHERED, [["secret"]])
    assert repr(entry) == "Entry(<sensitive>)"
    with pytest.raises(errors.InvalidValue, match="key of 32 bytes"):
        Entry(1, b"short", (), np.zeros((0, 4), np.int64), ())


def test_an_epoch_ends_at_its_horizon():
    short = events.Remembered(noise_multiplier=2.0, epoch=1, horizon=1)
    with pytest.raises(errors.InvalidValue, match="no place left"):
        learn(short, [[], []])
    assert grid.SCALE * 256 == FINE
    assert PUBLIC.horizon > short.horizon
