"""Verbs for models, as a user meets them: what is printed where, and exit codes."""

import csv
import json
import re

import numpy as np
import pytest

import reticent as rt
from reticent import Budget, names
from reticent.gate.ledger import Ledger
from reticent.privacy import events, planning
from reticent.released.ledger_file import FILE_NAME
from tests.cli.command import BUDGET, EACH, NUMBERS, refused, reticent, write_csv
from tests.reading import WORDS


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
    assert [line.split()[0] for line in done.stdout.split("class of")[1].splitlines()[2:4]] == ["100", "20"]
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
        ("--epsilon 1 --delta 1e-5 --class-size -3", "class size >= 1"),
        ("--epsilon 1 --delta 1e-5 --class-size many", "class-size"),
        ("--epsilon 1 --delta 1e-5 --mechanism magic", "Expected a mechanism out of"),
        ("--epsilon 1 --delta 1e-5 --share lots", "Expected share to be a number"),
        ("--epsilon 1 --delta 1e-5 --count-weight 2", "count_weight < 1"),
        ("--epsilon 1 --delta 1e-5 --tasks 0", "tasks >= 1"),
        ("--epsilon 1 --delta 1e-5 --tasks 9" + 400 * "0", "tasks <= 1000000000000000"),
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


def test_plan_says_which_learner_is_likely_better():
    few = json.loads(reticent("plan", *BUDGET, "--class-size", 100, "--learner", "peft", "--json").stdout)["training"]
    assert (few["likely_better"], few["steps"], few["batch"]) == ("cosine", 100, 200.0)
    many = reticent("plan", "--epsilon", 8, "--delta", "1e-5", "--class-size", 500, "--learner", "peft").stdout
    assert "Likely better: peft." in many
    assert "cosine, peft; got svm" in refused(reticent("plan", *BUDGET, "--learner", "svm"))


def test_init_with_peft(tmp_path):
    settings = ["--encoder", "none", "--learner", "peft", "--task-size", 600]
    assert (
        reticent(
            "init", tmp_path / "model", "--epsilon", 8, "--delta", "1e-5", "--tasks-per-person", 1, *settings
        ).returncode
        == 0
    )
    march = write_csv(tmp_path / "march.csv", ["E10", "E11"])
    done = reticent("learn", EACH, march, "--model", tmp_path / "model", *NUMBERS, "--label", "code", "--json")
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


def test_the_command_line_asks_for_persons(started):
    """300 rows of one patient were learned as 300 persons, and months with the same patients as if nobody came back."""
    model, march = started / "model", write_csv(started / "march.csv", ["E10", "E11"])
    asked = refused(reticent("init", started / "other", "--epsilon", 1, "--delta", "1e-5", "--encoder", "none"))
    assert "Expected --tasks-per-person N: in how many tasks" in asked
    assert not (started / "other").exists()
    verbs = (["learn", march], ["evaluate", march, "--epsilon", 0.5])
    for verb in verbs:
        words = [*verb, "--model", model, *NUMBERS, "--label", "code"]
        assert "Expected --person COLUMN" in refused(reticent(*words))
        assert "Not both." in refused(reticent(*words, "--person", "who", EACH))
    assert json.loads(reticent("ledger", model, "--json").stdout)["rows"] == []
    for name, words in {"ids": ["--person", "who"], "rows": [EACH]}.items():
        done = reticent("learn", march, "--model", model, *NUMBERS, "--label", "code", "--name", name, *words)
        assert done.returncode == 0, done.stderr
    facts = json.loads(reticent("ledger", model, "--json").stdout)
    assert [row["persons"] for row in facts["rows"]] == ["by ids", "each row, as stated"]


def test_init_may_say_whose_the_rows_are(tmp_path):
    """Once for all tasks; a task may say otherwise."""
    march = write_csv(tmp_path / "march.csv", ["E10", "E11"])
    for name, words, found in (("ids", ["--person", "who"], "by ids"), ("rows", [EACH], "each row, as stated")):
        assert reticent("init", tmp_path / name, *BUDGET, "--encoder", "none", *words).returncode == 0
        learn = ["learn", march, "--model", tmp_path / name, *NUMBERS, "--label", "code"]
        for more in ([], ["--name", "april", EACH], ["--name", "may", "--person", "who"]):
            assert reticent(*learn, *more).returncode == 0
        rows = json.loads(reticent("ledger", tmp_path / name, "--json").stdout)["rows"]
        assert [row["persons"] for row in rows] == [found, "each row, as stated", "by ids"]
    both = reticent("init", tmp_path / "no", *BUDGET, "--encoder", "none", EACH, "--person", "who")
    assert "Not both" in refused(both)
    assert not (tmp_path / "no").exists()


