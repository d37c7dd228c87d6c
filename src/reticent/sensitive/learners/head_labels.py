"""What a task of the PEFT ensemble costs, and which labels its head has."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.budget import Budget
from reticent.gate import grid, label_sums
from reticent.gate.gate import Permit
from reticent.gate.mechanisms import CountLabels, SelectLabels
from reticent.gate.sparse import ALL_KEPT, SparseGaussian, SparseSums
from reticent.labels import Label, LabelSpace
from reticent.policies import Policy, PublicLabels
from reticent.privacy import accounting, events
from reticent.privacy.events import Event
from reticent.sensitive.learners.learner import refuse_large_part

Ints = npt.NDArray[np.int64]
# From what else a task spends, the budget, rate and steps to a training within it.
Calibrate = Callable[..., events.DpSgd]

# Of the squared noise-to-signal ratio, for counts of huge public label spaces. CLINC150 among 150,000 labels at
# epsilon 1: 0.02 gives 22 %, 0.05 76 %, 0.1 81 %, 0.2 80 %; the size of the head alone loses nothing.
_COUNT_SHARE = 0.1


@dataclass(frozen=True)
class TaskCost:
    """What a task costs, and how its labels become known."""

    event: Event
    training: events.DpSgd
    counts: events.Gaussian | events.LabelCounts | events.LabelSelection | None = None
    remember: bool = True

    def labels(
        self, policy: Policy, found: Sequence[object], known: LabelSpace, permit: Permit
    ) -> tuple[Ints, Ints, LabelSpace]:
        """Returns the head's row of each example (-1 drops it), the head's labels, and the new ones among them."""
        if isinstance(policy, PublicLabels):
            new = LabelSpace(())
            at = policy.rows(found, known)
            rows = np.arange(len(known)) if policy.part is None else np.array([*map(known.row, policy.part.labels)])
            if isinstance(self.counts, events.Gaussian):
                rows = _that_stand_out(at[at >= 0], self.counts, len(known), permit)
        else:
            seen = self._that_stand_out(label_sums.count_by_label(found), known, permit)
            new = LabelSpace(tuple(label for label in seen if label not in known), self.event)
            everything = known.union(new)
            rows = np.array(sorted(everything.row(label) for label in seen), dtype=np.int64)
            at = label_sums.places(found, everything.row)
        head = np.searchsorted(rows, at)
        inside = (head < len(rows)) & (at >= 0)
        inside[inside] = rows[head[inside]] == at[inside]
        return np.where(inside, head, -1), rows, new

    def _that_stand_out(self, counts: dict[Label, int], known: LabelSpace, permit: Permit) -> tuple[Label, ...]:
        """Returns the labels of the head: known ones with examples here, as far as noise tells, and new ones."""
        if isinstance(self.counts, events.LabelCounts):
            return permit.draw(CountLabels(self.counts, known.labels if self.remember else ()), counts)
        if not isinstance(self.counts, events.LabelSelection):
            raise errors.InvalidValue("Expected counts to release labels by.")
        if not self.remember:
            return permit.draw(SelectLabels(self.counts), counts)
        new = {label: n for label, n in counts.items() if label not in known}  # what is known needs no second release
        return (*known.labels, *permit.draw(SelectLabels(self.counts), new))


def task_cost(
    policy: Policy,
    known: LabelSpace,
    budget: Budget,
    *,
    rate: float,
    steps: int,
    calibrate: Calibrate,
    keep_all: bool = False,
) -> TaskCost:
    """Fixes what a task costs, from public facts.

    Args:
        policy: Where labels come from.
        known: The labels that are known before the task.
        budget: Of the whole stream.
        rate: Chance that a step sees an example.
        steps: Number of steps.
        calibrate: From what else is spent to a training within the budget.
        keep_all: Whether a head has a row for every public label, however many; then nothing is counted.
    """
    steps_at = partial(calibrate, rate=rate, steps=steps)
    if isinstance(policy, PublicLabels):
        if policy.part is not None:
            refuse_large_part(policy.part, keep_all=keep_all)
        if keep_all or len(known) <= ALL_KEPT or policy.part is not None:
            training = steps_at(events.Public(), budget)
            return TaskCost(training, training)
        noise = accounting.gaussian_sigma(budget) / math.sqrt(_COUNT_SHARE)
        counts = events.Gaussian(noise_multiplier=noise, examples_per_person=budget.examples_per_person)
        training = steps_at(counts, budget)
        return TaskCost(events.compose(counts, training), training, counts)
    if policy.selection is None:
        labelled = accounting.labelled_training(budget, count_weight=policy.weight(budget), rate=rate, steps=steps)
        return TaskCost(labelled, labelled.training, labelled.counts, policy.remember)
    chosen, rest = policy.selection_and_rest(budget)
    training = steps_at(events.Public(), rest)
    return TaskCost(events.compose(chosen, training), training, chosen, policy.remember)


def _that_stand_out(at: Ints, counts: events.Gaussian, space: int, permit: Permit) -> Ints:
    """Returns the public labels whose noisy counts stand out: a head over millions has rows for these alone."""
    found, sizes = np.unique(at, return_counts=True)
    exact = SparseSums(found, (sizes * grid.SCALE)[:, None])
    kept = permit.draw(SparseGaussian(counts, space, share=min(1.0, 1 / space)), exact)
    return kept.rows[kept.sums[:, 0] > 0]
