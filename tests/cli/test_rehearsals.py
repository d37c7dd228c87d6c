"""compare and tune: public data only, and what they print and write."""

import json

import pytest

from tests.cli.command import BUDGET, NUMBERS, refused, reticent, write_csv


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
    for verb in (["compare"], ["tune", "-o", tmp_path / "learner.json"]):
        assert "Expected --public: your word" in refused(reticent(*verb, *sample))
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