def test_budgets_of_replace_one(tmp_path):
    facts = [json.loads(reticent("plan", *BUDGET, "--json", *extra).stdout) for extra in ([], ["--replace-one"])]
    assert facts[1]["sigma"] > 1.9 * facts[0]["sigma"]
    done = reticent("init", tmp_path / "model", *BUDGET, "--replace-one", "--encoder", "none", "--json")
    assert json.loads(done.stdout)["budget"]["adjacency"] == "replace-one"


def test_init_learn_predict_evaluate(started):
    model = started / "model"
    march = write_csv(started / "march.csv", ["E10", "E11"])
    done = reticent("learn", march, "--model", model, *NUMBERS, "--label", "code", "--person", "who", "--json")
    facts = json.loads(done.stdout)
    assert (facts["task"], facts["labels_known"], facts["private"]) == ("march", 2, True)
    assert facts["epsilon"] <= 1.0001
    april = write_csv(started / "april.csv", ["E10", "E11", "G35"], seed=1)
    done = reticent("learn", EACH, april, "--model", model, *NUMBERS, "--label", "code")
    assert " ".join(done.stdout.split()) == (
        "Learned april. 3 label(s) known. "
        "Epsilon 1.0000 of 1 used at delta 1e-05 (add-or-remove-one). Valid only if no person is in more than 1 task, "
        "each row is another person (in the tasks without person ids), each person has one id, and no two share one; "
        "this is not checked."
    )
    out = started / "out.csv"
    test = write_csv(started / "test.csv", ["E10", "E11", "G35"], each=20, seed=2)
    assert "-o FILE.csv, or --json" in refused(reticent("predict", test, "--model", model, *NUMBERS))
    best = json.loads(reticent("predict", test, "--model", model, *NUMBERS, "--top", 2, "--json").stdout)["labels"]
    assert len(best) == 60
    assert all(len(row) == 2 and set(row) <= {"E10", "E11", "G35"} for row in best)
    assert reticent("predict", test, "--model", model, *NUMBERS, "-o", out, "--top", 2).returncode == 0
    rows = out.read_text().splitlines()
    assert rows[0] == "row,label,score,label_2,score_2"
    assert len(rows) == 61
    assert sum(row.split(",")[1] == "E10" for row in rows[1:21]) > 15
    public = reticent("evaluate", test, "--model", model, *NUMBERS, "--label", "code", "--public", "--json")
    assert json.loads(public.stdout)["accuracy"] > 0.9
    spends = json.loads(reticent("ledger", model, "--json").stdout)["rows"]
    assert [row["task"] for row in spends] == ["march", "april"]
    assert all(row["published"] for row in spends)


def test_private_accuracy_is_paid_for(started):
    model = started / "model"
    reticent(
        "learn", EACH, write_csv(started / "march.csv", ["E10", "E11"]), "--model", model, *NUMBERS, "--label", "code"
    )
    test = write_csv(started / "test.csv", ["E10", "E11"], each=2000, seed=2)
    done = reticent("evaluate", EACH, test, "--model", model, *NUMBERS, "--label", "code", "--epsilon", 0.5)
    assert re.match(r"accuracy [01]\.\d{4} \(noisy\)\nEpsilon [01]\.\d{4} of 1 used", done.stdout)
    also = "For whoever is in a learned task too, this is another task of theirs; this budget allows one person 1."
    assert " ".join(done.stdout.split()).endswith(also)
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    spends = json.loads(reticent("ledger", model, "--json").stdout)["rows"]
    assert spends[-1]["task"] == "evaluation test"
    assert spends[-1]["epsilon"] == pytest.approx(0.5, rel=1e-6)
    again = reticent("evaluate", EACH, test, "--model", model, *NUMBERS, "--label", "code", "--epsilon", 0.9)
    assert "Ask for a smaller epsilon, or give test data of other persons another name." in refused(again)
    whose = reticent("evaluate", test, "--model", model, *NUMBERS, "--label", "code", "--public", "--person", "who")
    assert "with --epsilon only: public test data need neither" in refused(whose)
    whose = reticent(
        "evaluate", test, "--model", model, *NUMBERS, "--label", "code", "--epsilon", 0.1, "--person", "no"
    )
    assert "No column 'no' in the first line" in refused(whose)


