"""Encoders that are loaded once for all tests of this folder."""

import shutil

import pytest

from reticent import encoders
from tests.encoders.samples import WORDS


@pytest.fixture(scope="session")
def minilm():
    return encoders.minilm()


@pytest.fixture(scope="session")
def minilm_torch():
    return encoders.minilm(backend="torch")


@pytest.fixture(scope="session")
def lite0():
    return encoders.efficientnet_lite0()


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def tiny_experts(tiny_bert, tmp_path_factory):
    """Experts group the tokens of all rows, so a row's products depend on the other rows."""
    from transformers import MixtralConfig, MixtralModel

    folder = tmp_path_factory.mktemp("experts") / "model"
    shutil.copytree(tiny_bert, folder, ignore=shutil.ignore_patterns("config.json", "*.safetensors"))
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    more = {"num_key_value_heads": 2, "num_local_experts": 4, "max_position_embeddings": 64}
    MixtralModel(MixtralConfig(vocab_size=32, **sizes, **more)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_vit(tmp_path_factory):
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    folder = tmp_path_factory.mktemp("vit")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    ViTModel(ViTConfig(image_size=32, patch_size=8, **sizes)).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder
