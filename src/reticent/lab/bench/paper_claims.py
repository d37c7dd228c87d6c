"""The paper's claims, one line each: reproduced here, not reproduced, or not to be tested here."""

from collections import Counter
from collections.abc import Mapping

from reticent.lab.bench.findings import (
    FINDINGS,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    Check,
    Finding,
    Measured,
    measured,
)
from reticent.lab.bench.run import Results
from reticent.lab.bench.typeset import Table

UNTESTABLE = "*cannot be tested here*"
# What needs the paper's own data or encoder; `reticent bench paper` has it, for a machine with a network and a GPU.
ELSEWHERE: Mapping[str, str] = {
    "Heights of all tables (ViT-B/16 on Split-CIFAR-100, ImageNet-R, 5-Datasets)": "no weights and no images offline",
    "Under a large domain shift PEFT is the only option": "FiLM on ViT-B/16; 5-Datasets are not offline",
}


def summary(results: Results) -> Table:
    """Returns the paper's claims with how many checks on how many data sets show them.

    Example:
        >>> [row[-1] for row in summary({}).rows][-1]
        '*cannot be tested here*'
    """
    rows = [(claim, *_shown(check, measured(results))) for claim, check in FINDINGS.items()]
    rows += [(claim, reason, UNTESTABLE) for claim, reason in ELSEWHERE.items()]
    says = "Each tested with the paper's methods alone, on every data set that was run; the next table has every check."
    return Table("The paper's claims", says, ("claim", "checks", "verdict"), tuple(rows))


def _shown(check: Check, measured: list[Measured]) -> tuple[str, str]:
    found = [finding for at in measured for finding in check(at)]
    verdicts = Counter(finding.verdict for finding in found)
    checked = verdicts[REPRODUCED] + verdicts[NOT_REPRODUCED]
    if not checked:
        return "", NOT_RUN
    words = f"{verdicts[REPRODUCED]} of {checked}"
    words += f"; {verdicts[NOT_RUN]} not run" if verdicts[NOT_RUN] else ""
    verdict = REPRODUCED if not verdicts[NOT_REPRODUCED] else NOT_REPRODUCED if not verdicts[REPRODUCED] else "in part"
    return f"{words}{_where(found)}", verdict


def _where(found: list[Finding]) -> str:
    """Says on which data sets a claim does not show, where it does on others."""
    by_data = {name: {f.verdict for f in found if f.data == name} for name in dict.fromkeys(f.data for f in found)}
    failing = [name for name, verdicts in by_data.items() if NOT_REPRODUCED in verdicts]
    return f"; not everywhere on {', '.join(failing)}" if failing else ""
