"""The findings of the paper, checked with its methods alone, and our claims; on the results of each data set."""

import functools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from reticent.lab.bench import specs
from reticent.lab.bench.run import BLURRY, FILM, LAST_LAYER, MEMORIES, TASKS, Results
from reticent.lab.bench.typeset import Table
from reticent.lab.data.datasets import DIGITS, NAMES

REPRODUCED, NOT_REPRODUCED, NOT_RUN = "reproduced", "*not reproduced here*", "*not run here*"
HOLDS, HOLDS_NOT = "holds", "*does not hold here*"  # of our own claims
EPSILONS = (1.0, 8.0)
THEIRS = {"cosine-paper": "the paper's Cosine", "peft-paper": "the paper's PEFT"}
RATIOS = (10.0, 25.0, 50.0, 75.0, 100.0)
_SAME = 1.0  # points of accuracy that count as no difference, as between the paper's columns
_LITTLE = 5.0  # points that blurriness may cost at epsilon 8 to count as little: the paper's PEFT loses 1 to 3
TASKS_OF = {DIGITS: 5}  # ten classes: two in each task
_USUAL = {
    "ratio": 0.0,
    "adapter": LAST_LAYER,
    "tasks": TASKS,
    "names": False,
    "memory": MEMORIES[0],
    "blurry": BLURRY,
    "persons": 1,
}


@dataclass(frozen=True)
class Finding:
    """A qualitative finding of the paper, or a claim of ours, and whether it shows here."""

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
        wanted = self._wanted(others)
        found: dict[float | None, list[float]] = {}
        for result in self.results.values():
            run = result["run"]
            same = (run["data"], run["learner"], run["labels"]) == (self.data, learner, labels)
            if (
                same
                and result["status"] == "done"
                and all(run.get(key, _USUAL.get(key)) == value for key, value in wanted.items())
            ):
                found.setdefault(run["share"], []).append(result[metric])
        scale = 1 if metric == "known" else 100
        return max((scale * statistics.median(values) for values in found.values()), default=None)

    def _wanted(self, others: Mapping[str, Any]) -> dict[str, Any]:
        return {"epsilon": 1.0, **_USUAL, "tasks": TASKS_OF.get(self.data, TASKS), **others}

    def asked(self, learner: str, labels: str, **others: Any) -> bool:
        """Returns whether the specs of the package have such runs: what none asks for is not missing.

        >>> [Measured({}, data).asked("cosine-paper", "oracle") for data in ("icd10cm", "icd10cm-blocks")]
        [True, False]
        """
        wanted = {**self._wanted(others), "data": self.data, "learner": learner, "labels": labels}
        return any(all(run[key] == value for key, value in wanted.items()) for run in _offered())

    def shares(self, learner: str, **others: Any) -> dict[float, float]:
        """Returns the median accuracy of released labels by the share of the budget that pays for them."""
        tried = {
            result["run"]["share"]
            for result in self.results.values()
            if result["run"]["data"] == self.data and result["run"]["share"] is not None
        }
        found = {share: self(learner, "released", share=share, **others) for share in sorted(tried)}
        return {share: value for share, value in found.items() if value is not None}

    def spread(self, learner: str, **others: Any) -> float | None:
        """Returns the standard deviation of the accuracy over seeds, in points; None for fewer than two."""
        wanted = {**_USUAL, **others, "data": self.data, "learner": learner, "labels": "base"}
        values = [
            100 * result["accuracy"]
            for result in self.results.values()
            if result["status"] == "done"
            and all(result["run"].get(key, _USUAL.get(key)) == value for key, value in wanted.items())
        ]
        return statistics.stdev(values) if len(values) > 1 else None


@functools.cache
def _offered() -> tuple[dict[str, Any], ...]:
    """Returns the runs of the full tier and of the paper's own data, one for all seeds and shares."""
    runs = {replace(run, seed=0, share=None) for spec in specs.chosen(["all", "paper"]) for run in spec.runs}
    return tuple(map(asdict, runs))


Check = Callable[[Measured], Iterator[Finding]]


def measured(results: Results) -> list[Measured]:
    """Returns what was run, by data set, in the order of `NAMES`.

    >>> measured({})
    []
    """
    found = {result["run"]["data"] for result in results.values()}
    return [Measured(results, name) for name in NAMES if name in found]


def findings(results: Results) -> list[Finding]:
    """Checks the paper's findings on every data set that was run, with the paper's methods alone.

    Example:
        >>> findings({})
        []
    """
    return _checked(results, tuple(FINDINGS.values()))


def claims(results: Results) -> list[Finding]:
    """Checks what we claim of our methods on every data set that was run.

    Example:
        >>> claims({})
        []
    """
    words = {REPRODUCED: HOLDS, NOT_REPRODUCED: HOLDS_NOT}
    return [replace(claim, verdict=words.get(claim.verdict, claim.verdict)) for claim in _checked(results, CLAIMS)]


def _checked(results: Results, checks: Sequence[Check]) -> list[Finding]:
    return [finding for at in measured(results) for check in checks for finding in check(at)]


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


