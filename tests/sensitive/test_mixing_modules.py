"""The attack on DP-SGD through an encoder: modules whose rows influence each other, or that remember rows."""

import numpy as np
import pytest

import reticent as rt
from reticent import encoders, errors
from reticent.sensitive.gradients import AdapterGradients
from tests.assurance.encoders import (
    LARGEST,
    Blind,
    backend_of,
    clipping_norms_moved,
    gradients,
    sixteen_rows,
    wins,
    within_the_bound,
)
from tests.encoders.mixing import PROBE, WIDTH, mixing, module, remembering
from tests.encoders.samples import TORCH, needs_torch

pytestmark = pytest.mark.usefixtures("one_thread")


@needs_torch
@pytest.mark.parametrize("several", [False, True], ids=["wrapped", "sixteen rows"])
@pytest.mark.parametrize("name", mixing() if TORCH else [])
def test_one_example_of_a_mixing_module_moves_the_sum_by_its_own_gradient(name, several):
    backend = backend_of(mixing()[name])
    found = gradients(AdapterGradients, sixteen_rows(backend) if several else backend)
    own, norms = clipping_norms_moved(found)
    assert own
    assert 0 < norms <= 1


@needs_torch
def test_rows_of_a_mixing_module_would_move_the_sum():
    """The twin, so that the test above can fail: one example moves the sum by many clipping norms."""
    own, norms = clipping_norms_moved(gradients(Blind, sixteen_rows(backend_of(mixing()[LARGEST]))))
    assert not own
    assert norms > 8


@needs_torch
def test_a_mode_of_training_changes_nothing():
    """A module that mixes rows in training mode alone: encoders are evaluated, also where they are trained through."""

    def first(self, x):
        return x / x.abs().max() if self.training else x

    backend = backend_of(first, own=True)
    backend.module.train()
    own, norms = clipping_norms_moved(gradients(AdapterGradients, sixteen_rows(backend)))
    assert own
    assert norms <= 1
    assert backend.module.training


@needs_torch
@pytest.mark.parametrize("name", ["counter", "running_mean", "last_batch", "dropout"])
def test_gradients_that_change_are_refused(name):
    """What remembers with gradients alone: encoding does not show it, and the spend must not come first."""
    import torch

    def first(self, x):
        return remembering()[name](self, x) if torch.is_grad_enabled() else x

    encoder = encoders.wrap(module(first, own=True), width=WIDTH, name="mine", probe=PROBE)
    model = rt.ContinualClassifier(
        encoder=encoder,
        labels=rt.PublicLabels(["a", "b"]),
        learner=rt.PeftEnsemble(adapter=encoders.film),
        budget=rt.Budget(epsilon=1.0, delta=1e-5),
    )
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder that remembers no examples"):
        model.learn_task(np.zeros((4, WIDTH)), ["a", "b", "a", "b"], name="march")
    assert model.statement().spends == ()


# --- the membership attack on released parameters


@needs_torch
def test_the_membership_attack_on_a_mixing_module_stays_within_the_bound(rng):
    games = 400  # at which the twin's 0.92 is six deviations above what the check lets through
    backend = backend_of(mixing()[LARGEST])
    assert within_the_bound(wins(gradients(AdapterGradients, backend), games, rng), games)
    assert not within_the_bound(wins(gradients(Blind, sixteen_rows(backend)), games, rng), games)