def test_public_labels_with_a_taxonomy(tmp_path):
    (tmp_path / "labels.txt").write_text("E10\nE11\n")
    (tmp_path / "tree.csv").write_text("child,parent\nE10.2,E10\nE11.9,E11\n")
    settings = ["--labels", tmp_path / "labels.txt", "--taxonomy", tmp_path / "tree.csv", "--encoder", "none"]
    assert reticent("init", tmp_path / "model", *BUDGET, *settings).returncode == 0
    march = write_csv(tmp_path / "march.csv", ["E10.2", "E11.9"])
    learned = reticent("learn", EACH, march, "--model", tmp_path / "model", *NUMBERS, "--label", "code", "--json")
    assert json.loads(learned.stdout)["labels_known"] == 2
    test = write_csv(tmp_path / "test.csv", ["E10", "E11"], seed=3)
    done = reticent("evaluate", test, "--model", tmp_path / "model", *NUMBERS, "--label", "code", "--public", "--json")
    assert json.loads(done.stdout)["accuracy"] > 0.95


def test_init_takes_names_of_labels(tmp_path):
    (tmp_path / "labels.txt").write_text("E10\nE11\nlost_card\nE12\n")
    (tmp_path / "names.csv").write_text("label,name\nE10,Type 1 diabetes\nE11,Type 2 diabetes\n")
    named = ["--names", tmp_path / "names.csv", "--encoder", "tests.reading:WORDS"]
    public = ["--labels", tmp_path / "labels.txt"]
    done = reticent("init", tmp_path / "public", *BUDGET, *public, *named)
    assert done.stdout.endswith("Names: 3 of 4 labels have one; 1 without.\n"), done.stderr
    names_of_two = {"E10": "Type 1 diabetes", "E11": "Type 2 diabetes"}
    everything = rt.PublicLabels(["E10", "E11", "lost_card", "E12"], names=names_of_two)
    assert rt.load(tmp_path / "public", encoder=WORDS).labels == everything
    done = reticent("init", tmp_path / "released", *BUDGET, "--released", *named)
    assert "Names: 2 labels have one in the file;" in done.stdout, done.stderr
    again = rt.load(tmp_path / "released", encoder=WORDS).labels
    assert again is not None
    assert again.names == names_of_two
    assert "Names:" not in reticent("init", tmp_path / "json", *BUDGET, *named, "--json").stdout
    for encoder in ("none", "tests.reading:WITHOUT_TEXT"):
        sentence = refused(reticent("init", tmp_path / "no", *BUDGET, *public, *named[:2], "--encoder", encoder))
        assert "Expected an encoder that reads texts" in sentence
    (tmp_path / "labels.txt").write_text("E10\n")
    assert "'E11' is none of them" in refused(reticent("init", tmp_path / "no", *BUDGET, *public, *named))
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (["--labels", "absent.txt"], "No file at"),
        (["--names", "absent.csv"], "No file at"),
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
    assert "No column 'x'" in refused(
        reticent("learn", EACH, march, "--model", model, "--features", "x", "--label", "code")
    )
    assert "--label" in refused(reticent("learn", EACH, march, "--model", model, *NUMBERS))
    assert "No model at" in refused(
        reticent("learn", EACH, march, "--model", started / "no", *NUMBERS, "--label", "code")
    )
    assert "No file at" in refused(
        reticent("learn", EACH, started / "no.csv", "--model", model, *NUMBERS, "--label", "code")
    )
    assert reticent("learn", EACH, march, "--model", model, *NUMBERS, "--label", "code").returncode == 0
    again = refused(reticent("learn", EACH, march, "--model", model, *NUMBERS, "--label", "code"))
    assert "give them another name." in again
    scores = ["evaluate", march, "--model", model, *NUMBERS, "--label", "code"]
    assert "--public" in refused(reticent(*scores))
    assert "--public" in refused(reticent(*scores, "--public", "--epsilon", 1))
    out = started / "no" / "out.csv"
    assert "Cannot write" in refused(reticent("predict", march, "--model", model, *NUMBERS, "-o", out))


@pytest.mark.parametrize("stem", ["f\udce9vrier", "march\n   9  april: free", "march\x1b[2J", "march\u202e"])
def test_names_of_files_that_cannot_name_a_task_are_refused(started, stem):
    """Today's worst was spent and published, and ended in a traceback."""
    source = write_csv(started / f"{stem}.csv", ["x", "y"], each=20)
    done = reticent("learn", EACH, source, "--model", started / "model", *NUMBERS, "--label", "code")
    assert "one line of visible characters" in refused(done)
    assert "--name" in done.stderr
    assert done.stderr.strip().isprintable()
    assert "Spends: none yet" in reticent("ledger", started / "model").stdout
    done = reticent("learn", EACH, source, "--model", started / "model", *NUMBERS, "--label", "code", "--name", "march")
    assert done.returncode == 0


