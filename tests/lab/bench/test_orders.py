"""Every order of a stream's tasks: from one training, as many trainings in other orders show it."""

import itertools

import numpy as np
import pytest

import reticent as rt
from reticent.lab.baselines.oracles import experiment
from reticent.lab.bench import catalogue
from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.one_run import result_of
from reticent.lab.bench.orders import in_every_order, order_of
from reticent.lab.data.datasets import Data
from reticent.lab.evaluation import AccuracyMatrix
from tests.lab.tiny import Given, a_run

TASKS = 3


def data(each: int = 30, unseen: int = 20) -> Data:
    """Three tasks of two labels each, which overlap, so that what is learned later changes answers."""
    draw = np.random.default_rng(3)
    centres = draw.normal(size=(2 * TASKS, 8))

    def part(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat(np.arange(2 * TASKS), n)
        return (centres[y] + draw.normal(0, 1.5, size=(len(y), 8))).astype(np.float32), np.array([f"c{i}" for i in y])

    home = {f"c{i}": i // 2 for i in range(2 * TASKS)}
    return Data("mine", *part(each), *part(unseen), home=home, tuned_on=(2, 0.5))


@pytest.mark.parametrize("tasks", [1, 3, 5])
def test_as_many_seeds_as_orders_give_each_once(tasks):
    orders = {tuple(order_of(seed, tasks)) for seed in range(len(list(itertools.permutations(range(tasks)))))}
    assert orders == set(itertools.permutations(range(tasks)))


def test_many_tasks_have_an_order_of_their_own_for_each_seed():
    assert len({tuple(order_of(seed, 12)) for seed in range(20)}) == 20
    assert all(sorted(order_of(seed, 12)) == list(range(12)) for seed in range(20))


def test_one_training_shows_what_training_in_every_order_shows(tmp_path):
    given = data()
    run = a_run(data="mine", learner="cosine-paper", tasks=TASKS, epsilon=None)  # no noise: one right answer
    found = result_of(run, Given(tmp_path, tmp_path, given))
    matrices = []
    for seed in range(6):
        order = order_of(seed, TASKS)
        model = experiment(
            catalogue.learner_of(run, 60, lambda peft: peft),
            rt.PublicLabels(sorted(given.home or {})),
            budget=run.budget,
        )
        values = np.full((TASKS, TASKS), np.nan)
        homes = np.array([order[(given.home or {})[label]] for label in given.labels.tolist()])
        tests = np.array([order[(given.home or {})[label]] for label in given.unseen_labels.tolist()])
        for t in range(TASKS):
            model.learn_task(given.inputs[homes == t], given.labels[homes == t].tolist(), name=f"{t}")
            right = model.predict(given.unseen_inputs) == given.unseen_labels
            values[t, : t + 1] = [right[tests == i].mean() for i in range(t + 1)]
        matrices.append(AccuracyMatrix(values))
    assert len({matrix.forgetting for matrix in matrices}) > 1  # the order matters
    assert found["orders"]["number"] == 6
    assert sorted(found["orders"]["forgetting"]) == pytest.approx(sorted(matrix.forgetting for matrix in matrices))
    assert found["forgetting"] == pytest.approx(np.mean([matrix.forgetting for matrix in matrices]))
    assert found["curve"] == pytest.approx(np.mean([matrix.after_each_task for matrix in matrices], axis=0).tolist())
    assert found["accuracy"] == pytest.approx(matrices[0].average_accuracy)


def test_heads_of_one_training_show_every_order(tmp_path):
    found = result_of(
        a_run(data="mine", learner="peft-paper", tasks=TASKS, epsilon=8.0), Given(tmp_path, tmp_path, data())
    )
    assert found["orders"]["number"] == 6
    assert found["curve"][-1] == pytest.approx(found["accuracy"])
    assert len(set(found["orders"]["forgetting"])) > 1


@pytest.mark.parametrize("learner", ["cosine", "naive"])
def test_what_depends_on_earlier_tasks_has_one_order(tmp_path, learner):
    found = result_of(a_run(data="mine", learner=learner, tasks=TASKS), Given(tmp_path, tmp_path, data()))
    assert "orders" not in found


def test_an_order_forgets_what_its_sets_of_tasks_say():
    accuracy = {(0,): [1.0], (1,): [0.5], (0, 1): [0.6, 0.5]}
    found = in_every_order(2, lambda some: np.array(accuracy[some]))
    assert sorted(found["orders"]["forgetting"]) == pytest.approx([0.0, 0.4])


@pytest.mark.parametrize("seed", range(3))
def test_settings_are_tuned_where_the_data_says(seed):
    given = data()
    stream = Assigned(a_run(data="mine", tasks=TASKS, seed=seed), given, given.labels)
    rows = stream.to_tune(np.arange(len(given.labels)))
    assert len(rows) == 30
    assert set(given.labels[rows]) == {"c4", "c5"}


def test_all_data_at_once_is_tuned_like_one_task():
    labels = np.repeat([f"c{i:02d}" for i in range(20)], 5)
    given = Data("other", np.zeros((100, 2)), labels, np.zeros((0, 2)), labels[:0])
    whole, ten = (Assigned(a_run(data="other", tasks=tasks), given, labels) for tasks in (1, 10))
    rows = whole.to_tune(np.arange(100))
    assert len(set(labels[rows])) == 2
    assert rows.tolist() == ten.to_tune(np.arange(100)).tolist()
