"""Experiments that need no data: the attack on the label space, and which labels are dropped.

What they find has a version, as a run has; what another version found counts as not run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reticent.lab.attack import label_attack
from reticent.lab.bench import label_experiments
from reticent.lab.bench.estimates import WITHOUT_DATA, duration
from reticent.lab.bench.one_run import environment
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.typeset import Table
from reticent.lab.bench.versions import ATTACK, DROP, version_of
from reticent.lab.bench.workspace import read
from reticent.privacy.rounding import rounded_up
from reticent.report.attack_tables import limits, verdict
from reticent.report.origins import measured_by

KINDS = {ATTACK: label_experiments.attack, DROP: label_experiments.drop}


def measured(kind: str) -> dict[str, Any]:
    """Returns what the experiment of a kind finds, "attack" or "drop", and its version, as its JSON file holds it."""
    made = {"version": version_of(kind), "command": f"reticent bench {kind}", "environment": environment()}
    return {**KINDS[kind](), **made}


def stored(folder: Path, kind: str) -> dict[str, Any] | None:
    """Returns what the JSON file of a kind holds; None where it is missing or damaged, or of another version."""
    found = read(folder / f"{kind}.json")
    return found if isinstance(found, dict) and found.get("version") == version_of(kind) else None


def table(spec: Spec, found: Mapping[str, Any] | None) -> Table:
    """Returns the table of an experiment from its JSON file; None where it was not run."""
    return {ATTACK: _attack_table, DROP: _drop_table}[spec.kind](spec, found)


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
    caption += "accuracy of 1 leak at every epsilon: where the bound is near 1, too few games are played to prove it. "
    caption += "Coins and noise of the other rows are seeded."
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
    return Table(spec.title, caption, columns, rows, (measured_by(found),))


def _drop_table(spec: Spec, found: Mapping[str, Any] | None) -> Table:
    if found is None:
        return Table(spec.title, "", ("mechanism",), ((_later(spec),),))
    sizes = found["curves"][0]["sizes"]
    rows = tuple(
        (f"{curve['epsilon']:g}", curve["mechanism"], *(f"{p:.3f}" for p in curve["probability"]))
        for curve in found["curves"]
    )
    caption = f"Chance that a new label is dropped, by the size of its class; delta {found['delta']:g}, exact."
    return Table(spec.title, caption, ("epsilon", "mechanism", *map(str, sizes)), rows, (measured_by(found),))


def _later(spec: Spec) -> str:
    return f"*not run here* (about {duration(WITHOUT_DATA[spec.kind])})"
