"""Encoders by name: shipped ones, those of two libraries, and the user's own."""

import sys

import pytest

from reticent import encoders, errors

OWN = """
import numpy as np
from reticent import encoders

def lengths(batch):
    from own_weights import factor
    return np.array([[factor * len(text)] for text in batch])

ready = encoders.wrap(lengths, width=1, name="ready")

def make():
    return encoders.wrap(lengths, width=1, name="made")

def broken():
    raise RuntimeError("no weights here")

number = 3
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_encoders.py").write_text(OWN)
    (tmp_path / "own_weights.py").write_text("factor = 1.0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for module in ("own_encoders", "own_weights"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", [*encoders.SHIPPED, "hf:a/b", "timm:resnet18"])
def test_a_name_gives_its_encoder(name):
    encoder = encoders.named(name)
    assert encoder is not None
    assert encoder.name == name


def test_names_on_a_command_line():
    assert encoders.named("none") is None
    assert repr(encoders.named("efficientnet-lite0")) == repr(encoders.efficientnet_lite0())


@pytest.mark.parametrize("name", ["magic", "", "hf:", ":", "own_encoders:", ":ready", "MINILM"])
@pytest.mark.parametrize("own", [False, True])
def test_unknown_names_are_refused(name, own):
    with pytest.raises(
        errors.InvalidValue,
        match=r"^Expected an encoder out of minilm, minilm_torch, efficientnet_lite0, hf:NAME, onnx:FILE",
    ):
        encoders.named(name, own=own)


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(("attribute", "name"), [("ready", "ready"), ("make", "made")])
def test_a_custom_encoder_has_a_name(attribute, name):
    encoder = encoders.named(f"own_encoders:{attribute}", own=True)
    assert encoder is not None
    assert encoder.name == name
    assert encoder(["abc"]).tolist() == [[3.0]]  # with a module that it imports when it is called


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize("attribute", ["number", "lengths", "broken", "missing", "np"])
def test_what_is_no_encoder_is_refused_in_one_sentence(attribute):
    with pytest.raises(errors.InvalidValue, match=rf"^Expected an encoder at own_encoders:{attribute}[:,] .*\.$"):
        encoders.named(f"own_encoders:{attribute}", own=True)
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder at no_such_module:x: ModuleNotFoundError"):
        encoders.named("no_such_module:x", own=True)


@pytest.mark.usefixtures("own_module")
def test_a_custom_module_is_imported_only_when_asked():
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder out of"):
        encoders.named("own_encoders:ready")
    assert "own_encoders" not in sys.modules
