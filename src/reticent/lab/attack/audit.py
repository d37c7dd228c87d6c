"""Audits: what is lost at least, against what is claimed, for a whole configuration.

Four kinds of evidence: the law itself, where it is known (`exact`); the same task without noise, over the measured
noise (`replay`); games with a canary and without (`stream_games`, `training_games`, `whole_games`); and one training
with many canaries (`single_run`). Noise comes from the operating system; the data is synthetic.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from reticent import errors, stored_policies
from reticent.budget import Budget
from reticent.encoders.adapters import film, last_layer
from reticent.encoders.encoder import Encoder
from reticent.gate.mechanisms import SelectLabels
from reticent.lab.attack import exact, memory_games, stream_games, training_games, whole_games
from reticent.lab.attack.games import CONSISTENT, LARGE_EPSILON, VIOLATED, Result
from reticent.memory import Epoch, Memory, first_epoch, remembered
from reticent.numerics.progress import Bar
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.privacy import accounting, correlation, events, selection
from reticent.privacy.count_weights import default_count_weight
from reticent.released import settings as stored_settings
from reticent.released import store
from reticent.released.model import Encode
from reticent.sensitive import learners
from reticent.sensitive.learners import Cosine, Learner, PeftEnsemble
from reticent.sensitive.learners.head_labels import task_cost
from reticent.taxonomy import Taxonomy

SCOPE = (
    "This audits the configuration, not the release: the settings of the manifest are replayed on synthetic data, and "
    "neither the releases nor any data are read."
)
_LARGE = (
    f"At epsilon {LARGE_EPSILON:g} and more, games can show that a claim is false but hardly that it is true: the "
    "exact results carry the weight."
)
_TINY = (
    "The adapter is trained through a tiny encoder with one normalisation layer, with the same noise, rate and steps: "
    "these decide what a step costs, whichever parameters it trains."
)
_MANY, _THROUGH, _WHOLE = 10_000, 500, 1_000  # games by default: at once, through an encoder, one by one
_STEPS = 5_000  # of training in all games that train a whole classifier each

Plays = Iterator[Callable[[], list[Result]]]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found.

    Args:
        name: What was audited.
        budget: What is claimed for the whole stream.
        results: One for each game or law.
        notes: What was replayed otherwise than configured.
    """

    budget: Budget
    results: tuple[Result, ...]
    name: str = "configuration"
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Whether any result is above what is claimed."""
        return VIOLATED if any(result.verdict == VIOLATED for result in self.results) else CONSISTENT

    def json(self) -> dict[str, Any]:
        """Returns the audit as plain JSON values."""
        return {
            "name": self.name,
            "claimed": {
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "tasks_per_person": self.budget.tasks_per_person,
                "examples_per_person": self.budget.examples_per_person,
            },
            "games": [result.json() for result in self.results],
            "notes": [SCOPE, *self.notes],
            "verdict": self.verdict,
        }


# --- what can be audited


def audit_model(path: str | os.PathLike[str], *, trials: int | None = None) -> Audit:
    """Replays the configuration of a model directory on synthetic canaries.

    Guarantees:
      - Reads the manifest and nothing else.                     test_the_audit_reads_the_manifest_alone

    Args:
        path: The model directory.
        trials: Games with the canary, and as many without; by default 10,000 where one task plays a thousand, 500
            through an encoder and 1,000 one by one. Where each game trains a whole classifier, as few as 8.
    """
    settings = store.read_manifest(Path(path))
    stored = settings["learner"]
    learner = Cosine() if stored is None else learners.from_json(stored)
    policy = stored_policies.from_json(settings["policy"], ("first", "second"), {})
    if isinstance(learner, PeftEnsemble):
        encoder = settings["encoder"]
        through = learner.adapter is None and encoder is not None and encoder["digest"] is not None
        learner = replace(learner, adapter=film if through else learner.adapter)
    epoch = stored_settings.epoch_of(settings)
    return audit(learner, policy, Budget.from_json(settings["budget"]), trials=trials, epoch=epoch)


def audit(
    learner: Learner,
    policy: Policy,
    budget: Budget,
    *,
    encoder: Encode | None = None,
    trials: int | None = None,
    name: str = "configuration",
    epoch: Epoch | None = None,
) -> Audit:
    """Computes and plays everything that a label policy and a learner allow.

    Guarantees:
      - What is within its claim is consistent, except with chance ALPHA a game.     test_configurations_are_consistent
      - Half the noise, and labels taken from the data, are detected.                test_broken_learners_are_detected
      - Every learner that ships is audited by its kind, in each of its modes.    test_every_kind_of_learner_is_audited
      - So is memory between tasks.                                               test_epochs_are_audited

    Args:
        learner: Any learner. What is none of ours is played as whole streams, one canary each.
        policy: Any policy; public labels are replaced by as many as there are games.
        budget: What one person may lose over the whole stream.
        encoder: For features that `replay` reads: what depends on other rows shows there.
        trials: As in `audit_model`.
        name: What is audited.
        epoch: Of the memory between tasks, if there is one: then its streams are computed and played.

    Example:
        >>> audit(Cosine(), PublicLabels(["a"]), Budget(epsilon=1.0, delta=1e-5), trials=100).verdict
        'consistent'
    """
    if trials is not None:
        errors.whole("trials", trials, at_least=8)
    kind = next((plays for one, plays in PLAYED.items() if type(learner) is one), _own)
    if epoch is None:
        plays = list(kind(learner, policy, budget, encoder, trials))
    else:
        plays = list(memory_games.plays(remembered(epoch, policy, budget), budget.delta, trials=trials or _MANY))
    notes = [_LARGE] * (budget.epsilon >= LARGE_EPSILON)
    notes += [_TINY] * (isinstance(learner, PeftEnsemble) and _adapts(learner))
    results: list[Result] = []
    with Bar("Auditing") as bar, errors.silenced():
        for done, play in enumerate(plays, 1):
            results += play()
            bar.show(done / len(plays))
    return Audit(name=name, budget=budget, results=tuple(results), notes=tuple(notes))


def audit_everything(budget: Budget, *, trials: int | None = None) -> list[Audit]:
    """Audits every mechanism by its law, and every learner under every label policy.

    Guarantees:
      - Each mechanism that can be spent has its law computed.    test_every_mechanism_is_audited

    Args:
        budget: What is claimed of each.
        trials: As in `audit_model`.
    """
    found = [Audit(name="mechanisms", budget=budget, results=tuple(mechanisms(budget, trials=trials)))]
    for name, learner, policy in configurations():
        found.append(audit(learner, policy, budget, trials=trials, name=name))
    return [*found, *with_memory(budget, trials=trials)]


def with_memory(budget: Budget, *, trials: int | None = None) -> Iterator[Audit]:
    """Yields audits of an epoch of memory under every label policy that it is made for; see `memory.remembered`."""
    kinds: dict[str, Policy] = {"public": PublicLabels(["first", "second"]), "released": ReleasedLabels()}
    for kind, policy in kinds.items():
        try:
            epoch = first_epoch(Memory(vault="vault"), budget)
            remembered(epoch, policy, budget)
        except errors.InvalidValue:  # no proof for this budget, or no gain: nothing to audit
            continue
        yield audit(Cosine(), policy, budget, trials=trials, name=f"cosine with memory, {kind} labels", epoch=epoch)


def configurations() -> Iterator[tuple[str, Learner, Policy]]:
    """Yields every learner that ships, in each of its modes, under every label policy."""
    remap = Taxonomy({"child": "first"})
    public = PublicLabels(["first", "second"])
    for kind in learners.names():
        learner = learners.named(kind)
        yield f"{kind}, public labels", learner, public
        if isinstance(learner, Cosine):
            yield f"{kind}, public labels with remap", learner, PublicLabels(["first", "second"], remap)
        yield f"{kind}, released labels", learner, ReleasedLabels()
        yield f"{kind}, released labels of the paper", learner, ReleasedLabels.paper()


def mechanisms(budget: Budget, *, trials: int | None = None) -> Iterator[Result]:
    """Computes the law of every mechanism that a task or a verb can spend the budget on.

    Args:
        budget: What each may spend.
        trials: Of the two that are played as well: the best of several runs, and a noisy accuracy.
    """
    epsilon, delta = budget.epsilon, budget.delta
    for row in selection.TABLE:
        yield exact.exact(row.name, row.event(epsilon=epsilon, delta=delta), delta)
    test = SelectLabels.by_test(epsilon, lambda n: float(selection.law(_optimal(budget)).release_probability(n)))
    yield exact.of_curve("binary test", exact.labels_of(test.law), test.event.delta, claimed=test.event.epsilon)
    rate, steps = 0.2, 100
    labelled = accounting.labelled_training(budget, count_weight=default_count_weight(budget), rate=rate, steps=steps)
    training = accounting.training_beside(events.Public(), budget, rate=rate, steps=steps)
    found: dict[str, events.Event] = {
        "noisy sums": PublicLabels(["first"]).sums(budget),
        "joint Gaussian": ReleasedLabels().joint(budget),
        "counts with Gaussian noise": labelled.counts,
        "steps of DP-SGD": training,
        "labelled training": labelled,
        "labels and sums of the paper": events.compose(*ReleasedLabels.paper().selection_and_sums(budget)),
        "noisy accuracy": accounting.score(budget, epsilon),
        "private selection": whole_games.best_of_runs(budget),
    }
    if budget.tasks_per_person <= correlation.MOST_TASKS_PER_PERSON:
        found["sums with memory"] = accounting.remembered(budget, epoch=1)
    for name, event in found.items():
        yield exact.exact(name, event, delta)
    yield whole_games.play_best(budget, trials=trials or _WHOLE)
    yield whole_games.play_accuracy(budget, trials=trials or _WHOLE)


def _optimal(budget: Budget) -> events.OptimalSelection:
    return events.OptimalSelection(epsilon=budget.epsilon, delta=budget.delta)


# --- how each kind of learner is played


def _sums(learner: Any, policy: Policy, budget: Budget, encoder: Encode | None, trials: int | None) -> Plays:
    event, tasks = whole_games.spent(learner, policy, budget), budget.tasks_per_person
    yield lambda: [exact.exact("the law of what is drawn", accounting.repeat(event, tasks), budget.delta)]
    yield lambda: [whole_games.replay_sums(learner, policy, budget, encoder=encoder)]
    for world in stream_games.worlds(policy, event, keep_all=learner.keep_all):
        yield partial(stream_games.play, learner, policy, budget, world, trials=trials or _MANY)


def _trained(learner: Any, policy: Policy, budget: Budget, encoder: Encode | None, trials: int | None) -> Plays:
    adapts = _adapts(learner)
    learner = replace(learner, adapter=learner.adapter or last_layer).resolved(None)
    known = whole_games.space(policy)
    rate, steps, delta = learner.rate, learner.steps, budget.delta
    cost = task_cost(
        policy, known, budget, rate=rate, steps=steps, calibrate=learner.calibrate, keep_all=learner.keep_all
    )
    spent = accounting.repeat(cost.event, budget.tasks_per_person)
    yield lambda: [exact.exact("the law of what is drawn", spent, delta)]
    through = encoder if isinstance(encoder, Encoder) else training_games.tiny_encoder(32) if adapts else None
    yield lambda: [
        training_games.replay_steps(learner, cost.training, claimed=cost.training, delta=delta, encoder=through)
    ]
    yield lambda: [
        training_games.play_steps(
            learner,
            cost.training,
            claimed=cost.event,
            delta=delta,
            trials=trials or (_THROUGH if adapts else _MANY),
            tasks=budget.tasks_per_person,
            adapter=adapts,
        )
    ]
    if not isinstance(policy, PublicLabels):
        yield lambda: whole_games.play_labels(policy, cost, budget, trials=trials or _MANY)
    yield lambda: [whole_games.play_release(learner, policy, budget, adapter=adapts)]
    most = max(8, _STEPS // (learner.steps * (10 if adapts else 1)))  # each game trains: more would take hours
    yield lambda: whole_games.play_whole(learner, policy, budget, trials=min(trials or most, most), adapter=adapts)


def _own(learner: Any, policy: Policy, budget: Budget, encoder: Encode | None, trials: int | None) -> Plays:
    yield lambda: whole_games.play_whole(learner, policy, budget, trials=trials or _WHOLE)


def _adapts(learner: PeftEnsemble) -> bool:
    return learner.adapter not in (None, last_layer)


# How each learner of `learners.KINDS` is attacked; one without an entry is played as whole streams.
PLAYED: Mapping[type[Any], Callable[[Any, Policy, Budget, Encode | None, int | None], Plays]] = {
    Cosine: _sums,
    PeftEnsemble: _trained,
}
