"""How long a run takes: to say what is left, and what was not run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reticent.lab.bench.experiments import Cell

Run = Mapping[str, Any]
Key = tuple[Any, ...]

# Seconds of one run of ten tasks on one core of a small machine, where nothing similar has been run here yet.
_SECONDS = {"cosine": 2.0, "peft": 15.0, "naive": 10.0, "desai": 60.0, "noncl": 15.0, "film": 1_400.0}
_TIMES = {"cifar100-features": 3.0, "icd10cm": 1.5}
WITHOUT_DATA = {"attack": 10.0, "drop": 1.0}  # of experiments that have no cells


@dataclass
class Estimates:
    """How long cells take: as long as similar ones did here, else as on the machine this was written on."""

    runs: Mapping[str, Run] = field(default_factory=dict)
    _seen: dict[Key, tuple[float, int]] = field(default_factory=dict)  # seconds in all, and of how many runs

    def __post_init__(self) -> None:
        for result in self.runs.values():
            self.add(result)

    def add(self, result: Run) -> None:
        """Learns from a run."""
        if result["status"] == "done":
            kind = _like(Cell(**result["cell"]))
            total, runs = self._seen.get(kind, (0.0, 0))
            self._seen[kind] = total + result["seconds"]["learn"] + result["seconds"]["evaluate"], runs + 1

    def seconds(self, cells: Iterable[Cell]) -> float:
        """Returns the expected processor time of all."""
        return sum(self._one(cell) for cell in cells)

    def _one(self, cell: Cell) -> float:
        seen = self._seen.get(_like(cell))
        if seen is not None:
            return seen[0] / seen[1]
        kind = "film" if cell.adapter == "film" else cell.family
        wide = {"public-10x": 8.0, "public-1000x": 20.0}.get(cell.labels, 1.0) if cell.learner != "cosine" else 1.0
        tuned = 6.0 if cell.learner == "peft-paper" else 1.0
        return _SECONDS.get(kind, 15.0) * _TIMES.get(cell.data, 1.0) * wide * tuned


def _like(cell: Cell) -> Key:
    return cell.data, cell.learner, cell.adapter, cell.labels, cell.tasks, cell.share is None


def duration(seconds: float) -> str:
    """Says how long something takes.

    >>> duration(42), duration(170), duration(9_000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"
