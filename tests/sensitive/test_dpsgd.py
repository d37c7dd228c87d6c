"""DP-SGD: per-example gradients against a slow loop, clipping that never exceeds, noise with its exact scale."""

import importlib.util
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binomtest, chi2

from reticent import encoders, errors, events
from reticent.encoders.encoder import Backend, inference
from reticent.gate.noise import NoiseSource
from reticent.sensitive import dpsgd
from reticent.sensitive.dpsgd import Adam, Engine, Sgd, Training, train
from reticent.sensitive.gradients import (
    AdapterGradients,
    HeadGradients,
    ModuleGradients,
    _bits,
    _Head,
    _product,
    _snapped,
)
from tests.conftest import ALPHA

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
needs_bert = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def settings(**changes) -> Training:
    usual = {"noise_multiplier": 1.0, "rate": 0.5, "steps": 3, "clip_norm": 1.0, "batch": 8.0}
    return Training(**{**usual, "optimizer": Sgd(learning_rate=0.1), **changes})


def scales(clip_norm: float = 1.0, clip=dpsgd.flat):
    return partial(dpsgd._bounded, clip, clip_norm)


def joined(values) -> np.ndarray:
    return np.concatenate([np.asarray(value, dtype=np.float64).ravel() for value in values.values()])


def moved(start, seed: int = 0, scale: float = 0.3):
    draw = np.random.default_rng(seed)
    return {name: (value + draw.normal(size=value.shape) * scale).astype(np.float32) for name, value in start.items()}


def slow_sum(gradients: list[dict[str, np.ndarray]], clip_norm: float) -> np.ndarray:
    """The obvious version: one vector per example, clipped, added."""
    total = np.zeros_like(joined(gradients[0]))
    for gradient in gradients:
        vector = joined(gradient)
        total += vector * min(1.0, clip_norm / np.linalg.norm(vector))
    return total


def batch_clipped(gradients: list[dict[str, np.ndarray]], clip_norm: float) -> np.ndarray:
    """The mutant: clips the sum, not the examples."""
    total = np.sum([joined(gradient) for gradient in gradients], axis=0)
    return np.asarray(total * min(1.0, len(gradients) * clip_norm / np.linalg.norm(total)))


def agrees(found, slow: np.ndarray, rtol: float) -> bool:
    return bool(np.linalg.norm(joined(found) - slow) <= rtol * np.linalg.norm(slow))


# --- the oracle: single examples, plain autograd


def head_alone(x, y, parameters) -> list[dict[str, np.ndarray]]:
    import torch

    found = []
    for row, label in zip(x, y, strict=True):
        w, b = (torch.tensor(parameters[name].astype(np.float64), requires_grad=True) for name in parameters)
        loss = torch.nn.functional.cross_entropy(
            (w @ torch.tensor(row.astype(np.float64)) + b)[None], torch.tensor([label])
        )
        found.append(dict(zip(parameters, (g.numpy() for g in torch.autograd.grad(loss, [w, b])), strict=True)))
    return found


def adapter_alone(backend, own, items, y, parameters) -> list[dict[str, np.ndarray]]:
    """Writes the values into the module itself, and asks autograd for one example at a time."""
    import torch

    found = []
    for item, label in zip(items, y, strict=True):
        leaves = {
            name: torch.tensor(parameters[name].astype(np.float64), requires_grad=True)
            for name in ("head.weight", "head.bias")
        }
        with own(parameters, leaves) as forward:
            v = forward(tuple(torch.from_numpy(array[None]) for array in item))
            logits = v @ leaves["head.weight"].T + leaves["head.bias"]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor([label]))
            grads = torch.autograd.grad(loss, [leaves[name] for name in parameters], allow_unused=True)
        filled = [
            np.zeros(parameters[n].shape) if g is None else g.numpy() for n, g in zip(parameters, grads, strict=True)
        ]
        found.append(dict(zip(parameters, filled, strict=True)))
    return found


def bert():
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    model = BertModel(BertConfig(vocab_size=40, max_position_embeddings=16, attn_implementation="eager", **sizes))
    return model.eval().double(), lambda model, x: model(input_ids=x).last_hidden_state.mean(1)


