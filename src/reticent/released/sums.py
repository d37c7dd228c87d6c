"""Noisy sums as a classifier: one weight vector per label, compared with unit features."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.labels import LabelSpace
from reticent.numerics.rows import unit_or_zero
from reticent.released import denoise
from reticent.released.centre import centre_of, centred, seen_from
from reticent.released.evidence import by_evidence
from reticent.released.model import Bools, Floats, Scorer, features_of, learned_rows
from reticent.released.naming import names_of
from reticent.released.places import Places
from reticent.released.probabilities import noise_in, temperature
from reticent.released.release import Release
from reticent.released.standing import counted_rows, live_rows

_COMBINATIONS = {"by_evidence": by_evidence, "total": denoise.total}


class Directions(NamedTuple):
    """What noisy sums become: labels that may win and those that were learned beside them, weights, and the centre."""

    rows: npt.NDArray[np.int64]
    rest: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    centre: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Sums:
    """Scores by the product of a unit feature with each label's weight vector.

    Args:
        combine: How the tasks' sums become one weight vector per label.

    Example:
        >>> Sums.from_json(Sums(denoise.total).to_json()).combine is denoise.total
        True
    """

    combine: denoise.Combine = by_evidence

    def scorer(self, releases: Sequence[Release], labels: LabelSpace) -> Scorer:
        """Returns the classifier; labels whose weights are zero may not win, and cost no time.

        Where not every label has blocks, as in huge spaces, only those that stand out or were released are combined.
        """
        found = self.directions(releases, labels)
        score = partial(_products, weights=found.weights, centre=found.centre)
        heat = partial(_temperature, releases, found.rows, labels, found.weights)
        return Scorer(found.rows, found.rest, features_of, score, _has_direction, heat, unit_or_zero)

    def directions(self, releases: Sequence[Release], labels: LabelSpace) -> "Directions":
        """Returns what the classifier is made of, once: one weight vector for each label that may win."""
        learned = learned_rows(releases)
        rows = learned if len(learned) == len(labels) else live_rows(releases, labels)
        weights = self._weights(releases, rows, labels)
        able = np.any(weights != 0, axis=1)
        centre = centre_of(releases[-1], weights.shape[1]) if len(rows) else np.zeros(0, np.float32)
        rest = np.setdiff1d(learned, rows[able])
        return Directions(rows[able], rest, np.ascontiguousarray(weights[able]), centre)

    def _weights(
        self, releases: Sequence[Release], rows: npt.NDArray[np.int64], labels: LabelSpace
    ) -> npt.NDArray[np.float32]:
        if not len(rows):
            return np.zeros((0, 0), np.float32)
        return self.combine(blocks_of(releases, rows, labels)).astype(np.float32)

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


def blocks_of(releases: Sequence[Release], rows: npt.NDArray[np.int64], labels: LabelSpace) -> denoise.Blocks:
    """Returns what the releases hold of some labels.

    Args:
        releases: With sums, in order.
        rows: The labels, by their rows in the label space, ascending.
        labels: All labels.
    """
    tasks, width = len(releases), releases[0].parameters["sums"].shape[1]
    sums = np.zeros((len(rows), tasks, width), np.float32)
    noise = np.full((len(rows), tasks), np.inf)
    places = Places.of(releases)
    for t, release in enumerate(releases):
        found = release.parameters
        mine = np.isin(found["rows"], rows)
        at = np.searchsorted(rows, found["rows"][mine])
        sums[at, t], noise[at, t] = found["sums"][mine], found["noise"][mine]
        if "earlier_rows" in found:
            at = np.searchsorted(rows, found["earlier_rows"].astype(np.int64))
            before = places.tasks(t, found["earlier_places"].tolist())
            sums[at, before], noise[at, before] = found["earlier_sums"], found["earlier_noise"]
    last = centre_of(releases[-1], width)
    named, features = names_of(releases, width)
    names = np.full((len(rows), width), np.nan)
    mine = np.isin(named, rows)
    names[np.searchsorted(rows, named[mine])] = unit_or_zero(centred(features[mine], last))
    centres = np.stack([centre_of(release, width) for release in releases])
    return denoise.Blocks(
        sums,
        noise,
        len(labels),
        names=names if mine.any() else None,
        centres=centres if centres.any() else None,
        mixing=places.mixing(tasks),
        weights=places.weights(releases, rows, labels),
        present=np.isin(rows, counted_rows(releases, labels)),
    )


def _temperature(
    releases: Sequence[Release], rows: npt.NDArray[np.int64], labels: LabelSpace, weights: npt.NDArray[np.float32]
) -> float:
    return temperature(weights, noise_in(weights, blocks_of(releases, rows, labels))) if len(rows) else 1.0


def _has_direction(units: Floats) -> Bools:
    """Returns which rows had neither norm zero nor no finite norm: learning leaves the others out too."""
    return np.asarray(units.any(axis=1), dtype=np.bool_)


def _products(
    units: Floats, weights: npt.NDArray[np.float32], centre: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Unit rows, from the centre, times weights; what has no direction scores zero everywhere."""
    if units.ndim != 2 or units.shape[1] != weights.shape[1]:
        raise errors.InvalidValue(f"Expected features of width {weights.shape[1]}.")
    scores: npt.NDArray[np.float32] = seen_from(units.astype(np.float32, copy=False), centre) @ weights.T
    return scores
