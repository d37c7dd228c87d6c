"""Public examples that show whether features depend on other rows of a batch, on their place, or on what came before.

A probe refutes and never proves: code can behave otherwise on inputs that no probe has. So it is the second line. The
first is that code which we have not read gets one row at a time, see `wrap` and `hf`.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reticent.encoders.batches import Item, shapes, stacked
from reticent.encoders.devices import out_of_memory, settings
from reticent.encoders.packages import require

if TYPE_CHECKING:  # a signature may name what imports this
    from reticent.encoders.encoder import Backend

Array = npt.NDArray[Any]
_PATIENCE = 2  # two full batches instead of smaller ones cost about what a probe of the smaller ones costs


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
        self._rows, self._probe = backend.rows, Probe(lambda batch: [np.asarray(backend.forward(batch))], public)
        self._too_large: set[object] = set()
        self._asked: Counter[object] = Counter()

    def __call__(self, item: Item) -> int:
        """Returns the number for the shape of an item; each shape is probed when it is first seen."""
        count = self._rows(item)
        return count if count > 1 and self._seen(item, partial(self._probe.independent, item, count)) else 1

    def smaller(self, item: Item, rows: int) -> bool:
        """Returns whether a batch of fewer rows of an item's shape is known to give the bits of a full one.

        It is probed when it is asked for the third time: by then copies that filled full batches up have cost as much.
        """
        key = shapes(item), rows, settings()
        self._asked[key] += 1
        return self._asked[key] > _PATIENCE and self._seen(item, partial(self._probe.alike, item, self(item), rows))

    def _seen(self, item: Item, look: Callable[[], bool]) -> bool:
        try:
            return shapes(item) not in self._too_large and look()
        except Exception:  # too little memory: from now on each row of this shape goes alone
            self._too_large.add(shapes(item))
            return False


class Probe:
    """Sends public examples through batches, and remembers what was seen for each shape, number of rows and setting.

    What raises is not independent; too little memory is about the machine, and is raised.

    Guarantees:
      - What was seen with other threads of torch, or another precision, is not relied on.
                                          test_other_settings_of_torch_are_probed_again
      - Rows that influence each other, or whose bits depend on their place, are seen.
                                          test_rows_that_influence_each_other_are_encoded_alone
      - So are numbers of rows that give other bits.                    test_sizes_of_other_bits_are_not_used

    Args:
        compute: From a batch to arrays with a row for each of its examples, such as features and gradients.
        public: A public example.
    """

    def __init__(self, compute: Callable[[Item], Sequence[Array]], public: Item) -> None:
        self._compute, self._public = compute, public
        self._full: dict[object, _Bits | None] = {}
        self._alike: dict[object, bool] = {}

    def independent(self, item: Item, count: int) -> bool:
        """Returns whether public examples of an item's shape give the same bits at every place and beside any others.

        Three batches: copies of one example, copies of another, and both among others. All rows of a kind must be
        equal. Two are seen alone because influence may go one way, as from longer texts to shorter ones.

        Args:
            item: Its shapes are those of the batch; its values are not read.
            count: Rows of the batch.
        """
        key = shapes(item), count, settings()
        if key not in self._full:
            kinds = variants(self._public, item)
            order = [place % len(kinds) for place in range(count)]
            among, *alone = (self._bits(kinds, ones) for ones in (order, [0] * count, [1] * count))
            equal = among is not None and alone == [{0: among[0]}, {1: among[1]}]
            self._full[key] = among if equal else None
        return self._full[key] is not None

    def alike(self, item: Item, count: int, fewer: int) -> bool:
        """Returns whether batches of fewer rows give public examples of an item's shape the bits of full batches.

        Args:
            item: Its shapes are those of the batch; its values are not read.
            count: Rows of a full batch.
            fewer: Rows of a smaller one.
        """
        key = shapes(item), count, settings(), fewer
        if key not in self._alike:
            full = self._full[key[:3]] if self.independent(item, count) else None
            kinds = variants(self._public, item)
            order = [place % len(kinds) for place in range(fewer)]
            both = (self._bits(kinds, ones) for ones in (order, [len(kinds) - 1 - kind for kind in order]))  # all kinds
            self._alike[key] = full is not None and all(found and found.items() <= full.items() for found in both)
        return self._alike[key]

    def _bits(self, kinds: Sequence[Item], order: Sequence[int]) -> "_Bits | None":
        """Returns the bits of each kind of example in a batch; None where rows of one kind differ, or where it raises.

        Args:
            kinds: Public examples.
            order: Which of them is at each place.
        """
        found: _Bits = {}
        try:
            arrays = self._compute(stacked([kinds[kind] for kind in order], len(order)))
            for place, kind in enumerate(order):
                bits = tuple(np.ascontiguousarray(rows[place]).tobytes() for rows in arrays)
                if found.setdefault(kind, bits) != bits:
                    return None
        except Exception as error:
            if out_of_memory(error):
                raise
            return None
        return found


_Bits = dict[int, tuple[bytes, ...]]  # by kind of public example, of each array


def variants(public: Item, item: Item) -> list[Item]:
    """Returns public examples of the shape of an item, all different: none is plain, and the last are extreme.

    Whole numbers, such as tokens and masks, stay among those of the public example: others may mean nothing.

    >>> [kind[0].tolist() for kind in variants((np.array([1, 2, 0]),), (np.zeros(4, int),))]
    [[1, 2, 0, 1], [0, 2, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
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
            # from behind: a shape that is shorter than the public example has padding all the same
            ways = (known.ravel()[::-1], known.ravel()[:1], known.ravel()[-1:])
            kinds = [values, *(np.resize(some, array.size) for some in ways)]
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