def vit():
    import torch
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    model = ViTModel(ViTConfig(image_size=8, patch_size=4, attn_implementation="eager", **sizes))
    return model.eval().double(), lambda model, x: model(pixel_values=x).last_hidden_state[:, 0]


def conv():
    import torch

    torch.manual_seed(0)
    parts = [torch.nn.Conv2d(3, 6, 3), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.Conv2d(6, 8, 3)]
    model = torch.nn.Sequential(*parts, torch.nn.GroupNorm(2, 8), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(1))
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    return model.eval().double(), lambda model, x: model(x)


def example(make, length: int, draw) -> tuple[np.ndarray]:
    if make is bert:
        return (draw.integers(0, 40, size=length),)
    return (draw.normal(size=(3, 8, 8)),)


def backend_of(make, probe: bool = True) -> Backend:
    model, features = make()

    def embed(item):
        return features(model, item[0])

    width = embed_width(model, make)
    shown = example(make, 6, np.random.default_rng(9))
    return Backend(
        prepare=lambda examples: [None if x is None else x for x in examples],  # type: ignore[misc]
        forward=inference(model, embed),
        rows=lambda _: 4,
        width=width,
        probe=shown if probe else None,
        module=model,
        embed=embed,
    )


def embed_width(model, make) -> int:
    return 32 if make is conv else 16


def film_by_hand(backend) -> Any:
    """FiLM written into a copy of the module, parameter by parameter."""
    import contextlib

    import torch

    @contextlib.contextmanager
    def own(parameters, leaves):
        values = dict(backend.module.named_parameters())
        for name, value in parameters.items():
            if name.startswith("film."):
                leaves[name] = torch.tensor(value.astype(np.float64), requires_grad=True)
                values[name.removeprefix("film.")] = leaves[name]
        yield lambda item: torch.func.functional_call(
            through(backend), {f"module.{n}": v for n, v in values.items()}, item
        )

    return own


def lora_by_hand(backend, scale: float) -> Any:
    """Low rank as a sum of full matrices, W + scale b a."""
    import contextlib

    import torch

    @contextlib.contextmanager
    def own(parameters, leaves):
        values = dict(backend.module.named_parameters())
        for name, value in parameters.items():
            if name.startswith("lora."):
                leaves[name] = torch.tensor(value.astype(np.float64), requires_grad=True)
        for name in [name for name in leaves if name.endswith(".a")]:
            layer = name.removeprefix("lora.").removesuffix(".a")
            product = leaves[f"lora.{layer}.b"] @ leaves[name]
            values[f"{layer}.weight"] = values[f"{layer}.weight"] + scale * product
        yield lambda item: torch.func.functional_call(
            through(backend), {f"module.{n}": v for n, v in values.items()}, item
        )

    return own


def through(backend) -> Any:
    import torch

    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = backend.module

        def forward(self, *item):
            return backend.embed(item)

    return Module()


LORA = encoders.lora(rank=3, alpha=6.0)


def adapted(make, adapter, n: int = 10, engine: Engine | None = None, seed: int = 0, lengths=(5, 6, 8)):
    draw = np.random.default_rng(seed)
    items = [example(make, lengths[i % len(lengths)], draw) for i in range(n)]
    labels = draw.integers(0, 3, size=n)
    backend = backend_of(make)
    return AdapterGradients(backend, adapter, items, labels, 3, engine or Engine(rows=4)), backend, items, labels


# --- gradients


@needs_torch
@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 100.0])
def test_head_sums_single_examples(clip_norm):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(90, 7)), draw.integers(0, 4, size=90)
    gradients = HeadGradients(x, y, 4)  # type: ignore[arg-type]  # float64, to compare closely
    at = moved(gradients.start)
    found = gradients.clipped_sum(at, np.arange(90), scales(clip_norm))
    alone = head_alone(x, y, at)
    assert agrees(found, slow_sum(alone, clip_norm), 1e-5)
    single = HeadGradients(x.astype(np.float32), y, 4).clipped_sum(at, np.arange(90), scales(clip_norm))
    assert agrees(single, slow_sum(alone, clip_norm), 1e-4)
    assert clip_norm == 100.0 or not agrees(found, batch_clipped(alone, clip_norm), 0.01)


