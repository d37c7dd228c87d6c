"""A Ray cluster on this machine: what it costs to start and for each part, and how much faster two workers encode.

    python benchmarks/cluster.py [TEXTS]

Wall-clock seconds, since that is what a cluster is for: run it on a machine that is otherwise idle, and believe the
ratio, whose rounds are played in turn, more than the seconds. Releases are compared bit by bit.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyarrow import parquet

import reticent as rt
from reticent.gate.noise import NoiseSource

ROUNDS = 3
SHARDS = 8
LABELS = ("cardiology", "neurology", "surgery")
ENCODER = rt.encoders.minilm()  # that of all tasks of a stream: each worker loads it once


def seconds(call: Callable[[], object]) -> float:
    """Returns how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def write(folder: Path, texts: int) -> Path:
    """Writes shards of made-up notes of different lengths."""
    folder.mkdir()
    for shard in range(SHARDS):
        rows = range(shard, texts, SHARDS)
        notes = [f"patient {i} reports " + "pain after a long walk, " * (1 + i % 6) for i in rows]
        table = pa.table({"note": notes, "code": [LABELS[i % 3] for i in rows]})
        parquet.write_table(table, folder / f"{shard:02}.parquet")
    return folder


def learned(folder: Path, engine: rt.engines.Engine) -> dict[str, bytes]:
    """Learns the shards as one task, with seeded noise, and returns what is released."""
    model = rt.ContinualClassifier(
        encoder=ENCODER,
        labels=rt.PublicLabels(LABELS),
        budget=rt.Budget(epsilon=1.0, delta=1e-5),
        noise=NoiseSource.seeded(0),
        engine=engine,
    )
    source = rt.open_source(folder, rt.Columns(text="note", label="code"))
    model.learn_task(source, name="march", each_row_is_a_person=True)
    return {name: array.tobytes() for name, array in model.releases[-1].parameters.items()}


def nothing(part: int) -> int:
    """Works on a part in no time."""
    return part


def main(texts: int) -> None:
    """Measures, and prints one JSON object."""
    ray = rt.engines.Ray(workers=3)
    found: dict[str, object] = {"texts": texts, "start_seconds": round(seconds(ray.ready), 2)}
    list(ray.map(nothing, range(30)))  # workers have started
    found["milliseconds_a_part"] = round(seconds(lambda: list(ray.map(nothing, range(1_000)))), 3)
    with TemporaryDirectory() as name:
        few, many = write(Path(name, "few"), 24 * SHARDS), write(Path(name, "many"), texts)
        releases = [learned(few, replace(ray, workers=workers)) for workers in (3, 1, 2, 3)]  # encoders are loaded
        found["identical_releases_for_1_2_3_workers"] = all(release == releases[0] for release in releases)
        found["identical_to_one_process"] = learned(few, rt.engines.Local(threads=1)) == releases[0]
        one, two = [], []
        for _ in range(ROUNDS):
            one.append(seconds(lambda: learned(many, replace(ray, workers=1))))
            two.append(seconds(lambda: learned(many, replace(ray, workers=2))))
            print(f"one worker {one[-1]:.1f} s, two {two[-1]:.1f} s", file=sys.stderr, flush=True)
    found["one_worker_seconds"] = round(statistics.median(one), 2)
    found["two_workers_seconds"] = round(statistics.median(two), 2)
    found["two_workers_against_one"] = round(statistics.median(a / b for a, b in zip(one, two, strict=True)), 2)
    found["load_of_the_machine"] = round(os.getloadavg()[0], 1)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6_000)
