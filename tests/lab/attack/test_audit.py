"""Whole configurations: consistent where they keep their claim, VIOLATED for each broken twin."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.encoders import film
from reticent.lab.attack import audit, games, stream_games, training_games, whole_games
from reticent.lab.attack.replay import Silent
from reticent.labels import LabelSpace
from reticent.sensitive import learners
from tests.assurance.planted import publishing
from tests.cli.command import refused, reticent
from tests.sensitive.by_hand import needs_torch
from tests.testing.test_checks import Twin

DELTA = 1e-5
PUBLIC = rt.PublicLabels(["first", "second"])
QUICK = rt.PeftEnsemble(task_size=20, epochs=1, rate=0.5)
FOUR = rt.Budget(epsilon=4.0, delta=DELTA)


@pytest.mark.parametrize(
    ("learner", "policy", "names"),
    [
        (rt.Cosine(), PUBLIC, {stream_games.KNOWN, stream_games.SPARSE, stream_games.SPARSE_KNOWN}),
        (rt.Cosine.paper(), rt.ReleasedLabels.paper(), {stream_games.KNOWN, stream_games.MAYBE}),
        (QUICK, PUBLIC, {training_games.EVERY_STEP, training_games.CLIPPED, training_games.ONE_RUN}),
        (QUICK, rt.ReleasedLabels(), {training_games.EVERY_STEP, stream_games.ALONE, stream_games.MAYBE}),
        (QUICK, rt.ReleasedLabels.paper(0.3), {training_games.EVERY_STEP, stream_games.ALONE}),
    ],
    ids=["cosine", "cosine paper", "peft", "peft released", "peft paper labels"],
)
def test_configurations_are_consistent(learner, policy, names):
    found = audit.audit(learner, policy, FOUR, trials=40)
    assert names < {result.game for result in found.results}
    assert found.verdict == games.CONSISTENT, found
    for result in found.results:
        assert result.epsilon_lower_bound >= 0
        assert result.claimed <= 4.0 + 1e-3
    laws = [result for result in found.results if result.kind is games.Kind.EXACT]
    assert [law.tightness > 0.6 for law in laws] == [True]


def test_every_kind_of_learner_is_audited():
    """A learner that is added to KINDS needs a way to attack it."""
    assert set(audit.PLAYED) == set(learners.KINDS.values())
    names = [name for name, _, _ in audit.configurations()]
    assert all(any(name.startswith(f"{kind},") for name in names) for kind in learners.names())
    assert len(names) == len(set(names)) == 14


def test_persons_with_several_examples_are_audited():
    budget = rt.Budget(epsilon=4.0, delta=DELTA, examples_per_person=2, tasks_per_person=2)
    world = stream_games.World(game=stream_games.KNOWN)
    found = stream_games.play(rt.Cosine(), PUBLIC, budget, world, trials=2_000)
    assert {one.verdict for one in found} == {games.CONSISTENT}
    # two examples in two tasks, with as much more noise: a person is as visible as with one
    assert found[0].tightness > 0.5
    assert found[0].claimed == pytest.approx(4.0, abs=1e-3)


@dataclass(frozen=True)
class LessNoise(Twin):
    """Draws what it pays for, and publishes half of the noise: nothing that the gate could see."""

    def learn_task(self, task, policy, **others):
        exact = whole_games.learned(
            rt.Cosine(), policy, others["gate"].budget, task, known=others["known"], noise=Silent()
        ).parameters["sums"]
        return super().learn_task(
            task,
            policy,
            **publishing(
                others,
                lambda **kept: {
                    **kept,
                    "parameters": {**kept["parameters"], "sums": (kept["parameters"]["sums"] + exact) / 2},
                },
            ),
        )


@dataclass(frozen=True)
class RawLabels(Twin):
    """Names every label it sees."""

    def learn_task(self, task, policy, **others):
        task = others["gate"].admit(task)
        new = LabelSpace(tuple(sorted({str(label) for label in task.labels} - set(others["known"].labels))))
        every = np.arange(len(others["known"]) + len(new), dtype=np.int32)
        values = {"rows": every, "sums": np.zeros((len(every), 8)), "noise": np.ones(len(every))}
        change = publishing(others, lambda **kept: {**kept, "labels": new, "parameters": values})
        return super().learn_task(task, policy, **change)


def test_broken_learners_are_detected():
    world = stream_games.World(game=stream_games.KNOWN)
    for twin, verdict in ((Twin(), games.CONSISTENT), (LessNoise(), games.VIOLATED)):
        assert stream_games.play(twin, PUBLIC, FOUR, world, trials=1_500)[0].verdict == verdict
    one = rt.Budget(epsilon=1.0, delta=DELTA)
    assert audit.audit(Twin(), PUBLIC, one, trials=60).verdict == games.CONSISTENT
    raw = audit.audit(RawLabels(), rt.ReleasedLabels(), one, trials=60)
    assert {r.game: r.verdict for r in raw.results}[f"whole classifiers: {stream_games.ALONE}"] == games.VIOLATED


def model(folder: Path, **settings: Any) -> Path:
    made = rt.ContinualClassifier(budget=rt.Budget(epsilon=1.0, delta=DELTA), path=folder, **settings)
    made.statement()
    return folder


def test_the_audit_reads_the_manifest_alone(tmp_path):
    folder = model(tmp_path / "model", labels=rt.PublicLabels(["secret"]))
    for file in folder.iterdir():
        if file.name != "manifest.json":
            file.unlink()
    found = audit.audit_model(folder, trials=20)
    assert found.verdict == games.CONSISTENT
    assert "secret" not in json.dumps(found.json())
    assert found.json()["notes"] == [audit.SCOPE]
    with pytest.raises(errors.InvalidValue, match="No model"):
        audit.audit_model(tmp_path / "nothing")


@needs_torch
def test_adapters_are_trained_through_a_tiny_encoder(tmp_path):
    learner = rt.PeftEnsemble(adapter=film, task_size=20, epochs=1, rate=0.5)
    folder = model(tmp_path / "model", labels=rt.PublicLabels(["x"]), learner=learner)
    found = audit.audit_model(folder, trials=20)
    assert found.verdict == games.CONSISTENT
    assert any("tiny encoder" in note for note in found.notes)
    assert {training_games.EVERY_STEP, training_games.CLIPPED} < {r.game for r in found.results}


def test_audit_on_the_command_line(tmp_path):
    folder = model(tmp_path / "model")
    facts = json.loads(reticent("audit", folder, "--trials", 20, "--json").stdout)
    assert (facts["claimed"]["epsilon"], facts["claimed"]["delta"], facts["verdict"]) == (1.0, DELTA, "consistent")
    keys = {"game", "trials", "accuracy", "limit", "epsilon_lower_bound", "tightness", "evidence", "verdict"}
    assert len(facts["games"]) == 9
    assert all(keys <= set(game) for game in facts["games"])
    printed = reticent("audit", folder, "--trials", 20).stdout
    table = printed[: printed.index(audit.SCOPE[:40])]
    assert max(map(len, table.splitlines())) <= 80
    shown = " ".join(printed.split())
    assert "consistent" in shown
    assert "weak" in shown
    assert audit.SCOPE in shown
    assert "trials >= 8" in refused(reticent("audit", folder, "--trials", 2))
    assert "--all" in refused(reticent("audit"))
    assert "--all" in refused(reticent("audit", folder, "--all"))


def test_everything_is_audited(monkeypatch, capsys):
    """Each configuration once; the games themselves are tested above."""
    monkeypatch.setattr(
        audit, "configurations", lambda: iter([("quick", QUICK, PUBLIC), ("cosine", rt.Cosine(), PUBLIC)])
    )
    monkeypatch.setattr(audit, "mechanisms", lambda budget, trials: iter(()))
    shown = json.loads(reticent("audit", "--all", "--epsilon", 4, "--trials", 20, "--json").stdout)
    memory = [f"cosine with memory, {kind} labels" for kind in ("public", "released")]
    assert [one["name"] for one in shown["audits"]] == ["mechanisms", "quick", "cosine", *memory]
