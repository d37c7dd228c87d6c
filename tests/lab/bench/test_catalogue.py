"""The catalogue of learners: one entry is all that specs, tables, estimates and runs need."""

from dataclasses import replace

import numpy as np
import pytest

from reticent import errors
from reticent.classifier import ContinualClassifier
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.sequential import Desai, Naive
from reticent.lab.bench import catalogue, specs, tables
from reticent.lab.bench.catalogue import ENTRIES, Entry, learner_of, of_the_paper
from reticent.lab.bench.estimates import Estimates
from reticent.lab.bench.one_run import result_of
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data.streams import Stream
from reticent.policies import PublicLabels
from reticent.sensitive.learners import Cosine, PeftEnsemble
from tests.lab.tiny import DATA, a_run, by_digest, write_features


def untuned(learner: PeftEnsemble) -> PeftEnsemble:
    return learner


def test_names_are_unique_and_families_have_one_title():
    assert len(set(catalogue.names())) == len(ENTRIES)
    assert len({entry.family for entry in ENTRIES}) == len({(entry.family, entry.title) for entry in ENTRIES})


@pytest.mark.parametrize("entry", ENTRIES, ids=catalogue.names())
@pytest.mark.parametrize("fields", [{}, {"adapter": "film"}, {"epsilon": None}, {"labels": "oracle"}], ids=str)
def test_every_entry_makes_learners(entry, fields):
    assert hasattr(learner_of(a_run(learner=entry.name, **fields), 100, untuned), "learn_task")


def test_the_papers_peft_and_its_baselines_are_tuned():
    tuned: list[PeftEnsemble] = []

    def tune(learner: PeftEnsemble) -> PeftEnsemble:
        tuned.append(learner)
        return replace(learner, clip_norm=0.123)

    made = {name: learner_of(a_run(learner=name), 100, tune) for name in catalogue.names()}
    assert tuned == [PeftEnsemble.paper(adapter=tuned[0].adapter, task_size=100)] * 4
    found = replace(tuned[0], clip_norm=0.123)
    assert made["peft-paper"] == made["noncl-paper"] == found
    assert made["naive-paper"] == Naive(found)
    assert made["desai-paper"] == Desai(replace(found, task_size=90), a_run().tasks)


def test_ours_is_compared_with_the_papers_mode_of_the_same_learner():
    pairs = {name: of_the_paper(name) for name in (*catalogue.names(), "my_module:Mine")}
    assert {name: paper for name, paper in pairs.items() if paper} == {"cosine": "cosine-paper", "peft": "peft-paper"}


def test_a_learner_without_entry_is_refused():
    with pytest.raises(
        errors.InvalidValue, match=r"No learner is called magic\. There are cosine-paper, .* module:object"
    ):
        learner_of(a_run(learner="magic"), 100, untuned)


def test_one_entry_is_enough_for_a_new_learner(tmp_path, monkeypatch):
    new = Entry(
        name="sharp",
        family="sharp",
        title="Sharp Classifier",
        origin=catalogue.BASELINE,
        make=lambda run, size, tuned: Cosine(),
    )
    monkeypatch.setattr(catalogue, "ENTRIES", (*ENTRIES, new))
    mine = specs.read("mine", f'data = "{DATA}"\nlearner = ["sharp", "cosine"]\nepsilon = 8\ntasks = 3\nseeds = 1')
    (run, _) = mine.runs
    assert Estimates().seconds([run]) == pytest.approx(15.0 * 3)  # a guess, until it is in `COSTS`
    result = result_of(run, Workspace(write_features(tmp_path / "data"), tmp_path / "out"))
    (table,) = tables.tables(mine, by_digest([result]))
    (row,) = [row for row in table.rows if row[1] == "Sharp Classifier"]
    assert row[2:] == (f"baseline here, {DATA}", f"{100 * result['accuracy']:.1f}")
    assert [r.learner for r in specs.narrowed(mine, only=["sharp"]).runs] == ["sharp"]


def test_the_total_of_the_papers_cosine_does_not_depend_on_the_tasks_that_examples_are_in():
    """With the same noise, every ratio ends with the same weights: so one stream stands for all of them."""
    draw = np.random.default_rng(0)
    inputs, labels = draw.normal(size=(240, 8)), np.repeat([f"class {i}" for i in range(12)], 20)
    policy = PublicLabels([*np.unique(labels).tolist(), *(f"never {i}" for i in range(30))])
    totals = {}
    for ratio in (0.0, 0.5, 1.0):
        at = Stream(tasks=3, ratio=ratio, seed=1).tasks_of(labels)
        model = ContinualClassifier(learner=Cosine.paper(), labels=policy, budget=a_run().budget)
        for t in range(3):
            model.set_params(noise=NoiseSource.seeded(t))
            model.learn_task(inputs[at == t], labels[at == t].tolist(), name=f"task {t}")
        sums = np.array([release.parameters["sums"] for release in model.releases], np.float64)
        totals[ratio] = sums.sum(axis=0)
    np.testing.assert_allclose(totals[0.5], totals[0.0], atol=1e-4)
    np.testing.assert_allclose(totals[1.0], totals[0.0], atol=1e-4)
    assert np.abs(totals[0.0]).max() > 1
