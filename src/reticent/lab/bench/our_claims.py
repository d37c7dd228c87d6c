"""What we claim of our methods beside the paper's, checked on the results of each data set."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from reticent.lab.bench.checks import (
    EPSILONS,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    Check,
    Finding,
    Of,
    checked,
    compared,
    table,
)
from reticent.lab.bench.findings import RATIOS, no_drop
from reticent.lab.bench.medians import Measured
from reticent.lab.bench.run import Results
from reticent.lab.bench.typeset import Table

HOLDS, HOLDS_NOT = "holds", "*does not hold here*"


def claims(results: Results) -> list[Finding]:
    """Checks what we claim of our methods on every data set that was run.

    Example:
        >>> claims({})
        []
    """
    words = {REPRODUCED: HOLDS, NOT_REPRODUCED: HOLDS_NOT}
    return [replace(claim, verdict=words.get(claim.verdict, claim.verdict)) for claim in checked(results, CLAIMS)]


def claims_table(found: Sequence[Finding]) -> Table:
    """Returns our claims as a table."""
    says = (
        "Of our methods beside the paper's, where both were run; medians over the seeds that all of a check have, "
        "of the two claims on blurriness over all seeds of each."
    )
    return table("Our claims", says, found)


def _ours_has_no_drop(at: Measured) -> Iterator[Finding]:
    yield from no_drop(at, "cosine", "our Cosine")


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
            claim = f"our {name} is not behind the paper's by half a point (public labels, epsilon {epsilon:g})"
            both = {"ours": ours, "of_the_paper": theirs}
            of = {said: Of(learner, "base", {"epsilon": epsilon}) for said, learner in both.items()}
            yield from compared(claim, at, lambda m, p: m > p - 0.5, of)


CLAIMS: tuple[Check, ...] = (_ours_not_behind, _ours_has_no_drop, _ours_when_blurry)
