"""Mutated files of users: CSV, Parquet, NPZ, images, labels and taxonomies, through readers, learning and predicting.

A file is refused in one sentence or gives a right result. After the schema has been accepted, what private rows hold
decides nothing: mutated rows are always learned.
"""

import contextlib
import io
import random
import tempfile
import unittest.mock
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

import reticent as rt
from reticent.cli import main
from reticent.encoders import images
from reticent.readers import Columns, Examples, read
from tests.assurance.mutate import Guard, Tally, mutated
from tests.assurance.part import Part

BUDGET = rt.Budget(epsilon=8.0, delta=1e-5)
LABELS = ("E10", "E11", "7")
ROWS, WIDTH = 12, 3
NUMBERS = Columns(features=("a", "b", "c"), label="code", person="who")
TEXTS = Columns(text="note", label="code", person="who")
_CSV_TOKENS = [
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b'""',
    b"nan",
    b"inf",
    b"1e999",
    b"\xef\xbb\xbf",
    b",,,,",
    b"=1",
]
_TEXT_TOKENS = [*_CSV_TOKENS, "\u202e".encode(), b"\x1b[2J", "\u200b".encode(), b"E10\n", b"E10,E11\n"]


@dataclass(frozen=True)
class Format:
    """A kind of file: examples to mutate, tokens to put in, and what is done with a mutated one.

    Attributes:
        share: Of all cases, in thousandths.
        name: Of the file.
        seeds: Whole files.
        tokens: Put in at random places.
        act: From the path of a mutated file to a result, which it checks.
        must_pass: Whether every mutation must be accepted.
        mutate: How a file is mutated.
    """

    share: int
    name: str
    seeds: Sequence[bytes]
    tokens: Sequence[bytes]
    act: Callable[[Path], object]
    must_pass: bool = False
    mutate: Callable[[bytes, random.Random, Sequence[bytes]], bytes] = mutated


# --- files


def _numbers_csv() -> bytes:
    draw = random.Random(0)
    rows = (f"{draw.random():.3f},{draw.random():.3f},-1e3,{draw.choice(LABELS)},p{i},note {i}" for i in range(ROWS))
    return "\n".join(["a,b,c,code,who,note", *rows, ""]).encode()


def _table(*, categories: bool = False) -> pa.Table:
    draw = np.random.default_rng(0)
    codes = pa.array([LABELS[i % 3] for i in range(ROWS)])
    return pa.table(
        {
            **{name: draw.normal(size=ROWS) for name in "abc"},
            "code": codes.dictionary_encode() if categories else codes,
            "who": pa.array(range(ROWS)),
            "note": [f"note {i}" for i in range(ROWS)],
        }
    )


def _parquet(table: pa.Table, **settings: Any) -> bytes:
    out = io.BytesIO()
    parquet.write_table(table, out, **settings)
    return out.getvalue()


def _npz(*, save: Callable[..., None] = np.savez, **changed: Any) -> bytes:
    draw, out = np.random.default_rng(0), io.BytesIO()
    codes, who = np.array([LABELS[i % 3] for i in range(ROWS)]), np.arange(ROWS)
    save(out, **{"x": draw.normal(size=(ROWS, WIDTH)), "y": codes, "who": who, **changed})
    return out.getvalue()


def _pictures() -> Iterator[bytes]:
    from PIL import Image

    draw = np.random.default_rng(0)
    picture = Image.fromarray(draw.integers(0, 255, (9, 7, 3), dtype=np.uint8))
    for mode, kind in (
        ("RGB", "PNG"),
        ("P", "PNG"),
        ("RGB", "JPEG"),
        ("L", "JPEG"),
        ("RGB", "BMP"),
        ("P", "GIF"),
        ("RGB", "WEBP"),
    ):
        out = io.BytesIO()
        picture.convert(mode).save(out, kind)
        yield out.getvalue()
    out = io.BytesIO()
    picture.save(out, "GIF", save_all=True, append_images=[picture.rotate(90)])
    yield out.getvalue()


# --- what is done with them


def _consistent(found: Examples) -> Examples:
    """As many labels and ids as inputs, and numbers where numbers were asked for."""
    for column in (found.labels, found.persons):
        assert column is None or len(column) == len(found.inputs), "lengths differ"
    return found


def _reads(columns: Columns) -> Callable[[Path], object]:
    return lambda path: _consistent(read(path, columns))


def _reads_npz(path: Path) -> object:
    return _consistent(read(path, Columns(person="who"))) if path.stat().st_size else read(path, Columns())


def _reads_image(path: Path) -> object:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        image = images.read(path)
    assert not out.getvalue(), "an image printed something"
    assert image is None or image.mode == "RGB", "an image is not RGB"
    return image


