"""How often runs see an example: as the code trains and tunes, and as the documents say of the whole paper."""

import inspect
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.lab.baselines.sequential import Desai
from reticent.lab.bench import catalogue, passes, specs, steps, workspace
from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.run import FILM, Run
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data import image_sets
from reticent.lab.data.datasets import Data
from reticent.sensitive.learners import PeftEnsemble
from reticent.sensitive.tuning import tune_uncounted

PAGE = Path(__file__).parents[3] / "docs" / "reproducing-the-paper.md"
EXAMPLES = {"split-cifar100": 50_000, "split-imagenet-r": 24_000, "five-datasets": 260_110}
CLASSES = {"split-cifar100": 100, "split-imagenet-r": 200, "five-datasets": 50}
WIDTH = 768


def test_what_is_assumed_of_training_and_tuning_is_what_they_do():
    assert inspect.signature(tune_uncounted).parameters["trials"].default == passes.TRIALS
    assert PeftEnsemble.paper().epochs == passes.EPOCHS
    run = Run(data="d", learner="desai-paper", tasks=7)
    share = Desai(PeftEnsemble.paper(), 7).share
    by_task = [(1 - share) / 7 + share * task / 7 for task in range(7)]  # its own examples, and a buffer of each before
    assert passes.training(run) == pytest.approx(40 * sum(by_task))
    ours = Run(data="d", learner="peft")
    assert passes.steps(ours, 0) == passes.training(ours) / (PeftEnsemble().resolved(None).rate or 1.0)


@pytest.mark.parametrize("name", catalogue.names())
def test_learners_that_are_tuned_are_those_that_ask_for_it(name):
    asked: list[PeftEnsemble] = []

    def tuned(peft: PeftEnsemble) -> PeftEnsemble:
        asked.append(peft)
        return peft

    catalogue.learner_of(Run(data="d", learner=name, adapter=FILM), 100, tuned)
    assert bool(asked) == (name in passes.TUNED)
    assert (passes.tuning_key(Run(data="d", learner=name)) is not None) == bool(asked)


def test_runs_share_settings_where_the_workspace_has_one_file_for_them(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "tune_uncounted", lambda learner, *_, **__: learner)
    place = Workspace(tmp_path, tmp_path)
    axes: dict[str, tuple[Any, ...]] = {
        "data": ("a", "b"), "learner": ("peft-paper", "naive-paper"), "labels": ("base", "oracle"),
        "epsilon": (1.0, 8.0, None), "ratio": (0.0, 50.0), "persons": (1, 3), "seed": (0, 1), "tasks": (1, 10),
    }  # fmt: skip
    runs = [Run(**dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())]
    files: dict[object, set[Path]] = {}
    for run in runs:
        before = set((tmp_path / "tuned").glob("*.json"))
        place.tuned(run, PeftEnsemble.paper(), None, np.array(["a"]))
        files.setdefault(passes.tuning_key(run), set()).update(set((tmp_path / "tuned").glob("*.json")) - before)
    assert all(len(made) == 1 for made in files.values())
    assert len(files) == 2 * 3 * 2 * 2 * 2 < len(runs)


@pytest.mark.parametrize("tasks", [1, 5, 10])
def test_settings_are_tuned_on_one_task(tasks):
    labels = np.repeat([f"c{i:02d}" for i in range(20)], 5)
    data = Data("mine", np.zeros((100, 2)), labels, np.zeros((0, 2)), labels[:0])
    run = Run(data="mine", learner="peft-paper", tasks=tasks)
    assert len(Assigned(run, data, labels).to_tune(np.arange(100))) == pytest.approx(100 * passes.tuned_share(run))


def test_settings_for_5_datasets_are_tuned_on_a_part_of_one():
    run = Run(data="five-datasets", learner="peft-paper", tasks=5)
    assert passes.tuned_share(run) * EXAMPLES[run.data] == pytest.approx(image_sets._TUNED_SHARE * 50_000)


def gradients(runs: set[Run]) -> float:
    """Of one example, in thousand millions."""
    return sum(passes.training(run) * EXAMPLES[run.data] for run in runs) / 1e9


def to_tune(runs: set[Run]) -> float:
    """The same for tuning, once for all runs that share their settings."""
    once = {passes.tuning_key(run): passes.tuned_share(run) * EXAMPLES[run.data] for run in runs}
    return sum(map(passes.tuning, once.values())) / 1e9


def days(thousand_millions: float) -> float:
    """At a thousand a second."""
    return thousand_millions * 1e9 / 1_000 / 86_400


def test_the_documented_cost_of_the_paper_is_that_of_its_specs():
    runs = {catalogue.stand_in(run) for spec in specs.chosen(["paper"]) for run in spec.runs}
    film = {run for run in runs if run.adapter == FILM}
    assert all(run.learner in passes.TUNED for run in film)
    orders = set(specs.spec("paper-orders").runs)
    extra = orders - set(specs.spec("paper-domain-shift").runs)
    rest = film - extra
    tuned = [to_tune(rest), to_tune(film) - to_tune(rest)]
    numbers = [[gradients(rest), tuned[0]], [gradients(extra), tuned[1]]]
    wide = [run for run in rest if run.labels == "public-1000x"]
    draws = sum(
        passes.steps(run, passes.tuned_share(run) * EXAMPLES[run.data])
        * run.tasks
        * CLASSES[run.data]
        * steps._times(run.labels)
        * (WIDTH + 1)
        for run in wide
    )
    said = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"In all {len(runs):,} runs, {len(film)} of them through the encoder" in said
    (first, second), (third, fourth) = numbers
    assert f"{first:.2f} thousand million gradients of one example, and tuning {second:.2f}" in said
    assert f"{days(first + second):.0f} days at a thousand a second" in said
    assert f"{len(extra)} further runs take {third:.2f}, and tuning {fourth:.2f}" in said
    assert f"{days(third + fourth):.0f} days more" in said
    assert f"the {len(wide)} runs among 1000x labels {draws / 1e12:.0f} million million" in said
