"""The findings of the paper, each checked on the results of every data set."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.lab.bench.run import LAST_LAYER, TASKS, Results
from reticent.lab.bench.typeset import Table
from reticent.lab.data.datasets import NAMES

REPRODUCED, NOT_REPRODUCED, NOT_RUN = "reproduced", "*not reproduced here*", "*not run here*"
RATIOS = (10.0, 25.0, 50.0, 75.0, 100.0)
_SAME = 1.0  # points of accuracy that count as no difference, as between the paper's columns


@dataclass(frozen=True)
class Finding:
    """A qualitative finding of the paper, and whether it shows here."""

    claim: str
    data: str
    verdict: str
    measured: str


@dataclass(frozen=True)
class Measured:
    """Medians over seeds of what was run on one data set."""

    results: Results
    data: str

    def __call__(self, learner: str, labels: str = "base", *, metric: str = "accuracy", **others: Any) -> float | None:
        """Returns the median, of the best share where several were tried and none is asked for; None if not run."""
        wanted = {"epsilon": 1.0, "ratio": 0.0, "adapter": LAST_LAYER, "tasks": TASKS, **others}
        found: dict[float | None, list[float]] = {}
        for result in self.results.values():
            run = result["run"]
            same = (run["data"], run["learner"], run["labels"]) == (self.data, learner, labels)
            if same and result["status"] == "done" and all(run[key] == value for key, value in wanted.items()):
                found.setdefault(run["share"], []).append(result[metric])
        scale = 1 if metric == "known" else 100
        return max((scale * statistics.median(values) for values in found.values()), default=None)


def findings(results: Results) -> list[Finding]:
    """Checks the paper's findings on every data set that was run.

    Example:
        >>> findings({})
        []
    """
    names = dict.fromkeys(result["run"]["data"] for result in results.values())
    return [
        finding for name in names if name in NAMES for check in CHECKS for finding in check(Measured(results, name))
    ]


def _compared(claim: str, data: str, holds: Callable[..., bool], **values: float | None) -> Iterator[Finding]:
    """Yields one finding; none where nothing of it was run."""
    shown = ", ".join(
        f"{name.replace('_', ' ')} {'not run' if value is None else f'{value:.1f}'}" for name, value in values.items()
    )
    if all(value is None for value in values.values()):
        return
    if any(value is None for value in values.values()):
        yield Finding(claim, data, NOT_RUN, shown)
    else:
        yield Finding(claim, data, REPRODUCED if holds(*values.values()) else NOT_REPRODUCED, shown)


def _base_below_oracle(at: Measured) -> Iterator[Finding]:
    base, oracle = at("cosine-paper"), at("cosine-paper", "oracle")
    claim = "Base Dataset below Label Oracle (the paper's Cosine, epsilon 1)"
    yield from _compared(claim, at.data, lambda b, o: b < o, base=base, oracle=oracle)


def _many_labels_are_free(at: Measured) -> Iterator[Finding]:
    for learner, name in (("cosine-paper", "the paper's Cosine"), ("cosine", "our Cosine")):
        for epsilon in (1.0, 8.0):
            one, many = (at(learner, labels, epsilon=epsilon) for labels in ("base", "public-1000x"))
            claim = f"no drop from 1x to 1000x labels ({name}, epsilon {epsilon:g})"
            if many is not None:
                yield from _compared(claim, at.data, lambda a, b: b > a - _SAME, at_1x=one, at_1000x=many)


def _blurriness(at: Measured) -> Iterator[Finding]:
    paper, ours = (
        {ratio: at(learner, "released", ratio=ratio) for ratio in (0.0, *RATIOS)}
        for learner in ("cosine-paper", "cosine")
    )
    claim = "Release Labels degrades with blurriness (the paper's Cosine, epsilon 1)"
    ends = {"ratio_10": paper[10.0], "ratio_50": paper[50.0], "ratio_100": paper[100.0]}
    yield from _compared(claim, at.data, lambda a, b, c: a > b > c, **ends)
    pairs = {
        "blurriness costs ours less than the paper's at every ratio (released, epsilon 1; points lost)": {
            ratio: (_difference(ours[0.0], ours[ratio]), _difference(paper[0.0], paper[ratio])) for ratio in RATIOS
        },
        "ours is above the paper's at every ratio (released, epsilon 1)": {
            ratio: (paper[ratio], ours[ratio]) for ratio in RATIOS
        },
    }
    for claim, by_ratio in pairs.items():
        if all(value is None for pair in by_ratio.values() for value in pair):
            continue
        known = {ratio: (low, high) for ratio, (low, high) in by_ratio.items() if low is not None and high is not None}
        verdict = REPRODUCED if all(low < high for low, high in known.values()) else NOT_REPRODUCED
        shown = ", ".join(f"{ratio:g}: {low:.1f} < {high:.1f}" for ratio, (low, high) in known.items() if low < high)
        against = ", ".join(f"{ratio:g}: {low:.1f} > {high:.1f}" for ratio, (low, high) in known.items() if low >= high)
        measured = f"{shown}; but {against}" if shown and against else shown or against
        yield Finding(claim, at.data, verdict if len(known) == len(by_ratio) else NOT_RUN, measured)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else before - after


def _ninety_labels(at: Measured) -> Iterator[Finding]:
    if at.data != "cifar100-features":  # classes of 500, as in the paper
        return
    known = at("cosine-paper", "released", metric="known", share=2.5)
    yield from _compared("about 90 of 100 labels at a share of 2.5 %", at.data, lambda n: 85 <= n <= 95, labels=known)


def _naive_collapses(at: Measured) -> Iterator[Finding]:
    for epsilon in (1.0, 8.0):
        naive, peft = (at(learner, epsilon=epsilon) for learner in ("naive", "peft"))
        claim = f"Naive collapses: less than two thirds of PEFT (epsilon {epsilon:g})"
        if naive is not None:
            yield from _compared(claim, at.data, lambda n, p: n < 2 / 3 * p, naive=naive, peft=peft)


def _desai_below(at: Measured) -> Iterator[Finding]:
    for epsilon in (1.0, 8.0):
        values = {learner: at(learner, epsilon=epsilon) for learner in ("desai", "cosine-paper", "peft")}
        claim = f"Desai et al. below both methods (epsilon {epsilon:g})"
        if values["desai"] is not None:
            yield from _compared(
                claim,
                at.data,
                lambda d, c, p: d < min(c, p),
                desai=values["desai"],
                cosine_of_the_paper=values["cosine-paper"],
                peft=values["peft"],
            )


def _peft_above_cosine(at: Measured) -> Iterator[Finding]:
    for epsilon in (1.0, 8.0):
        peft, cosine = at("peft", epsilon=epsilon), at("cosine-paper", epsilon=epsilon)
        claim = f"PEFT above the paper's Cosine (epsilon {epsilon:g}, last layer)"
        if peft is not None:
            yield from _compared(claim, at.data, lambda p, c: p > c, peft=peft, cosine_of_the_paper=cosine)


CHECKS: tuple[Callable[[Measured], Iterator[Finding]], ...] = (
    _base_below_oracle,
    _many_labels_are_free,
    _blurriness,
    _ninety_labels,
    _naive_collapses,
    _desai_below,
    _peft_above_cosine,
)


def in_short(found: Sequence[Finding]) -> str:
    """Returns how many findings show here, in one sentence; "" where none was checked.

    >>> in_short([Finding("a", "d", REPRODUCED, ""), Finding("b", "d", NOT_RUN, "")])
    '1 of 1 findings of the paper that were checked here are reproduced; 1 more were not run completely.'
    """
    checked = [finding for finding in found if finding.verdict != NOT_RUN]
    shown = sum(finding.verdict == REPRODUCED for finding in checked)
    left = len(found) - len(checked)
    words = f"{shown} of {len(checked)} findings of the paper that were checked here are reproduced"
    return f"{words}{f'; {left} more were not run completely' if left else ''}." if found else ""


def findings_table(found: Sequence[Finding]) -> Table:
    """Returns the findings as a table."""
    rows = tuple((f.claim, f.data, f.measured, f.verdict) for f in found)
    return Table(
        "Findings",
        "The paper's, and ours beside them; medians over seeds.",
        ("finding", "data", "measured", "verdict"),
        rows,
    )
