"""Texts through transformers and torch: length buckets and mean pooling."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reticent.encoders.batches import Item, Items
from reticent.encoders.devices import inference
from reticent.encoders.encoder import Backend
from reticent.encoders.packages import require

EXTRA = "reticent[torch]"


def is_text(example: object) -> bool:
    """Returns whether an example is a text that UTF-8 can hold, as tokenizers want it."""
    if not isinstance(example, str):
        return False
    try:
        example.encode()
    except UnicodeEncodeError:
        return False
    return True


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
        texts = [(i, example) for i, example in enumerate(examples) if is_text(example)]
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