@needs_bert
@pytest.mark.parametrize("make", [bert, vit, conv])
def test_film_sums_single_examples(make):
    gradients, backend, items, labels = adapted(make, encoders.film)
    at = moved(gradients.start)
    alone = adapter_alone(backend, film_by_hand(backend), items, labels, at)
    for clip_norm in (0.3, 1e6):
        found = gradients.clipped_sum(at, np.arange(10), scales(clip_norm))
        assert found.keys() == at.keys()
        assert agrees(found, slow_sum(alone, clip_norm), 1e-5)
        assert clip_norm > 1 or not agrees(found, batch_clipped(alone, clip_norm), 0.01)
    assert np.abs(joined({name: v for name, v in found.items() if name.startswith("film")})).max() > 1e-3


@needs_bert
@pytest.mark.parametrize("make", [bert, vit])
def test_lora_sums_single_examples(make):
    gradients, backend, items, labels = adapted(make, LORA)
    at = moved(gradients.start)
    alone = adapter_alone(backend, lora_by_hand(backend, 2.0), items, labels, at)
    for clip_norm in (0.3, 1e6):
        found = gradients.clipped_sum(at, np.arange(10), scales(clip_norm))
        assert agrees(found, slow_sum(alone, clip_norm), 1e-5)
        assert clip_norm > 1 or not agrees(found, batch_clipped(alone, clip_norm), 0.01)


def classifier() -> Any:
    import torch

    torch.manual_seed(1)
    parts = [
        torch.nn.Linear(5, 6),
        torch.nn.Tanh(),
        torch.nn.LayerNorm(6),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(6, 3),
    ]
    return torch.nn.Sequential(*parts).double()


@needs_torch
def test_module_sums_single_examples():
    import torch

    draw = np.random.default_rng(0)
    items, labels = [(draw.normal(size=5),) for _ in range(10)], draw.integers(0, 3, size=10)
    module = classifier()
    gradients = ModuleGradients(module, items, labels, 3, engine=Engine(rows=4))
    at = moved(gradients.start)
    slow = classifier().eval()
    slow.load_state_dict({name: torch.from_numpy(value) for name, value in at.items()})
    alone = []
    for (x,), label in zip(items, labels, strict=True):
        loss = torch.nn.functional.cross_entropy(slow(torch.from_numpy(x)[None]), torch.tensor([label]))
        grads = torch.autograd.grad(loss, list(slow.parameters()))
        alone.append({name: g.numpy() for (name, _), g in zip(slow.named_parameters(), grads, strict=True)})
    found = gradients.clipped_sum(at, np.arange(10), scales(0.3))
    assert agrees(found, slow_sum(alone, 0.3), 1e-5)
    assert not agrees(found, batch_clipped(alone, 0.3), 0.01)
    assert module.training
    few = ModuleGradients(module, items, labels, 3, chosen=lambda name: name.startswith("4."))
    assert list(few.start) == ["4.weight", "4.bias"]
    assert few.clipped_sum(few.start, np.arange(10), scales())["4.bias"].shape == (3,)


@needs_bert
def test_layers_are_clipped_apart():
    gradients, backend, items, labels = adapted(bert, encoders.film)
    at = moved(gradients.start)
    alone = adapter_alone(backend, film_by_hand(backend), items, labels, at)
    layers = sorted({name.rpartition(".")[0] for name in at})
    total = {name: np.zeros(value.shape) for name, value in at.items()}
    for gradient in alone:
        for layer in layers:
            part = {name: g for name, g in gradient.items() if name.rpartition(".")[0] == layer}
            scale = min(1.0, 0.5 / math.sqrt(len(layers)) / max(float(np.linalg.norm(joined(part))), 1e-300))
            for name, g in part.items():
                total[name] += scale * g
    found = gradients.clipped_sum(at, np.arange(10), scales(0.5, dpsgd.per_layer))
    assert agrees(found, joined(total), 1e-5)


# --- an example's gradient is its own


