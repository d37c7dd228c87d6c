"""The command line as a user meets it: what is printed where, and exit codes."""

import contextlib
import io
import json
import re
import subprocess
import sys
import unittest.mock
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import Budget
from reticent.cli import app, main
from reticent.gate.ledger import Ledger
from reticent.lab.bench import specs
from reticent.lab.bench.estimates import WITHOUT_DATA
from reticent.lab.bench.folder import Folder
from reticent.privacy import events, planning
from reticent.released.ledger_file import FILE_NAME
from tests.lab.tiny import DATA, done, write_features

VERBS = [
    ["upgrade"],
    ["plan"],
    ["init"],
    ["learn"],
    ["predict"],
    ["evaluate"],
    ["ledger"],
    ["audit"],
    ["attack", "labels"],
    ["demo"],
    ["bench"],
    ["report"],
]


BUDGET = ["--epsilon", "1", "--delta", "1e-5"]


def reticent(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the real entry point, exit code and all, without the second that a new process takes to import."""
    out, err = io.StringIO(), io.StringIO()
    words = ["reticent", *map(str, arguments)]
    with (
        unittest.mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    return subprocess.CompletedProcess(words, int(stop.value.code or 0), out.getvalue(), err.getvalue())


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """One sentence on standard error, exit code 2, nothing on standard output."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_version_and_help():
    assert re.fullmatch(r"reticent \d+\.\d+\.\d+(\.dev\d+)?\n", reticent("--version").stdout)
    assert "plan" in reticent("--help").stdout


def test_a_real_process_prints_the_same_refusal():
    words = ["plan", "--epsilon", "-1", "--delta", "1e-5"]
    command = [sys.executable, "-W", "error", "-c", "from reticent.cli import main; main()", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, reticent(*words).stderr)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(verb):
    shown = reticent(*verb, "--help")
    assert shown.returncode == 0
    assert f"Example: reticent {' '.join(verb)}" in " ".join(shown.stdout.split())


def test_no_verb_is_left_out_of_these_tests():
    top = {command.callback.__name__ for command in app.registered_commands if command.callback}
    nested = {
        (group.name, command.callback.__name__)
        for group in app.registered_groups
        if group.typer_instance
        for command in group.typer_instance.registered_commands
        if command.callback
    }
    assert {(name,) for name in top} | nested == {tuple(verb) for verb in VERBS}


def test_plan_golden():
    golden = ["--mechanism", "truncated-geometric", "--share", 0.025, "--class-size", 500]
    done = reticent("plan", *BUDGET, *golden, "--json")
    facts = json.loads(done.stdout)
    assert facts["threshold"] == 433
    assert facts["classes"][0]["release_probability"] == pytest.approx(0.9052, abs=5e-5)


def test_plan_table_shows_every_mechanism():
    done = reticent("plan", *BUDGET, "--class-size", 100, "--class-size", 20, "--tasks", 12)
    assert done.returncode == 0, done.stderr
    for name in planning.MECHANISMS:
        assert name in done.stdout
    assert "Pr[100]" in done.stdout
    assert "Known after 12 tasks" in done.stdout


def test_plan_takes_persons_in_several_tasks():
    facts = [
        json.loads(reticent("plan", *BUDGET, "--class-size", 500, "--json", *extra).stdout)
        for extra in ([], ["--tasks", "12", "--tasks-per-person", "3"], ["--examples-per-person", "2"])
    ]
    sigmas = [f["sigma_without_labels"] for f in facts]
    assert sigmas[1] == pytest.approx(sigmas[0] * 3**0.5, rel=1e-6)
    assert sigmas[2] == pytest.approx(sigmas[0] * 2, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--epsilon -1 --delta 1e-5", "Expected epsilon > 0"),
        ("--epsilon nan --delta 1e-5", "Expected epsilon > 0"),
        ("--epsilon inf --delta 1e-5", "Expected epsilon > 0 and epsilon < 100"),
        ("--epsilon one --delta 1e-5", "epsilon"),
        ("--epsilon 1000 --delta 1e-5", "epsilon < 100"),
        ("--epsilon 1 --delta 2", "delta < 1"),
        ("--epsilon 1 --delta 0", "without a public superset"),
        ("--epsilon 1", "--delta"),
        ("--epsilon 1 --delta 1e-5 --class-size -3", "class size >= 1"),
        ("--epsilon 1 --delta 1e-5 --class-size many", "class-size"),
        ("--epsilon 1 --delta 1e-5 --mechanism magic", "Expected a mechanism out of"),
        ("--epsilon 1 --delta 1e-5 --share lots", "Expected share to be a number"),
        ("--epsilon 1 --delta 1e-5 --count-weight 2", "count_weight < 1"),
        ("--epsilon 1 --delta 1e-5 --tasks 0", "tasks >= 1"),
        ("--epsilon 1 --delta 1e-5 --tasks 2 --tasks-per-person 3", "tasks-per-person <= tasks"),
        ("--epsilon 1 --delta 1e-5 --examples-per-person 0", "examples_per_person >= 1"),
        ("--epsilon 1 --delta 1e-5 --plot plan.pdf", ".png or .html"),
        ("--epsilon 1 --delta 1e-5 --plot nowhere/at/all.png", "existing folder"),
    ],
)
def test_plan_refusals_print_one_line(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(reticent("plan", *arguments.split()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["png", "html"])
def test_plots_are_written(ending, tmp_path):
    plan, attack = tmp_path / f"plan.{ending}", tmp_path / f"attack.{ending}"
    assert reticent("plan", "--epsilon", 1, "--delta", "1e-7", "--plot", plan).returncode == 0
    done = reticent("attack", "labels", "--trials", 200, "--trainings", 5, "--plot", attack)
    assert done.returncode == 0, done.stderr
    for file in (plan, attack):
        start = file.read_bytes()[:15]
        assert start.startswith(b"\x89PNG" if ending == "png" else b"<!doctype html>")
        if ending == "html":
            text = file.read_text()
            assert "<svg" in text
            assert "src=" not in text  # self-contained: nothing is fetched
            assert "<script" not in text


def test_attack_json():
    facts = json.loads(reticent("attack", "labels", "--trials", 2000, "--trainings", 60, "--json").stdout)
    games = facts["games"]
    assert all(g["accuracy"] == 1.0 and g["broken"] for g in games if not g["remedy"])
    assert not any(g["broken"] for g in games if g["remedy"])
    low, high = games[0]["interval"]
    assert low <= games[0]["accuracy"] <= high
    assert {r["epsilon"] for r in facts["curve"]} >= {0.1, 1.0, 8.0}


@pytest.mark.parametrize(
    "arguments", ["--trials 0", "--trainings 0", "--fits 0", "--delta 0", "--epsilon nan", "--plot x.gif"]
)
def test_attack_refusals_print_one_line(arguments):
    assert "Expected" in refused(reticent("attack", "labels", *arguments.split()))


@pytest.fixture
def model(tmp_path):
    with Ledger.create(tmp_path / "model", Budget(epsilon=1.0, delta=1e-5)) as ledger:
        ledger.spend(events.Gaussian(noise_multiplier=4.0), task="march", private=True)
    return tmp_path / "model"


def test_ledger_prints_the_statement(model):
    done = reticent("ledger", model)
    assert done.returncode == 0, done.stderr
    with Ledger.open(model) as ledger:
        assert done.stdout == ledger.statement().text() + "\n"
        assert json.loads(reticent("ledger", model, "--json").stdout) == ledger.statement().json()


def test_ledger_voids_with_a_reason(model):
    assert "Expected a reason" in refused(reticent("ledger", model, "--void", 2))
    assert "--void ROW" in refused(reticent("ledger", model, "--reason", "x"))
    assert "not a spend" in refused(reticent("ledger", model, "--void", 17, "--reason", "x"))
    assert "voided: never drawn" in reticent("ledger", model, "--void", 2, "--reason", "never drawn").stdout


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda f: f.unlink(), "No ledger at"),
        (lambda f: f.write_bytes(b"junk" * 400), "damaged"),
        (lambda f: f.write_bytes(f.read_bytes()[:4096]), "Restore it from a backup"),
    ],
)
def test_ledger_refusals_print_one_line(model, damage, sentence):
    damage(model / FILE_NAME)
    before = {p.name: p.read_bytes() for p in model.iterdir()}
    assert sentence in refused(reticent("ledger", model))
    assert {p.name: p.read_bytes() for p in model.iterdir()} == before


