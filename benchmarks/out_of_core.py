"""Learning from a Parquet file that is larger than memory: resident memory, and speed beside reading the file.

    python benchmarks/out_of_core.py                      a small file, in seconds
    python benchmarks/out_of_core.py --rows 10000000      15 GB of features, of which about 200 MB lie on disk

The file holds features of a few thousand distinct rows, 1,000 labels as texts, and three rows of a person on average.
Learning and reading run in processes of their own; seconds are processor time, so that other programs do not count.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import reticent as rt

WIDTH, LABELS, POOL, GROUP = 384, 1_000, 4_096, 50_000
BUDGET = rt.Budget(epsilon=1.0, delta=1e-5, examples_per_person=2)


def write(path: Path, rows: int) -> None:
    """Writes the file, one row group at a time."""
    draw = np.random.default_rng(0)
    pool = draw.standard_normal((POOL, WIDTH), dtype=np.float32)
    schema = pa.schema({"x": pa.list_(pa.float32(), WIDTH), "code": pa.string(), "patient": pa.string()})
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["code"]) as file:
        for start in range(0, rows, GROUP):
            size = min(GROUP, rows - start)
            # neighbours in a file repeat, so that it is small on disk; once read it is as large as any
            which = (np.arange(size) // 64 + start // 64) % POOL
            labels = [f"label {k}" for k in draw.integers(0, LABELS, size).tolist()]
            persons = [f"person {k}" for k in draw.integers(0, max(1, rows // 3), size).tolist()]
            features = pa.FixedSizeListArray.from_arrays(pa.array(pool[which].ravel()), WIDTH)
            file.write_table(pa.table([features, pa.array(labels), pa.array(persons)], schema=schema))


def learn(path: Path, *, persons: bool) -> dict[str, float]:
    """Learns the file in this process."""
    columns = rt.Columns(features=("x",), label="code", person="patient" if persons else None)
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(), budget=BUDGET)
    source = rt.open_source(path, columns)
    began, seconds = time.perf_counter(), time.process_time()
    model.learn_task(source, name="march")
    return _told(began, seconds) | {"labels": len(model.classes_)}


def read(path: Path) -> dict[str, float]:
    """Reads the columns of the file in batches and does nothing with them."""
    began, seconds = time.perf_counter(), time.process_time()
    with pq.ParquetFile(path, read_dictionary=["code", "patient"], buffer_size=1 << 16) as file:
        for batch in file.iter_batches(batch_size=(1 << 24) // (4 * WIDTH), columns=["x", "code", "patient"]):
            batch["x"].flatten().to_numpy(zero_copy_only=False)
    return _told(began, seconds)


def _told(began: float, seconds: float) -> dict[str, float]:
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "wall": time.perf_counter() - began,
        "processor": time.process_time() - seconds,
        "resident MiB": mebibytes,
    }


def _apart(what: str, path: Path) -> dict[str, float]:
    """Runs one of the contestants in a process of its own: its memory is what it needs alone."""
    done = subprocess.run(  # noqa: S603 (this file)
        [sys.executable, __file__, "--only", what, "--file", str(path)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


CONTESTANTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "read the file": read,
    "learn, each row a person": lambda path: learn(path, persons=False),
    "learn, persons bounded": lambda path: learn(path, persons=True),
}


def main() -> None:
    """Writes a file, learns it, and prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--file", type=Path, help="a file that was written before")
    parser.add_argument("--folder", type=Path, help="where to write it; it is deleted afterwards")
    parser.add_argument("--only", choices=list(CONTESTANTS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(CONTESTANTS[given.only](given.file)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = given.file or Path(folder, "rows.parquet")
        if given.file is None:
            write(path, given.rows)
        rows = pq.ParquetFile(path).metadata.num_rows
        print(f"{rows:,} rows x {WIDTH}: {rows * WIDTH * 4 / 1e9:.1f} GB of features in memory.\n")
        print(f"{'':28}{'processor s':>12}{'wall s':>9}{'resident MiB':>14}{'speed of reading':>18}")
        reading = 0.0
        for what in CONTESTANTS:
            told = _apart(what, path)
            reading = reading or told["processor"]
            share = f"{reading / told['processor']:.0%}"
            print(f"{what:28}{told['processor']:12.1f}{told['wall']:9.1f}{told['resident MiB']:14,.0f}{share:>18}")


if __name__ == "__main__":
    main()
