"""Whose example it is: what one person contributes is bounded, by the canonical text of ids (`person_ids`)."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.numerics.coded import Coded, Entries
from reticent.person_ids import person_ids

Ids = Iterable[Coded]
Mask = npt.NDArray[np.bool_]

MOST_PERSONS = 1 << 21
"""How many persons are told apart in one pass over a source that can be read again: about 300 MB."""
_LARGE = 1 << 64
_MOST_PASSES = 1 << 12  # persons that are still too many have hashes in common


def first_of_each(persons: Sequence[object], examples_per_person: int) -> list[int]:
    """Returns the rows of at most this many examples of each person: the first ones, in the order of the data.

    The choice depends on a person's own rows alone; an example whose id is missing is left out.

    >>> first_of_each(["x", "y", "x", None], 1)
    [0, 1]
    """
    rows: list[int] = np.flatnonzero(Counters(examples_per_person).kept(Coded.of(persons))).tolist()
    return rows


class Counters:
    """Sensitive: how many examples of each person were seen, carried over from batch to batch.

    Guarantees:
      - Batches of any sizes are bounded as if they were one.        test_counters_carry_over_batches
      - An id that a column has several entries for is one person.   test_entries_that_come_twice_are_one_person

    Args:
        examples_per_person: How many of each person count.
        of: Which persons are looked at, by their id; all by default. Rows of others do not count.
    """

    def __init__(self, examples_per_person: int, of: Callable[[object], bool] | None = None) -> None:
        self._most, self._of = examples_per_person, of
        self._places: dict[object, int] = {}
        self._first: Sequence[object] = ()  # persons in their places, while there was one batch
        self._whole = False  # whether all of them were whole numbers
        self._seen = np.zeros(0, np.int64)

    def __repr__(self) -> str:
        return "Counters(<sensitive>)"

    def __len__(self) -> int:
        return len(self._places) + len(self._first)

    def kept(self, persons: Coded) -> Mask:
        """Returns which examples of the next batch count: of each person the first ones, over all batches."""
        from reticent.gate import kernel  # compiled by the gate, before it spends

        places = np.append(self._places_of(persons.entries), -1)[persons.codes]
        if len(self) > len(self._seen):
            self._seen = np.append(self._seen, np.zeros(len(self), np.int64))
        kept = np.zeros(len(places), np.bool_)
        kernel.count_rows(places, self._seen, self._most, kept)
        return kept

    def _places_of(self, entries: Sequence[object]) -> npt.NDArray[np.int64]:
        """Returns the place of each person; those of the first batch are looked up only where another one follows."""
        keys, alone = self._keys(entries), self._of is None and not len(self)
        usual = isinstance(entries, Entries) and entries.usual is not None
        # columns that were joined have an entry for each of them, and one person may be written in several ways
        if alone and (usual or (None not in (distinct := set(keys)) and len(distinct) == len(keys))):
            self._first = keys
            return np.arange(len(keys))
        if self._first:
            self._places, self._first = dict(zip(self._first, range(len(self._first)), strict=True)), ()
        return np.fromiter(map(self._place, keys), np.int64, len(keys))

    def _keys(self, entries: Sequence[object]) -> Sequence[object]:
        """Returns canonical ids; whole numbers stay numbers, whose texts are as distinct, until other ids come."""
        usual = entries.usual if isinstance(entries, Entries) else None
        if self._of is None and (self._whole or not len(self)) and (usual is int or _are_whole(entries, usual)):
            self._whole = True
            return entries
        if self._whole:
            texts = person_ids([*self._first, *self._places])
            self._places, self._first = dict(zip(texts, range(len(texts)), strict=True)), ()
            self._whole = False
        return entries if usual is str else person_ids(entries)

    def _place(self, key: object) -> int:
        if key is None or not (self._of is None or self._of(key)):  # whose it is must be known to bound it
            return -1
        return self._places.setdefault(key, len(self._places))


def kept_of_each(parts: Sequence[Ids], examples_per_person: int, *, most: int = MOST_PERSONS) -> "list[Marks]":
    """Returns which rows of each part count: of each person the first ones, over all parts in their order.

    Where there are more persons than `most`, those whose hash is even and those whose hash is odd have a pass over the
    ids each, and so on: memory is one bit for each row, and counters of that many persons and those of one batch.

    Guarantees:
      - The rows of one pass, for any number of passes.              test_passes_by_hash_keep_the_same_rows

    Args:
        parts: The ids of each part, batch by batch, whenever it is iterated.
        examples_per_person: How many of each person count.
        most: Persons that are told apart in one pass.
    """
    marks: list[Marks] | None = None
    waiting = [(1, 0)]
    while waiting:
        modulus, rest = waiting.pop()
        of = None if modulus == 1 else partial(_falls_into, modulus, rest)
        found = _pass(parts, Counters(examples_per_person, of), most if modulus < _MOST_PASSES else math.inf)
        if found is None:
            waiting += [(2 * modulus, rest), (2 * modulus, rest + modulus)]
        else:
            marks = found if marks is None else [a.union(b) for a, b in zip(marks, found, strict=True)]
    return marks or []


def _pass(parts: Sequence[Ids], counters: Counters, most: float) -> "list[Marks] | None":
    """Returns which rows of some persons count; None where these are too many."""
    found: list[Marks] = []
    for part in parts:
        masks: list[Marks] = []
        for persons in part:
            masks.append(Marks.of(counters.kept(persons)))
            if len(counters) > most:
                return None
        found.append(Marks.joined(masks))
    return found


def _falls_into(modulus: int, rest: int, key: object) -> bool:
    return hash((key,)) % modulus == rest  # of a tuple: the hash of a number is the number


@dataclass(frozen=True, eq=False)
class Marks:
    """Sensitive: one bit for each row.

    >>> marks = Marks.joined([Marks.of(np.array([True, False, True])), Marks.of(np.array([False, True]))])
    >>> marks.rows(2, 5).tolist(), len(marks)
    ([0, 2], 5)
    """

    bits: npt.NDArray[np.uint8]
    size: int

    def __repr__(self) -> str:
        return "Marks(<sensitive>)"

    def __len__(self) -> int:
        return self.size

    @classmethod
    def of(cls, mask: Mask) -> "Marks":
        """Returns the marks of a mask."""
        return cls(np.packbits(mask), len(mask))

    @classmethod
    def joined(cls, parts: "Sequence[Marks]") -> "Marks":
        """Returns marks one after another."""
        bits = np.zeros(sum(map(len, parts)) // 8 + 1, np.uint8)
        at = 0
        for part in parts:
            shifted = np.packbits(np.append(np.zeros(at % 8, np.bool_), part.mask(0, len(part))))
            bits[at // 8 : at // 8 + len(shifted)] |= shifted
            at += len(part)
        return cls(bits, at)

    def union(self, other: "Marks") -> "Marks":
        """Returns what is marked in one of the two."""
        if len(self) != len(other):
            raise errors.InvalidValue("Expected a source that has the same rows whenever it is read.")
        return Marks(self.bits | other.bits, self.size)

    def mask(self, start: int, stop: int) -> Mask:
        """Returns a range of rows as truth values."""
        bits = np.unpackbits(self.bits[start // 8 : (stop + 7) // 8])
        return bits[start % 8 : start % 8 + stop - start].astype(np.bool_)

    def rows(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Returns the marked rows of a range, counted from its start."""
        return np.flatnonzero(self.mask(start, stop))


def _are_whole(entries: Sequence[object], usual: type | None) -> bool:
    """Returns whether entries are whole numbers that can be printed; texts that were not made yet are not looked at."""
    if usual is not None or set(map(type, entries)) != {int}:
        return False
    numbers = cast(Sequence[int], entries)
    return min(numbers) > -_LARGE and max(numbers) < _LARGE