# --- the main job


def write_csv(path: Path, labels: list[str], each: int = 300, seed: int = 0) -> Path:
    draw = np.random.default_rng(seed)
    lines = ["a,b,c,code,who"]
    for i, label in enumerate(labels):
        for row in np.eye(3)[i] * 5 + draw.normal(size=(each, 3)):
            lines.append(",".join(f"{v:.4f}" for v in row) + f",{label},{len(lines)}")
    path.write_text("\n".join(lines) + "\n")
    return path


NUMBERS = ["--features", "a,b,c"]


@pytest.fixture
def started(tmp_path):
    done = reticent("init", tmp_path / "model", *BUDGET, "--encoder", "none")
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_plan_says_which_learner_is_likely_better():
    few = json.loads(reticent("plan", *BUDGET, "--class-size", 100, "--learner", "peft", "--json").stdout)["training"]
    assert (few["likely_better"], few["steps"], few["batch"]) == ("cosine", 100, 200.0)
    many = reticent("plan", "--epsilon", 8, "--delta", "1e-5", "--class-size", 500, "--learner", "peft").stdout
    assert "Likely better: peft." in many
    assert "cosine, peft; got svm" in refused(reticent("plan", *BUDGET, "--learner", "svm"))


def test_init_with_peft(tmp_path):
    settings = ["--encoder", "none", "--learner", "peft", "--task-size", 600]
    assert reticent("init", tmp_path / "model", "--epsilon", 8, "--delta", "1e-5", *settings).returncode == 0
    march = write_csv(tmp_path / "march.csv", ["E10", "E11"])
    done = reticent("learn", march, "--model", tmp_path / "model", *NUMBERS, "--label", "code", "--json")
    assert json.loads(done.stdout)["labels_known"] == 2
    test = write_csv(tmp_path / "test.csv", ["E10", "E11"], each=20, seed=2)
    public = reticent(
        "evaluate", test, "--model", tmp_path / "model", *NUMBERS, "--label", "code", "--public", "--json"
    )
    assert json.loads(public.stdout)["accuracy"] > 0.9


