"""Exported encoders against the encoders themselves, in onnxruntime."""

from dataclasses import replace

import numpy as np
import pytest

import reticent as rt
from reticent import encoders, errors
from reticent.encoders import onnx_encoder, text
from reticent.encoders.adapters import trainable
from reticent.encoders.encoder import Encoder
from tests.encoders.samples import assert_depends_on_the_example_alone, needs_lite0, needs_minilm, texts

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
    return Encoder(name="small", load=lambda: backend, fingerprint=lambda: "0" * 64, content=text.content)


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


@pytest.mark.slow
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


# --- MiniLM that onnxruntime computes


@pytest.fixture(scope="module")
def fast():
    return encoders.minilm(backend="onnxruntime")


@needs_minilm
def test_texts_in_onnxruntime_depend_on_themselves_alone(fast, minilm):
    examples = texts(24, longest=16)
    assert_depends_on_the_example_alone(fast, examples, alone=3, sizes=(3, 17))
    np.testing.assert_allclose(fast(examples), minilm(examples), atol=1e-5)
    rows = {fast.backend.rows(item) for item in fast.prepare(examples) if item is not None}
    assert rows <= {1, 16}  # 1 where the processor's kernels let places decide
    assert np.isnan(fast(["a", None, 3])).all(axis=1).tolist() == [False, True, True]


@needs_minilm
def test_a_graph_whose_rows_mix_is_noticed(minilm):
    """The twin, as dynamic quantisation is: scaled by the largest value of the batch."""
    usual = minilm.load()
    assert usual.embed is not None
    mixing = replace(usual, embed=lambda item: usual.embed(item) / usual.embed(item).abs().max())
    encoder = Encoder(
        name="twin", load=lambda: onnx_encoder.by_onnxruntime(mixing, "twin"), fingerprint=str, content=text.content
    )
    for item in encoder.prepare(["a", "a fall from the stairs", "pain " * 20]):
        assert item is not None
        assert encoder.backend.rows(item) == 1


@needs_minilm
def test_a_model_of_one_backend_is_not_used_with_another(fast, minilm, tmp_path):
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(["a", "b"]),
        budget=rt.Budget(epsilon=1.0, delta=1e-5),
        encoder=fast,
        path=tmp_path / "model",
    )
    model.learn_task(["a text", "another"] * 3, ["a", "b"] * 3)
    assert fast.digest != minilm.digest
    assert rt.load(tmp_path / "model").predict(["a text"]).shape == (1,)  # its name says which encoder it is
    with pytest.raises(errors.ReticentError):
        rt.load(tmp_path / "model", encoder=minilm)


@needs_minilm
def test_adapters_and_devices_need_torch(fast):
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder that is a torch module"):
        trainable(fast.backend)
    with pytest.raises(errors.InvalidValue, match=r"^Expected no device, batch_size or bf16"):
        encoders.minilm(backend="onnxruntime", batch_size=4)
    with pytest.raises(errors.InvalidValue, match=r"^Expected a backend out of torch, onnxruntime\.$"):
        encoders.minilm(backend="tensorflow")
