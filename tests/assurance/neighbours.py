"""Non-interference: one private row is changed, and nothing that is seen may change, up to the noisy values.

An entry is a way in (a method of the classifier or a verb of the command line), a kind of input and hostile rows for
it. Noise is seeded alike on both sides, so that labels are released alike: classes are large enough that one row more
or less decides nothing but with a chance far below delta.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import parquet

import reticent as rt
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.privacy import events
from reticent.sensitive import tuning
from tests.assurance import hostile
from tests.assurance.part import Part
from tests.assurance.seen import Seen, facts_of, observe
from tests.cli.command import reticent

Row = tuple[Any, ...]
BUDGET = rt.Budget(epsilon=8.0, delta=1e-5)
WIDTH = 3
EACH = 40  # examples of a class: released with a chance of 1 up to far below 1e-6
TWO = ("a", "b")
PUBLIC = rt.PublicLabels(["a", "b", 1])
_TREE = rt.Taxonomy.from_edges([("a1", "a"), ("b1", "b"), ("x", "y")], otherwise=1)


def _explode(label: object) -> Any:
    raise ValueError(f"no place for {label!r}")


POLICIES: dict[str, Callable[[], Any]] = {
    "public": lambda: PUBLIC,
    "public, taxonomy": lambda: rt.PublicLabels(["a", "b", 1], remap=_TREE),
    "public, a function that raises": lambda: rt.PublicLabels(["a", "b"], remap=_explode),
    "released": rt.ReleasedLabels,
    "released, paper": lambda: rt.ReleasedLabels.paper(share=0.5),
    "released, optimal": lambda: rt.ReleasedLabels(selection=events.OptimalSelection, share=0.5),
}
_NAMES = {"a": "an aardvark", "b": "anything else"}
NAMED = {  # of no other label may anybody be asked
    "public": rt.PublicLabels(["a", "b", 1], names=_NAMES),
    "released": rt.ReleasedLabels(names=_NAMES.__getitem__),
}
PEFT = rt.PeftEnsemble(task_size=80, epochs=2, decoys=2)


@dataclass(frozen=True, eq=False)
class Entry:
    """A way in.

    Args:
        way: The method or verb, with its settings.
        kind: The kind of input.
        base: The rows of one side.
        rows: Hostile rows.
        run: From a folder and rows to facts that must be equal.
    """

    way: str
    kind: str
    base: Sequence[Row]
    rows: st.SearchStrategy[Row]
    run: Callable[[Path, Sequence[Row]], Any]

    @cached_property
    def seen(self) -> Seen:
        """What is seen of the run on the base."""
        return observe(lambda folder: self.run(folder, self.base))

    def difference(self, rows: Sequence[Row]) -> dict[str, tuple[Any, Any]]:
        """Returns what is seen to differ from the run on the base."""
        return self.seen.differs(observe(lambda folder: self.run(folder, rows)))


def check(entry: Entry, examples: int) -> int:
    """Compares so many neighbours with the base; fails at the first difference."""
    tried = 0

    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],  # a change is small already, and a run takes a while
    )
    @hypothesis.given(hostile.changes(entry.rows))
    def compare(change: hostile.Change[Row]) -> None:
        nonlocal tried
        tried += 1
        found = entry.difference(change.of(entry.base))
        assert not found, {name: tuple(str(side)[:1000] for side in pair) for name, pair in found.items()}

    compare()
    return tried


# --- the classifier


def points(each: int, width: int = WIDTH) -> list[Row]:
    """Rows of two classes: features, label, person."""
    draw = np.random.default_rng(3)
    where = {label: 3 * np.eye(len(TWO), width)[i] for i, label in enumerate(TWO)}
    return [
        ((where[label] + draw.normal(size=width)).tolist(), label, f"{label}{i}") for label in TWO for i in range(each)
    ]


PERSONS = hostile.labels | st.sampled_from(["a0", "b1"])  # who has examples already
POINTS = st.tuples(hostile.vectors(WIDTH), hostile.labels, PERSONS)


def array(rows: Sequence[Row]) -> np.ndarray:
    return np.array([x for x, *_ in rows], dtype=np.float64).reshape(len(rows), WIDTH)


def _narrow(rows: Sequence[Row]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return array(rows).astype(np.float32)


CONTAINERS: dict[str, Callable[[Sequence[Row]], tuple[Any, Any]]] = {
    "array": lambda rows: (array(rows), [y for _, y, _ in rows]),
    "array of float32, labels as objects": lambda rows: (_narrow(rows), _objects([y for _, y, _ in rows])),
    "pandas": lambda rows: (pd.DataFrame(array(rows)), pd.Series([y for _, y, _ in rows], dtype=object)),
    "polars": lambda rows: (pl.DataFrame(array(rows)), pl.Series([y for _, y, _ in rows], dtype=pl.Object)),
    "pyarrow labels": lambda rows: (array(rows), _arrow([y for _, y, _ in rows])),
    "big-endian columns, a pandas category": lambda rows: (_turned(rows), pd.Categorical(_texts(rows))),
    "masked array, a pandas column of strings": lambda rows: (
        np.ma.masked_invalid(array(rows)),
        pd.Series(_texts(rows), dtype="string"),
    ),
    "polars category": lambda rows: (pl.DataFrame(array(rows)), pl.Series(_texts(rows)).cast(pl.Categorical)),
    "pyarrow dictionary": lambda rows: (array(rows), pa.array(_texts(rows)).dictionary_encode()),
}


def _turned(rows: Sequence[Row]) -> np.ndarray:
    return np.asfortranarray(array(rows).astype(">f8"))


def _texts(rows: Sequence[Row]) -> list[str | None]:
    """Labels that are valid texts; these containers hold nothing else."""
    return [y if isinstance(y, str) and y.isprintable() else None for _, y, _ in rows]


def _objects(values: Sequence[object]) -> np.ndarray:
    return np.fromiter(values, dtype=object, count=len(values))


def _bytes(value: object) -> bytes | None:
    return (
        value if isinstance(value, bytes) else value.encode(errors="surrogatepass") if isinstance(value, str) else None
    )


def _arrow(values: Sequence[object]) -> pa.Array:
    """A column of texts, some of them not UTF-8."""
    stored = pa.array([_bytes(value) for value in values], pa.binary())
    return pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())


def classifier(path: Path | None, **settings: Any) -> rt.ContinualClassifier:
    usual = {"labels": PUBLIC, "budget": BUDGET, "noise": NoiseSource.seeded(5)}
    return rt.ContinualClassifier(path=path, **{**usual, **settings})


def learn(
    folder: Path, rows: Sequence[Row], *, container: str = "array", persons: bool = False, **settings: Any
) -> Any:
    """Learns two tasks, the private one first, evaluates, saves, and says what it has become."""
    x, y = CONTAINERS[container](rows)
    model = classifier(folder / "model", **{name: make() for name, make in settings.items()})
    model.learn_task(x, y, name="march", persons=[who for *_, who in rows] if persons else None)
    model.partial_fit(np.eye(2, WIDTH), list(TWO))
    model.save(folder / "copy")
    return facts_of(model)


def learn_part(folder: Path, rows: Sequence[Row], *, learner: Any) -> Any:
    """Learns a task that has a part of the labels, with a remap that raises, then one with all of them."""
    x, y = CONTAINERS["array"](rows)
    model = classifier(folder / "model", labels=rt.PublicLabels(["a", "b", 1], remap=_explode), learner=learner)
    model.learn_task(x, y, name="march", labels=["a", 1])
    model.learn_task(np.eye(2, WIDTH), list(TWO), name="april")
    model.save(folder / "copy")
    return facts_of(model)


def remember(folder: Path, rows: Sequence[Row], **settings: Any) -> Any:
    """Learns three tasks with memory, the private one first. The vault is outside of what is seen: it may differ."""
    x, y = CONTAINERS["array"](rows)
    memory = rt.Memory(vault=folder.parent / "vault", horizon=4)
    model = classifier(folder / "model", memory=memory, **{name: make() for name, make in settings.items()})
    model.learn_task(x, y, name="march")
    model.learn_task(*CONTAINERS["array"](points(EACH)), name="april")
    model.learn_task(np.eye(2, WIDTH), list(TWO), name="may")
    model.save(folder / "copy")
    return facts_of(model)


def score(folder: Path, rows: Sequence[Row]) -> Any:
    x, y = CONTAINERS["array"](rows)
    model = classifier(folder / "model").learn_task(*CONTAINERS["array"](points(EACH)), name="march")
    value = model.private_score(x, y, epsilon=0.5, name="test", persons=[who for *_, who in rows])
    return type(value).__name__, 0 <= value <= 1, facts_of(model)


def tune(folder: Path, rows: Sequence[Row]) -> Any:
    ledger = Ledger.create(folder, BUDGET)
    x, y = CONTAINERS["array"](rows)
    found = tuning.tune_privately(
        PEFT, x, y, policy=PUBLIC, public_validation=(np.eye(2, WIDTH, dtype=np.float32), list(TWO)), budget=BUDGET,
        gate=Gate(ledger, NoiseSource.seeded(2)), mean_runs=1.5,
    )  # fmt: skip
    statement = ledger.statement().text()
    ledger.close()
    return {name: type(value).__name__ for name, value in found.to_json().items()}, statement


# --- texts and images


def lengths(texts: list[Any]) -> np.ndarray:
    """A tiny encoder of texts that fails at what is no text."""
    return np.array([[len(text), text.count("a"), 1.0] for text in texts], dtype=np.float32)


def learn_inputs(folder: Path, rows: Sequence[Row], *, encoder: Callable[[], Any], **settings: Any) -> Any:
    model = classifier(folder / "model", encoder=encoder(), **settings)
    model.learn_task([x for x, *_ in rows], [y for _, y, *_ in rows], name="march")
    return facts_of(model)


@cache
def text_encoder() -> Any:
    return rt.encoders.wrap(lengths, width=3, name="lengths", probe="a text")


@cache
def film_encoder() -> Any:
    """A module with a layer that FiLM adapts."""
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 4), torch.nn.Tanh())
    return rt.encoders.wrap(module, width=4, name="tiny", probe=np.ones(WIDTH, np.float32))


@cache
def image_encoder() -> Any:
    from reticent.encoders import images

    def colours(pictures: list[Any]) -> np.ndarray:
        read = [images.read(picture) for picture in pictures]
        return np.array([np.asarray(image.resize((1, 1)), dtype=np.float32)[0, 0] for image in read])

    return rt.encoders.wrap(colours, width=3, name="colours", probe=np.full((4, 4, 3), 9, np.uint8))


def sentences() -> list[Row]:
    return [("aaa" if label == "a" else "long text" * (i % 4 + 1), label) for label in TWO for i in range(EACH)]


def pictures() -> list[Row]:
    draw = np.random.default_rng(4)
    return [(draw.integers(0, 256, (5, 4, 3), dtype=np.uint8), label) for label in TWO for _ in range(EACH)]


ODD_PICTURES: list[Any] = [
    None,
    "no such file.png",
    "/dev/null",
    Path("."),
    b"\x89PNG",
    np.zeros((0, 3, 3), np.uint8),
    "\0",
    "\ud800",
]
ODD_PICTURES += [
    np.zeros((2, 2, 5), np.uint8),
    np.zeros((3, 3)),
    np.full((4, 4), 7, np.uint8),
    np.zeros(3, np.uint8),
    7,
]


# --- the command line


def csv_line(row: Row) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([*row[0], *row[1:]])
    return out.getvalue()


def write_csv(folder: Path, rows: Sequence[Row]) -> Path:
    """Rows as lines; a hostile row is a line of bytes, which may hold anything."""
    lines = [row[0] if isinstance(row[0], bytes) else csv_line(row).encode() for row in rows]
    (folder / "data.csv").write_bytes(b"\n".join([b"x0,x1,x2,label,person", *lines]) + b"\n")
    return folder / "data.csv"


def write_parquet(folder: Path, rows: Sequence[Row]) -> Path:
    columns = [pa.array(column) for column in array(rows).T]
    columns += [_arrow([y for _, y, _ in rows]), _arrow([who for *_, who in rows])]
    parquet.write_table(pa.table(columns, names=["x0", "x1", "x2", "label", "person"]), folder / "data.parquet")
    return folder / "data.parquet"


def write_npz(folder: Path, rows: Sequence[Row]) -> Path:
    texts = np.array([f"{y!s:.50}" for _, y, _ in rows], dtype="U50")
    ids = np.array([f"{who!s:.50}" for *_, who in rows], dtype="U50")
    np.savez(folder / "data.npz", x=array(rows), y=texts, person=ids)
    return folder / "data.npz"


def write_images(folder: Path, rows: Sequence[Row]) -> Path:
    """A folder of images; a hostile one has its own name and any bytes."""
    from PIL import Image

    for number, (image, label, *name) in enumerate(rows):
        (folder / "pictures" / label).mkdir(parents=True, exist_ok=True)
        file = folder / "pictures" / label / (name[0] if name else f"{number:03d}.png")
        if isinstance(image, bytes):
            file.write_bytes(image)
        else:
            Image.fromarray(image).save(file)
    return folder / "pictures"


def verbs(
    folder: Path,
    rows: Sequence[Row],
    *,
    write: Callable[[Path, Sequence[Row]], Path],
    policy: str,
    encoder: str = "none",
) -> Any:
    """Runs init, learn, evaluate, ledger and report, and returns what they print."""
    (folder / "data").mkdir()
    (folder / "data" / "labels.txt").write_text("a\nb\n")
    source, model = write(folder / "data", rows), folder / "model"
    columns: list[object] = ["--person", "person"]
    if source.suffix in (".csv", ".parquet"):
        columns += ["--features", "x0,x1,x2", "--label", "label"]
    columns = ["--encoder", encoder, "--each-row-is-a-person"] if source.is_dir() else columns
    labels = ["--labels", folder / "data" / "labels.txt"] if policy == "public" else ["--released"]
    done = [
        reticent(
            "init", model, "--epsilon", 8, "--delta", 1e-5, "--tasks-per-person", 1, "--encoder", encoder, *labels
        ),
        reticent("learn", source, "--model", model, "--name", "march", *columns),
        reticent("evaluate", source, "--model", model, "--epsilon", 0.1, "--name", "march", "--json", *columns),
        reticent("ledger", model),
        reticent("ledger", model, "--json"),
        reticent("report", model),
    ]
    noisy = '  "accuracy": '  # its digits are released, and so is their number
    return [(d.returncode, [line for line in d.stdout.splitlines() if noisy not in line], d.stderr) for d in done]


_CELLS = st.sampled_from(hostile.TEXTS) | hostile.numbers.map(str) | st.text(max_size=8)
_WELL_FORMED = st.lists(_CELLS, min_size=5, max_size=5).map(lambda cells: csv_line((cells[:3], *cells[3:])))
CSV_LINES = st.binary(max_size=30) | _WELL_FORMED.map(lambda line: line.encode(errors="surrogatepass"))
STORED = st.tuples(hostile.vectors(WIDTH), hostile.texts | st.binary(max_size=5), hostile.texts | st.none())
FILE_NAMES = st.sampled_from(["x.png", "0.PNG", "x.gif", "=1.jpg", " .webp", "x.txt", "x"])
FOLDERS = st.sampled_from(["a", "b", "c", "A", " ", "=1+1", "\udcff", "x" * 200])
# the last one says that it is 60,000 pixels wide and high
_BROKEN = [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a" + b"\xff" * 40, b"BM" + bytes(60)]
_BROKEN += [b"BM" + bytes(8) + bytes([54, 0, 0, 0, 40, 0, 0, 0, 96, 234, 0, 0, 96, 234, 0, 0, 1, 0, 24]) + bytes(40)]
FILES = st.tuples(st.sampled_from(_BROKEN) | st.binary(max_size=60), FOLDERS, FILE_NAMES)


def entries() -> list[Entry]:
    """All ways in, with all kinds of input."""
    few, many = points(4), points(EACH)
    found = []
    for name, make in POLICIES.items():
        base = few if name.startswith("public") else many
        found.append(Entry(f"learn_task, {name}", "array", base, POINTS, partial(learn, labels=make)))
    for name in ("public", "public, taxonomy", "released"):
        base = few if name.startswith("public") else many
        run = partial(remember, labels=POLICIES[name])
        found.append(Entry(f"learn_task with memory, {name}", "array", base, POINTS, run))
    for container in list(CONTAINERS)[1:]:
        run = partial(learn, container=container, labels=rt.ReleasedLabels)
        found.append(Entry("learn_task, released", container, many, POINTS, run))
    found.append(Entry("learn_task with persons", "array", few, POINTS, partial(learn, persons=True)))
    for name, learner in {"Cosine.paper": rt.Cosine.paper(), "PeftEnsemble, last layer": PEFT}.items():
        for policy in ("public", "released", "released, paper"):
            run = partial(learn, learner=partial(_same, learner), labels=POLICIES[policy])
            found.append(Entry(f"learn_task, {name}, {policy}", "array", many, POINTS, run))
    for name, learner in {"Cosine": rt.Cosine(), "PeftEnsemble, last layer": PEFT}.items():
        run = partial(learn_part, learner=learner)
        found.append(Entry(f"learn_task with labels of its own, {name}", "array", many, POINTS, run))
    found.append(Entry("private_score", "array", few, POINTS, score))
    found.append(Entry("tune_privately", "array", few, POINTS, tune))
    words = st.tuples(hostile.texts | hostile.labels, hostile.labels)
    run = partial(learn_inputs, encoder=text_encoder, labels=rt.ReleasedLabels())
    found.append(Entry("learn_task, released", "texts", sentences(), words, run))
    shown = st.tuples(st.sampled_from(ODD_PICTURES), hostile.labels)
    for policy in ("public", "released"):
        run = partial(learn_inputs, encoder=text_encoder, labels=NAMED[policy])
        found.append(Entry(f"learn_task, {policy}, with names", "texts", sentences(), words, run))
    run = partial(learn_inputs, encoder=image_encoder, labels=rt.ReleasedLabels())
    found.append(Entry("learn_task, released", "images", pictures(), shown, run))
    film = partial(learn_inputs, encoder=film_encoder, learner=PEFT)
    vectors = st.tuples(hostile.vectors(WIDTH) | hostile.vectors(2) | hostile.labels, hostile.labels)
    found.append(Entry("learn_task, PeftEnsemble, FiLM, public", "lists", [row[:2] for row in few], vectors, film))
    lines = CSV_LINES.filter(lambda line: b"\n" not in line and b"\r" not in line).map(lambda line: (line,))
    for kind, write, rows in (
        ("CSV", write_csv, lines),
        ("Parquet", write_parquet, STORED),
        ("NPZ", write_npz, POINTS),
    ):
        for policy in ("public", "released"):
            run = partial(verbs, write=write, policy=policy)
            found.append(Entry(f"init, learn, evaluate, ledger, report; {policy}", kind, many, rows, run))
    run = partial(verbs, write=write_images, policy="released", encoder="tests.assurance.neighbours:image_encoder")
    found.append(Entry("init, learn, evaluate, ledger, report; released", "image folder", pictures(), FILES, run))
    return found


def _same(value: Any) -> Any:
    return value


ENTRIES = {f"{entry.way}; {entry.kind}": entry for entry in entries()}


def measure() -> Part:
    """Compares sixty neighbours at every way in: a few minutes."""
    rows, passed = [], True
    for entry in ENTRIES.values():
        try:
            tried, found = check(entry, 60), "nothing else changed"
        except AssertionError:
            tried, found, passed = 60, "A DIFFERENCE WAS SEEN", False
        rows.append((entry.way, entry.kind, str(tried), found))
    return Part(
        title="Non-interference",
        says=(
            "One private row is removed, added or replaced by a hostile one (NaN and huge numbers, labels equal up to "
            "their type, dates, bytes, surrogates, long texts, unreadable images, other widths, odd person ids), or "
            "rows change places. Shapes, names, order, exceptions, messages, logs, warnings, what is printed, names "
            "and sizes of files, manifest, ledger, report and copy must stay the same, up to the noisy values. A case "
            "is one run beside the run on the unchanged rows."
        ),
        header=("way in", "input", "cases", "found"),
        rows=tuple(rows),
        passed=passed,
    )
