"""Exported encoders against the encoders themselves, in onnxruntime."""

import numpy as np
import pytest

from reticent import encoders, errors
from reticent.encoders import onnx_encoder, text
from reticent.encoders.encoder import Encoder
from tests.encoders.samples import needs_lite0, needs_minilm, texts

onnxruntime = pytest.importorskip("onnxruntime", reason="runs the exported graph: reticent[onnx]")
pytest.importorskip("onnx", reason="makes the graph: reticent[onnx]")
torch = pytest.importorskip("torch", reason="reticent[torch]")

WIDTH = 6


class Words(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A small model of texts, with what transformers calls its output."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(100, WIDTH)
        self.mix = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, input_ids, attention_mask):
        hidden = torch.tanh(self.mix(self.table(input_ids)))
        return type("Output", (), {"last_hidden_state": hidden * attention_mask.unsqueeze(-1)})


class Tokenizer:
    pad_token_id = 0

    def __call__(self, given, truncation, max_length):
        split = [given] if isinstance(given, str) else given
        ids = [[1 + len(word) % 90 for word in entry.split()][:max_length] for entry in split]
        return {"input_ids": ids[0] if isinstance(given, str) else ids}


def small() -> Encoder:
    backend = text.backend(Words().eval(), Tokenizer(), width=WIDTH, tokens=32)
    return Encoder(name="small", load=lambda: backend, fingerprint=lambda: "0" * 64)


def features(content: bytes, encoder: Encoder, examples) -> np.ndarray:
    """Each example through the graph, as a program elsewhere would send it."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    items = [item for item in encoder.prepare(examples) if item is not None]
    given = [dict(zip(names, (array[None] for array in item), strict=True)) for item in items]
    return np.concatenate([session.run(["features"], feed)[0] for feed in given])


def test_exported_encoders_give_the_same_features():
    encoder, examples = small(), texts(20)
    found = features(onnx_encoder.exported(encoder), encoder, examples)
    np.testing.assert_allclose(found, encoder(examples), rtol=1e-5, atol=1e-6)


@needs_minilm
def test_minilm_is_exported():
    encoder, examples = encoders.minilm(), texts(20)
    found = features(onnx_encoder.exported(encoder), encoder, examples)
    np.testing.assert_allclose(found, encoder(examples), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@needs_lite0
def test_efficientnet_is_exported():
    encoder = encoders.efficientnet_lite0()
    examples = [np.full((40, 40, 3), shade, np.uint8) for shade in (10, 200)]
    found = features(onnx_encoder.exported(encoder), encoder, examples)
    np.testing.assert_allclose(found, encoder(examples), rtol=1e-3, atol=1e-4)


def own(values):
    return np.ones((len(values), 3), np.float32)


@pytest.mark.parametrize("encoder", [own, encoders.wrap(own, name="own", width=3)], ids=["a function", "wrapped"])
def test_encoders_that_cannot_be_exported_are_refused(encoder):
    with pytest.raises(errors.InvalidValue, match=r"of your own|no module of torch"):
        onnx_encoder.exported(encoder)


def test_a_model_that_cannot_be_traced_is_refused(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("an operator without a graph")

    monkeypatch.setattr(torch.onnx, "export", broken)
    with pytest.raises(errors.ReticentError, match="torch cannot export small to ONNX"):
        onnx_encoder.exported(small())


def test_an_export_that_differs_is_refused(monkeypatch):
    """The twin: another model's graph."""
    other = onnx_encoder.exported(small())
    monkeypatch.setattr(onnx_encoder, "traced", lambda *_: other)
    with pytest.raises(errors.ReticentError, match="differs from it"):
        onnx_encoder.exported(small())