@pytest.mark.parametrize("classes", [2, 10, 22, 100])
def test_head_blocks_change_nothing(classes):
    """Errors are the same, to the bit, in any company and at any place of it."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(70, 384)).astype(np.float32), draw.integers(0, classes, size=70)
    at = moved(HeadGradients(x, y, classes).start)
    alone = np.concatenate([_Head(at).errors(_snapped(x[[i]]), y[[i]]) for i in range(70)])
    for order in (np.arange(70), np.arange(70)[::-1], draw.permutation(70), np.arange(1, 70), np.arange(0, 70, 3)):
        assert (_Head(at).errors(_snapped(x[order]), y[order]) == alone[order]).all()


@pytest.mark.parametrize("length", [10.0, 1e6])
def test_copies_of_an_example_count_alike(length):
    """An example between two classes, where a last bit of a long product decides: no copy may see other bits.

    Products in float32 move 16 copies apart by 1e-4 clipping norms at length 10, and by 3 at length 10^6.
    """
    draw = np.random.default_rng(0)
    weight = draw.normal(size=(22, 384)).astype(np.float32)
    at = {"head.weight": weight, "head.bias": np.zeros(22, np.float32)}
    apart, between = weight[0].astype(float) - weight[1], weight[0].astype(float) + weight[1]
    between -= apart * (between @ apart) / (apart @ apart)
    x = np.repeat(between[None] * length / np.linalg.norm(between), 16, axis=0).astype(np.float32)
    gradients = HeadGradients(x, np.full(16, 2), 22)
    one = joined(gradients.clipped_sum(at, np.arange(1), scales()))
    for copies in range(2, 17):
        together = joined(gradients.clipped_sum(at, np.arange(copies), scales()))
        assert np.linalg.norm(together - copies * one) < 1e-12


@pytest.mark.parametrize("width", [1, 2, 384, 1280, 5000])
def test_products_of_snapped_rows_are_exact(width):
    """The largest whole numbers there can be, against Python's."""
    draw = np.random.default_rng(width)
    rows, others = (np.copysign(1 - 1e-9 * draw.random((3, width)), draw.normal(size=(3, width))) for _ in range(2))
    rows[0] = others[0] = 1 - 1e-12
    (left, units), (right, their_units) = _snapped(rows), _snapped(others)
    exact = [[sum(int(a) * int(b) for a, b in zip(r, s, strict=True)) for s in right] for r in left]
    assert max(abs(n) for row in exact for n in row) <= 2**53
    found = _product((left, units), (right, their_units)) / units[:, None] / their_units
    assert found.tolist() == exact
    assert np.allclose(left * units[:, None], rows, rtol=0, atol=2.0 ** -_bits(width))


def test_tiny_huge_and_bad_rows_snap():
    rows = np.array([[0.0, 0.0], [5e-324, 0.0], [1e308, -1e-308], [np.inf, 1.0], [np.nan, 1.0]])
    values, units = _snapped(rows)
    assert np.isfinite(units).all()
    assert (values[:2] * units[:2, None]).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert values[2, 0] * units[2] == pytest.approx(1e308)
    assert not np.isfinite(values[3:, 0]).any()


@needs_bert
@pytest.mark.parametrize("adapter", [encoders.film, LORA], ids=["film", "lora"])
def test_adapter_blocks_change_nothing(adapter):
    backend = backend_of(bert)
    backend.module.float()
    draw = np.random.default_rng(0)
    items = [example(bert, (5, 8)[i % 2], draw) for i in range(12)]
    gradients = AdapterGradients(backend, adapter, items, draw.integers(0, 3, size=12), 3, Engine(rows=4))
    at = moved(gradients.start)
    alone = [joined(gradients.clipped_sum(at, np.array([row]), scales())) for row in range(12)]
    kept: list[np.ndarray] = []

    def one(row, norms):
        factors = scales()(norms)
        return {name: np.where(np.arange(len(scale)) == row, scale, 0.0) for name, scale in factors.items()}

    for order in ([0, 2, 4, 6], [6, 4, 2, 0], [4, 10, 0, 8]):
        for place, row in enumerate(order):
            kept.append(joined(gradients.clipped_sum(at, np.array(order), partial(one, place))))
            np.testing.assert_array_equal(kept[-1], alone[row])


