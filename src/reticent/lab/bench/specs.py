"""Specs: experiments as values, a table's worth of runs each, read from small TOML files."""

import itertools
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.lab.bench import catalogue, paper_numbers
from reticent.lab.bench.run import ADAPTERS, LABELS, MEMORIES, NONE, Run
from reticent.names import shown
from reticent.numerics.reading import MEGABYTE, read_regular
from reticent.report.seeds import IN_WORDS

SEEDS = 5
SEEDS_AT_MOST = RUNS_AT_MOST = 10_000
_LARGEST_FILE = MEGABYTE // 4
SHARE = 10.0

METRICS = ("accuracy", "forgetting", "known", "public", "parent", "seconds")
AXES = ("data", "learner", "labels", "epsilon", "ratio", "share", "adapter", "memory", "names", "persons")
COLUMNS = (*AXES[2:6], "persons", "task", "aggregation")
KINDS = ("grid", "attack", "drop")
# The specs that run without a network and a GPU, in the order of the paper.
OFFLINE = (
    "attack",
    "drop",
    "labels",
    "share",
    "sizes",
    "blurry",
    "streams",
    "streams-long",
    "large-spaces",
    "persons",
    "hierarchy",
    "desai",
    "aggregation",
    "domain-shift",
    "domain-shift-film",
    "shift",
    "shift-film",
    "tuning",
)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """An experiment: which runs, and how a table shows them.

    Args:
        name: Of the file, without its ending.
        title: Of the table.
        runs: All of them, in order.
        kind: "grid" for runs; "attack" and "drop" need no data.
        paper: The paper's tables to show beside, by file name in `lab/bench/paper`.
        figure: Which metrics the paper shows in a figure alone, without numbers.
        columns: The axis across the table; the others go down.
        statistic: As the paper reports it: "median" (second worst and second best seed), "minmax" or "mean" (std).
        metrics: What is measured.
        parts: Names of other specs that this one stands for; `chosen` gives these.
        path: As the command names it, where it does not come with the package.

    Example:
        >>> spec("drop").kind
        'drop'
    """

    name: str
    title: str
    runs: tuple[Run, ...] = ()
    kind: str = "grid"
    paper: tuple[str, ...] = ()
    figure: tuple[str, ...] = ()
    columns: str = "labels"
    statistic: str = "median"
    metrics: tuple[str, ...] = ("accuracy",)
    parts: tuple[str, ...] = ()
    path: str | None = None

    @property
    def command(self) -> str:
        """How `reticent bench` is told which spec it is."""
        return self.path or self.name


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
        text = read_regular(path, most=_LARGEST_FILE, link=True).decode(errors="replace")
        return replace(read(path.stem, text), path=name)
    if name not in names():
        raise errors.InvalidValue(
            f"No spec is called {name}. There are {', '.join(names())}, or a path of a .toml file."
        )
    return read(name, (resources.files("reticent.lab.bench") / "specs" / f"{name}.toml").read_text(encoding="utf-8"))


def chosen(names: Iterable[str]) -> list[Spec]:
    """Reads specs by their names or paths; `all` and a spec of parts stand for several.

    >>> [spec.name for spec in chosen(["quick", "paper"])][:4]
    ['quick', 'attack', 'drop', 'paper-labels']
    """
    found = [spec(one) for name in names for one in (OFFLINE if name == "all" else (name,))]
    return [one for each in found for one in (map(spec, each.parts) if each.parts else (each,))]


def narrowed(spec: Spec, *, seeds: int | None = None, only: Sequence[str] = ()) -> Spec:
    """Returns the spec with fewer runs: the first seeds, and only some data sets, learners or adapters.

    Example:
        >>> len(narrowed(spec("aggregation"), seeds=1, only=["clinc150", "peft"]).runs)
        2
    """
    limit = SEEDS_AT_MOST if seeds is None else errors.whole("seeds", seeds, at_least=1)
    learners = {name for name in only if catalogue.is_known(name)}
    adapters = set(only) & set(ADAPTERS)
    chosen = {"learner": learners, "adapter": adapters, "data": set(only) - learners - adapters}
    kept = (
        run
        for run in spec.runs
        if run.seed < limit and all(not names or getattr(run, axis) in names for axis, names in chosen.items())
    )
    return replace(spec, runs=tuple(kept))


def read(name: str, text: str) -> Spec:
    """Returns the spec that a TOML text describes.

    Example:
        >>> [run.learner for run in read("mine", 'data = "clinc150", learner = "cosine"'.replace(",", chr(10))).runs]
        ['cosine', 'cosine', 'cosine', 'cosine', 'cosine']
        >>> read("mine", 'lerner = ["cosine"]')
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Spec mine has an unknown key: lerner.
    """
    try:
        stored = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidValue(f"Spec {name} is not TOML: {shown(error)[:200]}.") from error
    grids = stored.pop("grid", [{}])
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise errors.InvalidValue(f"Spec {name}: expected each grid to begin with [[grid]].")
    table = {key: stored.pop(key) for key in _TABLE_KEYS if key in stored}
    given: dict[str, Any] = {
        key: tuple(_values(value)) if key in ("paper", "figure", "metrics", "parts") else str(value)
        for key, value in table.items()
    }
    grid = given.get("kind", "grid") == "grid" and "parts" not in given
    _check(given.get("kind", "grid") in KINDS, name, "kind", KINDS)
    if not grid:
        _refuse_unknown(name, [*stored, *(["grid"] if grids != [{}] else [])])
    runs = _runs(name, [{**stored, **one} for one in grids]) if grid else _of_parts(name, given.get("parts", ()))
    made = Spec(name=name, **{"title": name, **given}, runs=runs)
    _check(all(table in paper_numbers.TABLES for table in made.paper), name, "paper", paper_numbers.TABLES)
    _check(made.columns in COLUMNS, name, "columns", COLUMNS)
    _check(made.statistic in IN_WORDS, name, "statistic", tuple(IN_WORDS))
    for key, given_metrics in (("metrics", made.metrics), ("figure", made.figure)):
        _check(all(metric in METRICS for metric in given_metrics), name, key, METRICS)
    return made


