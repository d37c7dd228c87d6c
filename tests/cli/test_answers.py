"""predict and evaluate: which columns are written where, formats by ending, and what is said of an accuracy."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import reticent as rt
from reticent import encoders
from tests.cli.command import BUDGET, EACH, NUMBERS, refused, reticent, write_csv


@pytest.fixture
def learned(started):
    march = write_csv(started / "march.csv", ["E10", "E11"], each=200)
    done = reticent("learn", EACH, march, "--model", started / "model", *NUMBERS, "--label", "code")
    assert done.returncode == 0, done.stderr
    return started


@pytest.fixture
def new(learned):
    (learned / "new.csv").write_text("id,a,b,c,note\np7,5,0,0,fever\np8,0,5,0,=cough\np9,?,5,0,pain\n")
    return ["predict", learned / "new.csv", "--model", learned / "model", *NUMBERS]


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_predictions_carry_the_columns_that_were_asked_for_and_no_others(new, tmp_path):
    done = reticent(*new, "-o", tmp_path / "out.csv")
    assert done.stdout == (
        f"Wrote {tmp_path / 'out.csv'}: one row for each example, in their order; columns row, label.\n"
    )
    assert rows_of(tmp_path / "out.csv") == [["row", "label"], ["1", "E10"], ["2", "E11"], ["3", "<unknown>"]]
    assert reticent(*new, "-o", tmp_path / "out.csv", "--keep", "id", "--keep", "note").returncode == 0
    assert rows_of(tmp_path / "out.csv")[:3] == [
        ["row", "id", "note", "label"],
        ["1", "p7", "fever", "E10"],
        ["2", "p8", "=cough", "E11"],
    ]


def test_a_column_of_any_name_is_carried_along(new, learned, tmp_path):
    (learned / "new.csv").write_text("file,a,b,c\nx.png,5,0,0\n")
    assert reticent(*new, "--keep", "file", "-o", tmp_path / "out.csv").returncode == 0
    assert rows_of(tmp_path / "out.csv") == [["row", "file", "label"], ["1", "x.png", "E10"]]


def test_texts_are_not_written_beside_labels_unless_asked_for(tmp_path):
    (tmp_path / "labels.txt").write_text("short\nlong\n")
    init = [
        "init",
        tmp_path / "model",
        *BUDGET,
        "--labels",
        tmp_path / "labels.txt",
        "--encoder",
        "tests.reading:WORDS",
    ]
    assert reticent(*init).returncode == 0
    (tmp_path / "new.csv").write_text("note,length\nprivate words,long\n")
    named = ["--text", "note", "--label", "length", "--encoder", "tests.reading:WORDS", EACH]
    assert reticent("learn", tmp_path / "new.csv", "--model", tmp_path / "model", *named).returncode == 0
    predict = ["predict", tmp_path / "new.csv", "--model", tmp_path / "model", "--text", "note"]
    predict += ["--encoder", "tests.reading:WORDS", "-o", tmp_path / "out.csv"]
    assert reticent(*predict).returncode == 0
    assert "private words" not in (tmp_path / "out.csv").read_text()
    assert reticent(*predict, "--keep", "note").returncode == 0
    assert "private words" in (tmp_path / "out.csv").read_text()


def test_top_k_comes_with_scores_best_first(new, tmp_path):
    assert reticent(*new, "-o", tmp_path / "out.csv", "--top-k", 3).returncode == 0
    header, first, _, last = rows_of(tmp_path / "out.csv")
    assert header == ["row", "label", "score", "label_2", "score_2", "label_3", "score_3"]
    assert first[1] == "E10"
    assert float(first[2]) > float(first[4])
    assert first[5:] == ["<unknown>", ""]  # two labels are known
    assert last[1:] == ["<unknown>", ""] * 3
    facts = json.loads(reticent(*new, "--json", "--top-k", 2).stdout)
    assert facts["scores"][0] == [float(first[2]), float(first[4])]
    assert facts["scores"][2] == [None, None]


def test_the_format_follows_the_ending(new, tmp_path):
    from pyarrow import parquet

    expected = [
        {"row": 1, "id": "p7", "label": "E10"},
        {"row": 2, "id": "p8", "label": "E11"},
        {"row": 3, "id": "p9", "label": "<unknown>"},
    ]
    for ending in ("json", "jsonl", "parquet"):
        done = reticent(*new, "--keep", "id", "-o", tmp_path / f"out.{ending}")
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.json").read_text()) == expected
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == expected
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected
    assert "ends in .csv, .parquet, .json, .jsonl" in refused(reticent(*new, "-o", tmp_path / "out.xlsx"))
    assert not (tmp_path / "out.xlsx").exists()


def test_scores_that_are_none_are_null(new, tmp_path):
    from pyarrow import parquet

    for ending in ("json", "parquet"):
        assert reticent(*new, "--top-k", 1, "-o", tmp_path / f"out.{ending}").returncode == 0
    assert json.loads((tmp_path / "out.json").read_text())[2]["score"] is None
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist()[2]["score"] is None


def test_standard_input_and_output(new, learned, monkeypatch):
    words = ["predict", "-", *new[2:], "--keep", "id", "-o", "-"]
    with (learned / "new.csv").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        done = reticent(*words)
    assert done.stdout.splitlines() == ["row,id,label", "1,p7,E10", "2,p8,E11", "3,p9,<unknown>"]
    assert "-o - for CSV on standard output; not both" in refused(reticent(*new, "-o", "-", "--json"))
    learn = ["learn", EACH, "-", "--model", learned / "model", *NUMBERS, "--label", "code"]
    assert "--name for data from standard input" in refused(reticent(*learn))
    with write_csv(learned / "april.csv", ["G35"], each=300).open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert "Learned april" in reticent(*learn, "--name", "april").stdout
    with (learned / "april.csv").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        missing = reticent("predict", "-", "--model", learned / "model", "--features", "a,b,z", "-o", "-")
        assert "No column 'z' in the first line of standard input." in refused(missing)


def process(words: list[object], **streams: Any) -> subprocess.Popen[bytes]:
    code = "from reticent.cli import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], stderr=subprocess.PIPE, **streams)


def test_cells_of_any_bytes_reach_standard_output(new, learned):
    """An id that is not UTF-8 ended in a traceback that showed it."""
    (learned / "new.csv").write_bytes(b"id,a,b,c\ncaf\xe9,5,0,0\n")
    out, err = process([*new, "--keep", "id", "-o", "-"], stdout=subprocess.PIPE).communicate()
    assert (out.split(b"\r\n"), err) == ([b"row,id,label", b"1,caf\xe9,E10", b""], b"")


def test_a_reader_that_stops_early_is_no_error_to_be_shown(new, learned):
    (learned / "new.csv").write_text("id,a,b,c\n" + "p7,5,0,0\n" * 20_000)
    running = process([*new, "-o", "-"], stdout=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.readline() == b"row,label\r\n"
    running.stdout.close()
    assert running.stderr.read() == b""
    running.wait()
    running.stderr.close()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--keep", "missing"], "No column 'missing' in the first line of new.csv"),
        (["--keep", "label"], "other names than columns of predictions, got 'label'"),
        (["--top-k", 0], "Expected top-k >= 1"),
    ],
)
def test_predict_refusals_print_one_line(new, tmp_path, words, sentence):
    (tmp_path / "new.csv").write_text("a,b,c,label\n1,2,3,x\n")
    assert sentence in refused(reticent(*new, *words, "-o", tmp_path / "out.csv"))
    assert not (tmp_path / "out.csv").exists()


def test_predictions_keep_arrays_of_npz_files(learned, tmp_path):
    np.savez(tmp_path / "new.npz", x=np.eye(3)[:2] * 5, who=["p1", "p2"], wrong=[1, 2, 3])
    predict = ["predict", tmp_path / "new.npz", "--model", learned / "model", "-o", tmp_path / "out.csv"]
    assert reticent(*predict, "--keep", "who").returncode == 0
    assert rows_of(tmp_path / "out.csv")[1:] == [["1", "p1", "E10"], ["2", "p2", "E11"]]
    assert "one value for each row in array 'wrong'" in refused(reticent(*predict, "--keep", "wrong"))


PATHS = encoders.wrap(
    lambda paths: np.array([[path.name[0] == "a", path.name[0] == "b"] for path in paths], np.float32),
    width=2,
    name="p",
)


def test_images_of_a_folder_are_named_by_their_files(tmp_path):
    """With an encoder of this test's own, which looks at names of files only."""
    for name in ("a1", "a2", "b1"):
        (tmp_path / "new" / "ward").mkdir(parents=True, exist_ok=True)
        (tmp_path / "new" / "ward" / f"{name}.png").write_bytes(b"")
    for letter in "ab":
        (tmp_path / "march" / letter).mkdir(parents=True)
        for i in range(120):
            (tmp_path / "march" / letter / f"{letter}{i}.png").write_bytes(b"")
    own = ["--encoder", "tests.cli.test_answers:PATHS"]
    assert reticent("init", tmp_path / "model", *BUDGET, *own).returncode == 0
    learned = reticent("learn", tmp_path / "march", "--model", tmp_path / "model", *own, "--each-row-is-a-person")
    assert learned.returncode == 0, learned.stderr
    done = reticent("predict", tmp_path / "new", "--model", tmp_path / "model", *own, "-o", "-")
    assert done.stdout.splitlines() == ["file,label", "ward/a1.png,a", "ward/a2.png,a", "ward/b1.png,b"]
    kept = reticent("predict", tmp_path / "new", "--model", tmp_path / "model", *own, "-o", "-", "--keep", "id")
    assert "its predictions name the files" in refused(kept)


