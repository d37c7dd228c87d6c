"""Specs: what a TOML file becomes, and what is refused in one sentence."""

import itertools
import re
from dataclasses import replace

import pytest

from reticent import errors
from reticent.lab.bench import catalogue, specs
from reticent.lab.bench.paper_numbers import TABLES, paper_values
from reticent.lab.bench.specs import narrowed, read, spec
from reticent.lab.data import datasets

GRID = 'data = "clinc150"\nlearner = "cosine"\n'


@pytest.mark.parametrize("name", specs.names())
def test_every_packaged_spec_says_what_it_runs(name):
    found = spec(name)
    assert found.name == name
    assert found.title != name  # a readable title
    assert (found.kind == "grid") == bool(found.runs)
    assert len({run.digest for run in found.runs}) == len(found.runs)
    assert {run.data for run in found.runs} <= set(datasets.NAMES)
    assert sum(len(paper_values(table)) for table in found.paper) > 0 or not found.paper


def test_everything_offline_needs_no_network():
    assert set(specs.OFFLINE) < set(specs.names())
    data = {run.data for name in specs.OFFLINE for run in spec(name).runs}
    texts = {"clinc150", "clinc150-banking", "icd10cm", "icd10cm-blocks", "phenotypes"}
    assert data == {*texts, "cifar100-features", "digits", "cifar100-images", "digits-and-cifar100"}


def test_a_paper_table_that_is_named_has_numbers_in_the_columns_of_its_spec():
    for found in map(spec, specs.names()):
        columns = {getattr(run, found.columns, None) for run in found.runs}
        for table in found.paper:
            assert any(getattr(value, found.columns) in columns for value in paper_values(table)), (found.name, table)


def test_a_grid_is_a_product():
    made = read(
        "mine", 'data = ["clinc150", "icd10cm"]\nlearner = ["cosine", "peft"]\nepsilon = [1, "none"]\nseeds = 3'
    )
    axes = itertools.product(["clinc150", "icd10cm"], ["cosine", "peft"], [1.0, None], range(3))
    assert [(c.data, c.learner, c.epsilon, c.seed) for c in made.runs] == list(axes)
    assert {(c.labels, c.ratio, c.share, c.adapter, c.tasks) for c in made.runs} == {
        ("base", 0.0, None, "last_layer", 10)
    }


def test_grids_add_up_and_override_what_is_above_them():
    text = (
        GRID + 'tasks = 4\nseeds = 2\n[[grid]]\nlabels = ["base", "released"]\n[[grid]]\ntasks = 1\nlabels = "base"\n'
    )
    assert [(c.labels, c.tasks, c.seed) for c in read("mine", text).runs] == [
        ("base", 4, 0),
        ("base", 4, 1),
        ("released", 4, 0),
        ("released", 4, 1),
        ("base", 1, 0),
        ("base", 1, 1),
    ]


def test_a_run_that_two_grids_ask_for_is_there_once():
    twice = read("mine", GRID + "[[grid]]\nepsilon = [1, 8]\n[[grid]]\nepsilon = 1\n")
    assert len(twice.runs) == 2 * specs.SEEDS


def test_the_same_run_of_two_specs_has_the_same_digest():
    one, two = (
        {c.digest: c for c in spec(name).runs if (c.data, c.learner, c.epsilon) == ("clinc150", "cosine", 1)}
        for name in ("labels", "sizes")
    )
    shared = set(one) & set(two)
    assert {one[key].labels for key in shared} == {"oracle", "base", "public-1000x"}
    assert all(one[key] == two[key] for key in shared)
    whole, real = read("a", GRID + "epsilon = 1\nratio = 10"), read("b", GRID + "epsilon = 1.0\nratio = 10.0")
    assert [c.digest for c in whole.runs] == [c.digest for c in real.runs]


@pytest.mark.parametrize(
    ("learner", "labels", "share"),
    [
        ("cosine-paper", "released", 10.0),
        ("peft-paper", "released", 10.0),
        ("cosine-paper", "base", None),
        ("cosine", "released", None),
    ],
)
def test_only_the_papers_released_labels_have_a_share_by_default(learner, labels, share):
    made = read("mine", f'data = "clinc150"\nlearner = "{learner}"\nlabels = "{labels}"')
    assert {run.share for run in made.runs} == {share}
    both = f'data = "clinc150"\nlearner = "{learner}"\nlabels = ["{labels}", "released"]\nshare = [2.5, 50]'
    given = {(run.labels, run.share) for run in read("mine", both).runs}
    assert given == {(labels, None)} - {("released", None)} | {("released", 2.5), ("released", 50.0)}


