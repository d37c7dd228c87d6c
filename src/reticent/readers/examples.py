"""Columns and Examples: what is asked of a file, and what is found in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from reticent import errors
from reticent.numerics.coded import Coded


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file are what; all public.

    Args:
        text: The column with texts.
        image: The column with paths of images, relative to the file.
        features: Columns of numbers, in order; or one column of lists of a fixed size (Parquet), or one array (NPZ).
        label: The column with labels; not needed to predict.
        person: The column that says whose example it is.
        keep: Columns to carry along unchanged, such as ids for predictions; may be columns of inputs too.

    Example:
        >>> Columns(text="note", label="code", person="patient").wanted
        ('note', 'code', 'patient')
    """

    text: str | None = None
    image: str | None = None
    features: Sequence[str] = ()
    label: str | None = None
    person: str | None = None
    keep: Sequence[str] = ()

    def __post_init__(self) -> None:
        for field_name, names in (("features", self.features), ("keep", self.keep)):
            if isinstance(names, str):
                raise errors.InvalidValue(f"Expected {field_name} to be a list of names, such as [{names!r}], got str.")
        if sum([self.text is not None, self.image is not None, bool(self.features)]) > 1:
            raise errors.InvalidValue("Expected one kind of input: text, image or features.")
        purposes = (*self.inputs, *(name for name in (self.label, self.person) if name))
        twice = next((name for name in purposes if purposes.count(name) > 1), None)
        if twice is not None:
            raise errors.InvalidValue(f"Expected a column for each purpose, got {twice!r} twice.")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns with what is learned from."""
        return tuple(name for name in (self.text, self.image, *self.features) if name)

    @property
    def wanted(self) -> tuple[str, ...]:
        """All columns, each once, inputs first."""
        return tuple(dict.fromkeys(name for name in (*self.inputs, self.label, self.person, *self.keep) if name))


class NamedColumns(np.ndarray[tuple[int, int], np.dtype[np.floating]]):
    """An array that knows the names of its columns, as a frame does; what is made of it does not."""

    columns: list[str]


@dataclass(frozen=True)
class Examples:
    """Sensitive: inputs, labels and person ids of a file, ready for `learn_task`, and columns that were kept.

    Labels and persons are `Coded` in the batches of a source, and lists in what `read` returns.
    """

    inputs: Any
    labels: Coded | Sequence[object] | None
    persons: Coded | Sequence[object] | None
    kept: Mapping[str, Sequence[object]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Examples(<sensitive>)"


def refuse_missing(path: Path, wanted: Sequence[str], there: Sequence[str], *, shown: bool = True) -> None:
    """Refuses a file that lacks a column or has it twice; `shown` says whether all its columns may be printed."""
    for name in wanted:
        if name not in there:
            rest = f"{path.name}. Its columns: {', '.join(there[:20]) or 'none'}." if shown else None
            raise errors.InvalidValue(f"No column {name!r} in {rest or f'the first line of {path.name}.'}")
        if there.count(name) > 1:
            raise errors.InvalidValue(f"Expected one column {name!r} in {path.name}, got several. Rename them.")


def refuse_type(path: Path, name: str, kind: object, expected: str) -> None:
    """Refuses a column by its type, which is public: every row of it would be left out.

    Args:
        path: The file.
        name: The column.
        kind: Its type.
        expected: What it should hold.
    """
    raise errors.InvalidValue(f"Expected column {name!r} of {path.name} to hold {expected}, got {str(kind)[:60]}.")
