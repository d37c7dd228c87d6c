"""Data sets that are parts of others, or come with a package."""

import json

import numpy as np
import pytest

from reticent.lab.data import datasets
from reticent.lab.data.datasets import MissingData


def test_banking_is_the_intents_of_two_domains(tmp_path):
    rows = [["my card", "freeze"], ["my balance", "balance"], ["play a song", "music"]]
    (tmp_path / "clinc150_data_full.json").write_text(json.dumps({"train": rows, "test": rows[1:]}))
    with pytest.raises(MissingData, match=r"needs clinc150_domains\.json"):
        datasets.load("clinc150-banking", tmp_path)
    domains = {"banking": ["freeze", "balance"], "credit_cards": [], "home": ["music"]}
    (tmp_path / "clinc150_domains.json").write_text(json.dumps(domains))
    data = datasets.load("clinc150-banking", tmp_path)
    assert (data.inputs, data.labels.tolist()) == (["my card", "my balance"], ["freeze", "balance"])
    assert (data.unseen_inputs, data.unseen_labels.tolist()) == (["my balance"], ["balance"])
    assert datasets.digest(data) != datasets.digest(datasets.load("clinc150", tmp_path))


def test_digits_come_with_scikit_learn_and_a_seed_holds_some_out(tmp_path):
    data = datasets.load("digits-pixels", tmp_path)
    assert data.inputs.shape == (1_797, 64)
    assert len(np.unique(data.labels)) == 10
    train, test = data.rows(0)
    assert len(train) + len(test) == 1_797
    assert 340 < len(test) < 380
