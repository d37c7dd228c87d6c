"""What a cost says under each adjacency."""

import math

import pytest

from reticent.budget import Adjacency
from reticent.privacy import accounting, events
from reticent.privacy.accounting.costs import Cost

TRAINING = events.DpSgd(noise_multiplier=2.0, rate=0.1, steps=20)


def test_a_known_bound_lowers_the_cost_under_its_adjacency_alone():
    cost = Cost(1.0, 2.0, True)
    assert cost.at_most(0.5, Adjacency.ADD_OR_REMOVE_ONE) == Cost(0.5, 2.0, True)
    assert cost.at_most(1.5, Adjacency.ADD_OR_REMOVE_ONE) == cost
    assert cost.at_most(0.5, Adjacency.REPLACE_ONE) == Cost(1.0, 0.5, True)
    assert cost.at_most(2.5, Adjacency.REPLACE_ONE) == cost
    assert (cost.under(Adjacency.ADD_OR_REMOVE_ONE), cost.under(Adjacency.REPLACE_ONE)) == (1.0, 2.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_replacing_in_training_is_a_removal_and_an_addition(epsilon):
    once = accounting.delta(TRAINING, epsilon / 2)
    found = accounting.delta(TRAINING, epsilon, adjacency=Adjacency.REPLACE_ONE)
    assert 1e-12 < found == (1 + math.exp(epsilon / 2)) * once < 1


def test_replacing_in_training_without_noise_costs_everything():
    loud = events.DpSgd(noise_multiplier=0.3, rate=0.9, steps=20)
    assert accounting.delta(loud, 0.1, adjacency=Adjacency.REPLACE_ONE) == 1.0
    beside = events.compose(loud, events.Gaussian(noise_multiplier=100.0))
    assert accounting.delta(beside, 0.1, adjacency=Adjacency.REPLACE_ONE) == 1.0


def test_replacing_in_training_beside_a_sum_is_not_the_cost_of_the_sum():
    both = events.compose(events.Gaussian(noise_multiplier=5.0), TRAINING)
    found = accounting.delta(both, 2.0, adjacency=Adjacency.REPLACE_ONE)
    assert found == (1 + math.exp(1.0)) * accounting.delta(both, 1.0)
