"""Thresholds of memory, to the last grid step: noise that a test sets, and whole numbers of any size."""

import dataclasses
import math
from typing import Any

import mpmath
import numpy as np
import pytest

from reticent import errors
from reticent.gate import grid, label_sums
from reticent.gate.noise import NoiseSource, keys
from reticent.gate.remembered import FINE, Entry, RememberedSums, StreamSums, _only
from reticent.labels import LabelSpace
from reticent.privacy import events, selection
from reticent.privacy.correlation import LOOK_ONE, Look

EVENT = events.Remembered(noise_multiplier=2.0, epoch=1, horizon=12, count_weight=0.2, deviations=5.5)
MECHANISM = RememberedSums(EVENT, LabelSpace(()))
PLACES = 9  # from here on the weights of a look have no common divisor
LOOKS = EVENT.correlation.inverse_prefix(PLACES), EVENT.correlation.inverse_row(PLACES)


class SetNoise(NoiseSource):
    """Returns given numbers, one for each task, as its noise."""

    def __init__(self, answers: list[int]) -> None:
        super().__init__(seed=0)
        self._answers = answers

    def rounded_words(self, words, sigma, more):
        return np.full(len(words), self._answers.pop(0), dtype=np.int64)


def noise_for(look: Look, total: int, *, other: Look) -> list[int]:
    """Noise of each task with which a statistic is exactly this, and the other one far below its threshold."""
    up = -1 if other is LOOKS[0] else 1  # the weight of the second task: above 0 in sums, below 0 for one task
    found = [0, up * (1 << 40), *[0] * (PLACES - 2)]
    rest = total - look.weights[1] * found[1]
    found[0] = rest * pow(look.weights[0], -1, LOOK_ONE) % LOOK_ONE
    found[-1], left = divmod(rest - look.weights[0] * found[0], look.weights[-1])
    assert left == 0
    assert sum(n * w for n, w in zip(found, look.weights, strict=True)) == total
    assert sum(n * w for n, w in zip(found, other.weights, strict=True)) < 0
    return found


@pytest.mark.parametrize("count", [0, 1, (1 << 52) + 1], ids=["none", "one", "many"])
@pytest.mark.parametrize("which", [0, 1], ids=["all tasks", "the last task"])
def test_a_label_becomes_known_one_step_above_its_threshold(which, count):
    """A statistic of 2^58 and more is compared exactly: at its threshold the label stays pending."""
    look, other, kept = LOOKS[which], LOOKS[1 - which], []
    for t in range(PLACES):
        slots = np.array([count if t == 0 else 0])
        kept.append(Entry(t, bytes([t]) * 32, ("new",), slots, np.zeros((1, 1), np.int64), 1, (False,)))
    most = MECHANISM._most(look)
    added = [int(c) * count for c in EVENT.correlation.coefficients[:PLACES]]  # to the rows, by the first task
    for above in (0, 1):
        drawn = noise_for(look, most + above, other=other)
        rng = SetNoise([n - more for n, more in zip(drawn, added, strict=True)])
        assert tuple(MECHANISM._standing_out(("new",), kept, rng)) == ("new",) * above


def in_whole_numbers(counts: Any, noise: Any, mechanism: RememberedSums = MECHANISM) -> list[bool]:
    """The rule, one label at a time, in numbers of any size."""
    places, matrix = len(counts[0]), mechanism.event.correlation
    looks = matrix.inverse_prefix(places), matrix.inverse_row(places)
    c = matrix.coefficients.tolist()
    found = []
    for slots, drawn in zip(counts, noise, strict=True):
        rows = [int(drawn[t]) + sum(c[t - s] * int(slots[s]) for s in range(t + 1)) for t in range(places)]
        values = (sum(w * row for w, row in zip(look.weights, rows, strict=True)) for look in looks)
        found.append(any(value > mechanism._most(look) for value, look in zip(values, looks, strict=True)))
    return found


@pytest.mark.parametrize("places", [1, 2, 5, 12])
def test_looks_are_those_of_whole_numbers(places):
    """Labels near a threshold and far from it, many examples and none: at once as one by one."""
    draw = np.random.default_rng(places)
    sigma = EVENT.noise * FINE
    step = selection.count_step(EVENT.count_weight)
    counts = draw.integers(0, 40, (600, places)) * (draw.random((600, places)) < 0.5) * step
    counts[:20] *= 1 << 28
    noise = np.rint(draw.normal(0, sigma, (600, places))).astype(np.int64)
    expected = in_whole_numbers(counts.tolist(), noise.tolist())
    assert MECHANISM._exceed(counts, noise).tolist() == expected
    assert 20 <= sum(expected) < 600


