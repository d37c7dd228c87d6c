"""Known labels of any number beside labels that become known: the law of the code, and that of the dense release."""

import dataclasses
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binomtest, ks_2samp

from reticent import errors
from reticent.gate import grid, sparse_joint
from reticent.gate.label_sums import LabelSums
from reticent.gate.mechanisms import JointGaussian
from reticent.gate.noise import NoiseSource
from reticent.gate.sparse import SparseGaussian, Tail, exceeds
from reticent.gate.sparse_joint import SparseJoint, SparseJointSums, SparseNoisySums
from reticent.numerics import precision
from reticent.privacy import events, selection
from reticent.testing import check_mechanism
from tests.conftest import ALPHA
from tests.gate.noise.test_source import rounded_pmf
from tests.gate.told import Told

Ints = npt.NDArray[np.int64]
WEIGHT = 0.2


def joint(sigma: float, space: int, *, threshold: float = 3.0, **kept: Any) -> SparseJoint:
    """Noise of so many grid steps."""
    event = events.JointGaussian(noise_multiplier=sigma / grid.SCALE, count_weight=WEIGHT, threshold=threshold)
    noise = events.Gaussian(noise_multiplier=sigma / grid.SCALE)
    return SparseJoint(event, SparseGaussian(noise, space, **kept))


def sums(rows: list[int], known: Any, counts: Any = (), vectors: Any = None, width: int = 1) -> SparseJointSums:
    blocks = np.array(known, np.int64).reshape(len(rows), width)
    mine = np.zeros((len(counts), width), np.int64) if vectors is None else np.array(vectors, np.int64)
    names = tuple(f"new {i}" for i in range(len(counts)))
    exact = LabelSums(blocks, names, np.array(counts, np.int64), mine, WEIGHT)
    return SparseJointSums(np.array(rows, np.int64), exact)


# --- exactly: all that the code can draw, each with its chance


class Tree(NoiseSource):
    """Takes one branch after the other at every draw, and knows how likely the branches taken so far are.

    Run a mechanism until `next` says that there is no other branch: the chances of all outcomes are its law. Noise far
    out, with a chance below 1e-7, is left out.
    """

    def __init__(self) -> None:
        super().__init__(seed=0)
        self._path: list[int] = []
        self._sizes: list[int] = []
        self.chance = 1.0
        self._known: dict[Any, float] = {}

    def next(self) -> bool:
        while self._path and self._path[-1] + 1 == self._sizes[len(self._path) - 1]:
            self._path.pop()
        if not self._path:
            return False
        self._path[-1] += 1
        self._begin()
        return True

    def _begin(self) -> None:
        self._sizes, self.chance, self._at = self._sizes[: len(self._path)], 1.0, 0

    _at = 0

    def _take(self, chances: Any) -> int:
        if self._at == len(self._path):
            self._path.append(0)
            self._sizes.append(len(chances))
        taken = self._path[self._at]
        self._at += 1
        self.chance *= float(chances[taken])
        return taken

    def rounded_gaussian(self, sigma, shape):
        far = math.ceil(4.6 * sigma)
        values = np.arange(-far, far + 1)
        chances = rounded_pmf(values, sigma)
        out = np.empty(shape, np.int64)
        out.reshape(-1)[:] = [values[self._take(chances)] for _ in range(out.size)]
        return out

    def _exactly(self, key: Any, chance: Callable[[Any], Any]) -> float:
        if key not in self._known:
            with precision.bits(128) as mp:
                self._known[key] = float(chance(mp))
        return self._known[key]

    def successes(self, n, chance):
        p = self._exactly(chance.__self__, chance)
        return np.array([place for place in range(n) if self._take([1 - p, p])], np.int64)

    def below(self, low, high, exact):
        coins = []
        for index in range(len(low)):
            p = self._exactly((low[index], high[index]), functools.partial(exact, index))  # one for each |k|
            assert low[index] <= p <= high[index]
            coins.append(self._take([1 - p, p]) == 1)
        return np.array(coins, np.bool_)


