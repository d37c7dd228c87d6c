"""Gradients through torch against a slow loop, one example at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reticent import encoders, errors
from reticent.encoders.batches import shapes
from reticent.encoders.devices import inference
from reticent.encoders.encoder import Backend
from reticent.released.optimizers import Adam
from reticent.sensitive.gradients import AdapterGradients
from reticent.sensitive.head import HeadGradients
from reticent.sensitive.training import Engine, train
from tests.sensitive.by_hand import (
    agrees,
    batch_clipped,
    clipped,
    joined,
    moved,
    needs_bert,
    needs_torch,
    paid,
    settings,
    slow_sum,
)

pytestmark = pytest.mark.usefixtures("one_thread")


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


@needs_bert
@pytest.mark.parametrize("make", [bert, vit, conv])
def test_film_sums_single_examples(make):
    gradients, backend, items, labels = adapted(make, encoders.film)
    at = moved(gradients.start)
    alone = adapter_alone(backend, film_by_hand(backend), items, labels, at)
    for clip_norm in (0.3, 30.0):
        found = clipped(gradients, at, np.arange(10), clip_norm)
        assert found.keys() == at.keys()
        assert agrees(found, slow_sum(alone, clip_norm), 1e-3)
        assert clip_norm > 1 or not agrees(found, batch_clipped(alone, clip_norm), 0.01)
    assert np.abs(joined({name: v for name, v in found.items() if name.startswith("film")})).max() > 1e-3


@needs_bert
@pytest.mark.parametrize("make", [bert, vit])
def test_lora_sums_single_examples(make):
    gradients, backend, items, labels = adapted(make, LORA)
    at = moved(gradients.start)
    alone = adapter_alone(backend, lora_by_hand(backend, 2.0), items, labels, at)
    for clip_norm in (0.3, 30.0):
        found = clipped(gradients, at, np.arange(10), clip_norm)
        assert agrees(found, slow_sum(alone, clip_norm), 1e-3)
        assert clip_norm > 1 or not agrees(found, batch_clipped(alone, clip_norm), 0.01)


@needs_bert
@pytest.mark.parametrize("adapter", [encoders.film, LORA], ids=["film", "lora"])
def test_adapter_blocks_change_nothing(adapter):
    backend = backend_of(bert)
    backend.module.float()
    draw = np.random.default_rng(0)
    items = [example(bert, (5, 8)[i % 2], draw) for i in range(12)]
    gradients = AdapterGradients(backend, adapter, items, draw.integers(0, 3, size=12), 3, Engine(rows=4))
    at = moved(gradients.start)

    def rows_of(order: list[int]) -> list[dict[str, Any]]:
        """Of each example; a processor whose kernels let places decide has a block for each."""
        found = []
        for block in gradients.blocks(at, np.array(order)):
            assert block.head is not None
            parts: dict[str, Any] = {**block.rows, "errors": block.head.errors, "features": block.head.features.values}
            found += [{name: rows[i].tolist() for name, rows in parts.items()} for i in range(len(block.head.errors))]
        return found

    for order in ([0, 2, 4, 6], [6, 4, 2, 0], [4, 10, 0, 8]):
        assert rows_of(order) == [rows_of([row])[0] for row in order]


@needs_bert
@pytest.mark.parametrize("adapter", [encoders.film, LORA], ids=["film", "lora"])
def test_the_memory_limit_changes_nothing(adapter):
    sums = []
    for engine in (Engine(memory=1), Engine(rows=2), Engine(rows=64), Engine(memory=1_000_000, rows=64)):
        gradients = adapted(bert, adapter, engine=engine)[0]
        sums.append(joined(clipped(gradients, moved(gradients.start), np.arange(10), 1.0)))
    for other in sums[1:]:
        np.testing.assert_allclose(other, sums[0], rtol=0, atol=1e-12)


@needs_torch
def test_micro_batches_follow_the_memory():
    rows = [row_by_row(Engine(memory=memory, rows=64))[0]._rows((np.zeros((8, 4)),)) for memory in (1, 1_000_000)]
    assert rows == [1, 4]  # and never more than the encoder says


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
        sums.append(joined(clipped(gradients, moved(gradients.start), np.arange(8), 1.0)))
    assert 0 < np.linalg.norm(sums[1] - sums[0]) < 0.1 * np.linalg.norm(sums[0])


@needs_torch
def test_less_memory_than_asked_halves_the_micro_batch():
    import torch

    gradients, backend, items = row_by_row(Engine(rows=4))
    expected = joined(clipped(gradients, gradients.start, np.arange(10), 1.0))
    embed, seen = backend.embed, []

    def small(item) -> Any:
        seen.append(len(item[0]))
        if len(item[0]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB.")
        return embed(item)

    object.__setattr__(backend, "embed", small)
    found = clipped(gradients, gradients.start, np.arange(10), 1.0)
    np.testing.assert_allclose(joined(found), expected, rtol=0, atol=1e-12)
    kinds = len({shapes(item) for item in items})
    assert sum(rows > 2 for rows in seen) == kinds  # each shape finds out for itself
    assert 2 in seen  # one by one where bits of two rows depend on their places
    never = {len(items[0][0])}  # one of three lengths does not fit even alone
    object.__setattr__(
        backend, "embed", lambda item: small((np.zeros(9),)) if item[0].shape[1] in never else embed(item)
    )
    short = np.array([row for row in range(10) if len(items[row][0]) not in never])
    expected = joined(clipped(gradients, gradients.start, short, 1.0))
    found = clipped(gradients, gradients.start, np.arange(10), 1.0)
    np.testing.assert_allclose(joined(found), expected, rtol=0, atol=1e-12)
    object.__setattr__(backend, "embed", lambda item: small((np.zeros(9),)))  # nor does the public example
    with pytest.raises(MemoryError, match=r"^The machine has too little memory[^0-9]*\.$"):
        clipped(gradients, gradients.start, np.arange(10), 1.0)


@needs_torch
def test_a_long_example_does_not_change_the_micro_batches_of_others():
    """Else it would change how they are added up."""
    gradients, backend, items = row_by_row(Engine(rows=4))
    longest = max(len(item[0]) for item in items)
    embed, seen = backend.embed, set()

    def small(item) -> Any:
        seen.add(tuple(item[0].shape[:2]))
        if item[0].shape[1] == longest and len(item[0]) > 1:
            raise MemoryError
        return embed(item)

    object.__setattr__(backend, "embed", small)
    clipped(gradients, gradients.start, np.arange(10), 1.0)
    assert {rows for rows, length in seen if length == longest} == {4, 2, 1}
    assert {rows for rows, length in seen if length < longest} == {1, 3, 4}  # one, to see what a row takes


@needs_bert
def test_unusable_examples_contribute_nothing():
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(6, 4)).astype(np.float32), np.array([0, 1, 2, -1, 7, 1])
    x[1, 2], x[2, 0] = np.nan, np.inf
    head = HeadGradients(x, y, 3)
    at = moved(head.start)
    kept = clipped(head, at, np.array([0, 5]), 1.0)
    np.testing.assert_allclose(joined(clipped(head, at, np.arange(6), 1.0)), joined(kept), atol=1e-15)

    backend = backend_of(conv)
    items = [example(conv, 0, draw) for _ in range(6)]
    items[1] = (np.full((3, 8, 8), np.nan),)
    items[2] = (np.zeros((2, 8, 8)),)  # the wrong number of channels raises
    gradients = AdapterGradients(
        backend, encoders.film, [*items, None], np.array([0, 1, 2, -1, 3, 1, 1]), 3, Engine(rows=4)
    )
    start = moved(gradients.start)
    kept = clipped(gradients, start, np.array([0, 5]), 1.0)
    np.testing.assert_allclose(joined(clipped(gradients, start, np.arange(7), 1.0)), joined(kept), atol=1e-12)
    assert np.isfinite(joined(kept)).all()
    assert "sensitive" in repr(head)
    assert "sensitive" in repr(gradients)


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
    end = train(gradients, training, paid(training, rng))
    assert loss(end) < 0.3 < loss(gradients.start)
    assert all((end[name] != value).any() for name, value in gradients.start.items())


@needs_bert
def test_encoders_that_cannot_be_adapted_are_refused():
    import torch

    backend, no_labels = backend_of(bert), np.zeros(0, np.int64)
    with pytest.raises(errors.InvalidValue, match=r"^Expected an adapter with parameters, got last_layer\."):
        AdapterGradients(backend, encoders.last_layer, [], no_labels, 3)
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder with a public example"):
        AdapterGradients(backend_of(bert, probe=False), encoders.film, [], no_labels, 3)
    plain = encoders.wrap(torch.nn.Linear(4, 5), width=5, name="plain", probe=np.zeros(4)).backend
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder with normalisation layers"):
        AdapterGradients(plain, encoders.film, [], no_labels, 3)
    callable_alone = encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine").backend
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder that is a torch module"):
        AdapterGradients(callable_alone, encoders.film, [], no_labels, 3)


def through_norm(how, rows: int = 4) -> Backend:
    """A LayerNorm, and what is done with it."""
    import torch

    class Through(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(4)

        def forward(self, x):
            return how(self.norm, x)

    probe = np.random.default_rng(0).normal(size=(8, 4))
    return replace(encoders.wrap(Through(), width=4, name="through", probe=probe).backend, rows=lambda _: rows)


def row_by_row(engine: Engine) -> Any:
    """Ten examples of three lengths, through what computes rows one by one on every processor: no matrix products."""
    draw, backend = np.random.default_rng(0), through_norm(lambda norm, x: norm(x).mean(1))
    items = [(draw.normal(size=((5, 6, 8)[i % 3], 4)).astype(np.float32),) for i in range(10)]
    return AdapterGradients(backend, encoders.film, items, draw.integers(0, 3, size=10), 3, engine), backend, items


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

    ways = {
        4: lambda norm, x: norm(x).mean(1),
        1: lambda norm, x: norm(x).mean(1) * (1 + 1e-6 * torch.arange(len(x)))[:, None],
    }
    for rows, how in ways.items():
        assert micro_batch(through_norm(how)) == rows


def micro_batch(backend: Backend, length: int = 8) -> int:
    item = (np.ones((length, 4), np.float32),)
    gradients = AdapterGradients(backend, encoders.film, [item], np.zeros(1, np.int64), 3, Engine(rows=8))
    return gradients._rows(item)


@needs_torch
def test_micro_batches_keep_the_encoders_limit():
    for limit in (1, 2, 4):
        assert micro_batch(through_norm(lambda norm, x: norm(x).mean(1), rows=limit)) == limit


@needs_torch
@pytest.mark.parametrize("length", [8, 5])
def test_rows_that_mix_below_the_layers_are_noticed(length):
    """The attack: what is scaled by the largest value of the batch lets one example change all others."""

    def mixing(norm, x):
        return norm(x / x.abs().max()).mean(1)

    assert micro_batch(through_norm(mixing), length) == 1
    assert micro_batch(through_norm(lambda norm, x: norm(x / x.abs().amax((1, 2), True)).mean(1)), length) == 4


@needs_torch
def test_smaller_micro_batches_are_used():
    """Where bits do not depend on the number of rows, the last examples of a shape are not filled up to a full one."""
    seen: list[int] = []

    def counted(norm: Any, x: Any) -> Any:
        seen.append(len(x))
        return norm(x).mean(1)

    def other_bits(norm, x):
        return counted(norm, x) * (1 + 1e-6 * (len(x) == 2))

    for how, sizes in ((counted, [4, 2]), (other_bits, [4, 4])):
        items = [(row,) for row in np.random.default_rng(0).normal(size=(6, 8, 4)).astype(np.float32)]
        found = AdapterGradients(through_norm(how), encoders.film, items, np.zeros(6, np.int64), 3, Engine(rows=8))
        whole = clipped(found, moved(found.start), np.arange(6), 1.0)
        seen.clear()
        again = clipped(found, moved(found.start), np.arange(6), 1.0)
        assert seen == sizes
        np.testing.assert_array_equal(joined(again), joined(whole))
        alone = sum(joined(clipped(found, moved(found.start), np.array([row]), 1.0)) for row in range(6))
        np.testing.assert_allclose(joined(whole), alone, rtol=0, atol=1e-12)
