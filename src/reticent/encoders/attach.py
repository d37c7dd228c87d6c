"""The torch side of adapters: other values for some layers of a module that is not changed.

A torch function mode sees the calls that a forward pass makes and is seen by its own thread alone, so the module, its
weights and its hooks are never touched, and other threads may use the same module at the same time.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from reticent import errors
from reticent.encoders.adapters import Recording

Call = Callable[..., Any]
NORMS = (
    torch.nn.LayerNorm,
    torch.nn.GroupNorm,
    torch.nn.BatchNorm1d,
    torch.nn.BatchNorm2d,
    torch.nn.BatchNorm3d,
)


class Swap(TorchFunctionMode):  # type: ignore[misc]
    """Answers calls that use one of the given weights, and passes on all others.

    Args:
        replaced: By the identity of a weight, what to do with a call that uses it.
    """

    def __init__(self, replaced: Mapping[int, Call]) -> None:
        super().__init__()
        self._replaced = replaced

    def __torch_function__(self, func: Call, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Looks for the weight where the function has it."""
        kwargs = kwargs or {}
        place = _WEIGHT_AT.get(func)
        if place is not None:
            weight = kwargs.get("weight", args[place] if len(args) > place else None)
            instead = self._replaced.get(id(weight))
            if instead is not None:
                return instead(func, *args, **kwargs)
        return func(*args, **kwargs)


_WEIGHT_AT: dict[Call, int] = {
    functional.layer_norm: 2,
    functional.group_norm: 2,
    functional.batch_norm: 3,
    functional.linear: 1,
}


def norms(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Returns the normalisation layers with a scale; a pooler is left out, because nothing reads it."""
    found = {}
    for name, layer in module.named_modules():
        if isinstance(layer, NORMS) and layer.weight is not None and "pooler" not in name.split("."):
            if hasattr(layer, "running_mean") and layer.running_mean is None:
                raise errors.InvalidValue("Expected BatchNorm layers with running statistics: others mix examples.")
            found[name] = layer
    return found


def linears(module: torch.nn.Module, ends: tuple[str, ...]) -> dict[str, torch.nn.Linear]:
    """Returns the linear layers whose own names are among the given ones."""
    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear) and name.split(".")[-1] in ends and "pooler" not in name.split(".")
    }


def affine(name: str, weight: torch.Tensor, bias: torch.Tensor | None, recorder: Recording | None) -> Call:
    """Returns a normalisation with another scale and bias, for `Swap`."""

    def instead(func: Call, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        normalise, channels_first = _NORMALISE[func]
        if recorder is None:
            return normalise((weight, bias), x, *args, **kwargs)
        hat = normalise((None, None), x, *args, **kwargs)
        result: torch.Tensor = _Affine.apply(hat, weight, bias, channels_first, name, recorder)
        return result

    return instead


def low_rank(name: str, a: torch.Tensor, b: torch.Tensor, scale: float, recorder: Recording | None) -> Call:
    """Returns a linear layer plus scale * (x a^T) b^T, for `Swap`."""

    def instead(func: Call, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        frozen = func(x, *args, **kwargs)
        if recorder is None:
            return frozen + ((x @ a.mT.to(x.dtype)) @ b.mT.to(x.dtype)) * scale
        result: torch.Tensor = frozen + _LowRank.apply(x, a, b, scale, name, recorder)
        return result

    return instead


# --- normalisation with another scale and bias, or none; the statistics of BatchNorm are its own, never the batch's

Pair = tuple[torch.Tensor | None, torch.Tensor | None]


def _layer_norm(new: Pair, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return functional.layer_norm(x, shape, *new, eps)


def _group_norm(new: Pair, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return functional.group_norm(x, groups, *new, eps)


def _batch_norm(
    new: Pair,
    x: Any,
    mean: Any,
    var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    return functional.batch_norm(x, mean, var, *new, False, momentum, eps)


_NORMALISE: dict[Call, tuple[Call, bool]] = {
    functional.layer_norm: (_layer_norm, False),
    functional.group_norm: (_group_norm, True),
    functional.batch_norm: (_batch_norm, True),
}


def _affine(hat: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, channels_first: bool) -> torch.Tensor:
    shape = (-1, *[1] * (hat.ndim - 2)) if channels_first else weight.shape
    scaled = hat * weight.view(shape)
    return scaled if bias is None else scaled + bias.view(shape)


class _Affine(torch.autograd.Function):  # type: ignore[misc]
    """hat * weight + bias; its backward pass records what each example contributes to the gradients of both."""

    @staticmethod
    def forward(
        ctx: Any,
        hat: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        channels_first: bool,
        name: str,
        recorder: Recording,
    ) -> torch.Tensor:
        ctx.save_for_backward(hat, weight)
        ctx.settings = channels_first, name, recorder, bias is not None
        return _affine(hat, weight, bias, channels_first)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hat, weight = ctx.saved_tensors
        channels_first, name, recorder, biased = ctx.settings
        recorder.add(f"{name}.weight", _by_example(grad * hat, recorder.rows, weight.shape, channels_first))
        if biased:
            recorder.add(f"{name}.bias", _by_example(grad, recorder.rows, weight.shape, channels_first))
        onwards = None
        if ctx.needs_input_grad[0]:
            onwards = _affine(grad, weight, None, channels_first)
        return onwards, None, None, None, None, None


class _LowRank(torch.autograd.Function):  # type: ignore[misc]
    """scale * (x a^T) b^T; its backward pass records what each example contributes to the gradients of both."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        scale: float,
        name: str,
        recorder: Recording,
    ) -> torch.Tensor:
        inner = x @ a.mT.to(x.dtype)
        ctx.save_for_backward(x, inner, a, b)
        ctx.settings = scale, name, recorder
        return (inner @ b.mT.to(x.dtype)) * scale

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, inner, a, b = ctx.saved_tensors
        scale, name, recorder = ctx.settings
        grad = grad.to(b.dtype) * scale
        back = grad @ b
        recorder.add(f"{name}.a", _products(back, x.to(a.dtype), recorder.rows))
        recorder.add(f"{name}.b", _products(grad, inner.to(b.dtype), recorder.rows))
        onwards = (back @ a).to(x.dtype) if ctx.needs_input_grad[0] else None
        return onwards, None, None, None, None, None


def _by_example(values: torch.Tensor, rows: int, shape: torch.Size, channels_first: bool) -> torch.Tensor:
    """Sums over tokens or pixels. The first axis holds examples, or the windows of each example in turn."""
    if channels_first and values.ndim > 2:
        values = values.flatten(2).sum(2)
    return values.reshape(_groups(values, rows), -1, *shape).sum(1)


def _products(left: torch.Tensor, right: torch.Tensor, rows: int) -> torch.Tensor:
    """Returns for each example the sum over tokens of outer products."""
    groups = _groups(left, rows)
    left, right = (side.reshape(groups, -1, side.shape[-1]) for side in (left, right))
    return left.mT @ right


def _groups(values: torch.Tensor, rows: int) -> int:
    if values.shape[0] % rows:
        raise errors.InvalidValue("Expected layers whose first axis holds the examples.")
    return rows