# --- accuracy


@pytest.fixture
def evaluating(learned):
    test = write_csv(learned / "test.csv", ["E10", "E11", "G35"], each=50, seed=3)
    return ["evaluate", test, "--model", learned / "model", *NUMBERS, "--label", "code"]


def test_public_accuracy_says_how_sure_it_is_and_what_is_lost(evaluating):
    facts = json.loads(reticent(*evaluating, "--public", "--json").stdout)
    assert (facts["n"], facts["labels"], facts["labels_not_known"]) == (150, 3, 1)
    assert facts["share_not_known"] == pytest.approx(1 / 3)
    low, high = facts["interval"]
    assert low < facts["accuracy"] < high
    assert facts["accuracy"] == pytest.approx(facts["accuracy_of_known_labels"] * 2 / 3)
    first, second, third = reticent(*evaluating, "--public").stdout.splitlines()
    assert first.startswith(f"accuracy {facts['accuracy']:.4f} (n = 150; 95 % interval 0.")
    assert second == "Lost to labels that the model does not know: 0.3333 (n = 50; 1 of 3 labels)."
    assert third.endswith("(n = 100).")


def test_accuracy_by_label_is_a_file(evaluating, tmp_path):
    done = reticent(*evaluating, "--public", "--by-label", tmp_path / "labels.csv")
    assert done.stdout.endswith(f"Wrote {tmp_path / 'labels.csv'}: one row for each label.\n")
    header, *rows = rows_of(tmp_path / "labels.csv")
    assert header == ["label", "known", "n", "right", "accuracy", "low", "high"]
    assert [row[:3] for row in rows] == [["E10", "True", "50"], ["E11", "True", "50"], ["G35", "False", "50"]]
    assert rows[2][3:5] == ["0", "0.0"]


