"""Readers: a task from a file. One module per format: CSV, Parquet, NPZ, folders of images.

What is read here is sensitive. Errors are read from metadata only (header, schema, names of arrays), never from a scan
of rows: what a row holds must not decide whether an exception appears.
"""

from reticent.readers.by_ending import collected, open_source, read
from reticent.readers.examples import Columns, Examples
from reticent.readers.record_batches import Batches
from reticent.readers.sources import Source

__all__ = ["Batches", "Columns", "Examples", "Source", "collected", "open_source", "read"]
