"""Model: releases in, predictions out. Immutable; ships without the gate."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.labels import UNKNOWN, Label, LabelSpace, Spellings, canonical
from reticent.numerics.coded import Coded
from reticent.numerics.largest import largest
from reticent.numerics.rows import softmax
from reticent.released.release import Release

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Chances = npt.NDArray[np.float64]
Encode = Callable[[Any], Floats]

MOST_SCORES = 100_000
_CHUNK = 4096  # examples scored at a time
_SCORES = 1 << 24  # scores held at a time: fewer examples where labels are many,
_FEWEST = 64  # though not so few that a product takes longer to read the labels than to multiply
_CHANCES = 1 << 20  # probabilities held at a time


def finite(embedded: Floats) -> Bools:
    """Returns which examples have features that are numbers; of several models' features one set is enough.

    >>> finite(np.array([[1.0, 2.0], [np.nan, 2.0], [np.inf, 2.0]])).tolist()
    [True, False, False]
    """
    with np.errstate(all="ignore"):  # what float32 cannot hold is no feature of a head
        whole = np.isfinite(embedded.astype(np.float32)).all(axis=-1)
    return np.asarray(whole.reshape(len(embedded), -1).any(axis=1) if embedded.ndim > 1 else whole, dtype=np.bool_)


def of_logits() -> float:
    """Returns the temperature of scores that are the logits of probabilities: 1."""
    return 1.0


def as_it_is(embedded: Floats) -> Floats:
    """Returns its argument."""
    return embedded


@dataclass(frozen=True)
class Scorer:
    """A classifier made of releases: two steps from inputs to scores.

    Args:
        rows: Labels that may win, by their rows in the label space, ascending.
        rest: Labels that were learned but may not win; they follow. The score of every label that may not win is minus
            infinity.
        embed: From inputs and an encoder (None for features) to one entry per example.
        score: From embedded examples to scores of shape (n, len(rows)).
        usable: Which of them can be scored; the others have no label.
        temperature: What scores are divided by to be the logits of probabilities; by default they are logits.
        prepare: From embedded examples, a block at a time, to what `score` and `usable` read; the same by default. It
            must not depend on releases.
    """

    rows: Ints
    rest: Ints
    embed: Callable[[Any, Encode | None], Floats]
    score: Callable[[Floats], Scores]
    usable: Callable[[Floats], Bools] = finite
    temperature: Callable[[], float] = of_logits
    prepare: Callable[[Floats], Floats] = as_it_is


class Rule(Protocol):
    """How releases become a classifier; a frozen value that a manifest can hold."""

    def scorer(self, releases: Sequence[Release], labels: LabelSpace) -> Scorer:
        """Returns the classifier over these labels."""

    def to_json(self) -> dict[str, Any]:
        """Returns the rule as plain JSON values."""


@dataclass(frozen=True)
class Model:
    """What a stream has released so far, as a classifier.

    Guarantees:
      - All ways to ask have one order of labels: those that may not win, as when they were never learned, come last.
                                                                          test_all_ways_to_ask_a_model_agree
      - An example that cannot be scored (NaN, infinity, an image that cannot be read) has no label: its row is -1, its
        scores are NaN.                                                   test_what_cannot_be_scored_is_unknown
      - Probabilities of all labels sum to one, and the best label has the largest.
                                                                          test_probabilities_sum_to_one_and_agree

    Args:
        public: Labels that were known before any task.
        rule: How releases become a classifier.
        releases: One per task, in order.
    """

    public: LabelSpace
    rule: Rule
    releases: tuple[Release, ...] = ()

    @cached_property
    def labels(self) -> LabelSpace:
        """All known labels: the public ones, then those released, in order."""
        known = self.public
        for release in self.releases:
            known = known.union(release.labels)
        return known

    @property
    def tasks(self) -> int:
        """How many releases are of tasks; others add public labels."""
        return len([release for release in self.releases if release.parameters])

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("public", "rule", "releases")}  # a copy computes the rest itself

    def with_release(self, release: Release) -> "Model":
        """Returns the model with one more release, without going through the label space again."""
        model = replace(self, releases=(*self.releases, release))
        model.__dict__["labels"] = self.labels.union(release.labels)
        return model

    @cached_property
    def _scorer(self) -> Scorer:
        return self.rule.scorer([release for release in self.releases if release.parameters], self.labels)

    @cached_property
    def _temperature(self) -> float:
        return self._scorer.temperature()

    def scores(self, inputs: Any, encoder: Encode | None) -> Scores:
        """Returns one score per example and known label."""
        self._refuse_too_many("Scores", "predict_top_k")
        scorer, parts = self._scorer, [np.zeros((0, len(self.labels)), np.float32)]
        for mine in self._prepared(inputs, encoder):
            scores = np.full((len(mine), len(self.labels)), -np.inf, np.float32)
            if len(scorer.rows):
                scores[:, scorer.rows] = scorer.score(mine)
            scores[~scorer.usable(mine)] = np.nan
            parts.append(scores)
        return np.concatenate(parts)

    def probabilities(self, inputs: Any, encoder: Encode | None) -> Chances:
        """Returns one probability per example and known label; a label that may not win has none."""
        self._refuse_too_many("Probabilities", "top_k_proba")
        if not len(self.labels):
            raise errors.InvalidValue("No label is known yet, so there is nothing to have a probability.")
        scorer, parts = self._scorer, [np.zeros((0, len(self.labels)))]
        for mine in self._prepared(inputs, encoder):
            chances = np.full((len(mine), len(self.labels)), 0.0 if len(scorer.rows) else 1 / len(self.labels))
            if len(scorer.rows):
                chances[:, scorer.rows] = softmax(scorer.score(mine), self._temperature)
            chances[~scorer.usable(mine)] = np.nan
            parts.append(chances)
        return np.concatenate(parts)

    def top(self, inputs: Any, encoder: Encode | None, k: int) -> tuple[Ints, Scores]:
        """Returns the rows of the k best labels of each example and their scores, best first; row -1 is no label."""
        found = self.best(inputs, encoder, k)
        return found.rows, found.scores

    def best(self, inputs: Any, encoder: Encode | None, k: int, *, weighed: bool = False) -> "Best":
        """Returns the k best labels of each example with their scores and, where they are to be weighed, probabilities.

        For label spaces of any size.
        """
        return Best.joined([self._best(mine, k, weighed) for mine in self._prepared(inputs, encoder)], k)

    def answers_to(self, prepared: Floats) -> Ints:
        """Returns the row of the best label of each of some examples that were prepared before, -1 for none."""
        return Best.joined([self._best(prepared[at], 1, False) for at in self._blocks(len(prepared))], 1).rows[:, 0]

    def prepared(self, inputs: Any, encoder: Encode | None) -> Floats:
        """Returns examples as sums score them: for all models of a stream the same, so once is enough."""
        return self._scorer.prepare(self._scorer.embed(inputs, encoder))

    def _best(self, prepared: Floats, k: int, weighed: bool) -> "Best":
        scorer, shape = self._scorer, (len(prepared), k)
        best = Best(np.full(shape, -1), np.full(shape, -np.inf, np.float32), np.zeros(shape))
        found = min(k, len(scorer.rows))
        if found:
            scores = scorer.score(prepared)
            order = largest(scores, found)
            best.rows[:, :found] = scorer.rows[order]
            best.scores[:, :found] = np.take_along_axis(scores, order, axis=1)
            if weighed:
                best.chances[:, :found] = self._chances_of(scores, order)
        more = scorer.rest[: k - found]
        best.rows[:, found : found + len(more)] = more
        if len(more) and not found:
            best.chances[:, : len(more)] = 1 / len(self.labels)
        unusable = ~scorer.usable(prepared)
        best.rows[unusable], best.scores[unusable], best.chances[unusable] = -1, -np.inf, np.nan
        return best

    def _prepared(self, inputs: Any, encoder: Encode | None) -> Iterator[Floats]:
        embedded = self._scorer.embed(inputs, encoder)
        return (self._scorer.prepare(embedded[at]) for at in self._blocks(len(embedded)))

    def _blocks(self, examples: int) -> Iterator[slice]:
        """Yields so few examples at a time that their scores fit, whatever the number of labels."""
        step = max(_FEWEST, min(_CHUNK, _SCORES // max(1, len(self._scorer.rows))))
        return (slice(start, start + step) for start in range(0, examples, step))

    def _chances_of(self, scores: Scores, order: Ints) -> Chances:
        """Returns the probabilities of some columns, few rows at a time: they need those of all labels, in float64."""
        step = max(1, _CHANCES // scores.shape[1])
        parts = (slice(start, start + step) for start in range(0, len(scores), step))
        chances = [np.take_along_axis(softmax(scores[part], self._temperature), order[part], axis=1) for part in parts]
        return np.concatenate(chances)

    def answers(self, inputs: Any, encoder: Encode | None) -> Ints:
        """Returns the row of the best label of each example, -1 for none; one at a time.

        The last bits of a product depend on the position of a row in its block, so in blocks one example could change
        the answers to others. Here an answer depends on its own example alone.
        """
        embedded = self._scorer.embed(inputs, encoder)
        alone = (self._scorer.prepare(embedded[i : i + 1]) for i in range(len(embedded)))
        return Best.joined([self._best(mine, 1, False) for mine in alone], 1).rows[:, 0]

    def names(self, rows: Ints) -> npt.NDArray[np.object_]:
        """Returns the labels of rows; -1 is the public constant UNKNOWN."""
        coded = self.coded_names(rows)
        table = np.fromiter(coded.entries, dtype=object, count=len(coded.entries))
        named: npt.NDArray[np.object_] = table[coded.codes].reshape(rows.shape)
        return named

    def coded_names(self, rows: Ints) -> Coded:
        """Returns the same as codes into the labels that occur, flat."""
        found, places = np.unique(rows, return_inverse=True)
        known = self.labels.labels
        return Coded(places.reshape(-1), [known[row] if row >= 0 else UNKNOWN for row in found])

    def _refuse_too_many(self, what: str, instead: str) -> None:
        if len(self.labels) > MOST_SCORES:
            raise errors.InvalidValue(
                f"{what} of {len(self.labels):,} labels would not fit. Use {instead} for the best few."
            )


class Best(NamedTuple):
    """The best labels of each example, best first: arrays of shape (n, k).

    Args:
        rows: Of the label space; -1 is no label.
        scores: Minus infinity where there is no label, or one that may not win.
        chances: Their probabilities; NaN for an example that cannot be scored, zeros where they were not asked for.
    """

    rows: Ints
    scores: Scores
    chances: Chances

    @classmethod
    def joined(cls, parts: "Sequence[Best]", k: int) -> "Best":
        """Returns parts as one, in their order; k labels of no example where there is no part."""
        none = cls(np.zeros((0, k), np.int64), np.zeros((0, k), np.float32), np.zeros((0, k)))
        return cls(*map(np.concatenate, zip(none, *parts, strict=True)))

    def abstaining(self, least: float) -> "Best":
        """Returns the same, without labels for an example whose best label has a probability below `least`.

        >>> found = Best(np.array([[3], [5]]), np.zeros((2, 1), np.float32), np.array([[0.9], [0.4]]))
        >>> found.abstaining(0.5).rows.tolist()
        [[3], [-1]]
        """
        unsure = ~(self.chances[:, :1] >= least)
        return self._replace(rows=np.where(unsure, -1, self.rows))


def judged(pairs: Iterable[tuple[object, object]], known: Container[Label]) -> Iterator[tuple[Label | None, bool]]:
    """Yields the label of each example, and whether the answer is that label; for pairs of an answer and a label.

    Guarantees: what has no label (None) counts in no accuracy, on public data or on private; UNKNOWN is never right.
                                                                                 test_ways_to_measure_accuracy_agree

    >>> list(judged([("a", "b"), ("7", 7), (UNKNOWN, UNKNOWN), ("a", None)], {"a", "7"}))
    [('b', False), ('7', True), (None, False), (None, False)]
    """
    spellings = Spellings(known)
    for answer, cell in pairs:
        label = spellings.one(cell)
        yield label, label is not None and answer != UNKNOWN and canonical(answer) == label


def features_of(inputs: Any, encoder: Encode | None) -> Floats:
    """Returns inputs as features, NaN where a cell of an array of objects is no number; refuses other types."""
    try:
        found = np.asarray(inputs if encoder is None else encoder(inputs))
    except ValueError as error:  # rows of several lengths
        if isinstance(error, errors.ReticentError):
            raise
        found = np.zeros(0, dtype=np.str_)
    if found.dtype.kind == "O":
        found = np.array([_number(cell) for cell in found.flat], dtype=np.float64).reshape(found.shape)
    if found.dtype.kind not in "biuf" or found.ndim != 2:
        more = " Reshape your data: x.reshape(1, -1) is one example." if found.ndim == 1 else ""
        raise errors.InvalidValue(f"Expected features: numbers of shape (n, K), or an encoder that makes them.{more}")
    return found


def _number(cell: object) -> float:
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def learned_rows(releases: Sequence[Release]) -> Ints:
    """Returns the rows of the label space that have parameters in any release, ascending."""
    rows = [release.parameters["rows"] for release in releases if "rows" in release.parameters]
    # of a small space all tasks have the same: nothing to sort
    distinct = {(some.dtype, some.tobytes()): some for some in rows}
    return np.unique(np.concatenate(list(distinct.values()))).astype(np.int64) if rows else np.zeros(0, np.int64)
