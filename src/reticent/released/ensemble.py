"""An ensemble of heads and adapters as a classifier: one small model per task on one shared encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.adapters import Adapter, Film, LastLayer, Lora, features_with_each, last_layer
from reticent.encoders.encoder import Encoder
from reticent.labels import LabelSpace
from reticent.numerics.rows import scaled
from reticent.released.aggregate import AGGREGATES, Aggregate, Logits, argmax, pooled
from reticent.released.heads import BIAS, DECOY, NOISE, ROWS, WEIGHT, blocks_of_heads, pool
from reticent.released.model import Encode, Floats, Scorer, features_of, learned_rows, of_logits
from reticent.released.naming import NAMED, NAMES, names_of
from reticent.released.probabilities import noise_in, temperature
from reticent.released.release import Release

_BESIDE = (WEIGHT, BIAS, ROWS, NOISE, DECOY, NAMED, NAMES)  # what a release holds that is no adapter's
_LOGITS = 1 << 20  # of one member, held at a time
_ADAPTERS: dict[str, type[Film | LastLayer | Lora]] = {"film": Film, "last_layer": LastLayer, "lora": Lora}


class Parts(NamedTuple):
    """What an ensemble becomes: the labels of any head, what each task released, heads to score by, and their merge."""

    rows: npt.NDArray[np.int64]
    members: Sequence[Mapping[str, Any]]
    heads: Sequence[Mapping[str, Any]]
    merge: Aggregate


@dataclass(frozen=True)
class Ensemble:
    """Scores by the logits of one model per task, aggregated.

    Args:
        adapter: What a task's release holds beside a head.
        aggregate: From the logits of several models to one score per label.
        length: Features of the plain encoder are scaled to this length before a head reads them; None leaves them.

    Example:
        >>> Ensemble.from_json(Ensemble(length=10.0).to_json()) == Ensemble(length=10.0)
        True
    """

    adapter: Adapter = last_layer
    aggregate: Aggregate = argmax
    length: float | None = None

    def scorer(self, releases: Sequence[Release], labels: LabelSpace) -> Scorer:
        """Returns the classifier over the labels that any head knows."""
        found = self.parts(releases)
        return Scorer(
            found.rows,
            np.zeros(0, np.int64),
            partial(self._embed, members=found.members),
            partial(self._score, members=found.heads, rows=found.rows, merge=found.merge),
            temperature=partial(self._temperature, found, releases),
        )

    def parts(self, releases: Sequence[Release]) -> "Parts":
        """Returns what the classifier is made of, once."""
        members = [release.parameters for release in releases if ROWS in release.parameters]
        rows, heads, merge = learned_rows(releases), members, self.aggregate
        if merge is pooled:
            adapted = any(map(adapter_values, members))  # rows on different features cannot be added up
            heads = members if adapted or not members else [pool(members, rows, names_of(releases))]
            merge = argmax
        return Parts(rows, members, heads, merge)

    def _temperature(self, found: "Parts", releases: Sequence[Release]) -> float:
        """Returns that of a pooled head on features of a known length; other scores are taken as logits."""
        if self.length is None or found.heads is found.members or not found.heads:
            return of_logits()
        weight = found.heads[0][WEIGHT]
        blocks = blocks_of_heads(found.members, found.rows, names_of(releases))
        return self.length * temperature(weight, noise_in(weight, blocks))

    def _embed(self, inputs: Any, encoder: Encode | None, members: Sequence[Mapping[str, Any]]) -> Floats:
        """Features of shape (n, K), or (n, tasks, K) where every task adapts the encoder."""
        sets = [adapter_values(member) for member in members]
        if not any(sets):
            return scaled(features_of(inputs, encoder), self.length)
        if not isinstance(encoder, Encoder):
            raise errors.InvalidValue("Expected the encoder that this model's adapters belong to.")
        return np.moveaxis(features_with_each(encoder, self.adapter, sets, inputs), 0, 1)

    def _score(
        self, features: Floats, members: Sequence[Mapping[str, Any]], rows: npt.NDArray[np.int64], merge: Aggregate
    ) -> Any:
        for t, member in enumerate(members):
            mine = features[:, t] if features.ndim == 3 else features
            if mine.ndim != 2 or mine.shape[1] != member[WEIGHT].shape[1]:
                raise errors.InvalidValue(f"Expected features of width {member[WEIGHT].shape[1]}.")
        step = max(1, _LOGITS // max(1, *(len(member[ROWS]) for member in members)))
        parts = (features[start : start + step] for start in range(0, len(features), step))
        scores = [merge(_Computed(part, members), rows) for part in parts]
        return np.concatenate([np.zeros((0, len(rows)), np.float32), *scores])

    def to_json(self) -> dict[str, Any]:
        """Returns the rule as plain JSON values; a custom aggregation is passed again at load."""
        known = (name for name, rule in AGGREGATES.items() if rule is self.aggregate)
        return {
            "kind": "ensemble",
            "adapter": adapter_to_json(self.adapter),
            "aggregate": next(known, None),
            "length": self.length,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Ensemble":
        """Returns the rule that `to_json` wrote."""
        if value["aggregate"] not in AGGREGATES or value["adapter"] is None:
            raise errors.InvalidValue(errors.OWN_LEARNER)
        return cls(adapter_from_json(value["adapter"]), AGGREGATES[value["aggregate"]], value["length"])


class _Computed(Sequence[Logits]):
    """The logits of each member for a few examples, computed when they are asked for and kept by nobody."""

    def __init__(self, features: Floats, members: Sequence[Mapping[str, Any]]) -> None:
        with np.errstate(all="ignore"):
            self._features, self._members = features.astype(np.float32), members

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, at: int) -> Logits: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Logits]: ...
    def __getitem__(self, at: int | slice) -> Logits | Sequence[Logits]:
        if isinstance(at, slice):
            return [self[t] for t in range(len(self))[at]]
        member = self._members[at]
        mine = self._features[:, at] if self._features.ndim == 3 else self._features
        with np.errstate(all="ignore"):
            values = mine @ member[WEIGHT].T
            values += member[BIAS]
        if not np.isfinite(values).all():  # what cannot be encoded scores zero everywhere
            values[~np.isfinite(values)] = 0
        return Logits(member[ROWS].astype(np.int64), values)


def adapter_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a release holds beside its head and the names of labels: the values of an adapter."""
    return {name: value for name, value in parameters.items() if name not in _BESIDE}


def adapter_to_json(adapter: Adapter) -> dict[str, Any] | None:
    """Returns an adapter as plain JSON values, None for the user's own."""
    if not isinstance(adapter, Film | LastLayer | Lora):
        return None
    return {"name": adapter.name, **asdict(adapter)}


def adapter_from_json(value: Mapping[str, Any]) -> Adapter:
    """Returns the adapter that `adapter_to_json` wrote."""
    settings = dict(value)
    return _ADAPTERS[settings.pop("name")](**settings)
