"""Encoder: a frozen value and a callable, whose features depend on the example alone."""

import contextlib
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.packages import require
from reticent.numerics.progress import Bar

Item = tuple[npt.NDArray[Any], ...]  # one prepared example: arrays whose shapes follow from the example alone
Features = npt.NDArray[np.float32]
Attachment = Callable[[], contextlib.AbstractContextManager[object]]
CACHE_FILE = "features.sqlite"  # what learning keeps in the cache folder
NO_MEMORY = "The machine has too little memory for one batch of this model."


@dataclass(frozen=True, kw_only=True)
class Backend:
    """What an encoder loads when it is first called.

    Attributes:
        prepare: From inputs to items, each from its input alone; None for what cannot be used.
        forward: From stacked items of equal shape to features.
        rows: How many rows a batch of such items has, always: a function of the item's shape alone.
        width: Number of features.
        probe: A public example that it must be able to encode, so that a broken model is refused before any data.
        module: The torch module behind it, None where there is none.
        embed: From stacked items as tensors to a tensor of features, with gradients where they are wanted.
    """

    prepare: Callable[[Sequence[object]], list[Item | None]]
    forward: Callable[[Item], npt.NDArray[Any]]
    rows: Callable[[Item], int]
    width: int
    probe: object = None
    module: Any = None
    embed: Callable[[tuple[Any, ...]], Any] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder:
    """Turns inputs into features of shape (n, width), float32; loads its model when first called.

    Guarantees:
      - Features of an example are bit-identical whatever else is encoded with it, in whatever order: shapes follow
        from the example alone, and batches always have the same number of rows, filled up with copies.
                              test_texts_depend_on_themselves_alone, test_images_depend_on_themselves_alone
      - What cannot be used gives a row of NaN: no exception, no warning, no count.   test_unusable_inputs_become_nan
      - Refusals are read from the container (type, dtype), never from its rows.  test_what_is_no_sequence_is_refused
      - Too little memory is an exception about the machine, unless the public example still fits: then it is one
        about an example, and gives NaN.  test_too_little_memory_is_no_bad_example, test_a_row_that_is_too_long_is_nan
      - Where the public example's features depend on its place in a batch, batches have one row.
                                                                    test_rows_whose_place_matters_are_encoded_alone
      - It keeps nothing of what it encodes: neither calls nor predictions read or write the cache.
                                                                              test_calling_an_encoder_keeps_nothing
      - Its representation holds public settings only.                                test_encoders_are_frozen_values

    Attributes:
        name: What it is called in a manifest.
        cache: A folder where features that learning computes are kept; predictions keep nothing. Its content is
            SENSITIVE. None: nothing is kept.
    """

    name: str
    cache: Path | None = None
    load: Callable[[], Backend] = field(repr=False)
    fingerprint: Callable[[], str] = field(repr=False)
    declared_width: int | None = field(default=None, repr=False)
    content: Callable[[object], bytes | None] | None = field(default=None, repr=False)  # what a cache's key is made of
    kinds: str = field(default="OUT", repr=False)  # dtype kinds of arrays that can hold inputs
    chunk: int = field(default=4096, repr=False)  # inputs prepared at a time, to bound memory
    images: bool = field(default=False, repr=False)  # an array of bytes with 2 or 3 dimensions is one input, not many

    @cached_property
    def backend(self) -> Backend:
        """The loaded model, tried on its public example."""
        backend = self.load()
        if backend.probe is None:
            return backend
        found, cause = _probed(backend)
        if found is None:
            sentence = f"{self.name} cannot encode a public example. Use another model, or wrap(...) your own code."
            raise errors.ReticentError(sentence) from cause
        return backend if _independent(backend, found) else replace(backend, rows=lambda _: 1)

    @property
    def width(self) -> int:
        """Number of features."""
        return self.backend.width if self.declared_width is None else self.declared_width

    @cached_property
    def digest(self) -> str:
        """SHA-256 over weights and configuration, computed once."""
        return self.fingerprint()

    def __call__(self, inputs: Any) -> Features:
        """Encodes a sequence of inputs."""
        return self.in_chunks(inputs, self.fill)

    def in_chunks(self, inputs: Any, fill: Callable[[Sequence[object], Features], Iterator[int]]) -> Features:
        """Encodes a sequence of inputs chunk by chunk, with a progress bar.

        Args:
            inputs: The inputs.
            fill: Such as `Encoder.fill`: gets a chunk and rows of NaN, fills them in, and yields how many are done.
        """
        examples = self._sequence(inputs)
        features = np.full((len(examples), self.width), np.nan, dtype=np.float32)
        with errors.silenced(), Bar(f"Encoding with {self.name}") as bar:
            for start in range(0, len(examples), self.chunk):
                part = slice(start, start + self.chunk)
                for done in fill(examples[part], features[part]):
                    bar.show((start + done) / len(examples))
        return features

    def fill(self, examples: Sequence[object], features: Features) -> Iterator[int]:
        """Fills in the features of a chunk of examples, and yields how many of them are done."""
        done = 0
        for rows, values in self._batches(self.backend.prepare(examples)):
            features[rows] = values
            done += len(rows)
            yield done

    def passes(self, inputs: Any, attachments: Sequence[Attachment]) -> Features:
        """Encodes inputs once inside each context, and prepares them once for all; shape (contexts, n, width)."""
        examples = self._sequence(inputs)
        features = np.full((len(attachments), len(examples), self.width), np.nan, dtype=np.float32)
        with errors.silenced(), Bar(f"Encoding with {self.name}") as bar:
            for start in range(0, len(examples), self.chunk):
                items = self.backend.prepare(examples[start : start + self.chunk])
                for done, attached in enumerate(attachments):
                    with attached():
                        for rows, values in self._batches(items):
                            features[done, [start + row for row in rows]] = values
                    bar.show((start + len(items) * (done + 1) / len(attachments)) / len(examples))
        return features

    def prepare(self, inputs: Any) -> list[Item | None]:
        """Returns inputs as the model reads them, None for what cannot be used. SENSITIVE."""
        examples = self._sequence(inputs)
        parts = (examples[start : start + self.chunk] for start in range(0, len(examples), self.chunk))
        with errors.silenced():
            return [item for part in parts for item in self.backend.prepare(part)]

    def wipe_cache(self) -> None:
        """Deletes the features in the cache folder, and the folder if nothing else is in it. Disks keep old blocks."""
        if self.cache is None:
            return
        for suffix in ("", "-wal", "-shm", "-journal"):  # what SQLite may leave beside its file
            (self.cache / (CACHE_FILE + suffix)).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.cache.rmdir()

    def __copy__(self) -> "Encoder":
        return self  # frozen: a clone of a classifier may share it

    def __deepcopy__(self, memo: object) -> "Encoder":
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "backend"}

    def _sequence(self, inputs: Any) -> Sequence[object]:
        whole = isinstance(inputs, str | bytes | dict | set | frozenset) or getattr(inputs, "ndim", 1) == 0
        table = getattr(inputs, "ndim", 1) > 1 and not isinstance(inputs, np.ndarray)
        if whole or table or not hasattr(inputs, "__len__") or not hasattr(inputs, "__iter__"):
            raise errors.InvalidValue(f"Expected a sequence of inputs such as a list, got {type(inputs).__name__}.")
        if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in self.kinds:
            raise errors.InvalidValue(f"Expected inputs that {self.name} can encode, got an array of {inputs.dtype}.")
        if self.images and isinstance(inputs, np.ndarray) and inputs.dtype == np.uint8 and inputs.ndim in (2, 3):
            raise errors.InvalidValue(
                "Expected a batch of images: a list, or an array of shape (n, height, width, 3); got a single array of "
                f"{inputs.ndim} dimensions."
            )
        return list(inputs)

    def _batches(self, items: Sequence[Item | None]) -> Iterator[tuple[list[int], Features]]:
        """Yields positions and features, in batches of equal shapes and a fixed number of rows."""
        for places, batch, rows in batches(items, self.backend.rows):
            yield places, self._forward(batch, rows)

    def _forward(self, batch: Sequence[Item], rows: int) -> Features:
        try:
            values = np.asarray(self.backend.forward(stacked(batch, rows)))
        except ImportError:
            raise  # it is about the machine, not about an example
        except Exception as error:
            if out_of_memory(error) and (self.backend.probe is None or _probed(self.backend)[0] is None):
                raise MemoryError(NO_MEMORY) from None  # so does this; the allocator's own text would reveal a size
            values = np.zeros(0)
        if values.shape == (rows, self.width):
            return values[: len(batch)].astype(np.float32)
        # Some example cannot be encoded: find out which, each beside copies of itself (the same shapes).
        if len(batch) == 1:
            return np.full((1, self.width), np.nan, dtype=np.float32)
        return np.concatenate([self._forward([item], rows) for item in batch])


