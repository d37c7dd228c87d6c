"""Which labels of a huge space stand out from noise, by all of their blocks so far. Post-processing of releases.

A label whose examples are spread over tasks stands out in none of them alone, but in their sum. So a label that was
kept once keeps its blocks for as long as its evidence is among the best, and as many as `STANDING` labels do. That
bounds a release, however large the space and however long the stream: blocks of noise are given up again.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import chi2

from reticent.labels import LabelSpace
from reticent.released.common import Direction, common_direction
from reticent.released.model import learned_rows
from reticent.released.release import Release

Ints = npt.NDArray[np.int64]

ALL_KEPT = 2_000
"""Label spaces up to this size keep every block."""
STANDING = 1_000
"""So many labels of a larger space keep their blocks by their evidence; those that are beyond doubt always do."""
_ENTRIES = 1 << 24  # of sums over tasks, held at a time


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
    chance = _chances(with_sums, rows)
    best = np.zeros(len(rows), np.bool_)
    best[np.argsort(chance, kind="stable")[:STANDING]] = True
    return rows[best | (chance * space <= 1)]


def counted_rows(releases: Sequence[Release], labels: LabelSpace) -> Ints:
    """Returns the rows of labels that became known by their counts, ascending: these are sure to have had examples.

    Args:
        releases: In order; labels of those without sums were declared public, and may have none.
        labels: All labels.
    """
    new = [r.labels.labels for r in releases if r.labels.labels and "sums" in r.parameters]
    return np.array(sorted(labels.row(label) for some in new for label in some), dtype=np.int64)


def live_rows(releases: Sequence[Release], labels: LabelSpace) -> Ints:
    """Returns the rows of labels that are followed, ascending: those that stand out, and those released by counts.

    Guarantees: a label once released is never given up.    test_released_labels_are_never_given_up
    """
    return np.union1d(standing(releases, len(labels)), counted_rows(releases, labels))


def _chances(releases: Sequence[Release], rows: Ints) -> npt.NDArray[np.float64]:
    """Returns how likely noise alone is to have as much energy as each label, in the sum of its blocks or in one."""
    width = releases[0].parameters["sums"].shape[1]
    common = common_direction(releases, width)
    step = max(1, _ENTRIES // max(1, width))
    return np.concatenate([_chances_of(releases, rows[i : i + step], width, common) for i in range(0, len(rows), step)])


def _chances_of(
    releases: Sequence[Release], rows: Ints, width: int, common: Direction | None
) -> npt.NDArray[np.float64]:
    total, blocks, most = np.zeros((len(rows), width)), np.zeros(len(rows)), np.zeros(len(rows))
    for release in releases:
        found = release.parameters["rows"].astype(np.int64)
        mine = np.isin(found, rows)
        at = np.searchsorted(rows, found[mine])
        sums, noise = (release.parameters[name][mine].astype(np.float64) for name in ("sums", "noise"))
        white = sums / noise[:, None]
        total[at] += white
        blocks[at] += 1
        most[at] = np.maximum(most[at], np.einsum("lk,lk->l", white, white))
    summed = np.einsum("lk,lk->l", total, total) / np.maximum(blocks, 1)
    chances: npt.NDArray[np.float64] = np.minimum(chi2.sf(summed, width), blocks * chi2.sf(most, width))
    if common is not None:
        chances = np.minimum(chances, ndtr(-(total @ common) / np.sqrt(np.maximum(blocks, 1))))
    return chances
