"""What a number over several seeds says: one rule for tables, plots and pages."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

# What the reader sees about which numbers are printed.
IN_WORDS = {
    "median": "median (second worst, second best seed; of three or fewer the worst and the best)",
    "minmax": "median (minimum, maximum)",
    "mean": "mean ± standard deviation",
}
FEWEST_TO_TRIM = 4  # with fewer seeds than this, the worst and the best are the limits


@dataclass(frozen=True)
class Spread:
    """A number over seeds: its middle, its limits, how many seeds there are, and all this as text."""

    low: float
    middle: float
    high: float
    seeds: int
    text: str

    def __str__(self) -> str:
        return self.text


def spread(values: Iterable[float], statistic: str = "median", *, digits: int = 1) -> Spread:
    """Returns the middle and the limits of one number over seeds.

    Args:
        values: One number for each seed, at least one.
        statistic: "median" with the second worst and second best of four seeds or more, else the worst and the best;
            "minmax", the median with the minimum and the maximum; or "mean" with one standard deviation to each side.
        digits: How many digits after the point are printed.

    Example:
        >>> print(spread([1.0, 2.0, 3.0, 4.0]), spread([1.0, 2.0, 3.0]), spread([2.0]), sep="; ")
        2.5 (2.0, 3.0); 2.0 (1.0, 3.0); 2.0
        >>> print(spread([1.0, 2.0, 3.0, 4.0], "minmax", digits=0), spread([1.0, 3.0], "mean"), sep="; ")
        2 (1, 4); 2.0 ± 1.4
    """
    if statistic not in IN_WORDS:
        raise ValueError(f"Expected a statistic out of {', '.join(IN_WORDS)}, got {statistic}.")
    found = sorted(values)
    if not found:
        raise ValueError("Expected at least one value.")
    if statistic == "mean":
        middle = statistics.mean(found)
        deviation = statistics.stdev(found) if len(found) > 1 else 0.0
        low, high, beside = middle - deviation, middle + deviation, f"± {deviation:.{digits}f}"
    else:
        middle = statistics.median(found)
        inner = found[1:-1] if statistic == "median" and len(found) >= FEWEST_TO_TRIM else found
        low, high = inner[0], inner[-1]
        beside = f"({low:.{digits}f}, {high:.{digits}f})"
    text = f"{middle:.{digits}f}" + (f" {beside}" if len(found) > 1 else "")
    return Spread(low, middle, high, len(found), text)
