"""How examples of blurry classes are spread over tasks: the panel beside the paper's figure of blurry streams.

It is counted from the data, not from runs; so it is a file of its own beside them, with its version.
"""

import contextlib
import statistics
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reticent.lab.bench.one_run import environment, examples_of_a_blurry_class
from reticent.lab.bench.run import Run
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.typeset import Table
from reticent.lab.bench.versions import STREAMS, version_of
from reticent.lab.data.datasets import Data
from reticent.report.origins import measured_by

FILE = "streams.json"


def counted(
    specs: Sequence[Spec], before: Mapping[str, Any] | None, load: Callable[[Run], Data], missing: Container[str]
) -> dict[str, Any]:
    """Returns how many examples a blurry class has in each task of the blurry streams of some specs.

    Args:
        specs: Whose streams.
        before: What the file has: it is not counted again.
        load: Returns the data of a run.
        missing: Data sets that are not there.
    """
    panel = {name: dict(by_ratio) for name, by_ratio in (before or {}).get("data", {}).items()}
    first: dict[tuple[str, str], Run] = {}
    for run in (run for spec in specs for run in spec.runs if run.ratio):
        first.setdefault((run.data, f"{run.ratio:g}"), replace(run, seed=0))
    for (name, ratio), run in first.items():
        if name not in missing and ratio not in panel.get(name, {}):
            with contextlib.suppress(Exception):  # its runs have failed, and say why
                panel.setdefault(name, {})[ratio] = examples_of_a_blurry_class(run, load(run))
    # in one order, whatever was there before
    in_order = {name: dict(sorted(panel[name].items(), key=lambda one: float(one[0]))) for name in sorted(panel)}
    if before is not None and before.get("data") == in_order:
        return {**before, "data": in_order}  # nothing was counted now
    command = f"reticent bench {' '.join(spec.command for spec in specs)}"
    return {"version": version_of(STREAMS), "command": command, "environment": environment(), "data": in_order}


def of_this_version(found: object) -> dict[str, Any] | None:
    """Returns what the file holds; None where it is missing or damaged, or of another version."""
    there = isinstance(found, dict) and found.get("version") == version_of(STREAMS)
    return found if isinstance(found, dict) and there and isinstance(found.get("data"), dict) else None


def panel(found: Mapping[str, Any] | None) -> list[Table]:
    """Returns the table, of all data sets that have been counted; none where there is nothing.

    >>> panel(None)
    []
    """
    rows = [
        (data, ratio, f"{by_task[0]:.1f}", f"{statistics.mean(by_task[1:]):.1f}")
        for data, by_ratio in (found or {}).get("data", {}).items()
        for ratio, by_task in by_ratio.items()
        if len(by_task) > 1
    ]
    caption = "Mean over the blurry classes, half of all, of the first seed."
    columns = ("data", "ratio", "in its home task", "in each other task")
    if not found or not rows:
        return []
    return [Table("Examples of a blurry class and task", caption, columns, tuple(rows), (measured_by(found),))]
