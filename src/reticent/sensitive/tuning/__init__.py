"""Tuning a PEFT ensemble: free on public data, for a price on sensitive data, or outside the guarantee.

What is chosen: rate, learning rate and clipping norm, in the paper's ranges. Epochs stay the learner's own, and noise
follows from the budget. This package only searches; the learner defines what a trial trains.
"""

from reticent.sensitive.tuning.private_search import draw, private_selection, run_like, tune_privately
from reticent.sensitive.tuning.public_search import rescaled, split, tune, tune_uncounted
from reticent.sensitive.tuning.trials import CLIP_NORMS

__all__ = [
    "CLIP_NORMS",
    "draw",
    "private_selection",
    "rescaled",
    "run_like",
    "split",
    "tune",
    "tune_privately",
    "tune_uncounted",
]
