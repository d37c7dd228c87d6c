"""Broken twins: real learners, mechanisms and encoders with one mistake each, planted where such mistakes are made."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import reticent as rt
from reticent.encoders import wrap
from reticent.encoders.encoder import Encoder
from reticent.gate.gate import Gate
from reticent.gate.mechanisms import SelectLabels
from reticent.lab.attack import whole_games
from reticent.lab.attack.replay import Silent
from reticent.labels import LabelSpace
from reticent.numerics.rows import unit_rows
from reticent.privacy import events, selection
from reticent.released.release import Release

Floats = npt.NDArray[np.float64]


def publishing(others: dict[str, Any], change: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """A gate that is paid and drawn from as it should be; what is published is changed before the permit signs it."""

    class Changed(Gate):
        def spend(self, event: events.Event, *, task: str, private: bool = True) -> Any:
            permit = super().spend(event, task=task, private=private)
            release = permit.release
            permit.release = lambda **kept: release(**change(**kept))  # type: ignore[method-assign]
            return permit

    gate = others["gate"]
    twin = Changed(gate._ledger, gate._noise)
    twin._permits, twin._admitted = gate._permits, gate._admitted  # what the twin makes is found there
    return {**others, "gate": twin}


@dataclass(frozen=True)
class Sound:
    """Cosine, in which each twin changes one thing."""

    inner: rt.Cosine = field(default_factory=rt.Cosine)

    @property
    def rule(self) -> Any:
        return self.inner.rule

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        return self.inner.learn_task(task, policy, **others)

    def exact(self, task: Any, policy: Any, others: dict[str, Any]) -> Floats:
        """What the sums would be without noise."""
        budget, known = others["gate"].budget, others["known"]
        silent = whole_games.learned(
            self.inner, policy, budget, task, known=known, noise=Silent(), encoder=others["encoder"]
        )
        sums: Floats = silent.parameters["sums"].astype(np.float64)
        return sums

    def with_sums(self, task: Any, policy: Any, others: dict[str, Any], change: Callable[[Floats], Any]) -> Release:
        """Publishes other sums than were drawn; whatever the shape, for a draw of the same labels."""

        def changed(**kept: Any) -> dict[str, Any]:
            sums = np.asarray(change(kept["parameters"]["sums"].astype(np.float64)), dtype=np.float32)
            return {**kept, "parameters": {**kept["parameters"], "sums": sums}}

        return self.inner.learn_task(task, policy, **publishing(others, changed))


@dataclass(frozen=True)
class NoNoise(Sound):
    """Draws noise, and publishes the sums without it."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        exact = self.exact(task, policy, others)
        return self.with_sums(task, policy, others, lambda sums: exact)


@dataclass(frozen=True)
class HalfNoise(Sound):
    """Publishes half of the noise that was paid for."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        exact = self.exact(task, policy, others)
        return self.with_sums(task, policy, others, lambda sums: (sums + exact) / 2)


@dataclass(frozen=True)
class NoClip(Sound):
    """Adds up features of any length."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        seen = others["gate"].admit(task)
        inputs = np.nan_to_num(np.asarray(seen.inputs, dtype=np.float64), posinf=0, neginf=0)
        beyond = inputs - unit_rows(inputs)
        rows = policy.rows(seen.labels, others["known"])
        more = np.zeros((len(others["known"]), inputs.shape[1]))
        np.add.at(more, rows[rows >= 0], np.nan_to_num(beyond[rows >= 0]))
        return self.with_sums(task, policy, others, lambda sums: sums + more[: len(sums)])


@dataclass(frozen=True)
class TwoBlocks(Sound):
    """Adds every example to a second label too: the sensitivity is the square root of two."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        exact = self.exact(task, policy, others)
        return self.with_sums(task, policy, others, lambda sums: sums + np.roll(exact, 1, axis=0))


_KEPT: dict[tuple[int, ...], Floats] = {}


@dataclass(frozen=True)
class OldNoise(Sound):
    """Keeps the noise of its first task, and uses it in all others."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        exact = self.exact(task, policy, others)
        return self.with_sums(task, policy, others, lambda sums: exact + _KEPT.setdefault(sums.shape, sums - exact))