def test_numbers_and_their_texts_are_one_label_in_an_evaluation(tmp_path):
    np.savez(tmp_path / "march.npz", x=np.repeat(np.eye(2), 300, axis=0), y=[101] * 300 + [7] * 300)
    (tmp_path / "labels.txt").write_text("101\n7\n")
    init = ["init", tmp_path / "model", *BUDGET, "--encoder", "none", "--labels", tmp_path / "labels.txt"]
    assert reticent(*init).returncode == 0
    learn = ["learn", tmp_path / "march.npz", "--model", tmp_path / "model", "--each-row-is-a-person"]
    assert reticent(*learn).returncode == 0
    done = reticent("evaluate", tmp_path / "march.npz", "--model", tmp_path / "model", "--public", "--json")
    facts = json.loads(done.stdout)
    assert facts["accuracy"] > 0.9
    assert facts["labels_not_known"] == 0


def test_noisy_accuracy_says_no_more_than_was_paid_for(evaluating, tmp_path):
    by_label = [EACH, "--epsilon", 0.3, "--by-label", tmp_path / "labels.csv"]
    assert "with --public only" in refused(reticent(*evaluating, *by_label))
    assert "Expected a file for --by-label" in refused(reticent(*evaluating, "--public", "--by-label", "-"))
    done = reticent(*evaluating, EACH, "--epsilon", 0.3, "--json")
    assert set(json.loads(done.stdout)) == {"accuracy", "public", "epsilon"}
    assert not (tmp_path / "labels.csv").exists()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_an_infinite_label_is_written_as_its_text(tmp_path, ending):
    """It was an empty cell, as a missing score is."""
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels([float("inf"), 1]), budget=rt.Budget(epsilon=8.0, delta=1e-5), path=tmp_path / "model"
    )
    x = np.repeat(np.eye(3)[:2], 200, axis=0)
    model.learn_task(x, np.repeat([np.inf, 1.0], 200), name="march", each_row_is_a_person=True)
    (tmp_path / "new.csv").write_text("a,b,c,code\n5,0,0,inf\n0,5,0,1\n")
    given = [tmp_path / "new.csv", "--model", tmp_path / "model", *NUMBERS]
    out, by_label = tmp_path / f"out.{ending}", tmp_path / f"by.{ending}"
    assert reticent("predict", *given, "--top", "2", "-o", out).returncode == 0
    assert reticent("evaluate", *given, "--label", "code", "--public", "--by-label", by_label).returncode == 0
    shown = reticent("predict", *given, "--json").stdout
    assert json.loads(shown)["labels"] == [["inf"], [1]]
    texts = [pq.read_table(path).to_pylist() if ending == "parquet" else path.read_text() for path in (out, by_label)]
    assert all(str(text).count("inf") == times for text, times in zip(texts, (2, 1), strict=True))


def test_an_infinite_number_within_a_label_is_json(tmp_path):
    """It was `Infinity`, which no JSON has."""
    labels = [("a", float("inf")), ("a", (-float("inf"), 1))]
    budget = rt.Budget(epsilon=8.0, delta=1e-5)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(labels), budget=budget, path=tmp_path / "model")
    model.learn_task(np.repeat(np.eye(3)[:2], 200, axis=0), [labels[0]] * 200 + [labels[1]] * 200, name="march")
    (tmp_path / "new.csv").write_text("a,b,c\n5,0,0\n0,5,0\n")
    given = ["predict", tmp_path / "new.csv", "--model", tmp_path / "model", *NUMBERS]
    assert reticent(*given, "-o", tmp_path / "out.jsonl").returncode == 0
    shown = [["a", "inf"], ["a", ["-inf", 1]]]
    assert json.loads(reticent(*given, "--json").stdout)["labels"] == [[label] for label in shown]
    rows = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert [row["label"] for row in rows] == shown
