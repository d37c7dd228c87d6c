"""DP-SGD: noise with its exact scale, Poisson batches, steps that follow from public facts."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from reticent import errors
from reticent.gate.noise import NoiseSource
from reticent.privacy import events
from reticent.sensitive.dpsgd import Adam, Engine, Sgd, train
from reticent.sensitive.head import HeadGradients
from tests.conftest import ALPHA
from tests.sensitive.by_hand import joined, moved, needs_torch, settings

pytestmark = pytest.mark.usefixtures("one_thread")


class Nothing:
    """No gradient at all: what is left is noise."""

    start = {"a": np.zeros((40, 50), np.float32), "b": np.zeros(3000, np.float32)}  # noqa: RUF012

    def clipped_sum(self, parameters, rows, clip) -> dict[str, np.ndarray]:
        return {name: np.zeros(value.shape) for name, value in self.start.items()}


def has_scale(sums: list[dict[str, np.ndarray]], noise_multiplier: float) -> bool:
    """Two-sided chi-square test of the variance of the noisy sums."""
    values = np.concatenate([joined(value) for value in sums])
    statistic = float(np.sum(values**2)) / noise_multiplier**2
    return bool(2 * min(chi2.cdf(statistic, len(values)), chi2.sf(statistic, len(values))) >= ALPHA)


@pytest.mark.parametrize(("noise", "clip_norm"), [(0.7, 1.0), (3.0, 0.01), (12.0, 50.0)])
def test_noise_has_its_scale(noise, clip_norm, rng):
    seen: list[dict[str, np.ndarray]] = []
    training = settings(noise_multiplier=noise, clip_norm=clip_norm, steps=10)
    train(Nothing(), 5, training, rng=rng, noisy_sums_seen=seen.append)
    assert has_scale(seen, noise)
    halved: list[dict[str, np.ndarray]] = []
    mutant = settings(noise_multiplier=noise / 2, clip_norm=clip_norm, steps=10)
    train(Nothing(), 5, mutant, rng=rng, noisy_sums_seen=halved.append)
    assert not has_scale(halved, noise)


def test_the_slack_is_paid_for(monkeypatch):
    asked = []

    class Watched(NoiseSource):
        def rounded_gaussian(self, sigma, shape):
            asked.append(sigma)
            return super().rounded_gaussian(sigma, shape)

    train(Nothing(), 5, settings(noise_multiplier=2.0), rng=Watched(seed=1))
    slack = math.sqrt(5000) * 2**-24 + 2 * 2.0**38 * 2.0**-53
    assert asked == pytest.approx([2.0 * 2**24 * (1 + slack)] * 3, rel=1e-15)
    assert asked[0] > 2.0 * 2**24


@pytest.mark.parametrize("optimizer", [Sgd(learning_rate=0.1), Adam(learning_rate=0.1)])
def test_empty_batches_draw_noise(optimizer, rng):
    for size, labels in ((0, []), (3, [-1, -1, -1])):
        gradients = HeadGradients(np.zeros((size, 4), np.float32), np.array(labels, dtype=np.int64), 3)
        end = train(gradients, size, settings(optimizer=optimizer), rng=rng)
        assert all((value != 0).all() for value in end.values())


def test_batches_are_poisson(rng):
    sizes = []

    class Counting(Nothing):
        def clipped_sum(self, parameters, rows, clip):
            sizes.append(len(rows))
            assert len(np.unique(rows)) == len(rows)
            return super().clipped_sum(parameters, rows, clip)

    train(Counting(), 1000, settings(rate=0.1, steps=50), rng=rng)
    assert binomtest(sum(sizes), 50_000, 0.1).pvalue >= ALPHA
    assert len(set(sizes)) > 5
    train(Counting(), 1000, settings(rate=1, steps=1), rng=rng)
    assert sizes[-1] == 1000


def test_prefetching_changes_no_law():
    """The same seed gives the same parameters with and without it: only who waits differs."""
    draw = np.random.default_rng(0)
    gradients = HeadGradients(draw.normal(size=(50, 4)).astype(np.float32), draw.integers(0, 3, size=50), 3)
    ends = [
        train(gradients, 50, settings(steps=6), rng=NoiseSource.seeded(4), engine=Engine(prefetch=ahead))
        for ahead in (True, False)
    ]
    np.testing.assert_array_equal(joined(ends[0]), joined(ends[1]))


def test_a_start_may_name_its_values_in_any_order():
    draw = np.random.default_rng(1)
    gradients = HeadGradients(draw.normal(size=(20, 3)).astype(np.float32), draw.integers(0, 3, 20), 3)
    start = moved(gradients.start)
    turned = dict(reversed(start.items()))
    assert list(turned) != list(start)
    found = [train(gradients, 20, settings(), rng=NoiseSource.seeded(4), start=begin) for begin in (start, turned)]
    assert list(found[0]) == list(found[1]) == list(gradients.start)
    assert (joined(found[0]) == joined(found[1])).all()


def test_neighbours_give_the_same_shapes(rng):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(20, 4)).astype(np.float32), draw.integers(0, 3, size=20)
    x[4] = np.nan
    described = []
    for keep in (slice(None), slice(1, None), slice(0, 0), slice(4, 5)):
        seen: list[dict[str, np.ndarray]] = []
        fractions: list[float] = []
        part = HeadGradients(x[keep], y[keep], 3)
        end = train(part, len(y[keep]), settings(), rng=rng, noisy_sums_seen=seen.append, progress=fractions.append)
        shapes = [{name: (v.shape, v.dtype) for name, v in values.items()} for values in (end, *seen)]
        described.append((shapes, fractions))
        assert all(np.isfinite(value).all() for value in end.values())
    assert described[1:] == described[:1] * 3
    assert described[0][1] == pytest.approx([1 / 3, 2 / 3, 1])


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


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0},
        {"rate": 1.1},
        {"steps": 0},
        {"clip_norm": 0},
        {"batch": 0},
        {"clip_norm": math.nan},
        {"optimizer": None},
    ],
)
def test_settings_are_checked_at_birth(change):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        settings(**change)


def test_the_event_follows_from_public_facts():
    assert settings().event == events.DpSgd(noise_multiplier=1.0, rate=0.5, steps=3)
    with pytest.raises(errors.InvalidValue, match="features of shape"):
        HeadGradients(np.zeros((3, 2), np.float32), np.zeros(2, np.int64), 2)
