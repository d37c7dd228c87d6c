"""A task in memory, a file or an iterator of record batches is one task: the same sums, for any batches and threads."""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reticent as rt
from reticent import errors
from reticent.gate.noise import NoiseSource
from reticent.numerics.coded import Coded
from reticent.privacy import events
from reticent.readers import Columns, open_source
from reticent.sensitive import persons, task_streams
from reticent.sensitive.engines import Local
from reticent.sensitive.learners import seen as seen_module
from reticent.sensitive.task import Task

ROWS, WIDTH = 900, 6
BUDGET = rt.Budget(epsilon=8.0, delta=1e-5, examples_per_person=2)
PUBLIC = rt.PublicLabels([f"label {i}" for i in range(5)], remap={"label 5": "label 0"})
POLICIES: dict[str, tuple[Any, rt.Cosine]] = {
    "public": (PUBLIC, rt.Cosine()),
    "many public": (rt.PublicLabels([f"label {i}" for i in range(3_000)]), rt.Cosine()),
    "the paper's": (PUBLIC, rt.Cosine.paper()),
    "joint": (rt.ReleasedLabels(), rt.Cosine()),
    "selected": (rt.ReleasedLabels(selection=events.OptimalSelection, share=0.5), rt.Cosine()),
    "the paper's, released": (rt.ReleasedLabels.paper(share=0.5), rt.Cosine.paper()),
}
TRAINED = rt.PeftEnsemble(task_size=400, epochs=2, rate=0.5)


def columns() -> dict[str, Any]:
    draw = np.random.default_rng(7)
    x = draw.normal(size=(ROWS, WIDTH)).astype(np.float32) + np.float32(0.5)
    x[::50] = 0
    x[1::50, 2] = np.nan
    labels = [None if i % 41 == 0 else f"label {k}" for i, k in enumerate(draw.integers(0, 7, ROWS).tolist())]
    persons = [None if i % 37 == 0 else f"person {k}" for i, k in enumerate(draw.integers(0, 420, ROWS).tolist())]
    return {"x": x, "labels": labels, "persons": persons}


def table() -> pa.Table:
    data = columns()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(data["x"].ravel()), WIDTH)
    return pa.table({"x": lists, "code": data["labels"], "patient": data["persons"]})


def written(folder: Path) -> Any:
    pq.write_table(table(), folder / "march.parquet", row_group_size=100)
    return open_source(folder / "march.parquet", Columns(features=("x",), label="code", person="patient"))


def shards(folder: Path) -> Any:
    (folder / "shards").mkdir()
    for i in range(3):
        pq.write_table(table().slice(300 * i, 300), folder / "shards" / f"{i}.parquet", row_group_size=70)
    return open_source(folder / "shards", Columns(features=("x",), label="code", person="patient"))


def batched(given: Any) -> Callable[[Path], Any]:
    return lambda _: rt.Batches(given(), features="x", label="code", person="patient")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "Parquet": written,
    "a folder of shards": shards,
    "a table": batched(table),
    "a list": batched(lambda: table().to_batches(max_chunksize=64)),
    "a reader": batched(lambda: table().to_reader(max_chunksize=111)),
}


def learned(policy: Any, learner: rt.Cosine, tasks: list[Any], threads: int = 1) -> list[dict[str, Any]]:
    model = rt.ContinualClassifier(
        labels=policy, learner=learner, budget=BUDGET, noise=NoiseSource.seeded(5), engine=Local(threads=threads)
    )
    for i, given in enumerate(tasks):
        at, more = (given, {}) if isinstance(given, tuple) else ((), given)
        model.learn_task(*at, **more, name=f"task {i}")
    return [{**release.parameters, "labels": release.labels.labels} for release in model.releases]


def in_memory() -> dict[str, Any]:
    data = columns()
    return {"X": data["x"], "y": data["labels"], "persons": data["persons"]}


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a) for a, b in pairs)


@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("source", list(SOURCES))
def test_streams_are_learned_like_arrays(source, policy, tmp_path, monkeypatch):
    """Bit by bit, with one noise source: of the second task too, which has a centre or a common direction."""
    monkeypatch.setattr(task_streams, "_BYTES", 1_000)
    make = SOURCES[source]
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    expected = learned(*POLICIES[policy], [in_memory(), in_memory()])
    assert np.abs(expected[1]["sums"]).sum() > 0
    assert same(learned(*POLICIES[policy], [(make(first),), (make(second),)]), expected)


