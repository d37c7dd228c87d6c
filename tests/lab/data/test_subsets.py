"""Data sets that are parts of others."""

import json

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
