"""Adapters: a few values beside public weights; the module itself is never touched."""

import importlib.util
import subprocess
import sys
import threading

import numpy as np
import pytest

from reticent import encoders, errors
from reticent.encoders import adapters
from reticent.encoders.adapters import features_with_each, film, last_layer, lora
from reticent.sensitive.gradients import Recorder
from tests.encoders.samples import needs_lite0, needs_minilm_torch

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
    pytest.skip("needs torch and transformers", allow_module_level=True)

import torch

pytestmark = pytest.mark.usefixtures("one_thread")


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    parts = [torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.ReLU()]
    last = torch.nn.Sequential()
    last.add_module("query", torch.nn.Linear(8, 5))
    return torch.nn.Sequential(*parts, last, torch.nn.LayerNorm(5, bias=False))


def moved(start, seed: int = 0):
    draw = np.random.default_rng(seed)
    return {name: (value + 0.3 * draw.normal(size=value.shape)).astype(np.float32) for name, value in start.items()}


def size(values) -> int:
    return sum(value.size for value in values.values())


# --- which parameters there are


def test_vit_b16_film_parameters():
    from transformers import ViTConfig, ViTModel

    with torch.device("meta"):
        shapes = ViTModel(ViTConfig())
    layers = adapters._torch_side().norms(shapes)
    assert len(layers) == 25
    assert sum(weight.numel() for layer in layers.values() for weight in layer.parameters()) == 38_400
    small = ViTModel(ViTConfig(hidden_size=12, num_hidden_layers=12, num_attention_heads=2, intermediate_size=8))
    assert size(film.start(small)) == 25 * 2 * 12
    assert not any("pooler" in name for name in film.start(small))


@needs_minilm_torch
def test_minilm_film_parameters(minilm_torch):
    start = film.start(minilm_torch.backend.module)
    assert len(start) == 26
    assert size(start) == 9_984
    assert len(lora().start(minilm_torch.backend.module)) == 2 * 2 * 6


@needs_lite0
def test_lite0_film_parameters(lite0):
    start = film.start(lite0.backend.module)
    assert len(start) == 2 * 49
    picture = [np.arange(30 * 30 * 3, dtype=np.uint8).reshape(30, 30, 3)]
    plain, (same, other) = lite0(picture), features_with_each(lite0, film, [start, moved(start)], picture)
    np.testing.assert_allclose(same, plain, atol=1e-4)
    assert np.abs(other - plain).max() > 0.01


def test_initial_adapters_change_no_features():
    encoder = encoders.wrap(net(), width=5, name="mine")
    x = np.random.default_rng(0).normal(size=(9, 6))
    for adapter in (film, lora(), last_layer):
        start = adapter.start(encoder.backend.module)
        np.testing.assert_allclose(features_with_each(encoder, adapter, [start], x)[0], encoder(x), atol=1e-6)


def test_lora_starts_from_its_seed_alone():
    first, again, other = (lora(seed=seed).start(net()) for seed in (0, 0, 1))
    assert list(first) == ["lora.3.query.a", "lora.3.query.b"]
    np.testing.assert_array_equal(first["lora.3.query.a"], again["lora.3.query.a"])
    assert (first["lora.3.query.a"] != other["lora.3.query.a"]).all()
    assert not first["lora.3.query.b"].any()
    assert 0.5 * 8**-0.5 < np.abs(first["lora.3.query.a"]).max() <= 8**-0.5
    many = adapters._uniform("0 wide", (100, 100), 1.0)
    assert abs(many.mean()) < 0.05
    assert abs(many.std() - 3**-0.5) < 0.02


# --- what attaching does


@pytest.mark.parametrize("adapter", [film, lora(modules=["query"])], ids=["film", "lora"])
def test_values_take_the_place_of_weights(adapter):
    """Against the values written into a second copy of the module."""
    module, twin = net(), net()
    values = moved(adapter.start(module))
    with torch.no_grad():
        for name, weight in twin.named_parameters():
            if f"film.{name}" in values:
                weight.copy_(torch.from_numpy(values[f"film.{name}"]))
        if "lora.3.query.a" in values:
            product = torch.from_numpy(values["lora.3.query.b"] @ values["lora.3.query.a"])
            twin[3].query.weight += adapter.alpha / adapter.rank * product
    x = torch.randn(7, 6)
    with torch.no_grad():
        expected = twin(x)
        with adapter.attached(module, values):
            torch.testing.assert_close(module(x), expected)
        with adapter.attached(module, values, Recorder(7)):
            torch.testing.assert_close(module(x), expected)
        assert (module(x) - expected).abs().max() > 0.01


