import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent import Budget, LabelSpace, errors
from reticent.gate import grid, label_sums
from reticent.gate.mechanisms import (
    STANDS_OUT,
    CountLabels,
    GaussianSum,
    JointGaussian,
    NoisySums,
    SelectLabels,
    number_of_runs,
)
from reticent.gate.noise import NoiseSource
from reticent.labels import Label
from reticent.numerics import precision
from reticent.privacy import events, planning, repeats, selection
from reticent.testing import check_mechanism
from tests.gate.noise.test_source import fits
from tests.gate.told import Told

BUDGET = Budget(epsilon=1.0, delta=1e-5)
KINDS = [events.TruncatedGeometric, events.OptimalSelection, events.LaplaceThreshold]
MECHANISMS = [SelectLabels(kind(epsilon=e, delta=1e-5)) for kind in KINDS for e in (0.1, 1.0, 8.0)]
JOINTS = [JointGaussian(planning.joint_gaussian(Budget(epsilon=e, delta=1e-5), 0.1)) for e in (0.1, 1.0, 8.0)]


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *JOINTS], ids=lambda m: repr(m.event)[:60])
def test_conformance(mechanism):
    check_mechanism(mechanism)


# --- broken twins: each must be caught by the same suite


@dataclasses.dataclass(frozen=True)
class OffByOne(SelectLabels):
    """The threshold of a class one larger."""

    def __call__(self, value, *, rng):
        return SelectLabels(self.event)({label: n + 1 for label, n in value.items() if n > 0}, rng=rng)


@dataclasses.dataclass(frozen=True)
class HalfTheNoise(SelectLabels):
    """Draws with twice the epsilon it claims."""

    def __call__(self, value, *, rng):
        return SelectLabels(dataclasses.replace(self.event, epsilon=2 * self.event.epsilon))(value, rng=rng)


@dataclasses.dataclass(frozen=True)
class HonestlyHalfTheNoise(HalfTheNoise):
    """The same, and its formula says so: only the divergence can tell."""

    def release_probability(self, sizes):
        return SelectLabels(dataclasses.replace(self.event, epsilon=2 * self.event.epsilon)).release_probability(sizes)


@dataclasses.dataclass(frozen=True)
class RawLabels(SelectLabels):
    """The side-channel itself."""

    def __call__(self, value, *, rng):
        return tuple(sorted((label for label, n in value.items() if n > 0), key=str))


@dataclasses.dataclass(frozen=True)
class DataOrder(SelectLabels):
    """Right labels in the order in which the data brought them."""

    def __call__(self, value, *, rng):
        released = set(super().__call__(value, rng=rng))
        return tuple(label for label in value if label in released)


