"""Learning, predicting and encoding, beside the least that each needs."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from contests import Contest, Costs, Family, Peers, in_turn

WIDTH, LABELS, ROWS, PREDICTED = 384, 1_000, 1_000_000, 50_000
KERNEL, PLAIN = "the loop that adds rows up, alone", "plain sorted batches of 32"


def families() -> list[Family]:
    """Returns learning, predicting and encoding."""
    return [
        Family(
            name="learning",
            title="Learning",
            words=f"""
`learn_task` on {ROWS:,} x {WIDTH} float32 rows in memory with {LABELS:,} labels as strings, with and without an id of
a person for each row: look-ups, persons, spend, sums, noise, release. Beside it the compiled loop alone, which
normalises, snaps and adds up the same rows, with labels that are integers already. Ids are an array of whole numbers,
and in a line of its own texts: to tell half a million of them apart takes pyarrow alone most of the loop's time, and
making codes of the labels a third of it. So with texts as ids half the speed of the loop is out of reach.
""",
            contests=_learning,
        ),
        Family(
            name="predicting",
            title="Predicting",
            words=f"""
{PREDICTED:,} rows from a Parquet file to a CSV file with `reticent predict`, beside reading the file with pyarrow and
multiplying all rows with the same number of weights in NumPy; and the ten best of many labels beside sorting them all.
""",
            contests=_predicting,
        ),
        Family(
            name="encoding",
            title="Encoding texts",
            words="""
MiniLM on descriptions of diagnoses (ICD-10-CM), per text, tokens included. Ours gives a text the same bits whatever
else is in its batch; the peer is the same model with texts sorted by length and filled up to the longest of a batch.
`python benchmarks/encoding.py` also measures threads, beside a busy process.
""",
            contests=_encoding,
        ),
    ]


def rows(n: int, labels: int = LABELS) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Returns made-up rows around the centres of their labels."""
    draw = np.random.default_rng(0)
    which = draw.integers(0, labels, n)
    x = draw.standard_normal((n, WIDTH), dtype=np.float32)
    x += draw.standard_normal((labels, WIDTH), dtype=np.float32)[which]
    return x, which


def write_parquet(path: Path, n: int) -> None:
    """Writes rows with a column of embeddings and one of labels."""
    import pyarrow as pa
    from pyarrow import parquet

    x, which = rows(n)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDTH)
    table = pa.table({"x": flat, "y": [f"label {i}" for i in which]})
    parquet.write_table(table, path, row_group_size=20_000)


