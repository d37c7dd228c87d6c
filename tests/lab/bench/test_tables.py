"""Tables: statistics of known numbers, the paper's beside ours, and what was not run says so."""

from dataclasses import replace
from typing import Any

import pytest

from reticent.lab.bench import specs, tables
from reticent.lab.bench.one_run import environment, failed
from reticent.lab.bench.run import Run
from reticent.lab.bench.specs import Spec, read, spec
from reticent.lab.bench.typeset import Table
from reticent.report.seeds import spread
from tests.lab.tiny import by_digest, done

# --- statistics


@pytest.mark.parametrize(
    ("values", "statistic", "metric", "text"),
    [
        ([70.0, 30.0, 50.0, 10.0, 90.0], "median", "accuracy", "50.0 (30.0, 70.0)"),
        ([70.0, 30.0, 50.0, 10.0], "median", "accuracy", "40.0 (30.0, 50.0)"),
        ([70.0, 30.0, 50.0], "median", "accuracy", "50.0 (30.0, 70.0)"),
        ([70.0, 30.0, 50.0, 10.0, 90.0], "minmax", "accuracy", "50.0 (10.0, 90.0)"),
        ([1.0, 2.0, 3.0, 4.0], "mean", "accuracy", "2.5 ± 1.3"),
        ([72.04], "mean", "accuracy", "72.0"),
        ([89.6, 90.4, 93.0], "median", "known", "90 (90, 93)"),
        ([1.26, 2.0, 7.0], "minmax", "seconds", "2 (1, 7)"),
    ],
)
def test_numbers_over_seeds(values, statistic, metric, text):
    assert spread(values, statistic, digits=0 if metric in tables.COUNTS else 1).text == text


# --- what was run

GRID = """
title = "Mine"
data = "clinc150"
epsilon = 1
learner = ["cosine-paper", "cosine"]
labels = ["base", "released"]
"""
SPLIT = """
data = "clinc150"
learner = ["cosine-paper", "cosine"]
labels = "released"
"""


def one(made: Table, **where: str) -> dict[str, str]:
    """The only row that has these entries, by its headings."""
    rows = [dict(zip(made.columns, row, strict=True)) for row in made.rows]
    (row,) = [row for row in rows if all(row[heading] == entry for heading, entry in where.items())]
    return row


def results(made: Spec, accuracy: Any, **others: Any) -> list[dict[str, Any]]:
    return [done(run, accuracy(run), **others) for run in made.runs]


def test_entries_are_the_statistics_of_their_seeds():
    mine = read("mine", GRID)
    runs = by_digest(results(mine, lambda c: 0.1 * (c.seed + 1) + (0.05 if c.labels == "released" else 0)))
    (table,) = tables.tables(mine, runs)
    row = one(table, source="ours here, clinc150")
    assert (row["Base Dataset"], row["Release Labels"]) == ("30.0 (20.0, 40.0)", "35.0 (25.0, 45.0)")
    assert row["epsilon"] == "1"
    assert table.caption == (
        "Average accuracy after the last task, %; median (second worst, second best seed; of three or fewer the worst "
        "and the best), 5 seeds; delta 1e-5."
    )


def test_lines_of_other_numbers_of_seeds_say_so():
    grids = 'data = "clinc150"\n[[grid]]\nlearner = "cosine"\nlabels = ["base", "released"]\nseeds = 3\n'
    other = '[[grid]]\nlearner = "peft"\nlabels = "base"\nseeds = 4\n'
    few = '[[grid]]\nlearner = "peft"\nlabels = "released"\nseeds = 1\n'
    mine = read("mine", grids + other + few)
    (table,) = tables.tables(mine, by_digest(results(mine, lambda c: 0.5)))
    assert "seeds;" not in table.caption
    row = one(table, source="ours here, clinc150, 3 seeds")
    assert row["Base Dataset"] == row["Release Labels"] == "50.0 (50.0, 50.0)"
    row = one(table, source="ours here, clinc150, 4 seeds")
    assert (row["Base Dataset"], row["Release Labels"]) == ("50.0 (50.0, 50.0)", "50.0 [1 seed]")


