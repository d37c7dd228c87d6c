"""Encoders: public weights that turn texts and images into features. Importing this package imports no torch.

Contains models, adapters of models, and what makes an encoder of either; nothing that holds sensitive data. An encoder
is a frozen value and a callable, `inputs -> float32 (n, width)`, whose features of an example depend on that example
alone. What an encoder cannot use becomes a row of NaN, which the gate drops silently.

A new encoder is a file of its own and a line in `SHIPPED`.
"""

from collections.abc import Callable
from functools import partial

from reticent import errors
from reticent.encoders.adapters import film, last_layer, lora
from reticent.encoders.all_minilm import minilm
from reticent.encoders.devices import Speed
from reticent.encoders.encoder import Encoder
from reticent.encoders.huggingface import hf
from reticent.encoders.images import efficientnet_lite0, timm
from reticent.encoders.onnx_texts import onnx
from reticent.encoders.wrapped import wrap
from reticent.numerics.own_objects import own_object

__all__ = [
    "SHIPPED",
    "Encoder",
    "Speed",
    "efficientnet_lite0",
    "film",
    "hf",
    "last_layer",
    "lora",
    "minilm",
    "named",
    "onnx",
    "timm",
    "wrap",
]

SHIPPED: dict[str, Callable[[], Encoder]] = {
    "minilm": minilm,
    "minilm_torch": partial(minilm, backend="torch"),
    "efficientnet_lite0": efficientnet_lite0,
}
"""Encoders whose weights come inside a package, by the name that a manifest keeps."""

_LIBRARIES: dict[str, Callable[[str], Encoder]] = {"hf": hf, "onnx": onnx, "timm": timm}


def named(name: str, *, own: bool = False) -> Encoder | None:
    """Returns the encoder of a name, as a command or a specification writes it; None for "none".

    Args:
        name: "minilm", "minilm_torch", "efficientnet_lite0", "hf:NAME", "onnx:FILE", "timm:NAME" or "none".
        own: Also "module:object", imported from the current folder or the path: an encoder, or what returns one. This
            runs the module's code, so the name must come from the user.

    Example:
        >>> named("efficientnet-lite0")
        Encoder(name='efficientnet_lite0')
        >>> named("hf:google/vit-base-patch16-224-in21k")
        Encoder(name='hf:google/vit-base-patch16-224-in21k')
    """
    if name == "none":
        return None
    if (shipped := name.replace("-", "_")) in SHIPPED:
        return SHIPPED[shipped]()
    before, _, rest = name.partition(":")
    if before in _LIBRARIES and rest:
        return _LIBRARIES[before](rest)
    if own and before and rest:
        found: Encoder = own_object(name, "an encoder", lambda it: isinstance(it, Encoder))
        return found
    names = [*SHIPPED, "hf:NAME", "onnx:FILE", "timm:NAME", *(["module:object"] if own else []), "none"]
    raise errors.InvalidValue(f"Expected an encoder out of {', '.join(names)}, got {name}.")
