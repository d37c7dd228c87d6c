"""Medians over seeds of what was run on a data set: what findings, claims and figures are made of."""

import functools
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from reticent.lab.bench import specs
from reticent.lab.bench.run import BLURRY, FILM, LAST_LAYER, MEMORIES, TASKS, Result, Results, Run
from reticent.lab.data.datasets import DIGITS, DIGITS_AND_CIFAR100, FIVE_DATASETS, NAMES

TASKS_OF = {DIGITS: 5, DIGITS_AND_CIFAR100: 5, FIVE_DATASETS: 5}
_USUAL = {"ratio": 0.0, "names": False, "memory": MEMORIES[0], "blurry": BLURRY, "persons": 1}
_BY_DEFAULT = {**_USUAL, "adapter": LAST_LAYER, "tasks": TASKS}


def accuracy_of(result: Result) -> float:
    """Returns what tables show of a run, in percent: average accuracy over tasks, after the last one.

    Where all classes are blurry no task has labels of its own; then it is accuracy on the test data of all.
    """
    everywhere = result["run"].get("blurry") == 100 and result.get("overall")
    return 100 * float(result["overall"][-1] if everywhere else result["accuracy"])


@dataclass(frozen=True)
class Measured:
    """What was run on one data set."""

    results: Results
    data: str

    def __call__(self, learner: str, labels: str = "base", *, metric: str = "accuracy", **others: Any) -> float | None:
        """Returns the median, of the best share where several were tried and none is asked for; None if not run."""
        best = self.seeds(learner, labels, metric=metric, **others)
        return statistics.median(best) if best else None

    def seeds(self, learner: str, labels: str = "base", *, metric: str = "accuracy", **others: Any) -> list[float]:
        """Returns what each seed has, of the share with the largest median; accuracy in percent."""
        return list(self.by_seed(learner, labels, metric=metric, **others).values())

    def by_seed(
        self, learner: str, labels: str = "base", *, metric: str = "accuracy", **others: Any
    ) -> dict[int, float]:
        """Returns the same as `seeds`, by the numbers of the seeds."""
        wanted = self._wanted(learner, labels, others)
        scale = 1 if metric == "known" else 100
        found: dict[float | None, dict[int, float]] = {}
        for result in self.results.values():
            run = result["run"]
            if result["status"] == "done" and all(
                run.get(key, _BY_DEFAULT.get(key)) == value for key, value in wanted.items()
            ):
                found.setdefault(run["share"], {})[run["seed"]] = scale * result[metric]
        return max(found.values(), key=lambda by_seed: statistics.median(by_seed.values()), default={})

    def asked(self, learner: str, labels: str = "base", **others: Any) -> bool:
        """Returns whether the specs of the package have such runs: what none asks for is not missing.

        >>> [Measured({}, data).asked("cosine-paper", "oracle") for data in ("icd10cm", "icd10cm-blocks")]
        [True, False]
        """
        return _is_offered(self._wanted(learner, labels, others))

    def shares(self, learner: str, **others: Any) -> dict[float, float]:
        """Returns the median accuracy of released labels by the share of the budget that pays for them."""
        tried = {
            result["run"]["share"]
            for result in self.results.values()
            if result["run"]["data"] == self.data and result["run"]["share"] is not None
        }
        found = {share: self(learner, "released", share=share, **others) for share in sorted(tried)}
        return {share: value for share, value in found.items() if value is not None}

    def _wanted(self, learner: str, labels: str, others: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields of a run; its adapter is FiLM where the specs have no other, as those of the paper."""
        wanted = {"epsilon": 1.0, **_USUAL, "tasks": TASKS_OF.get(self.data, TASKS), **others}
        wanted |= {"data": self.data, "learner": learner, "labels": labels}
        if "adapter" not in wanted:
            through = not _is_offered({**wanted, "adapter": LAST_LAYER}) and _is_offered({**wanted, "adapter": FILM})
            wanted["adapter"] = FILM if through else LAST_LAYER
        return wanted


def measured(results: Results) -> list[Measured]:
    """Returns what was run, by data set, in the order of `NAMES`.

    >>> measured({})
    []
    """
    found: dict[str, dict[str, Result]] = {}
    for key, result in results.items():
        found.setdefault(result["run"]["data"], {})[key] = result
    return [Measured(found[name], name) for name in NAMES if name in found]


def _is_offered(wanted: Mapping[str, Any]) -> bool:
    share = wanted.get("share")
    return any(
        all(run[key] == value for key, value in wanted.items() if key != "share") and (share is None or share in tried)
        for run, tried in _offered().get((wanted["data"], wanted["learner"], wanted["labels"]), ())
    )


@functools.cache
def _offered() -> dict[tuple[str, str, str], list[tuple[dict[str, Any], set[float | None]]]]:
    """Returns the runs of the full tier and of the paper's own data, one for all seeds, with the shares they try."""
    shares: dict[Run, set[float | None]] = {}
    for spec in specs.chosen(["all", "paper"]):
        for run in spec.runs:
            shares.setdefault(replace(run, seed=0, share=None), set()).add(run.share)
    found: dict[tuple[str, str, str], list[tuple[dict[str, Any], set[float | None]]]] = {}
    for run, tried in shares.items():
        found.setdefault((run.data, run.learner, run.labels), []).append((asdict(run), tried))
    return found
