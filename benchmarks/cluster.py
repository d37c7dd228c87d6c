"""A Ray cluster on this machine: what it costs to start and for each part, and how much faster two workers encode.

    python benchmarks/cluster.py [TEXTS]

Wall-clock seconds, since that is what a cluster is for: run it on a machine that is otherwise idle, and believe the
ratio, whose rounds are played in turn, more than the seconds. Where the machine is shared, seconds say who else was
there. So there is a second ratio, of processor time on the longest way: this process and the busiest worker, one after
the other, which is what a machine with a free core for each would have to wait for. Releases are compared bit by bit.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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


def longest_way(call: Callable[[], object], workers: int) -> tuple[float, float]:
    """Returns wall-clock seconds of a call, and processor seconds of this process and the busiest one below it.

    Ray may give parts to more processes than work at once: then each of the workers is taken to have done its share.
    """
    before, start = used(), time.perf_counter()
    call()
    took = time.perf_counter() - start
    spent = {process: seconds - before.get(process, 0.0) for process, seconds in used().items()}
    return took, spent.pop(os.getpid()) + max(max(spent.values()), sum(spent.values()) / workers)


def used() -> dict[int, float]:
    """Returns the processor seconds of this process and of all below it, on Linux."""
    found: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            found[int(stat.parent.name)] = (
                int(fields[1]),
                (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
            )
    mine = {os.getpid()}
    while more := {process for process, (parent, _) in found.items() if parent in mine} - mine:
        mine |= more
    return {process: found[process][1] for process in mine}


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
        rounds: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        for _ in range(ROUNDS):
            for workers, took in rounds.items():
                took.append(longest_way(partial(learned, many, replace(ray, workers=workers)), workers))
                print(workers, "workers: {:.1f} s, longest way {:.1f} s".format(*took[-1]), file=sys.stderr, flush=True)
    for place, words in enumerate(("", "_on_the_longest_way")):
        one, two = ([one_round[place] for one_round in took] for took in rounds.values())
        found[f"one_worker_seconds{words}"] = round(statistics.median(one), 2)
        found[f"two_workers_seconds{words}"] = round(statistics.median(two), 2)
        found[f"two_workers_against_one{words}"] = round(
            statistics.median(a / b for a, b in zip(one, two, strict=True)), 2
        )
    found["load_of_the_machine"] = round(os.getloadavg()[0], 1)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6_000)
