"""Optimisers do what torch's do."""

import numpy as np
import pytest

from reticent.released.optimizers import Adam, Sgd
from tests.sensitive.by_hand import needs_torch


@needs_torch
@pytest.mark.parametrize("momentum", [0.0, 0.9, None])
def test_optimizers_are_those_of_torch(momentum):
    import torch

    draw = np.random.default_rng(0)
    start, steps = draw.normal(size=20), draw.normal(size=(30, 20))
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    ours: Adam | Sgd
    if momentum is None:
        ours, optimizer = Adam(learning_rate=0.01), torch.optim.Adam([theirs], lr=0.01)
    else:
        ours = Sgd(learning_rate=0.01, momentum=momentum)
        optimizer = torch.optim.SGD([theirs], lr=0.01, momentum=momentum)
    update, point = ours.update(20), start.copy()
    for gradient in steps:
        theirs.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        update(point, gradient)
    np.testing.assert_allclose(point, theirs.detach().numpy(), rtol=0, atol=1e-9)
