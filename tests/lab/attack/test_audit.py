"""Audits in pairs: the measured bound stays under the claim, and exceeds it for a broken twin."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.encoders import film
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.step import TERM_SCALE, Block
from reticent.lab.attack import audit, games
from reticent.labels import LabelSpace
from reticent.privacy import accounting, events
from reticent.released.optimizers import Sgd
from reticent.sensitive.head import HeadGradients
from reticent.sensitive.training import Training
from tests.cli.command import refused, reticent

DELTA = 1e-5
PUBLIC = rt.PublicLabels((audit.COMMON, audit.CANARY))


@dataclass(frozen=True)
class Canary:
    """One example with a gradient of this norm along the first axis; the mutant ignores the clipping."""

    norm: float = 10.0
    clipped: bool = True

    size = 1

    @property
    def start(self):
        return {"w": np.zeros(2, np.float32)}

    def blocks(self, parameters, rows):
        gradients = np.tile([self.norm, 0.0], (len(rows), 1))
        yield Block({"w": gradients}) if self.clipped else Unclipped({"w": gradients})


class Unclipped(Block):
    """Forgets to clip: adds its gradients whole, whatever the gate says."""

    def add(self, sums, scales):
        sums["w"] += (self.rows["w"] * TERM_SCALE).astype(np.int64).sum(axis=0)


def training(epsilon: float, *, rate: float = 1.0, steps: int = 1) -> Training:
    noise = accounting.noise_multiplier(rt.Budget(epsilon=epsilon, delta=DELTA), rate=rate, steps=steps)
    rule = Sgd(learning_rate=0.1)
    return Training(noise_multiplier=noise, rate=rate, steps=steps, clip_norm=1.0, batch=1.0, optimizer=rule)


def half_the_noise(real: Training) -> Training:
    return replace(real, noise_multiplier=real.noise_multiplier / 2)


def played(
    real: Training, gradients: Any = None, *, told: Training | None = None, trials: int = 10_000
) -> games.Result:
    canary = Canary() if gradients is None else gradients
    return audit.play_training(told or real, canary, delta=DELTA, claimed=real.event, trials=trials)


# --- the training step


def test_training_stays_within_its_claim():
    found = played(training(1.0))
    assert found.verdict == games.CONSISTENT, found
    # the attack is not trivial: with this many games the bound is above zero
    assert 0.05 < found.epsilon_lower_bound <= found.claimed == pytest.approx(1.0, abs=1e-3)
    assert found.accuracy < found.limit == pytest.approx((np.e + DELTA) / (1 + np.e), abs=1e-3)


def test_half_the_noise_is_detected():
    real = training(1.0)
    assert played(real, told=half_the_noise(real)).verdict == games.VIOLATED


def test_missing_clipping_is_detected():
    real = training(1.0)
    assert played(real, Canary(clipped=False), trials=1_000).verdict == games.VIOLATED
    assert played(real, Canary(norm=1.0), trials=1_000).verdict == games.CONSISTENT


def test_the_audit_is_tight_at_large_epsilon():
    real = training(8.0)
    found = played(real, trials=3_000)
    assert 4.0 < found.epsilon_lower_bound <= found.claimed  # 6.4, with a deviation of 0.35
    assert played(real, told=half_the_noise(real), trials=1_000).verdict == games.VIOLATED


def test_a_real_head_stays_within_its_claim():
    head = HeadGradients(np.array([[10.0, 0.0]], np.float32), np.array([0]), 2)
    real = training(8.0, steps=2)
    assert played(real, head, trials=1_000).verdict == games.CONSISTENT
    assert played(real, head, told=half_the_noise(real), trials=1_000).verdict == games.VIOLATED


def test_sampled_training_stays_within_its_claim():
    real = training(8.0, rate=0.5, steps=2)
    assert played(real, trials=1_000).verdict == games.CONSISTENT
    assert played(real, told=replace(half_the_noise(real), rate=1.0), trials=1_000).verdict == games.VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_many_steps_are_audited(rate):
    real = training(1.0, rate=rate, steps=10 if rate == 1 else 5)
    found = played(real)
    assert found.verdict == games.CONSISTENT, found
    assert played(real, told=half_the_noise(real)).verdict == games.VIOLATED


def test_bounds_stay_below_the_truth():
    """Gaussians, a noisy count of labels, randomised response: often, and with few games, where luck is largest."""
    draw = np.random.default_rng()
    gaussian, response = events.Gaussian(noise_multiplier=1.0), events.OptimalSelection(epsilon=1.0, delta=DELTA)
    for trials in (8, 40, 400):
        for _ in range(30):
            noise = draw.normal(size=(2, trials))
            assert games.judge("", noise[0] + 1, noise[1], event=gaussian, delta=DELTA).verdict == games.CONSISTENT
            truth = np.where(draw.uniform(size=(2, trials)) < np.e / (1 + np.e), [[1.0], [0.0]], [[0.0], [1.0]])
            assert games.judge("", *truth, event=response, delta=DELTA).verdict == games.CONSISTENT


def test_bounds_come_close_to_the_truth():
    draw = np.random.default_rng()
    noise = draw.normal(size=(2, 200_000))
    found = games.judge("", noise[0] + 1, noise[1], event=events.Gaussian(noise_multiplier=1.0), delta=DELTA)
    assert 0.93 * found.claimed < found.epsilon_lower_bound <= found.claimed
    truth = np.where(draw.uniform(size=(2, 200_000)) < np.e / (1 + np.e), [[1.0], [-np.inf]], [[-np.inf], [1.0]])
    response = games.judge("", *truth, event=events.OptimalSelection(epsilon=1.0, delta=DELTA), delta=DELTA)
    assert 0.9 < response.epsilon_lower_bound <= response.claimed


def test_the_family_of_an_event_keeps_its_shape():
    counts = events.LabelCounts(noise_multiplier=10.0, threshold=45.0)
    steps = events.DpSgd(noise_multiplier=4.0, rate=0.1, steps=10)
    noise = games.gaussians(events.LabelledTraining(counts=counts, training=steps))
    assert noise is not None
    half = events.Gaussian(noise_multiplier=5.0), replace(steps, noise_multiplier=2.0)
    assert noise(0.5) == events.compose(*half)
    assert games.gaussians(events.OptimalSelection(epsilon=1.0, delta=DELTA)) is None


# --- whole configurations


QUICK = rt.PeftEnsemble(task_size=20, epochs=1, rate=0.5)


@pytest.mark.parametrize(
    ("learner", "policy", "count"),
    [
        (rt.Cosine(), PUBLIC, 1),
        (rt.Cosine(), rt.ReleasedLabels(), 4),
        (rt.Cosine.paper(), rt.ReleasedLabels.paper(), 4),
        (QUICK, PUBLIC, 2),
        (QUICK, rt.ReleasedLabels(), 5),
        (QUICK, rt.ReleasedLabels.paper(0.3), 5),
    ],
)
def test_configurations_are_consistent(learner, policy, count):
    found = audit.audit(learner, policy, rt.Budget(epsilon=4.0, delta=DELTA), trials=40)
    assert len(found.results) == count
    assert found.verdict == games.CONSISTENT, found
    for result in found.results:
        assert 0 <= result.epsilon_lower_bound <= result.claimed <= 4.0 + 1e-3


def test_persons_with_several_examples_are_audited():
    budget = rt.Budget(epsilon=4.0, delta=DELTA, examples_per_person=2, tasks_per_person=2)
    found = audit.audit(rt.Cosine(), PUBLIC, budget, trials=1_000)
    assert found.verdict == games.CONSISTENT
    # two examples, twice the noise: a person is as visible as with one; 0.62, with a deviation of 0.018
    assert found.results[0].accuracy > 0.52
    assert found.results[0].claimed < 3.5


@dataclass(frozen=True)
class Broken:
    """Learns with more than it pays for, or names every label it sees."""

    times: float = 1.0
    raw_labels: bool = False
    rule = rt.Cosine().rule

    def learn_task(self, task, policy, *, gate, **others):
        budget, task = gate.budget, gate.admit(task)
        generous = Gate(Ledger.create(None, replace(budget, epsilon=budget.epsilon * self.times)))
        honest = policy.sums(budget) if isinstance(policy, rt.PublicLabels) else policy.joint(budget)
        gate.spend(honest, task=task.name)
        release = rt.Cosine().learn_task(task, policy, gate=generous, **others)
        if self.raw_labels:
            new = LabelSpace(tuple(sorted(set(task.labels))))
            rows = np.arange(len(new), dtype=np.int32)
            release = replace(release, labels=new, parameters={"rows": rows, "sums": np.zeros((len(new), 8))})
        return replace(release, event=honest)


def test_broken_learners_are_detected():
    budget = rt.Budget(epsilon=4.0, delta=DELTA)
    noisy = audit.audit(Broken(times=4.0), PUBLIC, budget, trials=500)
    assert noisy.verdict == games.VIOLATED, noisy
    raw = audit.audit(Broken(raw_labels=True), rt.ReleasedLabels(), budget, trials=100)
    assert {r.game: r.verdict for r in raw.results}["the only one with a label"] == games.VIOLATED
    assert audit.audit(Broken(), PUBLIC, budget, trials=100).verdict == games.CONSISTENT


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


def test_adapters_are_replayed_as_last_layer(tmp_path):
    learner = rt.PeftEnsemble(adapter=film, task_size=20, epochs=1, rate=0.5)
    folder = model(tmp_path / "model", labels=rt.PublicLabels(["x"]), learner=learner)
    found = audit.audit_model(folder, trials=20)
    assert found.verdict == games.CONSISTENT
    assert "last_layer" in found.notes[0]
    assert [r.game for r in found.results][-1] == "every noisy sum of training"


def test_audit_on_the_command_line(tmp_path):
    folder = model(tmp_path / "model")
    facts = json.loads(reticent("audit", folder, "--trials", 20, "--json").stdout)
    assert (facts["claimed"]["epsilon"], facts["claimed"]["delta"], facts["verdict"]) == (1.0, DELTA, "consistent")
    keys = {"game", "trials", "accuracy", "limit", "epsilon_lower_bound", "verdict"}
    assert len(facts["games"]) == 4
    assert all(keys <= set(game) for game in facts["games"])
    shown = " ".join(reticent("audit", folder, "--trials", 20).stdout.split())
    assert "consistent" in shown
    assert audit.SCOPE in shown
    assert "trials >= 8" in refused(reticent("audit", folder, "--trials", 2))
