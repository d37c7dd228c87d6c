"""Many plain lines at once, with pyarrow. It is told all that it would guess, so that a line's cells are its own.

A plain line has the right number of commas and neither quotes nor anything else that could mean more than itself. Both
pyarrow and Python round a decimal number correctly, so they agree on every number that both can read; where pyarrow
cannot read a cell of a column, Python reads that column.
"""

import csv
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.numerics.coded import MISSING, Coded
from reticent.readers.csv_cells import Layout, Rows, number
from reticent.readers.csv_lines import MARK
from reticent.readers.limits import LONGEST_LINE

_SPECIAL = (b'"', b"\0", MARK)  # a mark at its start would be taken for that of a file


def plain_lines(
    block: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.bool_]:
    """Returns which lines of a block are plain: one truth value for each.

    Args:
        block: The lines.
        starts: Where each begins.
        ends: Where each ends, before what ends it.
        width: How many cells a line has.
    """
    commas = np.flatnonzero(np.frombuffer(block, np.uint8) == ord(","))
    counts = np.searchsorted(commas, ends) - np.searchsorted(commas, starts)
    plain: npt.NDArray[np.bool_] = (counts == width - 1) & (ends - starts <= min(csv.field_size_limit(), LONGEST_LINE))
    if width == 1 or not _is_installed():  # a cell alone may be blank, which is no row
        plain[:] = False
    for special in _SPECIAL:
        place = block.find(special)
        while place >= 0:  # from line to line
            line = int(np.searchsorted(ends, place))
            plain[line] = False
            place = block.find(special, int(ends[line]))
    return plain


def at_once(lines: bytes, layout: Layout) -> Rows:
    """Returns the rows of plain lines."""
    import pyarrow

    try:
        table = _parsed(lines, layout, pyarrow.float64())
    except pyarrow.ArrowInvalid:  # some cell is no number, or one that Python alone can read
        table = _parsed(lines, layout, pyarrow.binary())
    features = np.empty((len(layout.columns.features), table.num_rows))
    for row, name in zip(features, layout.columns.features, strict=True):
        row[:] = _numbers(table[str(layout.places[name])])
    texts = {name: _texts(table[str(layout.places[name])]) for name in layout.texts}
    return Rows(np.ascontiguousarray(features.T), texts)


def _parsed(lines: bytes, layout: Layout, number: Any) -> Any:
    import pyarrow
    from pyarrow import csv as reader

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.binary())
    kinds = {str(place): number for place in layout.places.values()}
    kinds |= {str(layout.places[name]): text for name in layout.texts}
    return reader.read_csv(
        pyarrow.BufferReader(lines),
        read_options=reader.ReadOptions(
            use_threads=False, block_size=len(lines) + 1, column_names=[str(i) for i in range(layout.width)]
        ),
        parse_options=reader.ParseOptions(quote_char=False, escape_char=False, newlines_in_values=False),
        convert_options=reader.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=list(MISSING),  # of which Python, too, makes NaN
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )


def _numbers(column: Any) -> npt.NDArray[np.float64]:
    import pyarrow

    array = column.combine_chunks()
    if hasattr(array, "dictionary"):
        array = array.dictionary_decode()
    if pyarrow.types.is_binary(array.type):
        try:
            array = array.cast(pyarrow.string()).cast(pyarrow.float64())
        except pyarrow.ArrowInvalid:
            return np.array([number(_text(cell)) for cell in array.to_pylist()])
    found: npt.NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
    return found


def _texts(column: Any) -> Coded:
    array = column.combine_chunks()
    entries: list[object] = [_text(cell) for cell in array.dictionary.to_pylist()]
    return Coded(array.indices.to_numpy().astype(np.int64), entries)


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogateescape")


def _is_installed() -> bool:
    """Returns whether pyarrow is: a core install is smaller without."""
    try:
        import pyarrow.csv
    except ImportError:
        return False
    return bool(pyarrow.csv)
