"""Prediction at scale, one thread, processor time, peers in one run: file to file, top-k, int8, nearest neighbours.

- `python benchmarks/prediction.py files --millions 10`: embeddings in Parquet predicted to Parquet (`reticent predict`)
  against reading them with pyarrow alone; seconds and peak memory of each process. Shards are links to one file.
- `python benchmarks/prediction.py labels`: top 10 of 1,000,000 labels x 384, exact in blocks, against faiss where it is
  installed (`pip install faiss-cpu`). Labels are made-up directions that share 48 dimensions.
- `python benchmarks/prediction.py int8 DATA`: prototypes in int8 against float32, on the data sets in DATA.
"""

import argparse
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, ROWS, SHARED, K = 384, 1_000_000, 48, 10
READ = """
import sys, pyarrow.parquet as pq
from pathlib import Path
for file in sorted(Path(sys.argv[1]).iterdir()):
    for batch in pq.ParquetFile(file).iter_batches(10_000, use_threads=False):
        batch.column(0).flatten().to_numpy()
"""
PREDICT = """
import sys
from reticent.cli import main
sys.argv[0] = "reticent"
main()
"""


def spent(run: Callable[[], Any], rounds: int = 3) -> float:
    """Returns the median processor time of a run."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def child(code: str, *words: object) -> tuple[float, float]:
    """Runs a program of its own; returns its processor time and its peak memory in MiB."""
    command = [sys.executable, "-c", code, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("A program failed.")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def files(millions: int, root: Path) -> None:
    """Predicts shards of a million rows each, and reads them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import reticent as rt

    draw = np.random.default_rng(0)
    means = draw.normal(size=(100, WIDTH)).astype(np.float32)
    labels = [f"label {i}" for i in range(100)]
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(labels), budget=rt.Budget(epsilon=1.0, delta=1e-5), path=root / "model"
    )
    y = draw.integers(100, size=20_000)
    model.learn_task(means[y] + draw.normal(size=(len(y), WIDTH)).astype(np.float32), [labels[i] for i in y], name="a")
    schema = pa.schema([("x", pa.list_(pa.float32(), WIDTH))])
    (root / "shards").mkdir()
    with pq.ParquetWriter(root / "shards" / "000.parquet", schema, compression="none", use_dictionary=False) as out:
        for _ in range(ROWS // 50_000):
            x = means[draw.integers(100, size=50_000)] + draw.normal(size=(50_000, WIDTH)).astype(np.float32)
            out.write_table(pa.table([pa.FixedSizeListArray.from_arrays(x.ravel(), WIDTH)], schema=schema))
    for i in range(1, millions):
        os.link(root / "shards" / "000.parquet", root / "shards" / f"{i:03d}.parquet")
    words = "predict", root / "shards", "--model", root / "model", "--features", "x", "-o", root / "out.parquet"
    for name, found in (("pyarrow reads", child(READ, root / "shards")), ("reticent predict", child(PREDICT, *words))):
        print(f"{name:18} {millions} M x {WIDTH}: {found[0]:7.1f} s of processor time, peak {found[1]:,.0f} MiB")
    rows = pq.ParquetFile(root / "out.parquet").metadata.num_rows
    print(f"rows written {rows:,}")


def labels() -> None:
    """Scores 64 examples against a million labels, exactly and approximately."""
    from reticent.numerics.largest import largest

    draw = np.random.default_rng(0)
    shared = draw.normal(size=(SHARED, WIDTH)).astype(np.float32)
    weights = draw.standard_normal((1_000_000, SHARED), dtype=np.float32) @ shared
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    x = weights[:64] + 0.05 * draw.normal(size=(64, WIDTH)).astype(np.float32)
    blocks = [x]
    exact = np.concatenate([largest(block @ weights.T, K) for block in blocks])
    ours = spent(lambda: [largest(block @ weights.T, K) for block in blocks])
    product = spent(lambda: [block @ weights.T for block in blocks])
    print(f"exact, 64 at a time: {1e3 * ours / 64:.1f} ms an example, of which the product {1e3 * product / 64:.1f}")
    whole = spent(lambda: [np.argsort(-(block @ weights.T), axis=1, kind="stable")[:, :K] for block in [x[:16]]], 1)
    print(f"sorting all scores : {1e3 * whole / 16:.1f} ms an example")
    try:
        faiss = importlib.import_module("faiss")
    except ImportError:
        print("faiss is not installed")
        return
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(WIDTH)
    flat.add(weights)
    print(f"faiss, exact       : {1e3 * spent(lambda: flat.search(x, K), 1) / 64:.1f} ms an example")
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(WIDTH), WIDTH, 1024, faiss.METRIC_INNER_PRODUCT)
    made = time.process_time()
    index.train(weights[:50_000])
    index.add(weights)
    made = time.process_time() - made
    for probes in (8, 32, 128, 256):
        index.nprobe = probes
        found = index.search(x, K)[1]
        recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
        first = float(np.mean(found[:, 0] == np.arange(64)))
        each = 1e3 * spent(lambda: index.search(x, K), 1) / 64
        print(
            f"faiss IVF, {probes:3} lists: {each:.1f} ms an example, recall of the top {K} {recall:.2f}, the example's "
            f"own label first {first:.2f}; index made in {made:.0f} s"
        )


