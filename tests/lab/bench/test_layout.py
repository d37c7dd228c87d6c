"""Where the paper's numbers stand in the tables."""

from dataclasses import asdict

import pytest

from reticent.lab.bench import layout, specs, tables
from reticent.lab.bench.specs import spec

COSINE, PEFT, NAIVE, NONCL = "Cosine Classifier", "PEFT Ensemble", "Naive", "Non-CL, all data at once"
CIFAR, IMAGENET = "paper, split-cifar100", "paper, split-imagenet-r"


@pytest.mark.parametrize(
    ("name", "metric", "row", "column", "printed"),
    [
        ("labels", 0, ("1", COSINE, CIFAR), "Base Dataset", "72.3 (72.0, 72.5)"),
        ("labels", 0, ("8", PEFT, f"{IMAGENET}, film"), "Release Labels", "64.0 (61.5, 65.4)"),
        ("sizes", 0, ("1", PEFT, f"{IMAGENET}, film"), "Public Labels 1000x", "27.8 (27.4, 35.4)"),
        ("share", 0, ("1", COSINE, IMAGENET), "share 50", "52.9 (52.6, 52.9) at epsilon 8"),
        ("share", 0, ("8", COSINE, IMAGENET), "share 50", "52.9 (52.6, 52.9)"),
        ("share", 0, ("8", COSINE, CIFAR), "share 2.5", "71.9 (69.5, 73.1) at epsilon 1"),
        ("share", 0, ("1", COSINE, CIFAR), "share 2.5", "71.9 (69.5, 73.1)"),
        ("share", 1, ("1", COSINE, CIFAR), "share 2.5", "90 (87, 93)"),
        ("blurry", 0, ("1", PEFT, "Base Dataset", f"{CIFAR}, film"), "ratio 50", "77.6 (48.2, 79.5)"),
        ("blurry", 0, ("8", PEFT, "Release Labels", f"{CIFAR}, film"), "ratio 100", "86.0 (84.8, 86.1)"),
        ("domain-shift", 0, (COSINE, CIFAR), "epsilon 1", "72.78 ± 0.51"),
        ("domain-shift", 0, (PEFT, f"{IMAGENET}, last_layer"), "no privacy", "48.16 ± 12.8"),
        ("domain-shift", 1, (NAIVE, "paper, five-datasets"), "epsilon 8", "90.0 ± 2.0"),
        ("domain-shift-film", 0, (PEFT, f"{CIFAR}, film"), "epsilon 8", "85.26 ± 0.633"),
        ("paper-domain-shift", 0, (NONCL, f"{CIFAR}, film"), "no privacy", "90.68"),
    ],
)
def test_the_papers_numbers_stand_in_their_row_and_column(name, metric, row, column, printed):
    table = tables.tables(spec(name), {})[metric]
    (found,) = [entries for entries in table.rows if entries[: len(row)] == row]
    assert found[table.columns.index(column)] == printed


@pytest.mark.parametrize("name", [name for name in specs.names() if spec(name).paper])
def test_every_table_that_names_the_paper_shows_numbers_of_it(name):
    (first, *_) = tables.tables(spec(name), {})
    printed = [row for row in first.rows if any(entry.startswith("paper, ") for entry in row)]
    assert len(printed) >= (1 if name == "paper-orders" else 2)  # that one is a row of its table
    assert all(len(row) == len(first.columns) for row in first.rows)


@pytest.mark.parametrize("name", ["quick", "labels", "streams", "desai"])
def test_plots_name_things_as_tables_do(name):
    """Each word of a plot's run stands in the table: classifier and origin, labels, names and memory."""
    wanted = spec(name)
    shown = {text for table in tables.tables(wanted, {}) for row in (table.columns, *table.rows) for text in row}
    words = {part for text in shown for part in text.split(", ")} | shown
    for run in wanted.runs:
        said = layout.named({"run": asdict(run)})["run"]
        title, _, origin = said["learner"].rpartition(", ")
        assert {title, origin} <= words
        several = {
            field for field in ("labels", "names", "memory") if len({getattr(r, field) for r in wanted.runs}) > 1
        }
        in_rows = several - {"memory"} if run.learner == "cosine-paper" else several
        assert said["labels"] in words or "labels" not in several
        assert all(
            said[field] in words or set(said[field].split(", ")) <= words for field in in_rows & {"names", "memory"}
        )


def test_a_learner_of_ones_own_keeps_its_name():
    run = {"data": "d", "learner": "my_module:Mine", "labels": "base"}
    assert layout.named({"run": run})["run"]["learner"] == "my_module:Mine, yours"
    assert layout.named({"run": {**run, "learner": "of another version"}})["run"]["learner"] == "of another version"
