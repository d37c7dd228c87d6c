"""Experiments as values: a cell is one run, a spec is a table's worth of them, read from a small TOML file."""

import functools
import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.budget import Budget
from reticent.lab.bench import paper_numbers

SEEDS = 5
SEEDS_AT_MOST = 1_000_000
TASKS = 10
SHARE = 10.0
DELTA = 1e-5
NONE = "none"  # epsilon without privacy, since TOML has no null

LEARNERS = ("cosine-paper", "cosine", "peft-paper", "peft", "naive", "desai", "noncl")
LABELS = (
    "oracle",
    "base",
    "public-10x",
    "public-1000x",
    "released",
    "remap-parent",
    "remap-unknown",
    "remap-drop",
)
ADAPTERS = ("last_layer", "film")
STATISTICS = ("median", "minmax", "mean")
METRICS = ("accuracy", "forgetting", "known", "public", "parent", "seconds")
AXES = ("data", "learner", "labels", "epsilon", "ratio", "share", "adapter")
COLUMNS = (*AXES[2:6], "task", "rule")
KINDS = ("grid", "attack", "drop")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run: a stream of tasks, learned once.

    Args:
        data: A data set of `lab.datasets`, or a CSV file.
        learner: One of `LEARNERS`, or the user's own as "module:object".
        labels: One of `LABELS`: where the label space comes from.
        epsilon: None for no privacy.
        ratio: Blurry sample ratio in percent; 0 is disjoint.
        share: Percent of the budget that the paper's split gives to released labels; None where nothing is split.
        adapter: Where PEFT trains.
        tasks: Length of the stream; 1 for "noncl".
        seed: Of split, class order and noise.
        text: Column of a CSV file.
        label: Column of a CSV file.

    Example:
        >>> Cell(data="clinc150", learner="cosine").name
        'clinc150 cosine base epsilon 1 seed 0'
    """

    data: str
    learner: str
    labels: str = "base"
    epsilon: float | None = 1.0
    ratio: float = 0.0
    share: float | None = None
    adapter: str = "last_layer"
    tasks: int = TASKS
    seed: int = 0
    text: str | None = None
    label: str | None = None

    @functools.cached_property
    def digest(self) -> str:
        """Names its files: the same cell of two specs is run once."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:20]

    @property
    def name(self) -> str:
        """For people."""
        parts = [
            self.data,
            self.learner,
            self.labels,
            f"epsilon {NONE if self.epsilon is None else f'{self.epsilon:g}'}",
        ]
        parts += [f"ratio {self.ratio:g}"] if self.ratio else []
        parts += [f"share {self.share:g}"] if self.share is not None else []
        parts += [self.adapter] if self.adapter != "last_layer" else []
        return " ".join([*parts, f"seed {self.seed}"])

    @property
    def budget(self) -> Budget:
        """What a run may spend; without privacy it is only written on the ledger."""
        return Budget(epsilon=8.0 if self.epsilon is None else self.epsilon, delta=DELTA)

    @property
    def endless(self) -> bool:
        """Whether a run spends without end: it has no privacy, or reads its labels off the data."""
        return self.epsilon is None or self.labels == "oracle"

    @property
    def family(self) -> str:
        """The learner, whether in the paper's mode or ours."""
        return self.learner.removesuffix("-paper")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """An experiment: which cells, and how a table shows them.

    Args:
        name: Of the file, without its ending.
        title: Of the table.
        cells: All runs, in order.
        kind: "grid" for cells; "attack" and "drop" need no data.
        paper: The paper's tables to show beside, by file name in `lab/paper`.
        columns: The axis across the table; the others go down.
        statistic: As the paper reports it: "median" (second worst and second best seed), "minmax" or "mean" (std).
        metrics: What is measured.

    Example:
        >>> spec("drop").kind
        'drop'
    """

    name: str
    title: str
    cells: tuple[Cell, ...] = ()
    kind: str = "grid"
    paper: tuple[str, ...] = ()
    columns: str = "labels"
    statistic: str = "median"
    metrics: tuple[str, ...] = ("accuracy",)


