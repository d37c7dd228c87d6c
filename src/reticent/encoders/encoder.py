"""Encoder: a frozen value and a callable, whose features depend on the example alone."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders import cache as caching
from reticent.encoders.progress import Bar

Item = tuple[npt.NDArray[Any], ...]  # one prepared example: arrays whose shapes follow from the example alone
Features = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Backend:
    """What an encoder loads when it is first called.

    Attributes:
        prepare: From inputs to items, each from its input alone; None for what cannot be used.
        forward: From stacked items of equal shape to features.
        rows: How many rows a batch of such items has, always: a function of the item's shape alone.
        width: Number of features.
        probe: A public example that it must be able to encode, so that a broken model is refused before any data.
    """

    prepare: Callable[[Sequence[object]], list[Item | None]]
    forward: Callable[[Item], npt.NDArray[Any]]
    rows: Callable[[Item], int]
    width: int
    probe: object = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder:
    """Turns inputs into features of shape (n, width), float32; loads its model when first called.

    Guarantees:
      - Features of an example are bit-identical whatever else is encoded with it, in whatever order: shapes follow
        from the example alone, and batches always have the same number of rows, filled up with copies.
                              test_texts_depend_on_themselves_alone, test_images_depend_on_themselves_alone
      - What cannot be used gives a row of NaN: no exception, no warning, no count.   test_unusable_inputs_become_nan
      - Refusals are read from the container (type, dtype), never from its rows.  test_what_is_no_sequence_is_refused
      - Its representation holds public settings only.                                test_encoders_are_frozen_values

    Attributes:
        name: What it is called in a manifest.
        cache: A folder that keeps features between runs; None keeps nothing. Its content is SENSITIVE.
    """

    name: str
    cache: Path | None = None
    load: Callable[[], Backend] = field(repr=False)
    fingerprint: Callable[[], str] = field(repr=False)
    declared_width: int | None = field(default=None, repr=False)
    content: Callable[[object], bytes | None] | None = field(default=None, repr=False)  # what a cache's key is made of
    kinds: str = field(default="OUT", repr=False)  # dtype kinds of arrays that can hold inputs
    chunk: int = field(default=4096, repr=False)  # inputs prepared at a time, to bound memory

    @cached_property
    def backend(self) -> Backend:
        """The loaded model, tried on its public example."""
        backend = self.load()
        if backend.probe is not None:
            cause: Exception | None = None
            try:
                (item,) = backend.prepare([backend.probe])
                shape = None if item is None else np.shape(backend.forward(tuple(array[None] for array in item)))
            except Exception as error:
                shape, cause = None, error
            if shape != (1, backend.width):
                sentence = f"{self.name} cannot encode a public example. Use another model, or wrap(...) your own code."
                raise errors.ReticentError(sentence) from cause
        return backend

    @property
    def width(self) -> int:
        """Number of features."""
        return self.backend.width if self.declared_width is None else self.declared_width

    @cached_property
    def digest(self) -> str:
        """SHA-256 over weights and configuration, computed once."""
        return self.fingerprint()

    def __call__(self, inputs: Any) -> Features:  # noqa: ANN401
        """Encodes a sequence of inputs."""
        examples = self._sequence(inputs)
        features = np.full((len(examples), self.width), np.nan, dtype=np.float32)
        kept = None if self.cache is None else caching.Cache(self.cache)
        try:
            with Bar(f"Encoding with {self.name}") as bar:
                for start in range(0, len(examples), self.chunk):
                    part = slice(start, start + self.chunk)
                    for done in self._encode(examples[part], features[part], kept):
                        bar.show((start + done) / len(examples))
        finally:
            if kept is not None:
                kept.close()
        return features

    def wipe_cache(self) -> None:
        """Deletes the features kept in the cache folder, if there is one."""
        if self.cache is not None:
            caching.wipe(self.cache)

    def __copy__(self) -> "Encoder":
        return self  # frozen: a clone of a classifier may share it

    def __deepcopy__(self, memo: object) -> "Encoder":
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "backend"}

    def _sequence(self, inputs: Any) -> Sequence[object]:  # noqa: ANN401
        whole = isinstance(inputs, str | bytes | dict | set | frozenset) or getattr(inputs, "ndim", 1) == 0
        table = getattr(inputs, "ndim", 1) > 1 and not isinstance(inputs, np.ndarray)
        if whole or table or not hasattr(inputs, "__len__") or not hasattr(inputs, "__iter__"):
            raise errors.InvalidValue(f"Expected a sequence of inputs such as a list, got {type(inputs).__name__}.")
        if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in self.kinds:
            raise errors.InvalidValue(f"Expected inputs that {self.name} can encode, got an array of {inputs.dtype}.")
        return list(inputs)

    def _encode(self, chunk: Sequence[object], features: Features, kept: caching.Cache | None) -> Iterator[int]:
        """Fills in features, from the cache where they are kept; yields how many of the rest are done."""
        keys: list[bytes | None] = [None] * len(chunk)
        todo = list(range(len(chunk)))
        if kept is not None and self.content is not None:
            contents = [self.content(example) for example in chunk]
            keys = [None if content is None else caching.key(self.digest, content) for content in contents]
            found = kept.get(keys, self.width)
            for i, row in enumerate(found):
                if row is not None:
                    features[i] = row
            todo = [i for i, row in enumerate(found) if row is None]
        items = self.backend.prepare([chunk[i] for i in todo]) if todo else []
        done = 0
        for rows, values in self._batches(items):
            features[[todo[row] for row in rows]] = values
            done += len(rows)
            yield done
        if kept is not None:
            whole = [i for i in todo if np.isfinite(features[i]).all()]
            kept.put((name, features[i]) for i in whole if (name := keys[i]) is not None)

    def _batches(self, items: Sequence[Item | None]) -> Iterator[tuple[list[int], Features]]:
        """Yields positions and features, in batches of equal shapes and a fixed number of rows."""
        groups: defaultdict[object, list[int]] = defaultdict(list)
        for i, item in enumerate(items):
            if item is not None:
                groups[tuple((array.shape, array.dtype.str) for array in item)].append(i)
        for group in groups.values():
            prepared = [item for i in group if (item := items[i]) is not None]
            rows = self.backend.rows(prepared[0])
            for start in range(0, len(group), rows):
                batch = prepared[start : start + rows]
                yield group[start : start + rows], self._forward(batch, rows)

    def _forward(self, batch: Sequence[Item], rows: int) -> Features:
        full = [*batch, *[batch[0]] * (rows - len(batch))]
        stacked = tuple(np.stack(arrays) for arrays in zip(*full, strict=True))
        try:
            values = np.asarray(self.backend.forward(stacked))
        except (ImportError, MemoryError):
            raise  # says something about the machine, not about an example
        except Exception:
            # Some example cannot be encoded: find out which, each beside copies of itself (the same shapes).
            if len(batch) == 1:
                return np.full((1, self.width), np.nan, dtype=np.float32)
            return np.concatenate([self._forward([item], rows) for item in batch])
        if values.shape != (rows, self.width):
            raise errors.InvalidValue(f"Expected {self.name} to return features of shape (rows, {self.width}).")
        return values[: len(batch)].astype(np.float32)


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


def sha256_of_weights(module: Any, *settings: str) -> str:  # noqa: ANN401
    """Returns the SHA-256 of a torch module's weights and settings; a pooler is left out, because nothing reads it."""
    parts: list[bytes] = [setting.encode() for setting in settings]
    for name, tensor in sorted(module.state_dict().items()):
        if not name.startswith("pooler."):
            array = tensor.detach().cpu().contiguous()
            raw = array.flatten().view(_bytes_dtype()).numpy() if array.numel() else np.zeros(0, np.uint8)
            parts += [f"{name} {array.dtype} {tuple(array.shape)}".encode(), raw.tobytes()]
    return sha256(*parts)


def _bytes_dtype() -> Any:  # noqa: ANN401
    from reticent.encoders.packages import require

    return require("torch", extra="reticent[torch]").uint8