def _probed(backend: Backend) -> tuple[Features | None, Exception | None]:
    """Returns the features of the public example at every place of its batch, or None and why not."""
    try:
        (item,) = backend.prepare([backend.probe])
        if item is None:
            return None, None
        rows = backend.rows(item)
        values = np.asarray(backend.forward(stacked([item], rows)), dtype=np.float32)
    except Exception as error:
        return None, error
    return (values if values.shape == (rows, backend.width) else None), None


def _independent(backend: Backend, found: Features) -> bool:
    """Returns whether the public example has the same features in every position, beside copies and beside another."""
    if len(found) == 1 or len({row.tobytes() for row in found}) > 1:
        return len(found) == 1
    (item,) = backend.prepare([backend.probe])
    if item is None:
        return False
    others = [like(item, item, turned=True)] * (len(found) - 1)
    try:
        first, last = (
            np.asarray(backend.forward(stacked(batch, len(found))), np.float32)
            for batch in ([item, *others], [*others, item])
        )
    except Exception:
        return False
    return bool(first[0].tobytes() == last[-1].tobytes() == found[0].tobytes())


def like(public: Item, item: Item, *, turned: bool = False) -> Item:
    """Returns a public example of the shape of an item: the values of the public one, repeated; or turned around.

    >>> like((np.array([1, 2, 3]),), (np.zeros(4, int),), turned=True)[0].tolist()
    [1, 3, 2, 1]
    """
    made = []
    for known, array in zip(public, item, strict=True):
        values = np.resize(known.ravel(), array.size)
        if array.dtype.kind == "f":  # a plain picture would hide what depends on its values
            values = values + np.cos(np.arange(array.size)) / 4 if not turned else 3 * values[::-1] + 1
        elif turned:
            values = values[::-1]
        made.append(values.astype(array.dtype).reshape(array.shape))
    return tuple(made)