@dataclasses.dataclass(frozen=True)
class OutOfNothing(SelectLabels):
    """Sometimes releases a label without examples."""

    def __call__(self, value, *, rng):
        absent = [label for label, n in value.items() if n == 0]
        return super().__call__(value, rng=rng) + tuple(absent[:1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("twin", [OffByOne, HalfTheNoise, HonestlyHalfTheNoise, RawLabels, DataOrder, OutOfNothing])
def test_broken_twin_is_caught(twin, kind):
    with pytest.raises(AssertionError):
        check_mechanism(twin(kind(epsilon=1.0, delta=1e-5)))


@pytest.mark.parametrize("kind", KINDS)
def test_audit_alone_catches_half_the_noise(kind):
    """The attack by itself, without looking at formulas: it passes the real one and rejects the twin."""
    from reticent.testing.mechanism_checks import _audit_labels, _drawer

    event = kind(epsilon=1.0, delta=1e-5)
    turn = selection.law(event).threshold
    rng = NoiseSource.from_os()
    _audit_labels(event, _drawer(SelectLabels(event), rng), 20_000, turn)
    with pytest.raises(AssertionError, match="attacker measures"):
        _audit_labels(event, _drawer(HalfTheNoise(event), rng), 20_000, turn)


def gaussian_like(n: int) -> float:
    """A test that is 1-DP from size 1 on: its odds grow by e at most."""
    return 1 / (1 + math.exp(12.0 - n))


def test_any_private_test_selects_labels():
    """The paper's generic construction with a test of our own; a test that is not private is caught."""
    good = SelectLabels.by_test(1.0, gaussian_like)
    assert good.event.delta == gaussian_like(1)
    check_mechanism(good)
    with pytest.raises(AssertionError, match="divergence"):
        check_mechanism(SelectLabels.by_test(1.0, lambda n: 1 / (1 + math.exp(2 * (12.0 - n)))))
    with pytest.raises(AssertionError, match="divergence"):
        check_mechanism(SelectLabels.by_test(1.0, lambda n: 0.9 if n > 5 else 1e-5))


@dataclasses.dataclass(frozen=True)
class HalfTheJointNoise(JointGaussian):
    def __call__(self, value, *, rng):
        real = dataclasses.replace(self.event, noise_multiplier=self.event.noise_multiplier / 2)
        return JointGaussian(real)(value, rng=rng)


@dataclasses.dataclass(frozen=True)
class NoGate(JointGaussian):
    """Publishes every label found, with noisy sums."""

    def __call__(self, value, *, rng):
        return JointGaussian(dataclasses.replace(self.event, threshold=-1e9))(value, rng=rng)


@dataclasses.dataclass(frozen=True)
class NoiseOnSumsOnly(JointGaussian):
    """Takes the threshold on the exact count."""

    def __call__(self, value, *, rng):
        kept = value.counts > self.event.threshold
        names = tuple(label for label, keep in zip(value.unknown, kept, strict=True) if keep)
        noisy = JointGaussian(self.event)(value, rng=rng)
        return dataclasses.replace(noisy, released=names, counts=value.counts[kept].astype(float))


@dataclasses.dataclass(frozen=True)
class ExactOnceReleased(JointGaussian):
    """Applies the threshold with noise, then publishes the exact sums."""

    def __call__(self, value, *, rng):
        noisy = JointGaussian(self.event)(value, rng=rng)
        rows = [value.unknown.index(label) for label in noisy.released] if len(noisy.released) < 50 else slice(None)
        return dataclasses.replace(noisy, counts=value.counts[rows].astype(float), vectors=value.vectors[rows])


@pytest.mark.parametrize("twin", [HalfTheJointNoise, NoGate, NoiseOnSumsOnly, ExactOnceReleased])
def test_broken_joint_twin_is_caught(twin):
    with pytest.raises(AssertionError):
        check_mechanism(twin(planning.joint_gaussian(BUDGET, 0.1)))


def test_audit_alone_catches_half_the_joint_noise():
    from reticent.testing.mechanism_checks import _audit_sums

    event = planning.joint_gaussian(BUDGET, 0.1)
    rng = NoiseSource.from_os()
    _audit_sums(JointGaussian(event), event, 400_000, rng)
    with pytest.raises(AssertionError, match="attacker measures"):
        _audit_sums(HalfTheJointNoise(event), event, 400_000, rng)


# --- what the docstrings promise


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: repr(m.event)[:40])
@given(counts=st.dictionaries(st.text(max_size=4) | st.integers(), st.integers(0, 300), max_size=12))
def test_absent_labels_are_never_released(mechanism, counts):
    released = mechanism(counts, rng=NoiseSource.from_os())
    assert all(counts[label] > 0 for label in released)


def joint_release(labels: Sequence[object], features: npt.NDArray[np.float64], known: tuple[Label, ...]) -> NoisySums:
    event = planning.joint_gaussian(BUDGET, 0.1)
    sums = label_sums.sum_by_label(features, labels, known=LabelSpace(known), count_weight=0.1)
    return JointGaussian(event)(sums, rng=NoiseSource.from_os())


def test_output_order_does_not_depend_on_the_data():
    labels = ["b"] * 300 + ["a"] * 300 + [3] * 300
    features = np.random.default_rng().normal(size=(900, 4))
    assert joint_release(labels, features, ()).released == (3, "a", "b")
    assert joint_release(labels[::-1], features[::-1], ()).released == (3, "a", "b")


def test_the_first_row_does_not_decide_how_a_label_is_written():
    features = np.ones((501, 1))
    for first in (1.0, True, np.int64(1)):
        released = joint_release([first, *[1] * 500], features, ()).released
        assert repr(released) == "(1,)"


def test_empty_task_releases():
    """No branch on emptiness: the same fields, shapes and types as any task."""
    empty = joint_release([], np.zeros((0, 4)), ("a", "b"))
    one = joint_release(["a"], np.ones((1, 4)), ("a", "b"))
    for field in dataclasses.fields(NoisySums):
        left, right = getattr(empty, field.name), getattr(one, field.name)
        assert type(left) is type(right)
        if isinstance(left, np.ndarray):
            assert (left.shape, left.dtype) == (right.shape, right.dtype)
    assert empty.known.any()  # pure noise, not zeros


def test_joint_sums_carry_the_noise_they_claim():
    event = planning.joint_gaussian(BUDGET, 0.1)
    width = 200_000
    sums = label_sums.sum_by_label(np.zeros((0, width)), [], known=LabelSpace(("a",)), count_weight=0.1)
    assert fits(JointGaussian(event)(sums, rng=NoiseSource.from_os()).known[0], event.noise_multiplier * grid.SCALE)
    plain = GaussianSum(events.Gaussian(noise_multiplier=2.0))(np.zeros(width, np.int64), rng=NoiseSource.from_os())
    assert fits(plain, 2.0 * grid.SCALE)


def test_released_vectors_and_counts_are_unbiased():
    features = np.tile([[0.6, 0.8]], (400, 1))
    drawn = [joint_release(["a"] * 400, features, ()) for _ in range(400)]
    event = planning.joint_gaussian(BUDGET, 0.1)
    a, sigma = math.sqrt(0.9), event.noise_multiplier
    mean = np.mean([r.vectors[0] for r in drawn], axis=0) / grid.SCALE
    np.testing.assert_allclose(mean, 400 * a * np.array([0.6, 0.8]), atol=6 * sigma / 20 + 0.01)
    counts = np.mean([r.counts[0] for r in drawn])
    assert counts == pytest.approx(400, abs=6 * sigma / math.sqrt(0.1) / 20)


def test_integer_threshold_is_never_below_the_real_one():
    """Pr[step + round(Z) > gate] <= p1, computed for the integers that are used."""
    from scipy.stats import norm

    for weight in (1e-4, 0.0036, 0.1, 0.7):
        event = planning.joint_gaussian(BUDGET, weight)
        step = selection.count_step(weight)
        gate = math.ceil(step * event.threshold)
        exposed = norm.sf((gate + 0.5 - step) / (event.noise_multiplier * grid.SCALE))
        assert exposed <= selection.GaussianLaw(event).exposures(1)[1]


def test_mismatched_weight_is_refused():
    sums = label_sums.sum_by_label(np.zeros((1, 2)), ["a"], known=LabelSpace(()), count_weight=0.2)
    with pytest.raises(errors.InvalidValue, match="count weight"):
        JointGaussian(planning.joint_gaussian(BUDGET, 0.1))(sums, rng=NoiseSource.from_os())


# --- exactly, with noise that the test chooses


def test_counts_must_exceed_the_threshold_on_the_grid():
    """At the threshold, rounded up to the grid, a label is not released; one step above it is."""
    counts = CountLabels(events.LabelCounts(noise_multiplier=10.3, threshold=45.3), known=("old", "quiet"))
    new, old = math.ceil(45.3 * grid.SCALE), math.ceil(STANDS_OUT * 10.3 * grid.SCALE)
    sizes: dict[Label, int] = {"new": 40, "old": 15, "above": 40, "seen": 0}
    at = [old - 15 * grid.SCALE, old + 1, new - 40 * grid.SCALE, new + 1 - 40 * grid.SCALE, new]
    source = Told(at)
    assert counts(sizes, rng=source) == ("above", "quiet")
    assert source.asked == [(10.3 * grid.SCALE, 5)]
    assert counts(sizes, rng=Told(np.add(at, [1, -1, 1, -1, 1]))) == ("new", "old", "seen")
    assert STANDS_OUT == 2.0


def test_sums_are_released_with_the_noise_that_was_drawn():
    source = Told([[1, -2], [3, 4]])
    value = np.array([[10, 20], [30, 40]])
    noisy = GaussianSum(events.Gaussian(noise_multiplier=2.5))(value, rng=source)
    assert noisy.tolist() == [[11, 18], [33, 44]]
    assert source.asked == [(2.5 * 2**20, (2, 2))]
    assert value.tolist() == [[10, 20], [30, 40]]


def test_joint_release_is_exact_at_its_threshold():
    """Slots at the threshold are kept back, one grid step above they are released with their own sums and noise."""
    event = events.JointGaussian(noise_multiplier=4.0, count_weight=0.1, threshold=3.3)
    step = selection.count_step(0.1)
    gate = math.ceil(3.3 * step)
    sums = label_sums.LabelSums(
        known=np.array([[5, 6]]),
        unknown=("b", "c", "a"),
        counts=np.array([3, 2, 1]),
        vectors=np.array([[1, 2], [3, 4], [5, 6]]),
        count_weight=0.1,
    )
    slots = np.array([gate + 1, gate, gate + 2]) - step * sums.counts
    source = Told([[100, 200]], slots, [[10, 20], [30, 40]])
    noisy = JointGaussian(event)(sums, rng=source)
    assert noisy.known.tolist() == [[105, 206]]
    assert noisy.released == ("a", "b")
    assert noisy.vectors.tolist() == [[15, 26], [31, 42]]
    assert noisy.counts.tolist() == [(gate + 2) / step, (gate + 1) / step]
    assert source.asked == [(4.0 * 2**20, (1, 2)), (4.0 * 2**20, (3,)), (4.0 * 2**20, (2, 2))]


def test_sums_of_larger_sensitivity_are_refused():
    event = events.JointGaussian(noise_multiplier=4.0, count_weight=0.1, threshold=3.0)
    nothing = np.zeros((0, 2), np.int64)
    for sensitivity, weight in ((grid.SCALE + 1, 0.1), (grid.SCALE, 0.2)):
        sums = label_sums.LabelSums(nothing, (), np.zeros(0, np.int64), nothing, weight, sensitivity)
        with pytest.raises(errors.InvalidValue, match="sensitivity one"):
            JointGaussian(event)(sums, rng=Told(0, 0, 0))
    exact = label_sums.LabelSums(nothing, (), np.zeros(0, np.int64), nothing, 0.1, grid.SCALE)
    assert JointGaussian(event)(exact, rng=Told(0, 0, 0)).released == ()


def test_a_test_goes_with_its_event_alone():
    event = events.OptimalSelection(epsilon=1.0, delta=1e-5)
    with pytest.raises(errors.InvalidValue, match="no test with any other"):
        SelectLabels(event, gaussian_like)
    binary = SelectLabels.by_test(1.0, gaussian_like).event
    with pytest.raises(errors.InvalidValue, match="Expected a test"):
        SelectLabels(binary)
    with pytest.raises(errors.InvalidValue, match="event of this test"):
        SelectLabels(dataclasses.replace(binary, delta=binary.delta / 2), gaussian_like)
    assert SelectLabels(binary, gaussian_like).event == binary


def test_the_number_of_runs_is_drawn_between_bounds_of_its_hazard():
    """One coin after each run, with bounds one float64 below and above the chance, which is given exactly beside."""
    event = events.PrivateSelection(run=events.Public(), eta=1.0, gamma=0.3)
    seen = []

    class Coins(NoiseSource):
        def below(self, low, high, exact):
            with precision.bits(200) as mp:
                seen.append((low.tolist(), high.tolist(), exact(0, mp)))
            return np.array([len(seen) == 3])

    assert number_of_runs(event, rng=Coins(seed=1)) == 3
    for k, (low, high, exact) in enumerate(seen, start=1):
        with precision.bits(200) as mp:
            assert exact == repeats.hazard(event, k, mp)
            assert low == [math.nextafter(float(exact), 0)]
            assert high == [math.nextafter(float(exact), 1)]
