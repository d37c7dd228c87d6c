"""Where ours is behind: every learner of ours against every method of the paper, in every cell that has both.

A cell is the same data, stream, labels and budget. Where the paper's method splits its budget, the best of the shares
that were run is taken, as the paper takes it: with a look at the test data. Ours is compared in every way that was run:
the head alone and through the encoder, with names and memory and without.

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
from reticent.lab.bench.run import FILM, LAST_LAYER, MEMORIES, Results, Run
from reticent.lab.bench.typeset import Table

MARGIN = 0.5  # points of accuracy, or of forgetting
OTHER_METHOD = "another method"
OTHER_ADAPTER = {FILM: "theirs trains through the encoder", LAST_LAYER: "theirs trains the head alone"}
CHOOSE, CLOSEST = "choose {} there, {:.1f}", "of ours {} comes closest, {:.1f}"
RULE = "the rule that joins heads: argmax on the same heads has {:.1f}"
EVEN = "each task has all labels: adding sums up is right there, and weighing tasks by evidence costs"
ONE_SEED = "not explained: one seed, so no test is possible"
SEEDS = "behind in {} of {} seeds, mean difference {:+.1f} (95 % interval {:+.1f} to {:+.1f})"
TELLS, DOES_NOT_TELL = "not explained", "no difference that these seeds show"
_OF_THE_RULE = (
    "The rule that joins heads: pooled adds up a label's rows of all tasks, each weighed by how likely the task has "
    "the label, as far as the energy of its rows shows. Labels that come back gain by it. It loses to the paper's "
    "argmax, which compares each task's row with the input at hand, where the energy does not show the task: under "
    "very strong noise, and where labels are few. Without privacy it loses since it evens out lengths and takes off a "
    "direction that tell labels apart there (benchmarks/joining_heads.py). Say aggregate=argmax there, when a model is "
    "made or loaded; neither rule costs privacy."
)
_OF_SEEDS = (
    "No difference that these seeds show: chance may put one median below the other; a mean difference is ours minus "
    "the paper's. Cells of Cosine were measured with more seeds, and both ways to join sums on the same sums: "
    "docs/reproducing-the-paper.md says what was found."
)
_OF_STAND_INS = (
    "With public labels the noisy total of the paper's Cosine does not depend on the tasks that examples are in: among "
    "10 times as many labels and more, the disjoint stream of ten tasks is measured for all ratios."
)


class Measured(NamedTuple):
    """What one run has, in percent: accuracy, that of the same heads under `argmax`, forgetting; None: not measured."""

    accuracy: float
    by_argmax: float | None = None
    forgetting: float | None = None


BySeed = Mapping[int, Measured]


@dataclass(frozen=True)
class Pair:
    """Ours beside a method of the paper, in one cell.

    Args:
        cell: A run of ours in it.
        theirs: The name of the paper's method.
        adapter: Where the paper's method trains.
        mine: Ours in the seeds that both have.
        other: The paper's in the same.
        instead: The best that ours has in the cell without names and memory, over those of these seeds that were run,
            and what it is; None where nothing of that kind was run.
    """

    cell: Run
    theirs: str
    adapter: str
    mine: tuple[Measured, ...]
    other: tuple[Measured, ...]
    instead: tuple[float, str] | None = None

    @property
    def ours(self) -> float:
        """Median accuracy of ours."""
        return statistics.median(one.accuracy for one in self.mine)

    @property
    def paper(self) -> float:
        """Median accuracy of the paper's."""
        return statistics.median(one.accuracy for one in self.other)

    @property
    def points(self) -> float:
        """How far ours is behind; negative where it leads."""
        return self.paper - self.ours

    @property
    def forgets_more(self) -> float | None:
        """How many points more ours forgets; None where it was not measured of both."""
        both = [[one.forgetting for one in part if one.forgetting is not None] for part in (self.mine, self.other)]
        return statistics.median(both[0]) - statistics.median(both[1]) if all(both) else None

    @property
    def is_same_method(self) -> bool:
        """Whether both are of one family, such as Cosine."""
        return catalogue.entry(self.cell.learner).family == catalogue.entry(self.theirs).family

    @property
    def is_alike(self) -> bool:
        """Whether both are of one family, train in the same place, and ours has neither names nor memory."""
        return self.is_same_method and self.adapter == self.cell.adapter and _is_plain(self.cell)

    @property
    def reason(self) -> str:
        """Why, where that is known."""
        if not self.is_alike and (found := self._of_settings()):
            return found
        if self.by_rule is None:
            return self._of_training([one.accuracy for one in self.mine])
        rule = RULE.format(self.by_rule)
        if self.paper - self.by_rule <= MARGIN:
            return rule
        return f"{rule}; the rest: {self._of_training([x for one in self.mine if (x := one.by_argmax) is not None])}"

    @property
    def by_rule(self) -> float | None:
        """Median accuracy of the same heads under `argmax`, where it is better by more than half a point."""
        found = _median_by_argmax(self.mine) if self.is_same_method else None
        return found if found is not None and found - self.ours > MARGIN else None

    def _of_settings(self) -> str:
        """Says in what ours differs from the paper's, and what of ours to choose instead; "" where it is not that."""
        value, name = self.instead or (-math.inf, "")
        chosen = (CHOOSE if self.paper - value <= MARGIN else CLOSEST).format(name, value) if name else ""
        if not self.is_same_method:
            return f"{OTHER_METHOD}{chosen and '; '}{chosen}"
        if self.adapter != self.cell.adapter:
            return f"{OTHER_ADAPTER[self.adapter]}{chosen and '; '}{chosen}"
        return f"{_beside(self.cell)} cost here; {chosen}" if self.paper - value <= MARGIN else ""

    def _of_training(self, mine: Sequence[float]) -> str:
        """Returns what is known of why these are behind the paper's, the rule aside."""
        apart = [a - b.accuracy for a, b in zip(mine, self.other, strict=True)]
        n = len(apart)
        if n == 1:
            return ONE_SEED
        mean, around = statistics.mean(apart), float(t.ppf(0.975, n - 1)) * statistics.stdev(apart) / math.sqrt(n)
        evenly = self.cell.blurry == _ALL and catalogue.entry(self.cell.learner).family == "cosine"
        says = EVEN if evenly else TELLS if mean + around < 0 else DOES_NOT_TELL
        return f"{says}: {SEEDS.format(sum(a < 0 for a in apart), n, mean, mean - around, mean + around)}"


