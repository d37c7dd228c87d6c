"""Releases that fit together: checked once, when a model is opened, so that predicting and learning can rely on it."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent import errors
from reticent.released.ensemble import BIAS, ROWS, WEIGHT, adapter_values
from reticent.released.model import Model

_SUMS, _NOISE = "sums", "noise"
_RESTORE = "Restore the model from a backup."


def refuse_malformed(model: Model, rule: str | None, *, since: int = 0, advice: str = _RESTORE) -> None:
    """Refuses releases whose arrays do not belong together or to the labels.

    Guarantees:
      - Rows are rows of the label space, ascending; there is a finite value for each, of one width in all releases.
                                                                            test_releases_that_do_not_fit_are_refused

    Args:
        model: With all of its releases.
        rule: The kind of rule that reads them, as stored.
        since: How many were checked before.
        advice: What to do then.
    """
    learned = [release for release in model.releases if release.parameters]
    width = next((_width(release.parameters) for release in learned), None)
    for release in model.releases[since:]:
        if release.parameters and not (
            _fits(release.parameters, len(model.labels)) and _is_of(rule, release.parameters, width)
        ):
            raise errors.InvalidValue(
                f"The release of task {release.task[:200]!r} does not fit the labels or the other releases. {advice}"
            )


def refuse_other_rule(model: Model, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuses a rule, as JSON, that cannot read what was released, or reads it in another way than it was trained for.

    Releases with an adapter need that adapter; heads alone need features of the length that they had.
    """
    learned = [release.parameters for release in model.releases if release.parameters]
    if not learned:
        return
    kind, other = stored.get("kind"), given.get("kind")
    if kind != other:
        raise errors.InvalidValue(
            f"Expected a learner whose releases are combined by the rule {kind!r}, as those of this model are; "
            f"got {other!r}. Start a new model for another kind of learner."
        )
    needed = "adapter" if any(map(adapter_values, learned)) else "length"
    if kind == "ensemble" and stored.get(needed) != json.loads(json.dumps(given.get(needed))):
        raise errors.InvalidValue(
            f"Expected a learner with the {needed} that this model's releases have. Start a new model for another one."
        )


def refuse_other_encoder(model: Model, stored: Mapping[str, Any] | None, given: Mapping[str, Any] | None) -> None:
    """Refuses an encoder, as JSON, with other weights than the one whose features were released."""
    digests = {encoder["digest"] for encoder in (stored, given) if encoder and encoder["digest"]}
    if len(digests) > 1 and any(release.parameters for release in model.releases):
        raise errors.InvalidValue(
            "Expected the encoder of earlier tasks, with the weights it had. Start a new model for another encoder."
        )


def _fits(parameters: Mapping[str, Any], labels: int) -> bool:
    """Rows, where there are any, are distinct labels of the space."""
    rows = parameters.get(ROWS)
    if rows is None:
        return True
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        return False
    return not len(rows) or bool(rows[0] >= 0 and rows[-1] < labels and (rows[1:] > rows[:-1]).all())


def _is_of(rule: str | None, parameters: Mapping[str, Any], width: int | None) -> bool:
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
