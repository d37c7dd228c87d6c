"""The findings of the paper, checked with its methods alone, on the results of each data set."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from scipy.stats import f_oneway

from reticent.lab.bench.checks import (
    CLOSE,
    EPSILONS,
    NOT_RUN,
    REPRODUCED,
    UNDECIDED,
    Check,
    Finding,
    Of,
    Verdict,
    above,
    checked,
    compared,
    judged,
    table,
)
from reticent.lab.bench.medians import Measured
from reticent.lab.bench.run import FILM, LAST_LAYER, Results
from reticent.lab.bench.typeset import Table
from reticent.lab.data.datasets import CIFAR100, SPLIT_CIFAR100

THEIRS = {"cosine-paper": "the paper's Cosine", "peft-paper": "the paper's PEFT"}
RATIOS = (10.0, 25.0, 50.0, 75.0, 100.0)
LIKE_THE_PAPERS = (CIFAR100, SPLIT_CIFAR100)  # classes of 500
# Thresholds are ours: the paper has words. It calls 79.0 comparable with 80.8, so the first is stricter than the paper.
_SAME = 1.0  # points of accuracy that count as no difference
_CHANCE = 0.001  # that equal means look so different: a dozen checks raise a false alarm in one of eighty pages
_MUCH_SMALLER = 0.5  # of what blurriness costs at epsilon 1: the most that it may cost at 8
_FAR_BELOW = 0.5  # of what PEFT has: the paper's Naive has 0.05 to 0.36 of it
_HEURISTIC = 10.0  # % of the budget
_SLIGHTLY = 2.0  # points of the paper's PEFT in its own tables, from a public label set to released labels


def findings(results: Results) -> list[Finding]:
    """Checks the paper's findings on every data set that was run, with the paper's methods alone.

    Example:
        >>> findings({})
        []
    """
    return checked(results, tuple(FINDINGS.values()))


def _degrades(*medians: float) -> Verdict:
    """Returns whether the last of some medians is below the first, and none well above the one before it.

    >>> [_degrades(56.0, 37.4, last) for last in (37.0, 38.0, 39.0)], _degrades(38.1, 37.9, 37.8)
    ([True, True, False], None)
    """
    rises = any(later - earlier > _SAME for earlier, later in pairwise(medians))
    return False if rises else above(medians[0], medians[-1])


def _by_ratio(learner: str, labels: str, epsilon: float, ratios: Sequence[float]) -> dict[str, Of]:
    return {f"ratio_{r:g}": Of(learner, labels, {"ratio": r, "epsilon": epsilon}) for r in ratios}


def _least_ratio(at: Measured, learner: str, labels: str) -> float:
    """Returns the least ratio of the paper's table where it is run, else the disjoint stream."""
    return 10.0 if at.asked(learner, labels, ratio=10.0) else 0.0


# --- the paper's findings, with the paper's methods


def _base_below_oracle(at: Measured) -> Iterator[Finding]:
    claim = "Base Dataset below Label Oracle (the paper's Cosine, epsilon 1)"
    both = {"base": Of("cosine-paper"), "oracle": Of("cosine-paper", "oracle")}
    yield from compared(claim, at, lambda b, o: above(o, b), both)


def _many_labels_are_free(at: Measured) -> Iterator[Finding]:
    for learner, name in THEIRS.items():
        yield from no_drop(at, learner, name)


def no_drop(at: Measured, learner: str, name: str) -> Iterator[Finding]:
    """Checks that a learner loses nothing by public labels that never occur."""
    for epsilon in EPSILONS:
        for times in ("10x", "1000x"):
            claim = f"no drop from 1x to {times} labels ({name}, epsilon {epsilon:g})"
            both = {
                f"at_{size}": Of(learner, labels, {"epsilon": epsilon})
                for size, labels in (("1x", "base"), (times, f"public-{times}"))
            }
            yield from compared(claim, at, lambda a, b: b > a - _SAME, both, f"at_{times}")


def _release_or_public(at: Measured) -> Iterator[Finding]:
    for learner, name in THEIRS.items():
        for epsilon in EPSILONS:
            claim = f"Release Labels superior or comparable to Public 1000x ({name}, epsilon {epsilon:g})"
            both = {
                said: Of(learner, labels, {"epsilon": epsilon})
                for said, labels in (("released", "released"), ("public", "public-1000x"))
            }
            yield from compared(claim, at, lambda r, p: r > p - _SAME, both)


