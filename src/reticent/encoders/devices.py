"""Where and how an encoder computes: the device, the rows of a batch, half precision. Speed alone, privacy never.

What privacy needs is that the features of an example depend on that example alone. Shapes and numbers of rows are fixed
on every device, and public examples are sent through every place of a batch on the device itself: where its bits differ
by place or by the other rows, each example goes alone (`probes`). Features of two devices differ in their last bits, as
those of two processors do, and on some processors those of one and of two threads; all rows of a task are computed
alike.
"""

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.batches import Item, stacked
from reticent.encoders.packages import require
from reticent.numerics import threads

if TYPE_CHECKING:  # a signature may name what imports this
    from reticent.encoders.encoder import Backend

EXTRA = "reticent[torch]"
NO_MEMORY = "The machine has too little memory for one batch of this model."
_DEVICES = re.compile(r"auto|cpu|mps|cuda(:\d{1,3})?")
_USUAL = 16  # rows of a batch of short examples, where nobody says otherwise
Bf16 = bool | Literal["auto"]
_ALIKE = 0.99  # cosine of features in half and in full precision


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Where and how an encoder computes.

    Args:
        device: "cpu", "cuda" (or "cuda:1"), "mps", or "auto": a GPU where torch has one, else the processor.
        batch_size: Rows of a batch of short examples, always; longer ones have fewer. By default 16. Models that are
            not known to treat rows one by one get one row whatever it says.
        bf16: Compute in bfloat16 where torch holds that to be safe; weights stay as they are. Refused where features of
            a public example change by more than a little. "auto": where the device has instructions for it.

    Example:
        >>> Speed(device="gpu")
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected a device out of auto, cpu, cuda, cuda:1, mps.
    """

    device: str = "cpu"
    batch_size: int | None = None
    bf16: Bf16 = False

    def __post_init__(self) -> None:
        if self.bf16 not in (True, False, "auto"):
            raise errors.InvalidValue('Expected bf16 to be True, False or "auto".')
        if not isinstance(self.device, str) or not _DEVICES.fullmatch(self.device):
            raise errors.InvalidValue("Expected a device out of auto, cpu, cuda, cuda:1, mps.")
        if self.batch_size is not None:
            errors.set_whole(self, "batch_size", at_least=1)


def available(device: str) -> str:
    """Returns the device that "auto" stands for, or the one that was asked for; refuses what torch has not got here."""
    torch = require("torch", extra=EXTRA)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, found in there.items() if found)
    if not there[device.partition(":")[0]]:
        raise errors.InvalidValue(
            f"torch has no {device} on this machine. Use device='auto', which takes what there is."
        )
    return device


def placed(backend: "Backend", speed: Speed) -> "Backend":
    """Returns a backend that computes on a device, tried there on public examples of the largest shape."""
    if speed == Speed():
        return backend
    if speed.batch_size is not None:
        backend = replace(backend, rows=partial(_rows, backend.rows, speed.batch_size))
    if backend.module is not None and backend.embed is not None:
        device = available(speed.device)
        backend.module.to(device)
        kind = device.partition(":")[0]
        if speed.bf16 is True or (speed.bf16 == "auto" and computes_in_bf16(kind)):
            backend = _halved(backend, kind)
    elif speed.device not in ("cpu", "auto") or speed.bf16 is True:
        raise errors.InvalidValue(
            "Expected an encoder that is a torch module to choose a device or bf16 for it, such as "
            'minilm(backend="torch").'
        )
    _refuse_too_large(backend)
    return backend


def computes_in_bf16(kind: str) -> bool:
    """Returns whether a kind of device has instructions for bfloat16, as far as torch can tell.

    >>> computes_in_bf16("mps")
    False
    """
    torch = require("torch", extra=EXTRA)
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    told: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions of torch cannot tell
    return kind == "cpu" and any(there is True for name, there in told.items() if name.endswith("bf16"))


def tensors(module: Any, item: Item) -> tuple[Any, ...]:
    """Returns stacked items as tensors, where the module's weights are."""
    torch = require("torch", extra="reticent[torch]")
    weight = next(module.parameters(), None)
    device = "cpu" if weight is None else weight.device
    return tuple(torch.from_numpy(array).to(device) for array in item)


