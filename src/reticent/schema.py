"""Columns of a frame: their names are public schema, kept as the first task had them; another order is refused."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from reticent import errors
from reticent.released.model import Encode, Model
from reticent.released.release import Release
from reticent.released.settings import COLUMNS, MOST_COLUMNS

if TYPE_CHECKING:  # learning imports it; predicting does not
    from reticent.directory import Directory
    from reticent.sensitive.learners.learner import Learner


class NotLearned(errors.InvalidValue, NotFittedError):  # type: ignore[misc]
    """Nothing was learned yet, so there is nothing to predict from."""

    def __init__(self) -> None:
        super().__init__(
            "This classifier has learned no task yet. Call learn_task (reticent learn) before it predicts."
        )


def refuse_unlearned(releases: Sequence[Release]) -> None:
    """Refuses to predict before any task was learned, as scikit-learn's estimators do."""
    if not any(release.parameters for release in releases):
        raise NotLearned


def refuse_fitted(encoder: Encode | None) -> None:
    """Refuses a method of a scikit-learn step that learns from data as an encoder."""
    if hasattr(encoder, "__self__"):
        from reticent.encoders.preprocessing import refuse_fitted_encoder

        refuse_fitted_encoder(encoder)


def n_features(encoder: Encode | None, model: Model) -> int:
    """Returns the width of features, as scikit-learn has it; an attribute that is not there where inputs are others."""
    from reticent.released.wellformed import width_of  # takes a while to import

    width = next((width_of(release.parameters) for release in model.releases if release.parameters), None)
    if encoder is not None or width is None:
        raise AttributeError("n_features_in_ is there once a task with features was learned, without an encoder.")
    return width


def names_of(X: Any) -> list[str] | None:
    """Returns the names of a frame's columns; None for what has none, or where not all of them are texts.

    >>> names_of(np.eye(2)) is None
    True
    """
    if hasattr(X, "has_persons"):  # a source: what it declares
        return list(X.names) or None
    found = getattr(X, "columns", None) if getattr(X, "ndim", 2) == 2 else None
    found = getattr(X, "column_names", None) if callable(found) or found is None else found  # of pyarrow
    if found is None or isinstance(found, str) or not hasattr(found, "__iter__"):
        return None
    given = list(found)
    return [str(name) for name in given] if given and all(isinstance(name, str) for name in given) else None


def refuse_other(kept: Sequence[str] | None, X: Any, *, first: bool = False, spends: bool = False) -> list[str] | None:
    """Refuses a frame whose columns have other names or another order; returns the names to keep.

    Args:
        kept: The names of the first task; None where it had none.
        X: Inputs; their names are read, and nothing else.
        first: Whether nothing was learned before: then its names are kept.
        spends: Whether it was to be paid for: then the refusal says that it was not.
    """
    given = names_of(X)
    if given is not None and len(given) > MOST_COLUMNS:
        raise errors.InvalidValue(f"Expected at most {MOST_COLUMNS:,} columns with names. Pass X.to_numpy().")
    if given is not None and len(set(given)) < len(given):
        raise errors.InvalidValue("Expected columns with distinct names, got one twice.")
    if first:
        return given
    if kept is not None and given is not None and list(kept) != given:
        raise errors.InvalidValue(
            "Expected the columns of the first task, with their names and in their order: X[model.feature_names_in_]. "
            f"Features mean something else in another order.{' Nothing was spent.' if spends else ''}"
        )
    if (kept is None) != (given is None) and getattr(X, "ndim", 0) == 2:  # as scikit-learn warns
        which = (
            "no names of columns, and the first task had some"
            if given is None
            else "names, and the first task had none"
        )
        warnings.warn(
            f"X has {which}: whether columns are in their order cannot be checked.",
            errors.ReticentWarning,
            stacklevel=4,
        )
    return None if kept is None else list(kept)


def of(directory: "Directory") -> list[str] | None:
    """Returns the names of the columns of a model's first task; None where it had none."""
    kept: list[str] | None = directory.settings.get(COLUMNS)
    return kept


def of_task(directory: "Directory", X: Any) -> dict[str, Any]:
    """Returns the names to store before a task is learned; refuses other columns than those of the first task."""
    before = any(release.parameters for release in directory.model.releases)
    columns = refuse_other(of(directory), X, first=not before, spends=True)
    return {} if columns is None else {COLUMNS: columns}


def feature_names(directory: "Directory") -> npt.NDArray[np.object_]:
    """Returns the names as scikit-learn has them; an attribute that is not there where there are none."""
    kept = of(directory)
    if kept is None:
        raise AttributeError("feature_names_in_ is there once a task with names of columns was learned.")
    return np.array(kept, dtype=object)


def learner_to_json(learner: "Learner | None") -> dict[str, Any] | None:
    """Returns a learner as JSON values, None where it cannot be stored."""
    stored: dict[str, Any] | None = getattr(learner, "to_json", lambda: None)()
    return stored


def encoder_to_json(encoder: Encode | None) -> dict[str, Any] | None:
    """Returns what a manifest keeps of an encoder: its name and the digest of its weights."""
    if encoder is None:
        return None
    name = getattr(encoder, "name", getattr(encoder, "__name__", type(encoder).__name__))
    return {"name": name, "digest": getattr(encoder, "digest", None)}


def stored_encoder(stored: dict[str, Any]) -> Encode:
    """Returns an encoder whose weights come with a package; any other is passed again."""
    from reticent import encoders

    if stored["name"] not in encoders.SHIPPED:
        raise errors.InvalidValue(
            f"Expected the encoder {stored['name']!r}, which is not stored: load(path, encoder=...), or --encoder."
        )
    encoder: Encode = encoders.SHIPPED[stored["name"]]()
    return encoder