_ALL = 100.0  # % of the classes are blurry
Cells = Mapping[Run, Mapping[float | None, BySeed]]  # by cell, share and seed


def pairs(results: Results) -> list[Pair]:
    """Returns all pairs of ours and the paper's.

    Example:
        >>> pairs({})
        []
    """
    return list(_pairs(_cells(results)))


def _cells(results: Results) -> Cells:
    found: dict[Run, dict[float | None, dict[int, Measured]]] = {}
    for result in results.values():
        if result["status"] == "done":
            run = Run(**result["run"])
            by_argmax, lost = result["aggregations"].get("argmax"), result["forgetting"]
            measured = Measured(accuracy_of(result), *(None if x is None else 100 * x for x in (by_argmax, lost)))
            found.setdefault(replace(run, seed=0, share=None), {}).setdefault(run.share, {})[run.seed] = measured
    return found


def _pairs(found: Cells) -> Iterator[Pair]:
    theirs = [entry.name for entry in catalogue.ENTRIES if entry.origin == catalogue.PAPER]
    for cell in _ours(found):
        for name, adapter in itertools.product(theirs, (LAST_LAYER, FILM)):
            paper = found.get(catalogue.stand_in(_plain(replace(cell, learner=name, adapter=adapter))))
            if paper is None:
                continue
            best = max(paper.values(), key=lambda by_seed: statistics.median(m.accuracy for m in by_seed.values()))
            both = sorted(found[cell][None].keys() & best.keys())
            if both:
                mine, other = (tuple(by_seed[seed] for seed in both) for by_seed in (found[cell][None], best))
                yield Pair(cell, name, adapter, mine, other, max(_ways(found, cell, both), default=None))


def _ours(found: Cells) -> list[Run]:
    return [cell for cell in found if catalogue.entry(cell.learner).origin == catalogue.OURS and None in found[cell]]


def _ways(found: Cells, cell: Run, seeds: Sequence[int]) -> Iterator[tuple[float, str]]:
    """Yields what a user of ours can choose in a cell without names and memory: its median accuracy, and its name."""
    for entry, adapter in itertools.product(catalogue.ENTRIES, (LAST_LAYER, FILM)):
        way = _plain(replace(cell, learner=entry.name, adapter=adapter))
        by_seed = found.get(way, {}).get(None, {}) if entry.origin == catalogue.OURS else {}
        made = [by_seed[seed] for seed in seeds if seed in by_seed]
        if made:
            name = entry.title if adapter == LAST_LAYER else f"{entry.title}, {adapter}"
            yield statistics.median(one.accuracy for one in made), name
            if adapter == LAST_LAYER and (by_argmax := _median_by_argmax(made)) is not None:
                yield by_argmax, f"{name} with aggregate=argmax"


