"""One private row is changed: nothing that is seen may change, up to the noisy values."""

import logging
import unittest.mock
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors, readers
from reticent.gate.gate import Gate, Permit
from reticent.labels import LabelSpace
from reticent.sensitive.task import Task
from tests.assurance import neighbours
from tests.assurance.neighbours import ENTRIES, PUBLIC, Entry, Row, check, classifier, learn, points, verbs, write_csv
from tests.encoders.samples import installed

QUICK = [
    name
    for name in ENTRIES
    if not any(part in name for part in ("FiLM", "optimal", "float32", "Cosine.paper", "layer, released", "raises"))
    and not any(part in name for part in ("category", "column of strings", "dictionary", "memory, public"))
    and name.count("released; Parquet") + name.count("released; NPZ") + name.count("public; CSV") == 0
]


@installed("torch", "PIL", "polars")
@pytest.mark.parametrize("name", QUICK)
def test_one_row_changes_nothing_but_noisy_values(name):
    assert check(ENTRIES[name], 4) == 4


@pytest.mark.slow
@installed("torch", "PIL", "polars")
@pytest.mark.parametrize("name", list(ENTRIES))
def test_hundreds_of_hostile_rows_change_nothing_but_noisy_values(name):
    assert check(ENTRIES[name], 200) == 200


@installed("torch", "PIL", "polars")
@pytest.mark.parametrize("name", [name for name in QUICK if name.startswith("init")])
def test_compared_runs_succeed(name):
    """Runs that fail alike would prove nothing."""
    seen = ENTRIES[name].seen
    assert seen.outcome == "returned"
    assert [code for code, *_ in seen.facts] == [0] * 6
    assert "model/releases/0001.safetensors" in seen.files


@pytest.mark.parametrize("policy", ["public", "released"])
def test_one_row_is_not_seen_in_a_model_with_memory(policy):
    """A label that nobody else has, and a task without any examples: the vault differs, and nothing else."""
    entry = ENTRIES[f"learn_task with memory, {policy}; array"]
    assert entry.seen.outcome == "returned"
    assert "model/releases/0003.safetensors" in entry.seen.files
    assert not [name for name in entry.seen.files if "vault" in name]
    assert entry.difference([*entry.base, ([1.0, 0.0, 0.0], "nobody else has it", "z")]) == {}
    assert entry.difference(entry.base[1:]) == {}


def test_the_order_of_rows_changes_no_byte():
    """With public labels and the same noise even the noisy values are the same."""
    rows = points(4)
    found = []
    for each in (rows, rows[::-1]):
        (release,) = classifier(None).learn_task(*neighbours.CONTAINERS["array"](each), name="march").releases
        found.append({name: values.tobytes() for name, values in release.parameters.items()})
    assert found[0] == found[1]


# --- broken twins: learners and readers that tell


def _length(task: Task) -> int:
    return len(task.labels)


def _label_space_of_the_data(task: Task) -> LabelSpace:
    return LabelSpace(tuple(sorted({str(label) for label in task.labels})))


def _fails_at_nan(task: Task, gate: Gate, folder: Path) -> None:
    if np.isnan(np.asarray(task.inputs)).any():
        raise errors.InvalidValue("Expected numbers.")


def _append(file: Path, content: bytes) -> None:
    with open(file, "ab") as stream:
        stream.write(content)


LEAKS: dict[str, Callable[[Task, Gate, Path], object]] = {
    "a count is printed": lambda task, gate, folder: print(_length(task)),
    "a message has a count": lambda task, gate, folder: (_ for _ in ()).throw(ValueError(f"{_length(task)} rows")),
    "a file is named after a label": lambda task, gate, folder: (folder / f"{sorted(map(str, task.labels))}").touch(),
    "a file grows with the data": lambda task, gate, folder: _append(folder / "n", bytes(_length(task))),
    "the ledger has a count": lambda task, gate, folder: gate._ledger.record(f"learned {_length(task)} rows"),
    "NaN is an error": _fails_at_nan,
}


