"""Experiments that need no data: the attack on the label space, and which labels are dropped."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reticent.budget import Budget
from reticent.lab.attack import label_attack
from reticent.lab.bench.estimates import WITHOUT_DATA, duration
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.typeset import Table
from reticent.privacy import events, planning, selection
from reticent.privacy.confidence import accuracy_bound
from reticent.privacy.count_weights import default_count_weight
from reticent.privacy.rounding import rounded_up
from reticent.report.attack_tables import limits, verdict

DROP_DELTA = 1e-7  # of the paper's second figure
DROP_EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
_DROP_SIZES = (1, 2, 3, 5, 7, 10, 13, 15, 20, 25, 30, 40, 50, 70, 100, 150, 200, 300, 500)


def measured(kind: str) -> dict[str, Any]:
    """Returns what the experiment of a kind finds, "attack" or "drop", as its JSON file holds it."""
    return {"attack": _attack, "drop": _drop}[kind]()


def table(spec: Spec, found: Mapping[str, Any] | None) -> Table:
    """Returns the table of an experiment from its JSON file; None where it was not run."""
    return {"attack": _attack_table, "drop": _drop_table}[spec.kind](spec, found)


def _attack() -> dict[str, Any]:
    """Figure 1: classifiers that leak, and every remedy at several epsilon."""
    curve = label_attack.accuracy_curve(1e-5)
    played = {(result.target, result.epsilon) for result in curve}
    leaks = label_attack.attack_classifiers(Budget(epsilon=1.0, delta=1e-5), trainings=200)
    games = [result for result in leaks if (result.target, result.epsilon) not in played]
    limits = [[epsilon, accuracy_bound(epsilon, 1e-5)] for epsilon in label_attack.CURVE]
    return {"points": [result.json() for result in [*games, *curve]], "bounds": limits}


def _drop() -> dict[str, Any]:
    """Figure 2: the chance that a label is dropped, by mechanism, and the least of any mechanism."""
    sizes, curves = np.array(_DROP_SIZES), []
    for epsilon in DROP_EPSILONS:
        budget = Budget(epsilon=epsilon, delta=DROP_DELTA)
        whole = events.TruncatedGeometric(epsilon=epsilon, delta=DROP_DELTA)
        tenth = planning.labels_by_share(budget, events.TruncatedGeometric, planning.DEFAULT_SHARE)
        joint = planning.joint_gaussian(budget, default_count_weight(budget))
        kept = {
            "any mechanism, at least": selection.upper_bound(sizes, epsilon, DROP_DELTA),
            "the paper's, the whole budget": selection.law(whole).release_probability(sizes),
            "the paper's, a tenth of the budget": selection.law(tenth).release_probability(sizes),
            "ours, with the sums": selection.law(joint).release_probability(sizes),
        }
        curves += [_curve(epsilon, mechanism, (1 - p).tolist()) for mechanism, p in kept.items()]
    return {"delta": DROP_DELTA, "curves": curves}


def _curve(epsilon: float, mechanism: str, dropped: Sequence[float]) -> dict[str, Any]:
    return {"epsilon": epsilon, "mechanism": mechanism, "sizes": list(_DROP_SIZES), "probability": list(dropped)}


# --- tables


def _attack_table(spec: Spec, found: Mapping[str, Any] | None) -> Table:
    columns = ("published by", "the target is", "epsilon", "accuracy of the attacker", "limits", "bound", "")
    caption = "One person with a rare label is in the data or not; the attacker sees what is published."
    if found is None:
        return Table(spec.title, caption, columns, ((_later(spec), *[""] * 6),))
    games = sorted({point["trials"] for point in found["points"]})
    confidence = 1 - label_attack.ALPHA
    caption += f" {' or '.join(f'{n:,}' for n in games)} games; limits are exact, at confidence {confidence:g}. "
    caption += "A leak is proven where even the lower limit is above the bound of differential privacy. Rows with an "
    caption += "accuracy of 1 leak at every epsilon: where the bound is near 1, too few games are played to prove it."
    rows = tuple(
        (
            point["target"],
            point["game"],
            f"{point['epsilon']:g}",
            f"{point['accuracy']:.3f}",
            limits(point),
            rounded_up(point["bound"], 3),
            verdict(broken=point["broken"]),
        )
        for point in found["points"]
    )
    return Table(spec.title, caption, columns, rows)


def _drop_table(spec: Spec, found: Mapping[str, Any] | None) -> Table:
    if found is None:
        return Table(spec.title, "", ("mechanism",), ((_later(spec),),))
    sizes = found["curves"][0]["sizes"]
    rows = tuple(
        (f"{curve['epsilon']:g}", curve["mechanism"], *(f"{p:.3f}" for p in curve["probability"]))
        for curve in found["curves"]
    )
    caption = f"Chance that a new label is dropped, by the size of its class; delta {found['delta']:g}, exact."
    return Table(spec.title, caption, ("epsilon", "mechanism", *map(str, sizes)), rows)


def _later(spec: Spec) -> str:
    return f"*not run here* (about {duration(WITHOUT_DATA[spec.kind])})"
