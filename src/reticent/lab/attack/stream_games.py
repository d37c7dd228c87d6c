"""Games against whole classifiers: a stream of tasks, a person in several of them, and everything that is published.

Thousands of games are played in one stream. A game is a label of its own: half of the labels have a canary, which is
the only person of that label whose features point along the first axis. What is published of a label (whether it is
released, its noisy sums) is computed from the rows of that label and from noise of its own, so the games of one stream
are independent, and each of them is a game between neighbours: everything else is what the attacker knows.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.gate.noise import NoiseSource
from reticent.gate.sparse import ALL_KEPT
from reticent.lab.attack.games import Floats, Result, judge
from reticent.labels import Label, LabelSpace
from reticent.policies import Policy, PublicLabels
from reticent.privacy import events, profiles, selection
from reticent.released.release import Release
from reticent.sensitive.learners.learner import Learner
from reticent.taxonomy import Taxonomy
from reticent.testing.mechanism_checks import most_revealing_size

WIDTH = 4
LENGTH = 10.0  # of the canary's features: what is not normalised shows
_GAMES, _MOST_ROWS = 1_000, 300_000

KNOWN, ALONE = "one more example of a known label", "the only one with a label"
MAYBE, SURE = "one more in a class that may be released", "one more in a class that is released"
PREDICTED, SUBTRACTED = "what is predicted for the canary", "two tasks, one subtracted from the other"
SPARSE, SPARSE_KNOWN = "one of many public labels", "one of many public labels, published before"
SPARSE_BESIDE = "one of many public labels beside released ones"


@dataclass(frozen=True, kw_only=True)
class World:
    """Which neighbours are played.

    Args:
        game: Its name.
        before: How many others each label has in a first task.
        size: How many others each label has in the tasks of the canaries.
        labels: Games in one stream.
    """

    game: str
    before: int = 0
    size: int = 0
    labels: int = _GAMES


def worlds(policy: Policy, event: events.Event, *, keep_all: bool) -> Iterator[World]:
    """Yields the neighbours that a policy allows, from what a task spends."""
    if isinstance(policy, PublicLabels):
        yield World(game=KNOWN)
        if not keep_all:  # beyond 2,000 labels only blocks that stand out are published
            yield World(game=SPARSE, labels=2 * ALL_KEPT)
            yield World(game=SPARSE_KNOWN, before=60, labels=2 * ALL_KEPT)
        return
    law = law_of(event)
    if law is None:
        return
    sure = selection.smallest_class(law, 1 - 1e-6)
    labels = max(50, min(_GAMES, _MOST_ROWS // sure))
    yield World(game=KNOWN, before=sure, size=0 if policy.remember else sure, labels=labels)
    yield World(game=ALONE)
    yield World(game=MAYBE, size=most_revealing_size(law.event), labels=labels)
    yield World(game=SURE, size=sure, labels=labels)
    if not keep_all and policy.remember:
        yield World(game=SPARSE_BESIDE, labels=2 * ALL_KEPT)


def play(learner: Learner, policy: Policy, budget: Budget, world: World, *, trials: int) -> list[Result]:
    """Plays so many games of one kind; returns what the releases give away, and what predictions do.

    Guarantees:
      - The games of one stream are independent.                    test_games_of_one_stream_are_independent
      - They are the games that one canary in a stream of its own plays.    test_one_canary_alone_plays_the_same_game

    Args:
        learner: Releases noisy sums, as `Cosine` does.
        policy: Public labels are replaced by as many as there are games.
        budget: What one person may lose over the whole stream; a canary is in as many tasks as it says.
        world: Which neighbours.
        trials: Games with a canary, and as many without, at least.
    """
    sides: dict[str, list[list[Floats]]] = {}
    spent: events.Event = events.Public()
    for _ in range(math.ceil(trials / (world.labels // 2))):
        stream = Streamed(learner, policy, budget, world)
        spent = stream.spent
        for name, scores in stream.scores().items():
            both = sides.setdefault(name, [[], []])
            for side, mask in zip(both, (stream.joined, ~stream.joined), strict=True):
                side.append(scores[mask])
    results = []
    for name, (present, absent) in sides.items():
        sees = world.game if name == world.game else f"{world.game}: {name}"
        # subtracted tasks show one of them at most, whichever tasks the person is in
        results.append(judge(sees, np.concatenate(present), np.concatenate(absent), event=spent, delta=budget.delta))
    return results


class Streamed:
    """One stream with many games, learned.

    Args:
        learner: What learns.
        policy: Where labels come from.
        budget: Of the classifier.
        world: Which neighbours.
        noise: Where noise comes from; the operating system by default.
    """

    def __init__(
        self, learner: Learner, policy: Policy, budget: Budget, world: World, noise: NoiseSource | None = None
    ) -> None:
        draw = np.random.default_rng()
        self._world, self._policy, self._budget = world, policy, budget
        self.names = [f"label {i}" for i in range(world.labels)]
        self.joined = draw.permutation(np.arange(world.labels) < world.labels // 2)
        self.model = ContinualClassifier(labels=self._labels(), learner=learner, budget=budget, noise=noise)
        if world.game == SPARSE_BESIDE:
            self.model.extend_labels(self.names)
        self._learn("first", world.before, np.zeros(world.labels, bool))
        self.known = np.array([self._space.row(name) >= 0 for name in self.names])
        if world.game == KNOWN:
            self._learn("without", world.size, np.zeros(world.labels, bool))
        before = len(self.model.releases)
        for task in range(budget.tasks_per_person):
            self._learn(f"task {task}", world.size, self.joined)
        self._quiet, self._shown = self.model.releases[before - 1], self.model.releases[before:]

    @property
    def spent(self) -> events.Event:
        """What a canary's tasks cost together."""
        return events.compose(*(release.event for release in self._shown))

    @property
    def _space(self) -> LabelSpace:
        return self.model.directory.model.labels

    def _labels(self) -> Policy:
        if not isinstance(self._policy, PublicLabels):
            return self._policy
        children: dict[Label, Label] = {f"child of {name}": name for name in self.names}
        if self._policy.remap is None:
            return PublicLabels(self.names)
        if isinstance(self._policy.remap, Taxonomy):
            return PublicLabels(self.names, Taxonomy(children))
        return PublicLabels(self.names, {**children})

    def _learn(self, name: str, size: int, joined: npt.NDArray[np.bool_]) -> None:
        """Others point along the second axis; a canary brings more examples than it may, each along the first."""
        m = self._budget.examples_per_person
        copies = 1 if m == 1 else m + 2
        others, there = size * len(joined), np.flatnonzero(joined)
        features = np.zeros((others + copies * len(there), WIDTH))
        features[:others, 1] = 1.0
        features[others:, 0] = LENGTH
        remapped = isinstance(self._policy, PublicLabels) and self._policy.remap is not None
        given = [f"child of {label}" for label in self.names] if remapped else self.names
        labels = [*np.repeat(given, size).tolist(), *np.repeat(np.array(given)[there], copies).tolist()]
        persons = None if m == 1 else [*range(others), *(-1 - np.repeat(there, copies)).tolist()]
        with errors.silenced():  # that no label is known is a result here
            self.model.learn_task(features, labels, name=name, persons=persons)

    def scores(self) -> dict[str, Floats]:
        """Returns one number for each label and way of looking: larger means that a canary is likelier there."""
        found = {self._world.game: self._likelihood()}
        if self._world.game in (KNOWN, SPARSE_KNOWN):
            canary = np.zeros((1, WIDTH))
            canary[0, 0] = LENGTH
            row = self.model.decision_function(canary)[0].astype(np.float64)
            found[PREDICTED] = row[self._rows()]
        if self._world.game == KNOWN:
            before, after = (self._sums(release)[0] for release in (self._quiet, self._shown[0]))
            found[SUBTRACTED] = np.nan_to_num(after - before, nan=-math.inf)
        return found

    def _rows(self) -> npt.NDArray[np.int64]:
        return np.array([self._space.row(name) for name in self.names], dtype=np.int64)

    def _sums(self, release: Release) -> tuple[Floats, Floats]:
        """Returns each label's sum along the canary and the deviation of its noise; NaN where nothing is published."""
        place = np.full(len(self._space) + 1, -1)  # the last entry is for labels that nobody knows
        place[release.parameters["rows"]] = np.arange(len(release.parameters["rows"]))
        at = place[self._rows()]
        sums, noise = release.parameters["sums"][:, 0], release.parameters["noise"]
        return tuple(np.append(value.astype(np.float64), np.nan)[at] for value in (sums, noise))

    def _likelihood(self) -> Floats:
        """Returns the logarithm of the ratio of likelihoods of all that is published, with a canary over without."""
        m, size = self._budget.examples_per_person, self._world.size
        total, known = np.zeros(len(self.names)), self.known.copy()
        remember = isinstance(self._policy, PublicLabels) or self._policy.remember
        for release in self._shown:
            sums, noise = self._sums(release)
            shown = ~np.isnan(sums)
            total[shown] += ((m * sums - m * m / 2) / noise**2)[shown]
            law = law_of(release.event)
            if law is not None:
                fewer, more = law.release_probability([size, size + m])
                with np.errstate(divide="ignore"):
                    seen, hidden = np.log(more) - np.log(fewer), np.log1p(-more) - np.log1p(-fewer)
                fresh = ~known if remember else np.ones(len(known), bool)
                total[fresh] += np.where(shown, seen, 0.0 if np.isnan(hidden) else hidden)[fresh]
                known |= shown
        return total


def law_of(event: events.Event) -> selection.Law | None:
    """Returns the law by which a task releases labels."""
    for part in profiles.leaves(event):
        chosen = part.counts if isinstance(part, events.LabelledTraining) else part
        if isinstance(chosen, events.JointGaussian | events.LabelCounts | events.LabelSelection):
            law: selection.Law = selection.law(chosen)
            return law
    return None
