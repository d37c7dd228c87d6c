"""Games against training: the attacker sees the noisy sums of every step, and knows each canary's gradient.

Thousands of games are played in one training. Canary j has features along axis j alone, so at parameters that stay
where they are it moves column j of the weights and no other canary does; what is sampled, clipped and drawn for it is
its own. So the games of one training are independent. What an optimiser does with the sums is post-processing.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders import wrap
from reticent.encoders.encoder import Encoder
from reticent.encoders.packages import require
from reticent.gate.grid import TERM_SCALE
from reticent.gate.noise import NoiseSource
from reticent.gate.step import Block, Floats, Gradients, NoisySteps, Parameters, clipped_sum, flattened, split
from reticent.lab.attack.games import Result, judge
from reticent.lab.attack.replay import Arrays, replay
from reticent.lab.attack.single_run import Bits, one_run
from reticent.privacy import accounting, events
from reticent.released.heads import WEIGHT
from reticent.sensitive.learners.peft import PeftEnsemble, gradients_of, prepared
from reticent.sensitive.training import Training

EVERY_STEP = "every noisy sum of training"
CLIPPED = "one more gradient, over the measured noise"
ONE_RUN = "many canaries in one training, its release"
_LENGTH = 1_000.0  # of canaries through an encoder: far beyond the clipping norm
_WEIGHTS = 3.0  # of the head where gradients go back through the encoder: most of a gradient is the adapter's


def tiny_encoder(width: int) -> Encoder:
    """Returns a real module with one normalisation layer, in which every channel stands by itself."""
    torch = require("torch", extra="reticent[torch]")
    probe = np.linspace(-1, 1, width, dtype=np.float32)
    return wrap(torch.nn.Sequential(torch.nn.BatchNorm1d(width)), width=width, name="tiny", probe=probe)


# --- one canary at a time


def play_training(
    training: Training,
    gradients: Gradients,
    *,
    delta: float,
    claimed: events.DpSgd | None = None,
    trials: int = 10_000,
    shown: Callable[[float], None] | None = None,
) -> Result:
    """Plays for one example in DP-SGD, one training for each game.

    Parameters stay where they start, so that the gradient keeps its direction.

    Args:
        training: Public settings of the training.
        gradients: One example, the canary.
        delta: At which epsilon is to be bounded.
        claimed: What is spent; the training's own event by default.
        trials: Games with the canary, and as many without.
        shown: Called with the fraction done.

    Example:
        >>> from reticent.released.optimizers import Sgd
        >>> from reticent.sensitive.head import HeadGradients
        >>> canary = HeadGradients(np.ones((1, 2), np.float32), np.array([0]), 2)
        >>> rule = Sgd(learning_rate=0.1)
        >>> training = Training(noise_multiplier=4.0, rate=1.0, steps=1, clip_norm=1.0, batch=1.0, optimizer=rule)
        >>> play_training(training, canary, delta=1e-5, trials=200).verdict
        'consistent'
    """
    start = gradients.start
    point = flattened(start)
    towards = flattened(clipped_sum(gradients, start, np.array([0]), training.clip_norm))
    towards /= np.linalg.norm(towards)
    noise = NoiseSource.from_os()
    mechanism = NoisySteps(training.event, training.clip_norm, ahead=False)

    def play(examples: Gradients) -> float:
        steps = mechanism(examples, rng=noise)
        return sum(float(steps(point) @ towards) for _ in range(training.steps))

    found = np.empty((2, errors.whole("trials", trials, at_least=8)))
    for trial in range(trials):
        found[:, trial] = play(gradients), play(Without(gradients))
        if shown is not None:
            shown((trial + 1) / trials)
    event = training.event if claimed is None else claimed
    return judge(EVERY_STEP, *found, event=event, delta=delta)


@dataclass(frozen=True)
class Without:
    """The same parameters, without any example."""

    canary: Gradients
    size: int = 0

    @property
    def start(self) -> dict[str, npt.NDArray[np.float32]]:
        """The canary's."""
        return self.canary.start

    def blocks(self, parameters: Parameters, rows: npt.NDArray[np.int64]) -> Iterator[Block]:
        """Yields nothing."""
        return iter(())


# --- many canaries at once


class Canaries:
    """Examples each with an axis of its own, as a learner trains on them.

    Args:
        learner: Its settings are resolved.
        count: How many.
        encoder: What gradients go through; None where the head is trained alone.
    """

    def __init__(self, learner: PeftEnsemble, count: int, encoder: Encoder | None) -> None:
        self._learner, self.count, self._encoder = learner, count, encoder
        self.inputs = _LENGTH * np.eye(count, dtype=np.float32)
        parameters = self.gradients(np.arange(count)).start
        if encoder is not None:  # the second label, and a head that prefers the first: the largest error
            parameters = {**parameters, WEIGHT: np.outer([_WEIGHTS, -_WEIGHTS], np.ones(count)).astype(np.float32)}
        self.like, self.point = parameters, flattened(parameters)
        self._own = [name for name in parameters if name.endswith("weight")]
        moved = clipped_sum(self.gradients(np.arange(count)), parameters, np.arange(count), learner.clip_norm or 1.0)
        towards = self._columns({name: value / TERM_SCALE for name, value in moved.items()})
        self.lengths = np.linalg.norm(towards, axis=0)
        self._towards = towards / self.lengths

    def gradients(self, rows: npt.NDArray[np.int64]) -> Gradients:
        """Returns the gradients of some of them."""
        inputs = prepared(self._learner, self.inputs[rows], self._encoder)
        return gradients_of(self._learner, inputs, np.ones(len(rows), np.int64), 2, self._encoder)

    def along(self, noisy: Floats) -> Floats:
        """Returns one number for each canary: the noisy sum along its gradient."""
        values: Floats = np.einsum("ij,ij->j", self._columns(split(noisy, self.like, np.float64)), self._towards)
        return values

    def _columns(self, values: dict[str, Floats]) -> Floats:
        return np.concatenate([values[name].reshape(-1, self.count) for name in self._own])


