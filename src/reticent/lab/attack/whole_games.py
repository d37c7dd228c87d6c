"""Attacks on a whole learner: replays of its release, its labels, one training, and streams of one canary each."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from reticent import errors
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.encoders.encoder import Encoder
from reticent.gate import grid
from reticent.gate.gate import Gate, RunPermit
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum
from reticent.gate.noise import NoiseSource
from reticent.lab.attack import stream_games, training_games
from reticent.lab.attack.games import Floats, Result, judge
from reticent.lab.attack.replay import Arrays, replay
from reticent.labels import LabelSpace
from reticent.policies import Policy, PublicLabels
from reticent.privacy import accounting, events, profiles, selection
from reticent.released.model import Encode, Model
from reticent.released.release import Release
from reticent.sensitive.learners import Cosine, Learner
from reticent.sensitive.learners.head_labels import TaskCost
from reticent.sensitive.scoring import noisy_accuracy
from reticent.sensitive.task import Task
from reticent.testing.mechanism_checks import most_revealing_size

REPLAYED = "one more example, over the measured noise"
_WIDTH = 8
_LABELS = ("first", "second")


def space(policy: Policy) -> LabelSpace:
    """Returns the labels that are known before the first task."""
    return policy.space if isinstance(policy, PublicLabels) else LabelSpace(())


def learned(
    learner: Learner,
    policy: Policy,
    budget: Budget,
    task: Task,
    *,
    known: LabelSpace,
    noise: NoiseSource | None = None,
    encoder: Encode | None = None,
) -> Release:
    """Learns one task with a ledger of its own, in memory."""
    with Ledger.create(None, budget) as ledger:
        return learner.learn_task(task, policy, known=known, encoder=encoder, gate=Gate(ledger, noise))


def spent(learner: Learner, policy: Policy, budget: Budget) -> events.Event:
    """Returns what a task costs: that of an empty one, as of any other."""
    empty = Task(np.zeros((0, _WIDTH)), [], name="audit")
    return learned(learner, policy, budget, empty, known=space(policy)).event


def replay_sums(
    learner: Learner, policy: Policy, budget: Budget, *, encoder: Encode | None = None, width: int = _WIDTH
) -> Result:
    """Measures how far one person moves the release of a task, over the measured noise.

    Args:
        learner: Releases noisy sums, as `Cosine` does.
        policy: Where labels come from; public labels are replaced.
        budget: Of the ledger.
        encoder: From inputs to features.
        width: Of the inputs.
    """
    m = budget.examples_per_person
    event = spent(learner, policy, budget)
    noises = [part for part in profiles.leaves(event) if isinstance(part, events.Gaussian | events.JointGaussian)]
    law = stream_games.law_of(event)
    forgets = not isinstance(policy, PublicLabels) and not policy.remember
    size = 4 if law is None or not forgets else selection.smallest_class(law, 1 - 1e-9)
    names = [f"label {i}" for i in range(8 if forgets else 200)]
    # few others, so that whatever is divided by their number shows; many where a label must be released again
    others = np.repeat(names, size) if forgets else np.array(names[:size])
    # close together, so that whatever the person moves in them shows
    features = np.random.default_rng().normal(1.0, 0.1, (len(others) + m, width)).astype(np.float32)
    features[-m:] = 0
    features[-m:, 0] = stream_games.LENGTH
    labels = [*others.tolist(), *[names[0]] * m]
    persons = [*range(len(others)), *[-1] * m]
    replaced = PublicLabels(names) if isinstance(policy, PublicLabels) else policy

    def learn(noise: NoiseSource, person: bool) -> Arrays:
        rows = len(labels) if person else len(labels) - m
        task = Task(features[:rows], labels[:rows], persons[:rows], name="audit")
        known = LabelSpace(tuple(names))
        release = learned(learner, replaced, budget, task, known=known, noise=noise, encoder=encoder)
        return {name: value for name, value in release.parameters.items() if value.dtype.kind == "f"}

    mu = m / noises[0].noise_multiplier
    return replay(REPLAYED, learn, event=event, claimed_mu=mu, delta=budget.delta, runs=20)


def play_labels(policy: Policy, cost: TaskCost, budget: Budget, *, trials: int) -> list[Result]:
    """Plays on the labels that a head has: each label is one game, decided by its own noisy count."""
    law = stream_games.law_of(cost.event)
    if law is None:
        return []
    nothing = LabelSpace(())
    names = [f"label {i}" for i in range(2 * trials)]
    joined = np.random.default_rng().permutation(np.arange(2 * trials) < trials)
    sizes = {stream_games.ALONE: 0, stream_games.MAYBE: most_revealing_size(law.event)}
    results = []
    for game, size in sizes.items():
        found = np.repeat(names, size + joined).tolist()
        with Ledger.create(None, budget) as ledger:
            permit = Gate(ledger).spend(cost.event, task="audit")
            _, _, new = cost.labels(policy, found, nothing, permit)
        seen = np.array([name in new for name in names], dtype=np.float64)
        results.append(judge(game, seen[joined], seen[~joined], event=cost.event, delta=budget.delta))
    return results


def play_release(learner: Any, policy: Policy, budget: Budget, *, adapter: bool, canaries: int = 1_000) -> Result:
    """Audits one training by its release. Labels that must be released get many others, so that they are."""
    canaries = 128 if adapter else canaries
    encoder = training_games.tiny_encoder(canaries) if adapter else None
    replaced = PublicLabels(_LABELS) if isinstance(policy, PublicLabels) else policy
    known, spends = LabelSpace(_LABELS), spent_with(learner, replaced, budget, encoder, canaries)
    law = stream_games.law_of(spends)
    others = 0 if law is None else selection.smallest_class(law, 1 - 1e-9)

    def train(features: Any, labels: list[str]) -> Arrays:
        inputs = np.concatenate([np.zeros((2 * others, canaries), np.float32), features])
        task = Task(inputs, [*np.repeat(_LABELS, others).tolist(), *labels], name="audit")
        return learned(learner, replaced, budget, task, known=known, encoder=encoder).parameters

    game = training_games.ONE_RUN
    return training_games.play_one_run(game, train, claimed=spends, delta=budget.delta, canaries=canaries)


def spent_with(learner: Learner, policy: Policy, budget: Budget, encoder: Encoder | None, width: int) -> events.Event:
    """Returns what a task costs through an encoder."""
    empty = Task(np.zeros((0, width), np.float32), [], name="audit")
    return learned(learner, policy, budget, empty, known=LabelSpace(_LABELS), encoder=encoder).event


def best_of_runs(budget: Budget) -> events.PrivateSelection:
    """Returns a private selection whose runs spend the budget each."""
    return accounting.private_selection(_gaussian(budget), mean_runs=20.0, eta=0.0)


def play_best(budget: Budget, *, trials: int) -> Result:
    """Plays on the best of a random number of runs, each a noisy sum that is its own score."""
    event, noise = best_of_runs(budget), NoiseSource.from_os()
    assert isinstance(event.run, events.Gaussian)  # noqa: S101 (as it is made above)
    mechanism = GaussianSum(event.run)
    roomy = replace(budget, epsilon=2 * accounting.epsilon(event, budget.delta))

    def play(value: int) -> float:
        with Ledger.create(None, roomy) as ledger:
            permit = Gate(ledger, noise).spend(event, task="audit")

            def run(permit: RunPermit) -> tuple[float, float]:
                drawn = float(permit.draw(mechanism, np.array([value * grid.SCALE]))[0])
                return drawn, drawn

            return permit.best(run)

    sides = [np.array([play(value) for _ in range(trials)]) for value in (1, 0)]
    return judge("the best of several runs", sides[0], sides[1], event=event, delta=budget.delta)


def play_accuracy(budget: Budget, *, trials: int) -> Result:
    """Plays on a noisy accuracy: one more right answer beside two wrong ones."""
    labels, noise = LabelSpace(_LABELS), NoiseSource.from_os()
    model = Model(labels, Cosine().rule)  # without releases every answer is the first label
    event = accounting.score(budget, budget.epsilon)

    def play(right: int) -> float:
        task = Task(np.ones((2 + right, _WIDTH)), [_LABELS[1]] * 2 + [_LABELS[0]] * right, name="audit")
        with Ledger.create(None, budget) as ledger:
            return noisy_accuracy(model, task, epsilon=budget.epsilon, encoder=None, gate=Gate(ledger, noise))

    sides = [np.array([play(right) for _ in range(trials)]) for right in (1, 0)]
    return judge("one answer of a noisy accuracy", sides[0], sides[1], event=event, delta=budget.delta)


def _gaussian(budget: Budget) -> events.Gaussian:
    return events.Gaussian(noise_multiplier=accounting.gaussian_sigma(budget))


def play_whole(learner: Learner, policy: Policy, budget: Budget, *, trials: int, adapter: bool = False) -> list[Result]:
    """Plays whole classifiers, one stream for each game: the canary is in as many tasks as the budget says.

    The attacker sees the labels, what the releases hold of the canary's label along the canary, and predictions.

    Args:
        learner: Any learner.
        policy: Any policy.
        budget: Of the classifier.
        trials: Streams with the canary, and as many without.
        adapter: Whether to train through a tiny encoder.
    """
    encoder = training_games.tiny_encoder(_WIDTH) if adapter else None
    event: list[events.Event] = []

    def stream(size: int, canaries: int) -> float:
        labels = PublicLabels(_LABELS) if isinstance(policy, PublicLabels) else policy
        model = ContinualClassifier(labels=labels, learner=learner, budget=budget, encoder=encoder)
        for task in range(budget.tasks_per_person):
            features, found, persons = _examples(size, canaries, budget)
            with errors.silenced():  # that no label is known is a result here
                model.learn_task(features, found, persons=persons, name=f"task {task}")
        event[:] = [release.event for release in model.releases]
        return _seen(model)

    results = []
    stream(0, 0)
    claimed = events.compose(*event)
    games = {stream_games.KNOWN: 0} if isinstance(policy, PublicLabels) else {stream_games.ALONE: 0}
    law = stream_games.law_of(claimed)
    if law is not None:
        games[stream_games.SURE] = selection.smallest_class(law, 1 - 1e-4)
    for game, size in games.items():
        sides: list[Floats] = []
        for there in (budget.examples_per_person, 0):
            sides.append(np.array([stream(size, there) for _ in range(trials)]))
        name = f"whole classifiers: {game}"
        results.append(judge(name, sides[0], sides[1], event=claimed, delta=budget.delta))
    return results


def _examples(size: int, canaries: int, budget: Budget) -> tuple[Any, list[str], list[int] | None]:
    """Others have random features without a part along the first axis, on which the canary lies."""
    others = np.random.default_rng().normal(size=(8 + size, _WIDTH)).astype(np.float32)
    others[:, 0] = 0
    one = stream_games.LENGTH * np.eye(1, _WIDTH, dtype=np.float32)
    features = np.concatenate([others, np.tile(one, (canaries, 1))])
    labels = [_LABELS[0]] * 8 + [_LABELS[1]] * (size + canaries)
    persons = None if budget.examples_per_person == 1 else [*range(8 + size), *[-1] * canaries]
    return features, labels, persons


def _seen(model: ContinualClassifier) -> float:
    """What the releases hold of the canary's label, along the canary; -inf where the label is not known."""
    row = model.directory.model.labels.row(_LABELS[1])
    if row < 0:
        return -math.inf
    total = 0.0
    for release in model.releases:
        at = np.flatnonzero(release.parameters["rows"] == row) if "rows" in release.parameters else np.array([row])
        values = release.parameters.get("sums", release.parameters.get("head.weight"))
        if values is None or not len(at):
            continue
        compared = "head.weight" in release.parameters and len(values) > 1  # what all rows share tells nothing
        total += float(values[at[0], 0]) - (float(values[:, 0].mean()) if compared else 0.0)
    return total
