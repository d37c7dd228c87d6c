"""LabelSpace: the labels a classifier may output, and how they became known."""

import itertools
import re
import sys
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from reticent import errors
from reticent.privacy import events
from reticent.privacy.events import Event

Label = Hashable
Value = TypeVar("Value")
_PUBLIC = events.Public()
_BUILT_IN = frozenset({str, int, float, bool})
_SURROGATES = re.compile("[\ud800-\udfff]")  # no UTF-8 file can hold them
_MOST_BITS = 2_000  # of a number: fewer than 640 digits, which every Python can print
_NO_LABEL = "Expected labels that are strings, numbers or tuples of them; not None or NaN."
_LONGEST_NUMBER = 640  # characters of one
_TRUTHS = {"True": 1, "False": 0}
_MOST_PARTS = 1_000  # of a tuple, at all levels: parts that are one object each time may be more than memory holds

UNKNOWN: Final = "<unknown>"
"""What a classifier answers while it knows no label; public and fixed. It is no label itself."""


def canonical(label: object, levels: int = 8) -> Label | None:
    """Returns a label as it may be released, or None for what cannot be one; never raises.

    Labels are strings that UTF-8 can hold, numbers short enough to print, and tuples of up to 1,000 of them, nested up
    to `levels` deep. Equal numbers become one object (1, 1.0 and True are 1): else the row that came first would decide
    how a released label looks. An empty or blank text is none: an empty cell is missing in Parquet and a text in CSV.

    >>> [canonical(label) for label in ("E10", True, 2.0, 0.5, None, float("nan"), "", ["list"])]
    ['E10', 1, 2, 0.5, None, None, None, None]
    """
    name = _canonical_or_none(label, levels)
    return None if isinstance(name, str) and not name.strip() else name


def _canonical_or_none(label: object, levels: int = 8) -> Label | None:
    try:
        return _canonical(label, levels)
    except Exception:  # of the code of an object that a private row holds
        return None


def _canonical(label: object, levels: int) -> Label | None:
    if isinstance(label, np.generic):
        label = None if isinstance(label, np.datetime64 | np.timedelta64) else label.item()
    if isinstance(label, str):
        text = str.__str__(label)  # the text itself, whatever __str__ of a subclass (an enumeration) returns
        return text if text.isascii() or not _SURROGATES.search(text) else None
    if isinstance(label, int):
        whole = int.__int__(label)
        return whole if whole.bit_length() <= _MOST_BITS else None
    if isinstance(label, float):
        number = float.__float__(label)
        return None if number != number else int(number) if number.is_integer() else number
    if isinstance(label, tuple) and levels and _is_small(label):
        parts = tuple(_canonical(part, levels - 1) for part in tuple.__iter__(label))
        return None if any(part is None for part in parts) else parts
    return None


def spelled(label: object, known: Container[Label]) -> Label | None:
    """Returns a label as it is known: a number and its text are one label, whatever type a column has.

    101, "101" and "101.0" are one label, whichever is known: whole numbers are written as floats where a cell of their
    column is missing. True and "True" are 1. A text that Python would not print for a number is no number: "0101" is
    not 101. What is known as it is stays so; what is known in no spelling becomes known as `canonical` has it.
    `UNKNOWN` is no label, unless an old model knows it.

    Guarantees:
      - It depends on the label and on known ones alone, and never raises.      test_a_number_and_its_text_are_one_label

    >>> [spelled(label, {"101", 7, 1}) for label in (101, "7", "007", 8, "True")]
    ['101', 7, '007', 8, 1]
    """
    name = canonical(label)
    if name is None or name in known:
        return name
    number = number_of(name)
    others: list[str | int | float] = [str(label)] if isinstance(label, bool | np.bool_) else []
    others += [] if number is None else [number, *_texts_of(number)]
    spelling = next((other for other in others if other in known), name)
    return None if spelling == UNKNOWN else spelling


class Spellings(dict[object, "Label | None"]):
    """Labels as they are known, each of a plain type looked up once, however many examples have it.

    >>> list(map(Spellings({"101", 7}).one, [101, "7", None, 8]))
    ['101', 7, None, 8]
    """

    def __init__(self, known: Container[Label]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, label: object) -> Label | None:
        found = self[label] = spelled(label, self._known)
        return found

    def one(self, label: object) -> Label | None:
        """Returns a label in its spelling; only types whose equal values are one label are looked up."""
        return self[label] if type(label) is str or type(label) is int else spelled(label, self._known)


