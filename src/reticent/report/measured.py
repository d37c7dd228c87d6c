"""Accuracy on public test data: how sure it is, by label, and what is lost to labels that are not known."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reticent import errors
from reticent.labels import Label, in_public_order
from reticent.privacy.confidence import clopper_pearson
from reticent.privacy.rounding import rounded_down, rounded_up
from reticent.released.model import judged

MISSES = 0.05


@dataclass(frozen=True)
class Share:
    """How many of some examples were answered rightly.

    Args:
        n: How many there are.
        right: How many of them were right.
    """

    n: int
    right: int

    @property
    def accuracy(self) -> float | None:
        """The share that was right; None of no examples."""
        return self.right / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float]:
        """Limits that miss the accuracy on examples to come in 5 % of cases (Clopper-Pearson)."""
        return clopper_pearson(self.right, self.n, MISSES) if self.n else (0.0, 1.0)


@dataclass(frozen=True)
class Measured:
    """Accuracy on public test data.

    Args:
        labels: From each label of the test data to how it fared.
        known: Those of them that the model can answer with.

    Example:
        >>> found = measure([("a", "a"), ("a", "b"), ("b", "c")], known=["a", "b"])
        >>> found.all.right, found.unknown.n, found.with_known_labels.accuracy
        (1, 1, 0.5)
    """

    labels: dict[Label, Share]
    known: frozenset[Label]

    @property
    def all(self) -> Share:
        """All examples."""
        return _sum(self.labels.values())

    @property
    def with_known_labels(self) -> Share:
        """Those whose label the model can answer with."""
        return _sum(share for label, share in self.labels.items() if label in self.known)

    @property
    def unknown(self) -> Share:
        """Those whose label it cannot answer with: none of them can be right."""
        return _sum(share for label, share in self.labels.items() if label not in self.known)

    def json(self) -> dict[str, Any]:
        """Returns the figures as plain JSON values."""
        return {
            "accuracy": self.all.accuracy,
            "n": self.all.n,
            "interval": list(self.all.interval),
            "labels": len(self.labels),
            "labels_not_known": len(self.labels) - len(self.known),
            "share_not_known": self.unknown.n / self.all.n,
            "accuracy_of_known_labels": self.with_known_labels.accuracy,
        }

    def lines(self) -> list[str]:
        """Returns the figures in words."""
        low, high = self.all.interval
        limits = f"95 % interval {rounded_down(low)} to {rounded_up(high)}, for independent examples"
        lines = [f"accuracy {self.all.accuracy:.4f} (n = {self.all.n}; {limits})"]
        if self.unknown.n:
            lost, missing = self.unknown.n / self.all.n, len(self.labels) - len(self.known)
            where = f"n = {self.unknown.n}; {missing} of {len(self.labels)} labels"
            lines.append(f"Lost to labels that the model does not know: {lost:.4f} ({where}).")
            if self.with_known_labels.n:
                rest = self.with_known_labels
                lines.append(f"Accuracy on examples of known labels: {rest.accuracy:.4f} (n = {rest.n}).")
        return lines

    def table(self) -> dict[str, list[object]]:
        """Returns a row for each label, as columns for a file."""
        rows = [(label, label in self.known, self.labels[label]) for label in in_public_order(self.labels)]
        return {
            "label": [label for label, _, _ in rows],
            "known": [known for _, known, _ in rows],
            "n": [share.n for *_, share in rows],
            "right": [share.right for *_, share in rows],
            "accuracy": [share.accuracy for *_, share in rows],
            "low": [share.interval[0] for *_, share in rows],
            "high": [share.interval[1] for *_, share in rows],
        }


def measure(pairs: Iterable[tuple[object, object]], *, known: Iterable[Label]) -> Measured:
    """Compares answers with the truth, label by label. For public data: nothing here is private.

    Args:
        pairs: What the model said, and the label; an example without one counts for nothing.
        known: Every label that the model can answer with.
    """
    counts: dict[Label, list[int]] = {}
    everything = frozenset(known)
    for label, right in judged(pairs, everything):
        if label is not None:
            found = counts.setdefault(label, [0, 0])
            found[0] += 1
            found[1] += right
    if not counts:
        raise errors.InvalidValue("Expected at least one example with a label to measure accuracy on.")
    return Measured({label: Share(*found) for label, found in counts.items()}, everything & counts.keys())


def _sum(shares: Iterable[Share]) -> Share:
    listed = list(shares)
    return Share(sum(share.n for share in listed), sum(share.right for share in listed))
