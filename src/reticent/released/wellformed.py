"""Releases that fit together: checked once, when a model is opened, so that predicting and learning can rely on it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent import errors
from reticent.released.ensemble import BIAS, ROWS, WEIGHT
from reticent.released.model import Model

_SUMS, _NOISE = "sums", "noise"


def refuse_malformed(model: Model, rule: str, *, since: int = 0) -> None:
    """Refuses releases whose arrays do not belong together or to the labels.

    Guarantees:
      - Rows are rows of the label space, ascending; there is a finite value for each, of one width in all releases.
                                                                            test_releases_that_do_not_fit_are_refused

    Args:
        model: With all of its releases.
        rule: The kind of rule that reads them, as stored.
        since: How many were checked before.
    """
    learned = [release for release in model.releases if release.parameters]
    width = next((_width(release.parameters) for release in learned), None)
    for release in model.releases[since:]:
        if release.parameters and not (
            _fits(release.parameters, len(model.labels)) and _is_of(rule, release.parameters, width)
        ):
            raise errors.InvalidValue(
                f"The release of task {release.task[:200]!r} does not fit the labels or the other releases. Restore "
                "the model from a backup."
            )


def _fits(parameters: Mapping[str, Any], labels: int) -> bool:
    """Rows, where there are any, are distinct labels of the space."""
    rows = parameters.get(ROWS)
    if rows is None:
        return True
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        return False
    return not len(rows) or bool(rows[0] >= 0 and rows[-1] < labels and (rows[1:] > rows[:-1]).all())


def _is_of(rule: str, parameters: Mapping[str, Any], width: int | None) -> bool:
    """The arrays are what our rules read; those of a rule of the user's own are left to it."""
    if rule == "sums":
        if set(parameters) != {ROWS, _SUMS, _NOISE} or not (parameters[_NOISE] > 0).all():
            return False
        one, many = parameters[_NOISE], parameters[_SUMS]
    elif rule == "ensemble":
        if not {ROWS, WEIGHT, BIAS} <= set(parameters):
            return False
        one, many = parameters[BIAS], parameters[WEIGHT]
    else:
        return True
    count = len(parameters[ROWS])
    return (
        all(_finite(array) for array in parameters.values()) and one.shape == (count,) and many.shape == (count, width)
    )


def _finite(array: Any) -> bool:
    return array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool(np.isfinite(array).all()))


def _width(parameters: Mapping[str, Any]) -> int | None:
    found = parameters.get(_SUMS, parameters.get(WEIGHT))
    return int(found.shape[1]) if found is not None and found.ndim == 2 else None