def _ratios(at: Measured, learner: str, labels: str, epsilon: float) -> dict[str, float | None]:
    """Accuracy where all is disjoint, half is blurry, and blurry examples are everywhere."""
    return {f"ratio_{r:g}": at(learner, labels, ratio=r, epsilon=epsilon) for r in (0.0, 50.0, 100.0)}


# --- the paper's findings, with the paper's methods


def _base_below_oracle(at: Measured) -> Iterator[Finding]:
    base, oracle = at("cosine-paper"), at("cosine-paper", "oracle")
    claim = "Base Dataset below Label Oracle (the paper's Cosine, epsilon 1)"
    if at.asked("cosine-paper", "oracle"):
        yield from _compared(claim, at.data, lambda b, o: b < o, base=base, oracle=oracle)


def _many_labels_are_free(at: Measured) -> Iterator[Finding]:
    for learner, name in THEIRS.items():
        yield from _no_drop(at, learner, name)


def _no_drop(at: Measured, learner: str, name: str) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        one, many = (at(learner, labels, epsilon=epsilon) for labels in ("base", "public-1000x"))
        claim = f"no drop from 1x to 1000x labels ({name}, epsilon {epsilon:g})"
        if many is not None:
            yield from _compared(claim, at.data, lambda a, b: b > a - _SAME, at_1x=one, at_1000x=many)


def _release_at_least_public(at: Measured) -> Iterator[Finding]:
    for learner, name in THEIRS.items():
        for epsilon in EPSILONS:
            released, public = (at(learner, labels, epsilon=epsilon) for labels in ("released", "public-1000x"))
            claim = f"Release Labels superior or comparable to Public 1000x ({name}, epsilon {epsilon:g})"
            if released is not None and public is not None:
                yield from _compared(claim, at.data, lambda r, p: r > p - _SAME, released=released, public=public)


