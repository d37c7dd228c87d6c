"""Releases that fit together: checked once, when a model is opened, so that predicting and learning can rely on it."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent import errors
from reticent.numerics.rows import norms
from reticent.privacy import events
from reticent.released.ensemble import adapter_values
from reticent.released.heads import BIAS, DECOY, NOISE, ROWS, WEIGHT
from reticent.released.model import Model
from reticent.released.naming import NAMED, NAMES
from reticent.released.release import Release

_SUMS, _NOISE = "sums", "noise"
_CENTRE, _PLACE = "centre", "place"
_EARLIER = ("earlier_rows", "earlier_places", "earlier_sums", "earlier_noise")
_OURS = ("sums", "ensemble")
_UNIT = 1e-3  # how far from 1 the norm of a name's features may be
_RESTORE = "Restore the model from a backup."


def refuse_malformed(model: Model, rule: str | None, *, since: int = 0, advice: str = _RESTORE) -> None:
    """Refuses releases whose arrays do not belong together or to the labels.

    Guarantees:
      - Rows are rows of the label space, ascending; there is a finite value for each, of one width in all releases.
                                                                            test_releases_that_do_not_fit_are_refused
      - So are rows that have a name, each in one release, with a unit vector; a centre has that width and lies in the
        unit ball; what was published in retrospect belongs to earlier places.       test_optional_arrays_are_checked

    Args:
        model: With all of its releases.
        rule: The kind of rule that reads them, as stored.
        since: How many were checked before.
        advice: What to do then.
    """
    width = next((width_of(release.parameters) for release in model.releases if release.parameters), None)
    new = model.releases[since:]
    for release in new:
        if release.parameters and not (
            _fits(release.parameters, len(model.labels))
            and _is_of(rule, release.parameters, width, len(model.labels))
            and (rule != "sums" or _has_its_place(release))
        ):
            raise errors.InvalidValue(
                f"The release of task {release.task[:200]!r} does not fit the labels or the other releases. {advice}"
            )
    if rule in _OURS and any(NAMED in release.parameters for release in new):
        named = [release.parameters[NAMED] for release in model.releases if NAMED in release.parameters]
        if len(np.unique(np.concatenate(named))) < sum(map(len, named)):
            raise errors.InvalidValue(f"Two releases name the same label. {advice}")


def refuse_other_rule(model: Model, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuses a rule, as JSON, that cannot read what was released, or reads it in another way than it was trained for.

    Releases with an adapter need that adapter; heads alone need features of the length that they had.
    """
    if not any(release.parameters for release in model.releases):
        return
    kind, other = stored.get("kind"), given.get("kind")
    if kind != other:
        raise errors.InvalidValue(
            f"Expected a learner whose releases are combined by the rule {kind!r}, as those of this model are; "
            f"got {other!r}. Start a new model for another kind of learner."
        )
    if kind != "ensemble":
        return
    learned = [release.parameters for release in model.releases if release.parameters]
    if given.get("aggregate") == "pooled" and not all(NOISE in arrays for arrays in learned):
        raise errors.InvalidValue(
            "Expected a learner with another aggregate: heads of this model were trained without decoys, which pooling "
            "needs. Pass aggregate=argmax, as it had, or start a new model."
        )
    needed = "adapter" if any(map(adapter_values, learned)) else "length"
    if stored.get(needed) != json.loads(json.dumps(given.get(needed))):
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
    return rows is None or (_are_rows(rows, labels) and bool((rows[1:] > rows[:-1]).all()))


def _are_rows(rows: Any, labels: int) -> bool:
    return rows.ndim == 1 and rows.dtype.kind in "iu" and bool(((rows >= 0) & (rows < labels)).all())


def _is_of(rule: str | None, parameters: Mapping[str, Any], width: int | None, labels: int) -> bool:
    """The arrays are what our rules read; those of a rule of the user's own are left to it."""
    if rule not in _OURS:
        return True
    if rule == "sums":
        needed, allowed = {ROWS, _SUMS, _NOISE}, {ROWS, _SUMS, _NOISE, NAMED, NAMES, _CENTRE, _PLACE, *_EARLIER}
        if not needed <= set(parameters) <= allowed or not (parameters[_NOISE] > 0).all():
            return False
        one, many = parameters[_NOISE], parameters[_SUMS]
    else:
        if not {ROWS, WEIGHT, BIAS} <= set(parameters) or not _decoys_fit(parameters, width):
            return False
        one, many = parameters[BIAS], parameters[WEIGHT]
    count = len(parameters[ROWS])
    return (
        all(_finite(array) for array in parameters.values())
        and one.shape == (count,)
        and many.shape == (count, width)
        and _names_fit(parameters, width, labels)
        and (rule != "sums" or (_centre_fits(parameters, width) and _places_fit(parameters, width, labels)))
    )


def _decoys_fit(parameters: Mapping[str, Any], width: int | None) -> bool:
    """What a head's decoys say, where it had any: two deviations, and a mean."""
    if NOISE not in parameters and DECOY not in parameters:
        return True
    if NOISE not in parameters or DECOY not in parameters:
        return False
    noise = parameters[NOISE]
    return noise.shape == (2,) and bool((noise >= 0).all()) and parameters[DECOY].shape == (width,)


def _names_fit(parameters: Mapping[str, Any], width: int | None, labels: int) -> bool:
    """Names, where there are any, are unit vectors of distinct labels."""
    if NAMED not in parameters and NAMES not in parameters:
        return True
    if NAMED not in parameters or NAMES not in parameters:
        return False
    rows, features = parameters[NAMED], parameters[NAMES]
    if not _fits({ROWS: rows}, labels) or features.shape != (len(rows), width) or features.dtype != np.float32:
        return False
    return bool((np.abs(norms(features.astype(np.float64)) - 1) < _UNIT).all())


def _centre_fits(parameters: Mapping[str, Any], width: int | None) -> bool:
    centre = parameters.get(_CENTRE)
    if centre is None:
        return True
    return centre.shape == (width,) and centre.dtype == np.float32 and bool(norms(centre[None]) < 1 + _UNIT)


def _places_fit(parameters: Mapping[str, Any], width: int | None, labels: int) -> bool:
    """A place in an epoch counts from 1; what is published in retrospect is of earlier places, each once."""
    place = parameters.get(_PLACE)
    found = [parameters[name] for name in _EARLIER if name in parameters]
    if place is None:
        return not found
    if place.shape != (1,) or place.dtype.kind not in "iu" or place[0] < 1:
        return False
    if not found:
        return True
    if len(found) < len(_EARLIER):
        return False
    rows, places, sums, noise = found
    count = len(rows)
    return (
        _are_rows(rows, labels)
        and places.shape == (count,)
        and places.dtype.kind in "iu"
        and bool(((places >= 1) & (places < place[0])).all())
        and len(set(zip(rows.tolist(), places.tolist(), strict=True))) == count
        and sums.shape == (count, width)
        and noise.shape == (count,)
        and bool((noise > 0).all())
    )


def _has_its_place(release: Release) -> bool:
    """A task of an epoch of memory, and no other, has a place there."""
    place = release.parameters.get(_PLACE)
    if isinstance(release.event, events.Remembered):
        return place is not None and int(place[0]) <= release.event.horizon
    return place is None


def _finite(array: Any) -> bool:
    return array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool(np.isfinite(array).all()))


def width_of(parameters: Mapping[str, Any]) -> int | None:
    """Returns the width of features that a release was made of; None where it does not say."""
    found = parameters.get(_SUMS, parameters.get(WEIGHT))
    return int(found.shape[1]) if found is not None and found.ndim == 2 else None
