"""Names of labels: what a label means, in words that an encoder of texts can read. Public, and never from the data."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors, names
from reticent.labels import Label, LabelSpace, by_label, spelled
from reticent.numerics import text_files

Names = Mapping[Any, str]  # from a label
LONGEST = names.LONGEST_SENTENCE  # characters; how much of it an encoder reads is the encoder's to say
_BETWEEN = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")  # what is no letter or digit, and the humps of camelCase
_FEWEST_LETTERS = 3


def said_by(label: Label) -> str | None:
    """Returns what a label says by itself, or None where it says nothing. A public rule of the label alone.

    A text is split where there is something other than a letter or a digit, and at the humps of camelCase. It says
    something if one of its parts is a word: three letters or more, and no digit. Where any part has a digit there must
    be two such words: "class_7" has a number for a name. Numbers and tuples say nothing.

    >>> [said_by(label) for label in ("card_arrival", "cancelOrder", "type 2 diabetes")]
    ['card arrival', 'cancel Order', 'type 2 diabetes']
    >>> [said_by(label) for label in ("E11.9", "c12", "7", 7, "class_7", ("skin", "rash"))]
    [None, None, None, None, None, None]
    """
    if not isinstance(label, str):
        return None
    parts = [part for part in _BETWEEN.split(label) if part]
    words = sum(len(part) >= _FEWEST_LETTERS and part.isalpha() for part in parts)
    needed = 2 if any(character.isdigit() for part in parts for character in part) else 1
    return proper(" ".join(parts)) if words >= needed else None


def proper(text: object) -> str | None:
    """Returns a text as a name, or None for what is none; never raises, whatever the text is.

    >>> proper(" Tuberculosis "), proper(""), proper(7)
    ('Tuberculosis', None, None)
    """
    try:
        return _line(text) or None
    except Exception:  # it may be the answer of the user's code for a label that was paid for
        return None


def checked(given: Names, space: LabelSpace | None = None) -> dict[Label, str]:
    """Returns names as they are kept; refuses what is no name, and, for public labels, what could not be meant.

    Args:
        given: From label to name.
        space: The labels that there are; None while nobody knows them.
    """
    if not isinstance(given, Mapping):
        raise errors.InvalidValue("Expected names as a dict from label to text.")
    found: dict[Label, str] = {}
    first: dict[str, Label] = {}
    for key, text in by_label(given).items():
        label = key if space is None else spelled(key, space)
        if space is not None and label not in space:
            raise errors.InvalidValue(f"Expected names of labels that are there; {_shown(label)} is none of them.")
        try:
            name = _line(text)
        except errors.InvalidValue as error:
            raise errors.InvalidValue(f"The name of label {_shown(label)} cannot be used. {error}") from None
        if not name:
            raise errors.InvalidValue(f"The name of label {_shown(label)} is empty. Leave the label out, or name it.")
        if space is not None and first.setdefault(name, label) is not label:
            raise errors.InvalidValue(
                f"Labels {_shown(first[name])} and {_shown(label)} have the same name, which tells neither from the "
                "other. Say in the names how they differ."
            )
        found[label] = name
    return found


def checked_features(given: Any, labels: int) -> npt.NDArray[np.float32]:
    """Returns features of names, one row for each label, that nobody can change; refuses others."""
    try:
        with np.errstate(all="ignore"):  # what float32 cannot hold is infinite, and refused below
            features = np.array(given, dtype=np.float32)
    except (TypeError, ValueError):
        features = np.zeros(0, np.float32)
    if features.ndim != 2 or not features.shape[1]:
        raise errors.InvalidValue("Expected name_features as numbers of shape (labels, K).")
    if len(features) != labels:
        raise errors.InvalidValue(
            f"Expected name_features with one row for each of {labels:,} labels, in their order; got {len(features):,}."
        )
    if not np.isfinite(features).all():
        raise errors.InvalidValue("Expected finite name_features. A row of zeros stands for no name.")
    features.setflags(write=False)
    return features


def read_names(path: str | os.PathLike[str]) -> dict[Label, str]:
    """Reads names from a public CSV file with the columns label and name; each label once.

    Example:
        >>> read_names("no such file.csv")
        Traceback (most recent call last):
        reticent.errors.InvalidValue: No file at no such file.csv.
    """
    found: dict[Label, str] = {}
    for line, label, name in text_files.read_pairs(path, "label", "name"):
        if text_files.clean(path, line, label) in found:
            raise errors.InvalidValue(f"Line {line} of {path} names a label that has a name already.")
        found[label] = name
    return checked(found)


def from_answer(names_of: Callable[[Any], object] | Names | None, label: Label) -> str | None:
    """Returns the name of a label that was released; never raises.

    Args:
        names_of: The user's function or dict. What it does not name says its own name, if it says anything; where it
            fails, or its answer is no name, there is none.
        label: Public or released: nothing else may be asked for.
    """
    try:
        answer = (
            names_of(label)
            if callable(names_of)
            else names_of.get(spelled(label, names_of))
            if names_of is not None
            else None
        )
    except Exception:  # after the spend nothing may be lost
        return None
    return said_by(label) if answer is None else proper(answer)


def _line(text: object) -> str:
    if not isinstance(text, str):
        raise errors.InvalidValue("Expected a text.")
    plain = str.__str__(text)
    if plain.isascii() and plain.isprintable() and len(plain) <= LONGEST:  # nearly all of many thousands
        return plain.strip()
    return names.one_line(plain, what="a name", longest=LONGEST)


def _shown(label: Label) -> str:
    return names.shown(repr(label))[:200]