def settings() -> tuple[object, ...]:
    """Returns what torch chooses kernels by, beside shapes, and what may change while a program runs."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.get_num_threads(), torch.get_float32_matmul_precision())


@contextlib.contextmanager
def one_thread(encoder: object) -> Iterator[None]:
    """Lets an encoder compute on one thread, in workers of a cluster: bits must not depend on which of them has a row.

    Args:
        encoder: Where it is not known to do without torch, torch is imported, so that it can be told.
    """
    torch = None if getattr(getattr(encoder, "backend", None), "beside", False) else _torch_if_installed()
    before = 1 if torch is None else torch.get_num_threads()
    if torch is not None and before > 1:
        torch.set_num_threads(1)
    try:
        with threads.limited(1):
            yield
    finally:
        if torch is not None and before > 1:
            torch.set_num_threads(before)


def _torch_if_installed() -> Any:
    try:
        return require("torch", extra=EXTRA)
    except errors.ReticentError:
        return None


def inference(module: Any, embed: Callable[[tuple[Any, ...]], Any]) -> Callable[[Item], npt.NDArray[Any]]:
    """Returns `embed` as a function of arrays, without gradients."""
    return partial(_inferred, require("torch", extra="reticent[torch]").inference_mode, module, embed)


def _inferred(mode: Callable[[], Any], module: Any, embed: Callable[[tuple[Any, ...]], Any], item: Item) -> Any:
    with mode():
        return embed(tensors(module, item)).float().cpu().numpy()


def out_of_memory(error: BaseException) -> bool:
    """Returns whether an exception is about the machine's memory: torch says so with a RuntimeError.

    >>> out_of_memory(MemoryError()), out_of_memory(RuntimeError("shapes do not match"))
    (True, False)
    """
    words = ("out of memory", "can't allocate memory", "not enough memory")
    text = str(error) if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or any(word in text for word in words)


def _rows(usual: Callable[[Item], int], batch_size: int, item: Item) -> int:
    """Returns how many rows a batch has: a function of the item's shape and of a public setting."""
    rows = usual(item)
    return 1 if rows == 1 else max(1, rows * batch_size // _USUAL)


def _halved(backend: "Backend", kind: str) -> "Backend":
    """Returns a backend that computes in bfloat16; it has the range of float32, so that nothing overflows."""
    torch = require("torch", extra=EXTRA)
    whole = backend.embed

    def embed(item: tuple[Any, ...]) -> Any:
        with torch.autocast(kind, dtype=torch.bfloat16):
            return whole(item)  # type: ignore[misc]

    half = replace(backend, embed=embed, forward=inference(backend.module, embed))
    (item,) = backend.prepare([backend.probe])
    if item is None:
        return half  # whoever asks for features refuses it, and says why
    one = stacked([item], backend.rows(item))
    full, rough = (np.asarray(found.forward(one), np.float64)[0] for found in (backend, half))
    if not full @ rough >= _ALIKE * np.sqrt((full @ full) * (rough @ rough)):
        raise errors.InvalidValue("In bfloat16 this model gives other features of a public example. Use bf16=False.")
    return half


def _refuse_too_large(backend: "Backend") -> None:
    """Refuses batches that do not fit, on a public example: later they would be left out silently."""
    (item,) = backend.prepare([backend.probe])
    if item is None:
        return
    if backend.longest is not None:
        item = tuple(np.resize(array, backend.longest) for array in item)
    try:
        backend.forward(stacked([item], backend.rows(item)))
    except Exception as error:
        if not out_of_memory(error):
            raise
        raise errors.InvalidValue(
            "Expected a batch_size that fits into the device's memory. Use a smaller one."
        ) from None
