"""What events cost, and how much noise a budget asks for. Sees descriptions only, never data.

Contains `costs` (event -> epsilon or delta), `gaussians` (what is one Gaussian), `stream` (what one person loses over
several tasks, and what may follow), `calibration` (budget -> noise) and `remembering` (both, for memory between tasks).
Formulas of single mechanisms do not: see `profiles` and `selection`.

Answers never under-report: closed forms are checked in high precision, compositions use dominating privacy loss
distributions with their rounding error added, and calibration asserts its result against the budget.
"""

from reticent.privacy.accounting.calibration import (
    EXPOSURE_SHARE,
    calibrate,
    labelled_training,
    noise_multiplier,
    private_selection,
    training_beside,
)
from reticent.privacy.accounting.costs import Cost, cost, delta, epsilon, refuse_fewer_examples, repeat, split, within
from reticent.privacy.accounting.gaussians import gaussian_sigma, score
from reticent.privacy.accounting.remembering import remembered, so_far
from reticent.privacy.accounting.stream import refuse_costly_score, refuse_next, stream_cost, stream_delta, worst_cases

__all__ = [
    "EXPOSURE_SHARE",
    "Cost",
    "calibrate",
    "cost",
    "delta",
    "epsilon",
    "gaussian_sigma",
    "labelled_training",
    "noise_multiplier",
    "private_selection",
    "refuse_costly_score",
    "refuse_fewer_examples",
    "refuse_next",
    "remembered",
    "repeat",
    "score",
    "so_far",
    "split",
    "stream_cost",
    "stream_delta",
    "training_beside",
    "within",
    "worst_cases",
]
