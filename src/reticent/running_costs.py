"""What a stream costs in time, memory and disk, from public sizes alone: a small model with measured speeds.

Every term is a size times a speed. What is linear by construction is said in docs/scaling.md, beside what was measured;
`reticent plan --rows 1e8 --width 768 --labels 1e6 --tasks 60 --workers 16` prints it.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from reticent import errors

File = Literal["parquet", "csv", "npz"]
FILES: tuple[File, ...] = ("parquet", "csv", "npz")
FACTOR = 2.5
"""Times and memory of one worker, and sizes of models, in docs/scaling.md are within it, in runs that speeds were
fitted to, and in runs of other sizes that were forecast before they were made.

Except that they are further below the model where few labels stand out from noise. So are times of two to eight
workers, with speeds of the machine that they were run on.
"""

# `released.standing`, `gate.sparse`: spaces up to here keep all; else so many of noise alone, and of earlier ones
_ALL_KEPT, _KEPT, _STANDING = 2_000, 300, 1_000
_NAMED = 230  # bytes of memory for the name of a label
_CELL = 4  # bytes of a float32
_CSV_CELL = 10  # bytes of a number as text, with its comma
_PART = 1 << 26  # bytes that a worker gets at a time, as in `readers.sources`
_MOST_TASKS = 1_000_000  # each is looked at
_BATCH = 1 << 24  # bytes of rows in memory at a time


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """Seconds of one processor for one unit of work, bytes of one process, and where they were measured.

    Args:
        parquet: Reading a cell of a Parquet file.
        csv: Reading a cell of a CSV file.
        npz: Reading a cell of an NPZ file.
        cell: Normalising a cell, snapping it to the grid and adding it up.
        row: Looking at the label of a row.
        noise: One draw of exact Gaussian noise.
        publish: Writing a cell of a release, and reading it again.
        task: Anything else of a task: the spend, the ledger, the manifest, the card.
        name: Reading the name of a label, once for each task and prediction.
        start: Importing and compiling, once in each process.
        combine: Combining one cell of the sums of a label in a task, when a model first predicts.
        product: Multiplying a cell of a row with one of a label.
        answer: Anything else of a predicted row, written to a file.
        text: Encoding a short text by MiniLM.
        encoder: Loading it and its probes, once in each process.
        ray_start: Starting Ray and its workers, wall-clock.
        ray_part: Giving a part to a worker and taking its answer.
        network: Moving a byte between machines: an assumption, 10 gigabits a second.
        base: Bytes of a process that has imported everything.
        encoder_base: Bytes that it has beside, with an encoder of texts.
        measured: When and on what.
    """

    parquet: float = 7e-9
    csv: float = 91e-9
    npz: float = 3.8e-9
    cell: float = 0.6e-9
    row: float = 0.4e-6
    noise: float = 7.5e-9
    publish: float = 8.5e-9
    task: float = 0.04
    name: float = 0.7e-6
    start: float = 3.0
    combine: float = 150e-9
    product: float = 0.025e-9
    answer: float = 1.7e-6
    text: float = 6.7e-3
    encoder: float = 4.0
    ray_start: float = 6.0
    ray_part: float = 0.9e-3
    network: float = 0.8e-9
    base: float = 300e6
    encoder_base: float = 430e6
    measured: str = "2026-11-17, one thread of a busy server with 2 cores"


MEASURED = Speeds()


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A stream by its public sizes.

    Args:
        rows: Of all tasks together.
        width: Features of a row.
        labels: Of the public label space, or that may be released in all.
        live_labels: Labels with examples in one task; by default the labels are shared out among the tasks.
        tasks: Of equal size.
        workers: Processes on one or more machines, each with a processor of its own.
        shards: Files that a task comes in: a worker takes one at a time, or a part of a large one.
        file: What rows are read from.
        texts: Whether rows are short texts, which an encoder turns into features first.

    Example:
        >>> Workload(rows=10**8, width=768, labels=10**6, tasks=60).live
        16667
    """

    rows: int
    width: int = 384
    labels: int = 100
    live_labels: int | None = None
    tasks: int = 1
    workers: int = 1
    shards: int = 1
    file: File = "parquet"
    texts: bool = False

    def __post_init__(self) -> None:
        for name in ("rows", "width", "labels", "workers", "shards"):
            errors.whole(name, getattr(self, name), at_least=1)
        errors.whole("tasks", self.tasks, at_least=1, at_most=_MOST_TASKS)
        if self.live_labels is not None:
            errors.whole("live_labels", self.live_labels, at_least=1)
            if self.live_labels > self.labels:
                raise errors.InvalidValue(f"Expected live labels <= labels, got {self.live_labels} > {self.labels}.")
        if self.file not in FILES:
            raise errors.InvalidValue(f"Expected a file out of {', '.join(FILES)}; got {self.file}.")

    @property
    def live(self) -> int:
        """Labels with examples in one task."""
        shared = math.ceil(self.labels / self.tasks) if self.live_labels is None else self.live_labels
        return min(shared, math.ceil(self.rows / self.tasks))

    def kept(self, task: int) -> int:
        """Labels in the release of a task, at most.

        All of a small space. Of a large one those with examples, if all of them stand out, the newest of earlier ones,
        and some of noise; where labels come back in every task, those with examples are the same ones each time.
        """
        if self.labels <= _ALL_KEPT:
            return self.labels
        earlier = min(_STANDING, self.live * (task - 1)) + min(_STANDING, _KEPT * (task - 1))
        return min(self.labels, self.live + _KEPT + earlier)

    @property
    def blocks(self) -> int:
        """Labels of all releases together, each as often as it is there."""
        return sum(map(self.kept, range(1, self.tasks + 1)))

    @property
    def learned(self) -> int:
        """Labels that a prediction is compared with, at most."""
        return self.labels if self.labels <= _ALL_KEPT else min(self.labels, self.live * self.tasks)

    @property
    def parts(self) -> int:
        """Parts of one task, which workers take one after another: its files, or ranges of large ones."""
        return max(min(self.shards, math.ceil(self.rows / self.tasks)), math.ceil(_bytes_of(self) / self.tasks / _PART))

    @property
    def longest(self) -> float:
        """The share of a task's rows that its busiest worker gets; parts are of one size.

        >>> [Workload(rows=900, shards=9, workers=workers).longest for workers in (1, 3, 8)]
        [1.0, 0.3333333333333333, 0.2222222222222222]
        """
        return math.ceil(self.parts / self.workers) / self.parts

    @property
    def cells(self) -> int:
        """Features of all rows."""
        return self.rows * self.width


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a workload costs. Seconds of waiting unless said otherwise; bytes.

    Args:
        workload: What was asked for.
        learn: Seconds by part, for all tasks together.
        predict: Seconds by part, for as many rows as were learned.
        memory: Peak bytes of a worker, of the process that draws noise, and of one that predicts.
        disk: Bytes of the input, of the last release and of the model.
        cluster: Parts, bytes that workers send, and processor hours of learning.
        speeds: What it was computed with.
    """

    workload: Workload
    learn: dict[str, float]
    predict: dict[str, float]
    memory: dict[str, float]
    disk: dict[str, float]
    cluster: dict[str, float]
    speeds: Speeds

    @property
    def learn_total(self) -> float:
        """Seconds to learn all tasks."""
        return math.fsum(self.learn.values())

    @property
    def predict_total(self) -> float:
        """Seconds to predict as many rows as were learned."""
        return math.fsum(self.predict.values())

    def json(self) -> dict[str, Any]:
        """Returns the costs as plain JSON values."""
        facts = dataclasses.asdict(self)
        for name, total in (("learn", self.learn_total), ("predict", self.predict_total)):
            facts[f"{name}_seconds"] = {**facts.pop(name), "total": total}
        for name in ("memory", "disk"):
            facts[f"{name}_bytes"] = facts.pop(name)
        workload = facts["workload"]
        workload["live_labels"] = self.workload.live
        return {**facts, "within_a_factor_of": FACTOR}


def costs(work: Workload, speeds: Speeds = MEASURED) -> Costs:
    """Returns what a workload costs, from sizes and speeds alone.

    >>> one, sixteen = (costs(Workload(rows=10**8, width=768, workers=n)) for n in (1, 16))
    >>> round(one.learn["reading"] / sixteen.learn["reading"], 1)
    16.0
    """
    sums = work.live * work.width
    drawn = work.blocks * work.width
    spread = work.workers > 1
    sent = 8.0 * sums * work.tasks * work.parts if spread else 0.0
    given = work.tasks * work.parts * work.longest  # to the busiest worker
    encode = work.rows * speeds.text if work.texts else 0.0
    read = work.cells * {"parquet": speeds.parquet, "csv": speeds.csv, "npz": speeds.npz}[work.file]
    if work.texts:
        read = work.rows * 20 * speeds.csv  # a text is about as long as so many numbers
    shared = {
        "encoding": encode,
        "reading": read,
        "sums": work.cells * speeds.cell,
        "labels": work.rows * speeds.row,
    }
    start = speeds.start + (speeds.encoder if work.texts else 0.0)
    base = speeds.base + (speeds.encoder_base if work.texts else 0.0)
    learn = {name: seconds * work.longest for name, seconds in shared.items() if seconds or name != "encoding"} | {
        "noise": drawn * speeds.noise,
        "publishing": drawn * speeds.publish + work.tasks * (speeds.task + work.labels * speeds.name),
        "start": start,
        "cluster": speeds.ray_start + start + given * speeds.ray_part + sent * speeds.network if spread else 0.0,
    }
    predict = {
        "start": start + speeds.task / 2 + drawn * speeds.publish + work.labels * speeds.name,
        "combining": work.learned * work.tasks * work.width * speeds.combine,
        "encoding": encode,
        "reading": read,
        "scoring": work.cells * work.learned * speeds.product + work.rows * speeds.answer,
    }
    if not work.texts:
        del predict["encoding"]
    accumulators = 16.0 * sums  # integers, and the kernel's own sums of a batch
    names = float(_NAMED * work.labels)
    release = float(_CELL * work.kept(work.tasks) * work.width)
    model = _CELL * drawn + 20_000.0 * work.tasks + 20.0 * work.labels
    return Costs(
        workload=work,
        learn=learn,
        predict=predict,
        memory={
            "worker": base + 6 * _BATCH + accumulators,
            "driver": base + accumulators + 4 * release + names,
            "predicting": base + 6 * _BATCH + 8.0 * work.learned * work.tasks * work.width + names,
        },
        disk={"input": float(_bytes_of(work)), "release": release, "model": model},
        cluster={
            "workers": work.workers,
            "parts": work.tasks * work.parts,
            "bytes_to_driver": sent,
            "processor_hours": (math.fsum(shared.values()) + learn["noise"] + learn["publishing"]) / 3600,
        },
        speeds=speeds,
    )


def _bytes_of(work: Workload) -> int:
    if work.texts:
        return work.rows * 60
    return work.cells * (_CSV_CELL if work.file == "csv" else _CELL) + work.rows * 8