def _reads_labels(path: Path) -> object:
    labels = rt.PublicLabels.from_file(path).labels
    assert all(isinstance(label, str) and label.isprintable() and label == label.strip() for label in labels), "a label"
    return labels


def _reads_taxonomy(path: Path) -> object:
    tree = rt.Taxonomy.from_csv(path)
    assert all(tree.nearest(label, {"E10"}) in (None, "E10") for label in tree.parents), "an ancestor"
    return tree


def _predicts(model: rt.ContinualClassifier, columns: Columns) -> Callable[[Path], object]:
    def act(path: Path) -> object:
        found = model.predict(read(path, columns, labelled=False).inputs).tolist()
        assert set(found) <= {*LABELS, rt.UNKNOWN}, "a label that is not known"
        return found

    return act


def _learns(columns: Columns) -> Callable[[Path], object]:
    """Learns into a new model in memory: no row may decide whether it is learned, or make anything be printed."""

    def act(path: Path) -> object:
        found = read(path, columns)
        model = rt.ContinualClassifier(labels=rt.PublicLabels(LABELS), budget=BUDGET)
        with (
            warnings.catch_warnings(record=True) as told,
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(out),
        ):
            warnings.simplefilter("always")
            model.learn_task(found.inputs, found.labels, name="march", persons=found.persons)
        assert not told, "a warning"
        assert not out.getvalue(), "something was printed"
        assert model.releases[0].parameters["sums"].shape == (len(LABELS), WIDTH), "another shape"
        return model

    return act