@contextmanager
def parquet_file(n: int) -> Iterator[Path]:
    """Gives a file of rows for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        write_parquet(path, n)
        yield path


def _learning() -> list[Contest]:
    def play(rounds: int) -> Costs:
        import pyarrow as pa

        import reticent as rt
        from reticent.gate import kernel
        from reticent.gate.grid import scale_and_room

        x, which = rows(ROWS)
        labels, persons = [f"label {i}" for i in which], np.arange(ROWS) // 2
        texts = [f"person {i}" for i in persons]
        space = rt.PublicLabels(f"label {i}" for i in range(LABELS))
        budget = rt.Budget(epsilon=1.0, delta=1e-5)
        twice = rt.Budget(epsilon=1.0, delta=1e-5, examples_per_person=2)
        everything, kept = np.arange(ROWS), np.zeros(ROWS, np.bool_)
        recent, sums = np.zeros((LABELS, WIDTH), np.int32), np.zeros((LABELS, WIDTH), np.int64)
        counts = np.zeros(LABELS, np.int64)

        def learn(ids: Any, allowed: rt.Budget) -> None:
            model = rt.ContinualClassifier(labels=space, budget=allowed)
            model.learn_task(x, labels, persons=ids, name="one", each_row_is_a_person=ids is None)

        def alone() -> None:
            kernel.add_unit_rows(recent, sums, counts, x, everything, which, kept, *scale_and_room(0.0))

        peers: Peers = {
            "learn_task with persons": (lambda: learn(persons, twice), ROWS),
            "learn_task without": (lambda: learn(None, budget), ROWS),
            KERNEL: (alone, ROWS),
            "learn_task with persons, ids as texts": (lambda: learn(texts, twice), ROWS),
            "pyarrow, the labels as codes alone": (lambda: pa.array(labels).dictionary_encode(), ROWS),
            "pyarrow, the texts of ids as codes alone": (lambda: pa.array(texts).dictionary_encode(), ROWS),
        }
        return in_turn(peers, rounds)

    return [
        Contest(
            name="learning/in-memory",
            title=f"{ROWS:,} x {WIDTH}, {LABELS:,} labels as strings, per row",
            play=play,
            rounds=3,
            goals={KERNEL: 0.5},
        )
    ]


def _predicting() -> list[Contest]:
    def files(rounds: int) -> Costs:
        import reticent as rt
        from reticent.cli import app

        with parquet_file(PREDICTED) as path:
            x, which = rows(2_000)
            model = rt.ContinualClassifier(
                labels=rt.PublicLabels(f"label {i}" for i in range(LABELS)),
                budget=rt.Budget(epsilon=8.0, delta=1e-5),
                path=path.parent / "model",
            )
            model.learn_task(x, [f"label {i}" for i in which], name="one")
            weights = np.random.default_rng(1).standard_normal((LABELS, WIDTH), dtype=np.float32)
            out = path.parent / "out.csv"
            words = ["predict", path, "--model", path.parent / "model", "--features", "x", "-o", out]

            def ours() -> None:
                app([str(word) for word in words], standalone_mode=False)

            def least() -> None:
                from pyarrow import parquet as arrow

                for batch in arrow.ParquetFile(path).iter_batches(10_000, columns=["x"], use_threads=False):
                    (batch["x"].flatten().to_numpy().reshape(-1, WIDTH) @ weights.T).argmax(axis=1)

            return in_turn({"reticent predict": (ours, PREDICTED), "pyarrow and NumPy": (least, PREDICTED)}, rounds)

    def best(rounds: int) -> Costs:
        import reticent as rt

        x, which = rows(2_000)
        model = rt.ContinualClassifier(
            labels=rt.PublicLabels(f"label {i}" for i in range(LABELS)), budget=rt.Budget(epsilon=8.0, delta=1e-5)
        )
        model.learn_task(x, [f"label {i}" for i in which], name="one")
        scores = np.random.default_rng(1).standard_normal((len(x), LABELS), dtype=np.float32)
        peers: Peers = {
            "predict_top_k, products included": (lambda: model.predict_top_k(x, 10), len(x)),
            "sort all scores, no products": (lambda: np.argsort(-scores, axis=1, kind="stable")[:, :10], len(x)),
            "predict, the best alone": (lambda: model.predict(x), len(x)),
        }
        return in_turn(peers, rounds)

    return [
        Contest(
            name="predicting/files",
            title=f"{PREDICTED:,} x {WIDTH} against {LABELS:,} labels, Parquet to CSV, per row",
            play=files,
            rounds=3,
        ),
        Contest(
            name="predicting/top-k",
            title=f"Ten best of {LABELS:,} labels, per row",
            play=best,
            goals={"sort all scores, no products": 1.0},
        ),
    ]


def _encoding() -> list[Contest]:
    def play(texts: Callable[[], list[str]], rounds: int) -> Costs:
        import torch
        from encoding import by_onnxruntime, by_torch

        from reticent.encoders import minilm

        torch.set_num_threads(1)
        given, usual, trained = texts(), minilm(), minilm(backend="torch")
        peers: Peers = {
            "minilm()": (lambda: usual(given), len(given)),
            PLAIN: (by_torch(given), len(given)),
            "onnxruntime, sorted batches": (by_onnxruntime(given), len(given)),
            'minilm(backend="torch")': (lambda: trained(given), len(given)),
        }
        for _ in range(3):  # small batches are probed when they are asked for the third time
            usual(given), trained(given)
        return in_turn(peers, rounds)

    from encoding import descriptions, long_texts

    return [
        Contest(
            name="encoding/minilm",
            title="MiniLM, 500 descriptions, per text",
            play=partial(play, lambda: descriptions(500)),
            rounds=3,
        ),
        Contest(
            name="encoding/long",
            title="MiniLM, 100 texts of 20 to 200 words, per text",
            play=partial(play, lambda: long_texts(100)),
            rounds=3,
        ),
    ]
