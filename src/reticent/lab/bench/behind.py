"""Where ours is behind: every learner of ours against every method of the paper, in every cell that has both.

A cell is the same data, stream, labels and budget. Where the paper's method splits its budget, the best share is taken,
as the paper takes it: with a look at the test data, so the comparison favours the paper's.
"""

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from scipy.stats import t

from reticent.lab.bench import catalogue
from reticent.lab.bench.layout import LABEL_NAMES
from reticent.lab.bench.run import MEMORIES, Results, Run
from reticent.lab.bench.typeset import Table

MARGIN = 0.5  # points of accuracy
OTHER_METHOD = "another method; choose {} there"
UNKNOWN = "not known"
CHANCE = "by chance, as far as {} seeds tell"
# What was found out: by data set and learner of ours, a name of the reason and what was measured.
REASONS = {
    ("digits", "peft"): (
        "two labels in a task",
        "Two labels in a task: a head learns what tells two digits from each other, and little of what tells them from "
        "the other eight. The paper's tuning goes down to a learning rate of 1.6e-7 there, at which a head is hardly "
        "more than class means. Public labels, epsilon 8, seeds 0 to 2: ours as it is 52.7, 57.4, 71.4 %, with "
        "learning_rate=0.001 for 0.007 76.9, 76.6, 80.0 %, the paper's 68.3, 54.9, 77.2 %. Smaller steps are no way "
        "out: with features half as long (69.7, 61.4, 73.6 %) CLINC150 at ratio 100 falls from 90.1 to 84.8 %.",
    ),
}


@dataclass(frozen=True)
class Pair:
    """Ours beside a method of the paper, in one cell.

    Args:
        cell: A run of ours in it.
        theirs: The name of the paper's method.
        ours: Median accuracy of ours, in percent.
        paper: The same of the paper's.
        differences: How far ours is behind, in the seeds that both have.
    """

    cell: Run
    theirs: str
    ours: float
    paper: float
    differences: tuple[float, ...]

    @property
    def points(self) -> float:
        """How far ours is behind; negative where it leads."""
        return self.paper - self.ours

    @property
    def is_chance(self) -> bool:
        """Whether the differences of the seeds may be 0 on average: their interval at 95 % by Student's t has it."""
        n = len(self.differences)
        if n < 2:
            return False
        error = statistics.stdev(self.differences) / math.sqrt(n)
        return abs(statistics.mean(self.differences)) <= float(t.ppf(0.975, n - 1)) * error

    @property
    def is_same_method(self) -> bool:
        """Whether both are of one family, such as Cosine."""
        return catalogue.entry(self.cell.learner).family == catalogue.entry(self.theirs).family

    @property
    def reason(self) -> str:
        """Why, where that is known."""
        if not self.is_same_method:
            return OTHER_METHOD.format(catalogue.entry(self.theirs).title)
        if self.is_chance:
            return CHANCE.format(len(self.differences))
        return REASONS.get((self.cell.data, self.cell.learner), (UNKNOWN,))[0]


def pairs(results: Results) -> list[Pair]:
    """Returns all pairs of ours and the paper's; ours without names and memory, which the paper's does not have.

    Example:
        >>> pairs({})
        []
    """
    found: dict[Run, dict[float | None, dict[int, float]]] = {}
    for result in results.values():
        run = Run(**result["run"])
        if result["status"] == "done" and not run.names and run.memory == MEMORIES[0]:
            cell = replace(run, seed=0, share=None)
            found.setdefault(cell, {}).setdefault(run.share, {})[run.seed] = 100 * result["accuracy"]
    return list(_pairs(found))


def _pairs(found: Mapping[Run, Mapping[float | None, Mapping[int, float]]]) -> Iterator[Pair]:
    theirs = [entry.name for entry in catalogue.ENTRIES if entry.origin == catalogue.PAPER]
    for cell, by_share in found.items():
        if catalogue.entry(cell.learner).origin != catalogue.OURS or None not in by_share:
            continue
        ours = by_share[None]
        for name in theirs:
            paper = found.get(catalogue.stand_in(replace(cell, learner=name)))
            if paper is not None:
                best = max(paper.values(), key=_median)
                differences = tuple(best[seed] - ours[seed] for seed in sorted(ours.keys() & best.keys()))
                yield Pair(cell, name, _median(ours), _median(best), differences)


def _median(by_seed: Mapping[int, float]) -> float:
    return statistics.median(by_seed.values())


def behind_table(results: Results) -> Table:
    """Returns the pairs in which ours is behind by more than half a point, the same method first, worst first."""
    made = pairs(results)
    worse = sorted((pair for pair in made if pair.points > MARGIN), key=lambda p: (not p.is_same_method, -p.points))
    same = sum(pair.is_same_method for pair in worse)
    caption = (
        f"{len(made)} pairs of one of our methods and one of the paper's on the same data, stream, labels and budget; "
        f"medians over seeds. Ours is behind by more than half a point in {len(worse)} of them, in {same} of these "
        "against the same method of the paper."
    )
    rows = tuple(
        (
            pair.cell.data,
            _stream(pair.cell),
            "none" if pair.cell.epsilon is None else f"{pair.cell.epsilon:g}",
            LABEL_NAMES[pair.cell.labels],
            f"{catalogue.entry(pair.cell.learner).title}, {pair.ours:.1f}",
            f"{catalogue.entry(pair.theirs).title}, {pair.paper:.1f}",
            f"{pair.points:.1f}",
            f"{len(pair.differences)}",
            pair.reason,
        )
        for pair in worse
    )
    columns = ("data", "stream", "epsilon", "labels", "ours", "the paper's", "points", "seeds", "reason")
    seen = {pair.reason for pair in worse}
    notes = tuple(said for name, said in REASONS.values() if name in seen)
    return Table("Where ours is behind the paper's method", caption, columns, rows, notes)


def _stream(run: Run) -> str:
    parts = [f"ratio {run.ratio:g}" if run.ratio else "disjoint", f"{run.tasks} tasks"]
    parts += [f"persons in {run.persons} tasks"] if run.persons != 1 else []
    return ", ".join([*parts, *([run.adapter] if run.adapter != Run.adapter else [])])
