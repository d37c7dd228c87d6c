"""What memory buys, before data exists: noise on classes that come back, and when a label becomes known."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtr

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.memory import Memory, first_epoch
from reticent.privacy import accounting, planning, selection
from reticent.privacy.count_weights import default_count_weight
from reticent.privacy.events import Remembered

DEFAULT_SIZES = (1, 2, 5, 10, 20, 50)
LIKELY, SURE = 0.5, 0.99
_TIMES = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200)


@dataclass(frozen=True, kw_only=True)
class Returning:
    """Noise on the sum of a class that comes back so many times, evenly, from the first task on.

    Args:
        times: In how many tasks.
        without_memory: Standard deviation where tasks have independent noise.
        with_memory: Where noise of tasks cancels.
    """

    times: int
    without_memory: float
    with_memory: float


@dataclass(frozen=True, kw_only=True)
class BecomesKnown:
    """When a label with so many examples in every task becomes known; None where that takes longer than the stream.

    Args:
        size: Examples in each task.
        without_memory_50: After how many tasks with probability 0.5 or more, where each task decides by itself.
        without_memory_99: With probability 0.99 or more.
        with_memory_50: The same where labels gather evidence over tasks; bounds, it may be known sooner.
        with_memory_99: With probability 0.99 or more.
    """

    size: int
    without_memory_50: int | None
    without_memory_99: int | None
    with_memory_50: int | None
    with_memory_99: int | None


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """What memory means for a budget; the key "memory" of `reticent plan --memory --json`.

    Args:
        a: The exponent of correlated noise.
        why: The reason for it.
        horizon: How many tasks an epoch has at most.
        tasks: How many tasks are planned.
        sigma: The noise multiplier of the epoch, without labels.
        noise: Standard deviation of every row: sigma times what one person moves in all rows together.
        classes: Noise on classes that come back.
        labels: When labels become known; empty where persons are in several tasks, or have several examples.
    """

    a: float
    why: str
    horizon: int
    tasks: int
    sigma: float
    noise: float
    classes: tuple[Returning, ...]
    labels: tuple[BecomesKnown, ...]

    def json(self) -> dict[str, Any]:
        """Returns the plan as plain JSON values."""
        return dataclasses.asdict(self)


def memory_plan(
    budget: Budget, memory: Memory, *, tasks: int, class_sizes: Sequence[int] = (), count_weight: float | None = None
) -> MemoryPlan:
    """Plans a stream with memory beside the same stream without, from public facts alone.

    Args:
        budget: What one person may lose over the stream.
        memory: Horizon, and whether labels come back.
        tasks: Length of the stream.
        class_sizes: Examples of a label in every task: public guesses, never counted in the data.
        count_weight: c^2 of labels that are released; by default that of `count_weights`, with memory and without.

    Example:
        >>> plan = memory_plan(Budget(epsilon=1.0, delta=1e-5), Memory(vault="vault/"), tasks=60)
        >>> last = plan.classes[-1]
        >>> last.times, round(last.without_memory, 1), round(last.with_memory, 1)
        (60, 28.9, 12.4)
    """
    if errors.whole("tasks", tasks, at_least=1) > memory.horizon:
        raise errors.InvalidValue(f"Expected a horizon of at least {tasks} tasks, got {memory.horizon}: --horizon.")
    epoch = first_epoch(memory, budget)
    event = accounting.remembered(budget, epoch=1, eighths=epoch.eighths, horizon=epoch.horizon)
    alone = accounting.gaussian_sigma(budget)
    times = sorted({t for t in _TIMES if t < tasks} | {tasks})
    gathers = budget.tasks_per_person == budget.examples_per_person == 1
    gathers &= budget.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    sizes = [errors.whole("class size", size, at_least=1) for size in class_sizes or DEFAULT_SIZES]
    return MemoryPlan(
        a=epoch.eighths / 8,
        why=epoch.why(budget.tasks_per_person),
        horizon=epoch.horizon,
        tasks=tasks,
        sigma=event.noise_multiplier,
        noise=event.noise,
        classes=tuple(
            Returning(times=t, without_memory=alone * math.sqrt(t), with_memory=noise_on_sum(event, t)) for t in times
        ),
        labels=_labels(budget, event, tasks, sizes, count_weight) if gathers else (),
    )


def noise_on_sum(event: Remembered, times: int) -> float:
    """Returns the deviation of the best unbiased estimate of a sum that is spread evenly over the first tasks.

    Row t has the mean (C 1)_t times a task's share and the noise of every row, so that the rows tell |C 1|^2 / noise^2
    of the share.
    """
    told = math.sqrt(event.correlation.information(times) * times) * event.correlation.gamma()
    return times * event.noise / told


def _labels(
    budget: Budget, event: Remembered, tasks: int, sizes: Sequence[int], count_weight: float | None
) -> tuple[BecomesKnown, ...]:
    alone, gathered_weight = (
        default_count_weight(budget, horizon=horizon) if count_weight is None else count_weight
        for horizon in (None, event.horizon)
    )
    law = selection.law(planning.joint_gaussian(budget, alone))
    gathering = accounting.remembered(
        budget, epoch=1, eighths=event.eighths, horizon=event.horizon, count_weight=gathered_weight
    )
    found = []
    for size in sizes:
        each = float(law.release_probability(size))
        missed = [math.exp(t * math.log1p(-min(each, 1 - 1e-16))) for t in range(1, tasks + 1)]
        gathered = [known_by(gathering, size, t) for t in range(1, tasks + 1)]
        found.append(
            BecomesKnown(
                size=size,
                without_memory_50=_first([1 - chance for chance in missed], LIKELY),
                without_memory_99=_first([1 - chance for chance in missed], SURE),
                with_memory_50=_first(gathered, LIKELY),
                with_memory_99=_first(gathered, SURE),
            )
        )
    return tuple(found)


def known_by(event: Remembered, size: int, place: int) -> float:
    """Returns the least probability that a label with so many examples in every task is known after this place.

    That of the better one of the two looks that are taken there; looks of places before can only add to it.

    Guarantees: simulated streams are known at least as often.      test_labels_become_known_as_planned
    """
    count, matrix = math.sqrt(event.count_weight), event.correlation
    chances = []
    for look, examples in ((matrix.inverse_prefix(place), size * place), (matrix.inverse_row(place), size)):
        deviation = event.noise * look.deviation
        chances.append(float(ndtr((examples - 1) * count / deviation - event.deviations)))
    return max(chances)


def _first(chances: Sequence[float], wanted: float) -> int | None:
    return next((t for t, chance in enumerate(chances, start=1) if chance >= wanted), None)
