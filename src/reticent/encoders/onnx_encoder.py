"""An encoder as an ONNX file, from prepared inputs (token ids, pixels) to features."""

import io
import warnings
from typing import Any

import numpy as np

from reticent import errors
from reticent.encoders.encoder import Backend, Encoder
from reticent.encoders.onnx_texts import INPUTS, OUTPUT
from reticent.encoders.packages import require
from reticent.encoders.probes import public_item

EXTRA = "reticent[onnx]"
IMAGE_INPUTS = ("pixel_values",)
_OPSET = 18
_CLOSE = 1e-3  # of the largest feature: a network of dozens of float32 layers


def exported(encoder: Any) -> bytes:
    """Returns an encoder as an ONNX file, compared with it in onnxruntime on its public example.

    Texts become `input_ids` and `attention_mask`, int64 (n, tokens), as the model's own tokenizer makes them; images
    `pixel_values`. The output `features` is what the scorer reads.

    Guarantees:
      - The features of the encoder, to float32.                       test_exported_encoders_give_the_same_features
      - What is no torch model, or cannot be traced, is refused.       test_encoders_that_cannot_be_exported_are_refused

    Args:
        encoder: Such as `minilm()`.
    """
    if not isinstance(encoder, Encoder):
        raise errors.InvalidValue("Expected an encoder of reticent: code of your own has no ONNX graph.")
    backend = encoder.backend
    item, _ = public_item(backend)
    if item is None or (backend.graph is None and (backend.module is None or backend.embed is None)):
        raise errors.InvalidValue(f"Expected a torch model: {encoder.name} has no module of torch to make a graph of.")
    runtime = require("onnxruntime", extra=EXTRA, what="Exporting an encoder")
    require("onnx", extra=EXTRA, what="Exporting an encoder")
    inputs = INPUTS if encoder.reads_texts else IMAGE_INPUTS
    arrays = [np.stack([array, array]) for array in item]
    if len(arrays) != len(inputs):
        raise errors.InvalidValue(f"Expected an encoder of texts or images: {encoder.name} reads something else.")
    content = traced(backend, encoder.name, inputs, arrays) if backend.graph is None else backend.graph()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    single = dict(zip(inputs, (array[:1] for array in arrays), strict=True))
    found, expected = session.run(None, single)[0], encoder([backend.probe])
    size = float(np.abs(expected).max())
    if found.shape != expected.shape or not float(np.abs(found - expected).max()) <= _CLOSE * size:
        raise errors.ReticentError(
            f"The exported graph of {encoder.name} differs from it in this version of onnxruntime. Nothing was written."
        )
    return content


def traced(backend: Backend, name: str, inputs: tuple[str, ...], arrays: list[Any]) -> bytes:
    """Returns a torch model as an ONNX file, made on public examples.

    Args:
        backend: The model.
        name: What it is called.
        inputs: Names of its inputs.
        arrays: Public examples.
    """
    torch: Any = require("torch", extra="reticent[torch]", what="Exporting an encoder")
    embed, module = backend.embed, backend.module

    class Whole(torch.nn.Module):  # type: ignore[misc]
        """The model and what is done with its output."""

        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *given: Any) -> Any:
            """Returns features."""
            return embed(given) if embed is not None else None

    axes = {0: "n", 1: "tokens"} if inputs == INPUTS else {0: "n"}
    stream = io.BytesIO()
    try:
        with warnings.catch_warnings(), errors.silenced():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                Whole().eval(),
                tuple(map(torch.from_numpy, arrays)),
                stream,
                input_names=list(inputs),
                output_names=[OUTPUT],
                dynamic_axes={**dict.fromkeys(inputs, axes), OUTPUT: {0: "n"}},
                opset_version=_OPSET,
                dynamo=False,  # the other exporter needs one more package, and makes two files of a large model
            )
    except Exception as error:
        raise errors.ReticentError(
            f"torch cannot export {name} to ONNX. Export the scorer alone, or use reticent serve."
        ) from error
    return stream.getvalue()
