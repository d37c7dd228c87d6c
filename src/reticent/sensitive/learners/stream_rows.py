"""Cosine with memory: a task is one row of its epoch, for every known label and for those that become known."""

from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.gate.epochs import Kept, is_of
from reticent.gate.gate import Gate
from reticent.gate.remembered import FINE, RememberedRows, RememberedSums, StreamSums
from reticent.labels import Label, LabelSpace
from reticent.memory import remembered
from reticent.policies import Policy, PublicLabels
from reticent.released.naming import Name
from reticent.released.release import Past, Release
from reticent.sensitive.learners.seen import Seen


def stream_rows(
    looked: Seen,
    policy: Policy,
    known: LabelSpace,
    gate: Gate,
    memory: Kept,
    past: Past,
    name: Name,
) -> Release:
    """Releases the row of a task: of known labels, and of labels with enough evidence from the first row on.

    Examples of a label that becomes known weigh sqrt(1 - count_weight) up to its place and 1 after; nothing is divided
    by that here. What is stored beside the sums, see `released/sums`: the place, and earlier rows of new labels.

    Args:
        looked: Sensitive: the task as features.
        policy: Where labels come from.
        known: The labels that are known before the task.
        gate: The only way to noise.
        memory: What the vault has kept of the epoch.
        past: The releases before it.
        name: From a label space and rows to the arrays with features of their names.
    """
    event = remembered(memory.epoch, policy, gate.budget, known=len(known))
    permit = gate.spend(event, task=looked.task.name)
    exact = looked.sums(known, event.count_weight)
    mechanism = RememberedSums(event, known, _gathered(memory, past))
    rows = permit.draw(mechanism, StreamSums(exact, memory.entries, permit.row))
    parameters = _parameters(rows, event.noise)
    if not isinstance(policy, PublicLabels):
        parameters |= _earlier(rows, event.noise, len(known))
    new = LabelSpace(rows.released, event)
    return permit.release(labels=new, parameters=parameters | name(known.union(new), parameters["rows"]))


def _gathered(memory: Kept, past: Past) -> frozenset[Label]:
    """The labels that releases of this epoch made known."""
    mine = (release for release in past if is_of(release.event, memory.epoch))
    return frozenset(label for release in mine for label in release.labels.labels)


def _parameters(rows: RememberedRows, noise: float) -> dict[str, npt.NDArray[Any]]:
    sums = np.concatenate([rows.known, rows.vectors]) / FINE
    return {
        "rows": np.arange(len(sums), dtype=np.int32),
        "sums": sums.astype(np.float32),
        "noise": np.full(len(sums), noise, dtype=np.float32),
        "place": np.array([rows.place], dtype=np.int32),
    }


def _earlier(rows: RememberedRows, noise: float, known: int) -> dict[str, npt.NDArray[Any]]:
    """Rows of the places before, of the labels that became known now: label by label, place by place."""
    labels, places, width = rows.earlier.shape
    count = labels * places
    return {
        "earlier_rows": np.repeat(np.arange(known, known + labels, dtype=np.int32), places),
        "earlier_places": np.tile(np.arange(1, places + 1, dtype=np.int32), labels),
        "earlier_sums": (rows.earlier.reshape(count, width) / FINE).astype(np.float32),
        "earlier_noise": np.full(count, noise, dtype=np.float32),
    }