def test_init_takes_a_custom_encoder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "from reticent import encoders\ndef make():\n    return encoders.wrap(len, width=1, name='my own')\n"
    (tmp_path / "mine_for_init.py").write_text(code)
    done = reticent("init", tmp_path / "model", *BUDGET, "--encoder", "mine_for_init:make")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "model" / "manifest.json").read_text())["encoder"]["name"] == "my own"


def test_init_prints_json(tmp_path):
    facts = json.loads(reticent("init", tmp_path / "model", *BUDGET, "--encoder", "none", "--json").stdout)
    assert facts["budget"]["epsilon"] == 1.0
    assert facts["rows"] == []


def test_init_learn_predict_evaluate(started):
    model = started / "model"
    march = write_csv(started / "march.csv", ["E10", "E11"])
    done = reticent("learn", march, "--model", model, *NUMBERS, "--label", "code", "--person", "who", "--json")
    facts = json.loads(done.stdout)
    assert (facts["task"], facts["labels_known"], facts["private"]) == ("march", 2, True)
    assert facts["epsilon"] <= 1.0001
    april = write_csv(started / "april.csv", ["E10", "E11", "G35"], seed=1)
    done = reticent("learn", april, "--model", model, *NUMBERS, "--label", "code")
    assert "Learned april. 3 label(s) known" in done.stdout
    out = started / "out.csv"
    test = write_csv(started / "test.csv", ["E10", "E11", "G35"], each=20, seed=2)
    assert "-o FILE.csv, or --json" in refused(reticent("predict", test, "--model", model, *NUMBERS))
    best = json.loads(reticent("predict", test, "--model", model, *NUMBERS, "--top", 2, "--json").stdout)["labels"]
    assert len(best) == 60
    assert all(len(row) == 2 and set(row) <= {"E10", "E11", "G35"} for row in best)
    assert reticent("predict", test, "--model", model, *NUMBERS, "-o", out, "--top", 2).returncode == 0
    rows = out.read_text().splitlines()
    assert rows[0] == "row,label,label_2"
    assert len(rows) == 61
    assert sum(row.split(",")[1] == "E10" for row in rows[1:21]) > 15
    public = reticent("evaluate", test, "--model", model, *NUMBERS, "--label", "code", "--public", "--json")
    assert json.loads(public.stdout)["accuracy"] > 0.9
    spends = json.loads(reticent("ledger", model, "--json").stdout)["rows"]
    assert [row["task"] for row in spends] == ["march", "april"]
    assert all(row["published"] for row in spends)


