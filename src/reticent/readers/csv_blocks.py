"""Blocks of lines as examples. What becomes of a line depends on that line alone, whichever way it is read.

Guarantees:
  - Plain lines that are read together, and any line by itself, give the same bits.   test_bulk_is_line_by_line
  - No line changes what another one is.                   test_one_line_does_not_change_another
"""

from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.numerics.coded import Coded
from reticent.readers import csv_bulk
from reticent.readers.csv_cells import Layout, Rows, one_by_one, readable
from reticent.readers.csv_lines import is_blank
from reticent.readers.examples import Examples
from reticent.readers.sources import named

Places = npt.NDArray[np.int64]


def examples_of(block: bytes | None, layout: Layout) -> Examples:
    """Returns the examples of some lines; None is a line that was too long to be read."""
    rows = rows_of(block, layout)
    columns = layout.columns
    if columns.features:
        inputs: Any = named(rows.features, columns.features)
    elif columns.image:
        inputs = rows.texts[columns.image].mapped(lambda name: layout.folder / str(name)).cells()
    else:
        inputs = rows.texts[columns.text or ""].mapped(lambda text: readable(str(text))).cells()
    return Examples(
        inputs,
        rows.texts[columns.label] if columns.label else None,
        rows.texts[columns.person] if columns.person else None,
        {name: rows.texts[name].cells() for name in columns.keep},
    )


def rows_of(block: bytes | None, layout: Layout) -> Rows:
    """Returns the rows of a block in their order: of plain lines at once, of all others one by one."""
    if block is None:
        return one_by_one([None], layout)[0]
    starts, ends = _lines(block)
    plain = csv_bulk.plain_lines(block, starts, ends, layout.width)
    if len(plain) and plain.all() and b"\r" not in block:
        return csv_bulk.at_once(block, layout)
    lines = [block[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    others = [place for place in np.flatnonzero(~plain).tolist() if not is_blank(lines[place])]
    alone, parsed = one_by_one((lines[place] for place in others), layout)
    if not plain.any():
        return alone
    together = csv_bulk.at_once(b"\n".join(compress(lines, plain)), layout)
    order = np.argsort(np.concatenate([np.flatnonzero(plain), np.array(others, dtype=np.int64)[parsed]]))
    texts = {name: Coded.joined([together.texts[name], alone.texts[name]]).taken(order) for name in layout.texts}
    return Rows(np.concatenate([together.features, alone.features])[order], texts)


def _lines(block: bytes) -> tuple[Places, Places]:
    """Returns where the lines begin and end that are not empty."""
    content = np.frombuffer(block, np.uint8)
    is_end = content == ord("\n")
    if b"\r" in block:
        is_end |= content == ord("\r")
    ends = np.append(np.flatnonzero(is_end), len(block))
    starts = np.append(0, ends[:-1] + 1)
    return starts[starts < ends], ends[starts < ends]
