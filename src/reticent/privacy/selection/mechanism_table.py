"""The one table of label mechanisms. A new one is an event in `events`, a file here with its law, and one row below.

Plans, policies, attacks and the command line take from this table which mechanisms there are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, overload

from reticent import errors
from reticent.privacy import events, mechanism_names
from reticent.privacy.selection.gaussian_counts import GaussianLaw
from reticent.privacy.selection.laplace import LaplaceLaw
from reticent.privacy.selection.laws import CountLaw, Law
from reticent.privacy.selection.optimal import OptimalLaw
from reticent.privacy.selection.truncated_geometric import TruncatedGeometricLaw


class Row(NamedTuple):
    """A mechanism that selects labels by their counts, for a share of the budget.

    Args:
        name: As on the command line.
        event: What it costs.
        law: From such an event to its formulas.
    """

    name: str
    event: type[events.LabelSelection]
    law: Callable[[Any], CountLaw]


TABLE = (
    Row(mechanism_names.OPTIMAL, events.OptimalSelection, OptimalLaw),
    Row(mechanism_names.TRUNCATED_GEOMETRIC, events.TruncatedGeometric, TruncatedGeometricLaw),
    Row(mechanism_names.LAPLACE, events.LaplaceThreshold, LaplaceLaw),
)


@overload
def law(event: events.LabelSelection) -> CountLaw: ...
@overload
def law(event: events.JointGaussian | events.LabelCounts) -> GaussianLaw: ...
def law(event: events.LabelSelection | events.JointGaussian | events.LabelCounts) -> Law:
    """Returns the formulas of an event.

    >>> law(events.TruncatedGeometric(epsilon=0.025, delta=2.5e-7)).threshold
    433.0
    """
    if isinstance(event, events.JointGaussian | events.LabelCounts):
        return GaussianLaw(event)
    for row in TABLE:
        if isinstance(event, row.event):
            return row.law(event)
    raise errors.UnsupportedEvent(f"No selection law knows {type(event).__name__}. Add a row with its law.")
