"""What the command line says of files, columns and class sizes, before and after it learns."""

import csv
import json

import numpy as np
import pytest

import reticent as rt
from tests.cli.command import BUDGET, EACH, refused, reticent, write_csv


def test_columns_of_files_are_kept(started):
    model, march = started / "model", write_csv(started / "march.csv", ["x", "y", "z"])
    named = ["--model", model, "--label", "code"]
    early = reticent("predict", march, "--model", model, "--features", "a,b,c", "-o", started / "out.csv")
    assert "has learned no task yet" in refused(early)
    assert reticent("learn", march, *named, EACH, "--features", "a,b,c").returncode == 0
    for verb in (["learn", EACH, "--name", "april"], ["evaluate", "--public"], ["evaluate", EACH, "--epsilon", 0.1]):
        done = reticent(*verb, march, *named, "--features", "b,a,c")
        assert "the columns of the first task" in done.stderr
        assert done.returncode == 2
    out = ["-o", started / "out.csv"]
    assert "the columns of" in refused(reticent("predict", march, "--model", model, "--features", "c,b,a", *out))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty. Expected names of columns in its first line"),
        ("a;b;c;code\n1;2;3;x\n", "separated by semicolons"),
        ('"a"\t"b"\t"c"\t"code"\n', "separated by tabs"),
        ("1;2;3;secret\n1;2;3;x\n", "No column 'a' in the first line"),  # an example: nothing of it may be told
    ],
)
def test_other_formats_of_csv_are_named(started, content, sentence):
    (started / "march.csv").write_text(content)
    words = ["--model", started / "model", "--features", "a,b,c", "--label", "code", EACH]
    said = refused(reticent("learn", started / "march.csv", *words))
    assert sentence in said
    assert "secret" not in said


def test_columns_may_hold_commas_and_blanks(tmp_path):
    (tmp_path / "march.csv").write_text('"height, cm"," w","say ""x""",code\n' + "1,0,0,x\n" * 50)
    assert reticent("init", tmp_path / "model", *BUDGET, "--encoder", "none").returncode == 0
    features = '"height, cm"," w", "say ""x"""'
    words = ["--model", tmp_path / "model", "--features", features, "--label", "code", EACH]
    assert reticent("learn", tmp_path / "march.csv", *words).returncode == 0
    assert rt.load(tmp_path / "model").feature_names_in_.tolist() == ["height, cm", " w", 'say "x"']


def test_a_column_of_embeddings_is_learned_and_predicted(started):
    """Every row of it was NaN, silently, and its whole budget was spent."""
    import pyarrow as pa
    from pyarrow import parquet

    labels = ["x", "y", "z"] * 300
    rows = np.eye(3, dtype=np.float32)[[0, 1, 2] * 300]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 3)
    march = started / "march.parquet"
    parquet.write_table(pa.table({"embedding": lists, "code": labels, "who": range(900)}), march)
    words = ["--model", started / "model", "--features", "embedding"]
    done = reticent("learn", march, *words, "--label", "code", "--person", "who")
    assert done.returncode == 0, done.stderr
    assert "3 label(s) known" in done.stdout
    assert reticent("predict", march, *words, "-o", started / "out.csv").returncode == 0
    with (started / "out.csv").open(newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == labels
    said = reticent("evaluate", march, *words, "--label", "code", "--public", "--json")
    assert json.loads(said.stdout)["accuracy"] == 1.0


def test_embeddings_of_no_fixed_size_are_refused_before_the_spend(started):
    import pyarrow as pa
    from pyarrow import parquet

    march = started / "march.parquet"
    parquet.write_table(pa.table({"embedding": [[1.0, 2.0]], "code": ["x"]}), march)
    words = ["--model", started / "model", "--features", "embedding", "--label", "code", EACH]
    assert "lists of numbers of one fixed size" in refused(reticent("learn", march, *words))
    assert rt.load(started / "model").spent()["epsilon"] == 0


def test_a_folder_of_shards_is_one_task(started):
    shards = started / "march"
    shards.mkdir()
    for i, seed in enumerate((0, 1)):
        write_csv(shards / f"part-{i}.csv", ["x", "y", "z"], seed=seed)
    words = ["--model", started / "model", "--features", "a,b,c", "--label", "code", EACH]
    (shards / "part-2.csv").write_text("a,b,code\n1,2,x\n")
    assert "No column 'c' in the first line of part-2.csv" in refused(reticent("learn", shards, *words))
    (shards / "part-2.csv").unlink()
    assert "3 label(s) known" in reticent("learn", shards, *words).stdout


def test_learners_of_one_example_say_so(tmp_path):
    words = ["--learner", "peft", "--examples-per-person", 3, "--encoder", "none"]
    assert "takes one example of each person and task" in refused(reticent("init", tmp_path / "m", *BUDGET, *words))
    assert not (tmp_path / "m").exists()


def test_class_sizes_are_said_before_and_no_label_after(started):
    """ "0 label(s) known", and nothing else was said."""
    words = ["--model", started / "model", "--features", "a,b,c", "--label", "code", EACH]
    said = reticent("learn", write_csv(started / "march.csv", ["x", "y"], each=5), *words)
    before, after = " ".join(said.stderr.split()).split("Warning: ")
    assert "a class of 39 examples in a task is released with probability 0.5, one of 59 with 0.99." in before
    assert after.startswith("NO LABEL IS KNOWN after task 'march'")
    assert said.returncode == 0
    assert "0 label(s) known" in said.stdout
    said = reticent("init", started / "other", *BUDGET, "--encoder", "none")
    assert "New labels: a class of 39 examples" in said.stderr


def test_predictions_never_replace_their_input(started):
    model, march = started / "model", write_csv(started / "march.csv", ["x", "y", "z"])
    assert reticent("learn", march, "--model", model, "--label", "code", EACH, "--features", "a,b,c").returncode == 0
    before, words = march.read_bytes(), ["--model", model, "--features", "a,b,c"]
    assert "is the input" in refused(reticent("predict", march, *words, "-o", march))
    (started / "shards").mkdir()
    (started / "shards" / "a.csv").write_bytes(before)
    said = refused(reticent("predict", started / "shards", *words, "-o", started / "shards" / "out.csv"))
    assert "would be a file of the input" in said
    assert march.read_bytes() == before
    assert len(list((started / "shards").iterdir())) == 1
