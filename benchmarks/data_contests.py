"""From files to a release and back to files: reading, learning, predicting and encoding, beside what each needs."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from contests import Contest, Costs, Family, Peers, in_turn

WIDTH, LABELS, ROWS, READ_ROWS, CSV_ROWS, PREDICTED = 384, 1_000, 1_000_000, 200_000, 20_000, 50_000
READ, KERNEL, PLAIN = "pyarrow reads it", "the loop that adds rows up, alone", "sorted by length, 64 at a time"


def families() -> list[Family]:
    """Returns reading, learning, predicting and encoding."""
    return [
        Family(
            name="reading",
            title="Reading files",
            words=f"""
A file of {WIDTH} float32 features and a label, batch by batch as `learn` does, beside pyarrow's own reader into its own
columns. Ours hands on arrays of rows and codes of labels, reads each line or cell by itself, and lets no row decide
about another or about an exception. Files are in the system's cache.
""",
            contests=_reading,
        ),
        Family(
            name="learning",
            title="Learning",
            words=f"""
`learn_task` on {ROWS:,} x {WIDTH} float32 rows in memory with {LABELS:,} labels as strings, with and without an id of
a person for each row: look-ups, persons, spend, sums, noise, release. Beside it the compiled loop alone, which
normalises, snaps and adds up the same rows, with labels that are integers already.
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
MiniLM on made-up short texts, per text, tokens included. Ours gives a text the same bits whatever else is in its batch;
the peer is the same model with texts sorted by length, 64 at a time, filled up to the longest of them.
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


def write_csv(path: Path, n: int) -> None:
    """Writes rows with a column for each feature and one of labels."""
    x, which = rows(n)
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join([*(f"f{i}" for i in range(WIDTH)), "y"]) + "\n")
        for row, label in zip(x, which, strict=True):
            file.write(",".join([*(f"{value:.6g}" for value in row), f"label {label}"]) + "\n")


@contextmanager
def written(write: Callable[[Path, int], None], ending: str, n: int) -> Iterator[Path]:
    """Gives a file for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"rows.{ending}")
        write(path, n)
        yield path


def _reading() -> list[Contest]:
    def through(path: Path, features: tuple[str, ...]) -> None:
        from reticent.readers import Columns, open_source

        for _ in open_source(path, Columns(features=features, label="y")):
            pass

    def parquet(rounds: int) -> Costs:
        from pyarrow import parquet as arrow

        def theirs(path: Path) -> None:
            for _ in arrow.ParquetFile(path).iter_batches(10_000, use_threads=False):
                pass

        with written(write_parquet, "parquet", READ_ROWS) as path:
            return in_turn(
                {"reticent": (lambda: through(path, ("x",)), READ_ROWS), READ: (lambda: theirs(path), READ_ROWS)},
                rounds,
            )

    def csv(rounds: int) -> Costs:
        from pyarrow import csv as arrow

        names = tuple(f"f{i}" for i in range(WIDTH))

        def theirs(path: Path) -> None:
            arrow.read_csv(path, read_options=arrow.ReadOptions(use_threads=False))

        with written(write_csv, "csv", CSV_ROWS) as path:
            return in_turn(
                {"reticent": (lambda: through(path, names), CSV_ROWS), READ: (lambda: theirs(path), CSV_ROWS)}, rounds
            )

    return [
        Contest(
            name="reading/parquet",
            title=f"Parquet, {READ_ROWS:,} x {WIDTH}, per row",
            play=parquet,
            goals={READ: 0.8},
        ),
        Contest(name="reading/csv", title=f"CSV, {CSV_ROWS:,} x {WIDTH}, per row", play=csv, goals={READ: 0.5}),
    ]


def _learning() -> list[Contest]:
    def play(rounds: int) -> Costs:
        import reticent as rt
        from reticent.gate import kernel
        from reticent.gate.grid import scale_and_room

        x, which = rows(ROWS)
        labels, persons = [f"label {i}" for i in which], np.arange(ROWS) // 2
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

        with written(write_parquet, "parquet", PREDICTED) as path:
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
    return [Contest(name="encoding/minilm", title="MiniLM, 512 short texts, per text", play=_minilm, rounds=3)]


def _minilm(rounds: int) -> Costs:
    import torch
    import training

    from reticent.encoders import minilm

    torch.set_num_threads(1)
    encoder = minilm()
    backend = encoder.load()
    draw = np.random.default_rng(3)
    lengths = np.clip(np.rint(draw.normal(8.5, 3.3, size=512)), 1, 22).astype(int)
    texts = [" ".join(draw.choice(training.WORDS, size=length)) for length in lengths]

    def plain() -> None:
        items = [item for item in backend.prepare(texts) if item is not None]
        items.sort(key=lambda item: int(item[1].sum()))
        with torch.inference_mode():
            for start in range(0, len(items), 64):
                part = items[start : start + 64]
                longest = max(int(mask.sum()) for _, mask in part)
                cut = [[np.pad(array, (0, longest))[:longest] for array in item] for item in part]
                ids, mask = (torch.from_numpy(np.stack(column)) for column in zip(*cut, strict=True))
                assert backend.embed is not None
                backend.embed((ids, mask))

    return in_turn({"reticent": (partial(encoder, texts), 512), PLAIN: (plain, 512)}, rounds)