def is_number_or_its_text(label: Label) -> bool:
    """Returns whether a cell of a column of numbers or truth values could be this label."""
    return not isinstance(label, str) or number_of(label) is not None


def number_of(name: Label) -> int | float | None:
    """Returns a number itself, or the number whose text this is, as Python prints it, an equal float or a truth value.

    >>> [number_of(name) for name in (7, "7", "7.0", "2.5", "True", "007", "E10")]
    [7, 7, 7, 2.5, 1, None, None]
    """
    if not isinstance(name, str) or len(name) > _LONGEST_NUMBER:
        return name if isinstance(name, int | float) else None
    if name in _TRUTHS:
        return _TRUTHS[name]
    for number in (int, float):
        try:
            read = canonical(number(name))
        except ValueError:
            continue
        if isinstance(read, int | float) and name in _texts_of(read):
            return read
    return None


def _texts_of(number: float) -> list[str]:
    is_float = abs(number) <= sys.float_info.max and float(number) == number
    truths = [text for text, value in _TRUTHS.items() if value == number]
    return [str(number), *([str(float(number))] if is_float else []), *truths]


def _is_small(label: tuple[object, ...]) -> bool:
    """Returns whether a tuple has few enough parts, looking at no more than that many."""
    waiting: list[object] = [label]
    count = 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            count += tuple.__len__(part)  # whatever a subclass says
            if count > _MOST_PARTS:
                return False
            waiting.extend(tuple.__iter__(part))
    return True


def plain(label: object) -> Label | None:
    """Returns a label of NumPy, or of a subclass, as the built-in value that it equals; None for what is no label.

    >>> [plain(label) for label in (np.int64(7), np.bool_(True), np.str_("E10"), (np.int64(7), "a"), b"E10")]
    [7, True, 'E10', (7, 'a'), None]
    """
    if isinstance(label, np.generic) and canonical(label) is not None:
        label = label.item()
    return label if type(label) in _BUILT_IN and label == label else canonical(label)


def public_space(labels: object) -> "LabelSpace":
    """Returns labels that somebody lists as a space; a `LabelSpace` is taken as it is.

    Refuses what is no list, labels that are there twice, also as a number and its text, blank ones and `UNKNOWN`.

    >>> public_space("bcd")
    Traceback (most recent call last):
    reticent.errors.InvalidValue: Expected a list of labels, got one string. Pass ["E10"] for one label.
    """
    if isinstance(labels, LabelSpace):
        return labels
    if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        what = "one string" if isinstance(labels, str | bytes) else type(labels).__name__
        raise errors.InvalidValue(f'Expected a list of labels, got {what}. Pass ["E10"] for one label.')
    space = LabelSpace(tuple(labels))
    _refuse_two_spellings(space.labels)
    if UNKNOWN in space.labels:
        raise errors.InvalidValue(f"Expected labels other than {UNKNOWN}: that is the answer where none is known.")
    if any(isinstance(label, str) and not label.strip() for label in space.labels):
        raise errors.InvalidValue("Expected labels that are not blank: an empty cell is no label.")
    return space


def by_label(table: Mapping[Any, Value]) -> dict[Label, Value]:
    """Returns a public table with labels as plain values; refuses what is no label, and two spellings of one."""
    found = {plain(label): value for label, value in table.items()}
    if None in found:
        raise errors.InvalidValue(_NO_LABEL)
    _refuse_two_spellings(found)
    return found


def _refuse_two_spellings(labels: Collection[Label]) -> None:
    for label, text in _in_two_spellings(labels):
        raise errors.InvalidValue(
            f"Expected each label once, got {label!r} and {text!r}: a number and its text are one label. Keep one."
        )


def _in_two_spellings(labels: Collection[Label]) -> Iterator[tuple[Label, str]]:
    """Yields labels that are there in a second spelling too, each with that text."""
    texts = {label for label in labels if isinstance(label, str)}
    others = [label for label in labels if not isinstance(label, str) or label.endswith(".0") or label in _TRUTHS]
    for label in others if texts else ():  # nearly always one of them is empty; there may be millions
        number = number_of(canonical(label))
        spellings = [] if number is None else _texts_of(number)
        yield from ((label, text) for text in dict.fromkeys(spellings) if text in texts and text != label)


def labels_to_json(labels: Iterable[Label | None]) -> list[Any]:
    """Returns labels as plain JSON values; a tuple becomes a list."""
    return [labels_to_json(label) if isinstance(label, tuple) else label for label in labels]