def test_one_table_or_metric_needs_no_list():
    made = read("mine", GRID + 'paper = "datafig3"\nmetrics = "forgetting"')
    assert (made.paper, made.metrics, made.statistic, made.columns) == (
        ("datafig3",),
        ("forgetting",),
        "median",
        "labels",
    )


def test_narrowed_keeps_first_seeds_and_what_is_named():
    whole = spec("labels")
    assert narrowed(whole) == whole
    assert {c.seed for c in narrowed(whole, seeds=2).runs} == {0, 1}
    few = narrowed(whole, only=["clinc150", "icd10cm", "cosine"])
    assert few.runs == tuple(c for c in whole.runs if c.data in ("clinc150", "icd10cm") and c.learner == "cosine")
    film = narrowed(spec("paper"), only=["film"])
    assert {c.adapter for c in film.runs} == {"film"}
    assert {c.data for c in film.runs} == {"split-cifar100", "split-imagenet-r", "five-datasets"}
    own = read("mine", 'data = "clinc150"\nlearner = ["a:b", "cosine"]')
    assert {c.learner for c in narrowed(own, only=["a:b"]).runs} == {"a:b"}
    assert narrowed(whole, only=["mnist"]).runs == ()
    assert narrowed(spec("drop"), seeds=1, only=["clinc150"]) == spec("drop")
    with pytest.raises(errors.InvalidValue, match="seeds >= 1"):
        narrowed(whole, seeds=0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data = ", "Spec mine is not TOML"),
        (GRID + "lerner = 1", "Spec mine has an unknown key: lerner."),
        (GRID + "[[grid]]\nsedes = 1\nzeta = 2", "unknown key: sedes, zeta."),
        (GRID + "seed = 3", "unknown key: seed."),
        ('kind = "drop"\nlerner = 1', "unknown key: lerner."),
        (GRID + "[grid]\nseeds = 1", "expected each grid to begin with [[grid]]"),
        (GRID + "grid = 3", "expected each grid to begin with [[grid]]"),
        ("", "Spec mine names no data."),
        ('data = "clinc150"', "Spec mine names no learner."),
        ('data = []\nlearner = "cosine"', "Spec mine names no data."),
        (GRID + "labels = []", "Spec mine names no labels."),
        ('data = 3\nlearner = "cosine"', "expected data to be text"),
        ('data = "clinc150"\nlearner = 3', "expected learner to be text"),
        ('data = "clinc150"\nlearner = [["cosine"]]', "expected learner to be text"),
        ('data = "clinc150"\nlearner = "cosinus"', "expected learner to be one of cosine-paper, cosine, "),
        (GRID + 'labels = "magic"', "expected labels to be one of oracle, base, "),
        (GRID + "labels = 3", "expected labels to be text"),
        (GRID + 'adapter = "lora"', "expected adapter to be one of last_layer, film."),
        (GRID + "epsilon = 0", "Expected epsilon > 0"),
        (GRID + 'epsilon = "much"', "Expected epsilon to be a number"),
        (GRID + "ratio = 101", "Expected ratio >= 0"),
        (GRID + "ratio = -1", "Expected ratio >= 0"),
        (GRID + 'labels = "released"\nshare = 100', "Expected share > 0"),
        (GRID + "share = 10", "a share is spent on labels"),
        (GRID + "tasks = 0", "Expected tasks >= 1"),
        (GRID + "tasks = [1, 2]", "Expected tasks to be a whole number"),
        (GRID + "seeds = 0", "Expected seeds >= 1"),
        (GRID + "seeds = 1.5", "Expected seeds to be a whole number"),
        (GRID + 'kind = "magic"', "expected kind to be one of grid, attack, drop."),
        (GRID + 'columns = "metric"', "expected columns to be one of labels, "),
        (GRID + 'statistic = "mode"', "expected statistic to be one of median, "),
        (GRID + 'metrics = ["accuracy", "speed"]', "expected metrics to be one of accuracy, "),
        (GRID + "metrics = 3", "expected metrics to be one of accuracy, "),
        (GRID + 'paper = "datafig99"', "expected paper to be one of datafig3, "),
    ],
)
def test_bad_specs_are_refused_in_one_sentence(text, sentence):
    with pytest.raises(errors.InvalidValue, match=re.escape(sentence)) as refusal:
        read("mine", text)
    assert "\n" not in str(refusal.value)