@needs_bert
@pytest.mark.parametrize("adapter", [encoders.film, LORA], ids=["film", "lora"])
def test_the_memory_limit_changes_nothing(adapter):
    sums = []
    for engine in (Engine(memory=1), Engine(rows=2), Engine(rows=64), Engine(memory=1_000_000, rows=64)):
        gradients = adapted(bert, adapter, engine=engine)[0]
        sums.append(joined(gradients.clipped_sum(moved(gradients.start), np.arange(10), scales())))
    for other in sums[1:]:
        np.testing.assert_allclose(other, sums[0], rtol=0, atol=1e-12)
    rows = [
        adapted(bert, adapter, engine=Engine(memory=m, rows=64))[0]._rows((np.zeros(8, int),)) for m in (1, 1_000_000)
    ]
    assert rows[0] == 1 < rows[1] < 64


@needs_bert
@pytest.mark.parametrize("adapter", [encoders.film, LORA], ids=["film", "lora"])
def test_bfloat16_is_close(adapter):
    sums = []
    for bf16 in (False, True):
        backend = backend_of(bert)
        backend.module.float()
        draw = np.random.default_rng(0)
        items = [example(bert, 8, draw) for _ in range(8)]
        engine = Engine(rows=4, bf16=bf16)
        gradients = AdapterGradients(backend, adapter, items, draw.integers(0, 3, size=8), 3, engine)
        sums.append(joined(gradients.clipped_sum(moved(gradients.start), np.arange(8), scales())))
    assert 0 < np.linalg.norm(sums[1] - sums[0]) < 0.1 * np.linalg.norm(sums[0])


@needs_bert
def test_less_memory_than_asked_halves_the_micro_batch():
    import torch

    gradients, backend, _, _ = adapted(bert, encoders.film, engine=Engine(rows=4))
    expected = joined(gradients.clipped_sum(gradients.start, np.arange(10), scales()))
    embed, seen = backend.embed, []

    def small(item) -> Any:
        seen.append(len(item[0]))
        if len(item[0]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB.")
        return embed(item)

    object.__setattr__(backend, "embed", small)
    found = gradients.clipped_sum(gradients.start, np.arange(10), scales())
    np.testing.assert_allclose(joined(found), expected, rtol=0, atol=1e-12)
    assert seen[0] == 4
    assert set(seen[1:]) == {2}
    object.__setattr__(backend, "embed", lambda item: small((np.zeros(9),)))
    with pytest.raises(MemoryError, match=r"^The machine has too little memory[^0-9]*\.$"):
        gradients.clipped_sum(gradients.start, np.arange(10), scales())


@needs_bert
def test_bad_examples_count_for_nothing():
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(6, 4)).astype(np.float32), np.array([0, 1, 2, -1, 7, 1])
    x[1, 2], x[2, 0] = np.nan, np.inf
    head = HeadGradients(x, y, 3)
    at = moved(head.start)
    kept = head.clipped_sum(at, np.array([0, 5]), scales())
    np.testing.assert_allclose(joined(head.clipped_sum(at, np.arange(6), scales())), joined(kept), atol=1e-15)

    backend = backend_of(conv)
    items = [example(conv, 0, draw) for _ in range(6)]
    items[1] = (np.full((3, 8, 8), np.nan),)
    items[2] = (np.zeros((2, 8, 8)),)  # the wrong number of channels raises
    gradients = AdapterGradients(
        backend, encoders.film, [*items, None], np.array([0, 1, 2, -1, 3, 1, 1]), 3, Engine(rows=4)
    )
    start = moved(gradients.start)
    kept = gradients.clipped_sum(start, np.array([0, 5]), scales())
    np.testing.assert_allclose(joined(gradients.clipped_sum(start, np.arange(7), scales())), joined(kept), atol=1e-12)
    assert np.isfinite(joined(kept)).all()
    assert "sensitive" in repr(head)
    assert "sensitive" in repr(gradients)


EXTREME = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1e-45, 3e38, -3e38, math.inf, math.nan]),
)