def test_entries_that_were_not_run_show_an_estimate():
    mine = read("mine", GRID)
    (table,) = tables.tables(mine, {})
    assert one(table, source="ours here, clinc150")["Base Dataset"] == "*not run here* (about 5 s)"
    slow = by_digest([done(mine.runs[0], 0.5, seconds={"learn": 100.0, "evaluate": 20.0, "processor": 120.0})])
    assert mine.runs[0].learner == "cosine-paper"
    row = one(tables.tables(mine, slow)[0], source="the paper's method here, clinc150")
    assert row["Base Dataset"] == "50.0 [1 of 5 seeds]"
    assert row["Release Labels"].startswith("*not run here* (about ")


def test_failures_are_shown_and_counted():
    mine = read("mine", GRID)
    ours = [run for run in mine.runs if (run.learner, run.labels) == ("cosine", "base")]
    all_bad = by_digest([failed(run, "no") for run in ours])
    assert one(tables.tables(mine, all_bad)[0], source="ours here, clinc150")["Base Dataset"] == "*failed*"
    some = by_digest([failed(ours[0], "no"), *(done(run, 0.5) for run in ours[1:])])
    row = one(tables.tables(mine, some)[0], source="ours here, clinc150")
    assert row["Base Dataset"] == "50.0 (50.0, 50.0) [4 of 5 seeds] [1 failed]"


def test_what_cannot_be_measured_is_a_dash():
    mine = read("mine", GRID + 'metrics = ["accuracy", "forgetting"]')
    runs = by_digest(results(mine, lambda c: 0.5))
    accuracy, forgetting = tables.tables(mine, runs)
    assert accuracy.title == "Mine: average accuracy after the last task, %"
    assert one(forgetting, source="ours here, clinc150")["Base Dataset"] == "-"


FIVE = """
data = "five-datasets"
learner = "cosine-paper"
tasks = 2
seeds = 3
columns = "epsilon"
statistic = "mean"
metrics = ["accuracy", "forgetting"]
"""
BY_ORDER = {0: [0.1, 0.3], 1: [0.2, 0.4], 2: [0.5, 0.9]}


def in_orders(run: Run) -> dict[str, Any]:
    each = BY_ORDER[run.seed]
    orders = {"number": len(each), "forgetting": each}
    return done(run, 0.5, forgetting=sum(each) / 2, forgetting_curve=[0.0, sum(each) / 2], orders=orders)


def test_forgetting_is_over_all_orders_of_all_seeds():
    mine = read("mine", FIVE)
    accuracy, forgetting = tables.tables(mine, by_digest([in_orders(run) for run in mine.runs]))
    each = [100 * value for values in BY_ORDER.values() for value in values]
    assert forgetting.rows[0][-1] == spread(each, "mean").text == "40.0 ± 28.3"
    assert any("all seeds and all orders" in note for note in forgetting.notes)
    assert accuracy.rows[0][-1] == "50.0 ± 0.0"
    assert accuracy.notes == ()
    (_, some) = tables.tables(mine, by_digest([in_orders(run) for run in mine.runs[:2]]))
    assert some.rows[0][-1] == "25.0 ± 12.9 [2 of 3 seeds]"  # four values, of two seeds


def test_forgetting_is_of_seeds_where_some_have_the_mean_over_orders_alone():
    mine = read("mine", FIVE)
    older = {key: value for key, value in in_orders(mine.runs[2]).items() if key != "orders"}
    (_, forgetting) = tables.tables(mine, by_digest([*map(in_orders, mine.runs[:2]), older]))
    assert forgetting.rows[0][-1] == spread([20.0, 30.0, 70.0], "mean").text