@dataclass(frozen=True)
class LabelsFromData(Sound):
    """Publishes every label that it has seen."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        task, known = others["gate"].admit(task), others["known"]
        new = LabelSpace(tuple(sorted({label for label in task.labels if isinstance(label, str)} - set(known.labels))))
        rows = np.arange(len(known) + len(new), dtype=np.int32)

        def changed(**kept: Any) -> dict[str, Any]:
            width = kept["parameters"]["sums"].shape[1]
            arrays = {"rows": rows, "sums": np.zeros((len(rows), width), np.float32)}
            return {"labels": new, "parameters": {**arrays, "noise": np.ones(len(rows), np.float32)}}

        return self.inner.learn_task(task, policy, **publishing(others, changed))


@dataclass(frozen=True)
class ByN(Sound):
    """Divides the noisy sums by the number of examples."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        n = max(1, len(others["gate"].admit(task).labels))
        return self.with_sums(task, policy, others, lambda sums: sums / n)


@dataclass(frozen=True)
class ExactCount(Sound):
    """Publishes how many examples the task has, beside the noise of its sums: another array would be refused."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        n = len(others["gate"].admit(task).labels)

        def changed(**kept: Any) -> dict[str, Any]:
            noise = kept["parameters"]["noise"] + np.float32(n)
            return {**kept, "parameters": {**kept["parameters"], "noise": noise}}

        return self.inner.learn_task(task, policy, **publishing(others, changed))


@dataclass(frozen=True, kw_only=True)
class WholeDelta(rt.ReleasedLabels):
    """Gives the whole delta to the labels, and the whole delta to the sums."""

    def selection_and_sums(self, budget: rt.Budget) -> tuple[events.LabelSelection, events.Gaussian]:
        chosen, _ = super().selection_and_sums(budget)
        rest = replace(budget, epsilon=budget.epsilon - chosen.epsilon)
        return replace(chosen, delta=budget.delta), rt.PublicLabels(["x"]).sums(rest)


@dataclass(frozen=True)
class Unpaid(Sound):
    """Draws by a gate of its own, and pays nothing to the one that counts."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        return whole_games.learned(self.inner, policy, others["gate"].budget, task, known=others["known"])


@dataclass(frozen=True)
class PaysLate(Sound):
    """Draws its noise, then pays for it."""

    def learn_task(self, task: Any, policy: Any, **others: Any) -> Release:
        gate = others["gate"]
        exact = self.exact(task, policy, others)
        sigma = policy.sums(gate.budget).noise_multiplier
        early = gate._noise.rounded_gaussian(sigma * 2.0**20, exact.shape) / 2**20
        return self.with_sums(task, policy, others, lambda sums: exact + early)


class Centred(Encoder):
    """Takes the mean of the batch off every row, where an encoder would get one row at a time."""

    def __call__(self, inputs: Any) -> npt.NDArray[np.float32]:
        values = super().__call__(inputs)
        return values - values.mean(axis=0) if len(values) else values


def mixing_encoder(width: int) -> Encoder:
    """Returns features as they are, but for the mean of the batch."""
    plain = wrap(lambda rows: np.asarray(rows), width=width, name="centred")
    return Centred(**{one.name: getattr(plain, one.name) for one in fields(plain) if one.init})


@dataclass(frozen=True)
class OffByOne:
    """A law that treats a class as if it had one example more."""

    inner: selection.CountLaw

    @property
    def event(self) -> Any:
        return self.inner.event

    @property
    def threshold(self) -> float:
        return self.inner.threshold - 1

    def coin(self, size: int) -> int:
        return self.inner.coin(size + 1) if size else 0

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        n = np.asarray(sizes)
        return np.where(n > 0, self.inner.release_probability(n + 1), 0.0)


@dataclass(frozen=True)
class LowThreshold(SelectLabels):
    """Releases a label one example too early."""

    @property
    def law(self) -> Any:
        return OffByOne(selection.law(self.event))