def next_to(look: Look, most: int, *, above: int, draw: np.random.Generator) -> list[int]:
    """Noise that adds up, without cancelling, to the last value that a look can have up to its threshold, or the next.

    Its weights have a common divisor g, and so has the statistic: one task's noise is solved for modulo 2^20 / g.
    """
    g = math.gcd(*look.weights)
    shares = draw.dirichlet(np.full(len(look.weights), 50.0))
    found = [int(most * share / weight) for share, weight in zip(shares, look.weights, strict=True)]
    at, modulus = next(i for i, weight in enumerate(look.weights) if weight // g % 2), LOOK_ONE // g
    found[at] = found[-1] = 0
    rest = most // g * g + above * g - sum(n * w for n, w in zip(found, look.weights, strict=True))
    found[at] = rest // g * pow(look.weights[at] // g, -1, modulus) % modulus
    found[at] -= modulus if look.weights[at] < 0 else 0
    found[-1] = (rest - look.weights[at] * found[at]) // look.weights[-1]
    assert all(n * weight >= 0 for n, weight in zip(found, look.weights, strict=True))
    return found


@pytest.mark.parametrize("which", [0, 1], ids=["all tasks", "the last task"])
@pytest.mark.parametrize("places", [3, 5, 9, 12])
@pytest.mark.parametrize("noise", [2.0, 1e5])
def test_what_is_next_to_a_threshold_is_decided_as_in_whole_numbers(noise, places, which):
    """Also where float64 has fewer bits than the statistic, whose rounding then decides unless it is bounded."""
    mechanism = RememberedSums(dataclasses.replace(EVENT, noise_multiplier=noise), LabelSpace(()))
    matrix = mechanism.event.correlation
    look = (matrix.inverse_prefix(places), matrix.inverse_row(places))[which]
    draw = np.random.default_rng(places)
    rows = [next_to(look, mechanism._most(look), above=i % 2, draw=draw) for i in range(300)]
    drawn, counts = np.array(rows, dtype=np.int64), np.zeros((300, places), np.int64)
    expected = in_whole_numbers(counts.tolist(), rows, mechanism)
    assert expected == [False, True] * 150
    assert mechanism._exceed(counts, drawn).tolist() == expected


@pytest.mark.parametrize("at_once", [1, 3 * PLACES, 1 << 20])
def test_looks_at_parts_of_labels_are_looks_at_all(at_once, monkeypatch):
    """Each label has its own count in each task, whichever labels a task has and in whichever order."""
    monkeypatch.setattr("reticent.gate.remembered._NUMBERS", at_once)
    labels = tuple(f"label {i}" for i in range(7))
    step = selection.count_step(EVENT.count_weight)
    counts = np.zeros((7, PLACES), np.int64)
    kept = []
    for t in range(PLACES):
        mine = [(3 * t + j) % 7 for j in range(t % 4)]
        counts[mine, t] = [step * (60 * (j % 2) + t) for j in mine]
        names = ("known already", *(labels[j] for j in mine))
        slots = np.array([step * 1000, *counts[mine, t]])
        vectors = np.zeros((len(names), 1), np.int64)
        kept.append(Entry(t, bytes([t]) * 32, names, slots, vectors, 1, (True, *[False] * len(mine))))
    noise = MECHANISM._count_noise(labels, kept, NoiseSource.from_os())
    most = {label for label, found in zip(labels, in_whole_numbers(counts, noise), strict=True) if found}
    rng = Keyed()
    assert set(MECHANISM._standing_out(labels, kept, NoiseSource.from_os())) == most
    assert 0 < len(most) < 7
    assert len(list(MECHANISM._standing_out(labels, kept, rng))) <= 7
    parts = [len(words) for words, _, _ in rng.asked[::PLACES]]
    assert parts == {1: [1] * 7, 3 * PLACES: [3, 3, 1], 1 << 20: [7]}[at_once]


def test_what_an_entry_has_of_some_labels():
    vectors = np.arange(6).reshape(3, 2)
    entry = Entry(5, bytes(32), ("a", "b", "c"), np.array([0, 7, 8]), vectors, 2, (True, False, False))
    some = _only(("c", "a", "elsewhere"), entry)
    assert (some.row, some.key, some.labels, some.width, some.known) == (5, bytes(32), ("a", "c"), 2, (True, False))
    assert some.counts.tolist() == [0, 8]
    assert some.vectors[np.arange(2)].tolist() == [[0, 1], [4, 5]]


@pytest.mark.parametrize("noise", [1e-12, 1e-9, 0.37, 2.0, 3.7419, 17.3, 1e5])
@pytest.mark.parametrize("eighths", [1, 2, 3])
def test_thresholds_are_never_below_the_real_ones(noise, eighths):
    """One example, z deviations of the noise and its rounding, in 200 bits."""
    for deviations in (3.0, 5.48, 6.01):
        event = events.Remembered(
            noise_multiplier=noise, epoch=1, eighths=eighths, horizon=12, count_weight=0.2, deviations=deviations
        )
        for place in (1, 2, 5, 12):
            for look in (event.correlation.inverse_prefix(place), event.correlation.inverse_row(place)):
                with mpmath.workprec(200):
                    deviation = mpmath.sqrt(sum(w * w for w in look.weights))  # in parts of LOOK_ONE
                    real = mpmath.mpf(deviations) * mpmath.mpf(event.noise) * FINE * deviation
                    real += mpmath.mpf(sum(map(abs, look.weights))) / 2
                    whole = look.most * selection.count_step(0.2)
                    found = RememberedSums(event, LabelSpace(()))._most(look)
                    assert type(found) is int
                    assert real <= found - whole <= real * (1 + mpmath.mpf(2) ** -47) + 1


def test_entries_hold_whole_numbers_for_each_label():
    good: dict[str, Any] = {
        "row": 1,
        "key": bytes(32),
        "labels": ("a", "b"),
        "counts": np.zeros(2, np.int64),
        "vectors": np.zeros((2, 1), np.int64),
        "width": 1,
        "known": (True, False),
    }
    Entry(**good)
    Entry(**{**good, "width": 0})
    for wrong in (
        {"counts": np.zeros((2, 1), np.int64)},
        {"counts": np.zeros(2)},
        {"counts": np.zeros(2, np.int32)},
        {"counts": np.zeros(3, np.int64)},
        {"width": -1},
        {"key": bytes(31)},
        {"key": bytes(33)},
        {"labels": ("a",)},
        {"known": (True,)},
    ):
        with pytest.raises(errors.InvalidValue, match="a count and a flag for each label"):
            Entry(**{**good, **wrong})


def sums(known: list[list[int]]) -> label_sums.LabelSums:
    whole = np.array(known)
    nothing = np.zeros((0, whole.shape[1]), np.int64)
    return label_sums.LabelSums(whole, (), np.zeros(0, np.int64), nothing, 0.2)


def test_the_last_place_of_an_epoch_is_allowed():
    mechanism = RememberedSums(events.Remembered(**{**vars(EVENT), "horizon": 2}), LabelSpace(("a",)))
    rng, past = NoiseSource.from_os(), list[Entry]()
    for place in (1, 2):
        drawn = mechanism(StreamSums(sums([[1, 2]]), past, place), rng=rng)
        assert drawn.place == place
        past.append(drawn.entry)
    with pytest.raises(errors.InvalidValue, match="no place left"):
        mechanism(StreamSums(sums([[1, 2]]), past, 3), rng=rng)


def test_what_is_kept_of_known_labels_is_their_sums():
    """Also one with a coordinate of zero; a label without a sum has no entry."""
    mechanism = RememberedSums(EVENT, LabelSpace(("a", "b", "c")))
    drawn = mechanism(StreamSums(sums([[0, 5], [0, 0], [-3, 0]]), (), 7), rng=NoiseSource.from_os())
    entry = drawn.entry
    assert (entry.row, entry.labels, entry.known) == (7, ("a", "c"), (True, True))
    assert (entry.counts.tolist(), entry.vectors[np.arange(2)].tolist()) == ([0, 0], [[0, 5], [-3, 0]])
    assert entry.width == 2


def test_sums_of_another_sensitivity_are_refused():
    longer = dataclasses.replace(sums([[1, 2]]), sensitivity=grid.SCALE + 1)
    with pytest.raises(errors.InvalidValue, match="of sensitivity one"):
        RememberedSums(EVENT, LabelSpace(("a",)))(StreamSums(longer, (), 1), rng=NoiseSource.from_os())


class Keyed(NoiseSource):
    """Notes the keys whose noise is asked for."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.asked: list[Any] = []

    def rounded_gaussians(self, keys, sigma, width):
        self.asked.append((list(keys), width))
        return np.zeros((len(keys), width), np.int64)

    def rounded_words(self, words, sigma, more):
        self.asked.append((words.tolist(), [more(i) for i in range(len(words))], sigma))
        return np.zeros(len(words), np.int64)


def test_each_place_has_noise_of_its_own_key():
    """Rows of a place: the key of its task, and no other."""
    mechanism = RememberedSums(EVENT, LabelSpace(("a", "b")))
    rng, past = Keyed(), list[Entry]()
    for place in (1, 2, 3):
        rng.asked.clear()
        drawn = mechanism(StreamSums(sums([[1, 2], [3, 4]]), past, place), rng=rng)
        past.append(drawn.entry)
        mine = [keys.derived(drawn.entry.key, 1, label, keys.SUMS) for label in ("a", "b")]
        assert rng.asked[0] == (mine, 2)
    assert len({entry.key for entry in past}) == 3
    rng.asked.clear()
    assert mechanism._count_noise(["x", "a"], past[:2], rng).shape == (2, 2)
    for entry, asked in zip(past[:2], rng.asked, strict=True):
        words = keys.words(entry.key, 1, keys.hashed(["x", "a"]), keys.COUNT)
        more = [keys.derived(entry.key, 1, label, keys.COUNT) for label in ("x", "a")]
        assert asked == (words.tolist(), more, EVENT.noise * FINE)


def test_what_memory_keeps_is_neither_shown_nor_compared():
    """Arrays of exact sums: comparing two of them would say something about both."""
    value = StreamSums(sums([[1, 2]]), (), 1)
    drawn = RememberedSums(EVENT, LabelSpace(("a",)))(value, rng=NoiseSource.from_os())
    assert "entry" not in repr(drawn)
    for mine in (value, drawn, drawn.entry):
        assert mine != dataclasses.replace(mine)