@pytest.mark.parametrize("policy", list(POLICIES))
def test_threads_change_no_bit(policy, tmp_path, monkeypatch):
    monkeypatch.setattr(task_streams, "_BYTES", 1_000)
    expected = learned(*POLICIES[policy], [in_memory()])
    for threads in (2, 3):
        assert same(learned(*POLICIES[policy], [in_memory()], threads), expected)
        assert same(learned(*POLICIES[policy], [(written(tmp_path),)], threads), expected)


@pytest.mark.parametrize("kept", [0, 12 * WIDTH * 3, 1 << 27])
def test_vectors_that_do_not_fit_are_summed_again(kept, tmp_path, monkeypatch):
    """Released labels are the same, whether their vectors were kept, given up after some, or never kept."""
    expected = learned(rt.ReleasedLabels(), rt.Cosine(), [in_memory()])
    assert expected[0]["labels"]
    monkeypatch.setattr(seen_module, "VECTOR_BYTES", kept)
    assert same(learned(rt.ReleasedLabels(), rt.Cosine(), [(written(tmp_path),)]), expected)


def test_texts_are_encoded_batch_by_batch(tmp_path):
    given: list[int] = []

    def lengths(texts: list[str]) -> Any:
        given.append(len(texts))
        return np.array([[len(text), 1.0] for text in texts])

    encoder = rt.encoders.wrap(lengths, width=2, name="lengths")
    notes = ["a" * (i % 9) for i in range(600)]
    labels = [f"label {i % 3}" for i in range(600)]
    found = []
    for X, y in (
        (notes, labels),
        (rt.Batches(pa.table({"note": notes, "code": labels}), text="note", label="code"), None),
    ):
        model = rt.ContinualClassifier(
            encoder=encoder, labels=rt.ReleasedLabels(), budget=BUDGET, noise=NoiseSource.seeded(5)
        )
        model.learn_task(X, y)
        found.append([{**release.parameters, "labels": release.labels.labels} for release in model.releases])
    assert same(*found)
    assert set(given) == {1}


class Watched:
    """A source that tells when it is read."""

    numeric, names, width, has_labels, has_persons = False, (), 2, True, False

    def __init__(self, ledger: Callable[[], int]) -> None:
        self.ledger = ledger
        self.spent: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        self.spent.append(self.ledger())
        yield from task_streams.InMemory(np.eye(2), Coded.of(["a", "b"]), None)

    def parts(self) -> list[Any]:
        return [self]

    def ids(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize("learner", [rt.Cosine(), TRAINED])
def test_nothing_is_read_before_the_spend(learner):
    budget = rt.Budget(epsilon=8.0, delta=1e-5)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), learner=learner, budget=budget)
    source = Watched(lambda: len(model.statement().spends))
    model.learn_task(source)
    assert source.spent
    assert set(source.spent) == {1}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"x": ["text"], "code": ["a"]}, "hold"),
        ({"x": [1.0], "code": [b"bytes"]}, "labels"),
        ({"x": [1.0]}, "No column 'code'"),
        ({"x": [[1.0, 2.0]], "code": ["a"]}, "fixed size"),
    ],
)
def test_record_batches_are_refused_by_schema(given, reason):
    with pytest.raises(errors.InvalidValue, match=reason):
        rt.Batches(pa.table(given), features="x", label="code")


def test_record_batches_need_a_schema_and_inputs():
    given: Any
    for given in ((batch for batch in table().to_batches()), [], 3, None):
        with pytest.raises(errors.InvalidValue, match="something with a schema"):
            rt.Batches(given, features="x", label="code")
    with pytest.raises(errors.InvalidValue, match="column with the inputs"):
        rt.Batches(table(), label="code")
    assert repr(rt.Batches(table(), features="x", label="code")) == "Batches(<sensitive>)"


def test_a_list_of_record_batches_has_one_schema():
    first, other = table().to_batches()[0], table().drop(["code"]).to_batches()[0]
    for given, reason in (([first, other], "No column 'code'"), ([first, None], "record batches of one schema")):
        with pytest.raises(errors.InvalidValue, match=reason):
            rt.Batches(given, features="x", label="code")


def test_a_reader_is_learned_once():
    model = rt.ContinualClassifier(labels=PUBLIC, budget=rt.Budget(epsilon=8.0, delta=1e-5, tasks_per_person=2))
    source = rt.Batches(table().to_reader(), features="x", label="code", person="patient")
    model.learn_task(source, name="march")
    with pytest.raises(errors.InvalidValue, match="not read yet"):
        model.learn_task(source, name="april")
    assert len(model.statement().spends) == 1


