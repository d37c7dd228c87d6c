"""Verbs for experiments, as a user meets them: what is printed where, and exit codes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reticent as rt
from reticent.lab.bench import run_rows, specs
from reticent.lab.bench.estimates import WITHOUT_DATA
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.versions import version_of
from tests.cli.command import EACH, NUMBERS, refused, reticent, write_csv
from tests.lab.tiny import DATA, done, write_features


def test_attack_json():
    facts = json.loads(reticent("attack", "labels", "--trials", 2000, "--trainings", 60, "--json").stdout)
    games = facts["games"]
    assert all(g["accuracy"] == 1.0 and g["broken"] for g in games if not g["remedy"])
    assert not any(g["broken"] for g in games if g["remedy"])
    low, high = games[0]["interval"]
    assert low <= games[0]["accuracy"] <= high
    assert {r["epsilon"] for r in facts["curve"]} >= {0.1, 1.0, 8.0}


def test_few_games_prove_nothing_and_say_so():
    shown = reticent("attack", "labels", "--trials", 50, "--trainings", 8).stdout
    leaking = [line for line in shown.splitlines() if " 1.000 " in line]
    assert leaking
    assert all("not significantly" in line for line in leaking)
    assert "within the bound" not in shown
    assert max(len(line.rstrip()) for line in shown.splitlines() if "  " in line.strip()) <= 80  # the tables


@pytest.mark.parametrize("arguments", ["--trials 0", "--trainings 0", "--delta 0", "--epsilon nan", "--plot x.gif"])
def test_attack_refusals_print_one_line(arguments):
    assert "Expected" in refused(reticent("attack", "labels", *arguments.split()))


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
    monkeypatch.setenv("COLUMNS", "80")
    printed = [line.strip() for line in reticent("bench", "--list", "--out", "new").stdout.splitlines()]
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    shown = page.split("$ reticent bench --list --out new/\n")[1].split("\n\n")[0].splitlines()
    assert [line.strip() for line in shown] == [line for line in printed if line]


def test_the_list_knows_how_long_experiments_without_data_take(bench, tmp_path):
    def left() -> dict[str, int]:
        entries = json.loads(reticent("bench", "--list", "--json", "--out", tmp_path / "results").stdout)
        return {entry["name"]: entry["seconds_left"] for entry in entries if entry["name"] in ("attack", "drop")}

    assert left() == WITHOUT_DATA
    made: dict[str, object] = {"points": [], "bounds": []}
    (tmp_path / "results" / "attack.json").write_text(json.dumps({**made, "version": 0}))
    assert left() == WITHOUT_DATA
    (tmp_path / "results" / "attack.json").write_text(json.dumps({**made, "version": version_of("attack")}))
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
    assert lines[-1] == f"0 run(s), 0 failed. Tables: {tmp_path / 'results' / 'tables'}"
    page = (tmp_path / "page.md").read_text()
    assert f"Written by `reticent bench {tmp_path / 'mine.toml'} --data" in page
    assert "| 50.0 (50.0, 50.0) |" in page
    tables = tmp_path / "results" / "tables"
    assert {file.name for file in tables.iterdir()} == {"mine.json", "mine.md", "mine.tex"}
    assert (tables / "mine.md").read_text() in page


CLOSE = 0.49949962  # 49.9 %, but 50.0 % when it is rounded as rows are


def test_the_page_of_rows_is_that_of_the_folder(tmp_path):
    assert f"{100 * CLOSE:.1f} {100 * round(CLOSE, 6):.1f}" == "49.9 50.0"
    (tmp_path / "mine.toml").write_text(SPEC)
    out, rows = tmp_path / "results", tmp_path / "folder" / "runs.parquet"
    with Folder(out) as folder:
        for run in specs.spec(str(tmp_path / "mine.toml")).runs:
            made = done(run, CLOSE, curve=[CLOSE] * run.tasks)
            folder.write(f"runs/{run.digest}.json", json.dumps(made))
    words = ["bench", tmp_path / "mine.toml", "drop", "--data", tmp_path / "data"]
    assert reticent(*words, "--out", out, "--page", tmp_path / "folder.md").returncode == 0
    new = [*words, "--resume", rows, "--tables-only", "--out", tmp_path / "new"]
    again = reticent(*new, "--page", tmp_path / "folder" / "rows.md")
    assert again.returncode == 0, again.stderr
    pages = [(tmp_path / name).read_text() for name in ("folder.md", "folder/rows.md")]
    first, second = (page.replace("`rows/", "`folder/").replace("(rows/", "(folder/").splitlines() for page in pages)
    assert first[:2] + first[3:] == second[:2] + second[3:]  # but for the command
    assert "50.0 (50.0, 50.0)" in pages[0]
    for name in ("runs.parquet", "cells.csv", "drop.json"):
        assert (tmp_path / "folder" / name).read_bytes() == (tmp_path / "folder" / "rows" / name).read_bytes()
    assert reticent("report", tmp_path / "new").returncode == 0
    assert "Runs by the version of their learner: 1 (8)." in (tmp_path / "new" / "report.html").read_text()


def test_no_minutes_begin_no_run(bench, tmp_path):
    (tmp_path / "mine.toml").write_text(SPEC.replace("seeds = 2", "seeds = 3"))
    done = reticent(*bench, "--minutes", 0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Time is up: 4 run(s) are left.")
    assert "Expected minutes >= 0" in refused(reticent(*bench, "--minutes", -1))


def test_tables_of_rows_of_other_versions_are_refused_in_a_new_folder(bench, tmp_path):
    made = {run.digest: done(run, 0.5, version=0) for run in specs.spec(str(tmp_path / "mine.toml")).runs}
    (tmp_path / "runs.parquet").write_bytes(run_rows.to_parquet(made))
    refusal = reticent(*bench[:-1], tmp_path / "new", "--resume", tmp_path / "runs.parquet", "--tables-only")
    assert refusal.returncode == 2
    assert "new holds no results." in " ".join(refusal.stderr.split())
    assert not (tmp_path / "new").exists()


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
    gone, good, bad, *_, last = done.stdout.splitlines()
    assert re.fullmatch(rf"{DATA} cosine base epsilon 8 3 tasks seed 0: \d+\.\d %; 1 to go, about \d+ s", good)
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
    for words in ([], ["--tables-only"]):
        done = reticent("bench", tmp_path / "empty.toml", "--out", tmp_path / "results", *words)
        assert "Spec empty has no runs. Give it a [[grid]] with data and learner." in refused(done)
    assert not (tmp_path / "results").exists()


def test_tables_are_of_a_results_folder(bench, started, tmp_path):
    (tmp_path / "other").mkdir()
    for folder in (tmp_path / "nothing", tmp_path / "other", started / "model"):
        before = sorted(folder.rglob("*"))
        assert f"{folder} holds no results." in refused(reticent(*bench[:-1], folder, "--tables-only"))
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
    done = reticent(*bench, "attack", "drop", "--tables-only")
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
    assert reticent("learn", EACH, march, "--model", started / "model", *NUMBERS, "--label", "code").returncode == 0
    assert reticent("report", started / "model", "--out", started / "model.html").returncode == 0
    pages = [(results / "report.html").read_text(), (started / "model.html").read_text()]
    for page in pages:
        assert page.startswith("<!doctype html>")
        assert not re.search(r'(src|href)="(?!#)', page)  # self-contained: nothing is fetched
    assert "Base Dataset below Label Oracle" in pages[0]
    assert "march" in pages[1]
    assert "E10" not in pages[1]


OWN = rt.encoders.wrap(lambda rows: np.asarray(rows, dtype=np.float32), width=2, name="mine")


@pytest.mark.parametrize("encoder", [None, OWN], ids=["features", "an encoder that is not there"])
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
    assert "1 release(s); 2 label(s) known" in text
    assert "march" in text
    assert "secret name" not in text


def test_sign_off_is_written_beside_the_statement(started, tmp_path):
    done = reticent("report", started / "model", "--sign-off")
    file = started / "model" / "sign-off.html"
    assert done.stdout == f"Wrote {file}.\n"
    assert "<h1>Privacy sign-off: model</h1>" in file.read_text()
    assert (started / "model" / "privacy_statement.txt").exists()
    assert not (started / "model" / "report.html").exists()
    assert reticent("report", started / "model", "--sign-off", "--out", tmp_path / "s.html").returncode == 0
    assert (tmp_path / "s.html").read_text() == file.read_text()
    sentence = refused(reticent("report", tmp_path / "nothing", "--sign-off"))
    assert sentence.endswith("nothing holds no model.")


def test_a_report_of_nothing_says_what_is_expected(tmp_path):
    (tmp_path / "empty").mkdir()
    for name, why in (("nomodel", "does not exist"), ("empty", "holds neither")):
        sentence = refused(reticent("report", tmp_path / name))
        assert "a model directory, which reticent init makes, or results, which reticent bench makes" in sentence
        assert sentence.endswith(f"{tmp_path / name} {why}.")
    assert list((tmp_path / "empty").iterdir()) == []


def test_the_report_of_a_model_loads_no_experiments(started):
    code = "import sys; from reticent.cli.experiments import report; from pathlib import Path; "
    code += "report(Path(sys.argv[1]), None); print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code, started / "model"], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith("reticent.lab.")] == []


def test_report_refusals_print_one_line(bench, tmp_path):
    assert "or results, which reticent bench makes" in refused(reticent("report", tmp_path / "nothing"))
    out = tmp_path / "no" / "where.html"
    assert "Cannot write" in refused(reticent("report", tmp_path / "results", "--out", out))


def test_bounds_are_rounded_up_where_they_are_printed():
    """(e + delta) / (1 + e) = 0.73106 was shown as 0.731; the noise of a plan too."""
    done = reticent("attack", "labels", "--trials", 50, "--trainings", 1)
    assert " 0.732 " in done.stdout
    assert " 0.731 " not in done.stdout
    planned = reticent("plan", "--epsilon", 1, "--delta", 1e-5, "--class-size", 100).stdout
    assert re.search(r"public labels .* 3\.7307 ", planned)
