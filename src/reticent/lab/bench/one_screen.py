"""What to take away from many runs, on one screen: in sentences, and the paper's method beside ours."""

import statistics
from collections.abc import Iterator, Sequence

from reticent.lab.bench import catalogue
from reticent.lab.bench.behind import MARGIN, Pair, pairs
from reticent.lab.bench.checks import EPSILONS
from reticent.lab.bench.chosen import CHOSE_NOTHING
from reticent.lab.bench.findings import findings, in_short
from reticent.lab.bench.medians import Measured, measured
from reticent.lab.bench.run import Results
from reticent.lab.bench.typeset import Table

_LEARNERS = {
    "Cosine, the paper's": "cosine-paper",
    "Cosine, ours": "cosine",
    "PEFT, the paper's": "peft-paper",
    "PEFT, ours": "peft",
}
_LABELS = {"base": "public", "released": "released"}


def one_screen(results: Results) -> Table:
    """Returns accuracy after the last of disjoint tasks, for each data set, epsilon and label policy that was run.

    Example:
        >>> one_screen({}).rows
        ()
    """
    rows = []
    for at in measured(results):
        for labels, said in _LABELS.items():
            found = [_entry(at, learner, labels) for learner in _LEARNERS.values()]
            if any(entry != _NONE for entry in found):
                rows.append((at.data, said, *found))
    caption = (
        "Average accuracy after the last of ten disjoint tasks (digits, alone and with photographs: five) at epsilon 1 "
        "/ 8, %; median over all seeds that were run, where a table below has the seeds of its experiment alone. Of "
        "the shares of the budget that were run with the paper's split, the best. *Public*: the labels of the data set "
        "are the public ones (the paper's Base Dataset)."
    )
    return Table("On one screen", caption, ("data", "labels", *_LEARNERS), tuple(rows))


_NONE = "-"


def _entry(at: Measured, learner: str, labels: str) -> str:
    found = [at(learner, labels, epsilon=epsilon) for epsilon in EPSILONS]
    if all(value is None for value in found):
        return _NONE
    return " / ".join(_NONE if value is None else f"{value:.1f}" for value in found)


def takeaways(results: Results) -> list[str]:
    """Returns what to take away, in a few sentences.

    Example:
        >>> takeaways({})
        []
    """
    short = in_short(findings(results))
    compared = [pair for pair in pairs(results) if pair.is_alike]
    return [*([short] if short else []), *_of_pairs(compared)]


def _of_pairs(compared: Sequence[Pair]) -> Iterator[str]:
    """Says how ours does against the same method of the paper."""
    for learner in ("cosine", "peft"):
        mine = [pair for pair in compared if pair.cell.learner == learner]
        if not mine:
            continue
        worse = [pair for pair in mine if pair.points > MARGIN]
        ahead = sum(pair.points < -MARGIN for pair in mine)
        words = f"Our {catalogue.entry(learner).title} against the paper's, {len(mine)} settings: ahead by more than "
        words += f"half a point in {ahead}, behind by as much in {len(worse)}{_gains(mine)}."
        ruled = [pair for pair in worse if pair.by_rule is not None and pair.paper - pair.by_rule <= MARGIN]
        if ruled:
            words += f" In {len(ruled)} of these {len(worse)} the same heads are not behind under the paper's argmax."
        yield words
    unseen = [pair for pair in compared if pair.cell.data in CHOSE_NOTHING]
    if unseen:
        behind = sum(pair.points > MARGIN for pair in unseen)
        words = f"On data that no default of ours was chosen on ({', '.join(CHOSE_NOTHING)}), {len(unseen)} settings: "
        yield f"{words}behind in {behind}{_gains(unseen)}."


def _gains(compared: Sequence[Pair]) -> str:
    """Says the median difference at each epsilon."""
    by_epsilon = {e: [-pair.points for pair in compared if pair.cell.epsilon == e] for e in EPSILONS}
    said = [f"{statistics.median(points):+.1f} at epsilon {e:g}" for e, points in by_epsilon.items() if points]
    return f"; the median difference is {' and '.join(said)}" if said else ""