def outcome(drawn: SparseNoisySums) -> tuple[Any, ...]:
    known, new = drawn.known, drawn.new
    return tuple(known.rows.tolist()), known.sums.tobytes(), new.released, new.counts.tobytes(), new.vectors.tobytes()


def law(run: Callable[[NoiseSource], SparseNoisySums]) -> dict[tuple[Any, ...], float]:
    tree, found = Tree(), defaultdict[tuple[Any, ...], float](float)
    more = True
    while more:
        drawn = run(tree)
        found[outcome(drawn)] += tree.chance
        more = tree.next()
    return found


def dense(mechanism: SparseJoint, value: SparseJointSums, rng: NoiseSource) -> SparseNoisySums:
    """The joint release of all known labels, as it is without a sparse path, and the rule after it."""
    known = mechanism.known
    everything = np.zeros((known.space, value.sums.known.shape[1]), np.int64)
    everything[value.rows] = value.sums.known
    drawn = JointGaussian(mechanism.event)(dataclasses.replace(value.sums, known=everything), rng=rng)
    limit = known.squared_threshold(everything.shape[1])
    kept = np.array([sum(k * k for k in block) > limit for block in drawn.known.tolist()], np.bool_)
    if known.first_edge is not None:
        kept |= np.abs(drawn.known[:, 0]) > known.first_edge
    if known.kept_before is not None:
        kept[known.kept_before] = True
    blocks = sparse_joint.Kept(np.flatnonzero(kept), drawn.known[kept])
    return SparseNoisySums(blocks, dataclasses.replace(drawn, known=drawn.known[:0]))


def difference(a: dict[tuple[Any, ...], float], b: dict[tuple[Any, ...], float]) -> float:
    """Twice the total variation."""
    return sum(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in {*a, *b})


def small_cases() -> Iterator[tuple[SparseJoint, SparseJointSums]]:
    """Blocks are kept from 4 grid steps on, of noise of one grid step: proposals are wider, and some are refused."""
    mechanism = joint(1.0, 2, share=0.002)
    yield mechanism, sums([1], [[3]])
    yield mechanism, sums([], [])
    yield joint(1.0, 2, share=0.002, kept_before=np.array([0])), sums([1], [[-2]])
    step = selection.count_step(WEIGHT)
    yield joint(1.0, 1, share=0.002, threshold=2 - 1 / step), sums([], [], [2], [[2]])


@pytest.mark.parametrize(("mechanism", "value"), list(small_cases()))
def test_the_law_of_the_code_is_that_of_the_dense_joint_release(mechanism, value):
    assert Tail(1.0, 1, mechanism.known.squared_threshold(1)).wide > 1.0
    ours = law(lambda rng: mechanism(value, rng=rng))
    theirs = law(lambda rng: dense(mechanism, value, rng))
    assert sum(ours.values()) == pytest.approx(1, abs=1e-6)
    assert difference(ours, theirs) < 1e-6
    assert len(ours) > 10


class Unlikely(Tail):
    """Labels get proposals a tenth less often."""

    def chance(self, mp):
        return super().chance(mp) * 0.9

    def _accept(self, blocks, rng):
        return Tail(self.sigma, self.width, self.squared)._accept(blocks, rng)


def test_a_law_that_is_slightly_wrong_is_seen(monkeypatch):
    """One block in five hundred is kept, a tenth of them are missing: the enumeration is exact enough to tell."""
    mechanism, value = next(small_cases())
    theirs = law(lambda rng: dense(mechanism, value, rng))
    monkeypatch.setattr("reticent.gate.sparse.Tail", Unlikely)
    assert difference(law(lambda rng: mechanism(value, rng=rng)), theirs) > 1e-5


# --- at the real size of the noise, and with more coordinates


def features(drawn: list[SparseNoisySums], space: int) -> list[npt.NDArray[np.float64]]:
    """Of known blocks, with and without examples: number, norm, first coordinate; of new labels: counts and sums."""
    rows = np.concatenate([one.known.rows for one in drawn])
    blocks = np.concatenate([one.known.sums for one in drawn]).astype(np.float64)
    new = np.concatenate([one.new.vectors for one in drawn]).astype(np.float64)
    found = []
    for part in (0, 1):  # even rows have examples
        mine = blocks[rows % 2 == part]
        found += [np.sum(mine**2, axis=1), mine[:, 0], mine[:, 1:].sum(axis=1), rows[rows % 2 == part] / space]
    return [*found, new[:, 0], np.concatenate([one.new.counts for one in drawn])]


