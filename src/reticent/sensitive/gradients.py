"""Per-example gradients through torch: an adapter and a head on a frozen encoder. The gate clips and adds them up."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.adapters import Adapter, trainable
from reticent.encoders.batches import Item, batches, shapes, stacked
from reticent.encoders.devices import NO_MEMORY, out_of_memory, tensors
from reticent.encoders.encoder import Backend
from reticent.encoders.packages import require
from reticent.encoders.probes import Probe, same, variants
from reticent.gate.step import Again, Block, Floats, Ints, Parameters
from reticent.sensitive.head import Head, Snapped, head_gradients, inside, snapped, zeros
from reticent.sensitive.training import Engine


@dataclass(frozen=True)
class Recorder:
    """Collects the gradients of single examples, which an adapter records in a backward pass. SENSITIVE.

    Args:
        rows: How many examples the batch has.
        gradients: By name, shape (rows, ...); a layer that is used twice adds up.

    Example:
        >>> Recorder(16)
        Recorder(rows=16)
    """

    rows: int
    gradients: dict[str, Any] = field(default_factory=dict, repr=False)

    def add(self, name: str, values: Any) -> None:
        """Adds a layer's part."""
        self.gradients[name] = self.gradients[name] + values if name in self.gradients else values


class AdapterGradients:
    """An adapter and a linear head, trained through a frozen encoder.

    The head is computed in closed form, its error goes back through the encoder, and layers record what each example
    contributes. Memory follows the micro-batch, never the batch.

    Guarantees:
      - Gradients are those of single examples by autograd, over adapter and head together.
                                        test_film_sums_single_examples, test_lora_sums_single_examples
      - An example's gradient is the same, to the bit, whatever else is in the batch.
                                        test_adapter_blocks_change_nothing
      - Micro-batches have as many rows as the shape of an example says, and never more than the encoder says; the last
        ones of a shape have fewer where public examples then have the same bits, and are filled up with copies.
        test_micro_batches_keep_the_encoders_limit, test_smaller_micro_batches_are_used
      - Layers that let examples influence each other are refused, on a public example. test_mixing_layers_are_refused
      - What remembers examples or draws at random is refused, on a public example.
                                        test_gradients_that_change_are_refused
      - Examples of a shape are computed one by one where public examples of that shape show that a gradient depends on
        its position or on the other rows. test_bits_that_depend_on_the_place_are_noticed
      - That holds also for what mixes rows below the adapted layers. test_rows_that_mix_below_the_layers_are_noticed
      - What cannot be encoded contributes nothing, silently.           test_unusable_examples_contribute_nothing

    Args:
        backend: A loaded encoder.
        adapter: Which of its parameters are trained.
        items: Examples as `Encoder.prepare` returns them.
        labels: Shape (n,), whole numbers; -1 for what cannot be used.
        classes: Number of classes, public.
        engine: Speed.
    """

    def __init__(
        self,
        backend: Backend,
        adapter: Adapter,
        items: Sequence[Item | None],
        labels: Ints,
        classes: int,
        engine: Engine | None = None,
    ) -> None:
        self._torch = require("torch", extra="reticent[torch]")
        self._backend, self._adapter = trainable(backend), adapter
        self._adapted = adapter.start(backend.module)
        if not self._adapted:
            raise errors.InvalidValue(
                f"Expected an adapter with parameters, got {adapter.name}. Train a head alone with HeadGradients."
            )
        self._start = {**self._adapted, **zeros(backend.width, classes)}
        self._engine = engine or Engine()
        self._public = self._public_item()
        probe = Probe(self._in_public, self._public)
        self._rows = _Rows(self._engine, backend.rows, self._saved, probe, self._try_in_public)
        self._try_in_public()
        self._items, self._labels = items, labels
        self._usable = inside(labels, classes)

    def __repr__(self) -> str:
        return "AdapterGradients(<sensitive>)"

    @property
    def start(self) -> dict[str, npt.NDArray[np.float32]]:
        """The adapter's initial values, and zeros for the head."""
        return self._start

    @property
    def size(self) -> int:
        """How many examples there are."""
        return len(self._labels)

    def blocks(self, parameters: Parameters, rows: Ints) -> Iterator[Block]:
        """Yields gradients, a micro-batch at a time; begins again with smaller ones where memory runs out."""
        rows = rows[self._usable[rows]]
        head, values = Head(parameters), {name: parameters[name] for name in self._adapted}
        try:
            kept = [self._rows.kept(self._items[row]) for row in rows]
            for places, batch, count in batches(kept, self._rows, self._rows.smaller):
                yield from self._of_batch(head, values, batch, self._labels[rows[places]], count)
        except Exception as error:
            if not out_of_memory(error):
                raise
            self._rows.shrink()
            raise Again from None

    def _of_batch(
        self, head: Head, values: Parameters, batch: Sequence[Item], labels: Ints, count: int
    ) -> Iterator[Block]:
        """Where some example makes its micro-batch fail, each goes beside copies of itself; what fails is left out."""
        try:
            block = self._block(head, values, stacked(batch, count), labels)
        except Exception as error:
            if isinstance(error, ImportError) or out_of_memory(error):
                raise  # it is about the machine, not about an example
            if len(batch) > 1:
                for place, item in enumerate(batch):
                    yield from self._of_batch(head, values, [item], labels[place : place + 1], count)
            return
        yield block

    def _block(self, head: Head, values: Parameters, block: Item, labels: Ints) -> Block:
        seen: list[tuple[Floats, Snapped]] = []

        def back(features: Floats) -> Floats:
            known = snapped(features)
            seen.append((head.errors(known, labels), known))
            return head.back(seen[0][0])

        rows = self._recorded(values, block, len(labels), back)
        ((error, features),) = seen
        return Block(rows, head_gradients(error, features, len(labels)))

    def _recorded(
        self, values: Parameters, block: Item, wanted: int, back: Callable[[Floats], Floats]
    ) -> dict[str, Floats]:
        """Returns the first examples' gradients by parameter, as rows; `back` has the loss's gradient at features."""
        recorder = Recorder(len(block[0]))
        features, leaves = self._forward(values, block, recorder)
        with np.errstate(all="ignore"):
            error = back(features.detach().cpu().double().numpy())
        upstream = self._torch.from_numpy(error).to(features.dtype).to(features.device)  # not all devices have float64
        self._torch.autograd.grad(features, leaves, upstream, allow_unused=True)
        found = {name: _as_rows(tensor)[:wanted] for name, tensor in recorder.gradients.items()}
        # a layer that nothing reads has no gradient, and is a parameter all the same
        return {name: found.get(name, np.zeros((wanted, value.size))) for name, value in self._adapted.items()}

    def _forward(self, values: Parameters, block: Item, recorder: Recorder) -> tuple[Any, Sequence[Any]]:
        torch, module, embed = self._torch, self._backend.module, self._backend.embed
        inputs = tensors(module, block)
        kind = inputs[0].device.type
        cast = torch.autocast(kind, dtype=torch.bfloat16, enabled=self._engine.bf16)
        with torch.enable_grad(), cast, self._adapter.attached(module, values, recorder) as leaves:
            return embed(inputs), leaves  # type: ignore[misc]

    def _saved(self, one: Item) -> int:
        frozen = {weight.data_ptr() for weight in self._backend.module.parameters()}
        with _counting(frozen) as saved:
            self._forward(self._adapted, one, Recorder(1))
        return saved[0]

    # --- public examples

    def _public_item(self) -> Item:
        if self._backend.probe is None:
            raise errors.InvalidValue(
                "Expected an encoder with a public example to train through. Pass one: wrap(..., probe=...)."
            )
        try:
            (item,) = self._backend.prepare([self._backend.probe])
        except Exception as error:
            raise errors.InvalidValue(_ONE_BY_ONE) from error
        if item is None:
            raise errors.InvalidValue(_ONE_BY_ONE)
        return item

    def _try_in_public(self) -> None:
        """Sends the error of one public example back: it alone may contribute, before and after another one alike."""
        one, other, *_ = variants(self._public, self._public)
        try:
            found, _, again = (
                self._recorded(self._adapted, stacked([item], 2), 2, _first_row) for item in (one, other, one)
            )
        except Exception as error:
            if out_of_memory(error):
                raise MemoryError(NO_MEMORY) from None
            raise errors.InvalidValue(_ONE_BY_ONE) from error
        if any(rows[1:].any() for rows in found.values()) or not any(rows[0].any() for rows in found.values()):
            raise errors.InvalidValue(_ONE_BY_ONE)
        if not same(list(found.values()), list(again.values())):
            raise errors.InvalidValue(_SAME_AGAIN)

    def _in_public(self, block: Item) -> list[Floats]:
        """Returns features and gradients of public examples, a row for each."""
        seen: list[Floats] = []

        def back(features: Floats) -> Floats:
            seen.append(features)
            return _every_row(features)

        gradients = self._recorded(self._adapted, block, len(block[0]), back)
        return [*seen, *gradients.values()]