def test_private_accuracy_is_paid_for(started):
    model = started / "model"
    reticent("learn", write_csv(started / "march.csv", ["E10", "E11"]), "--model", model, *NUMBERS, "--label", "code")
    test = write_csv(started / "test.csv", ["E10", "E11"], each=2000, seed=2)
    done = reticent("evaluate", test, "--model", model, *NUMBERS, "--label", "code", "--epsilon", 0.5)
    assert re.fullmatch(r"accuracy [01]\.\d{4} \(noisy\)\n", done.stdout)
    spends = json.loads(reticent("ledger", model, "--json").stdout)["rows"]
    assert spends[-1]["task"] == "evaluation test"
    assert spends[-1]["epsilon"] == pytest.approx(0.5, rel=1e-6)
    again = reticent("evaluate", test, "--model", model, *NUMBERS, "--label", "code", "--epsilon", 0.9)
    assert "would cost more" in refused(again)
    whose = reticent("evaluate", test, "--model", model, *NUMBERS, "--label", "code", "--public", "--person", "who")
    assert "Expected --person with --epsilon only" in refused(whose)
    whose = reticent("evaluate", test, "--model", model, *NUMBERS, "--label", "code", "--epsilon", 0.1, "--unit", "no")
    assert "No column 'no' in the first line" in refused(whose)


def test_public_labels_with_a_taxonomy(tmp_path):
    (tmp_path / "labels.txt").write_text("E10\nE11\n")
    (tmp_path / "tree.csv").write_text("child,parent\nE10.2,E10\nE11.9,E11\n")
    settings = ["--labels", tmp_path / "labels.txt", "--taxonomy", tmp_path / "tree.csv", "--encoder", "none"]
    assert reticent("init", tmp_path / "model", *BUDGET, *settings).returncode == 0
    march = write_csv(tmp_path / "march.csv", ["E10.2", "E11.9"])
    learned = reticent("learn", march, "--model", tmp_path / "model", *NUMBERS, "--label", "code", "--json")
    assert json.loads(learned.stdout)["labels_known"] == 2
    test = write_csv(tmp_path / "test.csv", ["E10", "E11"], seed=3)
    done = reticent("evaluate", test, "--model", tmp_path / "model", *NUMBERS, "--label", "code", "--public", "--json")
    assert json.loads(done.stdout)["accuracy"] > 0.95


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (["--labels", "absent.txt"], "No file at"),
        (["--labels", "x", "--released"], "not both"),
        (["--taxonomy", "x"], "--labels FILE with --taxonomy"),
        (["--class-size", "3"], "No count weight"),
        (["--encoder", "magic"], "Expected an encoder"),
        (["--learner", "magic"], "Expected a learner"),
    ],
)
def test_init_refusals_print_one_line(extra, sentence, tmp_path):
    assert sentence in refused(reticent("init", tmp_path / "model", *BUDGET, *extra))
    assert not (tmp_path / "model").exists()


def test_learn_refusals_print_one_line(started):
    model = started / "model"
    march = write_csv(started / "march.csv", ["E10", "E11"])
    assert "is a model already" in refused(reticent("init", model, *BUDGET, "--encoder", "none"))
    assert "No column 'x'" in refused(reticent("learn", march, "--model", model, "--features", "x", "--label", "code"))
    assert "--label" in refused(reticent("learn", march, "--model", model, *NUMBERS))
    assert "No model at" in refused(reticent("learn", march, "--model", started / "no", *NUMBERS, "--label", "code"))
    assert "No file at" in refused(reticent("learn", started / "no.csv", "--model", model, *NUMBERS, "--label", "code"))
    assert reticent("learn", march, "--model", model, *NUMBERS, "--label", "code").returncode == 0
    again = refused(reticent("learn", march, "--model", model, *NUMBERS, "--label", "code"))
    assert "another name" in again
    assert "--void 2" in again
    scores = ["evaluate", march, "--model", model, *NUMBERS, "--label", "code"]
    assert "--public" in refused(reticent(*scores))
    assert "--public" in refused(reticent(*scores, "--public", "--epsilon", 1))
    out = started / "no" / "out.csv"
    assert "Cannot write" in refused(reticent("predict", march, "--model", model, *NUMBERS, "-o", out))


