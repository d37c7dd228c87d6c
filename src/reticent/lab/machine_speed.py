"""How fast this machine is: a few seconds of learning, reading, noise and prediction on made-up rows.

What comes out are `costs.Speeds`, to be used instead of those that were measured elsewhere. One thread is measured, in
processor time; starting a process, writing answers, Ray and the network keep what was measured elsewhere.
"""

import dataclasses
import functools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.gate.noise import NoiseSource
from reticent.policies import PublicLabels
from reticent.readers import Columns, open_source
from reticent.running_costs import MEASURED, Speeds

ROWS, NARROW, WIDE, LABELS, MANY, TASKS, REPEATS = 40_000, 8, 392, 100, 1_000, 4, 3


def measure(*, texts: bool = False) -> Speeds:
    """Measures this machine; with `texts` also the encoder, which needs torch."""
    _learned(10, NARROW, LABELS)  # compiles
    draw = NoiseSource.from_os()
    task = _seconds(lambda: _learned(10, NARROW, LABELS))
    narrow = _seconds(lambda: _learned(ROWS, NARROW, LABELS))
    wide = _seconds(lambda: _learned(ROWS, WIDE, LABELS))
    noise = _seconds(lambda: draw.rounded_gaussian(2.0**22, 1 << 20)) / (1 << 20)
    many = _seconds(lambda: _learned(10, WIDE, MANY)) - task - MANY * WIDE * noise
    row = _positive(narrow - task) / ROWS
    combine, product = _prediction()
    with tempfile.TemporaryDirectory() as folder:
        read = _reading(Path(folder))
    return dataclasses.replace(
        MEASURED,
        **read,
        cell=_positive(wide - narrow) / (ROWS * (WIDE - NARROW)),
        row=row,
        noise=noise,
        publish=_positive(many) / (MANY * WIDE),
        task=task,
        combine=combine,
        product=product,
        text=_text() if texts else MEASURED.text,
        measured=f"{datetime.now(UTC).date().isoformat()}, this machine ({os.cpu_count()} cores)",
    )


def _seconds(work: Callable[[], object]) -> float:
    """Returns the median processor time of some runs."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return statistics.median(found)


def _positive(seconds: float) -> float:
    """A difference of two times may be negative on a busy machine; nothing is for free."""
    return max(seconds, 1e-6)


@functools.lru_cache(maxsize=4)
def _made(rows: int, width: int, labels: int) -> tuple[npt.NDArray[np.float32], list[str]]:
    draw = np.random.default_rng(0)
    which = draw.integers(0, labels, rows)
    centres = draw.standard_normal((labels, width), dtype=np.float32)
    return centres[which] + draw.standard_normal((rows, width), dtype=np.float32), [f"label {i}" for i in which]


def _learned(rows: int, width: int, labels: int, tasks: int = 1) -> ContinualClassifier:
    """Learns tasks of a stream in a folder of its own."""
    x, y = _made(rows, width, min(labels, LABELS))
    with tempfile.TemporaryDirectory() as folder:
        space = PublicLabels(f"label {i}" for i in range(labels))
        model = ContinualClassifier(labels=space, budget=Budget(epsilon=1.0, delta=1e-5), path=Path(folder, "model"))
        for task in range(tasks):
            model.learn_task(x, y, name=f"task {task}")
    return model


def _prediction() -> tuple[float, float]:
    """Returns the seconds to combine a cell of sums, and to multiply two cells."""
    x, _ = _made(ROWS, WIDE, LABELS)
    model = _learned(1_000, WIDE, MANY, TASKS)
    start = time.process_time()
    model.predict(x[:1])
    first = time.process_time() - start
    scored = _seconds(lambda: model.predict(x[:4_000])) / 4_000
    return first / (MANY * WIDE * TASKS), scored / (MANY * WIDE)


def _reading(folder: Path) -> dict[str, float]:
    """Returns the seconds to read a cell of each kind of file; a kind that cannot be read here keeps its speed."""
    rows = ROWS // 20
    x, y = _made(rows, WIDE, LABELS)
    names = [f"f{i}" for i in range(WIDE)]
    csv, npz, parquet = (folder / f"rows.{ending}" for ending in ("csv", "npz", "parquet"))
    lines = (",".join([*(f"{value:.6g}" for value in row), label]) for row, label in zip(x, y, strict=True))
    csv.write_text("\n".join([",".join([*names, "y"]), *lines]), encoding="utf-8")
    np.savez(npz, x=x, y=np.array(y))
    wide = Columns(features=names, label="y")
    found = {"csv": _read(csv, wide, x.size), "npz": _read(npz, Columns(features=("x",), label="y"), x.size)}
    try:
        import pyarrow as pa
        from pyarrow import parquet as writer
    except ModuleNotFoundError:
        return found
    flat = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDE)
    writer.write_table(pa.table({"x": flat, "y": y}), parquet)
    return {**found, "parquet": _read(parquet, Columns(features=("x",), label="y"), x.size)}


def _read(path: Path, columns: Columns, cells: int) -> float:
    def work() -> Any:
        for _ in open_source(path, columns):
            pass

    return _seconds(work) / cells


def _text() -> float:
    from reticent.encoders import minilm

    encoder = minilm()
    words = ["what", "is", "my", "card", "balance", "please", "how", "to", "book", "a", "flight", "tomorrow"]
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(words, size=draw.integers(3, 20))) for _ in range(200)]
    encoder(texts[:2])
    return _seconds(lambda: encoder(texts)) / len(texts)