def test_near_names_are_warned_of_in_one_line(started):
    source = write_csv(started / "march.csv", ["x", "y"], each=100)
    verb = ["learn", EACH, source, "--model", started / "model", *NUMBERS, "--label", "code"]
    assert "Warning" not in reticent(*verb).stderr
    done = reticent(*verb, "--name", "March")
    assert "Warning: Task 'March' has nearly the name of 'march'" in done.stderr
    assert "in the ledger already" in refused(reticent(*verb, "--name", " march "))


def test_predictions_keep_order_and_number_of_rows(started):
    """A line that does not parse was left out, and each prediction after it stood beside another row."""
    source = write_csv(started / "march.csv", ["x", "y", "z"], each=100)
    model = ["--model", started / "model", *NUMBERS]
    assert reticent("learn", EACH, source, *model, "--label", "code").returncode == 0
    (started / "new.csv").write_text("a,b,c\n5,0,0\nshort\nnan,1,2\n0,5,0\ntext,0,0\ninf,0,0\n0,0,5\n")
    assert reticent("predict", started / "new.csv", *model, "-o", started / "out.csv").returncode == 0
    rows = [line.split(",") for line in (started / "out.csv").read_text().splitlines()]
    assert [row[0] for row in rows] == ["row", *"1234567"]
    assert [row[1] for row in rows[1:]] == ["x", *["<unknown>"] * 2, "y", *["<unknown>"] * 2, "z"]


def test_csv_output_is_safe_for_spreadsheets_on_request(tmp_path):
    hostile = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "plain"]
    (tmp_path / "labels.txt").write_text("\n".join(hostile) + "\n")
    init = ["init", tmp_path / "model", *BUDGET, "--encoder", "none", "--labels", tmp_path / "labels.txt"]
    assert reticent(*init).returncode == 0
    np.savez(tmp_path / "march.npz", x=np.tile(np.eye(5), (200, 1)), y=np.tile(hostile, 200))
    assert reticent("learn", EACH, tmp_path / "march.npz", "--model", tmp_path / "model").returncode == 0
    np.savez(tmp_path / "new.npz", x=np.eye(5))
    for flag, mark in ([], ""), (["--safe-csv"], "'"):
        predict = ["predict", tmp_path / "new.npz", "--model", tmp_path / "model", "-o", tmp_path / "out.csv", *flag]
        assert reticent(*predict).returncode == 0
        with (tmp_path / "out.csv").open(newline="") as file:
            found = [row[1] for row in csv.reader(file)][1:]
        assert found == [*(mark + label for label in hostile[:4]), "plain"]


@pytest.mark.parametrize("name", ["[bold red]x", "a\x1b[2Jb", "a\u202eb", "f\udce9", "a\nb"])
def test_names_of_files_are_printed_escaped(tmp_path, name):
    """Codes of a terminal, markup and bytes that are not UTF-8."""
    folder = tmp_path / name
    assert reticent("init", folder, *BUDGET, "--encoder", "none").returncode == 0
    source = write_csv(folder / f"{name}.csv", ["x", "y"], each=20)
    learn = ["learn", EACH, source, "--model", folder, *NUMBERS, "--label", "code", "--name", "[bold]march[/]"]
    shown = [
        reticent(*learn),
        reticent("report", folder),
        reticent("ledger", folder),
        reticent("predict", folder / "absent.csv", "--model", folder, "-o", folder / "out.csv"),
        reticent("predict", source, "--model", folder / "absent", "-o", folder / "out.csv"),
        reticent("init", folder, *BUDGET),
        reticent("bench", "--list", "--out", folder),
        reticent("report", folder / "absent"),
    ]
    for done in shown:
        assert "Traceback" not in done.stderr
        assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr), done
        (done.stdout + done.stderr).encode()
    assert "[bold]march[/]" in shown[2].stdout
    assert names.shown(name) in shown[1].stdout
    assert len(shown[1].stdout.splitlines()) == 1


def test_accuracy_on_nothing_is_refused(started):
    source = write_csv(started / "march.csv", ["x", "y"], each=100)
    assert reticent("learn", EACH, source, "--model", started / "model", *NUMBERS, "--label", "code").returncode == 0
    (started / "test.csv").write_text("a,b,c,code\n")
    done = reticent(
        "evaluate", started / "test.csv", "--model", started / "model", *NUMBERS, "--label", "code", "--public"
    )
    assert "at least one example" in refused(done)