# --- experiments

SPEC = f"""
title = "Mine"
data = "{DATA}"
learner = ["cosine-paper", "cosine"]
labels = ["oracle", "base"]
seeds = 2
"""


@pytest.fixture
def bench(tmp_path):
    """A spec whose runs are all there: nothing is left to run."""
    (tmp_path / "mine.toml").write_text(SPEC)
    with Folder(tmp_path / "results") as folder:
        for run in specs.spec(str(tmp_path / "mine.toml")).runs:
            folder.write(f"runs/{run.digest}.json", json.dumps(done(run, 0.5 if run.labels == "base" else 0.7)))
    return ["bench", tmp_path / "mine.toml", "--data", tmp_path / "data", "--out", tmp_path / "results"]


@pytest.mark.parametrize("words", [["bench"], ["bench", "--list"], ["bench", "labels", "--list"]])
def test_bench_lists_what_there_is(tmp_path, words):
    done = reticent(*words, "--out", tmp_path / "results")
    assert done.returncode == 0
    rows = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    assert set(specs.names()) <= rows
    assert list(tmp_path.iterdir()) == []


def test_the_documented_list_is_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = [line.strip() for line in reticent("bench", "--list", "--out", "new").stdout.splitlines()]
    page = (Path(__file__).parents[1] / "docs" / "benchmarks.md").read_text()
    shown = page.split("$ reticent bench --list --out new/\n")[1].split("\n\n")[0].splitlines()
    assert [line.strip() for line in shown] == [line for line in printed if line]


def test_the_list_knows_how_long_experiments_without_data_take(bench, tmp_path):
    def left() -> dict[str, int]:
        entries = json.loads(reticent("bench", "--list", "--json", "--out", tmp_path / "results").stdout)
        return {entry["name"]: entry["seconds_left"] for entry in entries if entry["name"] in ("attack", "drop")}

    assert left() == WITHOUT_DATA
    (tmp_path / "results" / "attack.json").write_text('{"points": [], "bounds": []}')
    assert left() == {**WITHOUT_DATA, "attack": 0}


def test_bench_lists_for_scripts(bench, tmp_path):
    entries = json.loads(reticent("bench", "--list", "--json", "--out", tmp_path / "results").stdout)
    assert [entry["name"] for entry in entries] == list(specs.names())
    assert all(entry["done"] + entry["failed"] <= entry["runs"] and entry["left"] for entry in entries)


