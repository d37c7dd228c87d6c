"""The numbers of the paper's tables, as printed. Each says which table and row it comes from."""

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from reticent import errors

TABLES = (
    "datafig3",
    "datafig4a",
    "datafig4b",
    "datafig5",
    "datafig6",
    "split-cifar100",
    "imagenet-r",
    "five-datasets",
)
METRICS = ("accuracy", "forgetting", "known")
_WHERE = ("row", "data", "learner", "labels", "epsilon", "share", "ratio", "adapter")


@dataclass(frozen=True, kw_only=True)
class PaperValue:
    """One number of the paper with its spread. Accuracy and forgetting are in percent, known counts labels.

    Args:
        table: The paper's name of the table, such as "tab:datafig3".
        statistic: What the number is over which seeds, such as a median or a mean.
        row: Row and column in the paper's words.
        data: Such as "split-cifar100".
        metric: "accuracy", "forgetting" or "known".
        middle: The median or the mean.
        learner: Such as "cosine"; None where the number holds for all.
        labels: Such as "released"; None where the table does not say.
        epsilon: None without privacy.
        share: Percent of the budget that released the labels; None where it does not apply or the table does not say.
        ratio: Blurry sample ratio in percent; None where it does not apply.
        adapter: "film" or "last_layer"; None where it does not apply or the table does not say.
        low: The second worst seed, where the table has medians.
        high: The second best seed, where the table has medians.
        std: The standard deviation, where the table has means with one.
    """

    table: str
    statistic: str
    row: str
    data: str
    metric: str
    middle: float
    learner: str | None = None
    labels: str | None = None
    epsilon: float | None = None
    share: float | None = None
    ratio: float | None = None
    adapter: str | None = None
    low: float | None = None
    high: float | None = None
    std: float | None = None


@functools.cache
def paper_values(table: str) -> tuple[PaperValue, ...]:
    """Returns every number of one table of the paper.

    Args:
        table: One of `TABLES`.

    Example:
        >>> first = paper_values("datafig3")[0]
        >>> first.row, first.low, first.middle, first.high
        ('CIFAR-100, epsilon 1, Cosine Classifier, Label Oracle (Baseline)', 78.3, 78.4, 78.5)
    """
    if table not in TABLES:
        raise errors.InvalidValue(f"No table {table!r} of the paper. There are: {', '.join(TABLES)}.")
    return parse((resources.files("reticent.lab.bench") / "paper" / f"{table}.toml").read_text(encoding="utf-8"))


def parse(text: str) -> tuple[PaperValue, ...]:
    """Reads one table from its TOML.

    Example:
        >>> parse('table = "tab:toy"')
        ()
    """
    content = tomllib.loads(text)
    _refuse_unknown(content, ("table", "statistic", "value"))
    return tuple(
        value
        for entry in content.get("value", [])
        for value in _values(entry, table=content["table"], statistic=content["statistic"])
    )


def _values(entry: Mapping[str, Any], *, table: str, statistic: str) -> Iterator[PaperValue]:
    _refuse_unknown(entry, (*_WHERE, *METRICS))
    where = {key: entry[key] for key in _WHERE if key in entry}
    if where.get("epsilon") == "none":
        del where["epsilon"]
    for metric in METRICS:
        if metric in entry:
            yield PaperValue(table=table, statistic=statistic, metric=metric, **where, **_spread(entry[metric]))


def _spread(cell: list[float] | Mapping[str, float]) -> dict[str, Any]:
    """From [low, middle, high], or from a mean that may have a std."""
    if isinstance(cell, list):
        return dict(zip(("low", "middle", "high"), cell, strict=True))
    _refuse_unknown(cell, ("mean", "std"))
    return {"middle": cell["mean"]} | {key: cell[key] for key in ("std",) if key in cell}


def _refuse_unknown(entry: Mapping[str, object], known: tuple[str, ...]) -> None:
    for key in entry:
        if key not in known:
            raise errors.InvalidValue(f"Unknown key {key!r} in the paper's numbers. There are: {', '.join(known)}.")
