"""Pages of a results folder: Markdown, JSON, the list of experiments and the HTML report."""

import json
import re
from typing import Any

import pytest

from reticent import errors
from reticent.lab.bench import pages, specs, without_data
from reticent.lab.bench.checks import NOT_REPRODUCED
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.one_run import failed
from reticent.lab.bench.runner import Outcome
from reticent.lab.bench.versions import VERSIONS, version_of
from tests.lab.tiny import done

SPEC = """
title = "Mine"
data = "clinc150"
learner = ["cosine-paper", "cosine"]
labels = ["oracle", "base"]
seeds = 2
"""


@pytest.fixture
def folder(tmp_path):
    spec = specs.read("mine", SPEC)
    with Folder(tmp_path / "results") as opened:
        for run in spec.runs:
            good = 0.7 if (run.learner == "cosine") == (run.labels == "oracle") else 0.5
            result = done(run, good) if run.seed == 0 else failed(run, "no room <b>")
            opened.write(f"runs/{run.digest}.json", json.dumps(result))
    return opened


def test_the_page_says_how_it_was_made_and_everything_on_it(folder):
    spec = specs.read("mine", SPEC)
    text = pages.markdown([spec, specs.spec("drop")], folder.path, command="reticent bench mine.toml --page x.md")
    assert text.startswith("# Results\n")
    assert "Written by `reticent bench mine.toml --page x.md`, never by hand. NOT PRIVATE" in text
    assert "4 runs, 12 s of one core in all, of resumed runs the last part; 4 more are not run, about 12 s." in text
    assert text.index("## On one screen") < text.index("## How it was made") < text.index("## Findings of the paper\n")
    assert "| clinc150 | public | 70.0 / - | 50.0 / - | - | - |" in text
    behind = text.split("## Where ours is behind the paper's method")[1].split("## ")[0].split("\n")
    (worse,) = [line for line in behind if line.startswith("| clinc150")]
    assert "Cosine Classifier, 50.0 | Cosine Classifier, 70.0 | 20.0 | 1 | not explained: one seed" in worse
    assert text.index("## On one screen") < text.index("## The paper's claims") < text.index("## Where ours is behind")
    assert "## Settings that were chosen with a look at test data" in text
    assert "## Mine" in text
    assert "50.0 [1 of 2 seeds] [1 failed]" in text
    assert "*not run here*" in text  # drop
    assert "Python 3, m, 2 cores, 1 thread(s) a run" in text
    assert "Runs by the version of their learner: 1 (4)." in text
    assert "Runs by their commands: reticent bench mine (4)." in text


def test_runs_of_another_version_are_not_shown(folder, monkeypatch):
    monkeypatch.setitem(VERSIONS, "cosine", 2)
    text = pages.markdown([specs.read("mine", SPEC)], folder.path, command="")
    assert "2 runs, 6 s of one core in all, of resumed runs the last part; 6 more are not run" in text


def test_results_that_do_not_say_what_made_them_are_not_shown(folder):
    spec = specs.read("mine", SPEC)
    runs = [run for run in spec.runs if run.seed == 0]
    with folder as opened:
        unsaid: list[dict[str, Any]] = [{"version": None}, {"command": None}]
        for run, fields in zip(runs, unsaid, strict=False):
            opened.write(f"runs/{run.digest}.json", json.dumps(done(run, 0.97, **fields)))
    text = pages.markdown([spec], folder.path, command="")
    assert "2 runs, 6 s of one core in all, of resumed runs the last part; 6 more are not run" in text
    assert "97.0" not in text
    assert "not written down" not in text


def test_figures_and_rows_lie_beside_the_page(folder, tmp_path):
    spec = specs.read("mine", SPEC)
    pages.write(tmp_path / "page.md", [spec, specs.spec("labels")], folder.path, command="reticent bench mine")
    text = (tmp_path / "page.md").read_text()
    assert "![Where labels come from, epsilon 1](page/labels.svg)" in text
    assert (tmp_path / "page" / "labels.svg").read_text().startswith("<svg")
    assert (tmp_path / "page" / "runs.parquet").stat().st_size > 0
    assert len((tmp_path / "page" / "cells.csv").read_text().splitlines()) == 1 + 4
    assert not (tmp_path / "page" / "drop.json").exists()
    folder.write("drop.json", json.dumps(made := without_data.measured("drop")))
    pages.write(tmp_path / "page.md", [spec], folder.path, command="reticent bench mine")
    assert without_data.stored(tmp_path / "page", "drop") == made
    # rows of which nothing was run are folded away
    assert "row(s) of this table were not run here</summary>" in text
    assert "- 1, PEFT Ensemble, ours here, clinc150, 5 seeds: *not run here*" in text


def test_a_folder_without_results_has_a_page(tmp_path):
    with pytest.raises(errors.InvalidValue, match="holds no results"):
        pages.markdown([], tmp_path, command="")
    with Folder(tmp_path / "results"):
        pass
    assert "0 pairs of one of our methods" in pages.markdown([], tmp_path / "results", command="reticent bench")