_ONE_BY_ONE = "Expected an encoder whose adapted layers treat examples one by one. Use last_layer."
_SAME_AGAIN = (
    "Expected an encoder that remembers no examples and draws nothing at random: a public example has other gradients "
    "after another one. Use last_layer."
)


class _Rows:
    """How many rows a micro-batch has: from the shape of an item and the machine, never from the batch.

    Args:
        engine: Speed.
        limit: How many rows the encoder itself takes of an item's shape.
        saved: From one item to the bytes that its forward pass keeps.
        probe: Sees whether rows of an item's shape are independent, and which sizes give the same bits.
        public: Tries the public example; raises MemoryError where not even that fits.
    """

    def __init__(
        self,
        engine: Engine,
        limit: Callable[[Item], int],
        saved: Callable[[Item], int],
        probe: Probe,
        public: Callable[[], None],
    ) -> None:
        self._most, self._memory, self._limit = engine.rows, engine.memory, limit
        self._saved, self._probe, self._public = saved, probe, public
        self._fit: dict[object, int] = {}
        self._halved: dict[object, int] = {}
        self._last: object = None

    def __call__(self, item: Item) -> int:
        self._last = shape = shapes(item)
        if shape not in self._fit:
            try:  # on zeros: values must not matter
                saved = self._saved(tuple(np.zeros((1, *array.shape), array.dtype) for array in item))
            except Exception:
                saved = self._memory
            fit = max(1, self._memory // max(1, saved))
            self._fit[shape] = min(self._most, self._limit(item), 1 << (fit.bit_length() - 1))
        count = min(self._fit[shape], self._halved.get(shape, self._most))
        return count if count == 1 or self._probe.independent(item, count) else 1

    def smaller(self, item: Item, rows: int) -> bool:
        """Returns whether a micro-batch of fewer rows gives the same bits."""
        return self._probe.alike(item, self(item), rows)

    def shrink(self) -> None:
        """Halves the micro-batches of the shape that did not fit; what does not fit alone contributes nothing.

        Other shapes keep theirs: a long example must not change how short ones are added up.
        """
        rows = min(self._fit.get(self._last, self._most), self._halved.get(self._last, self._most))
        if rows == 1:
            self._public()  # refuses a machine on which not even the public example fits
        self._halved[self._last] = rows // 2

    def kept(self, item: Item | None) -> Item | None:
        """Returns an item, or None where one of its shape does not fit into memory even alone."""
        return None if item is None or self._halved.get(shapes(item)) == 0 else item


def _first_row(features: Floats) -> Floats:
    error = np.zeros_like(features)
    error[0] = np.cos(np.arange(features.shape[1]))  # not constant: a LayerNorm takes a mean away
    return error


def _every_row(features: Floats) -> Floats:
    return np.repeat(_first_row(features)[:1], len(features), axis=0)


def _as_rows(tensor: Any) -> Floats:
    rows: Floats = tensor.detach().cpu().double().numpy()
    return rows.reshape(len(rows), -1)


@contextmanager
def _counting(frozen: set[int]) -> Iterator[list[int]]:
    """Counts the bytes that a forward pass keeps for the backward pass, without frozen weights."""
    saved = [0]

    def pack(tensor: Any) -> Any:
        saved[0] += 0 if tensor.data_ptr() in frozen else tensor.nbytes
        return tensor

    graph = require("torch.autograd.graph", extra="reticent[torch]")
    with graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved
