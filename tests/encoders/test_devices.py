"""Devices, batches and half precision: features depend on the example alone, and a model on its weights alone.

There is no GPU where these tests are written: what runs is the processor, a fake of what torch says it has, and "meta",
on which shapes and places can be seen and values cannot.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import encoders, errors
from reticent.encoders import devices
from reticent.encoders.devices import Speed, available, placed, tensors
from tests.encoders.samples import assert_depends_on_the_example_alone, needs_minilm, needs_minilm_torch, texts

torch = pytest.importorskip("torch", reason="needs reticent[torch]")
pytestmark = pytest.mark.usefixtures("one_thread")
BUDGET = rt.Budget(epsilon=5.0, delta=1e-3)


@pytest.fixture(scope="module")
def wide(tiny_bert):
    return encoders.hf(tiny_bert, device="auto", batch_size=48)


@pytest.fixture(scope="module")
def half(tiny_bert):
    return encoders.hf(tiny_bert, bf16=True)


def prepared(backend: Any, example: object) -> Any:
    (item,) = backend.prepare([example])
    return item


def test_features_do_not_depend_on_the_batch_size_of_others(wide, half):
    for encoder in (wide, half):
        assert_depends_on_the_example_alone(encoder, texts(60, longest=12), alone=3, sizes=(3, 49))


def test_batches_have_the_rows_that_were_asked_for(tiny_bert, wide):
    seen: list[int] = []
    before = wide.backend.forward

    def forward(item):
        seen.append(len(item[0]))
        return before(item)

    watched = replace(wide, load=lambda: replace(wide.backend, forward=forward), speed=Speed())
    watched(["a"] * 40)
    assert set(seen) == {48}
    usual = encoders.hf(tiny_bert)
    item = prepared(usual.backend, "a")
    assert usual.backend.rows(item) == 16
    np.testing.assert_allclose(wide(["a", "a b"]), usual(["a", "a b"]), rtol=1e-4, atol=1e-5)


def test_rows_of_unread_models_stay_alone(tiny_experts):
    encoder = encoders.hf(tiny_experts, batch_size=64)
    assert encoder.backend.rows(prepared(encoder.backend, "a")) == 1


def test_half_precision_keeps_weights_and_digest(tiny_bert, half):
    usual = encoders.hf(tiny_bert)
    assert half.digest == usual.digest == encoders.hf(tiny_bert, device="auto", batch_size=3).digest
    ours, theirs = half(["a b"])[0], usual(["a b"])[0]
    assert not np.array_equal(ours, theirs)
    assert ours @ theirs > 0.99 * np.linalg.norm(ours) * np.linalg.norm(theirs)
    assert {weight.dtype for weight in half.backend.module.parameters()} == {torch.float32}


def test_a_model_learned_with_one_speed_predicts_with_another(tiny_bert, wide, half, tmp_path):
    given = ["a a a", "b b b"] * 60
    model = rt.ContinualClassifier(
        encoder=half, labels=rt.PublicLabels(["x", "y"]), budget=BUDGET, path=tmp_path / "model"
    )
    model.learn_task(given, ["x", "y"] * 60, name="march")
    for other in (wide, encoders.hf(tiny_bert)):
        again = rt.load(tmp_path / "model", encoder=other)
        assert (again.predict(given[:2]) == model.predict(given[:2])).all()


def test_adapters_are_trained_and_predict_at_another_speed(wide, tmp_path):
    learner = rt.PeftEnsemble(adapter=encoders.film, epochs=1, rate=0.5, task_size=20)
    model = rt.ContinualClassifier(
        encoder=wide, learner=learner, labels=rt.PublicLabels(["x", "y"]), budget=BUDGET, path=tmp_path
    )
    model.learn_task(["a a", "b b"] * 10, ["x", "y"] * 10, name="march")
    assert model.predict_proba(["a a"]).shape == (1, 2)


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_takes_what_there_is(monkeypatch, cuda, mps, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert available("auto") == expected
    assert available("cpu") == "cpu"
    for device, there in (("cuda:1", cuda), ("mps", mps)):
        if there:
            assert available(device) == device
        else:
            with pytest.raises(errors.InvalidValue, match=f"torch has no {device} on this machine"):
                available(device)


def test_inputs_go_where_the_weights_are(tiny_vit, monkeypatch):
    """On "meta": nothing is computed, and everything says where it is."""
    monkeypatch.setattr(devices, "available", lambda _: "meta")
    monkeypatch.setattr(devices, "_refuse_too_large", lambda _: None)
    backend = placed(encoders.hf(tiny_vit).load(), Speed(device="cuda", bf16=False))
    assert {weight.device.type for weight in backend.module.parameters()} == {"meta"}
    stacked = tuple(array[None] for array in prepared(backend, np.zeros((9, 9, 3), np.uint8)))
    assert {tensor.device.type for tensor in tensors(backend.module, stacked)} == {"meta"}
    assert backend.embed is not None
    assert backend.embed(tensors(backend.module, stacked)).shape == (1, 32)


@needs_minilm_torch
def test_a_device_that_is_not_there_is_refused_before_the_spend(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    encoder = encoders.minilm(device="cuda", backend="torch")
    model = rt.ContinualClassifier(encoder=encoder, labels=rt.PublicLabels(["x"]), budget=BUDGET)
    with pytest.raises(errors.InvalidValue, match="torch has no cuda on this machine"):
        model.learn_task(["a"], ["x"], name="march")
    assert model.statement().spends == ()


def test_a_batch_that_does_not_fit_is_refused_on_a_public_example(tiny_bert):
    usual = encoders.hf(tiny_bert).load()

    def forward(item):
        if item[0].size > 16 * 64:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return usual.forward(item)

    small = replace(usual, forward=forward)
    assert placed(small, Speed(batch_size=16)).rows(prepared(usual, "a")) == 16
    with pytest.raises(errors.InvalidValue, match="batch_size that fits"):
        placed(small, Speed(batch_size=64))


def test_half_precision_that_changes_features_is_refused(tiny_bert):
    usual: Any = encoders.hf(tiny_bert).load()

    def embed(item):
        found = usual.embed(item)
        return found.flip(1) if torch.is_autocast_enabled("cpu") else found

    with pytest.raises(errors.InvalidValue, match="In bfloat16 this model gives other features"):
        placed(replace(usual, embed=embed), Speed(bf16=True))


@pytest.mark.parametrize("wrong", [{"device": "gpu"}, {"device": 0}, {"batch_size": 0}, {"batch_size": 2.5}])
def test_speeds_are_refused(wrong):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        Speed(**wrong)
    with pytest.raises(errors.InvalidValue, match="Expected an encoder that is a torch module"):
        replace(encoders.wrap(len, width=1, name="mine"), speed=Speed(device="cuda")).backend  # noqa: B018


@needs_minilm
def test_the_default_encoder_takes_a_batch_size():
    encoder = encoders.minilm(device="auto", batch_size=4)
    assert encoder.backend.rows(prepared(encoder.backend, "a text")) == 4
    assert encoder.digest == encoders.minilm().digest
    assert_depends_on_the_example_alone(encoder, texts(6, longest=8), alone=1, sizes=(3,))


@needs_minilm
@pytest.mark.parametrize("wanted", [{"device": "cuda"}, {"bf16": True}])
def test_devices_of_the_default_encoder_need_torch(wanted):
    model = rt.ContinualClassifier(encoder=encoders.minilm(**wanted), labels=rt.PublicLabels(["x"]), budget=BUDGET)
    with pytest.raises(errors.InvalidValue, match=r'such as minilm\(backend="torch"\)'):
        model.learn_task(["a"], ["x"], name="march")
    assert model.statement().spends == ()


@pytest.mark.parametrize("has", [True, False])
def test_half_precision_by_itself_follows_the_processor(tiny_bert, monkeypatch, has):

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has, "cpu_name": "bf16"}, raising=False)
    plain, half, auto = (encoders.hf(tiny_bert, bf16=bf16)(["a public text"]) for bf16 in (False, True, "auto"))
    assert not np.array_equal(plain, half)
    np.testing.assert_array_equal(auto, half if has else plain)


def test_what_is_no_setting_of_half_precision_is_refused():
    with pytest.raises(errors.InvalidValue, match=r'^Expected bf16 to be True, False or "auto"\.$'):
        Speed(bf16="always")  # type: ignore[arg-type]
