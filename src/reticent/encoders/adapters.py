"""Adapters: the few parameters of an encoder that are trained, kept beside its public weights.

An adapter is a frozen value. It says which parameters there are and how a module uses them; it holds none. One copy of
the encoder serves every task, each with its own small set of values.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.encoder import Backend, Encoder, Features
from reticent.encoders.packages import require

Values = Mapping[str, npt.NDArray[np.float32]]
Start = dict[str, npt.NDArray[np.float32]]
EXTRA = "reticent[torch]"
QUERY_AND_VALUE = ("query", "value", "q_proj", "v_proj", "q_lin", "v_lin", "qkv")


class Recording(Protocol):
    """Takes the gradients of single examples in a backward pass. Passed by the code that trains; it is sensitive."""

    @property
    def rows(self) -> int:
        """How many examples the batch has."""

    def add(self, name: str, values: Any) -> None:
        """Adds a layer's part: shape (rows, ...)."""


class Adapter(Protocol):
    """Which parameters are trained, and how a module uses them."""

    @property
    def name(self) -> str:
        """What it is called in a manifest."""

    def start(self, module: Any) -> Start:
        """Returns the initial values, public."""

    def attached(
        self, module: Any, values: Values, recorder: Recording | None = None
    ) -> AbstractContextManager[Sequence[Any]]:
        """Makes the module use these values in this thread; yields the tensors whose gradients are wanted."""


@dataclass(frozen=True)
class Film:
    """Scale and bias of every normalisation layer; the statistics of BatchNorm stay frozen.

    Guarantees:
      - The module is not changed, and never copied.       test_attaching_does_not_change_the_module
      - Recorded gradients are those of single examples.                 test_film_sums_single_examples
      - Another thread sees the module without the adapter.              test_other_threads_see_the_plain_module

    Example:
        >>> film
        Film()
    """

    @property
    def name(self) -> str:
        """What it is called in a manifest."""
        return "film"

    def start(self, module: Any) -> Start:
        """Returns the module's own scales and biases."""
        layers = _torch_side().norms(module)
        if not layers:
            raise errors.InvalidValue(
                "Expected an encoder with normalisation layers (LayerNorm, BatchNorm, GroupNorm) to adapt; "
                "this one has none. Use last_layer or lora(...)."
            )
        found = {}
        for name, layer in layers.items():
            found[f"film.{name}.weight"] = _array(layer.weight)
            if layer.bias is not None:
                found[f"film.{name}.bias"] = _array(layer.bias)
        return found

    @contextmanager
    def attached(self, module: Any, values: Values, recorder: Recording | None = None) -> Iterator[Sequence[Any]]:
        """Normalises with these scales and biases."""
        side = _torch_side()
        layers = side.norms(module)
        own = {f"film.{name}.{part}": getattr(layer, part) for name, layer in layers.items() for part in _PARTS}
        used = _tensors({name: tensor for name, tensor in own.items() if tensor is not None}, values, recorder)
        replaced = {
            id(layer.weight): side.affine(
                f"film.{name}", used[f"film.{name}.weight"], used.get(f"film.{name}.bias"), recorder
            )
            for name, layer in layers.items()
        }
        with side.Swap(replaced):
            yield list(used.values())


@dataclass(frozen=True)
class LastLayer:
    """No parameters beside the head: features do not change.

    Example:
        >>> last_layer.start(None)
        {}
    """

    @property
    def name(self) -> str:
        """What it is called in a manifest."""
        return "last_layer"

    def start(self, module: Any) -> Start:
        """Returns nothing."""
        return {}

    @contextmanager
    def attached(self, module: Any, values: Values, recorder: Recording | None = None) -> Iterator[Sequence[Any]]:
        """Changes nothing."""
        _refuse_others({}, values)
        yield []


