"""Twins planted and caught: each mistake against each kind of check, and which of them see it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import reticent as rt
from reticent import errors
from reticent.gate.mechanisms import SelectLabels
from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import RememberedSums
from reticent.gate.step import NoisySteps
from reticent.lab.attack import exact, games, memory_games, stream_games, training_games, whole_games
from reticent.lab.attack.memory_moves import Remembering
from reticent.lab.attack.replay import Silent
from reticent.privacy import accounting, events, selection
from reticent.sensitive.task import Task
from reticent.testing import check_learner, check_mechanism
from tests.assurance import planted, planted_memory
from tests.assurance.part import Part
from tests.testing.memory_checks import check_memory

CHECKS = ("gate", "check_learner", "check_mechanism", "exact law", "replay", "games", "one run")
CAUGHT, MISSED, NOT_APPLICABLE = "caught", "no", "-"
PUBLIC = rt.PublicLabels(["a", "b", "c"])
BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
_LARGE = rt.Budget(epsilon=1.0, delta=0.01)  # where only delta is broken, games need one that can be seen
_PEFT = rt.PeftEnsemble(task_size=200, epochs=2, rate=1.0)

Check = Callable[[], bool]


@dataclass(frozen=True)
class Planted:
    """A mistake, and the checks that can be asked about it; each returns whether it is found."""

    name: str
    checks: dict[str, Check]

    def row(self) -> tuple[str, ...]:
        """Runs every check."""
        asked = (self.checks.get(check) for check in CHECKS)
        return (self.name, *(NOT_APPLICABLE if one is None else CAUGHT if one() else MISSED for one in asked))


def measure(trials: int = 8_000) -> Part:
    """Plants every twin, and asks every check that applies."""
    rows = tuple(twin.row() for twin in twins(trials))
    sound = [check for check, one in sound_checks(trials).items() if one()]
    return Part(
        title="Twins planted and caught",
        says=(
            "Each twin is a real learner, mechanism or encoder with one mistake. A row says which checks find it: the "
            "gate refuses, `check_learner`, `check_mechanism`, the exact law is above the claim, a replay without "
            "noise moves too far, a game is won too often, one training gives its canaries away. `no` is as important: "
            f"a check that does not see a mistake must not be relied on for it. Held: each of {len(rows)} is caught at "
            "least once, and the same checks find nothing in the sound learner"
            f"{'' if not sound else ', which they did: ' + ', '.join(sound)}."
        ),
        header=("twin", *CHECKS),
        rows=rows,
        passed=all(CAUGHT in row for row in rows) and not sound,
    )


def sound_checks(trials: int) -> dict[str, Check]:
    """The same checks on what is not broken: none may be true."""
    sound = planted.Sound()
    select = SelectLabels(events.TruncatedGeometric(epsilon=1.0, delta=0.01))
    return {
        **learner_checks(sound, trials),
        "check_mechanism": lambda: fails(lambda: check_mechanism(select, trials=4_000)),
        "games of labels": lambda: played_labels(select, trials),
        "steps": lambda: steps_game(NoisySteps, trials),
        "one run": lambda: one_training(NoiseSource.from_os()),
        "check_memory": lambda: fails(check_memory),
        **{
            f"{name} of an epoch for {n} task(s)": check
            for n in (1, 2)
            for name, check in memory_checks(RememberedSums, epoch(n), trials).items()
            if name != "check_mechanism"
        },
        "the law of gathered labels": lambda: wrong(
            memory_games.gathered(epoch(1, count_weight=0.2), 2 * BUDGET.delta / 20)
        ),
        "replay of released labels": lambda: wrong(whole_games.replay_sums(rt.Cosine(), rt.ReleasedLabels(), BUDGET)),
    }


def twins(trials: int) -> Iterator[Planted]:
    """Yields every mistake of the list, with every check that applies."""
    yield Planted("no noise", learner_checks(planted.NoNoise(), trials))
    yield Planted("half the noise", learner_checks(planted.HalfNoise(), trials))
    yield Planted("missing clip", learner_checks(planted.NoClip(), trials))
    yield Planted("sensitivity off by sqrt 2", learner_checks(planted.TwoBlocks(), trials))
    yield Planted("noise reused in two tasks", learner_checks(planted.OldNoise(), trials))
    yield Planted("labels from the data", learner_checks(planted.LabelsFromData(), trials, rt.ReleasedLabels()))
    yield Planted("normaliser from N", learner_checks(planted.ByN(), trials))
    yield Planted("threshold off by one", threshold_checks(trials))
    yield Planted("a count without noise", learner_checks(planted.ExactCount(), trials))
    yield Planted("delta split forgotten", split_checks())
    yield Planted("draw without spend", learner_checks(planted.Unpaid(), trials))
    yield Planted("spend after draw", learner_checks(planted.PaysLate(), trials))
    yield Planted("a feature that depends on its batch", mixing_checks())
    yield Planted("training without noise", {"one run": lambda: one_training(Silent()), "games": silent_steps})
    yield Planted("training with half the noise", {"games": lambda: steps_game(half, trials), "replay": half_replay})
    yield from memory_twins(trials)


def memory_twins(trials: int) -> Iterator[Planted]:
    """Yields every mistake about memory between tasks."""
    once, twice = epoch(1), epoch(2)
    yield Planted("other data at a burned place", burned_checks())
    yield Planted("one key for all tasks", memory_checks(planted_memory.OneKey, once, trials))
    yield Planted("noise on the inverse side, on a grid", memory_checks(planted_memory.InverseSide, once))
    yield Planted("noise rounded on the coarse grid", memory_checks(planted_memory.CoarseNoise, once, trials))
    yield Planted("gamma forgotten", memory_checks(planted_memory.without_gamma, once, trials))
    yield Planted("gamma of single columns", memory_checks(planted_memory.of_single_columns, twice, trials))
    yield Planted("exposure without the union", {"exact law": without_union})
    yield Planted("only labels present now looked at", {"check_mechanism": caught(planted_memory.PresentOnly)})
    yield Planted("looks since the first appearance", {"check_mechanism": caught(planted_memory.SinceFirst)})
    yield Planted("one ledger event per task", {"exact law": one_event_per_task})


# --- checks: each says whether something is wrong


def learner_checks(learner: Any, trials: int, policy: Any = PUBLIC) -> dict[str, Check]:
    """What can be asked about a learner of sums."""
    found: dict[str, Check] = {
        "gate": lambda: refused(learner, policy),
        "check_learner": lambda: fails(lambda: check_learner(learner, policies=[policy])),
    }
    if refused(learner, policy):  # nothing is published that could be attacked
        return found
    public = isinstance(policy, rt.PublicLabels)
    world = stream_games.World(game=stream_games.KNOWN if public else stream_games.ALONE)
    found["games"] = lambda: any(map(wrong, stream_games.play(learner, policy, BUDGET, world, trials=trials)))
    if public:
        found["replay"] = lambda: wrong(whole_games.replay_sums(learner, policy, BUDGET))
    return found


def threshold_checks(trials: int) -> dict[str, Check]:
    """What can be asked about a mechanism that selects labels."""
    event = events.TruncatedGeometric(epsilon=_LARGE.epsilon, delta=_LARGE.delta)
    twin = planted.LowThreshold(event)
    lost = exact.labels_of(planted.OffByOne(selection.law(event)))
    return {
        "gate": lambda: False,  # the event is the one that was paid for
        "check_mechanism": lambda: fails(lambda: check_mechanism(twin, trials=4_000)),
        "exact law": lambda: wrong(exact.of_curve("", lost, event.delta, claimed=event.epsilon)),
        "games": lambda: played_labels(twin, trials),
    }


def split_checks() -> dict[str, Check]:
    """What can be asked about a policy that spends delta twice."""
    policy = planted.WholeDelta(selection=events.TruncatedGeometric, share=0.1)
    spent = events.compose(*policy.selection_and_sums(BUDGET))
    return {
        "gate": lambda: refused(rt.Cosine(), policy),
        "check_learner": lambda: fails(lambda: check_learner(rt.Cosine(), policies=[policy])),
        "exact law": lambda: accounting.delta(spent, BUDGET.epsilon) > BUDGET.delta,
    }


def epoch(tasks_per_person: int, **others: Any) -> events.Remembered:
    """An epoch of three tasks with much correlation, so that little is needed to see what is wrong with it."""
    budget = replace(BUDGET, tasks_per_person=tasks_per_person)
    return accounting.remembered(budget, epoch=1, eighths=4, horizon=3, **others)


def memory_checks(mechanism: Any, event: events.Remembered, trials: int | None = None) -> dict[str, Check]:
    """What can be asked about a mechanism with memory."""
    stream, n = Remembering(event, ("a", "b"), mechanism), event.tasks_per_person
    found: dict[str, Check] = {
        "check_mechanism": caught(mechanism),
        "exact law": lambda: wrong(memory_games.moved("", stream, event, BUDGET.delta, tasks_per_person=n)),
    }
    if trials is not None:
        found["games"] = lambda: wrong(
            memory_games.play(event, BUDGET.delta, trials=min(trials, 4_000), mechanism=mechanism)
        )
    return found


def caught(mechanism: Any) -> Check:
    """Whether the suite for memory fails."""
    return lambda: fails(lambda: check_memory(mechanism))


def burned_checks() -> dict[str, Check]:
    """What can be asked about a stream that publishes one place twice."""
    event = epoch(1)
    stream = planted_memory.BurnedTwice(event, ("a", "b"))
    return {"exact law": lambda: wrong(memory_games.moved("", stream, event, BUDGET.delta))}


def without_union() -> bool:
    """Five looks, each with the chance of all."""
    drawn, said = planted_memory.without_union(epoch(1, count_weight=0.2), BUDGET.delta / 20)
    return wrong(memory_games.gathered(drawn, 2 * BUDGET.delta / 20, claimed=said))


def one_event_per_task() -> bool:
    """The maximum over tasks, each by the noise of its own row."""
    event = epoch(1)
    said = events.Gaussian(noise_multiplier=event.noise)
    return wrong(memory_games.moved("", Remembering(event, ("a", "b")), said, BUDGET.delta))


def mixing_checks() -> dict[str, Check]:
    """What can be asked about an encoder."""
    encoder = planted.mixing_encoder(8)
    return {
        "gate": lambda: refused(rt.Cosine(), PUBLIC, encoder),
        "check_learner": lambda: fails(lambda: check_learner(rt.Cosine(), policies=[PUBLIC], encoder=encoder)),
        "replay": lambda: wrong(whole_games.replay_sums(rt.Cosine(), PUBLIC, BUDGET, encoder=encoder)),
    }


def wrong(result: games.Result) -> bool:
    """Whether a claim is violated."""
    return result.verdict == games.VIOLATED


def fails(check: Callable[[], None]) -> bool:
    """Whether a conformance suite fails, or what it checks is refused."""
    try:
        check()
    except (AssertionError, errors.InvalidValue, errors.BudgetExceeded):
        return True
    return False


def refused(learner: Any, policy: Any, encoder: Any = None) -> bool:
    """Whether the gate or the ledger refuses a task of a whole classifier."""
    model = rt.ContinualClassifier(labels=policy, learner=learner, budget=BUDGET, encoder=encoder)
    try:
        model.learn_task(np.eye(8), ["a"] * 8, name="march")
    except (errors.NotPaidFor, errors.BudgetExceeded):
        return True
    return False


def played_labels(select: Any, trials: int) -> bool:
    """The membership game on a label that nobody else has, at a delta that can be seen."""
    trials *= 10
    hits = len(select(dict.fromkeys(range(trials), 1), rng=NoiseSource.from_os()))
    present = np.arange(trials) < hits
    seen = np.random.default_rng().permutation(present).astype(float)
    return wrong(games.judge("", seen, np.zeros(trials), event=select.event, delta=select.event.delta))


def training_event() -> events.DpSgd:
    """What training of the twins costs."""
    learner = _PEFT.resolved(None)
    return accounting.training_beside(events.Public(), BUDGET, rate=learner.rate or 1.0, steps=learner.steps)


def one_training(noise: NoiseSource) -> bool:
    """One training with many canaries."""

    def train(features: Any, labels: list[str]) -> Any:
        task = Task(features, labels, name="audit")
        policy = rt.PublicLabels(["first", "second"])
        return whole_games.learned(_PEFT, policy, BUDGET, task, known=policy.space, noise=noise).parameters

    return wrong(training_games.play_one_run("", train, claimed=training_event(), delta=BUDGET.delta, canaries=500))


def steps_game(mechanism: Callable[[events.DpSgd, float], NoisySteps], trials: int) -> bool:
    """Many canaries in each training, its noisy sums seen."""
    event = training_event()
    learner = _PEFT.resolved(None)
    return wrong(
        training_games.play_steps(learner, event, claimed=event, delta=BUDGET.delta, trials=trials, mechanism=mechanism)
    )


def half(event: events.DpSgd, clip_norm: float) -> NoisySteps:
    """Half of the noise that is paid for."""
    return NoisySteps(replace(event, noise_multiplier=event.noise_multiplier / 2), clip_norm)


def silent_steps() -> bool:
    """Training whose noise is a thousandth."""
    return steps_game(lambda event, clip: NoisySteps(replace(event, noise_multiplier=1e-3), clip), 500)


def half_replay() -> bool:
    """One more gradient, over half of the noise."""
    event = training_event()
    less = replace(event, noise_multiplier=event.noise_multiplier / 2)
    return wrong(training_games.replay_steps(_PEFT.resolved(None), less, claimed=event, delta=BUDGET.delta))