def batches(items: Sequence[Item | None], rows: Callable[[Item], int]) -> Iterator[tuple[list[int], list[Item], int]]:
    """Yields positions and items of equal shape, a batch at a time, and the rows that a batch of that shape has."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for i, item in enumerate(items):
        if item is not None:
            groups[shapes(item)].append(i)
    for group in groups.values():
        prepared = [item for i in group if (item := items[i]) is not None]
        count = rows(prepared[0])
        for start in range(0, len(group), count):
            yield group[start : start + count], prepared[start : start + count], count


def shapes(item: Item) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Returns what must be equal for two items to share a batch."""
    return tuple((array.shape, array.dtype.str) for array in item)


def stacked(batch: Sequence[Item], rows: int) -> Item:
    """Returns items as one batch with a fixed number of rows, filled up with copies of the first."""
    full = [*batch, *[batch[0]] * (rows - len(batch))]
    return tuple(np.stack(arrays) for arrays in zip(*full, strict=True))


def tensors(module: Any, item: Item) -> tuple[Any, ...]:
    """Returns stacked items as tensors, where the module's weights are."""
    torch = require("torch", extra="reticent[torch]")
    weight = next(module.parameters(), None)
    device = "cpu" if weight is None else weight.device
    return tuple(torch.from_numpy(array).to(device) for array in item)


def inference(module: Any, embed: Callable[[tuple[Any, ...]], Any]) -> Callable[[Item], npt.NDArray[Any]]:
    """Returns `embed` as a function of arrays, without gradients."""
    torch = require("torch", extra="reticent[torch]")

    def forward(item: Item) -> npt.NDArray[Any]:
        with torch.inference_mode():
            values: npt.NDArray[Any] = embed(tensors(module, item)).float().cpu().numpy()
        return values

    return forward


def out_of_memory(error: BaseException) -> bool:
    """Returns whether an exception is about the machine's memory: torch says so with a RuntimeError.

    >>> out_of_memory(MemoryError()), out_of_memory(RuntimeError("shapes do not match"))
    (True, False)
    """
    words = ("out of memory", "can't allocate memory", "not enough memory")
    text = str(error) if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or any(word in text for word in words)


def sha256(*parts: bytes) -> str:
    """Returns the SHA-256 of parts, each with its length before it.

    >>> sha256(b"a", b"bc") == sha256(b"ab", b"c")
    False
    """
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()


def sha256_of_files(files: Sequence[Path], *settings: str) -> str:
    """Returns the SHA-256 of files (their names and contents) and settings."""
    parts = [part for file in sorted(files) for part in (file.name.encode(), file.read_bytes())]
    return sha256(*parts, *(setting.encode() for setting in settings))


def sha256_of_weights(module: Any, *settings: str) -> str:
    """Returns the SHA-256 of a torch module's weights and settings; a pooler is left out, because nothing reads it."""
    parts: list[bytes] = [setting.encode() for setting in settings]
    for name, tensor in sorted(module.state_dict().items()):
        if not name.startswith("pooler."):
            array = tensor.detach().cpu().contiguous()
            raw = array.flatten().view(_bytes_dtype()).numpy() if array.numel() else np.zeros(0, np.uint8)
            parts += [f"{name} {array.dtype} {tuple(array.shape)}".encode(), raw.tobytes()]
    return sha256(*parts)


def _bytes_dtype() -> Any:
    return require("torch", extra="reticent[torch]").uint8
