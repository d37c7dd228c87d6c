"""Plans of memory against a computation by hand: each number, and where a label becomes known."""

import math
from statistics import NormalDist

import pytest

import reticent as rt
from reticent import errors
from reticent.privacy import accounting, memory_plan, planning, selection
from reticent.privacy.count_weights import default_count_weight

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
MEMORY = rt.Memory(vault="vault/", horizon=12, recurring=True)
SIZES = [*range(1, 70, 3), 80, 100, 10_000]


def first(chances: list[float], wanted: float) -> int | None:
    return min((t for t, chance in enumerate(chances, start=1) if chance >= wanted), default=None)


@pytest.mark.parametrize("weight", [None, 0.3])
@pytest.mark.parametrize("tasks", [1, 12])
def test_labels_are_planned_as_by_hand(weight, tasks):
    plan = memory_plan.memory_plan(BUDGET, MEMORY, tasks=tasks, class_sizes=SIZES, count_weight=weight)
    alone = default_count_weight(BUDGET) if weight is None else weight
    together = default_count_weight(BUDGET, horizon=12) if weight is None else weight
    law = selection.law(planning.joint_gaussian(BUDGET, alone))
    event = accounting.remembered(BUDGET, epoch=1, eighths=3, horizon=12, count_weight=together)
    for size, row in zip(SIZES, plan.labels, strict=True):
        missed = 1 - float(law.release_probability(size))
        each = [1 - missed**t for t in range(1, tasks + 1)]
        gathered = [memory_plan.known_by(event, size, t) for t in range(1, tasks + 1)]
        assert row == memory_plan.BecomesKnown(
            size=size,
            without_memory_50=first(each, 0.5),
            without_memory_99=first(each, 0.99),
            with_memory_50=first(gathered, 0.5),
            with_memory_99=first(gathered, 0.99),
        )


@pytest.mark.parametrize(("size", "place"), [(1, 1), (3, 5), (20, 1), (20, 12)])
def test_chances_to_be_known_are_those_of_the_better_look(size, place):
    event = accounting.remembered(BUDGET, epoch=1, eighths=3, horizon=12, count_weight=0.2)
    by_hand = []
    for look, examples in (
        (event.correlation.inverse_prefix(place), size * place),
        (event.correlation.inverse_row(place), size),
    ):
        deviation = event.noise * math.sqrt(sum(w * w for w in look.weights)) / 2**20
        by_hand.append(NormalDist().cdf((examples - 1) * math.sqrt(0.2) / deviation - event.deviations))
    assert memory_plan.known_by(event, size, place) == pytest.approx(max(by_hand), rel=1e-9)


def test_a_plan_says_what_the_epoch_has():
    plan = memory_plan.memory_plan(BUDGET, MEMORY, tasks=7)
    event = accounting.remembered(BUDGET, epoch=1, eighths=3, horizon=12)
    assert (plan.a, plan.horizon, plan.tasks) == (3 / 8, 12, 7)
    assert (plan.sigma, plan.noise) == (event.noise_multiplier, event.noise)
    assert plan.why.startswith("a = 3/8, because a person is in one task and labels come back by public knowledge")
    assert [row.times for row in plan.classes] == [1, 3, 6, 7]
    assert [row.size for row in plan.labels] == [1, 2, 5, 10, 20, 50]


def test_a_plan_is_plain_values():
    plan = memory_plan.memory_plan(BUDGET, MEMORY, tasks=1, class_sizes=[5])
    (row,) = plan.classes
    assert plan.json() == {
        "a": 0.375,
        "why": plan.why,
        "horizon": 12,
        "tasks": 1,
        "sigma": plan.sigma,
        "noise": plan.noise,
        "classes": ({"times": 1, "without_memory": row.without_memory, "with_memory": row.with_memory},),
        "labels": (
            {
                "size": 5,
                "without_memory_50": None,
                "without_memory_99": None,
                "with_memory_50": None,
                "with_memory_99": None,
            },
        ),
    }


def test_plans_of_nothing_are_refused():
    with pytest.raises(errors.InvalidValue, match="Expected tasks >= 1"):
        memory_plan.memory_plan(BUDGET, MEMORY, tasks=0)
    with pytest.raises(errors.InvalidValue, match="Expected class size >= 1"):
        memory_plan.memory_plan(BUDGET, MEMORY, tasks=3, class_sizes=[0])
    with pytest.raises(errors.InvalidValue, match="delta = 0"):
        memory_plan.memory_plan(rt.Budget(epsilon=1.0, delta=0.0), MEMORY, tasks=3)


def test_a_chance_that_is_just_enough_is_enough():
    assert memory_plan._first([0.4, 0.5, 0.6], 0.5) == 2
    assert memory_plan._first([0.4], 0.5) is None


def test_plans_show_round_numbers_of_tasks():
    several = rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2)
    plan = memory_plan.memory_plan(several, rt.Memory(vault="vault/", horizon=1_200), tasks=1_200)
    assert [row.times for row in plan.classes] == [1, 3, 6, 12, 24, 60, 120, 240, 600, 1_200]
    assert plan.labels == ()
