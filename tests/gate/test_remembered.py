import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
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


def sums(entry: Entry) -> npt.NDArray[np.int64]:
    return entry.vectors[np.arange(len(entry.labels))]


def test_rows_are_sums_by_the_matrix():
    seen, past = learn(QUIET, [["a", "b"], [], ["a", "c", "a"]], known=("a", "b"))
    c = QUIET.correlation.coefficients
    a = [sums(entry)[entry.labels.index("a")] if "a" in entry.labels else 0 for entry in past]
    assert (seen[2].known[0] == c[0] * a[2] + c[1] * a[1] + c[2] * a[0]).all()
    assert (seen[1].known[1] == c[1] * sums(past[0])[1]).all()
    assert seen[2].place == 3


def test_earlier_rows_are_published_in_retrospect():
    """Three examples are beyond one example and 5.5 deviations of hardly any noise; one is not."""
    seen, past = learn(QUIET, [["new"], [], ["new", "new"], ["new"]])
    assert [drawn.released for drawn in seen] == [(), (), ("new",), ()]
    c, x = QUIET.correlation.coefficients, [sums(entry)[0] if entry.labels else 0 for entry in past]
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
        Entry(1, b"short", (), np.zeros(0, np.int64), np.zeros((0, 3), np.int64), 3, ())


def test_an_epoch_ends_at_its_horizon():
    short = events.Remembered(noise_multiplier=2.0, epoch=1, horizon=1)
    with pytest.raises(errors.InvalidValue, match="no place left"):
        learn(short, [[], []])
    assert grid.SCALE * 256 == FINE
    assert PUBLIC.horizon > short.horizon