def test_a_curve_says_that_it_is_a_mean_over_orders():
    mine = read("mine", FIVE.replace('"epsilon"', '"task"').replace('"mean"', '"minmax"'))
    _, forgetting = tables.tables(mine, by_digest([in_orders(run) for run in mine.runs]))
    assert forgetting.rows[0][-1] == "30.0 (20.0, 70.0)"
    assert any("mean over all orders" in note for note in forgetting.notes)
    one_order = [{k: v for k, v in in_orders(run).items() if k != "orders"} for run in mine.runs]
    assert not any("orders" in note for table in tables.tables(mine, by_digest(one_order)) for note in table.notes)


def test_the_best_share_is_shown_as_a_whole():
    """Chosen by accuracy, for every metric; never a mixture of seeds of several shares."""
    mine = read("mine", SPLIT + 'share = [10, 50]\nmetrics = ["accuracy", "known", "forgetting"]')
    good = {10.0: [0.1, 0.9, 0.2, 0.2, 0.2], 50.0: [0.3, 0.3, 0.3, 0.3, 0.3]}

    def result(run: Run) -> dict[str, Any]:
        share = run.share or 0.0
        return done(run, good[share][run.seed], known=int(100 - share), forgetting=share / 100)

    runs = by_digest([result(run) for run in mine.runs])
    accuracy, known, forgetting = tables.tables(mine, runs)
    where = {"source": "the paper's method here, clinc150"}
    assert one(accuracy, **where)["Release Labels"] == "30.0 (30.0, 30.0)"
    assert one(known, **where)["Release Labels"] == "50 (50, 50)"
    assert one(forgetting, **where)["Release Labels"] == "50.0 (50.0, 50.0)"
    assert any("the best of the shares tried is shown" in note for note in accuracy.notes)
    plain = read("mine", GRID)
    assert not any("shares" in note for note in tables.tables(plain, by_digest(results(plain, lambda c: 0.5)))[0].notes)


def test_shares_have_columns_of_their_own_where_they_are_the_question():
    mine = read("mine", SPLIT + 'share = [2.5, 50]\ncolumns = "share"')
    (table,) = tables.tables(mine, by_digest(results(mine, lambda c: c.share / 100)))
    row = one(table, source="ours here, clinc150, the paper's split")
    assert (row["share 2.5"], row["share 50"]) == ("2.5 (2.5, 2.5)", "50.0 (50.0, 50.0)")
    assert table.notes == ()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ('adapter = ["last_layer", "film"]', ["last_layer", "film"]),
        ("ratio = [10, 50]", ["ratio 10", "ratio 50"]),
    ],
)
def test_runs_that_differ_in_more_than_their_seed_are_not_mixed(line, names):
    mine = read("mine", f'data = "clinc150"\nlearner = "peft"\n{line}')
    runs = by_digest(
        [
            done(c, 0.2 if (c.adapter, c.ratio) in (("last_layer", 0.0), ("last_layer", 10.0)) else 0.8)
            for c in mine.runs
        ]
    )
    (table,) = tables.tables(mine, runs)
    shown = [one(table, source=f"ours here, clinc150, {name}")["Base Dataset"] for name in names]
    assert shown == ["20.0 (20.0, 20.0)", "80.0 (80.0, 80.0)"]


def test_streams_of_two_lengths_are_not_mixed():
    mine = read("mine", 'data = "clinc150"\nlearner = "cosine"\n[[grid]]\ntasks = 5\n[[grid]]\ntasks = 10\n')
    (table,) = tables.tables(mine, by_digest(results(mine, lambda c: c.tasks / 100)))
    assert one(table, source="ours here, clinc150, 5 tasks")["Base Dataset"] == "5.0 (5.0, 5.0)"
    assert one(table, source="ours here, clinc150, 10 tasks")["Base Dataset"] == "10.0 (10.0, 10.0)"


