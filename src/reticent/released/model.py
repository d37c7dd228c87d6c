"""Model: releases in, predictions out. Immutable; ships without the gate."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.labels import UNKNOWN, LabelSpace
from reticent.released.denoise import Blocks, Combine, rank_one
from reticent.released.release import Release

Floats = npt.NDArray[np.floating]
_MOST_SCORES = 100_000
_CHUNK = 4096


@dataclass(frozen=True)
class Model:
    """A classifier over noisy class sums.

    Args:
        public: Labels that were known before any task.
        releases: One per task, in order.
        combine: How the tasks' sums become one weight vector per label.
    """

    public: LabelSpace
    releases: tuple[Release, ...] = ()
    combine: Combine = field(default=rank_one)

    @cached_property
    def labels(self) -> LabelSpace:
        """All known labels: the public ones, then those released, in order."""
        known = self.public
        for release in self.releases:
            known = known.union(release.labels)
        return known

    def with_release(self, release: Release) -> "Model":
        """Returns the model that also knows this release; the label space is not gone through again."""
        model = replace(self, releases=(*self.releases, release))
        model.__dict__["labels"] = self.labels.union(release.labels)
        return model

    @cached_property
    def live(self) -> npt.NDArray[np.int64]:
        """Rows of the label space that have a block in any release, ascending."""
        rows = [release.parameters["rows"] for release in self.releases if "rows" in release.parameters]
        return np.unique(np.concatenate(rows)).astype(np.int64) if rows else np.zeros(0, np.int64)

    @cached_property
    def _weights(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Rows of the label space that have blocks, and their weight vectors."""
        learned = [release for release in self.releases if "sums" in release.parameters]
        if not learned:
            return np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        rows = self.live
        width = learned[0].parameters["sums"].shape[1]
        sums = np.zeros((len(rows), len(learned), width), np.float32)
        noise = np.full((len(rows), len(learned)), np.inf)
        for t, release in enumerate(learned):
            at = np.searchsorted(rows, release.parameters["rows"].astype(np.int64))
            sums[at, t] = release.parameters["sums"]
            noise[at, t] = release.parameters["noise"]
        return rows, self.combine(Blocks(sums, noise, len(self.labels))).astype(np.float32)

    @cached_property
    def _winners(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The rows that may win, and their weights: the others cost no time."""
        rows, weights = self._weights
        able = np.any(weights != 0, axis=1)
        return rows[able], np.ascontiguousarray(weights[able])

    def scores(self, features: Floats) -> npt.NDArray[np.float32]:
        """Returns one score per example and known label; labels without a block score 0."""
        if len(self.labels) > _MOST_SCORES:
            raise errors.InvalidValue(
                f"Scores of {len(self.labels):,} labels would not fit. Use predict_top_k for the best few."
            )
        scores = np.zeros((len(features), len(self.labels)), np.float32)
        rows, weights = self._weights
        if len(rows):
            scores[:, rows] = _unit(features, weights.shape[1]) @ weights.T
        return scores

    def top(self, features: Floats, k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Returns the rows of the k best labels of each example and their scores, best first; row -1 is no label."""
        rows, weights = self._winners
        if k > len(rows):  # those that may not win score 0, and fill up
            rows, weights = self._weights
        best = np.full((len(features), k), -1, np.int64)
        scores = np.full((len(features), k), -np.inf, np.float32)
        if not len(rows):
            return best, scores
        found = min(k, len(rows))
        for start in range(0, len(features), _CHUNK):
            part = _unit(features[start : start + _CHUNK], weights.shape[1]) @ weights.T
            order = np.argsort(-part, axis=1, kind="stable")[:, :found] if found > 1 else part.argmax(axis=1)[:, None]
            best[start : start + _CHUNK, :found] = rows[order]
            scores[start : start + _CHUNK, :found] = np.take_along_axis(part, order, axis=1)
        return best, scores

    def names(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
        """Returns the labels of rows; -1 is the public constant UNKNOWN."""
        found, places = np.unique(rows, return_inverse=True)
        known = self.labels.labels
        table = np.fromiter((known[row] if row >= 0 else UNKNOWN for row in found), dtype=object, count=len(found))
        named: npt.NDArray[np.object_] = table[places].reshape(rows.shape)
        return named


def _unit(features: Floats, width: int) -> npt.NDArray[np.float32]:
    """Unit rows for prediction; what has no direction becomes zero and scores zero everywhere."""
    if features.ndim != 2 or features.shape[1] != width:
        raise errors.InvalidValue(f"Expected features of width {width}.")
    with np.errstate(invalid="ignore", over="ignore"):
        rows = features.astype(np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
        usable = np.isfinite(norms) & (norms > 0)
        return np.where(usable, rows / np.where(usable, norms, 1), 0).astype(np.float32)
