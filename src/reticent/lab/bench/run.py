"""One run as a value: which data, learner, labels and budget, and which seed."""

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from reticent.budget import Budget

TASKS = 10
DELTA = 1e-5
NONE = "none"  # epsilon without privacy, since TOML has no null
LABELS = (
    "oracle",
    "base",
    "public-10x",
    "public-100x",
    "public-1000x",
    "released",
    "remap-parent",
    "remap-unknown",
    "remap-drop",
)
LAST_LAYER, FILM = "last_layer", "film"
ADAPTERS = (LAST_LAYER, FILM)
MEMORIES = ("none", "vault", "recurring")
BLURRY = 50.0
_LATER = ("names", "memory", "blurry", "persons")

Result = Mapping[str, Any]  # what `one_run` measured of a run, as in runs/*.json
Results = Mapping[str, Result]  # by the digests of their runs


@dataclass(frozen=True, kw_only=True)
class Run:
    """A stream of tasks that is learned once.

    Args:
        data: A data set of `lab.data.datasets`, or a CSV file.
        learner: A learner of `lab.bench.catalogue`, or the user's own as "module:object".
        labels: One of `LABELS`: where the label space comes from.
        epsilon: None for no privacy.
        ratio: Blurry sample ratio in percent; 0 is disjoint.
        share: Percent of the budget that the paper's split gives to released labels; None where nothing is split.
        adapter: One of `ADAPTERS`: where PEFT trains.
        tasks: Length of the stream.
        seed: Of split, class order and noise.
        text: Column of a CSV file.
        label: Column of a CSV file.
        names: Whether labels have their names; only where the data has texts.
        memory: One of `MEMORIES`: nothing is kept between tasks, or a vault, for labels of which it is not known
            whether they come back, or which do.
        blurry: Percent of the classes that are blurry.
        persons: Most tasks that one person may be in: what noise is calibrated for.

    Example:
        >>> Run(data="clinc150", learner="cosine").name
        'clinc150 cosine base epsilon 1 seed 0'
    """

    data: str
    learner: str
    labels: str = "base"
    epsilon: float | None = 1.0
    ratio: float = 0.0
    share: float | None = None
    adapter: str = LAST_LAYER
    tasks: int = TASKS
    seed: int = 0
    text: str | None = None
    label: str | None = None
    names: bool = False
    memory: str = MEMORIES[0]
    blurry: float = BLURRY
    persons: int = 1

    @functools.cached_property
    def digest(self) -> str:
        """Names the files of the run and seeds its noise, so it must never change; equal runs share one result."""
        said = asdict(self)
        for later in _LATER:  # these came later, and change nothing where they say what was always so
            if said[later] == getattr(Run, later):
                del said[later]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def name(self) -> str:
        """A readable name."""
        parts = [
            self.data,
            self.learner,
            self.labels,
            f"epsilon {NONE if self.epsilon is None else f'{self.epsilon:g}'}",
        ]
        parts += [f"ratio {self.ratio:g}"] if self.ratio else []
        parts += [f"share {self.share:g}"] if self.share is not None else []
        parts += [self.adapter] if self.adapter != LAST_LAYER else []
        parts += [f"{self.tasks} tasks"] if self.tasks != TASKS else []
        parts += ["names"] if self.names else []
        parts += [f"memory {self.memory}"] if self.memory != MEMORIES[0] else []
        parts += [f"persons in {self.persons} tasks"] if self.persons != 1 else []
        return " ".join([*parts, f"seed {self.seed}"])

    @property
    def budget(self) -> Budget:
        """What the run may spend; without privacy it is only written on the ledger."""
        epsilon = 8.0 if self.epsilon is None else self.epsilon
        return Budget(epsilon=epsilon, delta=DELTA, tasks_per_person=self.persons)

    @property
    def spends_without_limit(self) -> bool:
        """Whether no budget covers the run: it has no privacy, or reads its labels off the data."""
        return self.epsilon is None or self.labels == "oracle"