_TABLE_KEYS = tuple(field.name for field in fields(Spec) if field.name not in ("name", "runs", "path"))


def _of_parts(name: str, parts: Iterable[str]) -> tuple[Run, ...]:
    """Returns the runs of all parts, each once; of specs that come with the package, and are no parts themselves."""
    for part in parts:
        _check(part in names(), name, "parts", names())
        if part == name or spec(part).parts:
            raise errors.InvalidValue(f"Spec {name}: expected parts that have no parts themselves.")
    return tuple(dict.fromkeys(run for part in parts for run in spec(part).runs))


def _runs(name: str, grids: Sequence[Mapping[str, Any]]) -> tuple[Run, ...]:
    runs: dict[Run, None] = {}
    for grid in grids:
        rest = {key: value for key, value in grid.items() if key not in (*AXES, "seeds")}
        _refuse_unknown(name, set(rest) - {"tasks", "blurry", "text", "label"})
        axes = {axis: _values(grid[axis]) for axis in AXES if axis in grid}
        for axis in ("data", "learner", *axes):
            if not axes.get(axis):
                raise errors.InvalidValue(f"Spec {name} names no {axis}.")
        if "share" in axes and "released" not in axes.get("labels", ()):
            raise errors.InvalidValue(f'Spec {name}: a share is spent on labels; expected labels = "released" with it.')
        seeds = range(errors.whole("seeds", grid.get("seeds", SEEDS), at_least=1, at_most=SEEDS_AT_MOST))
        if len(runs) + math.prod(map(len, axes.values())) * len(seeds) > RUNS_AT_MOST:
            raise errors.InvalidValue(f"Spec {name}: expected at most {RUNS_AT_MOST:,} runs.")
        for values in itertools.product(*axes.values(), seeds):
            runs[_run(name, {**dict(zip([*axes, "seed"], values, strict=True)), **rest})] = None
    return tuple(runs)


def _run(name: str, values: dict[str, Any]) -> Run:
    for key in ("data", "learner", "labels", "adapter", "memory", "text", "label"):
        if not isinstance(values.get(key, ""), str):
            raise errors.InvalidValue(f"Spec {name}: expected {key} to be text.")
    learner = values["learner"]
    _check(catalogue.is_known(learner), name, "learner", (*catalogue.names(), "module:object"))
    entry = catalogue.entry(learner)
    epsilon = values.get("epsilon", 1.0)
    numbers: dict[str, float | None] = {
        "epsilon": None if epsilon == NONE else errors.real("epsilon", epsilon, above=0, below=100)
    }
    if "ratio" in values:
        numbers["ratio"] = errors.real("ratio", values["ratio"], above=0, below=100.5, at_least=True)
    released = values.get("labels") == "released"
    if "blurry" in values:
        numbers["blurry"] = errors.real("blurry", values["blurry"], above=0, below=100.5, at_least=True)
    if not isinstance(values.get("names", False), bool):
        raise errors.InvalidValue(f"Spec {name}: expected names to be true or false.")
    if "share" in values:
        numbers["share"] = errors.real("share", values["share"], above=0, below=100) if released else None
    elif entry.origin == catalogue.PAPER and released:
        numbers["share"] = SHARE
    run = Run(**{**values, **numbers, **({"tasks": 1} if entry.one_task else {})})
    _check(run.labels in LABELS, name, "labels", LABELS)
    if entry.origin == catalogue.OWN and run.spends_without_limit:
        raise errors.InvalidValue(
            f"Spec {name}: a learner of your own has no mode without privacy, and no label oracle."
        )
    _check(run.adapter in ADAPTERS, name, "adapter", ADAPTERS)
    _check(run.memory in MEMORIES, name, "memory", MEMORIES)
    if run.memory != MEMORIES[0] and run.spends_without_limit:
        raise errors.InvalidValue(f"Spec {name}: memory is for runs with a budget.")
    unpaid = run.persons > 1 or run.spends_without_limit or run.labels == "released" or run.adapter != ADAPTERS[0]
    if entry.pays and unpaid:
        raise errors.InvalidValue(
            f"Spec {name}: {learner} tunes on persons of the first task alone, so it needs persons = 1, a budget, "
            "public labels and the last layer."
        )
    errors.whole("tasks", run.tasks, at_least=1)
    errors.whole("persons", run.persons, at_least=1)
    return run


def _values(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _refuse_unknown(name: str, keys: Iterable[str]) -> None:
    unknown = sorted(keys)
    if unknown:
        raise errors.InvalidValue(f"Spec {name} has an unknown key: {', '.join(unknown)}.")


def _check(good: bool, name: str, key: str, choices: Sequence[str]) -> None:
    if not good:
        raise errors.InvalidValue(f"Spec {name}: expected {key} to be one of {', '.join(choices)}.")