def test_json_holds_everything_for_scripts(folder):
    spec = specs.read("mine", SPEC)
    facts = json.loads(json.dumps(pages.to_json([spec], folder.path, Outcome(4, 1, {"icd10cm": "is not there"}))))
    assert (facts["private"], facts["ran"], facts["failed"]) == (False, 4, 1)
    assert facts["missing"] == {"icd10cm": "is not there"}
    assert facts["findings"][0]["verdict"] == NOT_REPRODUCED
    assert facts["tables"]["mine"][0]["columns"][-1] == "Base Dataset"


def test_the_list_counts_what_is_done_and_failed(folder):
    entries = {entry["name"]: entry for entry in pages.listing(folder.path)}
    assert set(entries) == set(specs.names())
    wanted = {run.digest for run in specs.read("mine", SPEC).runs}
    runs = specs.spec("labels").runs
    assert entries["labels"]["runs"] == len(runs)
    assert entries["labels"]["done"] == entries["labels"]["failed"] == 4 == len(wanted) // 2
    assert (entries["drop"]["runs"], entries["drop"]["done"]) == (1, 0)
    folder.write("drop.json", json.dumps({"delta": 1e-7, "curves": []}))  # of unknown version
    assert {entry["name"]: entry["done"] for entry in pages.listing(folder.path)}["drop"] == 0
    folder.write("drop.json", json.dumps({"delta": 1e-7, "curves": [], "version": version_of("drop")}))
    again = {entry["name"]: entry for entry in pages.listing(folder.path)}
    assert again["drop"]["done"] == 1
    assert entries["labels"]["seconds_left"] > 0
    assert entries["labels"]["data"] == "clinc150, cifar100-features, icd10cm, digits, phenotypes"


def test_the_list_needs_no_folder(tmp_path):
    assert {entry["done"] for entry in pages.listing(tmp_path / "nothing")} == {0}
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "bench.json").write_text('{"format": 1, "version": "0.0.1"}')
    with pytest.raises(errors.InvalidValue, match=r"reticent 0\.0\.1"):
        pages.listing(tmp_path)


# --- reports


def self_contained(text: str) -> bool:
    return text.startswith("<!doctype html>") and not re.search(r'(src|href)="(?!#)', text) and "@import" not in text


def test_the_report_of_results_is_one_file(folder):
    table = {"title": "Mine", "caption": "", "columns": ["a"], "rows": [["*failed*"]], "notes": []}
    folder.write("tables/mine.json", json.dumps([table]))
    text = pages.report(folder.path)
    assert self_contained(text)
    assert "Findings of the paper" in text
    assert "Our claims" in text
    assert "<em>failed</em>" in text
    assert "no room &lt;b&gt;" in text
    assert "NOT PRIVATE" in text


def test_the_report_begins_with_what_to_take_away_and_how_it_was_made(folder):
    table = {"title": "Mine", "caption": "", "columns": ["a"], "rows": [["1"]], "notes": []}
    folder.write("tables/mine.json", json.dumps([table]))
    text = pages.report(folder.path)
    sections = re.findall("<h2>(.*?)</h2>", text)
    assert sections[:4] == [
        "On one screen",
        "The paper&#x27;s claims",
        "Where ours is behind the paper&#x27;s method",
        "How it was made",
    ]
    assert len(sections) > 6
    made = text[text.index("How it was made</h2>") :].split("</section>")[0]
    for said in (
        "8 runs, 4 of them failed; 1 data set(s), 2 learner(s), 2 seed(s).",
        "Runs by the version of their learner: 1 (4).",
        "Runs by their commands: reticent bench mine (4).",
        "Python 3, m, 2 cores, 1 thread(s) a run",
    ):
        assert said in made
    short = re.findall('<p class="takeaway">(.*?)</p>', text)
    assert [sentence.split()[0] for sentence in short] == ["0", "Our"]
    assert [text.count(sentence) for sentence in short] == [1, 1]  # not once more in a caption
    assert re.findall(r"[^<>]*\*\w[^<>]*", re.sub("<(style|script)>.*?</\\1>", "", text, flags=re.DOTALL)) == []


def test_learners_that_share_a_name_are_counted_and_told_apart(tmp_path):
    spec = specs.read("mine", 'data = "clinc150"\nlearner = ["naive", "naive-paper", "cosine"]\nseeds = 2')
    with Folder(tmp_path) as folder:
        for run in spec.runs:
            folder.write(
                f"runs/{run.digest}.json", json.dumps(done(run, {"naive": 0.2, "cosine": 0.5}.get(run.learner, 0.4)))
            )
    text = pages.report(tmp_path)
    assert "3 learner(s)" in text
    costs = text[text.index("Cost in epsilon and seconds</h2>") :]
    rows = re.findall(r"<td[^>]*>([^<]*)</td><td class=\"number\">(\d)</td>", costs)
    assert {name.split(" · ")[0]: seeds for name, seeds in rows} == {
        "Naive, baseline here (naive)": "2",
        "Naive, baseline here (naive-paper)": "2",
        "Cosine Classifier, ours here": "2",
    }


def test_reports_of_other_folders_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(errors.InvalidValue, match="holds no results"):
            pages.report(path)
