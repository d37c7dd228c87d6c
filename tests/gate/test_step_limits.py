"""Numbers of a training: taken up to their limits, refused beyond."""

import numpy as np
import pytest

from reticent.gate.step import NoisySteps, bounded
from reticent.privacy import events


def test_clipping_norms_have_limits_beyond_use():
    event = events.DpSgd(noise_multiplier=4.0, rate=0.1, steps=3)
    for norm in (1.1e-30, 0.9e30):
        assert NoisySteps(event, norm).clip_norm == norm
    for norm in (1e-30, 1e30):
        with pytest.raises(ValueError, match="Expected clip_norm"):
            NoisySteps(event, norm)


def test_no_parameters_and_no_examples_have_no_factors():
    for found in ({}, {"a": np.zeros(0)}, {"a": np.zeros(0), "b": np.zeros(0)}):
        assert bounded(found, 1.0).shape == (0,)
