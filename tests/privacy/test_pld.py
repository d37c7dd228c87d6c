import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution

from reticent.privacy import accounting, events, gaussian, pld, sampled
from tests.privacy.accounting.cases import one_gaussian


def test_agrees_with_googles_accountant():
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.1)), 600)
    google = PLDAccountant(value_discretization_interval=1e-4).compose(event).get_epsilon(1e-5)
    ours = accounting.epsilon(events.DpSgd(noise_multiplier=1.1, rate=0.02, steps=600), 1e-5)
    assert ours == pytest.approx(google, rel=2e-3)


def test_full_batches_are_plain_gaussians():
    training = events.DpSgd(noise_multiplier=20.0, rate=1.0, steps=16)
    assert accounting.delta(training, 1.0) == accounting.delta(one_gaussian(5.0), 1.0)


def test_fourier_slack_covers_direct_convolution():
    """Convolves the same grid step by step in float64 without Fourier, as an oracle for the library's rounding."""
    one = privacy_loss_distribution.from_gaussian_mechanism(3.0, sampling_prob=0.2, value_discretization_interval=0.02)
    steps = 40
    loss = pld.Loss(sampled.distribution(3.0, 0.2, steps, 0.02), steps * pld.FOURIER_ERROR)
    for pmf in (one._pmf_remove, one._pmf_add):
        dense = pmf.to_dense_pmf()
        total, lower = np.ones(1), 0
        for _ in range(steps):
            total = np.convolve(total, dense._probs)
            lower += dense._lower_loss
        losses = (lower + np.arange(len(total))) * 0.02
        for epsilon in (0.5, 1.0, 2.0, 3.0):
            above = losses > epsilon
            direct = float((-np.expm1(epsilon - losses[above]) * total[above]).sum())
            assert direct <= loss.delta(epsilon)


def test_coarse_grids_only_overestimate():
    event = events.DpSgd(noise_multiplier=2.0, rate=0.05, steps=200)
    parts = frozenset([pld.Part(event, 1)])
    fine, coarse = (pld.compose(parts, r).delta(1.0) for r in (pld.FINE, pld.COARSE))
    finest = pld.compose(parts, pld.FINE / 8).delta(1.0)
    assert finest * (1 - 1e-9) <= fine <= coarse


def test_delta_below_the_rounding_error_is_refused_not_invented():
    assert accounting.epsilon(events.DpSgd(noise_multiplier=2.0, rate=0.1, steps=400), 1e-14) == math.inf


@pytest.mark.parametrize("times", [1, 2, 3])
def test_events_that_occur_several_times_are_composed(times):
    """Of Gaussians the closed form is known; selections of a small delta lose their epsilons together."""
    gaussians = pld.Part(events.Gaussian(noise_multiplier=3.0), times).distribution(1e-3)
    exact = gaussian.delta(math.sqrt(times) / 3.0, 0.5)
    assert exact <= gaussians.get_delta_for_epsilon(0.5) <= 1.01 * exact
    labels = pld.Part(events.OptimalSelection(epsilon=0.5, delta=1e-9), times).distribution(1e-3)
    assert labels.get_delta_for_epsilon(0.5 * times - 0.1) > 0.01
    assert labels.get_delta_for_epsilon(0.5 * times + 1e-3 * times) == pytest.approx(times * 1e-9, rel=1e-3)


def test_selections_have_a_bound_while_their_loss_has_an_exponential():
    def error(examples: int) -> float:
        event = events.OptimalSelection(epsilon=50.0, delta=1e-300, examples_per_person=examples)
        return pld.compose(frozenset([pld.Part(event, 1)]), pld.FINE).error

    assert error(14) < 1e-10  # a loss of 700
    assert error(15) == 1.0
