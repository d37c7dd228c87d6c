"""The names for code of one's own: all there, and enough for a mechanism, a learner and an encoder."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from reticent import extend
from reticent.extend import Budget, Gate, Ledger, NoiseSource, PublicLabels, Sums, Task, check_learner, errors, events


def test_every_name_is_there():
    assert sorted(extend.__all__) == sorted(set(extend.__all__))
    assert [name for name in extend.__all__ if getattr(extend, name, None) is None] == []


@dataclass(frozen=True)
class NoisyMaximum:
    """A mechanism of one's own: the largest of some bounded sums, after noise on all of them."""

    event: events.Gaussian

    def __call__(self, value: np.ndarray, *, rng: NoiseSource) -> int:
        noise = rng.rounded_gaussian(self.event.noise_multiplier * extend.SCALE, value.shape)
        return int(np.argmax(value + noise))


def test_a_mechanism_of_ones_own_is_drawn_by_a_permit():
    gate = Gate(Ledger.create(None, Budget(epsilon=1.0, delta=1e-5)))
    event = events.Gaussian(noise_multiplier=4.0)
    permit = gate.spend(event, task="march")
    sums = np.array([0, 500 * extend.SCALE, 0])
    assert permit.draw(NoisyMaximum(event), sums) == 1
    with pytest.raises(errors.NotPaidFor):
        permit.draw(NoisyMaximum(event), sums)


@dataclass(frozen=True)
class OneSum:
    """The smallest learner: noisy sums of public labels."""

    rule: Sums = Sums()  # noqa: RUF009 (a frozen value)

    def learn_task(self, task: Task, policy: Any, *, known: Any, encoder: Any, gate: Gate, past: Any = ()) -> Any:
        if not isinstance(policy, PublicLabels):
            raise errors.InvalidValue("Expected PublicLabels.")
        task = gate.admit(task)
        event = policy.sums(gate.budget)
        permit = gate.spend(event, task=task.name)
        labels = [policy.resolve(label, known) for label in task.labels]
        features = extend.encoded(task.inputs, encoder, past)
        exact = extend.sum_by_label(features, labels, known=known, count_weight=0.0)
        noisy = permit.draw(extend.GaussianSum(event), exact.known) / extend.SCALE
        noise = np.full(len(known), event.noise_multiplier, np.float32)
        rows = np.arange(len(known), dtype=np.int32)
        return permit.release(parameters={"rows": rows, "sums": noisy.astype(np.float32), "noise": noise})


def test_a_learner_of_ones_own_passes():
    check_learner(OneSum(), policies=[PublicLabels(["a", "b", "c"])])
    words = extend.wrap(lambda texts: np.array([[len(text), 1.0] for text in texts]), width=2, name="lengths")
    gate = Gate(Ledger.create(None, Budget(epsilon=1.0, delta=1e-5)))
    policy = PublicLabels(["a"])
    task = Task(["one", "two"], ["a", "a"], name="march")
    release = OneSum().learn_task(task, policy, known=policy.space, encoder=words, gate=gate)
    assert release.parameters["sums"].shape == (1, 2)
