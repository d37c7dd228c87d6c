"""CSV: a line is an example and is read by itself, so that no line (an open quote, say) changes what another one is.

Lines that do not parse are left out, and every column is text: no type is inferred from the data. Bytes that are not
UTF-8 stay in their cell as Python keeps them in names of files: two ids that differ in such bytes alone are not one
person, and neither is a label or an id. Texts that hold line breaks need Parquet.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.readers.csv_blocks import examples_of, rows_of
from reticent.readers.csv_cells import Layout, fields, undecodable
from reticent.readers.csv_lines import blocks, chunks, first_line
from reticent.readers.examples import Columns, Examples, refuse_missing
from reticent.readers.sources import PART, Held, Source, joined

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, repr=False)
class CsvSource:
    """The lines of a file that begin in a range of bytes.

    Args:
        path: The file.
        layout: What its first line says.
        start: Where the first line may begin, after that of names.
        stop: Where the next part begins; None reads to the end.
    """

    path: Path
    layout: Layout
    start: int
    stop: int | None = None
    numeric: bool = False  # nothing is declared
    size: int = 0

    def __repr__(self) -> str:
        return f"CsvSource({self.path.name})"

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels."""
        return self.layout.columns.label is not None

    @property
    def has_persons(self) -> bool:
        """Whether examples say whose they are."""
        return self.layout.columns.person is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of features; none where these have none."""
        return tuple(self.layout.columns.features)

    @property
    def width(self) -> int | None:
        """How many features a row has."""
        return len(self.layout.columns.features) or None

    def __iter__(self) -> Iterator[Examples]:
        """Reads the examples in batches."""
        yield from _batches(self._blocks(), self.layout)

    def ids(self) -> Iterator[Coded]:
        """Reads the person ids alone."""
        person = self.layout.columns.person
        if person is not None:
            yield from (rows_of(block, self.layout.only(person)).texts[person] for block in self._blocks())

    def _blocks(self) -> Iterator[bytes | None]:
        with open(self.path, "rb") as file:
            file.seek(self.start - 1)
            yield from blocks(chunks(file), self.start, self.stop)

    def parts(self) -> list[Source]:
        """Returns ranges of bytes."""
        size = self.path.stat().st_size if self.stop is None else self.stop
        starts = range(self.start, max(size, self.start + 1), PART)
        return [
            replace(self, start=start, stop=stop) for start, stop in zip(starts, [*starts[1:], self.stop], strict=True)
        ]


def open_csv(path: Path, columns: Columns, *, labelled: bool) -> Source:
    """Opens a file whose first line names the wanted columns.

    Args:
        path: The file; "-" is standard input, which is read at once.
        columns: Which columns are what.
        labelled: Whether lines that do not parse are left out; else each is a row of missing values.
    """
    if not columns.inputs:
        raise errors.InvalidValue("Expected the column with the inputs: --text, --image or --features.")
    if path == STANDARD_INPUT:
        shown = Path("standard input")
        with open(sys.stdin.fileno(), "rb", closefd=False) as file:
            layout, start, ahead = _layout(shown, columns, labelled, file)
            found = joined(list(_batches(blocks(chain([ahead[start - 1 :]], chunks(file)), start, None), layout)))
        return Held(shown, found, len(columns.features) or None)
    with open(path, "rb") as file:
        layout, start, _ = _layout(path, columns, labelled, file)
    return CsvSource(path, layout, start)


def _batches(lines: Iterable[bytes | None], layout: Layout) -> Iterator[Examples]:
    found = False
    for block in lines:
        yield examples_of(block, layout)
        found = True
    if not found:
        yield examples_of(b"", layout)


def _layout(path: Path, columns: Columns, labelled: bool, file: BinaryIO) -> tuple[Layout, int, bytes]:
    """Returns where the wanted columns are, the place after the first line, and what was read to know it."""
    line, start, ahead = first_line(file)
    header = fields(line)
    if any(map(undecodable, header)):
        raise errors.InvalidValue(f"The first line of {path.name} is not UTF-8. Save the file as UTF-8.")
    _refuse_other_formats(path, columns, header)
    refuse_missing(path, columns.wanted, header, shown=False)  # without a header the first line is an example
    places = {name: header.index(name) for name in columns.wanted}
    layout = Layout(columns=columns, folder=path.parent, labelled=labelled, width=len(header), places=places)
    return layout, start, ahead


def _refuse_other_formats(path: Path, columns: Columns, header: list[str]) -> None:
    """Refuses a file without a first line, and one whose columns are separated by something else, and says so.

    Only a line that holds all wanted names is told from an example, of which nothing may be said.
    """
    if not header:
        raise errors.InvalidValue(f"{path.name} is empty. Expected names of columns in its first line.")
    for separator, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        parts = [part.strip().strip('"') for part in separator.join(header).split(separator)]
        if len(parts) > len(header) and set(columns.wanted) <= set(parts):
            raise errors.InvalidValue(
                f"The columns of {path.name} are separated by {called}. Save it with commas, or as Parquet."
            )
