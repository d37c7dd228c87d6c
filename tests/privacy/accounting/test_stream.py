import pytest

from reticent import Budget
from reticent.privacy import accounting, events, planning
from tests.privacy.accounting.cases import LABELS, one_gaussian


def test_parallel_composition_is_the_worst_task():
    tasks = [one_gaussian(4.0), one_gaussian(5.0), one_gaussian(4.5)] * 4
    assert accounting.stream_cost(tasks, 1e-5, 1).epsilon == accounting.epsilon(one_gaussian(4.0), 1e-5)
    assert accounting.stream_delta(tasks, 1.0, 1) == accounting.delta(one_gaussian(4.0), 1.0)


def test_order_n_takes_the_n_noisiest_gaussians():
    tasks = [one_gaussian(s) for s in (9.0, 4.0, 7.0, 5.0)]
    expected = accounting.epsilon(events.compose(one_gaussian(4.0), one_gaussian(5.0)), 1e-5)
    assert accounting.stream_cost(tasks, 1e-5, 2).epsilon == pytest.approx(expected)
    assert accounting.stream_cost(tasks, 1e-5, 9).epsilon == pytest.approx(
        accounting.epsilon(events.compose(*tasks), 1e-5)
    )


def test_nobody_in_no_task_loses_anything():
    assert list(accounting.worst_cases([], 3)) == []
    assert accounting.stream_cost([], 1e-5, 3) == accounting.Cost(0.0, 0.0, True)


def test_streams_of_many_gaussian_kinds_are_exact():
    """THEORY section 1: the n largest 1/sigma^2 and the n largest exposures; several spends in a task add up."""
    tasks = [events.compose(one_gaussian(4.0 + i / 100), one_gaussian(9.0)) for i in range(60)]
    exact = accounting.epsilon(events.compose(*tasks[:6]), 1e-5)
    assert accounting.stream_cost(tasks, 1e-5, 6).epsilon == pytest.approx(exact, rel=1e-9)
    assert accounting.stream_cost(tasks, 1e-5, 1).epsilon == accounting.epsilon(tasks[0], 1e-5)
    joints = [planning.joint_gaussian(Budget(epsilon=1.0, delta=1e-6), 0.01 + i / 100) for i in range(30)]
    exact = accounting.epsilon(events.compose(*joints[:6]), 1e-5)
    assert accounting.stream_cost(joints, 1e-5, 6).epsilon == pytest.approx(exact, rel=1e-6)


def test_streams_of_many_kinds_are_bounded_from_above():
    mixed = [events.compose(LABELS, one_gaussian(4.0 + i / 100)) for i in range(60)]
    exact = accounting.epsilon(events.compose(*mixed[:6]), 1e-4)
    assert exact <= accounting.stream_cost(mixed, 1e-4, 6).epsilon <= exact * 1.05
    trained = [events.DpSgd(noise_multiplier=8.0 + i, rate=0.1 - i / 100, steps=400 - i) for i in range(4)]
    bound = accounting.stream_cost(trained, 1e-5, 3).epsilon
    assert accounting.epsilon(events.compose(*trained[:3]), 1e-5) <= bound
    assert bound <= accounting.epsilon(accounting.repeat(trained[0], 3), 1e-5) * (1 + 1e-9)


def test_streams_of_labelled_training_are_bounded_from_above():
    kinds: list[events.Event] = [
        events.LabelledTraining(
            counts=events.LabelCounts(noise_multiplier=12.0 + i, threshold=5 * (12.0 + i)),
            training=events.DpSgd(noise_multiplier=8.0 + i, rate=0.1, steps=100),
        )
        for i in range(4)
    ]
    exact = accounting.epsilon(events.compose(*kinds[:3]), 1e-4)
    bound = accounting.stream_cost(kinds, 1e-4, 3).epsilon
    assert exact <= bound <= accounting.epsilon(accounting.repeat(kinds[0], 3), 1e-4) * 1.01
    assert accounting.stream_cost(kinds, 1e-4, 1).epsilon == accounting.epsilon(kinds[0], 1e-4)
    counted = [kind.counts for kind in kinds if isinstance(kind, events.LabelledTraining)]
    exact = accounting.epsilon(events.compose(*counted[:2]), 1e-4)
    assert accounting.stream_cost(counted, 1e-4, 2).epsilon >= exact * (1 - 1e-9)


def test_streams_with_tuning_are_bounded_from_above():
    tasks: list[events.Event] = [accounting.private_selection(one_gaussian(4.0), mean_runs=mean) for mean in (5, 10)]
    tasks += [events.Gaussian(noise_multiplier=4.0 + i) for i in range(5)]
    exact = accounting.epsilon(events.compose(*tasks[:2]), 1e-5)
    assert accounting.stream_cost(tasks, 1e-5, 2).epsilon >= exact
