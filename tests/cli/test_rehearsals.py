"""compare and tune: public data only, and what they print and write."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import BUDGET, EACH, NUMBERS, refused, reticent, write_csv


@pytest.fixture
def sample(tmp_path):
    return [write_csv(tmp_path / "public.csv", ["E10", "E11", "G35"], each=30), *BUDGET, *NUMBERS, "--label", "code"]


def test_compare_says_which_learner_is_best(sample):
    words = ["compare", *sample, "--public", "--tasks", 3, "--learner", "cosine", "--learner", "cosine-paper"]
    facts = json.loads(reticent(*words, "--json").stdout)
    assert {trial["learner"] for trial in facts["trials"]} == {"cosine", "cosine-paper"}
    shown = reticent(*words).stdout
    assert f"Best here: {facts['best']}." in shown
    assert f"{facts['trials'][0]['accuracy']:.1%}" in shown
    fewer = json.loads(reticent(*words, "--released", "--json").stdout)
    assert fewer["trials"][0]["accuracy"] < 0.5 < facts["trials"][0]["accuracy"]  # classes of 24 are rarely released


def test_public_data_are_the_users_word(sample, tmp_path):
    assert "Expected --public: your word" in refused(reticent("compare", *sample))
    silent = refused(reticent("tune", *sample, "-o", tmp_path / "learner.json"))
    assert "Expected --public for public data, or --model for private data" in silent
    assert "ends in .json" in refused(reticent("tune", *sample, "--public", "-o", tmp_path / "learner.toml"))
    assert "Expected tasks >= 1" in refused(reticent("compare", *sample, "--public", "--tasks", 0))


def test_tuned_settings_go_from_tune_to_the_statement(sample, tmp_path):
    pytest.importorskip("optuna", reason="the extra tune is not installed")
    file = tmp_path / "learner.json"
    done = reticent("tune", *sample, "--public", "--trials", 1, "--task-size", 200, "-o", file)
    assert done.stdout.startswith(f"Wrote {file}: tuned on public data: 1 trials."), done.stderr
    assert json.loads(file.read_text())["task_size"] == 200
    model = ["init", tmp_path / "model", *BUDGET, "--encoder", "none", "--learner", file]
    assert reticent(*model).returncode == 0
    stored = json.loads((tmp_path / "model" / "manifest.json").read_text())["learner"]
    assert stored == json.loads(file.read_text())


@pytest.mark.parametrize("content", ["", "[]", '{"kind": "peft"}', '{"kind": "other"}', "\xff"])
def test_files_that_hold_no_learner_are_refused(tmp_path, content):
    (tmp_path / "learner.json").write_bytes(content.encode("latin-1"))
    done = reticent("init", tmp_path / "model", *BUDGET, "--encoder", "none", "--learner", tmp_path / "learner.json")
    assert "learner" in refused(done)
    assert "Cannot read" in refused(reticent("init", tmp_path / "m", *BUDGET, "--learner", tmp_path / "no.json"))
    assert not (tmp_path / "model").exists()


# --- for a price


@pytest.fixture
def private(tmp_path):
    """A model that trains, private examples, and public ones to score on."""
    (tmp_path / "labels.txt").write_text("E10\nE11\n")
    peft = ["--learner", "peft", "--task-size", 100, "--encoder", "none", "--labels", tmp_path / "labels.txt"]
    assert reticent("init", tmp_path / "model", *BUDGET, *peft).returncode == 0
    write_csv(tmp_path / "public.csv", ["E10", "E11"], each=20, seed=1)
    source = write_csv(tmp_path / "february.csv", ["E10", "E11"], each=50)
    output = ["-o", tmp_path / "learner.json"]
    return ["tune", source, "--model", tmp_path / "model", *NUMBERS, "--label", "code", "--mean-runs", 1.5, *output]


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(reticent("ledger", folder, "--json").stdout)["rows"]
    return found


def test_private_tuning_is_paid_for_in_the_ledger(private, tmp_path):
    done = reticent(*private, "--validation", tmp_path / "public.csv", "--person", "who")
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("Epsilon 1.0000 of 1 used at delta 1e-05")
    assert last == f"Wrote {tmp_path / 'learner.json'}: tuned by private selection, paid for as 'tuning'."
    assert [row["task"] for row in rows(tmp_path / "model")] == ["tuning"]
    again = reticent(*private, "--validation", tmp_path / "public.csv", "--person", "who")
    assert "tuning" in refused(again)
    march = write_csv(tmp_path / "march.csv", ["E10", "E11"], each=50, seed=2)
    learn = ["learn", march, "--model", tmp_path / "model", *NUMBERS, "--label", "code", EACH]
    assert reticent(*learn, "--learner", tmp_path / "learner.json").returncode == 0
    assert "tuned by private selection, paid for as 'tuning'" in reticent("ledger", tmp_path / "model").stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([EACH], "Expected --validation FILE"),
        ([EACH, "--validation", "february.csv"], "Expected other data for --validation"),
        (["--validation", "public.csv"], "Expected --person COLUMN"),
        ([EACH, "--validation", "absent.csv"], "No file at"),
        ([EACH, "--validation", "public.csv", "--epsilon", 2], "at most the model's budget"),
        ([EACH, "--validation", "public.csv", "--public"], "Expected --public for public data, or --model"),
        ([EACH, "--validation", "public.csv", "-o", "learner.toml"], "ends in .json"),
        ([EACH, "--validation", "public.csv", "-o", "no/where.json"], "Cannot write"),
        ([EACH, "--validation", "public.csv", "--mean-runs", 0], "runs"),
        ([EACH, "--validation", "public.csv", "--name", "a\nb"], "one line of visible characters"),
    ],
)
def test_private_tuning_is_refused_before_the_spend(private, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(reticent(*private, *words))
    assert rows(tmp_path / "model") == []
    assert not (tmp_path / "learner.json").exists()


@pytest.mark.posix
def test_public_files_that_are_the_private_ones_are_refused(private, tmp_path):
    """A hard link to the private file was public validation. An equal file is taken: else who has one would be told."""
    os.link(tmp_path / "february.csv", tmp_path / "public again.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.csv").symlink_to(tmp_path / "february.csv")
    for same in ("public again.csv", "folder"):
        done = reticent(*private, EACH, "--validation", tmp_path / same)
        assert "Expected other data for --validation" in refused(done)
    learn = ["learn", tmp_path / "february.csv", "--model", tmp_path / "model", *NUMBERS, "--label", "code", EACH]
    assert "chosen in public" in refused(reticent(*learn, "--labels", tmp_path / "public again.csv"))
    assert rows(tmp_path / "model") == []
    shutil.copy(tmp_path / "february.csv", tmp_path / "copy.csv")
    assert reticent(*private, EACH, "--validation", tmp_path / "copy.csv").returncode == 0


def test_only_training_is_tuned(started):
    source, public = (write_csv(started / name, ["E10", "E11"], each=20) for name in ("a.csv", "b.csv"))
    words = ["tune", source, "--model", started / "model", *NUMBERS, "--label", "code", "-o", started / "learner.json"]
    assert "made with --learner peft" in refused(reticent(*words, EACH, "--validation", public))
