"""How long a run takes: to say what is left, and what was not run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reticent.lab.bench import catalogue
from reticent.lab.bench.run import FILM, TASKS, Result, Results, Run

Key = tuple[Any, ...]

_DATA_FACTORS = {"cifar100-features": 3.0, "icd10cm": 1.5, "clinc150-banking": 0.2, "phenotypes": 0.5, "digits": 0.2}
_MANY = 40.0  # times as long: noise takes most of it, which grows with the features
_OF_COSINE = {"cifar100-features": 1.6, "icd10cm": 1.2, "phenotypes": 0.6, "digits": 0.3}
WITHOUT_DATA = {"attack": 20.0, "drop": 1.0}  # of experiments that have no runs


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a learner takes on one core of a small machine; numbers are not among what a run computes with.

    Args:
        seconds: For ten tasks of CLINC150 with the encoder frozen.
        film_seconds: The same for training through the encoder.
        film_passes: How often training through the encoder sees an example, tuning included.
        by_labels: How many times as long it takes with some label policies.
    """

    seconds: float = 15.0
    film_seconds: float = 1_400.0
    film_passes: float = catalogue.FILM_EPOCHS
    by_labels: Mapping[str, float] = field(default_factory=dict)


_TUNED: dict[str, Any] = {"film_seconds": 8_400.0, "film_passes": 120}  # 40, and 20 trials on the first of ten tasks
COSTS = {
    "cosine-paper": Cost(seconds=0.5, by_labels={"public-10x": 2.0, "public-100x": 14.0, "public-1000x": 48.0}),
    "cosine": Cost(seconds=1.0),
    "peft-paper": Cost(
        seconds=20.0, by_labels={"oracle": 0.2, "released": 0.3, "public-10x": 10.0, "public-1000x": 500.0}, **_TUNED
    ),
    "peft-paid": Cost(seconds=120.0),
    "peft": Cost(seconds=4.0, by_labels={"oracle": 0.5, "released": 0.5, "public-10x": 8.0, "public-1000x": 0.5}),
    "naive": Cost(seconds=4.0),
    "desai": Cost(seconds=6.0),
    "noncl": Cost(seconds=3.0),
    "naive-paper": Cost(seconds=20.0, **_TUNED),
    "desai-paper": Cost(seconds=40.0, film_seconds=12_000.0, film_passes=160),  # the buffer's gradients beside its own
    "noncl-paper": Cost(seconds=20.0, **_TUNED),
}


def cost_of(learner: str) -> Cost:
    """Returns what a learner of the catalogue takes; a guess for the user's own.

    >>> cost_of("cosine").seconds, cost_of("my_module:Mine").seconds
    (1.0, 15.0)
    """
    return COSTS.get(learner, Cost())


@dataclass
class Estimates:
    """How long runs take: as long as similar ones did here, else as measured steps or `COSTS` say."""

    results: Results = field(default_factory=dict)
    _seen: dict[Key, tuple[float, int]] = field(default_factory=dict)  # total seconds, and of how many runs
    _expected: dict[Key, float] = field(default_factory=dict)  # from measured steps

    def __post_init__(self) -> None:
        for result in self.results.values():
            self.add(result)

    def add(self, result: Result) -> None:
        """Learns from a result."""
        if result["status"] == "done":
            kind = _like(Run(**result["run"]))
            total, count = self._seen.get(kind, (0.0, 0))
            self._seen[kind] = total + processor(result), count + 1

    def expect(self, run: Run, seconds: float) -> None:
        """Learns how long a run is expected to take, from a step that was measured here."""
        self._expected[_like(run)] = seconds

    def knows(self, run: Run) -> bool:
        """Returns whether a run like this one has ended here, so that no step needs to be measured for it."""
        return _like(run) in self._seen

    def seconds(self, runs: Iterable[Run]) -> float:
        """Returns the expected processor time of all these runs."""
        return sum(self._one(run) for run in runs)

    def _one(self, run: Run) -> float:
        seen = self._seen.get(_like(run))
        if seen is not None:
            return seen[0] / seen[1]
        if _like(run) in self._expected:
            return self._expected[_like(run)]
        cost = cost_of(run.learner)
        seconds = cost.film_seconds if run.adapter == FILM else cost.seconds
        labels = cost.by_labels.get(run.labels, 1.0)
        tasks = max(1.0, run.tasks / TASKS) ** 2  # each is followed by a measure that looks at all before it
        of_data = _OF_COSINE if catalogue.entry(run.learner).family == "cosine" and labels < _MANY else _DATA_FACTORS
        return seconds * of_data.get(run.data, 1.0) * labels * tasks


def processor(result: Result) -> float:
    """Returns the processor time that a run took: others share the machine, so the clock says little."""
    return float(result["seconds"]["processor"])


def _like(run: Run) -> Key:
    return run.data, run.learner, run.adapter, run.labels, run.tasks, run.share is None, run.names, run.memory


def duration(seconds: float) -> str:
    """Says how long something takes.

    >>> duration(42), duration(170), duration(9_000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"
