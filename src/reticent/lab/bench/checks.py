"""What a check of a finding is: medians of some methods on one data set, compared; and findings as a table."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from reticent.lab.bench.medians import Measured, measured
from reticent.lab.bench.run import Results
from reticent.lab.bench.typeset import Table

REPRODUCED, NOT_REPRODUCED, NOT_RUN = "reproduced", "*not reproduced here*", "*not run here*"
UNDECIDED = "*too close to call*"
EPSILONS = (1.0, 8.0)
CLOSE = 0.5  # points that do not tell which of two is above the other, or varies more


@dataclass(frozen=True)
class Finding:
    """A qualitative finding of the paper, or a claim of ours, and whether it shows here."""

    claim: str
    data: str
    verdict: str
    measured: str


class Of(NamedTuple):
    """What a finding compares: the median of a learner with some labels, at epsilon 1 unless said otherwise."""

    learner: str
    labels: str = "base"
    others: Mapping[str, Any] = {}


Check = Callable[[Measured], Iterator[Finding]]
Verdict = bool | None  # None: too close to call


def checked(results: Results, checks: Sequence[Check]) -> list[Finding]:
    """Returns what some checks find on every data set that was run."""
    return [finding for at in measured(results) for check in checks for finding in check(at)]


def compared(
    claim: str,
    at: Measured,
    holds: Callable[..., Verdict],
    of: Mapping[str, Of],
    subject: str | None = None,
    *,
    of_seeds: Callable[[Sequence[float]], float | None] = statistics.median,
) -> Iterator[Finding]:
    """Yields one finding, of medians over the seeds that all its parts have.

    It yields none where its subject, the first unless said, was not run, or no spec asks for a part.
    """
    found = {name: at.by_seed(one.learner, one.labels, **one.others) for name, one in of.items()}
    asked = all(found[name] or at.asked(one.learner, one.labels, **one.others) for name, one in of.items())
    if not found[subject or next(iter(of))] or not asked:
        return
    common = set.intersection(*(set(by_seed) for by_seed in found.values() if by_seed))
    values = {
        name: of_seeds([by_seed[seed] for seed in sorted(common or by_seed)]) if by_seed else None
        for name, by_seed in found.items()
    }
    single = len(common) == 1 < max(map(len, found.values()))  # else one seed is what was asked for
    yield from judged(claim, at.data, holds, values, " (the one seed that all have)" if single else "")


def judged(
    claim: str, data: str, holds: Callable[..., Verdict], values: Mapping[str, float | None], note: str = ""
) -> Iterator[Finding]:
    """Yields one finding of numbers."""
    shown = ", ".join(f"{_said(name)} {'not run' if v is None else f'{v:.1f}'}" for name, v in values.items())
    if any(value is None for value in values.values()):
        yield Finding(claim, data, NOT_RUN, shown)
    else:
        yield Finding(claim, data, _VERDICTS[holds(*values.values())], shown + note)


_VERDICTS: Mapping[Verdict, str] = {True: REPRODUCED, False: NOT_REPRODUCED, None: UNDECIDED}


def above(first: float, second: float) -> Verdict:
    """Returns whether the first is above the second; None where they are too close to call.

    >>> [above(first, 50.0) for first in (51.0, 50.4, 49.0)]
    [True, None, False]
    """
    return None if abs(first - second) <= CLOSE else first > second


def _said(name: str) -> str:
    return name.replace("_", " ")


def table(title: str, says: str, found: Sequence[Finding]) -> Table:
    """Returns findings as a table."""
    rows = tuple((f.claim, f.data, f.measured, f.verdict) for f in found)
    return Table(title, says, ("finding", "data", "measured", "verdict"), rows)
