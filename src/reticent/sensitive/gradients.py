"""Sums of clipped per-example gradients through torch: an adapter and a head on a frozen encoder, or any module."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.adapters import Adapter, trainable
from reticent.encoders.encoder import NO_MEMORY, Backend, Item, batches, out_of_memory, shapes, stacked, tensors
from reticent.encoders.packages import require
from reticent.encoders.wrapped import evaluating
from reticent.numerics.rows import norms
from reticent.sensitive.dpsgd import Engine, Floats, Ints, Parameters, Scales
from reticent.sensitive.head import Head, inside, snapped, zeros
from reticent.sensitive.recorder import Recorder


class AdapterGradients:
    """An adapter and a linear head, trained through a frozen encoder.

    The head is computed in closed form, its error goes back through the encoder, and layers record what each example
    contributes. Memory follows the micro-batch, never the batch.

    Guarantees:
      - Sums are those of single examples by autograd, clipped over adapter and head together.
                                        test_film_sums_single_examples, test_lora_sums_single_examples
      - An example's gradient is the same, to the bit, whatever else is in the batch: micro-batches have as many rows
        as its shape says, filled up with copies.                       test_adapter_blocks_change_nothing
      - Layers that let examples influence each other are refused, on a public example. test_mixing_layers_are_refused
      - Where the machine's bits depend on a row's place, as far as the public example shows, each example goes through
        alone.                                                          test_bits_that_depend_on_the_place_are_noticed
      - What cannot be encoded counts for nothing, silently.            test_bad_examples_count_for_nothing

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
        self._rows = _Rows(self._engine, self._saved, self._try_in_public)
        self._try_in_public()
        self._items, self._labels = items, labels
        self._usable = inside(labels, classes)

    def __repr__(self) -> str:
        return "AdapterGradients(<sensitive>)"

    @property
    def start(self) -> dict[str, npt.NDArray[np.float32]]:
        """The adapter's initial values, and zeros for the head."""
        return self._start

    def clipped_sum(self, parameters: Parameters, rows: Ints, clip: Scales) -> dict[str, Floats]:
        """Returns the sum of clipped gradients, a micro-batch at a time."""
        rows = rows[self._usable[rows]]
        return self._rows.within_memory(lambda: self._sum(parameters, rows, clip))

    def _sum(self, parameters: Parameters, rows: Ints, clip: Scales) -> dict[str, Floats]:
        layer = Head(parameters)
        values = {name: parameters[name] for name in self._adapted}
        sums = {name: np.zeros(value.shape) for name, value in values.items()}

        def record(block: Item, labels: Ints) -> dict[str, Floats]:
            def back(features: Floats) -> Floats:
                return layer.back(layer.errors(snapped(features), labels))

            return self._recorded(values, block, len(labels), back)

        def add(gradients: dict[str, Floats]) -> None:
            scales = clip({**_norms(gradients), **layer.norms})
            _add(sums, scales, gradients)
            layer.add(scales)

        for places, batch, count in batches([self._rows.kept(self._items[row]) for row in rows], self._rows):
            _by_block(record, add, batch, self._labels[rows[places]], count)
        return {**sums, **layer.total}

    def _recorded(
        self, values: Parameters, block: Item, wanted: int, back: Callable[[Floats], Floats]
    ) -> dict[str, Floats]:
        """Returns the first examples' gradients by parameter, as rows; `back` has the loss's gradient at features."""
        recorder = Recorder(len(block[0]))
        features, leaves = self._forward(values, block, recorder)
        with np.errstate(all="ignore"):
            error = back(features.detach().double().cpu().numpy())
        self._torch.autograd.grad(features, leaves, self._torch.from_numpy(error).to(features), allow_unused=True)
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

    def _try_in_public(self) -> None:
        """Sends the error of one public example back; only that example may be found to contribute.

        And the errors of as many copies as there are rows: where these differ in a bit, a gradient depends on its
        place, and every example goes through alone.
        """
        probe = self._backend.probe
        if probe is None:
            raise errors.InvalidValue(
                "Expected an encoder with a public example to train through. Pass one: wrap(..., probe=...)."
            )
        sentence = "Expected an encoder whose adapted layers treat examples one by one. Use last_layer."
        try:
            (item,) = self._backend.prepare([probe])
            block = stacked([item], max(2, self._rows(item))) if item is not None else ()
            found = self._recorded(self._adapted, block, len(block[0]), _first_row)
        except Exception as error:
            if out_of_memory(error):
                raise MemoryError(NO_MEMORY) from None
            raise errors.InvalidValue(sentence) from error
        alone = not any(rows[1:].any() for rows in found.values())
        if not alone or not any(rows[0].any() for rows in found.values()):
            raise errors.InvalidValue(sentence)
        found = self._recorded(self._adapted, block, len(block[0]), _every_row)
        if any((rows != rows[0]).any() for rows in found.values()):
            self._rows.one_by_one()


