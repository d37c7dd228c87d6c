"""The row that pays for its tuning: in the ledger, before the first task, and public examples are in no task."""

import numpy as np
import pytest

from reticent import errors
from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.one_run import result_of
from reticent.lab.bench.paid_tuning import NAME
from reticent.lab.bench.specs import read, spec
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data.datasets import Data
from tests.lab.tiny import TASKS, a_run, write_features


def test_tuning_is_in_the_ledger_beside_all_tasks(tmp_path):
    place = Workspace(write_features(tmp_path / "data"), tmp_path / "out")
    found = result_of(a_run(learner="peft-paid"), place)
    assert [row["task"] for row in found["spent"]["ledger"] if "event" in row][: TASKS + 1] == [
        NAME,
        *(f"task {t + 1}" for t in range(TASKS)),
    ]
    assert "tuned by private selection, paid for as 'tuning'" in found["spent"]["statement"]
    assert found["spent"]["epsilon"] <= 8
    assert all(
        value is not None for row, t in zip(found["matrix"], range(TASKS), strict=True) for value in row[: t + 1]
    )
    assert "paid for" in found["digests"]["learner"]


def test_examples_that_are_left_out_are_in_no_task():
    labels = np.repeat(["a", "b"], 10)
    data = Data("toy", np.zeros((20, 2)), labels, np.zeros((0, 2)), labels[:0])
    stream = Assigned(a_run(data="toy", tasks=2), data, labels)
    before = {label: counts.copy() for label, counts in stream.examples(labels).items()}
    first = np.flatnonzero(stream.task == 0)[:3]
    stream.leave_out(first)
    assert sum(counts.sum() for counts in stream.examples(labels).values()) == 17
    assert sum(counts.sum() for counts in before.values()) == 20
    assert not np.isin(first, np.flatnonzero(stream.task >= 0)).any()


@pytest.mark.parametrize(
    "fields",
    [
        "persons = 2",
        'epsilon = "none"',
        'labels = "released"',
        'adapter = "film"',
    ],
)
def test_what_cannot_be_paid_for_is_refused(fields):
    with pytest.raises(errors.InvalidValue, match="needs persons = 1"):
        read("mine", f'data = "clinc150"\nlearner = "peft-paid"\n{fields}')


def test_the_row_stands_beside_tuning_that_is_not_counted():
    runs = spec("tuning").runs
    assert {(run.learner, run.persons) for run in runs} == {
        *(("peft", 1), ("peft", 2), ("peft-paper", 1), ("peft-paper", 2), ("peft-paid", 1))
    }