def same_law(ours: list[SparseNoisySums], theirs: list[SparseNoisySums], space: int) -> bool:
    pairs = list(zip(features(ours, space), features(theirs, space), strict=True))
    checks = [binomtest(len(a), len(a) + len(b), 0.5).pvalue for a, b in pairs if len(a) + len(b)]
    checks += [ks_2samp(a, b).pvalue for a, b in pairs if len(a) and len(b)]
    return min(checks) >= ALPHA / len(checks)


SPACE, WIDTH, SIGMA = 1_000, 6, 3.73 * grid.SCALE


def mixed() -> SparseJointSums:
    """Each second known label has examples, and two hundred labels that nobody knows have four each."""
    rows = list(range(0, SPACE, 2))
    known = np.tile(np.array([5, 0, 0, 1, 0, 0]) * grid.SCALE, (len(rows), 1))
    return sums(rows, known, [4] * 200, np.full((200, WIDTH), grid.SCALE), width=WIDTH)


def mechanism(**more: Any) -> SparseJoint:
    return joint(SIGMA, SPACE, share=0.1, kept_before=np.arange(0, SPACE, 5), **more)


@pytest.mark.parametrize("first", [0.0, 0.1])
def test_sparse_and_dense_joint_releases_have_one_distribution(first, rng):
    made, value = mechanism(first_share=first), mixed()
    ours = [made(value, rng=rng) for _ in range(20)]
    theirs = [dense(made, value, rng) for _ in range(20)]
    assert same_law(ours, theirs, SPACE)
    for drawn in ours:
        assert set(range(0, SPACE, 5)) <= set(drawn.known.rows.tolist())
        assert np.all(np.diff(drawn.known.rows) > 0)


class ByExactSums(SparseJoint):
    """Labels with examples are kept, whatever their noise: the side-channel in another place."""

    def __call__(self, value, *, rng):
        told = np.union1d(self.known.kept_before, value.rows)
        return SparseJoint(self.event, dataclasses.replace(self.known, kept_before=told))(value, rng=rng)


class LessNoise(SparseJoint):
    """Known labels have four fifths of the noise."""

    def __call__(self, value, *, rng):
        less = events.Gaussian(noise_multiplier=0.8 * self.event.noise_multiplier)
        known = dataclasses.replace(self.known, event=less)
        drawn = SparseJoint(self.event, self.known)(value, rng=rng)
        kept = known(sparse_joint.SparseSums(value.rows, value.sums.known), rng=rng)
        return dataclasses.replace(drawn, known=kept)


class OnlyExamples(SparseJoint):
    """Labels without examples have no noise at all."""

    def __call__(self, value, *, rng):
        drawn = SparseJoint(self.event, self.known)(value, rng=rng)
        there = np.isin(drawn.known.rows, value.rows)
        return dataclasses.replace(drawn, known=sparse_joint.Kept(drawn.known.rows[there], drawn.known.sums[there]))


TWINS = [ByExactSums, LessNoise, OnlyExamples]


@pytest.mark.parametrize("twin", TWINS)
def test_broken_sparse_joints_are_rejected(twin, rng):
    real, value = mechanism(), mixed()
    theirs = [dense(real, value, rng) for _ in range(20)]
    broken = twin(real.event, real.known)
    assert not same_law([broken(value, rng=rng) for _ in range(20)], theirs, SPACE)


def test_one_example_of_a_known_label_changes_no_support(rng):
    """One example, half as long as the noise: its label is kept hardly more often than the others."""
    made = joint(2 * grid.SCALE, 4_000, share=0.05)
    rows = list(range(0, 4_000, 2))
    value = sums(rows, np.tile([grid.SCALE, 0, 0], (len(rows), 1)), width=3)
    kept = np.concatenate([made(value, rng=rng).known.rows for _ in range(5)])
    with_one, without = int(np.sum(kept % 2 == 0)), int(np.sum(kept % 2))
    assert binomtest(without, 10_000, 0.05).pvalue >= ALPHA
    assert 0 < with_one < 10_000 * 0.15


