"""Which labels of a huge space stand out from noise, by all of their blocks so far. Post-processing of releases.

A label whose examples are spread over tasks stands out in none of them alone, but in their sum. So a label that was
kept once keeps its blocks for as long as its evidence is among the best, and as many as `STANDING` labels do: blocks of
noise are given up again.

A label that is beyond doubt, or that was released by its count, needs no more evidence that it is there; more blocks
help it only if it comes back. So the newest `STANDING` of them are followed, and others as long as their blocks,
without the strongest, look like more than noise. One that was given up is found again by a block that stands out. So a
release is bounded by what is new or comes back, and not by all labels that ever stood out or were released: a model
does not grow with the square of its tasks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import chi2

from reticent.labels import Label, LabelSpace
from reticent.released.common import Direction, common_direction
from reticent.released.model import learned_rows
from reticent.released.release import Release

Ints = npt.NDArray[np.int64]

ALL_KEPT = 2_000
"""Label spaces up to this size keep every block."""
STANDING = 1_000
"""So many labels of a larger space keep their blocks by their evidence; those that are beyond doubt always do."""
_COMES_BACK = 0.2  # how likely noise alone may look as much like a label that came back
_ENTRIES = 1 << 23  # of sums over tasks, held at a time


def standing(releases: Sequence[Release], space: int) -> Ints:
    """Returns the rows of labels that stand out, ascending; all that have blocks where the space is small.

    A label's evidence is the chance that noise alone gives as much: energy in the sum of its blocks or in the best of
    them, or what all examples have in common (`common_direction`) in their sum. It stands if it is one of the best
    `STANDING`, or if less than one label of the space is expected to look so.

    Guarantees:
      - No more labels stand than `STANDING` and those beyond doubt.  test_noise_is_given_up_again
      - A label that is beyond doubt in one task stands for good.     test_labels_beyond_doubt_stand_for_good
      - A label in every task stands by its sum.                      test_thin_labels_stand_by_their_sum_over_tasks

    Args:
        releases: In order; those without sums are left out.
        space: How many labels there are.
    """
    with_sums = [release for release in releases if "sums" in release.parameters]
    rows = learned_rows(with_sums)
    if space <= ALL_KEPT or len(rows) <= STANDING:
        return rows
    chance = _evidence(with_sums, rows, common_direction(with_sums, _width(with_sums))).chance
    return rows[_least(chance) | (chance * space <= 1)]


def followed(releases: Sequence[Release], labels: LabelSpace, common: Direction | None = None) -> Ints:
    """Returns the rows of labels whose blocks the next release keeps, whatever they are; ascending.

    Of labels that are sure to have had examples, by their counts or beyond doubt, those that come back and the newest
    `STANDING`; and what is in doubt among the `STANDING` best.

    Guarantees:
      - It follows from releases alone, and so does its size.                 test_releases_are_bounded_by_what_is_new
      - Labels that never come back get no more blocks, once there are enough newer ones.
                                                                      test_labels_that_do_not_come_back_are_given_up
      - One that comes back, thinly in every task or once in force, is followed.
                                                                      test_labels_that_come_back_are_followed

    Args:
        releases: In order.
        labels: All labels.
        common: What all examples have in common, where that is known.
    """
    with_sums = [release for release in releases if "sums" in release.parameters]
    rows = learned_rows(with_sums)
    if len(labels) <= ALL_KEPT or not len(rows):
        return rows
    sure = np.isin(rows, counted_rows(releases, labels))
    blocks, strongest = _counts(with_sums, rows)
    chance, comes_back = np.full(len(rows), np.inf), np.ones(len(rows))
    told = ~sure | (blocks > 1)  # one block of a label that was counted tells nothing more
    chance[told], strongest[told], comes_back[told] = _evidence(with_sums, rows[told], common)
    sure |= chance * len(labels) <= 1
    newest = _least(np.where(sure, -strongest, np.inf))
    return rows[(sure & (comes_back < _COMES_BACK)) | newest | (_least(chance) & ~sure)]


def counted_rows(releases: Sequence[Release], labels: LabelSpace) -> Ints:
    """Returns the rows of labels that became known by their counts, ascending: these are sure to have had examples.

    Args:
        releases: In order; labels of those without sums were declared public, and may have none.
        labels: All labels.
    """
    new = [r.labels.labels for r in releases if r.labels.labels and "sums" in r.parameters]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *(_rows_of(some, labels) for some in new)]))


def _rows_of(some: tuple[Label, ...], labels: LabelSpace) -> Ints:
    """Returns the rows of labels; those of one release are beside each other, and are not looked up one by one."""
    first = labels.row(some[0])
    if labels.labels[first : first + len(some)] == some:
        return np.arange(first, first + len(some))
    return np.array([labels.row(label) for label in some], dtype=np.int64)


def live_rows(releases: Sequence[Release], labels: LabelSpace) -> Ints:
    """Returns the rows of labels that may win, ascending: those that stand out, and those released by counts.

    Guarantees: a label once released can be predicted for good.    test_released_labels_are_never_given_up
    """
    return np.union1d(standing(releases, len(labels)), counted_rows(releases, labels))


class _Evidence(NamedTuple):
    """What the blocks of labels say, as the chance that noise alone looks so.

    Args:
        chance: Of their energy, in their sum or in one of them, or of what all examples have in common in their sum.
        strongest: Which release has the strongest one.
        comes_back: Of the sum of the others.
    """

    chance: npt.NDArray[np.float64]
    strongest: npt.NDArray[np.float64]
    comes_back: npt.NDArray[np.float64]


def _least(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Returns which are the `STANDING` least, of those that are finite."""
    least = np.zeros(len(values), np.bool_)
    least[np.argsort(values, kind="stable")[:STANDING]] = True
    return least & (values < np.inf)


