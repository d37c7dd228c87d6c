"""InArrow: a table that another system holds, worked on where it lies: `mapInArrow` of Spark, or what is like it."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.packages import require
from reticent.gate.label_sums import Block, PartialSums
from reticent.labels import Label
from reticent.numerics.coded import Coded
from reticent.readers.examples import Columns, Examples
from reticent.sensitive.engines.machines import machine_here, unheard

Result = TypeVar("Result")
Batches = Iterator[Any]
Function = Callable[[Batches], Batches]

SCHEMA = "kind string, label string, count bigint, sums array<bigint>"
"""The columns of partial results, as Spark writes a schema: whole numbers, one row for each label of a partition."""
_SUMS, _COUNTS, _FAILED = "sums", "counts", "failed"  # what a partition has made; with it, on which machine
_KNOWN, _OTHER, _COUNT = "known", "other", "count"


@dataclass(frozen=True, kw_only=True, eq=False)
class InArrow:
    """Sensitive: a table that another system holds; its partitions are added up there, and whole numbers come back.

    It is passed to `learn_task` in place of inputs. Nothing is asked of the table until the spend is durable, and noise
    is drawn in this process. Which rows of a person count has to be settled in the table: it has no ids.

    Guarantees:
      - A release is that of one process, to the bit, however the table is parted.  test_a_table_elsewhere_learns_alike
      - Nothing is asked of the table before the spend.                             test_a_table_is_read_after_the_spend
      - What fails there ends in the fixed sentence; its text stays there.          test_a_table_that_fails_says_nothing

    Args:
        mapped: From a function of record batches and the schema of its results to these results: for Spark,
            `lambda function, schema: frame.mapInArrow(function, schema).toArrow().to_batches()`. It is called once or
            twice for a task, and the table has to hold the same rows each time.
        label: The column with labels.
        text: The column with texts for the encoder; or
        features: the column with arrays of numbers, and
        width: how many numbers each of them has; a row with another number of them is not used.
        numeric: Whether labels are declared to be numbers.
    """

    mapped: Callable[[Function, str], Iterable[Any]]
    label: str
    text: str | None = None
    features: str | None = None
    width: int | None = None
    numeric: bool = False
    names: ClassVar[tuple[str, ...]] = ()  # of columns that hold one feature each
    has_persons: ClassVar[bool] = False
    shares_memory: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (self.text is None) == (self.features is None) or (self.features is None) != (self.width is None):
            raise errors.InvalidValue("Expected one kind of input: text, or features and their width.")
        if self.width is not None:
            errors.set_whole(self, "width", at_least=1)

    def __repr__(self) -> str:
        return "InArrow(<sensitive>)"

    def __iter__(self) -> NoReturn:
        raise errors.InvalidValue("Expected a learner that adds up, such as Cosine: rows of this table stay elsewhere.")

    @property
    def _columns(self) -> Columns:
        return Columns(label=self.label, text=self.text, features=(self.features,) if self.features else ())

    def parts(self) -> "list[InArrow]":
        """Itself: the other system parts it."""
        return [self]

    def ids(self) -> Iterator[Coded]:
        """Nothing: it has no ids."""
        return iter(())

    def ready(self, files: Iterable[Path] = ()) -> int:
        """Refuses, before anything is spent, what cannot work; returns 1: it is one part here."""
        require("pyarrow", extra="reticent[parquet]", what="A table in Arrow")
        return 1

    def map(self, work: Callable[[Any], Result], parts: Iterable[Any]) -> Iterator[Result]:
        """Yields what work returns for the whole table, added up over its partitions.

        Args:
            work: A frozen value that can be pickled; it returns partial sums, or counts.
            parts: Sensitive: this table, as `task_streams.pieces` has it.
        """
        for _ in parts:
            function = _InPlace(work, self._columns, self.width, repr(machine_here()))
            try:
                total = _added(self.mapped(function, SCHEMA))
            except Exception:  # of the other system: its text may hold values of rows
                total = None
            if total is None:
                raise errors.LearningFailed() from None
            yield total


@dataclass(frozen=True)
class _InPlace:
    """What runs there: from the record batches of a partition to its partial result."""

    work: Callable[[Any], Any]
    columns: Columns
    width: int | None
    machine: str

    def __call__(self, batches: Batches) -> Batches:
        from reticent.sensitive.task_streams import Piece

        try:
            with unheard():
                if repr(machine_here()) != self.machine:  # bits could depend on where a row is
                    raise errors.ReticentError("Expected machines of one kind.")
                found = _written(self.work(Piece(self._examples(batches))))
        except Exception:  # it could depend on a row
            found = [(_FAILED, None, None, None)]
        yield _batch(found)

    def _examples(self, batches: Batches) -> Iterator[Examples]:
        from reticent.readers.parquet_cells import SideBySide, coded, examples_of

        memory = SideBySide()
        for batch in batches:
            if self.width is None:
                yield examples_of(batch, self.columns, Path(), memory)
            else:
                (name,) = self.columns.features
                yield Examples(_rows(batch[name], self.width), coded(batch[self.columns.label]), None)


def _rows(lists: Any, width: int) -> npt.NDArray[np.floating]:
    """Returns arrays of numbers as rows; one of another length, or without a number in some place, has NaN."""
    from pyarrow import compute

    kind = np.float32 if str(lists.type.value_type) == "float" else np.float64
    whole = compute.fill_null(compute.equal(compute.list_value_length(lists), width), False)
    rows = np.full((len(lists), width), np.nan, kind)
    inside = lists.filter(whole).flatten().to_numpy(zero_copy_only=False).astype(kind, copy=False)
    rows[whole.to_numpy(zero_copy_only=False)] = inside.reshape(-1, width)
    return rows


def _written(result: Any) -> list[tuple[Any, ...]]:
    """Returns a partial result as rows of `SCHEMA`; what it is comes first."""
    if isinstance(result, PartialSums):
        rows: list[tuple[Any, ...]] = [(_SUMS, None, None, None)]
        for kind, block in zip((_KNOWN, _OTHER), result.blocks, strict=True):
            labels, counts, sums = block.rows()
            each = [None] * len(labels) if sums is None else list(sums)
            written = zip(labels, counts.tolist(), each, strict=True)
            rows += [(kind, json.dumps(label), count, row) for label, count, row in written]
        return rows
    return [(_COUNTS, None, None, None), *((_COUNT, json.dumps(label), n, None) for label, n in result.items())]


def _batch(rows: list[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    kinds = (pa.string(), pa.string(), pa.int64(), pa.list_(pa.int64()))
    columns = [pa.array(list(column), kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.record_batch(columns, names=[field.split()[0] for field in SCHEMA.split(", ")])


def _added(batches: Iterable[Any]) -> Any:
    """Returns the partial results of all partitions, added up; None where one failed, or there is none."""
    from pyarrow import compute

    made: set[str] = set()
    total: PartialSums | None = None
    counts: dict[Label, int] = {}
    for batch in batches:
        kinds = batch["kind"]
        made |= set(kinds.to_pylist()) & {_SUMS, _COUNTS, _FAILED}
        for row in batch.filter(compute.equal(kinds, _COUNT)).to_pylist():
            label = _label(row["label"])
            counts[label] = counts.get(label, 0) + row["count"]
        blocks = [_block(batch.filter(compute.equal(kinds, kind))) for kind in (_KNOWN, _OTHER)]
        part = PartialSums.of(*blocks)
        if total is None:
            total = part
        else:
            total.merge(part)
    if made == {_SUMS}:
        return total
    return counts if made == {_COUNTS} else None


def _block(rows: Any) -> Block:
    labels = [_label(label) for label in rows["label"].to_pylist()]
    counts = rows["count"].to_numpy(zero_copy_only=False).astype(np.int64)
    if rows["sums"].null_count:
        return Block.of(labels, counts, None)
    inside = rows["sums"].flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return Block.of(labels, counts, inside.reshape(len(labels), -1) if labels else np.zeros((0, 0), np.int64))


def _label(text: str) -> Label:
    """Returns a label that was written as JSON; what was a tuple is one again."""

    def whole(value: Any) -> Label:
        return tuple(map(whole, value)) if isinstance(value, list) else value

    return whole(json.loads(text))
