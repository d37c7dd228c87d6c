"""What the membership game on label spaces has shown: one sentence for a result, and tables of 80 columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from reticent.privacy.rounding import exact, rounded_down, rounded_up

LEAKS, NOT_ABOVE = "leaks", "not significantly above the bound"
WIDTH = 80


def verdict(*, broken: bool) -> str:
    """Returns what one game says: a leak is proven, or it is not; a game never proves that there is none.

    >>> verdict(broken=False)
    'not significantly above the bound'
    """
    return LEAKS if broken else NOT_ABOVE


def limits(point: Mapping[str, Any], *, scale: int = 1, digits: int = 3) -> str:
    """Returns the confidence limits of the attacker's accuracy, rounded outwards; with a scale of 100 in percent.

    >>> limits({"interval": [0.46414, 0.54249]}), limits({"interval": [0.46414, 0.54249]}, scale=100, digits=1)
    ('0.464 to 0.543', '46.4 to 54.3')
    """
    low, high = (scale * limit for limit in point["interval"])
    return f"{rounded_down(low, digits)} to {rounded_up(high, digits)}"


def attack_tables(points: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Returns a table for each game, with what was attacked, how often the attacker was right, and the verdict.

    Args:
        points: As in `attack.json`, all with the same budget.

    Example:
        >>> point = {"target": "ours", "game": "alone", "epsilon": 1.0, "delta": 1e-5, "accuracy": 0.5,
        ...     "interval": [0.45, 0.55], "bound": 0.7311, "broken": False}
        >>> attack_tables([point])[0].title
        'Game: alone; bound 0.732'
    """
    made = []
    for game in dict.fromkeys(point["game"] for point in points):
        own = [point for point in points if point["game"] == game]
        title = f"Game: {game}; bound {rounded_up(own[0]['bound'], 3)}"
        table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", width=WIDTH)
        for heading in ("published by", "right", "limits", "verdict"):
            table.add_column(heading, no_wrap=heading in ("right", "limits"))
        for point in own:
            words = verdict(broken=point["broken"])
            shown = f"[bold red]{words}[/]" if point["broken"] else words
            table.add_row(point["target"], f"{point['accuracy']:.3f}", limits(point), shown)
        made.append(table)
    return made


def attack_words(epsilon: float, delta: float, alpha: float) -> str:
    """Returns how to read the tables."""
    return (
        "Right: how often the attacker guessed right whether the person is in the data. Bound: the most that any "
        f"attacker can reach against epsilon {exact(epsilon)}, delta {exact(delta)}. A leak is proven where even the "
        f"lower limit is above it; limits are Clopper-Pearson, each misses with chance {alpha:g}. A classifier that "
        "takes its labels from the data reveals who is in it, whatever the privacy of its weights."
    )