def _median_by_argmax(made: Sequence[Measured]) -> float | None:
    found = [one.by_argmax for one in made if one.by_argmax is not None]
    return statistics.median(found) if found and len(found) == len(made) else None


def _plain(run: Run) -> Run:
    """The same run without names and memory, which the paper does not have."""
    return replace(run, names=False, memory=MEMORIES[0])


def _is_plain(run: Run) -> bool:
    return run == _plain(run)


# --- shown


def behind_tables(results: Results) -> tuple[Table, Table]:
    """Returns where ours is behind by more than half a point, worst first: the paper's same method, and another."""
    found = _cells(results)
    made = list(_pairs(found))
    worse = sorted((pair for pair in made if pair.points > MARGIN), key=lambda pair: -pair.points)
    same = [pair for pair in worse if pair.is_same_method]
    other = [pair for pair in worse if not pair.is_same_method]
    caption = (
        f"{len(made)} pairs of one of our methods and one of the paper's on the same data, stream, labels and budget; "
        "medians over the seeds that both have. Ours is behind by more than half a point in "
        f"{len(worse)} of them, in {len(same)} of these against the same method of the paper: this table."
    )
    notes = [_OF_THE_RULE] if any(pair.by_rule is not None for pair in same) else []
    notes += [_OF_SEEDS] if any(DOES_NOT_TELL in pair.reason for pair in same) else []
    notes += [_OF_STAND_INS] if any(catalogue.stand_in(run) != run for run in map(_papers, worse)) else []
    notes += [*_of_partners(found, made), *_of_forgetting(made)]
    words = "The rest of these pairs: a user would choose another method of ours there, where one does not lose."
    return (
        _table("Where ours is behind the paper's method", caption, same, notes),
        _table("Where ours is behind another method of the paper", words, other, []),
    )


def _table(title: str, caption: str, made: Sequence[Pair], notes: Sequence[str]) -> Table:
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
        for pair in made
    )
    columns = ("data", "stream", "epsilon", "labels", "ours", "the paper's", "points", "seeds", "reason")
    return Table(title, caption, columns, rows, tuple(notes))


def _of_partners(found: Cells, made: Sequence[Pair]) -> Iterator[str]:
    """Names the cells of ours in which nothing of the same family was run of the paper's."""
    alone = Counter(map(_kind, set(_ours(found)) - {pair.cell for pair in made if pair.is_same_method}))
    if alone:
        listed = "; ".join(f"{count} x {kind}" for kind, count in sorted(alone.items()))
        yield f"Without a partner of the same method, so that nothing can be said: {listed}."


def _of_forgetting(made: Sequence[Pair]) -> Iterator[str]:
    """Says how often ours forgets more: accuracy alone is compared above."""
    more = [points for pair in made if pair.is_alike and (points := pair.forgets_more) is not None]
    if more:
        counts = (sum(points > MARGIN for points in more), sum(points < -MARGIN for points in more))
        yield (
            f"Forgetting is no column here: of {len(more)} pairs of the same method, ours forgets more by over half a "
            f"point in {counts[0]}, less in {counts[1]}. It is counted from the best earlier accuracy, so what starts "
            "higher can lose more."
        )


def _papers(pair: Pair) -> Run:
    """The paper's run in the place of ours."""
    return _plain(replace(pair.cell, learner=pair.theirs, adapter=pair.adapter))


def _kind(run: Run) -> str:
    """What a cell is, whatever its stream and budget."""
    through = [run.adapter] if run.adapter != Run.adapter else []
    return ", ".join([run.data, catalogue.entry(run.learner).title, *through, LABEL_NAMES[run.labels]])


def _method(pair: Pair) -> str:
    """The paper's method, with where it trains if ours trains elsewhere."""
    title = catalogue.entry(pair.theirs).title
    return title if pair.adapter == pair.cell.adapter else f"{title}, {pair.adapter}"


def _beside(run: Run) -> str:
    """What ours has and the paper's does not."""
    memory = [] if run.memory == MEMORIES[0] else [f"memory ({run.memory})"]
    return " and ".join([*(["names"] if run.names else []), *memory])


def _stream(run: Run) -> str:
    parts = [f"ratio {run.ratio:g}" if run.ratio else "disjoint", f"{run.tasks} tasks"]
    parts += [f"persons in {run.persons} tasks"] if run.persons != 1 else []
    parts += [f"with {_beside(run)}"] if not _is_plain(run) else []
    return ", ".join([*parts, *([run.adapter] if run.adapter != Run.adapter else [])])