def int8(data: Path) -> None:
    """Scores with prototypes and features in int8, by their own scales, against float32."""
    for name, (train, test, y, truth) in _sets(data):
        classes = np.unique(y)
        weights = np.stack([train[y == label].mean(axis=0) for label in classes])
        weights = (weights / np.linalg.norm(weights, axis=1, keepdims=True)).astype(np.float32)
        scale = np.abs(weights).max(axis=1, keepdims=True) / 127
        small = np.round(weights / scale).astype(np.int8)
        x_scale = np.abs(test).max(axis=1, keepdims=True) / 127
        x = np.round(test / x_scale).astype(np.int8)
        plain = test @ weights.T
        rounded = (test @ (small * scale).T.astype(np.float32)).argmax(axis=1)
        both = ((x.astype(np.int32) @ small.T.astype(np.int32)) * scale.T).argmax(axis=1)
        times = [
            spent(lambda: test @ weights.T),  # noqa: B023
            spent(lambda: test @ (small.astype(np.float32) * scale).T),  # noqa: B023
            spent(lambda: x[:500].astype(np.int32) @ small.T.astype(np.int32), 1) * len(x) / 500,  # noqa: B023
        ]
        accuracy = [100 * float(np.mean(classes[a] == truth)) for a in (plain.argmax(axis=1), rounded, both)]
        for kind, right, took in zip(("float32", "int8 prototypes", "int8 both"), accuracy, times, strict=True):
            print(f"{name:9} {kind:16} accuracy {right:.2f} %, {1e6 * took / len(test):.2f} us an example", flush=True)


def _sets(data: Path) -> Iterator[tuple[str, tuple[Any, ...]]]:
    stored = np.load(data / "cifar100_efficientnet_lite0.npz")
    parts = [stored[name] for name in ("x_train", "x_test", "y_train", "y_test")]
    yield "CIFAR-100", (*(_unit(part.astype(np.float32)) for part in parts[:2]), *parts[2:])
    from reticent import encoders

    clinc = json.loads((data / "clinc150_data_full.json").read_text())
    encoder = encoders.minilm()
    train, test = (clinc[part][::4] for part in ("train", "test"))
    read = [_unit(np.asarray(encoder([text for text, _ in part]))) for part in (train, test)]
    yield "CLINC150", (*read, *(np.array([label for _, label in part]) for part in (train, test)))


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def main() -> None:
    """Runs one of them."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("what", choices=["files", "labels", "int8"])
    words.add_argument("data", type=Path, nargs="?")
    words.add_argument("--millions", type=int, default=1)
    given = words.parse_args()
    if given.what == "files":
        with tempfile.TemporaryDirectory() as folder:
            files(given.millions, Path(folder))
    elif given.what == "labels":
        labels()
    else:
        int8(given.data)


if __name__ == "__main__":
    main()
