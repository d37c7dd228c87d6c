"""Models of the Hugging Face hub, here small ones in a folder."""

import shutil

import numpy as np
import pytest

from reticent import encoders, errors
from reticent.encoders import huggingface
from reticent.sensitive.gradients import AdapterGradients
from reticent.sensitive.training import Engine
from tests.cli.command import refused, reticent
from tests.encoders.samples import WORDS, assert_depends_on_the_example_alone, needs_hf, pictures, texts

pytestmark = pytest.mark.usefixtures("one_thread")


@needs_hf
def test_models_with_experts_see_one_text_at_a_time(tiny_experts):
    encoder = encoders.hf(tiny_experts)
    (item,) = encoder.prepare([WORDS[0]])
    assert item is not None
    assert encoder.backend.rows(item) == 1
    assert_depends_on_the_example_alone(encoder, [" ".join(WORDS[i : i + 3]) for i in range(5)], alone=2, sizes=(1, 3))


@needs_hf
def test_models_with_experts_are_trained_one_text_at_a_time(tiny_experts):
    encoder = encoders.hf(tiny_experts)
    items = encoder.prepare(["patient reports pain", "severe pain in knee"])
    found = AdapterGradients(encoder.backend, encoders.lora(), items, np.array([0, 1]), 2, Engine(rows=16))
    assert items[0] is not None
    assert found._rows(items[0]) == 1


# Small models of every architecture that gets several rows at a time.
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "embedding_size": 8,
    "dim": 16,
    "n_layers": 1,
    "n_heads": 2,
    "hidden_dim": 16,
    "vocab_size": 32,
    "max_position_embeddings": 40,
    "image_size": 16,
    "patch_size": 8,
    "hidden_sizes": [8, 16],
    "depths": [1, 1],
    "num_stages": 2,
    "attn_implementation": "eager",
}


@needs_hf
@pytest.mark.parametrize("kind", sorted(huggingface.ROW_BY_ROW))
def test_architectures_that_share_batches_treat_rows_one_by_one(kind):
    """Up to rounding, which probes look after: an extreme row changes nothing in the rows beside it."""
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    own = AutoConfig.for_model(kind)
    sizes = {name: value for name, value in SMALL.items() if name == "attn_implementation" or hasattr(own, name)}
    model = AutoModel.from_config(AutoConfig.for_model(kind, **sizes)).eval()
    if hasattr(own, "vocab_size"):
        rows, extreme = torch.randint(2, 32, (4, 12)), torch.full((1, 12), 31)
        mask = torch.ones(4, 12, dtype=torch.long)
        mask[1, 5:] = 0
        given = [{"input_ids": rows, "attention_mask": mask}]
        given.append({"input_ids": torch.cat([rows[:3], extreme]), "attention_mask": mask.clone()})
        given[1]["attention_mask"][3, 2:] = 0
    else:
        rows = torch.randn(4, 3, 16, 16)
        given = [{"pixel_values": rows}, {"pixel_values": torch.cat([rows[:3], 1e4 * torch.randn(1, 3, 16, 16)])}]
    with torch.no_grad():
        plain, beside = (model(**batch).last_hidden_state for batch in given)
    torch.testing.assert_close(plain[:3], beside[:3], rtol=1e-5, atol=1e-5)
    assert (plain[3] - beside[3]).abs().max() > 1e-3


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


@needs_hf
def test_digest_of_a_folder_follows_its_weights(tiny_bert, tiny_vit, tmp_path):
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


@needs_hf
def test_hf_folders_are_encoders_on_the_command_line(tiny_bert, tmp_path):
    """Named for each verb: a model directory stores the name and a digest, and loads nothing by itself."""
    rows = "".join(f"{word} {word},{word}\n" for _ in range(200) for word in ("fever", "cough"))
    (tmp_path / "march.csv").write_text(f"note,code\n{rows}")
    (tmp_path / "labels.txt").write_text("fever\ncough\n")
    named, model = ["--encoder", f"hf:{tiny_bert}"], tmp_path / "model"
    settings = ["--epsilon", 8, "--delta", "1e-5", "--tasks-per-person", 1, "--labels", tmp_path / "labels.txt"]
    assert reticent("init", model, *settings, *named).returncode == 0
    columns = ["--model", model, "--text", "note"]
    learn = ["learn", tmp_path / "march.csv", *columns, "--label", "code", "--each-row-is-a-person"]
    assert "--encoder" in refused(reticent(*learn))
    assert reticent(*learn, *named).returncode == 0
    done = reticent("predict", tmp_path / "march.csv", *columns, *named, "-o", "-")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "row,label"
    assert len(done.stdout.splitlines()) == 401
