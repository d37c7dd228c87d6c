"""Models of texts that onnxruntime computes: the embedded default's rule of batches, and graphs of users.

One session, each of whose calls works on one thread, is called from several threads at once: batches are beside each
other. Their shapes follow from the text alone, so features depend on neither threads nor order nor company.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.batches import Item, Items
from reticent.encoders.encoder import Backend, Encoder, sha256_of_files
from reticent.encoders.packages import require
from reticent.encoders.text import is_text

EXTRA = "reticent[text]"
INPUTS, OUTPUT = ("input_ids", "attention_mask"), "features"
_OLDEST = (1, 20)  # of onnxruntime that we have tried
_STEP = 4  # texts are filled up to a multiple of so many tokens
_TOKENS = 256  # longer texts are cut, as the default's were when it was published


def onnx(
    path: str | os.PathLike[str],
    *,
    tokenizer: str | os.PathLike[str] | None = None,
    tokens: int = _TOKENS,
) -> Encoder:
    """A text model that you exported to ONNX, one text at a time; what it reads follows from the text alone.

    Its inputs are `input_ids`, `attention_mask` and perhaps `token_type_ids`, int64 (n, tokens). Its first output is
    features (n, width), or hidden states (n, tokens, width), whose mean over the text's own tokens is taken.

    Args:
        path: The graph; weights in files beside it begin with its name.
        tokenizer: A `tokenizer.json`; by default the one beside the graph.
        tokens: What is longer is cut.

    Example:
        >>> onnx("models/notes.onnx")
        Encoder(name='onnx:models/notes.onnx')
    """
    graph = Path(path)
    words = graph.with_name("tokenizer.json") if tokenizer is None else Path(tokenizer)
    tokens = errors.whole("tokens", tokens, at_least=1)
    return Encoder(
        name=f"onnx:{os.fspath(path)}",
        load=partial(_load, graph, words, tokens),
        fingerprint=partial(_digest, graph, words, tokens),
    )


def rows(item: Item) -> int:
    """Returns how many texts of one length make a batch: as few as are fast, since places that are left hold copies.

    >>> [rows((np.zeros(tokens),)) for tokens in (4, 16, 20, 48, 52, 128, 132, 256)]
    [16, 16, 8, 8, 4, 4, 1, 1]
    """
    tokens = len(item[0])
    return 16 if tokens <= 16 else 8 if tokens <= 48 else 4 if tokens <= 128 else 1


def session(graph: str | bytes, weights: dict[str, npt.NDArray[Any]] | None = None) -> Any:
    """Returns a graph as something to run, on one thread for each call.

    Args:
        graph: A file, or its content.
        weights: Of a graph without any: its initializers by name.
    """
    runtime = require("onnxruntime", extra=EXTRA)
    if tuple(int(part) for part in runtime.__version__.split(".")[:2]) < _OLDEST:
        raise errors.ReticentError(f"This encoder needs a newer onnxruntime than {runtime.__version__}: {_UPDATE}.")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what it says of an example stays unsaid
    if weights is not None:
        values = [runtime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for array in weights.values()]
        options.add_external_initializers(list(weights), values)  # which the session copies while it is made
    return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


_UPDATE = f"pip install -U '{EXTRA}'"


@dataclass(frozen=True)
class Words:
    """From texts to token ids and masks, each from its text alone: filled up to a multiple of four tokens.

    Args:
        file: A tokenizer.json.
        tokens: What is longer is cut.
    """

    file: Path
    tokens: int

    def ready(self) -> Callable[[Sequence[object]], Items]:
        """Returns the tokenizer as `Backend.prepare`."""
        return partial(_items, self._loaded())

    def count(self) -> Callable[[str], int]:
        """Returns a function that counts tokens, up to one more than are read."""
        tokenizer = self._loaded()

        def counted(text: str) -> int:
            found = tokenizer.encode(text)
            return len(found.ids) + bool(found.overflowing)

        return counted

    def _loaded(self) -> Any:
        try:
            tokenizer = require("tokenizers", extra=EXTRA).Tokenizer.from_file(str(self.file))
        except errors.ReticentError:
            raise
        except Exception as error:  # the library raises Exception itself
            raise errors.ReticentError(f"{self.file.name} is no tokenizer that can be read.") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.tokens)
        return tokenizer


def _items(tokenizer: Any, examples: Sequence[object]) -> Items:
    texts = [(i, str(example)) for i, example in enumerate(examples) if is_text(example)]
    items: Items = [None] * len(examples)
    for (i, _), found in zip(texts, tokenizer.encode_batch([text for _, text in texts]), strict=True):
        length = max(1, -(-len(found.ids) // _STEP)) * _STEP
        ids, mask = np.zeros((2, length), dtype=np.int64)  # what is masked has no say, whatever its id
        ids[: len(found.ids)], mask[: len(found.ids)] = found.ids, 1
        items[i] = ids, mask
    return items


def computed(running: Any, item: Item) -> npt.NDArray[Any]:
    """Returns the features of a batch by a graph whose inputs and output are ours."""
    found: npt.NDArray[Any] = running.run([OUTPUT], dict(zip(INPUTS, item, strict=True)))[0]
    return found


def _any(running: Any, names: Sequence[str], item: Item) -> npt.NDArray[Any]:
    """Returns the features of a batch by a graph of a user's."""
    given = {**dict(zip(INPUTS, item, strict=True)), "token_type_ids": np.zeros_like(item[0])}
    found: npt.NDArray[Any] = running.run(None, {name: given[name] for name in names})[0]
    if found.ndim == 3:
        shown = item[1][:, :, None].astype(found.dtype)
        found = (found * shown).sum(1) / shown.sum(1)
    return found


def _load(graph: Path, words: Path, tokens: int) -> Backend:
    _refuse_missing(graph, words)
    try:
        running = session(str(graph))
    except errors.ReticentError:
        raise
    except Exception as error:
        raise errors.ReticentError(f"onnxruntime cannot read {graph.name}. Export the model again.") from error
    names = [given.name for given in running.get_inputs()]
    if not {"input_ids"} <= set(names) <= {*INPUTS, "token_type_ids"}:
        raise errors.ReticentError(
            f"Expected the inputs input_ids, attention_mask and token_type_ids; {graph.name} has {', '.join(names)}."
        )
    width = running.get_outputs()[0].shape[-1]
    if not isinstance(width, int):
        raise errors.ReticentError(f"Expected a first output of a fixed width in {graph.name}: (n, width).")
    told = Words(words, tokens)
    return Backend(
        prepare=told.ready(),
        forward=partial(_any, running, names),
        rows=lambda _: 1,  # nobody has read the graph
        width=width,
        probe="A public text.",
        beside=True,
        longest=tokens,
        tokens=told.count(),
    )


def _digest(graph: Path, words: Path, tokens: int) -> str:
    _refuse_missing(graph, words)
    files = [file for file in graph.parent.iterdir() if file.name.startswith(graph.name) and file.is_file()]
    return sha256_of_files([*files, words], "one by one", str(tokens))


def _refuse_missing(*files: Path) -> None:
    for file in files:
        if not file.is_file():
            raise errors.ReticentError(f"No file {file.name} for this encoder. Check the path.")
