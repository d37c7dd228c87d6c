"""Where ours is behind: every learner of ours against every method of the paper, in every cell that has both.

A cell is the same data, stream, labels and budget. Where the paper's method splits its budget, the best of the shares
that were run is taken, as the paper takes it: with a look at the test data. Where the paper's PEFT was trained through
the encoder, ours is compared with that, too, also where it trains the last layer alone.

Heads of our PEFT are joined by `pooled`, and every run has measured the same heads under the paper's `argmax`, too. So
it is known how much of a difference comes from the rule, and how much from training.
"""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from scipy.stats import t

from reticent.lab.bench import catalogue
from reticent.lab.bench.layout import LABEL_NAMES
from reticent.lab.bench.medians import accuracy_of
from reticent.lab.bench.run import FILM, MEMORIES, Results, Run
from reticent.lab.bench.typeset import Table

MARGIN = 0.5  # points of accuracy
OTHER_METHOD = "another method; choose {} there"
OTHER_ADAPTER = "trained through the encoder; choose adapter=film there"
RULE = "the rule that joins heads: argmax on the same heads has {:.1f}"
ONE_SEED = "not explained: one seed, so no test is possible"
OPEN = "{}: behind in {} of {} seeds, by {:.1f} on average (95 % interval {:.1f} to {:.1f})"
TELLS, DOES_NOT_TELL = "not explained", "no difference that these seeds show"
_OF_THE_RULE = (
    "The rule that joins heads: pooled adds up a label's rows of all tasks, each weighed by how likely the task has "
    "the label, as far as the energy of its rows shows. Labels that come back gain by it. It loses to the paper's "
    "argmax, which compares each task's row with the input at hand, where noise is so strong that the energy does "
    "not show the task, and where there is no noise or few labels: it evens out lengths and takes off a direction that "
    "tell labels apart there (benchmarks/joining_heads.py). Say aggregate=argmax there, when a model is made or "
    "loaded; neither rule costs privacy."
)
_OF_SEEDS = (
    "No difference that these seeds show: chance may put one median below the other. Cells of Cosine were measured "
    "with more seeds, and both ways to join sums on the same sums: docs/reproducing-the-paper.md says what was found."
)
_OF_STAND_INS = (
    "With public labels the noisy total of the paper's Cosine does not depend on the tasks that examples are in: among "
    "10 times as many labels and more, the disjoint stream of ten tasks is measured for all ratios."
)


class Measured(NamedTuple):
    """Accuracy of one run in percent, and that of the same heads under `argmax`, where it was measured."""

    accuracy: float
    by_argmax: float | None


@dataclass(frozen=True)
class Pair:
    """Ours beside a method of the paper, in one cell.

    Args:
        cell: A run of ours in it.
        theirs: The name of the paper's method.
        adapter: Where the paper's method trains.
        mine: Accuracy of ours in the seeds that both have, in percent.
        other: The same of the paper's.
        by_argmax: That of the same heads of ours under `argmax`; empty for learners without heads.
    """

    cell: Run
    theirs: str
    adapter: str
    mine: tuple[float, ...]
    other: tuple[float, ...]
    by_argmax: tuple[float, ...] = ()

    @property
    def ours(self) -> float:
        """Median accuracy of ours."""
        return statistics.median(self.mine)

    @property
    def paper(self) -> float:
        """Median accuracy of the paper's."""
        return statistics.median(self.other)

    @property
    def points(self) -> float:
        """How far ours is behind; negative where it leads."""
        return self.paper - self.ours

    @property
    def is_same_method(self) -> bool:
        """Whether both are of one family, such as Cosine."""
        return catalogue.entry(self.cell.learner).family == catalogue.entry(self.theirs).family

    @property
    def reason(self) -> str:
        """Why, where that is known."""
        if not self.is_same_method:
            return OTHER_METHOD.format(catalogue.entry(self.theirs).title)
        if self.adapter != self.cell.adapter:
            return OTHER_ADAPTER
        if self.by_rule is None:
            return self._of_training(self.mine)
        rule = RULE.format(self.by_rule)
        return rule if self.paper - self.by_rule <= MARGIN else f"{rule}; the rest: {self._of_training(self.by_argmax)}"

    @property
    def by_rule(self) -> float | None:
        """Median accuracy of the same heads under `argmax`, where it is better by more than half a point."""
        found = statistics.median(self.by_argmax) if self.by_argmax and self.is_same_method else -math.inf
        return found if found - self.ours > MARGIN else None

    def _of_training(self, mine: Sequence[float]) -> str:
        """Returns what is known of why these are behind the paper's, the rule aside."""
        behind = [b - a for a, b in zip(mine, self.other, strict=True)]
        n = len(behind)
        if n == 1:
            return ONE_SEED
        mean, around = statistics.mean(behind), float(t.ppf(0.975, n - 1)) * statistics.stdev(behind) / math.sqrt(n)
        says = TELLS if mean - around > 0 else DOES_NOT_TELL
        return OPEN.format(says, sum(b > 0 for b in behind), n, mean, mean - around, mean + around)