@dataclass(frozen=True, kw_only=True)
class Lora:
    """A product of two thin matrices beside some linear layers: x W^T + alpha / rank (x a^T) b^T, b = 0 at first.

    Guarantees: as `Film`.                                              test_lora_sums_single_examples

    Args:
        rank: Rows of a, columns of b.
        alpha: Strength.
        modules: Names of the linear layers, each the last part of a full name; query and value by default.
        seed: Public; a is drawn from it alone, the same on every machine.
    """

    rank: int = 4
    alpha: float = 8.0
    modules: tuple[str, ...] = QUERY_AND_VALUE
    seed: int = 0

    def __post_init__(self) -> None:
        errors.set_whole(self, "rank", at_least=1)
        errors.set_real(self, "alpha", above=0, below=1e6)
        errors.set_whole(self, "seed", at_least=0)
        object.__setattr__(self, "modules", tuple(self.modules))

    @property
    def name(self) -> str:
        """What it is called in a manifest."""
        return "lora"

    def start(self, module: Any) -> Start:
        """Returns a from the seed and b = 0."""
        layers = _torch_side().linears(module, self.modules)
        if not layers:
            raise errors.InvalidValue(
                "Expected an encoder with linear layers named " + " or ".join(self.modules) + "; this one has none. "
                "Name its layers: lora(modules=...)."
            )
        found = {}
        for name, layer in layers.items():
            bound = layer.in_features**-0.5
            found[f"lora.{name}.a"] = _uniform(f"{self.seed} {name}", (self.rank, layer.in_features), bound)
            found[f"lora.{name}.b"] = np.zeros((layer.out_features, self.rank), dtype=np.float32)
        return found

    @contextmanager
    def attached(self, module: Any, values: Values, recorder: Recording | None = None) -> Iterator[Sequence[Any]]:
        """Adds the products to the linear layers."""
        side = _torch_side()
        layers = side.linears(module, self.modules)
        own = {}
        for name, layer in layers.items():
            own[f"lora.{name}.a"] = layer.weight[:1, :].expand(self.rank, -1)
            own[f"lora.{name}.b"] = layer.weight[:, :1].expand(-1, self.rank)
        used = _tensors(own, values, recorder)
        replaced = {
            id(layer.weight): side.low_rank(
                f"lora.{name}", used[f"lora.{name}.a"], used[f"lora.{name}.b"], self.alpha / self.rank, recorder
            )
            for name, layer in layers.items()
        }
        with side.Swap(replaced):
            yield list(used.values())


film = Film()
last_layer = LastLayer()


def lora(*, rank: int = 4, alpha: float = 8.0, modules: Sequence[str] = QUERY_AND_VALUE, seed: int = 0) -> Lora:
    """Returns a low-rank adapter, of attention's queries and values by default.

    >>> lora(rank=2, modules=["query"])
    Lora(rank=2, alpha=8.0, modules=('query',), seed=0)
    """
    return Lora(rank=rank, alpha=alpha, modules=tuple(modules), seed=seed)


def features_with_each(
    encoder: Encoder,
    adapter: Adapter,
    sets: Sequence[Values],
    inputs: Any,
) -> Features:
    """Encodes inputs with each of several sets of values; shape (sets, n, width). Inputs are prepared once.

    Guarantees:
      - Features depend on the example alone; what cannot be used gives NaN.    test_adapted_features_keep_the_rules
    """
    if not any(sets):
        plain: Features = np.repeat(encoder(inputs)[None], len(sets), axis=0)
        return plain
    module = trainable(encoder.backend).module
    return encoder.passes(inputs, [partial(adapter.attached, module, values) for values in sets])


def trainable(backend: Backend) -> Backend:
    """Returns the backend of an encoder whose layers can be adapted, or refuses it."""
    if backend.module is None or backend.embed is None:
        raise errors.InvalidValue(
            "Expected an encoder that is a torch module to adapt its layers, such as minilm(backend='torch'). Or use "
            "last_layer."
        )
    return backend


# --- values and tensors

_PARTS = ("weight", "bias")


def _torch_side() -> Any:
    require("torch", extra=EXTRA)
    from reticent.encoders import attach

    return attach


def _array(tensor: Any) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = tensor.detach().float().cpu().numpy().copy()
    return array


def _tensors(own: Mapping[str, Any], values: Values, recorder: Recording | None) -> dict[str, Any]:
    """Returns values as tensors of the dtype and device of the module's own."""
    torch = require("torch", extra=EXTRA)
    _refuse_others({name: tuple(tensor.shape) for name, tensor in own.items()}, values)
    return {
        name: torch.from_numpy(np.array(values[name]))
        .to(device=tensor.device, dtype=tensor.dtype)
        .requires_grad_(recorder is not None)
        for name, tensor in own.items()
    }


def _refuse_others(expected: Mapping[str, tuple[int, ...]], values: Values) -> None:
    if expected != {name: np.shape(value) for name, value in values.items()}:
        raise errors.InvalidValue("Expected the adapter's values for this encoder: names and shapes differ.")


def _uniform(seed: str, shape: tuple[int, int], bound: float) -> npt.NDArray[np.float32]:
    """Returns numbers between -bound and bound that follow from a public seed alone, whatever the library's version."""
    drawn = np.frombuffer(hashlib.shake_256(f"reticent lora {seed}".encode()).digest(4 * shape[0] * shape[1]), "<u4")
    unit = (drawn.astype(np.float64) + 0.5) / 2.0**31 - 1
    return (unit * bound).astype(np.float32).reshape(shape)
