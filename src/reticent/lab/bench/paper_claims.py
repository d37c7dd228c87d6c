"""The paper's claims, one line each: reproduced here, not reproduced, or not to be tested here."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from reticent.lab.bench.checks import NOT_REPRODUCED, NOT_RUN, REPRODUCED, UNDECIDED, Check, Finding
from reticent.lab.bench.findings import FINDINGS
from reticent.lab.bench.label_experiments import DROP_DELTA
from reticent.lab.bench.medians import Measured, measured
from reticent.lab.bench.run import Results
from reticent.lab.bench.typeset import Table
from reticent.lab.data.datasets import FIVE_DATASETS, SPLIT_CIFAR100, SPLIT_IMAGENET_R
from reticent.privacy import selection

IN_PART, MOSTLY_NOT, UNTESTABLE = "in part", "*mostly not*", "*cannot be tested here*"
SMALL, MOSTLY = 12, 0.99  # the paper's second figure: "fewer than 13 samples", at epsilon 1 and its delta
# What needs the paper's own data or encoder; `reticent bench paper` has it, for a machine with a network and a GPU.
ELSEWHERE: Mapping[str, str] = {
    "Heights of all tables (ViT-B/16 on Split-CIFAR-100, ImageNet-R, 5-Datasets)": "weights and images: not offline",
    "Under a large domain shift PEFT is the only option": "the paper's PEFT through ViT-B/16 on 5-Datasets",
}


def summary(results: Results) -> Table:
    """Returns the paper's claims with how many checks on how many data sets show them.

    Example:
        >>> [row[-1] for row in summary({}).rows][-1]
        '*cannot be tested here*'
    """
    at = measured(results)
    rows = [(claim, *_shown(check, at)) for claim, check in FINDINGS.items()]
    rows.append(_small_classes_are_dropped())
    if not {one.data for one in at} & {SPLIT_CIFAR100, SPLIT_IMAGENET_R, FIVE_DATASETS}:
        rows += [(claim, reason, UNTESTABLE) for claim, reason in ELSEWHERE.items()]
    says = (
        "Each tested with the paper's methods alone, on every data set that has what it takes; *Findings of the paper* "
        "has every check. *Reproduced*: in all checks that are not too close to call; *in part*, in half of them or "
        "more; *mostly not*, in fewer; *not reproduced here*, in none."
    )
    return Table("The paper's claims", says, ("claim", "checks", "verdict"), tuple(rows))


def _shown(check: Check, measured: list[Measured]) -> tuple[str, str]:
    found = [finding for at in measured for finding in check(at)]
    verdicts = Counter(finding.verdict for finding in found)
    decided = verdicts[REPRODUCED] + verdicts[NOT_REPRODUCED]
    if not decided + verdicts[UNDECIDED]:
        return "", NOT_RUN
    words = f"{verdicts[REPRODUCED]} of {decided + verdicts[UNDECIDED]}"
    words += f"; {verdicts[UNDECIDED]} too close to call" if verdicts[UNDECIDED] else ""
    words += f"; {verdicts[NOT_RUN]} not run" if verdicts[NOT_RUN] else ""
    return f"{words}{_where(found)}", _verdict(verdicts[REPRODUCED] / decided) if decided else UNDECIDED


def _verdict(share: float) -> str:
    """Returns the verdict on a claim from the share of its checks that show it.

    >>> [_verdict(share) for share in (1.0, 0.5, 0.4, 0.0)]
    ['reproduced', 'in part', '*mostly not*', '*not reproduced here*']
    """
    if share in (0.0, 1.0):
        return REPRODUCED if share else NOT_REPRODUCED
    return IN_PART if share >= 0.5 else MOSTLY_NOT


def _small_classes_are_dropped() -> tuple[str, str, str]:
    """The lower bound on the chance that a label is dropped, by any mechanism; exact, and nothing is run for it."""
    kept = selection.upper_bound(np.arange(1, SMALL + 1), 1.0, DROP_DELTA)
    least = 1 - float(kept.max())
    claim = f"Classes with fewer than {SMALL + 1} examples are dropped with a chance of 99 % or more"
    words = f"exact, epsilon 1, delta {DROP_DELTA:g}: at least {100 * least:.2f} %"
    return claim, words, REPRODUCED if least >= MOSTLY else NOT_REPRODUCED


def _where(found: list[Finding]) -> str:
    """Says on which data sets a claim does not show, where it does on others."""
    by_data = {name: {f.verdict for f in found if f.data == name} for name in dict.fromkeys(f.data for f in found)}
    failing = {name: REPRODUCED in verdicts for name, verdicts in by_data.items() if NOT_REPRODUCED in verdicts}
    said = {"not": [name for name in failing if not failing[name]]}
    said["not everywhere"] = [name for name in failing if failing[name]]
    return "".join(f"; {words} on {', '.join(names)}" for words, names in said.items() if names)