def test_specs_are_found_by_name_or_path(tmp_path):
    with pytest.raises(errors.InvalidValue, match=r"No spec is called magic. There are aggregation, .* or a path"):
        spec("magic")
    with pytest.raises(errors.InvalidValue, match="there is no such file"):
        spec(str(tmp_path / "mine.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(errors.InvalidValue, match="there is no such file"):
        spec(str(tmp_path / "folder.toml"))
    file = tmp_path / "mine.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(errors.InvalidValue, match="is not TOML"):
        spec(str(file))
    file.write_text(GRID)
    found = spec(str(file))
    assert (found, found.command) == (replace(read("mine", GRID), path=str(file)), str(file))
    assert read("mine", GRID).command == "mine"


@pytest.mark.parametrize("line", ['epsilon = "none"', 'labels = "oracle"'])
def test_an_own_learner_is_never_shown_without_privacy(line):
    text = f'data = "clinc150"\nlearner = "mine:Learner"\n{line}'
    with pytest.raises(errors.InvalidValue, match="a learner of your own"):
        read("mine", text)
    assert read("mine", text.replace(line, "epsilon = 8")).runs


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('data = "clinc150"\nlearner = "cosine"\nseeds = 1000000000', "seeds <= 10000"),
        (f'data = "clinc150"\nlearner = "cosine"\nepsilon = {[1] * 9_000}\nseeds = 9', "at most 10,000 runs"),
        ("a = " + "[" * 5_000, "is not TOML"),
        ("a = " + "1" * 5_000, "is not TOML"),
    ],
)
def test_specs_without_end_are_refused_at_once(text, sentence):
    """A million seeds took half a minute to write down, before the first run."""
    with pytest.raises(errors.InvalidValue, match=sentence):
        specs.read("mine", text)


# --- specs of parts


def test_the_paper_is_all_of_it():
    """Every number that the paper prints has a run of the paper's own method or baseline, in the part that shows it."""
    parts = specs.chosen(["paper"])
    assert {one.kind for one in parts} == set(specs.KINDS)
    assert {table for one in parts for table in one.paper} == set(TABLES)
    for table in TABLES:
        made = {
            (run.data, catalogue.entry(run.learner).family, run.adapter, run.epsilon, run.labels, run.ratio, run.share)
            for part in parts
            for run in part.runs
            if table in part.paper and catalogue.entry(run.learner).origin != catalogue.OURS
        }
        for value in paper_values(table):
            assert any(
                value.data == data
                and value.learner in (None, family)
                and (value.adapter in (None, adapter) or family == "cosine")
                and value.epsilon == epsilon
                and value.labels in (None, labels)
                and (value.ratio or 0.0) == ratio
                and value.share in (None, share)
                for data, family, adapter, epsilon, labels, ratio, share in made
            ), (table, value.row)


def test_the_paper_has_its_seeds():
    def seeds(name: str, **fields: str) -> int:
        return len({run.seed for run in spec(name).runs if all(getattr(run, k) == v for k, v in fields.items())})

    assert seeds("paper-labels", learner="peft-paper") == 5
    assert seeds("paper-domain-shift", data="split-imagenet-r") == 3
    assert seeds("paper-domain-shift", data="five-datasets", learner="peft-paper") == 3  # each shows all orders
    assert seeds("paper-orders") == 120
    assert seeds("paper-tasks", data="split-imagenet-r") == 5  # its figure has five repeats, its table three


def test_figures_of_every_order_have_the_runs_of_the_table():
    naive = {run.digest for run in spec("paper-tasks").runs if run.data == "five-datasets" and run.seed > 2}
    table = {run.digest for run in spec("paper-orders").runs}
    assert len(naive) == 3 * 117
    assert naive < table
    new = set(spec("paper-tasks").runs) - set(spec("paper-domain-shift").runs) - set(spec("paper-orders").runs)
    assert {(run.data, run.seed) for run in new} == {("split-imagenet-r", 3), ("split-imagenet-r", 4)}


def test_a_spec_of_parts_has_their_runs_once():
    whole = spec("paper")
    assert set(whole.runs) == {run for one in specs.chosen(["paper"]) for run in one.runs}
    assert len(whole.runs) == len(set(whole.runs))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('parts = ["nothing"]', "expected parts to be one of"),
        ('parts = ["paper"]', "no parts themselves"),
        ('parts = ["drop"]\ndata = "clinc150"', "unknown key: data"),
        ('parts = ["drop"]\n[[grid]]\ndata = "clinc150"', "unknown key: grid"),
    ],
)
def test_parts_are_refused_in_one_sentence(text, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        read("mine", text)
