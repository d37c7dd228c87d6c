"""Encoder: what it refuses, what it is, and what it loads; features have their own tests beside each model."""

import copy
import dataclasses
import pickle
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from reticent import encoders, errors
from tests.encoders.samples import needs_lite0, needs_minilm, needs_torch

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("inputs", ["a text", b"bytes", None, 3, {"a": 1}, {"a"}, iter(["a"]), np.array("a")])
def test_what_is_no_sequence_is_refused(inputs):
    with pytest.raises(errors.InvalidValue, match=r"^Expected a sequence of inputs[^.]*\.$"):
        encoders.minilm()(inputs)


def test_arrays_of_another_kind_are_refused():
    with pytest.raises(
        errors.InvalidValue, match=r"^Expected inputs that minilm can encode, got an array of float64\.$"
    ):
        encoders.minilm()(np.zeros((3, 4)))
    with pytest.raises(errors.InvalidValue, match="array of float32"):
        encoders.efficientnet_lite0()(np.zeros((1, 8, 8, 3), dtype=np.float32))


@needs_torch
@pytest.mark.parametrize("raised", ["allocator", "gpu", "python"])
def test_too_little_memory_is_no_bad_example(raised):
    """A NaN row would blame the example; the allocator's own text would reveal its size."""
    import torch

    broken = False

    def function(batch):
        if not broken:
            return np.zeros((len(batch), 2))
        if raised == "allocator":
            torch.empty(1 << 60)
        if raised == "gpu":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4321 MiB.")
        raise MemoryError

    encoder = encoders.wrap(function, width=2, name="mine", probe="public")
    encoder([1])
    broken = True
    with pytest.raises(MemoryError, match=r"^The machine has too little memory[^0-9]*\.$") as refusal:
        encoder([1, 2])
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize("make", [encoders.minilm, encoders.efficientnet_lite0, lambda: encoders.hf("a/b")])
def test_encoders_are_frozen_values(make):
    encoder = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        encoder.name = "other"
    assert repr(encoder) == f"Encoder(name={encoder.name!r})"
    assert copy.deepcopy(encoder) is encoder
    assert pickle.loads(pickle.dumps(make())).name == encoder.name  # noqa: S301


@needs_minilm
def test_a_used_encoder_can_be_pickled_without_its_weights(minilm):
    minilm(["a text"])
    blob = pickle.dumps(minilm)
    assert len(blob) < 2000
    np.testing.assert_array_equal(pickle.loads(blob)(["a text"]), minilm(["a text"]))  # noqa: S301


def test_an_encoder_that_is_sent_again_is_loaded_once():
    """A worker of a cluster gets it with every task; another one, also of the same name, is loaded."""
    first, second = (encoders.Encoder(name="mine", load=load_ones, fingerprint=str) for _ in range(2))
    sent = [pickle.dumps(encoder) for encoder in (first, first, second, first)]
    a, again, other, later = (pickle.loads(blob) for blob in sent)  # noqa: S301
    assert a.backend is again.backend
    assert other is not a
    assert later is not a  # the last one alone is kept
    assert [len(encoder([1])) for encoder in (a, other, later)] == [1, 1, 1]
    assert pickle.loads(pickle.dumps(dataclasses.replace(first, name="new"))).name == "new"  # noqa: S301


def load_ones():
    return encoders.wrap(lambda batch: np.ones((len(batch), 2)), width=2, name="mine", probe="public").backend


@needs_minilm
@needs_lite0
def test_digests_tell_encoders_apart(minilm, lite0):
    digests = [minilm.digest, lite0.digest, encoders.minilm().digest]
    assert digests[0] == digests[2] != digests[1]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)


def test_a_broken_model_is_refused_on_a_public_example():
    def load():
        working = encoders.wrap(lambda batch: np.zeros((len(batch), 9)), width=9, name="x").backend
        return dataclasses.replace(working, width=4, probe="public")

    with pytest.raises(errors.ReticentError, match=r"^broken cannot encode a public example\."):
        encoders.Encoder(name="broken", load=load, fingerprint=str)(["private"])


def test_importing_encoders_imports_no_torch():
    code = (
        "import sys, reticent, reticent.encoders as e; "
        "made = [e.minilm(), e.efficientnet_lite0(), e.hf('a'), e.timm('b')]; "
        "assert made[0].width == 384; print(sorted({'torch', 'transformers', 'PIL', 'timm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("package", "encoder", "example", "extra"),
    [
        ("onnxruntime", encoders.minilm, "a", "reticent[text]"),
        ("tokenizers", encoders.minilm, "a", "reticent[text]"),
        ("torch", partial(encoders.minilm, backend="torch"), "a", "reticent[torch]"),
        ("transformers", partial(encoders.minilm, backend="torch"), "a", "reticent[torch]"),
        ("efficientnet_lite_pytorch", encoders.efficientnet_lite0, "a.png", "reticent[vision]"),
        ("timm", lambda: encoders.timm("resnet18"), "a.png", "timm"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, package, encoder, example, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.ReticentError) as refusal:
        encoder()([example])
    assert str(refusal.value).endswith(f": pip install '{extra}'.")


def test_chunks_change_no_features():
    """Inputs are prepared some at a time; each row stays where it is, also that of an input which cannot be used."""
    whole = encoders.wrap(lambda batch: np.array([[ord(text[0])] for text in batch]), width=1, name="letters")
    given = [*(chr(97 + i) * (1 + i % 5) for i in range(22)), None, "z"]
    features = dataclasses.replace(whole, chunk=7)(given)
    np.testing.assert_array_equal(features, whole(given))
    assert np.flatnonzero(np.isnan(features).any(axis=1)).tolist() == [22]
    assert features[:22, 0].tolist() == list(range(97, 119))
