"""Features of labels' names: what a release holds of them, and what all releases say together.

A name is public, or that of a released label, and so are its features: post-processing, free. A label is named by the
first release that can; nothing is encoded again later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reticent import errors, names
from reticent.labels import Label, LabelSpace
from reticent.numerics.rows import unit_or_zero
from reticent.policies import Policy, PublicLabels
from reticent.released.model import Encode, Ints, learned_rows
from reticent.released.release import Past

if TYPE_CHECKING:  # takes a while to import
    from reticent.encoders.encoder import Encoder

NAMED, NAMES = "named", "names"  # rows of the label space, and a unit feature of the name of each
ALL_NAMED = 2_000
"""Up to so many labels all of them are named; in larger spaces those that were learned."""

Features = npt.NDArray[np.float32]
Name = Callable[[LabelSpace, npt.NDArray[np.integer[Any]]], dict[str, npt.NDArray[Any]]]
"""What a release holds of names, from its labels and the rows that it has learned, such as `Naming.arrays`."""


@dataclass(frozen=True)
class Naming:
    """Names labels of one task: the known ones before the spend, released ones after the draw.

    Guarantees:
      - Only public and released labels are asked for a name.                 test_only_released_labels_are_asked
      - What is wrong with names that the user gave is refused before the spend; after it nothing raises, and what
        cannot be named has no name.                           test_bad_names_are_refused_before_the_spend,
                                                               test_names_that_fail_after_the_spend_are_none

    Args:
        encode: From labels to one row of features each, zeros for no name; None where no label can have one.
        learned: Rows that earlier releases have learned.
        ready: Rows of known labels that this task names, and their names' features.
        before: Rows that need not be asked for any more.
        seen: Features of all names so far.

    Example:
        >>> policy = PublicLabels(["cat", "dog"], name_features=[[2.0, 0.0], [0.0, 0.0]])
        >>> naming = Naming.of_known(policy, None, policy.space, (), width=2)
        >>> {name: array.tolist() for name, array in naming.arrays(policy.space, np.array([0, 1])).items()}
        {'named': [0], 'names': [[1.0, 0.0]]}
    """

    encode: "_Encoding | None"
    learned: Ints
    ready: tuple[Ints, Features]
    before: Ints
    seen: Features

    @classmethod
    def of_known(cls, policy: Policy, encoder: Encode | None, known: LabelSpace, past: Past, *, width: int) -> "Naming":
        """Encodes the names of known labels, before anything is spent; refuses names that cannot be used.

        Args:
            policy: What labels are called.
            encoder: The model's own; names are texts, so without one that reads texts there are none.
            known: The labels that are known before the task.
            past: The releases before it.
            width: The number of features of an example.
        """
        refuse_unusable(policy, encoder, width=width)
        given = isinstance(policy, PublicLabels) and policy.name_features is not None
        ours = _known(encoder)
        reads = ours is not None and ours.reads_texts
        encode = _Encoding(policy, encoder, width) if given or reads else None
        if encode is None:  # nothing below is asked for
            rows, features = _none(width)
            return cls(None, rows, (rows, features), rows, features)
        (named, seen), learned = names_of(past, width), learned_rows(past)
        wanted = np.setdiff1d(np.arange(len(known)) if len(known) <= ALL_NAMED else learned, named)
        ready = encode.new(known, wanted, seen)
        return cls(encode, learned, ready, np.union1d(named, wanted), np.concatenate([seen, ready[1]]))

    def arrays(self, labels: LabelSpace, rows: npt.NDArray[np.integer[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Returns what the release holds of names, also where these are no more than before; never raises.

        Args:
            labels: All labels that are known with this release.
            rows: Those of them that it has learned.
        """
        if self.encode is None:
            return {}
        wanted = np.arange(len(labels)) if len(labels) <= ALL_NAMED else np.union1d(self.learned, rows)
        try:
            found = self.encode.new(labels, np.setdiff1d(wanted, self.before), self.seen)
        except Exception:  # of the user's code or the machine: the task is paid for, so it is published without
            found = _none(self.seen.shape[1])
        at = np.concatenate([self.ready[0], found[0]])
        order = np.argsort(at)
        return {NAMED: at[order].astype(np.int32), NAMES: np.concatenate([self.ready[1], found[1]])[order]}