def test_bench_writes_tables_without_running(bench, tmp_path):
    (tmp_path / "mine.toml").write_text(SPEC.replace("seeds = 2", "seeds = 3"))
    before = sorted((tmp_path / "results" / "runs").iterdir())
    done = reticent(*bench, "--tables-only", "--page", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    assert "0 run(s), 0 failed." in done.stdout
    assert sorted((tmp_path / "results" / "runs").iterdir()) == before
    page = (tmp_path / "page.md").read_text()
    assert "[2 of 3 seeds]" in page
    assert "--tables" not in page  # the command that makes the results


def test_bench_writes_tables_and_a_page(bench, tmp_path):
    done = reticent(*bench, "--page", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "cifar100-features, reproduced: Base Dataset below Label Oracle (the paper's Cosine, epsilon 1): "
        "base 50.0, oracle 70.0"
    )
    assert "were made by other code of this version" in done.stdout
    assert lines[-1] == f"0 run(s), 0 failed. Tables: {tmp_path / 'results' / 'tables'}"
    page = (tmp_path / "page.md").read_text()
    assert f"Written by `reticent bench {tmp_path / 'mine.toml'} --data" in page
    assert "| 50.0 (50.0, 50.0) |" in page
    tables = tmp_path / "results" / "tables"
    assert {file.name for file in tables.iterdir()} == {"mine.json", "mine.md", "mine.tex"}
    assert (tables / "mine.md").read_text() in page


def test_bench_shows_all_of_a_spec_of_which_it_ran_a_part(bench, tmp_path):
    (tmp_path / "mine.toml").write_text(SPEC.replace("seeds = 2", "seeds = 5"))
    facts = json.loads(reticent(*bench, "--seeds", 2, "--only", "cosine", "--json").stdout)
    assert (facts["ran"], facts["failed"], facts["missing"], facts["private"]) == (0, 0, {}, False)
    assert facts["tables"]["mine"][0]["rows"][0][-1] == "50.0 (50.0, 50.0) [2 of 5 seeds]"


def test_bench_runs_and_says_what_failed(tmp_path):
    write_features(tmp_path / "data")
    fails = 'data = "{data}"\nlearner = "{learner}"\nepsilon = 8\ntasks = 3\nseeds = 1'
    (tmp_path / "good.toml").write_text(fails.format(data=DATA, learner="cosine"))
    (tmp_path / "bad.toml").write_text(fails.format(data=DATA, learner="no.such:Learner"))
    (tmp_path / "gone.toml").write_text(fails.format(data="clinc150", learner="cosine"))
    specs = [tmp_path / name for name in ("good.toml", "bad.toml", "gone.toml")]
    done = reticent("bench", *specs, "--data", tmp_path / "data", "--out", tmp_path / "results", "--workers", 1)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    good, bad, gone, *_, last = done.stdout.splitlines()
    assert re.fullmatch(rf"{DATA} cosine base epsilon 8 seed 0: \d+\.\d %; 2 to go, about \d+ s", good)
    assert "failed: InvalidValue: Expected a learner at no.such:Learner" in bad
    assert gone.startswith("clinc150 needs clinc150_data_full.json in the data folder (--data)")
    assert last.startswith("2 run(s), 1 failed.")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_bench_without_any_data_prints_one_line(tmp_path, options):
    (tmp_path / "mine.toml").write_text(SPEC)
    out = tmp_path / "results"
    done = reticent("bench", tmp_path / "mine.toml", "--data", tmp_path, "--out", out, "--workers", 1, *options)
    assert "needs cifar100_efficientnet_lite0.npz in the data folder" in refused(done)
    assert not (out / "tables").exists()


def test_a_spec_without_runs_is_refused(tmp_path):
    (tmp_path / "empty.toml").write_text('title = "Empty"\ngrid = []\n')
    for words in ([], ["--tables"]):
        done = reticent("bench", tmp_path / "empty.toml", "--out", tmp_path / "results", *words)
        assert "Spec empty has no runs. Give it a [[grid]] with data and learner." in refused(done)
    assert not (tmp_path / "results").exists()


def test_tables_are_of_a_results_folder(bench, started, tmp_path):
    (tmp_path / "other").mkdir()
    for folder in (tmp_path / "nothing", tmp_path / "other", started / "model"):
        before = sorted(folder.rglob("*"))
        assert f"{folder} holds no results." in refused(reticent(*bench[:-1], folder, "--tables"))
        assert sorted(folder.rglob("*")) == before
    assert not (tmp_path / "nothing").exists()
    assert "is a model directory. Choose another --out." in refused(reticent(*bench[:-1], started / "model"))


def test_damaged_files_of_a_results_folder_are_left_out(bench, tmp_path):
    assert reticent(*bench).returncode == 0
    out = tmp_path / "results"
    first, *_ = sorted((out / "runs").iterdir())
    for file in (first, out / "tables" / "mine.json", out / "attack.json", out / "drop.json", out / "streams.json"):
        file.write_text('{"status": "do')
    assert reticent("report", out).returncode == 0
    page = (out / "report.html").read_text()
    assert "tables/mine.json is damaged and left out" in page
    assert "7 runs, 0 of them failed" in page
    entries = json.loads(reticent("bench", "--list", "--json", "--out", out).stdout)
    assert {entry["name"]: entry["done"] for entry in entries}["drop"] == 0
    done = reticent(*bench, "attack", "drop", "--tables")
    assert done.returncode == 0, done.stderr
    assert "[1 of 2 seeds]" in (out / "tables" / "mine.md").read_text()
    assert "*not run here*" in (out / "tables" / "attack.md").read_text()
    assert reticent("report", out).returncode == 0
    assert "is damaged" not in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["magic"], "No spec is called magic. There are aggregation"),
        (["absent.toml"], "Expected a spec at absent.toml"),
        (["labels", "--seeds", "0"], "Expected seeds >= 1"),
        (["labels", "--workers", "0"], "Expected workers >= 1"),
        (["labels", "--threads", "0"], "Expected threads >= 1"),
        (["labels", "--only", "mnist", "--only", "cosine"], "No run of labels is left by --only mnist --only cosine"),
        (["labels", "--page", "no/where/page.md"], "Expected --page in an existing folder"),
        (["labels", "--workers", "two"], "workers"),
    ],
)
def test_bench_refusals_print_one_line(tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(reticent("bench", *words))
    assert list(tmp_path.iterdir()) == []


def test_bench_refuses_folders_that_are_not_its_own(bench, tmp_path):
    with Folder(tmp_path / "results"):
        assert "Another runner is at work" in refused(reticent(*bench))
    assert reticent(*bench).returncode == 0
    (tmp_path / "results" / "bench.json").write_text('{"format": 1, "version": "0.0.1"}')
    assert "holds results of reticent 0.0.1" in refused(reticent(*bench))
    sentence = refused(reticent("report", tmp_path / "results"))
    assert "holds results of reticent 0.0.1" in sentence
    assert sentence.endswith("Make new ones in another folder: reticent bench NAME --out DIR")
    (tmp_path / "file").write_text("")
    assert "Cannot write results to" in refused(reticent(*bench[:-1], tmp_path / "file"))


def test_report_of_results_and_of_a_model(bench, started):
    assert reticent(*bench).returncode == 0
    results = bench[-1]
    done = reticent("report", results)
    assert done.stdout == f"Wrote {results / 'report.html'}.\n"
    march = write_csv(started / "march.csv", ["E10", "E11"])
    assert reticent("learn", march, "--model", started / "model", *NUMBERS, "--label", "code").returncode == 0
    assert reticent("report", started / "model", "--out", started / "model.html").returncode == 0
    pages = [(results / "report.html").read_text(), (started / "model.html").read_text()]
    for page in pages:
        assert page.startswith("<!doctype html>")
        assert not re.search(r'(src|href)="(?!#)', page)  # self-contained: nothing is fetched
    assert "Base Dataset below Label Oracle" in pages[0]
    assert "march" in pages[1]
    assert "E10" not in pages[1]


class OwnEncoder:
    """Weights of the user's own, known by a digest."""

    name, digest = "mine", "0123"

    def __call__(self, inputs: Any) -> np.ndarray:
        return np.asarray(inputs, dtype=np.float32)


@pytest.mark.parametrize("encoder", [None, OwnEncoder()], ids=["features", "an encoder that is not there"])
def test_the_report_of_a_model_needs_no_encoder(tmp_path, encoder):
    model = rt.ContinualClassifier(
        encoder=encoder,
        labels=rt.PublicLabels(["secret name", "b"]),
        budget=rt.Budget(epsilon=1.0, delta=1e-5),
        path=tmp_path / "model",
    )
    model.learn_task(np.eye(2, dtype=np.float32), ["b", "b"], name="march")
    assert reticent("report", tmp_path / "model").returncode == 0
    text = (tmp_path / "model" / "report.html").read_text()
    assert "1 releases; 2 labels known" in text
    assert "march" in text
    assert "secret name" not in text


def test_the_report_of_a_model_loads_no_experiments(started):
    code = "import sys; from reticent.cli.experiments import report; from pathlib import Path; "
    code += "report(Path(sys.argv[1]), None); print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code, started / "model"], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith("reticent.lab.")] == []


def test_report_refusals_print_one_line(bench, tmp_path):
    assert "holds no results. Run: reticent bench" in refused(reticent("report", tmp_path / "nothing"))
    out = tmp_path / "no" / "where.html"
    assert "Cannot write" in refused(reticent("report", tmp_path / "results", "--out", out))