def play_steps(
    learner: PeftEnsemble,
    event: events.DpSgd,
    *,
    claimed: events.Event,
    delta: float,
    trials: int,
    tasks: int = 1,
    adapter: bool = False,
    mechanism: Callable[[events.DpSgd, float], NoisySteps] = NoisySteps,
) -> Result:
    """Plays many games in each training, by the likelihood ratio of all its noisy sums.

    Args:
        learner: Its settings are resolved.
        event: What is drawn in a task.
        claimed: What a task is said to spend.
        delta: At which epsilon is to be bounded.
        trials: Games with a canary, and as many without, at least.
        tasks: In how many tasks a canary is.
        adapter: Whether gradients go through a tiny encoder.
        mechanism: From event and clipping norm to what draws the steps.
    """
    count = 128 if adapter else 1_000
    canaries = Canaries(learner, count, tiny_encoder(count) if adapter else None)
    noise = NoiseSource.from_os()
    steps = mechanism(event, learner.clip_norm or 1.0)
    sides: tuple[list[Floats], list[Floats]] = ([], [])
    for _ in range(math.ceil(2 * trials / count)):
        there = np.random.default_rng().permutation(np.arange(count) < count // 2)
        ratio = np.zeros(count)
        for _ in range(tasks):
            draw = steps(canaries.gradients(np.flatnonzero(there)), rng=noise)
            for _ in range(event.steps):
                ratio += _log_ratio(canaries.along(draw(canaries.point)), canaries.lengths, event)
        sides[0].append(ratio[there])
        sides[1].append(ratio[~there])
    spent = accounting.repeat(claimed, tasks)
    return judge(EVERY_STEP, np.concatenate(sides[0]), np.concatenate(sides[1]), event=spent, delta=delta)


def _log_ratio(found: Floats, lengths: Floats, event: events.DpSgd) -> Floats:
    """Returns ln(1 - q + q exp(loss)), how much likelier a sum is where the canary is sampled with probability q."""
    loss = (found * lengths - lengths**2 / 2) / event.noise_multiplier**2
    if event.rate == 1:
        return loss
    mixed: Floats = np.logaddexp(math.log1p(-event.rate), math.log(event.rate) + loss)
    return mixed


def replay_steps(
    learner: PeftEnsemble,
    event: events.DpSgd,
    *,
    claimed: events.DpSgd,
    delta: float,
    others: int = 24,
    encoder: Encoder | None = None,
) -> Result:
    """Measures what one more example adds to a step in which all are sampled, over the measured noise.

    The other examples are there too: whatever they contribute must not depend on the canary.

    Args:
        learner: Its settings are resolved.
        event: What is drawn.
        claimed: What is said to be spent.
        delta: At which epsilon is to be bounded.
        others: How many other examples there are.
        encoder: What gradients go through; None where the head is trained alone.
    """
    width = 64 if encoder is None else encoder.width
    draw = np.random.default_rng()
    inputs = draw.normal(size=(others + 1, width)).astype(np.float32)
    inputs[-1] = _LENGTH * np.abs(inputs[-1])  # the head prefers the first label for it, and it has the second
    labels = np.append(np.arange(others) % 2, 1)
    one = events.DpSgd(noise_multiplier=event.noise_multiplier, rate=1.0, steps=1)

    def learn(noise: NoiseSource, person: bool) -> Arrays:
        rows = slice(None) if person else slice(others)
        gradients = gradients_of(learner, prepared(learner, inputs[rows], encoder), labels[rows], 2, encoder)
        start = gradients.start
        if encoder is not None:
            start = {**start, WEIGHT: np.outer([_WEIGHTS, -_WEIGHTS], np.ones(width)).astype(np.float32)}
        steps = NoisySteps(one, learner.clip_norm or 1.0, ahead=False)(gradients, rng=noise)
        return {"sum": steps(flattened(start))}

    mu = 1 / claimed.noise_multiplier
    return replay(CLIPPED, learn, event=claimed, claimed_mu=mu, delta=delta, runs=40 if encoder is None else 12)


def play_one_run(
    game: str,
    learned: Callable[[npt.NDArray[np.float32], list[str]], Arrays],
    *,
    claimed: events.Event,
    delta: float,
    canaries: int = 1_000,
) -> Result:
    """Audits one training of a whole learner by what it releases.

    Args:
        game: Its name.
        learned: From features and labels to the arrays of a release over the labels "first" and "second".
        claimed: What is said to be spent.
        delta: At which epsilon is to be bounded.
        canaries: How many; the features are as wide.
    """

    def train(there: Bits) -> Floats:
        arrays = learned(_LENGTH * np.eye(canaries, dtype=np.float32)[there], ["first"] * int(there.sum()))
        weight = np.asarray(arrays[WEIGHT], dtype=np.float64)
        scores: Floats = weight[0] - weight[1]
        return scores

    return one_run(game, train, canaries, event=claimed, delta=delta)