def no_names(labels: LabelSpace, rows: npt.NDArray[np.integer[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Returns nothing: for a rule that reads no names."""
    return {}


def names_of(releases: Past, width: int | None = None) -> tuple[Ints, Features]:
    """Returns the rows of the label space that have a name, ascending, and the unit features of their names.

    Args:
        releases: In order.
        width: The number of features where no release has a name; 0 by default.
    """
    found = [release.parameters for release in releases if NAMED in release.parameters]
    if not found:
        return _none(width or 0)
    rows = np.concatenate([arrays[NAMED] for arrays in found]).astype(np.int64)
    features = np.concatenate([arrays[NAMES] for arrays in found]).astype(np.float32)
    order = np.argsort(rows, kind="stable")
    return rows[order], features[order]


def refuse_unusable(policy: Policy, encoder: Encode | None, *, width: int | None = None) -> None:
    """Refuses names that the user gave and that a model with this encoder could not use.

    Args:
        policy: What labels are called.
        encoder: The model's own.
        width: The number of features of an example; by default the encoder's.
    """
    given = policy.name_features if isinstance(policy, PublicLabels) else None
    known = _known(encoder)
    if width is None and known is not None:
        width = known.width
    if given is not None and width is not None and given.shape[1] != width:
        raise errors.InvalidValue(
            f"Expected name_features of {width} columns, as the features of examples have; got {given.shape[1]}. Use "
            "the encoder of the examples, or one trained with it."
        )
    if policy.names is None:
        return
    if known is None or not known.reads_texts:
        raise errors.InvalidValue(
            "Expected an encoder that reads texts, such as minilm() or wrap(..., probe=TEXT), with names. Leave names "
            "out, or pass PublicLabels(..., name_features=...) that are comparable with features of examples."
        )
    for label, text in policy.names.items() if isinstance(policy.names, Mapping) else ():
        if not known.reads_whole(text):
            raise errors.InvalidValue(
                f"The name of label {names.shown(repr(label))[:200]} is longer than {known.name} reads: "
                f"{known.backend.longest} tokens. Shorten it."
            )


@dataclass(frozen=True)
class _Encoding:
    """From labels to features of their names."""

    policy: Policy
    encoder: Encode | None
    width: int

    def new(self, labels: LabelSpace, rows: Ints, seen: Features) -> tuple[Ints, Features]:
        """Names some rows; a name that another label has is none, since it would tell neither from the other."""
        if not len(rows):
            return _none(self.width)
        features = self([labels.labels[row] for row in rows])
        taken = {row.tobytes() for row in (*seen, np.zeros(self.width, np.float32))}
        kept: dict[bytes, int] = {}
        for i, row in enumerate(features):
            if row.tobytes() not in taken:
                kept.setdefault(row.tobytes(), i)
        at = list(kept.values())
        return rows[at], features[at]

    def __call__(self, labels: Sequence[Label]) -> Features:
        if isinstance(self.policy, PublicLabels) and self.policy.name_features is not None:
            rows = np.array([self.policy.space.row(label) for label in labels])
            given = self.policy.name_features[rows]
            given[rows < 0] = 0  # added later
            return unit_or_zero(given)
        features = np.zeros((len(labels), self.width), np.float32)
        encoder = _known(self.encoder)
        if encoder is None or not encoder.reads_texts:
            return features
        named = {i: text for i, label in enumerate(labels) if (text := self.policy.name(label)) is not None}
        read = {i: text for i, text in named.items() if encoder.reads_whole(text)}
        if read:
            features[list(read)] = unit_or_zero(encoder(list(read.values())))
        return features


def _known(encoder: Encode | None) -> "Encoder | None":
    """Returns an encoder of reticent; None for a function of the user's, which says nothing about itself."""
    if encoder is None:
        return None
    from reticent.encoders.encoder import Encoder

    return encoder if isinstance(encoder, Encoder) else None


def _none(width: int) -> tuple[Ints, Features]:
    return np.zeros(0, np.int64), np.zeros((0, width), np.float32)