@given(
    x=arrays(np.float32, (3, 4), elements=EXTREME),
    weight=arrays(np.float32, (2, 4), elements=EXTREME),
    clip_norm=st.sampled_from([1e-20, 0.1, 1.0, 1e10]),
    clip=st.sampled_from(
        [dpsgd.flat, dpsgd.per_layer, lambda norms, _: {name: np.ones(len(norms[name])) for name in norms}]
    ),
)
def test_clipping_is_never_exceeded(x, weight, clip_norm, clip):
    """One example at a time, with a function that does not clip among others: the sum is that example's part."""
    gradients = HeadGradients(x, np.array([0, 1, 1]), 2)
    at = {"head.weight": weight, "head.bias": np.zeros(2, np.float32)}
    for row in range(3):
        vector = joined(gradients.clipped_sum(at, np.array([row]), scales(clip_norm, clip)))
        assert math.hypot(*vector) <= clip_norm


def test_neighbours_differ_by_one_unit():
    """Rows far too long, many of them: with one more, the sum moves by at most clip_norm."""
    draw = np.random.default_rng(0)
    x, y = (100 * draw.normal(size=(500, 6))).astype(np.float32), draw.integers(0, 3, size=500)
    gradients = HeadGradients(x, y, 3)
    at = moved(gradients.start)
    whole = joined(gradients.clipped_sum(at, np.arange(500), scales(0.7)))
    for left in (0, 63, 64, 499):
        less = joined(gradients.clipped_sum(at, np.delete(np.arange(500), left), scales(0.7)))
        assert 0 < np.linalg.norm(whole - less) <= 0.7 * (1 + 2**-14)


# --- noise and steps


class Nothing:
    """No gradient at all: what is left is noise."""

    start = {"a": np.zeros((40, 50), np.float32), "b": np.zeros(3000, np.float32)}  # noqa: RUF012

    def clipped_sum(self, parameters, rows, clip) -> dict[str, np.ndarray]:
        return {name: np.zeros(value.shape) for name, value in self.start.items()}


def has_scale(sums: list[dict[str, np.ndarray]], noise_multiplier: float) -> bool:
    """Two-sided chi-square test of the variance of the noisy sums."""
    values = np.concatenate([joined(value) for value in sums])
    statistic = float(np.sum(values**2)) / noise_multiplier**2
    return bool(2 * min(chi2.cdf(statistic, len(values)), chi2.sf(statistic, len(values))) >= ALPHA)


@pytest.mark.parametrize(("noise", "clip_norm"), [(0.7, 1.0), (3.0, 0.01), (12.0, 50.0)])
def test_noise_has_its_scale(noise, clip_norm, rng):
    seen: list[dict[str, np.ndarray]] = []
    training = settings(noise_multiplier=noise, clip_norm=clip_norm, steps=10)
    train(Nothing(), 5, training, rng=rng, noisy_sums_seen=seen.append)
    assert has_scale(seen, noise)
    halved: list[dict[str, np.ndarray]] = []
    mutant = settings(noise_multiplier=noise / 2, clip_norm=clip_norm, steps=10)
    train(Nothing(), 5, mutant, rng=rng, noisy_sums_seen=halved.append)
    assert not has_scale(halved, noise)


def test_the_slack_is_paid_for(monkeypatch):
    asked = []

    class Watched(NoiseSource):
        def rounded_gaussian(self, sigma, shape):
            asked.append(sigma)
            return super().rounded_gaussian(sigma, shape)

    train(Nothing(), 5, settings(noise_multiplier=2.0), rng=Watched(seed=1))
    slack = math.sqrt(5000) * 2**-24 + 2 * 2.0**38 * 2.0**-53
    assert asked == pytest.approx([2.0 * 2**24 * (1 + slack)] * 3, rel=1e-15)
    assert asked[0] > 2.0 * 2**24


@pytest.mark.parametrize("optimizer", [Sgd(learning_rate=0.1), Adam(learning_rate=0.1)])
def test_empty_batches_draw_noise(optimizer, rng):
    for size, labels in ((0, []), (3, [-1, -1, -1])):
        gradients = HeadGradients(np.zeros((size, 4), np.float32), np.array(labels, dtype=np.int64), 3)
        end = train(gradients, size, settings(optimizer=optimizer), rng=rng)
        assert all((value != 0).all() for value in end.values())


