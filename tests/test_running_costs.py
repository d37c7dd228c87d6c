"""The cost model: laws that hold whatever the speeds are, and what the command line makes of it."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent import errors, running_costs
from reticent.gate import sparse
from reticent.lab import machine_speed
from reticent.readers import Columns, open_source, sources
from reticent.released import standing
from reticent.running_costs import Speeds, Workload
from tests.cli.command import refused, reticent

PAPER = ["plan", "--rows", "1e8", "--width", 768, "--labels", "1e6", "--tasks", 60, "--workers", 16]
sizes = st.integers(1, 10**9)
workloads = st.builds(
    Workload,
    rows=sizes,
    width=st.integers(1, 4096),
    labels=st.integers(1, 10**6),
    tasks=st.integers(1, 100),
    workers=st.integers(1, 64),
    shards=st.integers(1, 100),
    file=st.sampled_from(running_costs.FILES),
    texts=st.booleans(),
)


@given(workloads, st.sampled_from(["rows", "width", "tasks"]))
def test_more_of_anything_never_costs_less(work, field):
    less = running_costs.costs(work)
    more = running_costs.costs(dataclasses.replace(work, **{field: 2 * getattr(work, field)}))
    assert more.disk["input"] >= less.disk["input"]
    assert more.predict["reading"] >= less.predict["reading"]
    if work.workers == 1 and field != "tasks":  # more tasks share the labels out
        assert more.learn_total >= less.learn_total
        assert more.memory["predicting"] >= less.memory["predicting"]


@given(workloads)
def test_what_is_read_and_summed_is_linear_in_rows(work):
    one = running_costs.costs(dataclasses.replace(work, workers=1))
    ten = running_costs.costs(dataclasses.replace(work, workers=1, rows=10 * work.rows))
    for part in ("reading", "sums", "labels"):
        assert ten.learn[part] == pytest.approx(10 * one.learn[part])
    same = Workload(rows=10 * work.rows, width=work.width, labels=work.labels, live_labels=1, tasks=work.tasks)
    few = dataclasses.replace(same, rows=work.rows)
    assert running_costs.costs(same).memory == running_costs.costs(few).memory  # rows cost no memory


@given(workloads)
def test_workers_share_the_rows_and_cost_a_start(work):
    one = running_costs.costs(dataclasses.replace(work, workers=1))
    assert one.learn["cluster"] == 0
    assert one.cluster["bytes_to_driver"] == 0
    many = running_costs.costs(dataclasses.replace(work, workers=8))
    assert one.learn["reading"] / 8 <= many.learn["reading"] <= one.learn["reading"]
    assert many.cluster["processor_hours"] == one.cluster["processor_hours"]
    assert many.learn["cluster"] >= many.speeds.ray_start


def test_a_task_has_the_parts_that_readers_make_of_it(tmp_path):
    for shard in range(3):
        (tmp_path / f"{shard}.csv").write_text("x,y\n" + 200_000 * "a text,label\n", encoding="utf-8")
    found = open_source(tmp_path, Columns(text="x", label="y")).parts()
    assert Workload(rows=600_000, texts=True, shards=3).parts == len(found) == 3
    assert running_costs._PART == sources.PART
    assert Workload(rows=10**8, width=384).parts == math.ceil(10**8 * (384 * 4 + 8) / sources.PART)
    assert Workload(rows=2, texts=True, shards=3).parts == 2  # one without rows is no part


def test_the_busiest_worker_decides():
    def learned(workers: int, shards: int) -> float:
        return running_costs.costs(Workload(rows=9_000, texts=True, workers=workers, shards=shards)).learn["encoding"]

    alone = learned(1, 1)
    assert learned(8, 1) == alone  # one part, one worker
    assert learned(8, 9) == pytest.approx(alone * 2 / 9)  # seven workers have one part, and one has two
    assert learned(9, 9) == learned(64, 9) == pytest.approx(alone / 9)


def test_plan_says_where_workers_have_nothing_to_do():
    words = ["plan", "--rows", "1e5", "--texts", "--workers", 4]
    assert "A task comes in 1 part, so no more workers" in " ".join(reticent(*words).stdout.split())
    spread = reticent(*words, "--shards", 8).stdout
    assert "so no more workers" not in " ".join(spread.split())
    assert json.loads(reticent(*words, "--shards", 8, "--json").stdout)["costs"]["cluster"]["parts"] == 8


def test_a_plan_by_hand():
    speeds = Speeds(
        parquet=1.0,
        cell=2.0,
        row=3.0,
        noise=5.0,
        publish=7.0,
        task=11.0,
        name=0.5,
        start=13.0,
        combine=17.0,
        product=19.0,
        answer=23.0,
    )
    found = running_costs.costs(Workload(rows=100, width=10, labels=4, tasks=2), speeds)
    assert found.learn == {
        "reading": 1000.0,
        "sums": 2000.0,
        "labels": 300.0,
        "noise": 2 * 4 * 10 * 5.0,
        "publishing": 2 * 4 * 10 * 7.0 + 2 * (11.0 + 4 * 0.5),
        "start": 13.0,
        "cluster": 0.0,
    }
    assert found.predict == {
        "start": 13.0 + 11.0 / 2 + 2 * 4 * 10 * 7.0 + 4 * 0.5,
        "combining": 4 * 2 * 10 * 17.0,
        "reading": 1000.0,
        "scoring": 100 * 10 * 4 * 19.0 + 100 * 23.0,
    }
    assert found.disk["release"] == 4 * 4 * 10
    assert found.disk["input"] == 100 * (4 * 10 + 8)


def test_sizes_of_releases_are_those_of_the_gate():
    assert Workload(rows=10**6, labels=standing.ALL_KEPT, tasks=3).kept(3) == standing.ALL_KEPT
    large = Workload(rows=10**6, labels=10**5, live_labels=10, tasks=3)
    noise = sparse.kept_share(10**5) * 10**5
    assert [large.kept(task) for task in (1, 2, 3)] == [noise + 10, 2 * noise + 20, 3 * noise + 30]
    assert large.kept(50) == noise + standing.STANDING + 500
    assert large.blocks == 6 * noise + 60
    assert Workload(rows=10**6, labels=2_100, tasks=3, live_labels=2_000).kept(3) == 2_100


def test_a_label_with_examples_needs_one():
    assert Workload(rows=10, labels=10**6, tasks=2).live == 5


def test_plan_prints_costs_for_people(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = reticent(*PAPER).stdout
    assert max(map(len, shown.splitlines())) <= 80
    for words in (
        "Time with 16 workers",
        "disk: the model",
        "memory to predict",
        "100,000,000 rows",
        "no data is read",
    ):
        assert words in " ".join(shown.split())


def test_plan_prints_costs_as_json():
    found = json.loads(reticent(*PAPER, "--json").stdout)["costs"]
    work = Workload(rows=10**8, width=768, labels=10**6, tasks=60, workers=16)
    assert found == running_costs.costs(work).json()
    assert set(found) >= {"learn_seconds", "predict_seconds", "memory_bytes", "disk_bytes", "cluster", "speeds"}
    assert found["workload"]["live_labels"] == 16_667
    assert found["learn_seconds"]["total"] == pytest.approx(sum(list(found["learn_seconds"].values())[:-1]))


def test_a_budget_and_costs_can_be_planned_together():
    words = ["plan", "--epsilon", 1, "--rows", "1e6", "--tasks", "1e1"]
    both = json.loads(reticent(*words, "--json").stdout)
    assert both["epsilon"] == 1
    assert both["costs"]["workload"]["tasks"] == 10
    shown = reticent(*words).stdout
    assert "Releasing labels at epsilon 1" in shown
    assert "Time with one worker" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--rows 1.5", "Expected --rows to be a whole number such as 1000000 or 1e6, got 1.5."),
        ("--rows nan", "Expected --rows to be a whole number"),
        ("--rows inf", "Expected --rows to be a whole number"),
        ("--rows many", "Expected --rows to be a whole number"),
        ("--rows 0", "Expected rows >= 1"),
        ("--rows 1e16", "Expected rows <= 1000000000000000"),
        ("--rows 10 --tasks -1", "Expected tasks >= 1"),
        ("--rows 10 --width 0", "Expected width >= 1"),
        ("--rows 10 --shards 0", "Expected shards >= 1"),
        ("--rows 10 --file xls", "Expected a file out of parquet, csv, npz"),
        ("--rows 10 --labels 10 --live-labels 11", "Expected live labels <= labels"),
        ("--rows 10 --tasks 1e12", "Expected tasks <= 1000000"),
        ("--rows 10 --plot plan.png", "Expected --epsilon E or --release N with --plot"),
        ("--rows 10 --html -", "Expected --epsilon E or --release N with --plot"),
        ("--epsilon 1 --live-labels 3", "Expected --rows N with --live-labels."),
        ("--epsilon 1 --measure", "Expected --rows N with --measure."),
    ],
)
def test_cost_refusals_print_one_line(words, sentence):
    assert sentence in refused(reticent("plan", *words.split()))


def test_workloads_are_refused_at_birth():
    with pytest.raises(errors.InvalidValue, match="Expected rows to be a whole number"):
        Workload(rows=1e6)  # type: ignore[arg-type]


def test_texts_need_an_encoder_in_each_process():
    speeds = running_costs.MEASURED
    plain, texts = (running_costs.costs(Workload(rows=1_000, width=384, texts=texts)) for texts in (False, True))
    for part in ("learn", "predict"):
        assert getattr(texts, part)["start"] - getattr(plain, part)["start"] == pytest.approx(speeds.encoder)
    assert {k: texts.memory[k] - plain.memory[k] for k in plain.memory} == pytest.approx(
        dict.fromkeys(plain.memory, speeds.encoder_base)
    )


def test_speeds_of_this_machine_replace_those_measured_elsewhere(monkeypatch):
    for name, small in (("ROWS", 400), ("NARROW", 2), ("WIDE", 4), ("LABELS", 3), ("MANY", 5), ("TASKS", 2)):
        monkeypatch.setattr(machine_speed, name, small)
    monkeypatch.setattr(machine_speed, "REPEATS", 1)
    found = machine_speed.measure()
    for field in ("parquet", "csv", "npz", "cell", "row", "noise", "publish", "task", "combine", "product"):
        assert getattr(found, field) > 0
        assert getattr(found, field) != getattr(running_costs.MEASURED, field)
    for field in ("text", "encoder", "ray_start", "network", "base", "encoder_base"):
        assert getattr(found, field) == getattr(running_costs.MEASURED, field)
    assert "this machine" in found.measured