# --- by formula, by statistics, by attack: as for every label mechanism


def real(budget_noise: float = 3.73) -> SparseJoint:
    event = events.JointGaussian(noise_multiplier=budget_noise, count_weight=WEIGHT, threshold=30.0)
    known = SparseGaussian(events.Gaussian(noise_multiplier=budget_noise), 400_000, share=0.2)
    return SparseJoint(event, known)


def test_the_sparse_joint_release_conforms():
    check_mechanism(real(), trials=2_000)


class ExactOnceKept(SparseJoint):
    """Publishes the exact sums of blocks whose noisy sums are kept."""

    def __call__(self, value, *, rng):
        drawn = SparseJoint(self.event, self.known)(value, rng=rng)
        exact = np.zeros((self.known.space, value.sums.known.shape[1]), np.int64)
        exact[value.rows] = value.sums.known
        kept = sparse_joint.Kept(drawn.known.rows, exact[drawn.known.rows])
        return dataclasses.replace(drawn, known=kept)


class ThresholdOnly(SparseJoint):
    """New labels pass as if the threshold were ten examples lower."""

    def __call__(self, value, *, rng):
        lower = dataclasses.replace(self.event, threshold=self.event.threshold - 10)
        return SparseJoint(lower, self.known)(value, rng=rng)


@pytest.mark.parametrize("twin", [ByExactSums, ExactOnceKept, ThresholdOnly])
def test_broken_sparse_joints_do_not_conform(twin):
    made = real()
    known = dataclasses.replace(made.known, kept_before=np.zeros(0, np.int64))
    with pytest.raises(AssertionError):
        check_mechanism(twin(made.event, known), trials=2_000)


# --- what is refused, and what is drawn


def test_the_noise_of_known_labels_is_that_of_the_event():
    event = real().event
    with pytest.raises(errors.InvalidValue, match="noise of the event"):
        SparseJoint(event, SparseGaussian(events.Gaussian(noise_multiplier=3.7), 10))


def test_sums_for_another_event_are_refused_before_a_draw():
    value = sums([0], [[1]])
    other = SparseJointSums(value.rows, dataclasses.replace(value.sums, count_weight=0.1))
    with pytest.raises(errors.InvalidValue, match="count weight"):
        joint(1000.0, 5)(other, rng=Told())


def test_what_is_drawn_is_what_is_published():
    """Small spaces keep every block: new labels by their slots first, then known ones with their noise."""
    step = selection.count_step(WEIGHT)
    made = joint(4.0 * grid.SCALE, 3, threshold=3.0, kept_before=np.array([1]))
    gate = math.ceil(3.0 * step)
    value = sums([1, 2], [[10, 20], [30, 40]], [3, 3], [[1, 2], [3, 4]], width=2)
    source = Told(0, [gate + 1 - 3 * step, gate - 3 * step], [[100, 200]], [[1, 2], [3, 4]], [[5, 6]])
    drawn = made(value, rng=source)
    assert drawn.new.released == ("new 0",)
    assert drawn.new.vectors.tolist() == [[101, 202]]
    assert drawn.new.known.shape == (0, 2)
    assert drawn.known.rows.tolist() == [0, 1, 2]
    assert drawn.known.sums.tolist() == [[5, 6], [11, 22], [33, 44]]
    assert [shape for _, shape in source.asked] == [(0, 2), (2,), (1, 2), (2, 2), (1, 2)]
    assert {sigma for sigma, _ in source.asked} == {4.0 * grid.SCALE}
    assert made.release_probability([0, 3]).tolist() == JointGaussian(made.event).release_probability([0, 3]).tolist()


def test_sparse_sums_of_a_task_are_opaque():
    assert repr(sums([0], [[7]])) == "SparseJointSums(<sensitive>)"
    assert exceeds(np.array([[7]]), 48).tolist() == [True]