def _little_budget_for_labels(at: Measured) -> Iterator[Finding]:
    """The paper gives the reason: its classes have many examples in a task."""
    for epsilon in EPSILONS if at.data in LIKE_THE_PAPERS else ():
        tried = at.shares("cosine-paper", epsilon=epsilon)
        small = {share: value for share, value in tried.items() if share < _HEURISTIC}
        large = {share: value for share, value in tried.items() if share >= _HEURISTIC}
        claim = f"less than 10 % of the budget suffices for the labels (the paper's Cosine, epsilon {epsilon:g})"
        if large and any(share > 2.5 for share in small):  # 2.5 % is too little in the paper's own table
            best = {"best_share_below_10_%:": max(small.values()), "best_from_10_%_on:": max(large.values())}
            yield from judged(claim, at.data, lambda s, m: s > m - _SAME, best)


def _heuristic(at: Measured) -> Iterator[Finding]:
    """The paper gives it for epsilon 1 and more, whatever the classes."""
    for epsilon in EPSILONS:
        tried = at.shares("cosine-paper", epsilon=epsilon)
        claim = f"10 % of the budget for the labels is near the best share (the paper's Cosine, epsilon {epsilon:g})"
        if len(tried) > 1 and _HEURISTIC in tried:
            best = max(tried, key=lambda share: tried[share])
            shown = {"at_10_%:": tried[_HEURISTIC], f"best,_at_{best:g}_%:": tried[best]}
            yield from judged(claim, at.data, lambda h, b: h > b - _SAME, shown)


