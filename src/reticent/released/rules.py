"""Rules by the name under which a manifest holds them: how releases become a classifier."""

from collections.abc import Callable, Mapping
from typing import Any

from reticent import errors
from reticent.released.ensemble import Ensemble
from reticent.released.model import Rule
from reticent.released.sums import Sums

RULES: Mapping[str, Callable[[dict[str, Any]], Rule]] = {"sums": Sums.from_json, "ensemble": Ensemble.from_json}


def from_json(stored: dict[str, Any]) -> Rule:
    """Returns the rule that a manifest describes; a custom one must be passed again instead.

    >>> from_json(Sums().to_json()) == Sums()
    True
    """
    if stored.get("kind") not in RULES:
        raise errors.InvalidValue(errors.OWN_LEARNER)
    return RULES[stored["kind"]](stored)
