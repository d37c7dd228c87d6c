"""What a cost says under each adjacency."""

from reticent.budget import Adjacency
from reticent.privacy.accounting.costs import Cost


def test_a_known_bound_lowers_the_cost_under_its_adjacency_alone():
    cost = Cost(1.0, 2.0, True)
    assert cost.at_most(0.5, Adjacency.ADD_OR_REMOVE_ONE) == Cost(0.5, 2.0, True)
    assert cost.at_most(1.5, Adjacency.ADD_OR_REMOVE_ONE) == cost
    assert cost.at_most(0.5, Adjacency.REPLACE_ONE) == Cost(1.0, 0.5, True)
    assert cost.at_most(2.5, Adjacency.REPLACE_ONE) == cost
    assert (cost.under(Adjacency.ADD_OR_REMOVE_ONE), cost.under(Adjacency.REPLACE_ONE)) == (1.0, 2.0)