def test_sources_come_without_other_columns():
    model = rt.ContinualClassifier(labels=PUBLIC, budget=BUDGET)
    source = rt.Batches(table(), features="x", label="code", person="patient")
    for others in ({"y": ["a"]}, {"persons": [1]}, {"each_row_is_a_person": True}):
        with pytest.raises(errors.InvalidValue, match="Expected"):
            model.learn_task(source, **others)
    assert not model.statement().spends


@pytest.mark.parametrize("rows", ["", "1,2,x\n"])
def test_sources_without_labels_are_refused_whatever_their_rows(rows, tmp_path):
    (tmp_path / "march.csv").write_text("f,g,who\n" + rows)
    source = open_source(tmp_path / "march.csv", Columns(features=("f", "g"), person="who"))
    model = rt.ContinualClassifier(labels=PUBLIC, budget=BUDGET)
    with pytest.raises(errors.InvalidValue, match="Expected a source with labels"):
        model.learn_task(source)
    assert model.statement().spends == ()


def test_another_width_or_kind_is_refused_before_the_spend():
    model = rt.ContinualClassifier(labels=PUBLIC, budget=rt.Budget(epsilon=8.0, delta=1e-5, tasks_per_person=2))
    model.learn_task(rt.Batches(table(), features="x", label="code", person="patient"))
    narrow = pa.table({"a": [1.0], "b": [2.0], "code": ["label 0"]})
    texts = pa.table({"x": ["a text"], "code": ["label 0"]})
    for source in (
        rt.Batches(narrow, features=["a", "b"], label="code"),
        rt.Batches(texts, text="x", label="code"),
    ):
        with pytest.raises(errors.InvalidValue, match="features of"):
            model.learn_task(source, name="april")
    assert len(model.statement().spends) == 1


def test_names_of_columns_are_kept_and_compared():
    data = columns()["x"]
    given = {name: data[:, i] for i, name in enumerate("abcdef")} | {"code": ["label 0"] * ROWS}
    model = rt.ContinualClassifier(labels=PUBLIC, budget=rt.Budget(epsilon=8.0, delta=1e-5, tasks_per_person=2))
    model.learn_task(rt.Batches(pa.table(given), features=list("abcdef"), label="code"))
    assert model.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(errors.InvalidValue, match="columns of the first task"):
        model.learn_task(rt.Batches(pa.table(given), features=list("bacdef"), label="code"), name="april")


def broken(folder: Path) -> Any:
    source = shards(folder)
    file = folder / "shards" / "2.parquet"
    content = bytearray(file.read_bytes())
    content[4:200] = bytes(196)
    file.write_bytes(content)
    return source


def changed(folder: Path) -> Any:
    """A batch in the middle whose column of labels has another type."""
    other = pa.table({"x": table()["x"], "code": [7] * ROWS, "patient": ["p"] * ROWS})
    batches = [*table().to_batches(), *other.to_batches()]
    given = SimpleNamespace(schema=table().schema, to_batches=lambda: batches)  # a scanner that breaks its word
    return rt.Batches(given, features="x", label="code", person="patient")


@pytest.mark.parametrize("make", [broken, changed])
def test_what_breaks_in_the_middle_publishes_nothing(make, tmp_path):
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(), budget=BUDGET, path=tmp_path / "model")
    source = make(tmp_path)
    with pytest.raises(errors.LearningFailed) as failure:
        model.learn_task(source, name="march")
    assert str(failure.value) == str(errors.LearningFailed())
    assert failure.value.__context__ is failure.value.__cause__ is None
    assert rt.load(tmp_path / "model").releases == ()
    assert len(model.statement().spends) == 1


class Elsewhere:
    """An engine whose workers have a memory of their own: what is sent to them is pickled, and its size noted."""

    shares_memory = False

    def __init__(self) -> None:
        self.sent: list[int] = []

    def ready(self, files: Any = ()) -> int:
        return 1

    def map(self, work: Any, parts: Any) -> Iterator[Any]:
        order = pickle.dumps(work)
        for part in parts:
            content = pickle.dumps(part)
            self.sent.append(len(content))
            yield pickle.loads(order)(pickle.loads(content))  # noqa: S301