def test_no_entry_of_any_packaged_spec_mixes_runs():
    for name in specs.names():
        found = spec(name)
        for lines in tables.groups(found, "accuracy", {}).values():
            for columns in lines.values():
                for group in columns.values():
                    assert (
                        len({(c.data, c.learner, c.labels, c.epsilon, c.ratio, c.adapter, c.tasks) for c in group.runs})
                        == 1
                    ), name
                    seeds = [(c.seed, c.share) for c in group.runs]
                    assert len(set(seeds)) == len(seeds)


def test_forgetting_is_shown_after_each_task():
    both = 'columns = "task"\nmetrics = ["accuracy", "forgetting"]\ntasks = 2'
    mine = read("mine", f'data = "clinc150"\nlearner = "peft"\n{both}')
    _, later = tables.tables(mine, by_digest(results(mine, lambda c: 0.9, forgetting_curve=[0.0, 0.25])))
    _, before = tables.tables(mine, by_digest(results(mine, lambda c: 0.9)))
    assert [row[-2:] for row in later.rows][-1][1].startswith("25.0")
    assert before.rows[-1][-1] == "-"


def test_columns_may_be_tasks_or_aggregations():
    mine = read("mine", 'data = "clinc150"\nlearner = "peft"\ncolumns = "task"\nstatistic = "minmax"\ntasks = 3')
    runs = by_digest(results(mine, lambda c: 0.9, curve=[0.1, 0.2, 0.3]))
    (table,) = tables.tables(mine, runs)
    assert table.caption.startswith("Average accuracy after each task, %; ")
    assert table.notes == ()
    (table,) = tables.tables(replace(mine, figure=("accuracy",)), runs)
    assert table.notes == ("The paper shows this in a figure, without numbers.",)
    row = one(table, source="ours here, clinc150")
    assert [row[f"task {t}"] for t in (1, 2, 3)] == ["10.0 (10.0, 10.0)", "20.0 (20.0, 20.0)", "30.0 (30.0, 30.0)"]
    mine = read("mine", 'data = "clinc150"\nlearner = "peft"\ncolumns = "aggregation"\nseeds = 1')
    runs = by_digest(results(mine, lambda c: 0.9, aggregations={"argmax": 0.5, "median": 0.6}))
    row = one(tables.tables(mine, runs)[0], source="ours here, clinc150")
    assert (row["argmax"], row["median"], row["entropy"]) == ("50.0", "60.0", "-")


def test_own_learners_are_labelled_yours():
    mine = read("mine", 'data = "clinc150"\nlearner = ["lab.mine:Best", "naive", "noncl"]\nseeds = 1')
    (table,) = tables.tables(mine, by_digest(results(mine, lambda c: 0.5)))
    assert one(table, classifier="lab.mine:Best")["source"] == "yours, clinc150"
    assert one(table, classifier="Naive")["source"] == "baseline here, clinc150"


def test_notes_say_where_one_stream_stands_for_all_ratios():
    text = 'data = "clinc150"\ncolumns = "ratio"\nratio = [0, 50]\nlearner = "cosine-paper"\nseeds = 1\nlabels = '
    many, few = read("many", f'{text}"public-1000x"'), read("few", f'{text}"base"')
    measured = by_digest([done(run, 0.5) for run in many.runs if not run.ratio])
    (table,) = tables.tables(many, measured)
    assert table.rows[0][-2:] == ("50.0", "50.0")
    assert "does not depend on the tasks that examples are in" in table.notes[0]
    assert tables.tables(few, measured)[0].notes == ()


def test_the_panel_of_blurry_streams_is_beside_their_table():
    counted = {"clinc150": {"50": [60.0, 10.0, 20.0]}, "another": {"50": [1.0, 1.0], "0": [2.0]}}
    found = {"version": 7, "command": "reticent bench blurry", "environment": environment(), "data": counted}
    made = tables.tables(spec("blurry"), {}, extra={"streams.json": found}.get)
    assert made[1].rows == (("clinc150", "50", "60.0", "15.0"), ("another", "50", "1.0", "1.0"))
    assert made[1].notes[0].startswith("Measured by reticent bench blurry, version 7.")
    assert len(tables.tables(spec("blurry"), {})) == 1
