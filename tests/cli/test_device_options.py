"""`--device` and `--batch-size`, as a user meets them."""

import json

import numpy as np

import reticent as rt
from reticent import encoders
from tests.cli.command import refused, reticent
from tests.encoders.samples import needs_minilm

BUDGET = rt.Budget(epsilon=5.0, delta=1e-3)


@needs_minilm
def test_predict_takes_a_device_and_a_batch_size(tmp_path):
    model = rt.ContinualClassifier(
        encoder=encoders.minilm(), labels=rt.PublicLabels(["x", "y"]), budget=BUDGET, path=tmp_path / "model"
    )
    model.learn_task(["a cold", "a broken leg"] * 20, ["x", "y"] * 20, name="march")
    (tmp_path / "new.csv").write_text("note\na cold\na broken leg\n")
    asked = ["predict", tmp_path / "new.csv", "--model", tmp_path / "model", "--text", "note", "--json"]
    done = reticent(*asked, "--device", "auto", "--batch-size", 4)
    assert len(json.loads(done.stdout)["labels"]) == 2
    assert 'such as minilm(backend="torch")' in refused(reticent(*asked, "--device", "cuda"))
    assert "Expected a device out of" in refused(reticent(*asked, "--device", "gpu"))


def test_a_device_without_an_encoder_is_refused(tmp_path):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["x"]), budget=BUDGET, path=tmp_path / "model")
    model.learn_task(np.ones((30, 2)), ["x"] * 30, name="march")
    (tmp_path / "new.csv").write_text("a,b\n1,2\n")
    asked = ["predict", tmp_path / "new.csv", "--model", tmp_path / "model", "--features", "a,b", "--json"]
    assert "with an encoder" in refused(reticent(*asked, "--device", "cpu"))
