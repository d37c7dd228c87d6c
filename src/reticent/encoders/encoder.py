"""Encoder: a frozen value and a callable, whose features depend on the example alone."""

import contextlib
import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.batches import Item, Items, Rows, Smaller, batches, never, stacked
from reticent.encoders.devices import NO_MEMORY, Speed, out_of_memory, placed
from reticent.encoders.probes import ProbedRows, public_item, raw, remembers
from reticent.numerics import threads
from reticent.numerics.progress import Bar

Features = npt.NDArray[np.float32]
Attachment = Callable[[], contextlib.AbstractContextManager[object]]
_ENDS = 16  # more than a tokenizer adds at the ends of a text


@dataclass(frozen=True, kw_only=True)
class Backend:
    """What an encoder loads when it is first called.

    Attributes:
        prepare: From inputs to items, each from its input alone; None for what cannot be used.
        forward: From stacked items of equal shape to features.
        rows: How many rows a batch of such items has: a function of the item's shape alone. More than 1 only for models
            that are known to treat rows one by one.
        width: Number of features.
        smaller: Whether a batch of fewer rows of an item's shape gives the same bits; an encoder probes it.
        probe: A public example that it must be able to encode, so that a broken model is refused before any data.
        module: The torch module behind it, None where there is none.
        embed: From stacked items as tensors to a tensor of features, with gradients where they are wanted.
        graph: Makes its ONNX file, where that needs no torch.
        beside: Whether calls of forward work on one thread each, and may be beside each other.
        longest: How many tokens of a text it reads, None where it reads no texts or has no limit.
        tokens: How many tokens a text has, up to one more than it reads.
    """

    prepare: Callable[[Sequence[object]], Items]
    forward: Callable[[Item], npt.NDArray[Any]]
    rows: Rows
    width: int
    smaller: Smaller = never
    probe: object = None
    module: Any = None
    embed: Callable[[tuple[Any, ...]], Any] | None = None
    graph: Callable[[], bytes] | None = None
    beside: bool = False
    longest: int | None = None
    tokens: Callable[[str], int] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder:
    """Turns inputs into features of shape (n, width), float32; loads its model when first called.

    It keeps nothing of what it encodes. To learn several times from the same inputs, encode them once, `features =
    encoder(texts)`, and give `features` to a classifier without an encoder. They are as sensitive as the inputs.

    Guarantees:
      - Features of an example are bit-identical whatever else is encoded with it, in whatever order: shapes follow
        from the example alone, and batches have numbers of rows that give public examples of that shape the same bits,
        filled up with copies.
                              test_texts_depend_on_themselves_alone, test_images_depend_on_themselves_alone
      - What cannot be used gives a row of NaN: no exception, no warning, no count.   test_unusable_inputs_become_nan
      - Refusals are read from the container (type, dtype), never from its rows.  test_what_is_no_sequence_is_refused
      - Too little memory gives NaN too; it is an exception about the machine where the public example does not fit.
                                      test_a_row_that_is_too_long_is_nan, test_too_little_memory_is_no_bad_example
      - Where features of public examples of a shape depend on their place or on the other rows, or there is no public
        example, batches of that shape have one row.        test_rows_that_influence_each_other_are_encoded_alone
      - What gives other features after another example, or changes its buffers, is refused on a public example.
                                                                                  test_what_remembers_is_refused
      - Its representation holds public settings only.                                test_encoders_are_frozen_values
      - It is pickled without its weights, and a process that gets it again does not load them again.
                                 test_an_encoder_that_is_sent_again_is_loaded_once

    Attributes:
        name: What it is called in a manifest.
        speed: Where and how it computes; not part of its digest, so a model that was learned on one device predicts on
            another.
    """

    name: str
    load: Callable[[], Backend] = field(repr=False)
    fingerprint: Callable[[], str] = field(repr=False)
    declared_width: int | None = field(default=None, repr=False)
    kinds: str = field(default="OUT", repr=False)  # dtype kinds of arrays that can hold inputs
    chunk: int = field(default=4096, repr=False)  # inputs prepared at a time, to bound memory
    images: bool = field(default=False, repr=False)  # an array of bytes with 2 or 3 dimensions is one input, not many
    speed: Speed = field(default=Speed(), repr=False)

    @cached_property
    def backend(self) -> Backend:
        """The loaded model, tried on its public example."""
        backend = placed(self.load(), self.speed)
        if backend.probe is None:  # nothing public shows that rows are independent
            return replace(backend, rows=lambda _: 1)
        public, cause = public_item(backend)
        if public is None:
            sentence = f"{self.name} cannot encode a public example. Use another model, or wrap(...) your own code."
            raise errors.ReticentError(sentence) from cause
        if remembers(backend, public):
            raise errors.ReticentError(
                f"{self.name} gives other features for a public example after it has encoded another one: it remembers "
                "examples or draws at random. Pass a function of one example alone."
            )
        probed = ProbedRows(backend, public)
        return replace(backend, rows=probed, smaller=probed.smaller)

    @property
    def width(self) -> int:
        """Number of features."""
        return self.backend.width if self.declared_width is None else self.declared_width

    @property
    def reads_texts(self) -> bool:
        """Whether its inputs are texts, as its public example is one; so it can read the names of labels."""
        return isinstance(self.backend.probe, str)

    def reads_whole(self, text: str) -> bool:
        """Returns whether no part of a public text is cut off."""
        longest, tokens = self.backend.longest, self.backend.tokens
        if longest is None or tokens is None:
            return True
        if text.isascii() and len(text) + _ENDS <= longest:  # a token has a character or more
            return True
        with errors.silenced():
            return tokens(text) <= longest

    @cached_property
    def digest(self) -> str:
        """SHA-256 over weights and configuration, computed once."""
        return self.fingerprint()

    def __call__(self, inputs: Any) -> Features:
        """Encodes a sequence of inputs chunk by chunk, with a progress bar."""
        examples = self._sequence(inputs)
        features = np.full((len(examples), self.width), np.nan, dtype=np.float32)
        with errors.silenced(), Bar(f"Encoding with {self.name}") as bar:
            for start in range(0, len(examples), self.chunk):
                part, done = slice(start, start + self.chunk), start
                for rows, values in self._batches(self.backend.prepare(examples[part])):
                    features[part][rows] = values
                    done += len(rows)
                    bar.show(done / len(examples))
        return features

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

    def __copy__(self) -> "Encoder":
        return self  # frozen: a clone of a classifier may share it

    def __deepcopy__(self, memo: object) -> "Encoder":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _once_more, (self._identity, {name: value for name, value in vars(self).items() if name != "backend"})

    @cached_property
    def _identity(self) -> str:
        """Tells this encoder apart from all others, also in processes that it is sent to."""
        return uuid.uuid4().hex

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
        """Yields positions and features, in batches of equal shapes."""
        parts = batches(items, self.backend.rows, self.backend.smaller)
        yield from threads.mapped(self._of_batch, parts, threads.usual() if self.backend.beside else 1)

    def _of_batch(self, part: tuple[list[int], list[Item], int]) -> tuple[list[int], Features]:
        places, batch, rows = part
        return places, self._forward(batch, rows)

    def _forward(self, batch: Sequence[Item], rows: int) -> Features:
        try:
            values = np.asarray(self.backend.forward(stacked(batch, rows)))
        except ImportError:
            raise  # it is about the machine, not about an example
        except Exception as error:
            if out_of_memory(error) and self.backend.probe is not None and public_item(self.backend)[0] is None:
                raise MemoryError(NO_MEMORY) from None  # so is this; the allocator's own text would reveal a size
            values = np.zeros(0)
        if values.shape == (rows, self.width):
            return values[: len(batch)].astype(np.float32)
        # Some example cannot be encoded: find out which, each beside copies of itself (the same shapes).
        if len(batch) == 1:
            return np.full((1, self.width), np.nan, dtype=np.float32)
        return np.concatenate([self._forward([item], rows) for item in batch])


_last: dict[str, Encoder] = {}  # the encoder that this process was sent last, with its model


def _once_more(identity: str, state: dict[str, Any]) -> Encoder:
    """Returns an encoder that was sent to this process; one that is sent again has its model already.

    It is frozen, so it is what it was. A worker of a cluster gets one with the work of each task, and loading takes
    seconds. Only the last is kept, since models are large.
    """
    if identity not in _last:
        _last.clear()
        made = Encoder.__new__(Encoder)
        vars(made).update(state)
        _last[identity] = made
    return _last[identity]


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
            parts += [f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), raw(tensor).tobytes()]
    return sha256(*parts)