def test_known_labels_are_not_sent_with_every_part(tmp_path, monkeypatch):
    """They may be millions; with the work they are sent once. The release is that of one process."""
    monkeypatch.setattr("reticent.readers.parquet_files.PART", 1)
    space, engine = rt.PublicLabels([f"label {i}" for i in range(3_000)]), Elsewhere()
    model = rt.ContinualClassifier(labels=space, budget=BUDGET, noise=NoiseSource.seeded(5), engine=engine)
    model.learn_task(written(tmp_path))
    found = [{**release.parameters, "labels": release.labels.labels} for release in model.releases]
    assert same(found, learned(space, rt.Cosine(), [{"X": written(tmp_path)}]))
    assert len(engine.sent) == ROWS // 100
    assert max(engine.sent) < 3_000


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("engine", [Local(threads=1), Local(threads=2), Elsewhere()])
def test_a_file_that_is_rewritten_publishes_nothing(replaced, engine, tmp_path, monkeypatch):
    """As many rows in another order: those that were counted for a person are no longer that person's."""
    source, found = written(tmp_path), persons.kept_of_each

    def slowly(*given: Any) -> Any:
        marks = found(*given)
        other = tmp_path / "other.parquet"
        pq.write_table(table().take(np.arange(ROWS)[::-1]), other, row_group_size=100)
        if replaced:
            other.replace(tmp_path / "march.parquet")
        else:
            (tmp_path / "march.parquet").write_bytes(other.read_bytes())
        return marks

    monkeypatch.setattr(task_streams, "kept_of_each", slowly)
    model = rt.ContinualClassifier(labels=PUBLIC, budget=BUDGET, path=tmp_path / "model", engine=engine)
    with pytest.raises(errors.LearningFailed) as failure:
        model.learn_task(source, name="march")
    assert str(failure.value) == str(errors.LearningFailed())
    assert failure.value.__context__ is failure.value.__cause__ is None
    assert rt.load(tmp_path / "model").releases == ()
    monkeypatch.setattr(task_streams, "kept_of_each", found)
    model.learn_task(source, name="april")  # as it is now, nobody writes to it
    assert len(model.releases) == 1


def test_a_file_that_vanished_has_changed(tmp_path):
    (tmp_path / "x").write_text("x")
    before = task_streams.stamps([tmp_path / "x", tmp_path / "none"])
    task_streams.refuse_changed(before)
    (tmp_path / "x").unlink()
    with pytest.raises(errors.InvalidValue, match="changed while it was read"):
        task_streams.refuse_changed(before)


def test_streams_are_bounded_before_reading(tmp_path):
    task = Task.streamed(written(tmp_path), name="march")
    ways: list[Callable[[], Any]] = [
        lambda: task.inputs,
        lambda: task.labels,
        lambda: list(task.batches()),
        lambda: list(task.mapped(list)),
    ]
    for read in ways:
        with pytest.raises(errors.InvalidValue, match="Expected a task admitted by the gate"):
            read()
    data, kept = columns(), task._capped(1)
    expected = Task(data["x"], data["labels"], data["persons"])._capped(1)
    assert kept.labels == expected.labels
    assert np.array_equal(np.asarray(kept.inputs), np.asarray(expected.inputs), equal_nan=True)
    assert (kept.name, kept.width, kept.rereadable, kept.is_in_memory) == ("march", WIDTH, True, False)


@pytest.mark.parametrize("source", list(SOURCES))
def test_a_task_for_training_is_collected(source, tmp_path):
    """A head is trained on all examples at once, also of what can be read only once."""
    found = []
    for given in (in_memory(), {"X": SOURCES[source](tmp_path)}):
        budget = rt.Budget(epsilon=8.0, delta=1e-5)
        model = rt.ContinualClassifier(labels=PUBLIC, learner=TRAINED, budget=budget, noise=NoiseSource.seeded(3))
        model.learn_task(**given)
        found.append([{**release.parameters, "labels": release.labels.labels} for release in model.releases])
    assert same(*found)


def test_columns_of_an_iterator_are_of_the_same_rows(tmp_path):
    """Whichever is asked for first: what was read once is kept, for those who look again."""
    data = columns()
    expected = Task(data["x"], data["labels"], data["persons"])._capped(1)
    for first in ("inputs", "labels"):
        task = Task.streamed(SOURCES["a reader"](tmp_path))._capped(1)
        getattr(task, first)
        assert task.labels == expected.labels
        assert np.array_equal(np.asarray(task.inputs), np.asarray(expected.inputs), equal_nan=True)
        assert sum(len(batch.labels) for batch in task.batches()) == len(expected.labels)