def test_batches_are_poisson(rng):
    sizes = []

    class Counting(Nothing):
        def clipped_sum(self, parameters, rows, clip):
            sizes.append(len(rows))
            assert len(np.unique(rows)) == len(rows)
            return super().clipped_sum(parameters, rows, clip)

    train(Counting(), 1000, settings(rate=0.1, steps=50), rng=rng)
    assert binomtest(sum(sizes), 50_000, 0.1).pvalue >= ALPHA
    assert len(set(sizes)) > 5
    train(Counting(), 1000, settings(rate=1, steps=1), rng=rng)
    assert sizes[-1] == 1000


def test_prefetching_changes_no_law():
    """The same seed gives the same parameters with and without it: only who waits differs."""
    draw = np.random.default_rng(0)
    gradients = HeadGradients(draw.normal(size=(50, 4)).astype(np.float32), draw.integers(0, 3, size=50), 3)
    ends = [
        train(gradients, 50, settings(steps=6), rng=NoiseSource.seeded(4), engine=Engine(prefetch=ahead))
        for ahead in (True, False)
    ]
    np.testing.assert_array_equal(joined(ends[0]), joined(ends[1]))


def test_a_start_may_name_its_values_in_any_order():
    draw = np.random.default_rng(1)
    gradients = HeadGradients(draw.normal(size=(20, 3)).astype(np.float32), draw.integers(0, 3, 20), 3)
    start = moved(gradients.start)
    turned = dict(reversed(start.items()))
    assert list(turned) != list(start)
    found = [train(gradients, 20, settings(), rng=NoiseSource.seeded(4), start=begin) for begin in (start, turned)]
    assert list(found[0]) == list(found[1]) == list(gradients.start)
    assert (joined(found[0]) == joined(found[1])).all()


def test_neighbours_give_the_same_shapes(rng):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(20, 4)).astype(np.float32), draw.integers(0, 3, size=20)
    x[4] = np.nan
    described = []
    for keep in (slice(None), slice(1, None), slice(0, 0), slice(4, 5)):
        seen: list[dict[str, np.ndarray]] = []
        fractions: list[float] = []
        part = HeadGradients(x[keep], y[keep], 3)
        end = train(part, len(y[keep]), settings(), rng=rng, noisy_sums_seen=seen.append, progress=fractions.append)
        shapes = [{name: (v.shape, v.dtype) for name, v in values.items()} for values in (end, *seen)]
        described.append((shapes, fractions))
        assert all(np.isfinite(value).all() for value in end.values())
    assert described[1:] == described[:1] * 3
    assert described[0][1] == pytest.approx([1 / 3, 2 / 3, 1])


@needs_torch
@pytest.mark.parametrize("momentum", [0.0, 0.9, None])
def test_optimizers_are_those_of_torch(momentum):
    import torch

    draw = np.random.default_rng(0)
    start, steps = draw.normal(size=20), draw.normal(size=(30, 20))
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    ours: Adam | Sgd
    if momentum is None:
        ours, optimizer = Adam(learning_rate=0.01), torch.optim.Adam([theirs], lr=0.01)
    else:
        ours = Sgd(learning_rate=0.01, momentum=momentum)
        optimizer = torch.optim.SGD([theirs], lr=0.01, momentum=momentum)
    update, point = ours.update(20), start.copy()
    for gradient in steps:
        theirs.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        update(point, gradient)
    np.testing.assert_allclose(point, theirs.detach().numpy(), rtol=0, atol=1e-9)


def test_the_head_learns(rng):
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, size=300)
    x = (np.eye(3)[y] + 0.1 * draw.normal(size=(300, 3))).astype(np.float32)
    training = settings(noise_multiplier=0.5, rate=0.3, batch=90, steps=40, optimizer=Adam(learning_rate=0.1))
    end = train(HeadGradients(x, y, 3), 300, training, rng=rng)
    assert np.mean(np.argmax(x @ end["head.weight"].T + end["head.bias"], axis=1) == y) > 0.95