def _told_by(leak: Callable[[Task, Gate, Path], object], folder: Path, rows: Sequence[Row]) -> Any:
    """Learns with a learner that does something else first."""
    honest = rt.Cosine.learn_task

    def learn_task(self: rt.Cosine, task: Task, *more: Any, gate: Gate, **others: Any) -> Any:
        leak(gate.admit(task), gate, folder)
        return honest(self, task, *more, gate=gate, **others)

    with unittest.mock.patch.object(rt.Cosine, "learn_task", learn_task):
        return learn(folder, rows)


def _released_with(change: Callable[[dict[str, Any], list[Task]], None], folder: Path, rows: Sequence[Row]) -> Any:
    """Learns with a permit that releases something else."""
    admitted: list[Task] = []
    admit, release = Gate.admit, Permit.release

    def noted(self: Gate, task: Task) -> Task:
        admitted.append(admit(self, task))
        return admitted[-1]

    def changed(self: Permit, **made: Any) -> Any:
        change(made, admitted)
        return release(self, **made)

    with unittest.mock.patch.object(Gate, "admit", noted), unittest.mock.patch.object(Permit, "release", changed):
        return learn(folder, rows)


def _n_in_a_shape(made: dict[str, Any], admitted: list[Task]) -> None:
    kept = 1 + _length(admitted[-1]) % 2
    rows = {name: made["parameters"][name][:kept] for name in ("rows", "sums", "noise")}
    made["parameters"] = {**made["parameters"], **rows}


def _n_in_the_noise(made: dict[str, Any], admitted: list[Task]) -> None:
    made["parameters"] = {**made["parameters"], "noise": made["parameters"]["noise"] / _length(admitted[-1])}


def _labels_of_the_data(made: dict[str, Any], admitted: list[Task]) -> None:
    made["labels"] = _label_space_of_the_data(admitted[-1])


TWINS = {says: partial(_told_by, leak) for says, leak in LEAKS.items()} | {
    "a shape has a count": partial(_released_with, _n_in_a_shape),
    "a normaliser is a count": partial(_released_with, _n_in_the_noise),
    "labels come from the data": partial(_released_with, _labels_of_the_data),
}
HOSTILE: Row = ([np.nan] * 3, "z", "z")


@pytest.mark.parametrize("says", list(TWINS))
def test_learners_that_tell_are_noticed(says):
    rows = points(4)
    assert Entry(says, "array", rows, neighbours.POINTS, TWINS[says]).difference([*rows, HOSTILE])


def _reads_and(tell: Callable[[str], object], folder: Path, rows: Sequence[Row]) -> Any:
    opened = readers.open_source

    def told(*arguments: Any, **options: Any) -> readers.Source:
        source = opened(*arguments, **options)
        tell(f"{sum(len(batch.inputs) for batch in source)} rows were read")
        return source

    with unittest.mock.patch.object(readers, "open_source", told):
        return verbs(folder, rows, write=write_csv, policy="public")


@pytest.mark.parametrize("tell", [print, logging.getLogger("reader").debug, warnings.warn])
def test_readers_that_tell_are_noticed(tell):
    rows = points(4)
    assert Entry("twin", "CSV", rows, neighbours.POINTS, partial(_reads_and, tell)).difference(rows[1:])


class Talkative(list[Any]):
    """A column that warns and logs about single cells while it is read, as some libraries do."""

    def tolist(self) -> list[Any]:
        for cell in self:
            if cell != cell:  # NaN
                warnings.warn("a cell is missing", stacklevel=2)
                logging.getLogger("column").warning("a cell is missing")
        return list(self)


def test_what_a_column_says_of_a_cell_is_not_heard():
    def run(folder: Path, rows: Sequence[Row]) -> Any:
        model = classifier(folder / "model", labels=PUBLIC)
        labels = Talkative(label for _, label, _ in rows)
        model.learn_task(neighbours.array(rows), labels, name="march")
        return model.private_score(neighbours.array(rows), labels, epsilon=0.1, name="test") >= 0

    rows = points(4)
    entry = Entry("learn_task", "a column that warns", rows, neighbours.POINTS, run)
    assert entry.seen.outcome == "returned"
    assert entry.difference([*rows, ([1.0] * 3, float("nan"), "z")]) == {}