class Asked(NoiseSource):
    """Notes what was asked for."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.asked: list[tuple[int, float, int]] = []

    def rounded_gaussians(self, keys, sigma, width):
        self.asked.append((len(keys), sigma, width))
        return super().rounded_gaussians(keys, sigma, width)

    def rounded_words(self, words, sigma, more):
        self.asked.append((len(words), sigma, 1))
        return super().rounded_words(words, sigma, more)


def test_an_empty_task_is_a_row_like_any_other():
    """Of public labels nothing that is asked for, and no shape, depends on the examples."""
    known, found = ("a", "b"), []
    for labels in ([], ["a"], ["a", "b", "a", "unheard of"]):
        rng = Asked()
        mechanism = RememberedSums(PUBLIC, LabelSpace(known))
        drawn = mechanism(StreamSums(task(labels, known, 0.0), (), 1), rng=rng)
        found.append((drawn.place, drawn.known.shape, drawn.vectors.shape, drawn.earlier.shape, rng.asked))
        assert (drawn.known != 0).all()
    assert found[0] == found[1] == found[2]
    assert found[0][-1][0] == (2, PUBLIC.noise * FINE, WIDTH)


def test_rows_are_exact_for_many_examples():
    """2^33 examples of one label in one task, as many as sums are exact for, and the same again."""
    many = 1 << 33
    sums = label_sums.LabelSums(
        np.array([[many * grid.SCALE, -many * grid.SCALE, 7]]),
        (),
        np.zeros(0, np.int64),
        np.zeros((0, 3), np.int64),
        0.0,
    )
    mechanism = RememberedSums(events.Remembered(noise_multiplier=1e-12, epoch=1, horizon=12), LabelSpace(("a",)))
    first = mechanism(StreamSums(sums, (), 1), rng=NoiseSource.from_os())
    second = mechanism(StreamSums(sums, (first.entry,), 2), rng=NoiseSource.from_os())
    c = [int(x) for x in mechanism.event.correlation.coefficients[:2]]
    assert first.known[0].tolist() == [c[0] * many * 2**20, -c[0] * many * 2**20, c[0] * 7]
    assert second.known[0].tolist() == [sum(c) * many * 2**20, -sum(c) * many * 2**20, sum(c) * 7]


def test_looks_are_exact_for_many_examples():
    """Products of weights and noisy counts exceed 64 bits: they are whole numbers of any size."""
    many = 1 << 33
    counts, vectors = np.array([many, 1]), np.zeros((2, 1), np.int64)
    sums = label_sums.LabelSums(np.zeros((0, 1), np.int64), ("common", "rare"), counts, vectors, 0.2)
    past: list[Entry] = []
    for t in range(3):
        drawn = RememberedSums(GATHERED, LabelSpace(()))(StreamSums(sums, past, t), rng=NoiseSource.from_os())
        assert "common" in drawn.released
        past.append(drawn.entry)


def test_published_noise_is_the_noise_that_was_looked_at():
    """Rows in retrospect are drawn again from the same keys; other epochs, tasks and labels have other noise."""
    rng, known = NoiseSource.from_os(), LabelSpace(())
    loud = events.Remembered(noise_multiplier=2.0, epoch=1, horizon=12, count_weight=0.2, deviations=1.0)
    many = task(["a", "b"] * 400)
    first = RememberedSums(loud, known)(StreamSums(many, (), 1), rng=rng)
    again = RememberedSums(loud, known)(StreamSums(many, (first.entry,), 2), rng=rng)
    assert first.released == again.released == ("a", "b")
    assert (again.earlier[:, 0] == first.vectors).all()
    other = RememberedSums(events.Remembered(**{**vars(loud), "epoch": 2}), known)
    assert not (other(StreamSums(many, (first.entry,), 2), rng=rng).earlier[:, 0] == first.vectors).any()
    noise = first.vectors - 256 * sums(first.entry)
    assert len(np.unique(noise)) == noise.size


def test_a_task_that_was_never_published_leaves_nothing_behind():
    """Its row and column leave the matrix: what follows is what would have been without it."""
    seen, past = learn(QUIET, [["a"], ["a", "b"], ["b"]], known=("a", "b"))
    without = RememberedSums(QUIET, LabelSpace(("a", "b")))
    drawn = without(StreamSums(task(["b"], ("a", "b")), (past[0],), 3), rng=NoiseSource.from_os())
    assert drawn.place == 2
    c = QUIET.correlation.coefficients
    assert (drawn.known[0] == c[1] * sums(past[0])[0]).all()
    assert not (drawn.known == seen[2].known).all()


def test_sums_for_another_weight_are_refused():
    with pytest.raises(errors.InvalidValue, match="count weight of the mechanism"):
        RememberedSums(PUBLIC, LabelSpace(("a",)))(StreamSums(task([], ("a",)), (), 1), rng=NoiseSource.from_os())


def test_without_a_count_weight_no_label_becomes_known():
    """A threshold of zero deviations is exceeded by noise every other time: of this task, and of one before."""
    known, rng = LabelSpace(("a",)), NoiseSource.from_os()
    vectors = np.ones((1, WIDTH), np.int64)
    value = label_sums.LabelSums(np.zeros((1, WIDTH), np.int64), ("secret",), np.array([1]), vectors, 0.0)
    for _ in range(30):
        first = RememberedSums(PUBLIC, known)(StreamSums(value, (), 1), rng=rng)
        second = RememberedSums(PUBLIC, known)(StreamSums(task([], ("a",), 0.0), (first.entry,), 2), rng=rng)
        assert first.released == second.released == ()


class OnDemand:
    """Sums that note which of them were read."""

    def __init__(self, sums) -> None:
        self.sums, self.read = sums, list[int]()

    def __getitem__(self, rows):
        self.read += rows.tolist()
        return self.sums[rows]


def test_sums_of_pending_labels_are_not_read():
    """Only those of known labels, and once those of labels that become known."""
    _, past = learn(QUIET, [["a", "b", "c"], ["a"], []], known=("a",))
    stored = [OnDemand(entry.vectors) for entry in past]
    lazy = [dataclasses.replace(entry, vectors=vectors) for entry, vectors in zip(past, stored, strict=True)]
    value = StreamSums(task(["b"], ("a",)), lazy, 4)
    drawn = RememberedSums(QUIET, LabelSpace(("a",)))(value, rng=NoiseSource.from_os())
    plain = RememberedSums(QUIET, LabelSpace(("a",)))(dataclasses.replace(value, past=past), rng=NoiseSource.from_os())
    assert drawn.released == plain.released == ("b",)
    assert (drawn.earlier == plain.earlier).all()
    read = [[entry.labels[row] for row in vectors.read] for entry, vectors in zip(past, stored, strict=True)]
    assert [sorted(map(str, labels)) for labels in read] == [["a", "b"], ["a"], []]