def _best_share_is_inside(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        tried = at.shares("cosine-paper", epsilon=epsilon)
        claim = f"the least and the largest share are below the best (the paper's Cosine, epsilon {epsilon:g})"
        if len(tried) > 2:
            least, largest = tried[min(tried)], tried[max(tried)]
            shown = {f"at_{min(tried):g}_%": least, "best": max(tried.values()), f"at_{max(tried):g}_%": largest}
            yield from judged(claim, at.data, lambda low, best, high: above(best, max(low, high)), shown)


def _released_labels_cost_peft_little(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        claim = f"Release Labels costs PEFT at most {_SLIGHTLY:g} points (the paper's, epsilon {epsilon:g})"
        both = {
            said: Of("peft-paper", labels, {"epsilon": epsilon})
            for said, labels in (("released", "released"), ("public", "base"))
        }
        yield from compared(claim, at, lambda r, p: p - r <= _SLIGHTLY, both)


def _released_labels_degrade(at: Measured) -> Iterator[Finding]:
    for learner, name in THEIRS.items():
        claim = f"Release Labels degrades with blurriness ({name}, epsilon 1)"
        ratios = (_least_ratio(at, learner, "released"), 50.0, 100.0)
        yield from compared(claim, at, _degrades, _by_ratio(learner, "released", 1.0, ratios))


def _little_effect_at_eight(at: Measured) -> Iterator[Finding]:
    for learner, labels in (("cosine-paper", "released"), ("peft-paper", "released"), ("peft-paper", "base")):
        said = f"{THEIRS[learner]}, {'released' if labels == 'released' else 'public'} labels"
        claim = f"blurriness costs at epsilon 8 less than half of what it costs at 1 ({said})"
        least = _least_ratio(at, learner, labels)
        of = {
            f"ratio_{ratio:g}_at_{epsilon:g}": Of(learner, labels, {"ratio": ratio, "epsilon": epsilon})
            for epsilon in EPSILONS
            for ratio in (least, 100.0)
        }
        yield from compared(claim, at, lambda a, b, c, d: c - d < _MUCH_SMALLER * (a - b), of)


def _cosine_is_invariant(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        of = _by_ratio("cosine-paper", "base", epsilon, (0.0, 50.0, 100.0))
        seeds = [at.seeds(one.learner, one.labels, **one.others) for one in of.values()]
        claim = f"Cosine is invariant to blurriness where labels are public (the paper's, epsilon {epsilon:g})"
        yield from compared(claim, at, partial(_are_equal, seeds), of, "ratio_100")


def _are_equal(seeds: Sequence[Sequence[float]], *medians: float) -> Verdict:
    """Returns whether medians are within two points; None where they are not, and seeds do not tell that means differ.

    That is by analysis of variance, at 0.1 %.

    >>> [_are_equal([[40.0, 44.0], [40.0, last]], 42.0, last) for last in (43.0, 48.0)]
    [True, None]
    """
    if max(medians) - min(medians) <= 2 * _SAME:
        return True
    tells = all(len(one) > 1 for one in seeds) and f_oneway(*seeds).pvalue < _CHANCE
    return False if tells else None


def _peft_degrades(at: Measured) -> Iterator[Finding]:
    claim = "PEFT degrades with blurriness at epsilon 1 (the paper's, public labels)"
    of = _by_ratio("peft-paper", "base", 1.0, (0.0, 50.0, 100.0))
    yield from compared(claim, at, _degrades, of, "ratio_100")


def _ninety_labels(at: Measured) -> Iterator[Finding]:
    known = at("cosine-paper", "released", metric="known", share=2.5)
    if at.data in LIKE_THE_PAPERS and known is not None:
        claim = "about 90 of 100 labels at a share of 2.5 %"
        yield from judged(claim, at.data, lambda n: 85 <= n <= 95, {"labels": known})


def _naive_is_far_below(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        claim = f"Naive has less than half of what PEFT has (epsilon {epsilon:g})"
        both = {"naive": "naive-paper", "peft_of_the_paper": "peft-paper"}
        of = {said: Of(learner, "base", {"epsilon": epsilon}) for said, learner in both.items()}
        yield from compared(claim, at, lambda n, p: n < _FAR_BELOW * p, of)


def _desai_below(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        claim = f"Desai et al. below both methods (epsilon {epsilon:g})"
        learners = {"desai": "desai-paper", "cosine_of_the_paper": "cosine-paper", "peft_of_the_paper": "peft-paper"}
        of = {said: Of(learner, "base", {"epsilon": epsilon}) for said, learner in learners.items()}
        yield from compared(claim, at, lambda d, c, p: above(min(c, p), d), of)


def _peft_above_cosine(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        claim = f"PEFT above Cosine in disjoint streams (both the paper's, epsilon {epsilon:g})"
        yield from _peft_and_cosine(at, claim, above, "base", epsilon=epsilon)
    for ratio in (50.0, 100.0):
        claim = f"PEFT above Cosine at blurry ratio {ratio:g} (both the paper's, public labels, epsilon 8)"
        yield from _peft_and_cosine(at, claim, above, "base", epsilon=8.0, ratio=ratio)


def _cosine_above_peft_when_blurry(at: Measured) -> Iterator[Finding]:
    for labels, ratio in (("base", 100.0), ("released", 10.0), ("released", 50.0)):  # where the paper's table has it so
        said = "public" if labels == "base" else labels
        claim = f"Cosine above PEFT at blurry ratio {ratio:g} (both the paper's, {said} labels, epsilon 1)"
        yield from _peft_and_cosine(at, claim, lambda p, c: above(c, p), labels, ratio=ratio)


def _peft_and_cosine(
    at: Measured, claim: str, holds: Callable[..., Verdict], labels: str, **others: Any
) -> Iterator[Finding]:
    both = {"peft": Of("peft-paper", labels, others), "cosine": Of("cosine-paper", labels, others)}
    yield from compared(claim, at, holds, both)


def _film_above_last_layer(at: Measured) -> Iterator[Finding]:
    for epsilon in EPSILONS:
        claim = f"FiLM above the last layer (the paper's PEFT, epsilon {epsilon:g})"
        of = {a: Of("peft-paper", "base", {"epsilon": epsilon, "adapter": a}) for a in (FILM, LAST_LAYER)}
        yield from compared(claim, at, above, of)


def _varies_without_privacy(at: Measured) -> Iterator[Finding]:
    claim = "PEFT varies more over seeds without DP than at epsilon 1 (the paper's, deviation in points)"
    both = {"without": Of("peft-paper", "base", {"epsilon": None}), "epsilon_1": Of("peft-paper")}
    yield from compared(claim, at, above, both, of_seeds=_deviation)


def _varies_more_than_cosine(at: Measured) -> Iterator[Finding]:
    for epsilon in (None, *EPSILONS):
        said = "without DP" if epsilon is None else f"epsilon {epsilon:g}"
        claim = f"PEFT varies more over seeds than Cosine (both the paper's, {said}, deviation in points)"
        learners = {"peft": "peft-paper", "cosine": "cosine-paper"}
        both = {name: Of(learner, "base", {"epsilon": epsilon}) for name, learner in learners.items()}
        yield from compared(claim, at, above, both, of_seeds=_deviation)


def _deviation(seeds: Sequence[float]) -> float | None:
    return statistics.stdev(seeds) if len(seeds) > 1 else None


_THROUGH = "last layer here, FiLM in the paper"
_WHERE_RUN = "Cosine, and PEFT where it was run"
FINDINGS: Mapping[str, Check] = {
    "Labels that are updated in every task cost Cosine accuracy: Base Dataset below Label Oracle": _base_below_oracle,
    f"Releasing labels is superior or comparable to 1000 times as many public ones ({_WHERE_RUN})": _release_or_public,
    "PEFT is only slightly affected by paying for the labels": _released_labels_cost_peft_little,
    "Public labels that never occur cost nothing": _many_labels_are_free,
    "Less than 10 % of the budget suffices to release the labels, where classes are large": _little_budget_for_labels,
    "A heuristic: 10 % of the budget for the labels, from epsilon 1 on": _heuristic,
    "Too little and too much budget for the labels are suboptimal": _best_share_is_inside,
    "About 90 of 100 labels are released at a share of 2.5 %": _ninety_labels,
    "Released labels degrade with blurriness at epsilon 1": _released_labels_degrade,
    "At epsilon 8 blurriness has a much smaller effect": _little_effect_at_eight,
    "Cosine is invariant to blurriness": _cosine_is_invariant,
    f"PEFT degrades with blurriness at epsilon 1 ({_THROUGH})": _peft_degrades,
    f"Cosine is above PEFT in most blurry streams at epsilon 1 ({_THROUGH})": _cosine_above_peft_when_blurry,
    "Both methods are above Desai et al.": _desai_below,
    "Naive fine-tuning fails": _naive_is_far_below,
    f"PEFT is above Cosine in disjoint streams, and in blurry ones at epsilon 8 ({_THROUGH})": _peft_above_cosine,
    "FiLM is above the last layer alone": _film_above_last_layer,
    f"PEFT varies more over seeds than Cosine ({_THROUGH})": _varies_more_than_cosine,
    f"PEFT varies more without DP than with it ({_THROUGH})": _varies_without_privacy,
}


# --- shown


def in_short(found: Sequence[Finding]) -> str:
    """Returns how many checks show here, in one sentence; "" where there was none.

    >>> in_short([Finding("a", "d", REPRODUCED, ""), Finding("b", "d", NOT_RUN, "")])
    "1 of 1 checks of the paper's findings, on 1 data set, are reproduced here; 1 more were not run completely."
    """
    judged = [finding for finding in found if finding.verdict != NOT_RUN]
    shown = sum(finding.verdict == REPRODUCED for finding in judged)
    close = sum(finding.verdict == UNDECIDED for finding in judged)
    left = len(found) - len(judged)
    sets = len({finding.data for finding in judged})
    where = f"on {sets} data set{'s'[: sets != 1]}"
    words = f"{shown} of {len(judged)} checks of the paper's findings, {where}, are reproduced here"
    words += f", {close} are too close to call" if close else ""
    return f"{words}{f'; {left} more were not run completely' if left else ''}." if found else ""


def findings_table(found: Sequence[Finding]) -> Table:
    """Returns the paper's findings as a table."""
    says = (
        "Of the paper, tested with the paper's methods alone; medians and deviations, over the seeds that all methods "
        "of a check have. The paper has words, so thresholds are ours: *no drop*, *comparable*, *suffices* and *near* "
        f"mean less than {_SAME:g} point lost; *above*, *below* and *varies more*, by more than {CLOSE:g} points, "
        f"else it is too close to call; *degrades*, the last below the first, and no rise by more than {_SAME:g} point "
        f"between; *slightly*, at most {_SLIGHTLY:g} points, what the paper's own tables have; "
        f"*invariant*, medians within {2 * _SAME:g} points, and too close to call where an analysis of variance does "
        f"not tell means apart at {100 * _CHANCE:g} %. The next table has our own claims."
    )
    return table("Findings of the paper", says, found)
