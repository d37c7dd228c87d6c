"""Memory on the command line: init --memory, learn --vault, vault show and rotate, plan --memory."""

import json
from pathlib import Path

import numpy as np
import pytest

from reticent.memory import STOLEN
from tests.cli.command import EACH, reticent

BUDGET = ("--epsilon", "8", "--delta", "1e-5", "--tasks-per-person", "1")


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("labels.txt").write_text("a\nb\n")
    np.savez("march.npz", x=np.repeat(np.eye(2, 8), 20, axis=0), y=np.array(["a", "b"]).repeat(20))
    return Path(tmp_path)


def init(*more: str) -> None:
    done = reticent("init", "model", *BUDGET, "--labels", "labels.txt", "--encoder", "none", *more)
    assert done.returncode == 0, done.stderr


def learn(name: str, *more: str) -> str:
    done = reticent("learn", EACH, "march.npz", "--model", "model", "--name", name, *more)
    assert done.returncode in (0, 2)
    return done.stderr


def test_memory_from_the_command_line(place):
    init("--memory", "vault/", "--horizon", "3", "--recurring")
    assert learn("march") == learn("april") == ""
    shown = json.loads(reticent("vault", "show", "vault/", "--json").stdout)
    assert {name: shown[name] for name in ("epoch", "a", "horizon", "tasks", "in_step")} == {
        "epoch": 1,
        "a": "3/8",
        "horizon": 3,
        "tasks": 2,
        "in_step": True,
    }
    assert STOLEN in " ".join(reticent("vault", "show", "vault/").stdout.split())
    assert learn("may") == ""
    assert "has had its 3 tasks" in learn("june")
    assert "In step with the ledger: no" in reticent("vault", "show", "vault/").stdout
    assert json.loads(reticent("vault", "rotate", "vault/", "--json").stdout) == {"epoch": 2, "horizon": 3}
    assert learn("june") == ""
    Path("vault").rename("moved")
    assert "No vault at" in learn("july")
    assert learn("july", "--vault", "moved") == ""
    assert learn("august") == ""
    told = json.loads(reticent("ledger", "model", "--json").stdout)["memory"]
    assert [epoch["tasks"] for epoch in told["epochs"]] == [3, 3]
    assert reticent("predict", "march.npz", "--model", "model", "-o", "out.csv").returncode == 0


def test_refusals_of_memory_print_one_line(place):
    for words, sentence in (
        (("--horizon", "3"), "Expected --memory VAULT"),
        (("--memory", "model/vault"), "outside of the model's folder"),
        (("--memory", "vault", "--learner", "peft"), "learner that can use memory"),
        (("--memory", "vault", "--tasks-per-person", "9"), "at most 4 tasks per person"),
    ):
        done = reticent("init", "model", *BUDGET, "--labels", "labels.txt", "--encoder", "none", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert sorted(file.name for file in place.iterdir()) == ["labels.txt", "march.npz"]
    for verb in ("show", "rotate"):
        done = reticent("vault", verb, "none")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_a_plan_of_memory_fits_a_terminal(place):
    words = ("plan", "--epsilon", "1", "--delta", "1e-5", "--memory", "--tasks", "60")
    shown = reticent(*words).stdout
    mine = shown[shown.index("Memory: noise") :].splitlines()
    assert max(len(line.rstrip()) for line in mine) <= 80
    assert "with memory" in shown
    told = json.loads(reticent(*words, "--class-size", "10", "--json").stdout)["memory"]
    assert (told["tasks"], told["horizon"], told["a"]) == (60, 120, 0.25)
    assert told["classes"][-1]["with_memory"] < told["classes"][-1]["without_memory"]
    assert told["labels"][0]["without_memory_50"] is None
    assert told["labels"][0]["with_memory_99"] <= 60
    assert "memory" not in json.loads(reticent(*words[:5], "--json").stdout)