class ModuleGradients:
    """Any parameters of any torch module that returns logits, by torch.func: per-example gradients, one vmap.

    Guarantees: as `AdapterGradients`.                                  test_module_sums_single_examples

    Args:
        module: Public code and weights; used in evaluation mode, never changed.
        items: Examples, each a tuple of arrays that the module takes; None for what cannot be used.
        labels: Shape (n,), whole numbers; -1 for what cannot be used.
        classes: Number of classes, public.
        chosen: Which parameters are trained, by name; those that require gradients by default.
        engine: Speed.
    """

    def __init__(
        self,
        module: Any,
        items: Sequence[Item | None],
        labels: Ints,
        classes: int,
        *,
        chosen: Callable[[str], bool] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._torch = require("torch", extra="reticent[torch]")
        self._module, self._engine = module, engine or Engine()
        weights = dict(module.named_parameters())
        picked = [name for name in weights if (weights[name].requires_grad if chosen is None else chosen(name))]
        if not picked:
            raise errors.InvalidValue(
                "Expected parameters to train: the module is frozen. Choose some by name: chosen=..."
            )
        self._own = {name: weights[name] for name in picked}
        self._start: dict[str, npt.NDArray[np.float32]] = {
            name: weight.detach().float().cpu().numpy().copy() for name, weight in self._own.items()
        }
        self._rows = _Rows(self._engine, self._saved)
        self._items, self._labels = items, labels
        self._usable = inside(labels, classes)

    def __repr__(self) -> str:
        return "ModuleGradients(<sensitive>)"

    @property
    def start(self) -> dict[str, npt.NDArray[np.float32]]:
        """The module's own values."""
        return self._start

    def clipped_sum(self, parameters: Parameters, rows: Ints, clip: Scales) -> dict[str, Floats]:
        """Returns the sum of clipped gradients, a micro-batch at a time."""
        rows = rows[self._usable[rows]]
        return self._rows.within_memory(lambda: self._sum(parameters, rows, clip))

    def _sum(self, parameters: Parameters, rows: Ints, clip: Scales) -> dict[str, Floats]:
        torch = self._torch
        sums = {name: np.zeros(value.shape) for name, value in self._start.items()}
        values = {name: torch.from_numpy(np.array(parameters[name])).to(own) for name, own in self._own.items()}
        each = torch.func.vmap(torch.func.grad(self._loss), in_dims=(None, 0, 0))

        def record(block: Item, labels: Ints) -> dict[str, Floats]:
            inputs = tensors(self._module, block)
            full = np.concatenate([labels, np.repeat(labels[:1], len(block[0]) - len(labels))])
            with evaluating(self._module), torch.enable_grad():
                found = each(values, inputs, torch.from_numpy(full).to(inputs[0].device))
            return {name: _as_rows(tensor)[: len(labels)] for name, tensor in found.items()}

        def add(gradients: dict[str, Floats]) -> None:
            _add(sums, clip(_norms(gradients)), gradients)

        for places, batch, count in batches([self._items[row] for row in rows], self._rows):
            _by_block(record, add, batch, self._labels[rows[places]], count)
        return sums

    def _loss(self, values: Any, inputs: tuple[Any, ...], label: Any) -> Any:
        torch = self._torch
        with torch.autocast(inputs[0].device.type, dtype=torch.bfloat16, enabled=self._engine.bf16):
            logits = torch.func.functional_call(self._module, values, tuple(part.unsqueeze(0) for part in inputs))
        return torch.nn.functional.cross_entropy(logits.to(next(iter(values.values())).dtype), label.unsqueeze(0))

    def _saved(self, one: Item) -> int:
        weights = {weight.data_ptr() for weight in self._module.parameters()}
        with _counting(weights) as saved, evaluating(self._module), self._torch.enable_grad():
            self._module(*tensors(self._module, one))
        return saved[0] + sum(12 * value.size for value in self._start.values())  # and a row in float32 and float64


class _Rows:
    """How many rows a micro-batch has: from the shape of an item and the machine, never from the batch."""

    def __init__(self, engine: Engine, saved: Callable[[Item], int], public: Callable[[], None] | None = None) -> None:
        self._most, self._memory, self._saved, self._public = engine.rows, engine.memory, saved, public
        self._known: dict[object, int] = {}
        self._halved: dict[object, int] = {}
        self._last: object = None

    def __call__(self, item: Item) -> int:
        self._last = shape = shapes(item)
        if shape not in self._known:
            try:  # on zeros: values may not matter
                self._known[shape] = self._saved(tuple(np.zeros((1, *array.shape), array.dtype) for array in item))
            except Exception:
                self._known[shape] = self._memory
        fit = max(1, self._memory // max(1, self._known[shape]))
        return min(self._most, self._halved.get(shape, self._most), 1 << (fit.bit_length() - 1))

    def one_by_one(self) -> None:
        """Gives every example a micro-batch of its own: slow, and without company."""
        self._most = 1

    def within_memory(self, work: Callable[[], dict[str, Floats]]) -> dict[str, Floats]:
        """Does a step's work; where memory does not suffice for examples of a shape, all again with half their rows.

        Others keep theirs: a long example must not change how short ones are added up.
        """
        while True:
            try:
                return work()
            except Exception as error:
                if not out_of_memory(error):
                    raise
            long, rows = self._last, min(self._most, self._halved.get(self._last, self._most))
            if rows == 1:
                self._try_public()
            self._halved[long] = rows // 2

    def kept(self, item: Item | None) -> Item | None:
        """Returns an item, or None where one of its shape does not fit into memory even alone."""
        return None if item is None or self._halved.get(shapes(item)) == 0 else item

    def _try_public(self) -> None:
        """Refuses a machine on which not even the public example fits; else what does not fit counts for nothing."""
        try:
            if self._public is not None:
                return self._public()
        except Exception as error:
            if not out_of_memory(error):
                raise
        raise MemoryError(NO_MEMORY)


def _by_block(
    record: Callable[[Item, Ints], dict[str, Floats]],
    add: Callable[[dict[str, Floats]], None],
    batch: Sequence[Item],
    labels: Ints,
    rows: int,
) -> None:
    """Adds a micro-batch; where some example makes it fail, each beside copies of itself, and those that fail never."""
    try:
        gradients = record(stacked(batch, rows), labels)
    except Exception as error:
        if isinstance(error, ImportError) or out_of_memory(error):
            raise  # says something about the machine, not about an example
        if len(batch) > 1:
            for place, item in enumerate(batch):
                _by_block(record, add, [item], labels[place : place + 1], rows)
        return
    add(gradients)


def _first_row(features: Floats) -> Floats:
    error = np.zeros_like(features)
    error[0] = np.cos(np.arange(features.shape[1]))  # not constant: a LayerNorm takes a mean away
    return error


def _every_row(features: Floats) -> Floats:
    return np.repeat(_first_row(features)[:1], len(features), axis=0)


def _as_rows(tensor: Any) -> Floats:
    rows: Floats = tensor.detach().double().cpu().numpy()
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


# --- sums


def _norms(gradients: Mapping[str, Floats]) -> dict[str, Floats]:
    return {name: norms(rows) for name, rows in gradients.items()}


def _add(sums: Mapping[str, Floats], scales: Mapping[str, Floats], gradients: Mapping[str, Floats]) -> None:
    """Adds scaled rows; those scaled by 0 may hold NaN and are left out."""
    for name, rows in gradients.items():
        used = scales[name] > 0
        sums[name][...] += (scales[name][used] @ rows[used]).reshape(sums[name].shape)
