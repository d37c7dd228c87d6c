"""`predict --proba --abstain`, as a user meets them."""

import csv
import json

import numpy as np

import reticent as rt
from tests.cli.command import NUMBERS, refused, reticent, write_csv


def test_predict_gives_probabilities_and_abstains(tmp_path):
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(["E10", "E11", "G35"]), budget=rt.Budget(epsilon=1, delta=1e-5), path=tmp_path / "model"
    )
    x = np.repeat(np.eye(3) * 5, 300, axis=0) + np.random.default_rng(1).normal(size=(900, 3))
    model.learn_task(x, np.repeat(["E10", "E11", "G35"], 300), name="march")
    test = write_csv(tmp_path / "test.csv", ["E10", "E11", "G35"], each=20, seed=2)
    test.write_text(test.read_text() + "no number,0,0,E10,99\n")
    asked = ["predict", test, "--model", tmp_path / "model", *NUMBERS, "--top-k", 2, "--proba"]
    facts = json.loads(reticent(*asked, "--json").stdout)
    sure = np.array([row[0] for row in facts["probabilities"][:60]])
    assert facts["probabilities"][60] == [None, None]
    assert facts["labels"][60] == [rt.UNKNOWN] * 2
    order = np.sort(sure)
    least = float(order[np.diff(order).argmax() :][:2].mean())  # far from any rounding
    out = tmp_path / "out.csv"
    assert reticent(*asked, "--abstain", least, "-o", out).returncode == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["row", "label", "score", "probability", "label_2", "score_2", "probability_2"]
    for row, labels, chance in zip(rows[:60], facts["labels"], sure, strict=False):
        assert float(row["probability"]) == chance
        expected = labels if chance >= least else [rt.UNKNOWN] * 2
        assert [row["label"], row["label_2"]] == expected
    assert (rows[60]["label"], rows[60]["probability"]) == (rt.UNKNOWN, "")
    assert "Expected abstain" in refused(reticent(*asked, "--abstain", 50, "--json"))
