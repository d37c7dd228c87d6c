"""The centre of features: what all examples have in common is taken off before they are scaled to length one.

Encoders give features with a large common part (0.3 to 0.5 of their length on our data). It uses up the unit that one
example may contribute and tells no label from another. A task's centre comes from names and earlier releases, so it is
public; it is stored with the release, and predictions use the last one.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, poisson

from reticent.numerics.rows import unit_or_zero
from reticent.released.evidence import CLASS_LENGTH
from reticent.released.release import Release

CENTRE = "centre"
Floats = npt.NDArray[np.floating]
Centre = npt.NDArray[np.float32]

# The mean of fewer labels, by their names or by their sums, says more about these labels than about all examples: with
# two digits in each of five tasks, it took off what tells them apart (digits, base, epsilon 1 and 8: 53.1 and 74.4 %
# with a centre from the second task on, 69.8 and 80.5 % without; the paper's 54.8 and 79.3 %).
_FEWEST_LABELS = 10
_LOOKED_AT = 32  # last releases that a centre is computed from: bounds the work of a task
# A sum counts if its energy is so many deviations above that of noise.
_STANDS_OUT = 4.0
_BY_CHANCE = 1e-3  # how likely noise alone may have as many of these sums


def centre_of(release: Release, width: int) -> Centre:
    """Returns what was taken off the features of a task; zeros where nothing was."""
    return np.asarray(release.parameters.get(CENTRE, np.zeros(width)), dtype=np.float32)


def next_centre(releases: Sequence[Release], names: Floats, width: int, *, fewest: int = _FEWEST_LABELS) -> Centre:
    """Returns the centre of the next task: at first the mean of names, then as far from the last one as releases tell.

    Args:
        releases: Earlier ones, in order; the last 32 that have sums are looked at.
        names: Unit features of labels' names, shape (names, width).
        width: The number of features.
        fewest: While sums of fewer labels stand out, the centre stays where it is.

    Example:
        >>> next_centre([], np.tile([0.0, 0.5], (10, 1)), 2).tolist()
        [0.0, 0.5]
    """
    last_ones = list(itertools.islice((r for r in reversed(releases) if "sums" in r.parameters), _LOOKED_AT))[::-1]
    if not last_ones:
        public = names.mean(axis=0) if len(names) >= _FEWEST_LABELS else np.zeros(width)
        return np.asarray(public, dtype=np.float32)
    last = centre_of(last_ones[-1], width).astype(np.float64)
    total, count, energy, found, looked = np.zeros(width), 0.0, 0.0, 0, 0
    labels: set[int] = set()
    for release in last_ones:
        sums, noise = (release.parameters[name].astype(np.float64) for name in ("sums", "noise"))
        before = centre_of(release, width).astype(np.float64)
        signal = np.einsum("lk,lk->l", sums, sums) - width * noise**2
        strong = signal > _STANDS_OUT * noise**2 * np.sqrt(2 * width)
        length = np.sqrt(max(0.1, 1 - float(before @ before)))
        examples = float(np.sqrt(signal[strong]).sum()) / CLASS_LENGTH
        total += length * sums[strong].sum(axis=0) + examples * (before - last)
        energy += length**2 * width * float((noise[strong] ** 2).sum())
        count += examples
        found, looked = found + int(strong.sum()), looked + len(strong)
        labels.update(release.parameters["rows"][strong].tolist())
    by_chance = looked * float(chi2.sf(width + _STANDS_OUT * np.sqrt(2 * width), width))
    if len(labels) < fewest or poisson.sf(found - 1, by_chance) > _BY_CHANCE:
        return np.asarray(last, dtype=np.float32)
    square = float(total @ total)
    kept = max(0.0, 1 - energy / square) / count if square > 0 and count > 0 else 0.0  # James and Stein
    found_at = last + kept * total
    return np.asarray(
        found_at / max(1.0, float(np.linalg.norm(found_at))), dtype=np.float32
    )  # as any mean of unit rows


def centred(features: Floats, centre: Centre) -> Floats:
    """Returns features from which the centre is taken off at length one; what has no direction stays without one.

    Each row follows from itself alone.

    >>> centred(np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([0.5, 0.0], np.float32)).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    return _moved(unit_or_zero(features), centre) if centre.any() else features


def seen_from(units: npt.NDArray[np.float32], centre: Centre) -> npt.NDArray[np.float32]:
    """Returns unit rows as unit rows from the centre.

    >>> seen_from(np.array([[0.6, 0.8]], np.float32), np.array([0.6, 0.0], np.float32)).tolist()
    [[0.0, 1.0]]
    """
    return unit_or_zero(_moved(units, centre)) if centre.any() else units


def _moved(units: npt.NDArray[np.float32], centre: Centre) -> npt.NDArray[np.float32]:
    """Returns unit rows from which the centre is taken off; zero rows, which have no direction, stay so."""
    rest = units - centre
    rest[~units.any(axis=1)] = 0
    return rest
