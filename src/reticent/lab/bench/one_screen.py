"""What to take away from many runs, on one screen: the paper's method beside ours."""

from reticent.lab.bench.findings import findings, in_short
from reticent.lab.bench.medians import measured
from reticent.lab.bench.run import Results
from reticent.lab.bench.typeset import Table

EPSILONS = (1.0, 8.0)
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
        for epsilon in EPSILONS:
            for labels, said in _LABELS.items():
                found = [at(learner, labels, epsilon=epsilon) for learner in _LEARNERS.values()]
                if any(value is not None for value in found):
                    rows.append((at.data, f"{epsilon:g}", said, *("-" if v is None else f"{v:.1f}" for v in found)))
    short = in_short(findings(results))
    return Table(
        "On one screen",
        f"{short} Average accuracy after the last of ten disjoint tasks (digits: five), %, median over seeds; of the "
        "shares of the budget that were run with the paper's split, the best. *Public*: the labels of the data set "
        "are the public ones (the paper's Base Dataset).",
        ("data", "epsilon", "labels", *_LEARNERS),
        tuple(rows),
    )
