"""Learners and encoders of one's own on the command line: named for each verb, never run because a file says so."""

import json

import pytest

from tests.cli.command import EACH, refused, reticent

CODE = """
import numpy as np
from reticent import Cosine
from reticent.encoders import wrap

def lengths(texts):
    return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

def encoder():
    return wrap(lengths, width=2, name="lengths", probe="a public text")

class Mine(Cosine):
    def to_json(self):
        return {"kind": "mine"}
"""
AGAIN = ("--encoder", "own_code:encoder", "--learner", "own_code:Mine")
COLUMNS = ("--text", "note", "--label", "code")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_code.py").write_text(CODE)
    (tmp_path / "labels.txt").write_text("short\nlong\n")
    rows = "".join(f"{'x' * 40},long\nx,short\n" for _ in range(200))
    (tmp_path / "march.csv").write_text(f"note,code\n{rows}")
    made = reticent(
        "init", "model", "--epsilon", "8", "--delta", "1e-5", "--tasks-per-person", 1, "--labels", "labels.txt", *AGAIN
    )
    assert made.returncode == 0, made.stderr
    return tmp_path


def test_own_code_works_from_init_to_predict(folder):
    assert reticent("learn", EACH, "march.csv", "--model", "model", *COLUMNS, *AGAIN).returncode == 0
    found = reticent("evaluate", "march.csv", "--model", "model", *COLUMNS, "--public", "--json", *AGAIN)
    assert json.loads(found.stdout)["accuracy"] > 0.9
    answers = reticent("predict", "march.csv", "--model", "model", "--text", "note", "--json", *AGAIN)
    assert json.loads(answers.stdout)["labels"][:2] == [["long"], ["short"]]


def test_own_code_is_not_run_because_a_manifest_names_it(folder):
    """A manifest is data: what it names is asked for again, with the flag to use."""
    words = ("learn", EACH, "march.csv", "--model", "model", *COLUMNS)
    assert "--encoder" in refused(reticent(*words, "--learner", "own_code:Mine"))
    assert "--learner" in refused(reticent(*words, "--encoder", "own_code:encoder"))


@pytest.mark.parametrize(
    ("flag", "name", "sentence"),
    [
        ("--learner", "own_code:missing", "Expected a learner at own_code:missing: AttributeError"),
        ("--learner", "no_such_module:Mine", "Expected a learner at no_such_module:Mine: ModuleNotFoundError"),
        ("--learner", "own_code:CODE_", "Expected a learner at own_code:CODE_"),
        ("--learner", "cosinus", "Expected a learner out of cosine, cosine-paper, peft, peft-paper, module:object"),
        ("--encoder", "own_code:lengths", "Expected an encoder at own_code:lengths: TypeError"),
        ("--encoder", "own_code:np", "Expected an encoder at own_code:np, got module"),
    ],
)
def test_init_refuses_what_is_no_learner_or_encoder(folder, flag, name, sentence):
    assert sentence in refused(
        reticent("init", "other", "--epsilon", "1", "--delta", "1e-5", "--tasks-per-person", 1, flag, name)
    )
    assert not (folder / "other").exists()
