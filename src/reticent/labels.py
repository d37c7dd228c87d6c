"""LabelSpace: the labels a classifier may output, and how they became known."""

import itertools
import os
import re
from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from reticent import errors
from reticent.numerics import text_files
from reticent.privacy import events
from reticent.privacy.events import Event

Label = Hashable
_PUBLIC = events.Public()
_DEEPEST = 1_000  # levels of a taxonomy
_LONGEST_TITLE = 2_000
_CODES = re.compile(r" \([A-Z]\w\w-[A-Z]\w\w\)$")  # ICD-10-CM ends titles of blocks and chapters with their codes
_SURROGATES = re.compile("[\ud800-\udfff]")  # no UTF-8 file can hold them
_MOST_BITS = 2_000  # of a number: fewer than 640 digits, which every Python can print
_LONGEST_NUMBER = 640  # characters of one
_TRUTHS = {"True": True, "False": False}
_MOST_PARTS = 1_000  # of a tuple, at all levels: parts that are one object each time may be more than memory holds

UNKNOWN: Final = "<unknown>"
"""What a classifier answers while it knows no label; public and fixed."""


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

    101 is "101" where that is known, and "101" is 101; so are 3.0 and "3.0", True and "True" (which is 1, too). A text
    that Python would not print for a number is no number: "0101" is not 101. What is known as it is stays so, and what
    is known in no spelling becomes known as `canonical` has it: True as 1, "True" as a text.

    Guarantees:
      - It depends on the label and on known ones alone, and never raises.      test_a_number_and_its_text_are_one_label

    >>> [spelled(label, {"101", 7, 1}) for label in (101, "7", "007", 8, "True")]
    ['101', 7, '007', 8, 1]
    """
    name = canonical(label)
    if name is None or name in known:
        return name
    printed = [str(label)] if isinstance(label, bool | np.bool_ | float | np.floating) else []
    return next((other for other in (*_other_spellings(name), *printed) if other in known), name)


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
    return not isinstance(label, str) or bool(_other_spellings(label))


def _other_spellings(name: Label) -> list[Label]:
    """Returns the text of a number, or the number that a text is printed for and its text; of anything else nothing."""
    if isinstance(name, int | float):
        return [str(name)]
    if not isinstance(name, str) or len(name) > _LONGEST_NUMBER:
        return []
    for read in (int, float, _TRUTHS.__getitem__):
        try:
            value: object = read(name)
        except (ValueError, KeyError):
            continue
        number = canonical(value)
        if number is not None and str(value) == name:
            return [number, str(number)]
    return []


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
            raise errors.InvalidValue("Expected labels that are strings, numbers or tuples of them; not None or NaN.")
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


@dataclass(frozen=True)
class Taxonomy:
    """A public hierarchy of labels: what is too fine for the label space goes to its nearest known ancestor.

    Guarantees: the answer depends on the label and on public facts alone.     test_taxonomy_maps_to_nearest_ancestor

    Args:
        parents: From a label to its parent.
        otherwise: Where a label without a known ancestor goes, such as "unknown"; None drops it.
        titles: What labels of the hierarchy are called; public labels whose remap it is have these as their names.

    Example:
        >>> icd = Taxonomy.from_edges([("E10.2", "E10"), ("E10", "E08-E13")], otherwise="unknown")
        >>> icd.nearest("E10.2", {"E08-E13"}), icd.nearest("Z99", {"E08-E13"})
        ('E08-E13', 'unknown')
    """

    parents: Mapping[Label, Label] = field(hash=False)
    otherwise: Label | None = None
    titles: Mapping[Any, str] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        if not all(isinstance(title, str) and len(title) <= _LONGEST_TITLE for title in self.titles.values()):
            raise errors.InvalidValue(f"Expected titles that are texts of at most {_LONGEST_TITLE:,} characters.")
        parents = dict(self.parents)
        depths: dict[Label, int] = {}
        for start in parents:
            path: dict[Label, None] = {}
            label = start
            while label in parents and label not in depths:
                if label in path:
                    raise errors.InvalidValue("Expected a hierarchy without cycles.")
                path[label] = None
                label = parents[label]
            above = depths.get(label, 0)
            depths |= {below: above + i for i, below in enumerate(reversed(path), start=1)}
        if max(depths.values(), default=0) > _DEEPEST:  # each example climbs it
            raise errors.InvalidValue(f"Expected a hierarchy of at most {_DEEPEST} levels.")
        object.__setattr__(self, "parents", MappingProxyType(parents))
        object.__setattr__(self, "titles", MappingProxyType(dict(self.titles)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Taxonomy, (dict(self.parents), self.otherwise, dict(self.titles))  # read-only views stay here

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[Label, Label]], *, otherwise: Label | None = None) -> "Taxonomy":
        """Makes a taxonomy from (child, parent) pairs; a child has one parent."""
        pairs = list(edges)
        if len({child for child, _ in pairs}) < len(pairs):
            raise errors.InvalidValue("Expected one parent for each label, got several for some.")
        return cls(dict(pairs), otherwise)

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str], *, otherwise: Label | None = None) -> "Taxonomy":
        """Reads a public CSV file with the columns child and parent."""
        edges = [
            (text_files.clean(path, line, child), text_files.clean(path, line, parent))
            for line, child, parent in text_files.read_pairs(path, "child", "parent")
        ]
        return cls.from_edges(edges, otherwise=otherwise)

    @classmethod
    def icd10cm(cls, *, otherwise: Label | None = None) -> "Taxonomy":
        """Reads ICD-10-CM from the package simple-icd-10-cm: code, category, block, chapter, each with its title."""
        try:
            import simple_icd_10_cm as icd
        except ImportError as error:
            raise errors.ReticentError("ICD-10-CM needs: pip install 'reticent[icd]'") from error
        parents: dict[Label, Label] = {}
        titles: dict[Label, str] = {}
        for code in icd.get_all_codes(with_dots=True):  # a few blocks are listed again as their only category
            parent = icd.get_parent(code)
            titles.setdefault(code, _CODES.sub("", " ".join(icd.get_description(code).split())))  # some have tabs
            if parent and parent != code:
                parents.setdefault(code, parent)
        return cls(parents, otherwise, titles)

    from_icd10cm = icd10cm  # as it was called first

    def nearest(self, label: Label, known: Container[Label]) -> Label | None:
        """Returns the label itself or its nearest ancestor among the known ones, else `otherwise`."""
        at: Label | None = label
        while at is not None:
            if at in known:
                return at
            at = self.parents.get(at)
        return self.otherwise
