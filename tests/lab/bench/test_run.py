"""One run as a value: its digest seeds its noise, so it may never change."""

from dataclasses import asdict

import pytest

from reticent.lab.bench import specs
from reticent.lab.bench.run import Run
from reticent.lab.bench.specs import spec


@pytest.mark.parametrize(
    ("run", "digest"),
    [
        (Run(data="clinc150", learner="cosine"), "590e64639f5b9365f97b"),
        (
            Run(
                data="d",
                learner="peft",
                labels="released",
                epsilon=None,
                ratio=10.0,
                share=2.5,
                adapter="film",
                seed=3,
                text="t",
                label="l",
            ),
            "6235b3bd18c19fe00122",
        ),
    ],
)
def test_the_digest_of_a_run_is_that_of_the_first_version(run, digest):
    """File names and seeds follow from it: another digest is other noise, and other numbers."""
    assert run.digest == digest


@pytest.mark.parametrize("field", list(asdict(Run(data="d", learner="cosine"))))
def test_every_field_of_a_run_is_in_its_digest(field):
    plain = Run(data="d", learner="cosine")
    new = 3 if field in ("tasks", "seed", "persons") else 3.5 if field in ("ratio", "share") else "x"
    other = {**asdict(plain), field: new}
    assert Run(**other).digest != plain.digest


def test_names_of_runs_are_readable_and_unique():
    runs = {run for name in specs.names() for run in spec(name).runs if run.tasks == 10}
    assert len({run.name for run in runs}) == len(runs)
    named = Run(data="d", learner="peft", epsilon=None, ratio=10.0, share=2.5, adapter="film", seed=3)
    assert named.name == "d peft base epsilon none ratio 10 share 2.5 film seed 3"


def test_persons_in_several_tasks_are_paid_for():
    run = Run(data="d", learner="cosine", persons=3)
    assert run.budget.tasks_per_person == 3
    assert run.name == "d cosine base epsilon 1 persons in 3 tasks seed 0"
    assert {run.persons for run in spec("persons").runs} == {1, 3, 10}