@needs_bert
@pytest.mark.parametrize("adapter", [encoders.film, LORA], ids=["film", "lora"])
def test_training_through_the_encoder_lowers_the_loss(adapter, rng):
    import torch

    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, size=24)
    items = [(np.where(draw.random(6) < 0.8, 3 + label, draw.integers(0, 40, size=6)),) for label in labels]
    backend = backend_of(bert)
    gradients = AdapterGradients(backend, adapter, items, labels, 2)

    def loss(values) -> float:
        own = {name: value for name, value in values.items() if not name.startswith("head")}
        with torch.inference_mode(), adapter.attached(backend.module, own):
            v = backend.embed((torch.from_numpy(np.stack([item[0] for item in items])),))  # type: ignore[misc]
        logits = v.numpy() @ values["head.weight"].T + values["head.bias"]
        return float(torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels)))

    training = settings(noise_multiplier=0.01, rate=1, batch=24, steps=12, optimizer=Adam(learning_rate=0.02))
    end = train(gradients, 24, training, rng=rng)
    assert loss(end) < 0.3 < loss(gradients.start)
    assert all((end[name] != value).any() for name, value in gradients.start.items())


# --- refusals, before any data


@needs_torch
def test_frozen_modules_are_refused():
    module = classifier().requires_grad_(False)
    with pytest.raises(errors.InvalidValue, match=r"^Expected parameters to train: the module is frozen\."):
        ModuleGradients(module, [], np.zeros(0, np.int64), 3)


@needs_bert
def test_encoders_that_cannot_be_adapted_are_refused():
    import torch

    backend, nobody = backend_of(bert), np.zeros(0, np.int64)
    with pytest.raises(errors.InvalidValue, match=r"^Expected an adapter with parameters, got last_layer\."):
        AdapterGradients(backend, encoders.last_layer, [], nobody, 3)
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder with a public example"):
        AdapterGradients(backend_of(bert, probe=False), encoders.film, [], nobody, 3)
    plain = encoders.wrap(torch.nn.Linear(4, 5), width=5, name="plain", probe=np.zeros(4)).backend
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder with normalisation layers"):
        AdapterGradients(plain, encoders.film, [], nobody, 3)
    callable_alone = encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine").backend
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder that is a torch module"):
        AdapterGradients(callable_alone, encoders.film, [], nobody, 3)


def through_norm(how) -> Backend:
    """A LayerNorm, and what is done with it."""
    import torch

    class Through(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(4)

        def forward(self, x):
            return how(self.norm, x)

    probe = np.random.default_rng(0).normal(size=(8, 4))
    return encoders.wrap(Through(), width=4, name="through", probe=probe).backend


@needs_torch
def test_mixing_layers_are_refused():
    AdapterGradients(through_norm(lambda norm, x: norm(x).mean(1)), encoders.film, [], np.zeros(0, np.int64), 3)
    mixing = {
        "batch statistics": lambda norm, x: norm(x - x.mean(0) + norm(x).mean(0)).mean(1),
        "tokens first": lambda norm, x: norm(x.transpose(0, 1)).mean(0),
        "nothing reads it": lambda norm, x: x.mean(1) * 2,
    }
    for how in mixing.values():
        with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder whose adapted layers treat examples one"):
            AdapterGradients(through_norm(how), encoders.film, [], np.zeros(0, np.int64), 3)


@needs_torch
def test_bits_that_depend_on_the_place_are_noticed():
    import torch

    item = (np.ones((8, 4), np.float32),)
    roads = {
        4: lambda norm, x: norm(x).mean(1),
        1: lambda norm, x: norm(x).mean(1) * (1 + 1e-6 * torch.arange(len(x)))[:, None],
    }
    for rows, how in roads.items():
        engine = Engine(rows=4)
        gradients = AdapterGradients(through_norm(how), encoders.film, [item], np.zeros(1, np.int64), 3, engine)
        assert gradients._rows(item) == rows


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0},
        {"rate": 1.1},
        {"steps": 0},
        {"clip_norm": 0},
        {"batch": 0},
        {"clip_norm": math.nan},
        {"optimizer": None},
    ],
)
def test_settings_are_checked_at_birth(change):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        settings(**change)


def test_the_event_follows_from_public_facts():
    assert settings().event == events.DpSgd(noise_multiplier=1.0, rate=0.5, steps=3)
    with pytest.raises(errors.InvalidValue, match="features of shape"):
        HeadGradients(np.zeros((3, 2), np.float32), np.zeros(2, np.int64), 2)