def _cli(*words: str, model: Path) -> Callable[[Path], object]:
    """Runs the command line in this process; a traceback is a fault."""

    def act(path: Path) -> object:
        given = [word.format(file=path, model=model, folder=path.parent) for word in words]
        out, err = io.StringIO(), io.StringIO()
        with (
            unittest.mock.patch("sys.argv", ["reticent", *given]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.suppress(SystemExit),
        ):
            main()
        if err.getvalue():
            lines = err.getvalue().strip().splitlines()
            assert len(lines) == 1, "several lines"
            assert lines[0].startswith("Error: "), "no refusal"
            raise rt.ReticentError(lines[0])
        return out.getvalue()

    return act


# --- mutations of rows alone


def _csv_rows(content: bytes, draw: random.Random, tokens: Sequence[bytes]) -> bytes:
    header, _, rows = content.partition(b"\n")
    return header + b"\n" + mutated(rows, draw, tokens)


def _npz_inside(content: bytes, draw: random.Random, tokens: Sequence[bytes]) -> bytes:
    """A whole archive with right checksums, whose arrays and their headers are mutated."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as after:
        for name in before.namelist():
            array = before.read(name)
            after.writestr(name, mutated(array, draw, tokens) if draw.random() < 0.5 else array)
    return out.getvalue()


def _npz_rows(content: bytes, draw: random.Random, tokens: Sequence[bytes]) -> bytes:
    """Other values in arrays of the same types and shapes."""
    del tokens
    with np.load(io.BytesIO(content)) as stored:
        changed = dict(stored)
    for name, array in changed.items():
        values = bytearray(array.tobytes())
        for _ in range(draw.randrange(1, 9)):
            at = draw.randrange(len(values))
            values[at] = draw.choice((0, 0x7F, 0xF0, 0xFF, draw.randrange(256)))
        changed[name] = np.frombuffer(bytes(values), array.dtype).reshape(array.shape)
    return _npz(**changed)


def _parquet_rows(content: bytes, draw: random.Random, tokens: Sequence[bytes]) -> bytes:
    """Other cells in columns of the same types: texts that are not UTF-8, any float, any id, missing ones."""
    table = parquet.read_table(io.BytesIO(content))
    texts = [b"E10", b"", b"\xff", b"\xed\xa0\x80", b"7", *tokens, None]
    numbers = [float("nan"), float("inf"), -0.0, 5e-324, 1.7e308, None]
    changed: dict[str, Any] = {}
    for name in table.column_names:
        if pa.types.is_floating(table[name].type):
            changed[name] = pa.array([draw.choice([*numbers, draw.gauss(0, 1)]) for _ in range(ROWS)], pa.float64())
        elif pa.types.is_integer(table[name].type):
            changed[name] = pa.array([draw.choice([-(2**63), 2**63 - 1, 0, None]) for _ in range(ROWS)], pa.int64())
        else:
            cells = pa.array([draw.choice(texts) for _ in range(ROWS)], pa.binary())
            changed[name] = cells.view(pa.string())
    return _parquet(pa.table(changed))


# --- all of it


def formats(folder: Path) -> Mapping[str, Format]:
    """Returns every kind of file that is mutated."""
    table, numbers = _table(), _numbers_csv()
    stored = [_npz(), _npz(save=np.savez_compressed), _npz(x=np.eye(ROWS, dtype=np.float16), y=np.arange(ROWS) % 2)]
    footers = [
        _parquet(table),
        _parquet(_table(categories=True), compression="none"),
        _parquet(table, compression="zstd", use_dictionary=False, row_group_size=5),
    ]
    known = rt.ContinualClassifier(labels=rt.PublicLabels(LABELS), budget=BUDGET)
    rows = np.tile(np.eye(WIDTH), (200, 1))
    known.learn_task(rows, list(LABELS) * 200, name="first")
    named = rt.ContinualClassifier(labels=rt.PublicLabels(LABELS), budget=BUDGET)
    named.learn_task(pd.DataFrame(rows, columns=list(NUMBERS.features)), list(LABELS) * 200, name="first")
    named.save(folder / "model")
    edges = b"child,parent\nE10.2,E10\nE10.3,E10\nE11.1,E11\nE11,E10\n"
    asked = ["--model", "{model}", "--features", "a,b,c"]
    learn = ["learn", "{file}", *asked, "--label", "code", "--person", "who", "--name"]
    tasks = iter(range(10**9))

    def learns(path: Path) -> object:
        return _cli(*learn, f"task {next(tasks)}", model=folder / "model")(path)

    predict = _cli("predict", "{file}", *asked, "-o", "{folder}/out.csv", model=folder / "model")
    return {
        "CSV of numbers": Format(150, "t.csv", [numbers], _CSV_TOKENS, _reads(NUMBERS)),
        "CSV of texts": Format(100, "t.csv", [numbers], _TEXT_TOKENS, _reads(TEXTS)),
        "Parquet": Format(120, "t.parquet", footers, [b"PAR1", b"ARROW:schema"], _reads(NUMBERS)),
        "NPZ": Format(50, "t.npz", stored, [b"\x93NUMPY", b"PK\x03\x04", b"<f8", b"|O"], _reads_npz),
        "NPZ, arrays inside": Format(
            100, "t.npz", stored, [b"'shape': (", b"9999999, ", b"<f8", b"|O", b"<U9"], _reads_npz, mutate=_npz_inside
        ),
        "images": Format(150, "t.png", list(_pictures()), [b"IHDR", b"IDAT", b"\xff\xd8", b"GIF89a"], _reads_image),
        "label files": Format(90, "labels.txt", [b"E10\nE11\n7\n"], _TEXT_TOKENS, _reads_labels),
        "taxonomies": Format(90, "tree.csv", [edges], _TEXT_TOKENS, _reads_taxonomy),
        "predicting from CSV": Format(
            60, "t.csv", [numbers], _CSV_TOKENS, _predicts(named, Columns(features=NUMBERS.features))
        ),
        "predicting from NPZ": Format(40, "t.npz", stored, [], _predicts(known, Columns())),
        "learning, CSV rows": Format(14, "t.csv", [numbers], _CSV_TOKENS, _learns(NUMBERS), True, _csv_rows),
        "learning, NPZ rows": Format(14, "t.npz", [_npz()], [], _learns(Columns(person="who")), True, _npz_rows),
        "learning, Parquet rows": Format(
            14, "t.parquet", [footers[0]], _CSV_TOKENS, _learns(NUMBERS), True, _parquet_rows
        ),
        "command line, predict": Format(6, "t.csv", [numbers], _CSV_TOKENS, predict),
        "command line, learn rows": Format(2, "t.csv", [numbers], _CSV_TOKENS, learns, True, _csv_rows),
    }


def tallies(cases: int, *, seed: int = 0) -> dict[str, Tally]:
    """Tries about so many mutated files and returns what became of them, by kind."""
    found: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        kinds = formats(folder)
        guard = Guard(folder)
        whole = sum(kind.share for kind in kinds.values())
        for title, kind in kinds.items():
            draw, tally = random.Random(f"{title} {seed}"), Tally()
            (folder / "case").mkdir(exist_ok=True)
            for _ in range(max(3, cases * kind.share // whole)):
                path = folder / "case" / kind.name
                path.write_bytes(kind.mutate(draw.choice(kind.seeds), draw, kind.tokens))
                guard.run(partial(kind.act, path), tally, must_pass=kind.must_pass)
            found[title] = tally
    return found


def measure() -> Part:
    """Tries sixty thousand mutated files."""
    found = tallies(62_000)
    return Part(
        title="Mutated input files",
        says="Files of users with bits, bytes, numbers and parts changed, in one process. Each must be refused in one "
        "sentence or give a right result, within 2 s and 200 MB, and touch nothing outside of its folder. Where only "
        "rows were changed, all must be learned.",
        header=("kind", "cases", "read", "refused", "longest", "most memory", "faults"),
        rows=tuple(tally.row(title) for title, tally in found.items()),
        passed=not any(tally.faults for tally in found.values()),
    )
