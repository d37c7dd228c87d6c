import dataclasses
import math

import pytest

from reticent import Adjacency, Budget, errors, plan
from reticent.privacy import accounting, events, mechanism_names, planning, selection
from reticent.privacy.count_weights import default_count_weight

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def test_joint_release_of_500_costs_next_to_nothing():
    chosen = plan(BUDGET, class_sizes=[500])
    assert chosen.sigma is not None
    assert 3.7306 < chosen.sigma <= 1.003 * 3.7306
    assert chosen.classes[0].release_probability >= 0.999
    less = plan(BUDGET, class_sizes=[500], count_weight=(chosen.count_weight or 0) * 0.98)
    assert less.classes[0].release_probability < 0.999  # it was the smallest


def test_every_mechanism_has_a_name_that_help_can_list():
    assert (planning.JOINT_GAUSSIAN, *planning.BY_SHARE) == planning.MECHANISMS
    named = (mechanism_names.OPTIMAL, mechanism_names.TRUNCATED_GEOMETRIC, mechanism_names.LAPLACE)
    assert named == ("optimal", "truncated-geometric", "laplace")
    assert ("joint-gaussian", *named) == planning.MECHANISMS


@pytest.mark.parametrize("mechanism", planning.MECHANISMS)
def test_plan_keys_are_the_contract(mechanism):
    facts = plan(BUDGET, mechanism=mechanism, class_sizes=[100, 500]).json()
    assert list(facts) == [
        "mechanism",
        "epsilon",
        "delta",
        "epsilon_labels",
        "delta_labels",
        "threshold",
        "count_weight",
        "default_count_weight",
        "expected_accuracy",
        "sigma",
        "sigma_without_labels",
        "smallest_class_50",
        "smallest_class_99",
        "classes",
    ]
    assert [list(c) for c in facts["classes"]] == [["size", "release_probability", "upper_bound"]] * 2
    joint = mechanism == "joint-gaussian"
    assert (facts["epsilon_labels"] is None) == joint
    assert (facts["count_weight"] is None) == (facts["expected_accuracy"] is None) != joint


@pytest.mark.parametrize("mechanism", list(planning.BY_SHARE))
def test_shares(mechanism):
    chosen = plan(BUDGET, mechanism=mechanism, share=0.2, class_sizes=[100])
    assert chosen.epsilon_labels == pytest.approx(0.2)
    assert chosen.delta_labels == pytest.approx(2e-6)
    rest = accounting.gaussian_sigma(Budget(epsilon=0.8, delta=8e-6))
    assert chosen.sigma == pytest.approx(rest)
    assert plan(BUDGET, mechanism=mechanism, share=1.0).sigma is None
    auto = plan(BUDGET, mechanism=mechanism, share="auto", class_sizes=[500, 900])
    assert 0.999 <= auto.classes[0].release_probability < 0.9995
    hopeless = plan(BUDGET, mechanism=mechanism, share="auto", class_sizes=[3])
    assert hopeless.epsilon_labels == pytest.approx(planning.DEFAULT_SHARE)


def test_small_classes_fall_back_to_the_default_weight():
    chosen = plan(BUDGET, class_sizes=[5])
    assert chosen.count_weight == default_count_weight(BUDGET)
    assert chosen.classes[0].upper_bound == pytest.approx(1e-5 * math.expm1(5) / math.expm1(1))


@pytest.mark.parametrize("mechanism", list(planning.BY_SHARE))
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_shared_plans_stay_within_the_budget(mechanism, n, m, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n, examples_per_person=m, adjacency=adjacency)
    labels = planning.labels_by_share(budget, planning.BY_SHARE[mechanism], 0.3)
    assert labels.examples_per_person == m
    assert accounting.within(labels, dataclasses.replace(budget, epsilon=0.3, delta=3e-6))
    everything = planning.labels_by_share(budget, planning.BY_SHARE[mechanism], 1.0)
    assert accounting.within(everything, budget)
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        sigma = plan(budget, mechanism=mechanism, share=0.3).sigma
        assert sigma is not None
        whole = events.compose(labels, events.Gaussian(noise_multiplier=sigma, examples_per_person=m))
        assert accounting.within(whole, budget)


def test_smallest_classes():
    chosen = plan(BUDGET)
    law = selection.law(planning.joint_gaussian(BUDGET, default_count_weight(BUDGET)))
    assert (
        law.release_probability(chosen.smallest_class_50) >= 0.5 > law.release_probability(chosen.smallest_class_50 - 1)
    )
    assert chosen.smallest_class_99 > chosen.smallest_class_50
    assert [c.size for c in chosen.classes] == list(planning.DEFAULT_SIZES)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"class_sizes": [0]}, "class size >= 1"),
        ({"class_sizes": [-5]}, "class size >= 1"),
        ({"class_sizes": [2.5]}, "whole number"),
        ({"mechanism": "magic"}, "Expected a mechanism out of"),
        ({"mechanism": "optimal", "share": 0.0}, "share > 0"),
        ({"mechanism": "optimal", "share": 1.5}, "share"),
        ({"mechanism": "optimal", "share": math.nan}, "share"),
        ({"mechanism": "optimal", "share": "auto"}, "class size with share auto"),
        ({"count_weight": 0.0}, "count_weight >= 1e-09"),
        ({"count_weight": 1.0}, "count_weight < 1"),
    ],
)
def test_bad_plans_are_refused(settings, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        plan(BUDGET, **settings)


@pytest.mark.parametrize("mechanism", planning.MECHANISMS)
def test_delta_zero_is_refused_with_the_reason(mechanism):
    with pytest.raises(errors.InvalidValue, match="public superset"):
        plan(Budget(epsilon=1.0, delta=0.0), mechanism=mechanism)
    with pytest.raises(errors.InvalidValue, match="public superset"):
        planning.joint_gaussian(Budget(epsilon=1.0, delta=0.0), 0.1)