Cells = Mapping[Run, Mapping[float | None, Mapping[int, Measured]]]  # by cell, share and seed


def pairs(results: Results) -> list[Pair]:
    """Returns all pairs of ours and the paper's; ours without names and memory, which the paper's does not have.

    Example:
        >>> pairs({})
        []
    """
    return list(_pairs(_cells(results)))


def _cells(results: Results) -> Cells:
    found: dict[Run, dict[float | None, dict[int, Measured]]] = {}
    for result in results.values():
        run = Run(**result["run"])
        if result["status"] == "done" and not run.names and run.memory == MEMORIES[0]:
            cell, by_argmax = replace(run, seed=0, share=None), result["aggregations"].get("argmax")
            measured = Measured(accuracy_of(result), None if by_argmax is None else 100 * by_argmax)
            found.setdefault(cell, {}).setdefault(run.share, {})[run.seed] = measured
    return found


def _pairs(found: Cells) -> Iterator[Pair]:
    theirs = [entry.name for entry in catalogue.ENTRIES if entry.origin == catalogue.PAPER]
    for cell in _ours(found):
        ours = found[cell][None]
        for name, adapter in itertools.product(theirs, dict.fromkeys((cell.adapter, FILM))):
            paper = found.get(catalogue.stand_in(replace(cell, learner=name, adapter=adapter)))
            if paper is None:
                continue
            best = max(paper.values(), key=lambda by_seed: statistics.median(m.accuracy for m in by_seed.values()))
            both = sorted(ours.keys() & best.keys())
            if both:
                mine, other = (tuple(by_seed[seed].accuracy for seed in both) for by_seed in (ours, best))
                by_argmax = tuple(value for seed in both if (value := ours[seed].by_argmax) is not None)
                yield Pair(cell, name, adapter, mine, other, by_argmax if len(by_argmax) == len(both) else ())


def _ours(found: Cells) -> list[Run]:
    return [cell for cell in found if catalogue.entry(cell.learner).origin == catalogue.OURS and None in found[cell]]


def behind_table(results: Results) -> Table:
    """Returns the pairs in which ours is behind by more than half a point, the same method first, worst first."""
    found = _cells(results)
    made = list(_pairs(found))
    worse = sorted((pair for pair in made if pair.points > MARGIN), key=lambda p: (not p.is_same_method, -p.points))
    same = sum(pair.is_same_method for pair in worse)
    caption = (
        f"{len(made)} pairs of one of our methods and one of the paper's on the same data, stream, labels and budget, "
        "ours without names and memory; medians over the seeds that both have. Ours is behind by more than half a "
        f"point in {len(worse)} of them, in {same} of these against the same method of the paper."
    )
    rows = tuple(
        (
            pair.cell.data,
            _stream(pair.cell),
            "none" if pair.cell.epsilon is None else f"{pair.cell.epsilon:g}",
            LABEL_NAMES[pair.cell.labels],
            f"{catalogue.entry(pair.cell.learner).title}, {pair.ours:.1f}",
            f"{_method(pair)}, {pair.paper:.1f}",
            f"{pair.points:.1f}",
            f"{len(pair.mine)}",
            pair.reason,
        )
        for pair in worse
    )
    columns = ("data", "stream", "epsilon", "labels", "ours", "the paper's", "points", "seeds", "reason")
    notes = [_OF_THE_RULE] if any(pair.by_rule is not None for pair in worse) else []
    notes += [_OF_SEEDS] if any(DOES_NOT_TELL in pair.reason for pair in worse) else []
    notes += [_OF_STAND_INS] if any(catalogue.stand_in(run) != run for run in map(_papers, worse)) else []
    alone = Counter(map(_kind, set(_ours(found)) - {pair.cell for pair in made if pair.is_same_method}))
    if alone:
        listed = "; ".join(f"{count} x {kind}" for kind, count in sorted(alone.items()))
        notes.append(f"Without a partner of the same method, so that nothing can be said: {listed}.")
    return Table("Where ours is behind the paper's method", caption, columns, rows, tuple(notes))


def _papers(pair: Pair) -> Run:
    """The paper's run in the place of ours."""
    return replace(pair.cell, learner=pair.theirs, adapter=pair.adapter)


def _kind(run: Run) -> str:
    """What a cell is, whatever its stream and budget."""
    through = [run.adapter] if run.adapter != Run.adapter else []
    return ", ".join([run.data, catalogue.entry(run.learner).title, *through, LABEL_NAMES[run.labels]])


def _method(pair: Pair) -> str:
    """The paper's method, with where it trains if ours trains elsewhere."""
    title = catalogue.entry(pair.theirs).title
    return title if pair.adapter == pair.cell.adapter else f"{title}, {pair.adapter}"


def _stream(run: Run) -> str:
    parts = [f"ratio {run.ratio:g}" if run.ratio else "disjoint", f"{run.tasks} tasks"]
    parts += [f"persons in {run.persons} tasks"] if run.persons != 1 else []
    return ", ".join([*parts, *([run.adapter] if run.adapter != Run.adapter else [])])