def _little_budget_for_labels(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        tried = at.shares("cosine-paper", epsilon=epsilon)
        small = max((value for share, value in tried.items() if share < 10), default=None)
        large = max((value for share, value in tried.items() if share >= 10), default=None)
        claim = f"less than 10 % of the budget suffices for the labels (the paper's Cosine, epsilon {epsilon:g})"
        if small is not None and large is not None:
            yield from _compared(claim, at.data, lambda s, m: s > m - _SAME, below_10=small, from_10_on=large)


def _released_labels_degrade(at: Measured) -> Iterator[Finding]:
    for learner, name in THEIRS.items():
        claim = f"Release Labels degrades with blurriness ({name}, epsilon 1)"
        least = 10.0 if at.asked(learner, "released", ratio=10.0) else 0.0  # as in the paper's table, where it is run
        ends = {f"ratio_{r:g}": at(learner, "released", ratio=r) for r in (least, 50.0, 100.0)}
        yield from _compared(claim, at.data, lambda a, b, c: a > b > c, **ends)


def _cosine_is_invariant(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        by_ratio = _ratios(at, "cosine-paper", "base", epsilon)
        claim = f"Cosine is invariant to blurriness where labels are public (the paper's, epsilon {epsilon:g})"
        if by_ratio["ratio_100"] is not None:
            yield from _compared(claim, at.data, lambda *v: max(v) - min(v) <= 2 * _SAME, **by_ratio)


def _peft_degrades(at: Measured) -> Iterator[Finding]:
    strict, loose = (_ratios(at, "peft-paper", "base", epsilon) for epsilon in EPSILONS)
    claim = "PEFT degrades with blurriness at epsilon 1 (the paper's, public labels)"
    yield from _compared(claim, at.data, lambda a, b, c: a > b > c, **strict)
    claim = "blurriness hardly matters for PEFT at epsilon 8 (the paper's, public labels)"
    yield from _compared(claim, at.data, lambda a, b, c: max(a - b, a - c) < _LITTLE, **loose)


def _ninety_labels(at: Measured) -> Iterator[Finding]:
    if at.data != "cifar100-features":  # classes of 500, as in the paper
        return
    known = at("cosine-paper", "released", metric="known", share=2.5)
    yield from _compared("about 90 of 100 labels at a share of 2.5 %", at.data, lambda n: 85 <= n <= 95, labels=known)


def _naive_collapses(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        naive, peft = (at(learner, epsilon=epsilon) for learner in ("naive-paper", "peft-paper"))
        claim = f"Naive collapses: less than two thirds of PEFT (epsilon {epsilon:g})"
        if naive is not None:
            yield from _compared(claim, at.data, lambda n, p: n < 2 / 3 * p, naive=naive, peft_of_the_paper=peft)


def _desai_below(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        desai, cosine, peft = (at(learner, epsilon=epsilon) for learner in ("desai-paper", *THEIRS))
        claim = f"Desai et al. below both methods (epsilon {epsilon:g})"
        if desai is not None:
            both = {"cosine_of_the_paper": cosine, "peft_of_the_paper": peft}
            yield from _compared(claim, at.data, lambda d, c, p: d < min(c, p), desai=desai, **both)


def _peft_above_cosine(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        peft, cosine = (at(learner, epsilon=epsilon) for learner in ("peft-paper", "cosine-paper"))
        claim = f"PEFT above Cosine in disjoint streams (both the paper's, epsilon {epsilon:g}, last layer)"
        if peft is not None:
            yield from _compared(claim, at.data, lambda p, c: p > c, peft=peft, cosine=cosine)


def _cosine_above_peft_when_blurry(at: Measured) -> Iterator[Finding]:
    for ratio in (50.0, 100.0):
        cosine, peft = (at(learner, "base", ratio=ratio) for learner in THEIRS)
        claim = f"Cosine above PEFT at blurry ratio {ratio:g} (both the paper's, public labels, epsilon 1)"
        if peft is not None:
            yield from _compared(claim, at.data, lambda c, p: c > p, cosine=cosine, peft=peft)


def _film_above_last_layer(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        film, last = (at("peft-paper", epsilon=epsilon, adapter=adapter) for adapter in (FILM, LAST_LAYER))
        claim = f"FiLM above the last layer (the paper's PEFT, epsilon {epsilon:g})"
        if film is not None:
            yield from _compared(claim, at.data, lambda f, n: f > n, film=film, last_layer=last)


def _varies_without_privacy(at: Measured) -> Iterator[Finding]:
    without, strict = (at.spread("peft-paper", epsilon=epsilon) for epsilon in (None, 1.0))
    claim = "PEFT varies more over seeds without DP than with it (the paper's, deviation in points)"
    if without is not None:
        yield from _compared(claim, at.data, lambda w, s: w > s, without=without, epsilon_1=strict)


FINDINGS: Mapping[str, Check] = {
    "Labels that are updated in every task cost accuracy: Base Dataset below Label Oracle": _base_below_oracle,
    "Releasing labels is superior or comparable to a public set of 1000 times the size": _release_at_least_public,
    "Public labels that never occur cost nothing": _many_labels_are_free,
    "Less than 10 % of the budget suffices to release the labels": _little_budget_for_labels,
    "About 90 of 100 labels are released at a share of 2.5 %": _ninety_labels,
    "Released labels degrade with blurriness at epsilon 1": _released_labels_degrade,
    "Cosine is invariant to blurriness": _cosine_is_invariant,
    "PEFT degrades with blurriness at epsilon 1 and hardly at 8": _peft_degrades,
    "Cosine is above PEFT in blurry streams at epsilon 1": _cosine_above_peft_when_blurry,
    "Both methods are above Desai et al.": _desai_below,
    "Naive fine-tuning collapses": _naive_collapses,
    "PEFT is above Cosine in disjoint streams": _peft_above_cosine,
    "FiLM is above the last layer alone": _film_above_last_layer,
    "PEFT varies more over seeds without DP": _varies_without_privacy,
}


# --- our claims


def _ours_has_no_drop(at: Measured) -> Iterator[Finding]:
    yield from _no_drop(at, "cosine", "our Cosine")


def _ours_when_blurry(at: Measured) -> Iterator[Finding]:
    ratios = [ratio for ratio in RATIOS if at.asked("cosine", "released", ratio=ratio)]
    paper, ours = (
        {ratio: at(learner, "released", ratio=ratio) for ratio in (0.0, *ratios)}
        for learner in ("cosine-paper", "cosine")
    )
    pairs = {
        "blurriness costs ours less than the paper's at every ratio (released, epsilon 1; points lost)": {
            ratio: (_difference(ours[0.0], ours[ratio]), _difference(paper[0.0], paper[ratio])) for ratio in ratios
        },
        "ours is above the paper's at every ratio (released, epsilon 1)": {
            ratio: (paper[ratio], ours[ratio]) for ratio in ratios
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


def _ours_not_behind(at: Measured) -> Iterator[Finding]:
    for ours, theirs, name in (("cosine", "cosine-paper", "Cosine"), ("peft", "peft-paper", "PEFT")):
        for epsilon in EPSILONS:
            mine, paper = at(ours, epsilon=epsilon), at(theirs, epsilon=epsilon)
            claim = f"our {name} is not behind the paper's by half a point (public labels, epsilon {epsilon:g})"
            if mine is not None:
                yield from _compared(claim, at.data, lambda m, p: m > p - 0.5, ours=mine, of_the_paper=paper)


CLAIMS: tuple[Check, ...] = (_ours_not_behind, _ours_has_no_drop, _ours_when_blurry)


# --- shown


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
    """Returns the paper's findings as a table."""
    says = "Of the paper, tested with the paper's methods alone; medians over seeds. The next table has our own claims."
    return _table("Findings of the paper", says, found)


def claims_table(found: Sequence[Finding]) -> Table:
    """Returns our claims as a table."""
    return _table("Our claims", "Of our methods beside the paper's, where both were run; medians over seeds.", found)


def _table(title: str, says: str, found: Sequence[Finding]) -> Table:
    rows = tuple((f.claim, f.data, f.measured, f.verdict) for f in found)
    return Table(title, says, ("finding", "data", "measured", "verdict"), rows)
