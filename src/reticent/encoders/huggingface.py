"""Any text or image model of the Hugging Face hub, or of a local folder, through transformers."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders import images, text
from reticent.encoders.devices import Bf16, Speed
from reticent.encoders.encoder import Backend, Encoder, sha256_of_weights
from reticent.encoders.packages import require

_TOKENS = 256  # longer texts are cut, as with minilm
# Architectures whose layers treat the rows of a batch one by one: read, and tested. All others get one row at a time:
# experts group the tokens of all rows by what they are, and a few public examples need not show it.
ROW_BY_ROW = frozenset(
    {"albert", "bert", "camembert", "convnext", "deit", "dinov2", "distilbert", "electra", "mpnet", "resnet", "roberta"}
    | {"vit", "xlm-roberta"}
)


def hf(
    name: str | os.PathLike[str],
    *,
    device: str = "cpu",
    batch_size: int | None = None,
    bf16: Bf16 = False,
) -> Encoder:
    """A model of the Hugging Face hub or of a local folder; its configuration says whether it reads texts or images.

    Texts: mean of the last hidden states over the first 256 tokens. Images: the class token where the model has one,
    otherwise the mean over positions. Code that comes with a model is never run.

    Args:
        name: Such as "google/vit-base-patch16-224-in21k", or a folder.
        device: "cpu", "cuda", "mps" or "auto"; see `Speed`.
        batch_size: Rows of a batch of short inputs, always; 16 by default.
        bf16: Compute in bfloat16; "auto": where the device has instructions for it.

    Example:
        >>> hf("google/vit-base-patch16-224-in21k")
        Encoder(name='hf:google/vit-base-patch16-224-in21k')
    """
    source = os.fspath(name)
    return Encoder(
        name=f"hf:{source}",
        load=partial(_load, source),
        fingerprint=partial(_digest, source),
        kinds="OUTu",
        chunk=256,
        images=True,
        speed=Speed(device=device, batch_size=batch_size, bf16=bf16),
    )


def _config(source: str) -> Any:
    transformers = require("transformers", extra=text.EXTRA)
    try:
        return text.quietly(transformers.AutoConfig.from_pretrained, source, local_files_only=Path(source).is_dir())
    except (OSError, ValueError) as error:
        sentence = f"No model {source!r} that transformers can load. Check the name, the folder or the connection."
        raise errors.ReticentError(sentence) from error


def _reads_images(config: Any) -> bool:
    words, pixels = hasattr(config, "vocab_size"), hasattr(config, "num_channels")
    if words == pixels:
        raise errors.ReticentError("Expected a model of texts or of images; wrap(...) takes any other.")
    return pixels


def _tokenizer(source: str) -> Any:
    load = require("transformers", extra=text.EXTRA).AutoTokenizer.from_pretrained
    return text.quietly(load, source, local_files_only=Path(source).is_dir())


def _processor(source: str) -> Any:
    require("PIL.Image", extra=images.EXTRA)
    load = require("transformers", extra=text.EXTRA).AutoImageProcessor.from_pretrained
    return text.quietly(load, source, local_files_only=Path(source).is_dir())


def _load(source: str) -> Backend:
    config = _config(source)
    local = Path(source).is_dir()
    if not _reads_images(config):
        tokenizer = _tokenizer(source)
        limits = (_TOKENS, tokenizer.model_max_length, getattr(config, "max_position_embeddings", None) or _TOKENS)
        model = text.load_model(source, local=local)
        backend = text.backend(model, tokenizer, width=int(config.hidden_size), tokens=int(min(limits)))
        return backend if config.model_type in ROW_BY_ROW else replace(backend, rows=lambda _: 1)
    processor = _processor(source)
    model = text.load_model(source, local=local)
    first = any(key.endswith("cls_token") for key in model.state_dict())
    rows = images.ROWS if config.model_type in ROW_BY_ROW else 1
    embed, pixels = partial(_pooled, model, first), partial(_pixels, processor)
    return images.backend(model, embed, pixels, width=_width(config), rows=rows)


def _width(config: Any) -> int:
    if hasattr(config, "hidden_size"):
        return int(config.hidden_size)
    return int(config.hidden_sizes[-1])  # convolutional models have a width per stage


def _pooled(model: Any, first: bool, pixels: Any) -> Any:
    hidden = model(pixel_values=pixels).last_hidden_state
    if hidden.ndim == 4:
        return hidden.mean((2, 3))
    return hidden[:, 0] if first else hidden.mean(1)


def _pixels(processor: Any, image: Any) -> npt.NDArray[np.float32]:
    pixels: npt.NDArray[np.float32] = processor(images=[image], return_tensors="np")["pixel_values"][0]
    return pixels


def _digest(source: str) -> str:
    config = _config(source).to_dict()
    public = {key: config[key] for key in sorted(config) if key not in ("_name_or_path", "transformers_version")}
    if _reads_images(_config(source)):
        before = _processor(source).to_json_string()
    else:
        before = repr(sorted(_tokenizer(source).get_vocab().items()))
    model = text.load_model(source, local=Path(source).is_dir())
    return sha256_of_weights(model, repr(public), before, str(_TOKENS))