def labels_from_json(values: Iterable[Any], levels: int = 8) -> tuple[Label, ...]:
    """Returns the labels that `labels_to_json` wrote, of tuples nested up to `levels` deep.

    >>> labels_from_json(labels_to_json(["E10", 2, ("a", 1)]))
    ('E10', 2, ('a', 1))
    """
    if levels < 0 or not isinstance(values, list):
        raise errors.InvalidValue("Expected a list of labels, with less nesting.")
    if list not in set(map(type, values)):  # millions of texts
        return tuple(values)
    return tuple(labels_from_json(value, levels - 1) if isinstance(value, list) else value for value in values)


def table_from_json(stored: Iterable[Any]) -> dict[Any, Any]:
    """Returns a public table whose items `labels_to_json` wrote; of two spellings of a label, the text.

    >>> table_from_json([[7, "a"], ["7", "a"], ["8.0", "b"]])
    {'7': 'a', '8.0': 'b'}
    """
    found = {pair[0]: pair[1] for pair in map(labels_from_json, stored)}
    twice = {label for label, _ in _in_two_spellings(found)}  # older versions took both
    return {label: value for label, value in found.items() if label not in twice}


def in_public_order(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Sorts labels by their values, so that their order does not depend on the data they came from.

    >>> in_public_order(["b", 10, 2, "a"])
    (2, 10, 'a', 'b')
    """
    return tuple(sorted(labels, key=_place))


def _place(label: Label) -> tuple[int, int | float, str]:
    if isinstance(label, int | float):
        return 0, label, ""
    return (1, 0, label) if isinstance(label, str) else (2, 0, repr(label))


@dataclass(frozen=True)
class LabelSpace:
    """The only thing that may size an output.

    Guarantees:
      - Labels keep their names and their order; a space never changes.      test_label_space_is_a_value
      - A union is idempotent and keeps the order of what was known.         test_union_is_idempotent
      - Finding a label takes the same time in a space of any size.          test_label_space_finds_rows
      - A space has no index until a label is looked for.                    test_loading_makes_no_index_of_labels

    Args:
        labels: Distinct labels, in a public order.
        event: What it cost to know them: `events.Public()` where they are public.

    Example:
        >>> LabelSpace(("E10", "E11")).union(LabelSpace(("E11", "E12"))).labels
        ('E10', 'E11', 'E12')
    """

    labels: tuple[Label, ...]
    event: Event = _PUBLIC

    def __post_init__(self) -> None:
        if not isinstance(self.labels, tuple):
            raise errors.InvalidValue("Expected the labels of a label space as a tuple.")
        if not _are_labels(self.labels):
            raise errors.InvalidValue(_NO_LABEL)
        if not set(map(type, self.labels)) <= _BUILT_IN:
            object.__setattr__(self, "labels", tuple(map(plain, self.labels)))
        if not _are_distinct(self.labels):
            raise errors.InvalidValue("Expected distinct labels, got some twice.")
        if not isinstance(self.event, Event):
            raise errors.InvalidValue("Expected an event that says how the labels became known.")

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return isinstance(label, Hashable) and label in self._rows

    @cached_property
    def _rows(self) -> dict[Label, int]:
        """Where each label is; made when one is first looked for, which predicting does not."""
        return dict(zip(self.labels, range(len(self.labels)), strict=True))

    def row(self, label: Label) -> int:
        """Returns the place of a label in the space, -1 for one that is not in it."""
        return self._rows.get(label, -1)

    def union(self, other: "LabelSpace") -> "LabelSpace":
        """Returns both spaces as one, the labels known here first."""
        new = tuple(label for label in other.labels if label not in self._rows)
        if not new:
            return self
        parts = [space.event for space in (self, other) if space.event != events.Public()]
        return LabelSpace(self.labels + new, events.compose(*parts) if parts else events.Public())


def _are_labels(labels: tuple[Label, ...]) -> bool:
    """Returns whether all may be released; millions of plain texts are looked at without calling Python for each."""
    if set(map(type, labels)) == {str} and all(map(str.isascii, labels)):  # type: ignore[arg-type]
        return True
    return all(_canonical_or_none(label) is not None for label in labels)  # older models have empty ones


def _are_distinct(labels: tuple[Label, ...]) -> bool:
    """Returns whether no label is there twice; texts in ascending order are not even hashed."""
    if set(map(type, labels)) == {str} and all(map(str.__lt__, labels, itertools.islice(labels, 1, None))):  # type: ignore[arg-type]
        return True
    return len(set(labels)) == len(labels)
