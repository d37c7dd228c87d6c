"""Models of the Hugging Face hub, here small ones in a folder."""

import shutil

import pytest

from reticent import encoders, errors
from reticent.encoders import images, text
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
def test_hf_knows_what_features_are_a_function_of(tiny_bert, tiny_vit):
    """The key of a cache: the characters of a text, the pixels of an image."""
    (picture,) = pictures(1)
    for folder, content in ((tiny_bert, text.content), (tiny_vit, images.content)):
        found = encoders.hf(folder).content
        assert found is not None
        for example in ("a text", picture, None):
            assert found(example) == content(example)