def _counts(releases: Sequence[Release], rows: Ints) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns how many blocks each label has, and which release has its last one."""
    blocks, last = np.zeros(len(rows)), np.zeros(len(rows))
    for place, release in enumerate(releases):
        at = np.searchsorted(rows, release.parameters["rows"])
        blocks[at] += 1
        last[at] = place
    return blocks, last


def _width(releases: Sequence[Release]) -> int:
    return int(releases[0].parameters["sums"].shape[1])


def _evidence(releases: Sequence[Release], rows: Ints, common: Direction | None) -> _Evidence:
    """Returns what the blocks of each label say, of so few labels at a time that their sums fit."""
    width = _width(releases)
    step = max(1, _ENTRIES // max(1, width))
    starts = range(0, max(1, len(rows)), step)
    parts = [_evidence_of(releases, rows[start : start + step], width, common) for start in starts]
    return _Evidence(*map(np.concatenate, zip(*parts, strict=True)))


def _evidence_of(releases: Sequence[Release], rows: Ints, width: int, common: Direction | None) -> _Evidence:
    total, blocks = np.zeros((len(rows), width)), np.zeros(len(rows))
    most, when = np.zeros(len(rows)), np.zeros(len(rows))
    for place, release in enumerate(releases):
        at, sums, scale = _white(release, rows)
        energy = np.einsum("lk,lk->l", sums, sums) * scale.astype(np.float64) ** 2
        stronger = energy > most[at]
        most[at[stronger]], when[at[stronger]] = energy[stronger], place
        total[at] += sums * scale[:, None]
        blocks[at] += 1
    chance = np.minimum(_by_chance(total, blocks, common), blocks * chi2.sf(most, width))
    for place, release in enumerate(releases):  # the strongest block of each label is taken off
        at, sums, scale = _white(release, rows)
        mine = when[at] == place
        total[at[mine]] -= sums[mine] * scale[mine, None]
    return _Evidence(chance, when, _by_chance(total, blocks - 1, common))


def _white(release: Release, rows: Ints) -> tuple[Ints, npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Returns where the blocks of a release belong, these blocks, and what makes their noise one."""
    found, sums, noise = (release.parameters[name] for name in ("rows", "sums", "noise"))
    mine = np.isin(found, rows)
    if not mine.all():
        found, sums, noise = found[mine], sums[mine], noise[mine]
    scale = np.reciprocal(noise.astype(np.float32, copy=False))
    return np.searchsorted(rows, found.astype(np.int64)), sums.astype(np.float32, copy=False), scale


def _by_chance(
    total: npt.NDArray[np.float64], blocks: npt.NDArray[np.float64], common: Direction | None
) -> npt.NDArray[np.float64]:
    """Returns how likely the sum of so many blocks of noise has as much energy, or as much along what is common."""
    count = np.maximum(blocks, 1)
    chance: npt.NDArray[np.float64] = chi2.sf(np.einsum("lk,lk->l", total, total) / count, total.shape[1])
    if common is not None:
        chance = np.minimum(chance, ndtr(-(total @ common) / np.sqrt(count)))
    return chance
