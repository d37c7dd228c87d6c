"""Public examples that show whether features depend on other rows of a batch, on their place, or on what came before.

A probe refutes and never proves: code can behave otherwise on inputs that no probe has. So it is the second line. The
first is that code which we have not read gets one row at a time, see `wrap` and `hf`.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reticent.encoders.batches import Item, shapes, stacked
from reticent.encoders.packages import require

if TYPE_CHECKING:  # a signature may name what imports this
    from reticent.encoders.encoder import Backend

Array = npt.NDArray[Any]


def public_item(backend: "Backend") -> tuple[Item | None, Exception | None]:
    """Returns the public example as the model reads it, or None and why it cannot be encoded."""
    try:
        (item,) = backend.prepare([backend.probe])
        return (item if item is not None and _features(backend, item) is not None else None), None
    except Exception as error:
        return None, error


def remembers(backend: "Backend", public: Item) -> bool:
    """Returns whether the features of a public example change after another one, or a buffer of the module does."""
    other = variants(public, public)[1]
    before = _buffers(backend.module)
    first = _features(backend, public)
    with contextlib.suppress(Exception):  # what it cannot encode it may still remember
        _features(backend, other)
    return not same([first], [_features(backend, public)]) or not same(before, _buffers(backend.module))


class ProbedRows:
    """How many rows a batch of a shape has: the backend's number where rows of public examples are independent, else 1.

    Args:
        backend: What encodes.
        public: An item that it can encode.
    """

    def __init__(self, backend: "Backend", public: Item) -> None:
        self._backend, self._public = backend, public
        self._known: dict[object, bool] = {}

    def __call__(self, item: Item) -> int:
        """Returns the number for the shape of an item; each shape is probed when it is first seen."""
        count, shape = self._backend.rows(item), shapes(item)
        if count > 1 and shape not in self._known:
            self._known[shape] = self._independent(item, count)
        return count if count == 1 or self._known[shape] else 1

    def _independent(self, item: Item, count: int) -> bool:
        try:
            return independent(lambda batch: [np.asarray(self._backend.forward(batch))], self._public, item, count)
        except Exception:
            return False


def independent(compute: Callable[[Item], Sequence[Array]], public: Item, item: Item, count: int) -> bool:
    """Returns whether public examples of an item's shape give the same bits at every place and beside any others.

    Args:
        compute: From a batch to arrays with a row for each of its examples, such as features and gradients.
        public: A public example.
        item: Its shapes are those of the batch; its values are not read.
        count: Rows of the batch.
    """
    kinds = variants(public, item)
    order = [kinds[place % len(kinds)] for place in range(count)]
    mine = np.arange(0, count, len(kinds))  # where the first kind stands
    copies, mixed, turned = (compute(stacked(batch, count)) for batch in ([kinds[0]], order, order[::-1]))
    return all(
        same([rows], [np.broadcast_to(rows[:1], rows.shape)])
        and same([among[mine]], [rows[mine]])
        and same([among], [behind[::-1]])
        for rows, among, behind in zip(copies, mixed, turned, strict=True)
    )


def variants(public: Item, item: Item) -> list[Item]:
    """Returns public examples of the shape of an item, all different: none is plain, and the last are extreme.

    Whole numbers, such as tokens and masks, stay among those of the public example: others may mean nothing.

    >>> [kind[0].tolist() for kind in variants((np.array([1, 2, 0]),), (np.zeros(4, int),))]
    [[1, 2, 0, 1], [1, 0, 2, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    """
    made: list[list[Array]] = [[], [], [], []]
    for known, array in zip(public, item, strict=True):
        values = np.resize(known.ravel(), array.size)
        if array.dtype.kind == "f":  # a plain picture would hide what depends on its values
            wave = np.cos(np.arange(array.size))
            kinds = [values + wave / 4, 3 * values[::-1] + 1, np.zeros_like(values), 100 * wave]
        elif array.dtype.kind == "O":
            kinds = [values, *(np.array([*map(_other, values), None], dtype=object)[:-1] for _ in range(3))]
        else:
            kinds = [values, values[::-1], np.resize(values[:1], array.size), np.resize(known.ravel()[-1:], array.size)]
        for one, kind in zip(made, kinds, strict=True):
            one.append(np.asarray(kind).astype(array.dtype).reshape(array.shape))
    return [tuple(one) for one in made]


def _other(example: object) -> object:
    """Returns another example of the same kind, or the same one where nobody knows how."""
    if isinstance(example, str):
        return f"Another {example[::-1]}"
    return 3 * example + 1 if isinstance(example, int | float | np.ndarray) else example


def same(found: Sequence[Array | None], expected: Sequence[Array | None]) -> bool:
    """Returns whether arrays are equal in every bit, NaN included.

    >>> same([np.array([np.nan])], [np.array([np.nan])]), same([np.array([0.0])], [np.array([-0.0])])
    (True, False)
    """
    pairs = list(zip(found, expected, strict=True))
    return all(a is not None and b is not None and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def _features(backend: "Backend", item: Item) -> Array | None:
    """Returns the features of copies of an item, one for each place, or None where they have another shape."""
    rows = backend.rows(item)
    values = np.asarray(backend.forward(stacked([item], rows)), dtype=np.float32)
    return values if values.shape == (rows, backend.width) else None


def _buffers(module: Any) -> list[Array]:
    """Returns copies of what a module keeps beside its weights."""
    return [] if module is None else [raw(tensor).copy() for tensor in module.buffers()]


def raw(tensor: Any) -> npt.NDArray[np.uint8]:
    """Returns the bytes of a tensor."""
    whole = tensor.detach().cpu().contiguous()
    if not whole.numel():
        return np.zeros(0, np.uint8)
    found: npt.NDArray[np.uint8] = whole.flatten().view(require("torch", extra="reticent[torch]").uint8).numpy()
    return found
