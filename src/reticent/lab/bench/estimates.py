"""How long a run takes: to say what is left, and what was not run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reticent.lab.bench import catalogue, passes
from reticent.lab.bench.run import FILM, TASKS, Result, Results, Run

Key = tuple[Any, ...]

_DATA_FACTORS = {"cifar100-features": 3.0, "icd10cm": 1.5, "clinc150-banking": 0.2, "phenotypes": 0.5, "digits": 0.2}
_MANY = 40.0  # times as long: noise takes most of it, which grows with the features
_OF_COSINE = {"cifar100-features": 1.6, "icd10cm": 1.2, "phenotypes": 0.6, "digits": 0.3}
_WITHOUT_NOISE = 4.0  # times as long: smaller batches are tuned where they have no noise
_PASS = 175.0  # seconds to train through the encoder with each example of CLINC150 once: 12 ms an example
_PASSES = {
    "clinc150-banking": 35.0,
    "digits": 70.0,
    "digits-and-cifar100": 250.0,
    # ViT-B/16: 0.8 s an image
    "split-cifar100": 40_000.0,
    "split-imagenet-r": 19_200.0,
    "five-datasets": 208_000.0,
}
WITHOUT_DATA = {"attack": 20.0, "drop": 1.0}  # of experiments that have no runs


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a learner takes on one core of a small machine; numbers are not among what a run computes with.

    Args:
        seconds: To train heads in ten tasks of CLINC150 with the encoder frozen; `passes` has what the encoder takes.
        tuning: To tune for them, once for all runs with the same `passes.tuning_key`.
        by_labels: How many times as long it takes with some label policies.
    """

    seconds: float = 15.0
    tuning: float = 0.0
    by_labels: Mapping[str, float] = field(default_factory=dict)


COSTS = {
    "cosine-paper": Cost(seconds=0.5, by_labels={"public-10x": 2.0, "public-100x": 14.0, "public-1000x": 48.0}),
    "cosine": Cost(seconds=1.0),
    "peft-paper": Cost(
        seconds=8.0,
        tuning=8.0,
        by_labels={"oracle": 0.2, "released": 0.3, "public-10x": 10.0, "public-1000x": 1_000.0},
    ),
    "peft-paid": Cost(seconds=60.0),
    "peft": Cost(seconds=4.0, by_labels={"oracle": 0.5, "released": 0.5, "public-10x": 8.0, "public-1000x": 0.5}),
    "naive": Cost(seconds=4.0),
    "desai": Cost(seconds=6.0),
    "noncl": Cost(seconds=3.0),
    "naive-paper": Cost(seconds=8.0, tuning=8.0),
    "desai-paper": Cost(seconds=12.0, tuning=8.0),
    "noncl-paper": Cost(seconds=8.0, tuning=8.0),
}


def cost_of(learner: str) -> Cost:
    """Returns what a learner of the catalogue takes; a guess for the user's own.

    >>> cost_of("cosine").seconds, cost_of("my_module:Mine").seconds
    (1.0, 15.0)
    """
    return COSTS.get(learner, Cost())


@dataclass
class Estimates:
    """How long runs take: as long as similar ones did here, else as measured steps or `COSTS` say.

    What runs took here has the tuning that fell to them. Where it is computed, tuning is counted once for all runs that
    share its settings, and not at all where a run that has ended here has them.
    """

    results: Results = field(default_factory=dict)
    _seen: dict[Key, tuple[float, int]] = field(default_factory=dict)  # total seconds, and of how many runs
    _expected: dict[Key, float] = field(default_factory=dict)  # from measured steps
    _expected_tuning: dict[Key, float] = field(default_factory=dict)
    _tuned: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        for result in self.results.values():
            self.add(result)

    def add(self, result: Result) -> None:
        """Learns from a result."""
        if result["status"] == "done":
            run = Run(**result["run"])
            total, count = self._seen.get(kind(run), (0.0, 0))
            self._seen[kind(run)] = total + processor(result), count + 1
            if (key := passes.tuning_key(run)) is not None:
                self._tuned.add(key)

    def expect(self, run: Run, seconds: float, *, tuning: float = 0.0) -> None:
        """Learns how long a run is expected to take, and to tune for it, from a step that was measured here."""
        self._expected[kind(run)] = seconds
        if tuning:  # others of the stream may tune where this one does not
            self._expected_tuning[_stream(run)] = tuning

    def knows(self, run: Run) -> bool:
        """Returns whether a run like this one has ended here, so that no step needs to be measured for it."""
        return kind(run) in self._seen

    def seconds(self, runs: Iterable[Run]) -> float:
        """Returns the expected processor time of all these runs."""
        total, tuned = 0.0, set(self._tuned)
        to_tune: dict[Key, Run] = {}
        for run in runs:
            total += self._one(run)
            key = passes.tuning_key(run)
            if key is not None and self.knows(run):  # it is in the mean
                tuned.add(key)
            elif key is not None:
                to_tune.setdefault(key, run)
        return total + sum(self._to_tune(run) for key, run in to_tune.items() if key not in tuned)

    def _one(self, run: Run) -> float:
        seen = self._seen.get(kind(run))
        if seen is not None:
            return seen[0] / seen[1]
        if kind(run) in self._expected:
            return self._expected[kind(run)]
        cost = cost_of(run.learner)
        labels = cost.by_labels.get(run.labels, 1.0)
        tasks = max(1.0, run.tasks / TASKS) ** 2  # each is followed by a measure that looks at all before it
        of_data = _OF_COSINE if catalogue.entry(run.learner).family == "cosine" and labels < _MANY else _DATA_FACTORS
        noise = _WITHOUT_NOISE if cost.tuning and run.epsilon is None else 1.0
        through = passes.training(run) * _PASSES.get(run.data, _PASS) if run.adapter == FILM else 0.0
        return cost.seconds * of_data.get(run.data, 1.0) * labels * tasks * noise + through

    def _to_tune(self, run: Run) -> float:
        if _stream(run) in self._expected_tuning:
            return self._expected_tuning[_stream(run)]
        if run.adapter == FILM:
            return passes.tuning(passes.tuned_share(run)) * _PASSES.get(run.data, _PASS)
        return cost_of(run.learner).tuning * _DATA_FACTORS.get(run.data, 1.0)


def processor(result: Result) -> float:
    """Returns the processor time that a run took: others share the machine, so the clock says little."""
    return float(result["seconds"]["processor"])


def kind(run: Run) -> Key:
    """Returns what runs have in common that take about as long."""
    settings = run.data, run.learner, run.adapter, run.labels, run.tasks, run.share is None, run.names, run.memory
    return *settings, run.epsilon is None


def _stream(run: Run) -> Key:
    """Returns what says how long it takes to tune."""
    return run.data, run.adapter, run.tasks


def duration(seconds: float) -> str:
    """Says how long something takes.

    >>> duration(42), duration(170), duration(9_000), duration(9_000_000)
    ('42 s', '3 min', '2.5 h', '2,500 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3_600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h" if seconds < 3_600_000 else f"{seconds / 3_600:,.0f} h"
