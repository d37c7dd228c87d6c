"""Noisy sums as a classifier: one weight vector per label, compared with unit features."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.labels import LabelSpace
from reticent.numerics.rows import norms, unit_or_zero
from reticent.released import denoise
from reticent.released.model import Bools, Floats, Scorer, features_of, learned_rows
from reticent.released.release import Release

_COMBINATIONS = {"rank_one": denoise.rank_one, "total": denoise.total}


@dataclass(frozen=True)
class Sums:
    """Scores by the product of a unit feature with each label's weight vector.

    Args:
        combine: How the tasks' sums become one weight vector per label.

    Example:
        >>> Sums.from_json(Sums(denoise.total).to_json()).combine is denoise.total
        True
    """

    combine: denoise.Combine = denoise.rank_one

    def scorer(self, releases: Sequence[Release], labels: LabelSpace) -> Scorer:
        """Returns the classifier; labels whose weights are zero may not win, and cost no time."""
        rows = learned_rows(releases)
        weights = self._weights(releases, rows, len(labels))
        able = np.any(weights != 0, axis=1)
        score = partial(_products, weights=np.ascontiguousarray(weights[able]))
        return Scorer(rows[able], rows[~able], 0.0, features_of, score, _has_direction)

    def _weights(self, releases: Sequence[Release], rows: npt.NDArray[np.int64], space: int) -> npt.NDArray[np.float32]:
        if not len(rows):
            return np.zeros((0, 0), np.float32)
        width = releases[0].parameters["sums"].shape[1]
        sums = np.zeros((len(rows), len(releases), width), np.float32)
        noise = np.full((len(rows), len(releases)), np.inf)
        for t, release in enumerate(releases):
            at = np.searchsorted(rows, release.parameters["rows"].astype(np.int64))
            sums[at, t] = release.parameters["sums"]
            noise[at, t] = release.parameters["noise"]
        return self.combine(denoise.Blocks(sums, noise, space)).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """Returns the rule as plain JSON values; a custom combination is passed again at load."""
        known = (name for name, combine in _COMBINATIONS.items() if combine is self.combine)
        return {"kind": "sums", "combine": next(known, None)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Sums":
        """Returns the rule that `to_json` wrote."""
        if value["combine"] not in _COMBINATIONS:
            raise errors.InvalidValue(errors.OWN_LEARNER)
        return cls(_COMBINATIONS[value["combine"]])


def _has_direction(features: Floats) -> Bools:
    """Returns which rows are neither zero nor without a finite norm: learning leaves the others out too."""
    lengths = norms(features.astype(np.float64))
    return np.asarray(np.isfinite(lengths) & (lengths > 0), dtype=np.bool_)


def _products(features: Floats, weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Unit rows times weights; what has no direction scores zero everywhere."""
    if features.ndim != 2 or features.shape[1] != weights.shape[1]:
        raise errors.InvalidValue(f"Expected features of width {weights.shape[1]}.")
    scores: npt.NDArray[np.float32] = unit_or_zero(features) @ weights.T
    return scores