def names() -> tuple[str, ...]:
    """Returns the specs that come with the package."""
    folder = resources.files("reticent.lab.bench") / "specs"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def spec(name: str) -> Spec:
    """Reads a spec by its name, or from a TOML file by its path; a key that is not known is refused."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise errors.InvalidValue(f"Expected a spec at {path}; there is no such file.")
        return read(path.stem, path.read_text(encoding="utf-8", errors="replace"))
    if name not in names():
        raise errors.InvalidValue(
            f"No spec is called {name}. There are {', '.join(names())}, or a path of a .toml file."
        )
    return read(name, (resources.files("reticent.lab.bench") / "specs" / f"{name}.toml").read_text(encoding="utf-8"))


def narrowed(spec: Spec, *, seeds: int | None = None, only: Sequence[str] = ()) -> Spec:
    """Returns the spec with fewer cells: the first seeds, and only some data sets, learners or adapters.

    Example:
        >>> len(narrowed(spec("aggregation"), seeds=1, only=["clinc150", "peft"]).cells)
        2
    """
    limit = SEEDS_AT_MOST if seeds is None else errors.whole("seeds", seeds, at_least=1)
    learners = {name for name in only if name in LEARNERS or ":" in name}
    adapters = set(only) & set(ADAPTERS)
    chosen = {"learner": learners, "adapter": adapters, "data": set(only) - learners - adapters}
    kept = (
        cell
        for cell in spec.cells
        if cell.seed < limit and all(not names or getattr(cell, axis) in names for axis, names in chosen.items())
    )
    return replace(spec, cells=tuple(kept))


def read(name: str, text: str) -> Spec:
    """Returns the spec that a TOML text describes.

    Example:
        >>> [cell.learner for cell in read("mine", 'data = "clinc150", learner = "cosine"'.replace(",", chr(10))).cells]
        ['cosine', 'cosine', 'cosine', 'cosine', 'cosine']
        >>> read("mine", 'lerner = ["cosine"]')
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Spec mine has an unknown key: lerner.
    """
    try:
        stored = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise errors.InvalidValue(f"Spec {name} is not TOML: {error}.") from error
    grids = stored.pop("grid", [{}])
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise errors.InvalidValue(f"Spec {name}: expected each grid to begin with [[grid]].")
    table = {key: stored.pop(key) for key in _TABLE_KEYS if key in stored}
    chosen: dict[str, Any] = {
        key: tuple(_values(value)) if key in ("paper", "metrics") else str(value) for key, value in table.items()
    }
    grid = chosen.get("kind", "grid") == "grid"
    _check(chosen.get("kind", "grid") in KINDS, name, "kind", KINDS)
    if not grid:
        _refuse_unknown(name, stored)
    made = Spec(
        name=name,
        **{"title": name, **chosen},
        cells=_cells(name, [{**stored, **given} for given in grids]) if grid else (),
    )
    _check(all(table in paper_numbers.TABLES for table in made.paper), name, "paper", paper_numbers.TABLES)
    _check(made.columns in COLUMNS, name, "columns", COLUMNS)
    _check(made.statistic in STATISTICS, name, "statistic", STATISTICS)
    _check(all(metric in METRICS for metric in made.metrics), name, "metrics", METRICS)
    return made


_TABLE_KEYS = tuple(field.name for field in fields(Spec) if field.name not in ("name", "cells"))


def _cells(name: str, grids: Sequence[Mapping[str, Any]]) -> tuple[Cell, ...]:
    cells: dict[Cell, None] = {}
    for grid in grids:
        rest = {key: value for key, value in grid.items() if key not in (*AXES, "seeds")}
        _refuse_unknown(name, set(rest) - {"tasks", "text", "label"})
        axes = {axis: _values(grid[axis]) for axis in AXES if axis in grid}
        for axis in ("data", "learner", *axes):
            if not axes.get(axis):
                raise errors.InvalidValue(f"Spec {name} names no {axis}.")
        if "share" in axes and "released" not in axes.get("labels", ()):
            raise errors.InvalidValue(f'Spec {name}: a share buys labels; expected labels = "released" beside it.')
        seeds = range(errors.whole("seeds", grid.get("seeds", SEEDS), at_least=1))
        for values in itertools.product(*axes.values(), seeds):
            cells[_cell(name, {**dict(zip([*axes, "seed"], values, strict=True)), **rest})] = None
    return tuple(cells)


def _cell(name: str, values: dict[str, Any]) -> Cell:
    for key in ("data", "learner", "labels", "adapter", "text", "label"):
        if not isinstance(values.get(key, ""), str):
            raise errors.InvalidValue(f"Spec {name}: expected {key} to be text.")
    epsilon = values.get("epsilon", 1.0)
    numbers = {"epsilon": None if epsilon == NONE else errors.real("epsilon", epsilon, above=0, below=100)}
    if "ratio" in values:
        numbers["ratio"] = errors.real("ratio", values["ratio"], above=0, below=100.5, at_least=True)
    released = values.get("labels") == "released"
    if "share" in values:
        numbers["share"] = errors.real("share", values["share"], above=0, below=100) if released else None
    elif values["learner"].endswith("-paper") and released:
        numbers["share"] = SHARE
    cell = Cell(**{**values, **numbers, **({"tasks": 1} if values["learner"] == "noncl" else {})})
    _check(cell.learner in LEARNERS or ":" in cell.learner, name, "learner", (*LEARNERS, "module:object"))
    _check(cell.labels in LABELS, name, "labels", LABELS)
    if ":" in cell.learner and cell.endless:
        raise errors.InvalidValue(
            f"Spec {name}: a learner of your own has no mode without privacy, and no label oracle."
        )
    _check(cell.adapter in ADAPTERS, name, "adapter", ADAPTERS)
    errors.whole("tasks", cell.tasks, at_least=1)
    return cell


def _values(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _refuse_unknown(name: str, keys: Iterable[str]) -> None:
    unknown = sorted(keys)
    if unknown:
        raise errors.InvalidValue(f"Spec {name} has an unknown key: {', '.join(unknown)}.")


def _check(good: bool, name: str, key: str, choices: Sequence[str]) -> None:
    if not good:
        raise errors.InvalidValue(f"Spec {name}: expected {key} to be one of {', '.join(choices)}.")
