"""Continual learning that keeps its labels to itself.

Classifiers trained on a stream of sensitive tasks with differential privacy, whose label set does not leak either.
"""

from importlib.metadata import version

from reticent.budget import Adjacency, Budget
from reticent.errors import BudgetExceeded, LedgerError, ReticentError
from reticent.labels import UNKNOWN, LabelSpace
from reticent.planning import Plan, plan

__version__ = version("reticent")
__all__ = [
    "UNKNOWN",
    "Adjacency",
    "Budget",
    "BudgetExceeded",
    "LabelSpace",
    "LedgerError",
    "Plan",
    "ReticentError",
    "__version__",
    "plan",
]
