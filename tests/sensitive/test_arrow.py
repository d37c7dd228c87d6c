"""A table elsewhere: the same release as in one process, read after the spend; what fails there is not told."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.directory import Directory
from reticent.gate.noise import NoiseSource
from reticent.privacy import events
from reticent.program import learn
from reticent.sensitive.engines import InArrow
from reticent.sensitive.learners import Cosine
from reticent.sensitive.task import Task

pa = pytest.importorskip("pyarrow", reason="reticent[parquet]")

BUDGET = rt.Budget(epsilon=8.0, delta=1e-5)
WIDTH = 6
POLICIES = {
    "public": rt.PublicLabels(["I20", "7", "E10"]),
    "released": rt.ReleasedLabels(),
    "selected": rt.ReleasedLabels(selection=events.OptimalSelection, share=0.3),
}


def rows(n: int = 900) -> tuple[Any, list[str]]:
    features = np.random.default_rng(3).normal(size=(n, WIDTH)).astype(np.float32)
    labels = [("I20", "E10", "7", "rare")[min(i % 4, 3)] if i % 400 else "once" for i in range(n)]
    return features, labels


def table(features: Any, labels: list[str]) -> Any:
    values = pa.array(features.ravel())
    lists = pa.ListArray.from_arrays(pa.array(np.arange(len(labels) + 1, dtype=np.int32) * WIDTH), values)
    return pa.record_batch([lists, pa.array(labels)], names=["embedding", "code"])


def called(batches: list[Any], log: list[str] | None = None) -> Callable[..., Iterator[Any]]:
    """What `mapInArrow` does, of partitions of one batch each and one that is empty."""

    def mapped(function: Any, schema: str) -> Iterator[Any]:
        assert schema.startswith("kind string, label string")
        if log is not None:
            log.append("read")
        for partition in [*([batch] for batch in batches), []]:
            yield from function(iter(partition))

    return mapped


def parted(whole: Any, size: int) -> list[Any]:
    return [whole.slice(start, size) for start in range(0, whole.num_rows, size)]


def elsewhere(batches: list[Any], log: list[str] | None = None) -> InArrow:
    return InArrow(mapped=called(batches, log), features="embedding", width=WIDTH, label="code")


def released(task: Task, policy: Any, *, noise: NoiseSource | None = None, encoder: Any = None) -> dict[str, Any]:
    """What a task releases."""
    directory = Directory.create(None, policy, Cosine().rule, BUDGET)
    noise = NoiseSource.seeded(7) if noise is None else noise
    learn([task], Cosine(), policy, directory, encoder=encoder, noise=noise)
    release = directory.model.releases[-1]
    return {"labels": release.labels.labels, **{name: a.tolist() for name, a in release.parameters.items()}}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_table_elsewhere_learns_alike(policy):
    features, labels = rows()
    here = released(Task(features, labels, each_row_is_a_person=True), POLICIES[policy])
    assert here["rows"]
    for size in (900, 250, 7):
        source = elsewhere(parted(table(features, labels), size))
        task = Task.streamed(source, each_row_is_a_person=True)
        assert released(task, POLICIES[policy]) == here


def test_workers_encode_on_one_thread(threads):
    """Features may differ between numbers of threads, and must not between workers."""
    torch = pytest.importorskip("torch")
    encoder = rt.encoders.wrap(lambda x: np.array([[torch.get_num_threads(), len(t)] for t in x]), width=2, name="mine")
    columns = {"note": ["a", "a text"] * 40, "code": ["I20", "E10"] * 40}
    found = []
    for count in (1, 2):
        threads(count)
        source = InArrow(mapped=called([pa.record_batch(columns)]), text="note", label="code")
        task = Task.streamed(source, each_row_is_a_person=True)
        found.append(released(task, POLICIES["public"], encoder=encoder))
        assert torch.get_num_threads() == count
    assert found[0] == found[1]


def test_a_table_is_read_after_the_spend(monkeypatch):
    from reticent.gate.gate import Gate

    log: list[str] = []
    spend = Gate.spend

    def spent(self: Gate, *given: Any, **options: Any) -> Any:
        log.append("spent")
        return spend(self, *given, **options)

    monkeypatch.setattr(Gate, "spend", spent)
    source = elsewhere([table(*rows())], log)
    released(Task.streamed(source, each_row_is_a_person=True), rt.ReleasedLabels())
    assert log[0] == "spent"
    assert log.count("spent") == 1
    assert "read" in log


def test_a_table_that_fails_says_nothing(capfd):
    def mapped(function: Any, schema: str) -> Iterator[Any]:
        yield from function(iter([table(*rows()).drop_columns(["code"])]))
        raise AssertionError("SECRET")  # of the other system

    source = InArrow(mapped=mapped, features="embedding", width=WIDTH, label="code")
    with pytest.raises(errors.LearningFailed) as caught:
        released(Task.streamed(source, each_row_is_a_person=True), rt.ReleasedLabels(), noise=NoiseSource.from_os())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert capfd.readouterr() == ("", "")


def test_a_partition_that_fails_comes_back_without_a_reason():
    from reticent.sensitive.engines.arrow import _InPlace
    from reticent.sensitive.engines.machines import machine_here

    def work(part: Any) -> Any:
        raise ValueError("SECRET")

    columns = elsewhere([])
    for machine in (repr(machine_here()), "another"):
        (batch,) = _InPlace(work, columns._columns, WIDTH, machine)(iter([]))
        assert batch.to_pylist() == [{"kind": "failed", "label": None, "count": None, "sums": None}]


def test_rows_of_other_lengths_are_not_used():
    from reticent.sensitive.engines.arrow import _rows

    lists = pa.array([[1.0, 2.0], None, [1.0], [3.0, None], [], [5.0, 6.0]], pa.list_(pa.float32()))
    found = _rows(lists, 2)
    assert found.dtype == np.float32
    none = [np.nan, np.nan]
    expected = np.array([[1.0, 2.0], none, none, [3.0, np.nan], none, [5.0, 6.0]])
    assert np.array_equal(found, expected, equal_nan=True)
    assert _rows(lists.slice(2, 4), 2).tolist()[-1] == [5, 6]


def test_bad_tables_are_refused():
    for bad in ({}, {"text": "note", "features": "embedding", "width": 3}, {"features": "embedding"}):
        with pytest.raises(errors.InvalidValue, match="Expected one kind of input"):
            InArrow(mapped=called([]), label="code", **bad)
    with pytest.raises(errors.InvalidValue, match="Expected width >= 1"):
        InArrow(mapped=called([]), label="code", features="embedding", width=0)
    with pytest.raises(errors.InvalidValue, match="learner that adds up"):
        iter(elsewhere([]))
    assert repr(elsewhere([])) == "InArrow(<sensitive>)"
