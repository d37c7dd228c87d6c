"""Batches: numbers of rows that fit, and which of them probes let through."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reticent import encoders
from reticent.encoders.batches import batches, fitting
from reticent.encoders.devices import inference
from reticent.encoders.encoder import Encoder
from tests.encoders.mixing import PROBE, WIDTH, module
from tests.encoders.samples import assert_depends_on_the_example_alone, needs_minilm_torch, needs_torch, texts

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("most", [1, 2, 3, 4, 16, 48])
def test_every_example_is_in_one_batch_that_holds_it(most):
    for n in range(70):
        items = [(np.zeros(1 + i % 3),) for i in range(n)]
        seen: list[int] = []
        for places, batch, rows in batches(items, lambda _: most, lambda _, rows: True):
            assert len(places) == len(batch) <= rows <= most
            assert len({items[place][0].shape for place in places}) == 1
            seen += places
        assert sorted(seen) == list(range(n))


def test_few_rows_are_copies():
    for left in range(1, 17):
        assert left <= fitting(left, 16, lambda rows: True) <= max(2, left * 4 / 3)


def shared(first: Any, rows: int = 4) -> Encoder:
    """As if the model came with the package: it gets several rows as long as no probe shows that they mix."""
    wrapped = encoders.wrap(module(first), width=WIDTH, name="mine", probe=PROBE)
    return replace(wrapped, load=lambda: replace(wrapped.load(), rows=lambda _: rows))


def counts(encoder: Encoder, n: int) -> set[int]:
    """Numbers of rows, once small batches have been asked for so often that they are probed."""
    x = np.random.default_rng(0).normal(size=(n, WIDTH)).astype(np.float32)
    for _ in range(3):
        made = [rows for _, _, rows in batches(encoder.prepare(x), encoder.backend.rows, encoder.backend.smaller)]
    return set(made)


@needs_torch
def test_sizes_of_other_bits_are_not_used():
    """A library may choose its kernel by the number of rows: then a batch is filled up, or has one row."""
    assert counts(shared(lambda x: x), 6) == {4, 2}
    assert counts(shared(lambda x: x * (1 + 1e-6 * (len(x) == 2))), 6) == {4}
    assert counts(shared(lambda x: x / x.abs().max() if len(x) == 2 else x), 6) == {4}
    assert counts(shared(lambda x: x / x.abs().max() if len(x) == 4 else x), 6) == {1}
    for first in (lambda x: x * (1 + 1e-6 * (len(x) == 2)), lambda x: x / x.abs().max() if len(x) == 2 else x):
        encoder = shared(first)
        x = list(np.random.default_rng(0).normal(size=(23, WIDTH)).astype(np.float32))
        for _ in range(3):
            assert_depends_on_the_example_alone(encoder, x, alone=5, sizes=(1, 2, 3, 17))


@needs_torch
@pytest.mark.parametrize("fewer", [2, 4])
def test_other_settings_of_torch_are_probed_again(fewer, threads):
    """Kernels are chosen by threads and precision, too: rows that were seen to be independent may no longer be."""
    import torch

    def first(x: Any) -> Any:
        wide = torch.get_num_threads() == 2 or torch.get_float32_matmul_precision() == "high"
        return x / x.abs().max() if wide and len(x) == fewer else x

    encoder = shared(first)
    x = list(np.random.default_rng(0).normal(size=(23, WIDTH)).astype(np.float32))
    expected = {2: {4}, 4: {1}}[fewer]
    for count, precision, rows in ((1, "highest", {4, 2}), (2, "highest", expected), (1, "high", expected)):
        threads(count)
        torch.set_float32_matmul_precision(precision)
        try:
            assert counts(encoder, 6) == rows
            assert_depends_on_the_example_alone(encoder, x, alone=5, sizes=(1, 2, 3, 17))
        finally:
            torch.set_float32_matmul_precision("highest")


@needs_torch
def test_small_batches_are_probed_when_they_have_been_asked_for_often():
    """Probing costs more than the copies of one or two batches."""
    seen: list[int] = []

    def counted(x: Any) -> Any:
        seen.append(len(x))
        return x

    encoder = shared(counted)
    x = np.random.default_rng(0).normal(size=(1, WIDTH)).astype(np.float32)
    found = []
    for _ in range(4):
        seen.clear()
        encoder(x)
        found.append(seen[:])
    assert set(found[0]) == {4}
    assert found[1:] == [[4], [2, 2, 2], [2]]


@needs_minilm_torch
def test_padding_that_lets_rows_mix_is_noticed(minilm_torch):
    """The twin: a text's features are scaled by the longest text of its batch, as if padding were not masked."""

    def scaled(item: Any) -> Any:
        return usual.embed(item) * item[1].sum(1).max()

    usual: Any = minilm_torch.load()
    twin = replace(usual, embed=scaled, forward=inference(usual.module, scaled))
    encoder = Encoder(name="twin", load=lambda: twin, fingerprint=str)
    for item in encoder.prepare(texts(8, longest=30)):
        assert item is not None
        assert encoder.backend.rows(item) == 1
        assert minilm_torch.backend.rows(item) > 1