@pytest.mark.parametrize("adapter", [film, lora(modules=["query"]), last_layer], ids=["film", "lora", "last"])
def test_attaching_does_not_change_the_module(adapter):
    module = net()
    before = {name: (id(p), p.detach().clone(), p.requires_grad) for name, p in module.named_parameters()}
    inside = [sorted(vars(part)) for part in module.modules()]
    values = moved(adapter.start(module))
    recorder = Recorder(4)
    with adapter.attached(module, values, recorder) as leaves:
        out = module(torch.randn(4, 6))
        assert [sorted(vars(part)) for part in module.modules()] == inside
        if leaves:
            torch.autograd.grad(out.sum(), leaves, allow_unused=True)
    with pytest.raises(RuntimeError, match="on the way"), adapter.attached(module, values):
        raise RuntimeError("on the way")
    assert [sorted(vars(part)) for part in module.modules()] == inside
    for name, p in module.named_parameters():
        assert (id(p), p.requires_grad) == (before[name][0], before[name][2])
        assert torch.equal(p, before[name][1])
        assert p.grad is None
    assert recorder.gradients.keys() == values.keys()


def test_other_threads_see_the_plain_module():
    module, x = net(), torch.randn(3, 6)
    plain = module(x).detach()
    seen: list[torch.Tensor] = []
    with film.attached(module, moved(film.start(module))):
        other = threading.Thread(target=lambda: seen.append(module(x).detach()))
        other.start()
        other.join()
        assert not torch.equal(module(x), plain)
    assert torch.equal(seen[0], plain)


def test_a_layer_used_twice_adds_up():
    layer = torch.nn.LayerNorm(4).double()
    twice = torch.nn.Sequential(layer, torch.nn.Tanh(), layer)
    x, recorder = torch.randn(3, 4, dtype=torch.float64), Recorder(3)
    with film.attached(twice, film.start(twice), recorder) as leaves:
        torch.autograd.grad((twice(x) ** 3).sum(), leaves, allow_unused=True)
    (twice(x) ** 3).sum().backward()
    for part in ("weight", "bias"):
        torch.testing.assert_close(recorder.gradients[f"film.0.{part}"].sum(0), getattr(layer, part).grad)


# --- features


@needs_minilm_torch
def test_adapted_features_keep_the_rules(minilm_torch):
    texts = ["a fall", "pain in the left knee", None, "asks for help " * 4, "a text", "another", "b", "c d e"]
    values = moved(film.start(minilm_torch.backend.module))
    together = features_with_each(minilm_torch, film, [values], texts)[0]
    assert together.dtype == np.float32
    assert together.shape == (8, 384)
    assert np.isnan(together).all(axis=1).tolist() == [text is None for text in texts]
    np.testing.assert_array_equal(features_with_each(minilm_torch, film, [values], texts[::-1])[0], together[::-1])
    for i in (0, 3):
        np.testing.assert_array_equal(features_with_each(minilm_torch, film, [values], [texts[i]])[0, 0], together[i])
    assert features_with_each(minilm_torch, film, [values], []).shape == (1, 0, 384)


def test_inputs_are_prepared_once():
    encoder = encoders.wrap(net(), width=5, name="mine")
    prepare, calls = encoder.backend.prepare, []

    def counted(examples):
        calls.append(1)
        return prepare(examples)

    object.__setattr__(encoder.backend, "prepare", counted)
    x = np.random.default_rng(0).normal(size=(20, 6))
    sets = [moved(film.start(encoder.backend.module), seed) for seed in range(3)]
    each = features_with_each(encoder, film, sets, x)
    assert len(calls) == 1
    assert each.shape == (3, 20, 5)
    for values, features in zip(sets, each, strict=True):
        np.testing.assert_array_equal(features_with_each(encoder, film, [values], x)[0], features)
    np.testing.assert_array_equal(features_with_each(encoder, last_layer, [{}, {}], x)[1], encoder(x))
    assert len(encoder.prepare([x[0], None])) == 2
    assert encoder.prepare([None]) == [None]


def test_predicting_with_adapters_needs_no_gate():
    code = "import sys, reticent.encoders.adapters; print([m for m in sys.modules if 'gate' in m or 'sensitive' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- refusals


def test_adapters_refuse_in_one_sentence():
    bare = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder with normalisation layers"):
        film.start(bare)
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder with linear layers named query or value"):
        lora().start(bare)
    with pytest.raises(errors.InvalidValue, match=r"^Expected BatchNorm layers with running statistics"):
        film.start(torch.nn.BatchNorm1d(3, track_running_stats=False))
    start = film.start(net())
    wrong = {**start, "film.1.weight": np.zeros(9, np.float32)}
    for values in (wrong, {}, {**start, "more": np.zeros(1, np.float32)}):
        with pytest.raises(errors.InvalidValue, match=r"names and shapes differ\.$"), film.attached(net(), values):
            pass
    mine = encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine")
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder that is a torch module"):
        features_with_each(mine, film, [start], [1])
    for change in ({"rank": 0}, {"alpha": 0}, {"seed": -1}):
        with pytest.raises(errors.InvalidValue, match="Expected"):
            lora(**change)  # type: ignore[arg-type]
