import copy
import pickle
import re
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import reticent as rt
from reticent import errors, schema
from reticent.encoders.wrapped import one_by_one
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.privacy import events
from reticent.released.contents import refuse_foreign

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
WIDTH = 64  # of fewer dimensions, one of thirty thousand noisy sums points at a class by chance


def data(labels: list[object], each: int, seed: int = 0) -> tuple[np.ndarray, list[object]]:
    """Well-separated classes around fixed directions."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(30, WIDTH)) * 3
    x = np.concatenate([centres[i % 30] + draw.normal(size=(each, WIDTH)) for i in range(len(labels))])
    return x, [label for label in labels for _ in range(each)]


POLICIES: dict[str, Callable[[], Any]] = {
    "public": lambda: rt.PublicLabels(["a", "b", "c"]),
    "released": rt.ReleasedLabels,
    "paper": lambda: rt.ReleasedLabels.paper(share=0.3),
}


def learned(policy: str, path: Path | None = None, noise: NoiseSource | None = None) -> rt.ContinualClassifier:
    model = rt.ContinualClassifier(labels=POLICIES[policy](), budget=BUDGET, path=path, noise=noise)
    model.learn_task(*data(["a", "b"], 400), name="march")
    x, _ = data(["a", "b", "c"], 400)
    model.learn_task(x[800:], ["c"] * 400, name="april")
    return model


@pytest.mark.parametrize("policy", list(POLICIES))
def test_learns_and_predicts(policy):
    model = learned(policy)
    x, y = data(["a", "b", "c"], 50, seed=1)
    assert model.score(x, y) > 0.95
    assert sorted(model.classes_) == ["a", "b", "c"]
    assert model.decision_function(x).shape == (150, 3)
    assert model.predict_top_k(x, 2).shape == (150, 2)
    assert (model.predict_top_k(x, 5)[:, 0] == model.predict(x)).all()
    assert model.predict_top_k(x, 5)[0, 4] == rt.UNKNOWN


def test_nothing_known_yet():
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(), budget=BUDGET)
    assert model.classes_.tolist() == []
    for answer in (model.predict, model.predict_top_k, model.decision_function):
        with pytest.raises(NotFittedError, match="learned no task yet"):
            answer(np.ones((2, WIDTH)))
    with pytest.raises(NotFittedError):
        model.private_score(np.ones((2, WIDTH)), ["a", "b"], epsilon=0.5, name="test")
    with pytest.warns(errors.ReticentWarning, match="NO LABEL IS KNOWN after task 'march'.* about 59 examples"):
        model.learn_task(np.ones((5, WIDTH)), ["a"] * 5, name="march")
    assert model.predict(np.ones((2, WIDTH))).tolist() == [rt.UNKNOWN] * 2


@pytest.mark.parametrize("policy", list(POLICIES))
def test_empty_task_is_learned(policy):
    model = rt.ContinualClassifier(labels=POLICIES[policy](), budget=BUDGET)
    model.learn_task(np.zeros((0, WIDTH)), [], name="empty")
    model.learn_task(np.ones((1, WIDTH)), ["a"], name="one")
    assert len(model.predict(np.ones((3, WIDTH)))) == 3
    model.learn_task(*data(["a", "b"], 400), name="march")
    x, y = data(["a", "b"], 50, seed=2)
    assert model.score(x, y) > 0.9


def test_rare_labels_are_not_released():
    x, y = data(["a", "b"], 400)
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(), budget=BUDGET)
    model.learn_task(np.concatenate([x, np.ones((1, WIDTH))]), [*y, "rare"], name="march")
    assert "rare" not in model.classes_


def test_known_labels_persist_only_where_remembered():
    x, y = data(["a", "b"], 400)
    for policy, rows in (("released", 2), ("paper", 0)):
        model = rt.ContinualClassifier(labels=POLICIES[policy](), budget=BUDGET)
        model.learn_task(x, y, name="march").learn_task(np.zeros((0, WIDTH)), [], name="april")
        assert len(model.releases[1].parameters["rows"]) == rows


def test_unusable_rows_are_dropped_silently(capfd):
    x, y = data(["a", "b"], 400)
    bad = np.full((8, WIDTH), 1.0)
    bad[0], bad[1], bad[2], bad[3, 0] = np.nan, np.inf, 0.0, 1e300
    labels = [*y, "a", "b", "a", None, float("nan"), ["list"], ("t", object()), 7]
    for policy in POLICIES:
        model = rt.ContinualClassifier(labels=POLICIES[policy](), budget=BUDGET)
        model.learn_task(np.concatenate([x, bad]), labels, name="march")
        assert set(model.classes_) <= {"a", "b", "c"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("learner", [None, rt.PeftEnsemble(epochs=1, rate=0.5, length=None)], ids=["cosine", "peft"])
def test_extreme_numbers_raise_no_warning(learner, recwarn):
    """A cast that overflows in one row must not cause a warning."""
    x, y = data(["a", "b"], 3)
    long, signalling = x.astype(np.longdouble), x.astype(np.float32)
    x[3, 2], long[3, 2], signalling.view(np.uint32)[3, 2] = 1e300, np.longdouble("1e4000"), 0x7F800001
    for rows in (x, long, signalling):
        model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), learner=learner, budget=BUDGET)
        assert [release.task for release in model.learn_task(rows, y, name="march").releases] == ["march"]
    assert not recwarn.list


@dataclass(frozen=True)
class Meanwhile:
    """A learner that also spends under another name, or in another ledger."""

    other: bool

    rule = rt.Cosine().rule

    def learn_task(self, task, policy, *, gate, **others):
        if self.other:
            return rt.Cosine().learn_task(task, policy, gate=Gate(Ledger.create(None, BUDGET)), **others)
        gate.spend(events.Gaussian(noise_multiplier=50.0), task="evaluation")
        return rt.Cosine().learn_task(task, policy, gate=gate, **others)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [(True, "Nothing was spent on this release of task 'march'"), (False, "got the name 'evaluation'")],
)
def test_a_task_is_paid_for_by_its_name_in_its_ledger(other, sentence):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a"]), learner=Meanwhile(other), budget=BUDGET)
    with pytest.raises(errors.NotPaidFor, match=sentence):
        model.learn_task(*data(["a"], 10), name="march")
    assert not model.releases
    assert not model.statement().spends


def test_a_copy_of_a_loaded_model_keeps_its_learner(tmp_path):
    learner = rt.PeftEnsemble(epochs=1, rate=0.5)
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(["a", "b"]), learner=learner, budget=BUDGET, path=tmp_path / "one"
    )
    model.learn_task(*data(["a", "b"], 20), name="march")
    rt.load(tmp_path / "one").save(tmp_path / "two")
    assert rt.load(tmp_path / "two")._learner() == learner


def test_spend_comes_before_the_draw(monkeypatch):
    """A source that fails at the first draw: the spend is in the ledger, the task is not learned."""
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a"]), budget=BUDGET)

    class Broken(NoiseSource):
        def words(self, n):
            raise RuntimeError("no entropy")

    model.noise = Broken(seed=None)
    with pytest.raises(errors.LearningFailed):
        model.learn_task(*data(["a"], 10), name="march")
    assert [s.task for s in model.statement().spends] == ["march"]
    assert model.releases == ()


def test_task_names_are_learned_once():
    model = learned("public")
    with pytest.raises(errors.BudgetExceeded, match=r"another name\.$"):
        model.learn_task(*data(["a"], 10), name="march")


def test_persons_are_capped():
    budget = rt.Budget(epsilon=1.0, delta=1e-5, examples_per_person=2)
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(count_weight=0.5), budget=budget)
    x, y = data(["a"], 3000)
    with pytest.warns(errors.ReticentWarning, match="NO LABEL IS KNOWN"):
        model.learn_task(x, y, name="one person", persons=["same"] * 3000)
    assert model.classes_.tolist() == []
    model.learn_task(x, y, name="many people", persons=[i // 2 for i in range(3000)])
    assert model.classes_.tolist() == ["a"]


def test_extending_labels_is_free_and_recorded():
    model = learned("public")
    before = model.statement().now
    model.extend_labels(["d", "a"])
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    x, _ = data(["a", "b", "c", "d"], 400)
    model.learn_task(x[1200:], ["d"] * 400, name="may")
    assert model.predict(x[1200:1300]).tolist().count("d") > 90
    assert model.statement().now.epsilon == pytest.approx(before.epsilon)
    assert "1 public label(s) added" in model.privacy_statement()


def test_remap_sends_fine_labels_to_their_parents():
    taxonomy = rt.Taxonomy.from_edges([("a.1", "a"), ("a.2", "a"), ("b.1", "b")])
    x, y = data(["a.1", "b.1"], 400)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"], remap=taxonomy), budget=BUDGET)
    assert model.learn_task(x, y, name="march").score(x, [label[0] for label in map(str, y)]) > 0.95


# --- scikit-learn


@pytest.mark.parametrize("again", ["learn_task", "partial_fit"])
def test_a_second_task_needs_a_name(tmp_path, again):
    """A notebook cell that ran five times learned "task 1" to "task 5": epsilon 2.442 where 1 was printed."""
    x, y = data(["a", "b"], 50)
    for path in (None, tmp_path / "model"):
        model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=BUDGET, path=path)
        getattr(model, again)(x, y)
        models = [model] if path is None else [model, rt.load(path)]
        for each in models:
            with pytest.raises(
                errors.InvalidValue, match=r"name=\"april\"\).*when a cell runs again.*Nothing was spent"
            ):
                getattr(each, again)(x, y)
        assert [spend.task for spend in model.statement().spends] == ["task 1"]
        model.learn_task(x, y, name="april")
    scored = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=BUDGET).learn_task(x, y, name="march")
    scored.private_score(x, y, epsilon=0.5, name="test")
    with pytest.raises(errors.InvalidValue, match="Expected a name"):
        getattr(scored, again)(x, y)


def copies_of(model: rt.ContinualClassifier) -> list[rt.ContinualClassifier]:
    return [clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone(make_pipeline(model))[0]]  # noqa: S301


def warned(call: Callable[..., Any], *given: Any, **named: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*given, **named)
    return [str(one.message) for one in found if issubclass(one.category, errors.ReticentWarning)]


def test_copies_warn_with_the_sum():
    """GridSearchCV learned 13 times for epsilon 1 each: 4.21 for who is in all, and nothing was said."""
    (x, y), public = data(["a", "b"], 60), rt.PublicLabels(["a", "b"])
    search = GridSearchCV(
        rt.ContinualClassifier(labels=public, budget=BUDGET), {"learner": [None, rt.Cosine()] * 2}, cv=3
    )
    said = warned(search.fit, x, y)
    assert len(said) == 12  # of 13 fits: the first is none
    assert said[-1].startswith("13 copies of one classifier have spent in this process")
    assert (
        "Who is in 13 of their tasks, as these budgets allow, has lost epsilon 4.2080 at delta 1e-05, not 1;"
        in said[-1]
    )
    for i in range(4):  # each way of copying, before and after the original has learned
        original = rt.ContinualClassifier(labels=public, budget=BUDGET)
        other = copies_of(original)[i]
        assert warned(original.fit, x, y) == []
        (first,) = warned(other.fit, x, y)
        assert "epsilon 1.4652 at delta 1e-05, not 1;" in first
        (second,) = warned(other.private_score, x, y, epsilon=0.5, name="test")
        assert "epsilon 1." in second
    model = learned("public")
    assert clone(copy.deepcopy(model)).get_params()["budget"] == BUDGET  # neither has a ledger
    assert warned(model.learn_task, x, y, name="may") == []
    (third,) = warned(clone(model).fit, x, y)  # one person is in one task of each
    assert third.startswith("2 copies of one classifier have spent")
    assert "in 2 of their tasks" in third


def test_warnings_of_copies_tell_ledgers_alone():
    """No row changes them, what is on public data with seeded noise has none, and strangers have nothing in common."""
    public, said = rt.PublicLabels(["a", "b"]), []
    neighbours: list[Any] = [data(["a", "b"], 60), (np.full((3, 2), np.nan), ["z"] * 3), (np.zeros((0, 5)), [])]
    for rows in neighbours:
        one = copy.copy(rt.ContinualClassifier(labels=public, budget=BUDGET)).fit(*rows)
        said.append(warned(clone(one).fit, *rows))
    assert len(said[0]) == 1
    assert said[0] == said[1] == said[2]
    seeded = rt.ContinualClassifier(labels=public, budget=BUDGET, noise=NoiseSource.seeded(0))
    copies = [clone(seeded) for _ in range(3)]
    assert warned(lambda: [one.fit(*data(["a", "b"], 60)) for one in copies]) == []
    drawn = [one.releases[0].parameters["sums"] for one in copies]  # of one source, and never the same
    assert not any(np.array_equal(one, other) for one, other in combinations(drawn, 2))
    assert warned(lambda: [learned("public"), learned("public")]) == []


def test_clone_is_a_new_ledger():
    other = clone(rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=BUDGET))
    assert other.get_params()["budget"] == BUDGET
    assert not hasattr(other, "_directory")
    other.fit(*data(["a", "b"], 300))
    with pytest.raises(errors.InvalidValue, match="Expected a new classifier"):
        other.fit(*data(["a", "b"], 300))
    with pytest.raises(errors.InvalidValue, match="no classes"):
        other.partial_fit(*data(["a", "b"], 300), classes=["a", "b"])


def test_works_in_a_pipeline():
    x, y = data(["a", "b"], 300)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=BUDGET)
    pipeline = make_pipeline(FunctionTransformer(np.tanh), model)
    assert pipeline.fit(x, y).score(x, y) > 0.9


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "Expected a budget"),
        ({"budget": 1.0}, "Expected a budget"),
        ({"budget": BUDGET, "labels": ["a", "b"]}, "Expected a label space"),
    ],
)
def test_settings_are_refused(settings, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        rt.ContinualClassifier(**settings).learn_task(np.ones((2, 2)), ["a", "b"])


def test_shapes_are_refused():
    model = learned("public")
    with pytest.raises(errors.InvalidValue, match="width 64"):
        model.predict(np.ones((2, 3)))
    with pytest.raises(errors.InvalidValue, match="shape"):
        model.learn_task(["text", "more"], ["a", "b"], name="may")


# --- saving and loading


@pytest.mark.parametrize("policy", list(POLICIES))
def test_saved_and_loaded_is_the_same(policy, tmp_path):
    model = learned(policy, tmp_path / "model")
    again = rt.load(tmp_path / "model")
    x, _ = data(["a", "b", "c"], 40, seed=3)
    assert (again.predict(x) == model.predict(x)).all()
    assert again.privacy_statement() == model.privacy_statement()
    again.learn_task(*data(["a"], 30), name="may")
    assert [r.task for r in rt.load(tmp_path / "model").releases] == ["march", "april", "may"]


def test_save_copies_model_and_ledger(tmp_path):
    model = learned("released")
    assert "in memory only" in model.privacy_statement()
    model.save(tmp_path / "copy")
    again = rt.load(tmp_path / "copy")
    x, _ = data(["a", "b", "c"], 40, seed=3)
    assert (again.predict(x) == model.predict(x)).all()
    with Ledger.open(tmp_path / "copy") as ledger:
        assert [s.task for s in ledger.statement().spends] == ["march", "april"]


def test_saved_model_has_no_trace_of_canaries(tmp_path):
    x, y = data(["a", "b"], 400)
    canary = np.full(WIDTH, 0.123456789)
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(), budget=BUDGET, path=tmp_path)
    model.learn_task(np.concatenate([x, canary[None]]), [*y, "canary-7f3a"], name="march")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert b"canary-7f3a" not in content
            assert np.float32(0.123456789).tobytes() not in content
            assert np.float64(0.123456789).tobytes() not in content


@pytest.mark.parametrize("policy", list(POLICIES))
def test_neighbours_differ_in_values_only(policy, tmp_path):
    """One example less: the same files with the same sizes, names, shapes and keys."""
    x, y = data(["a", "b"], 400)
    shapes = []
    for name, keep in (("with", 800), ("without", 799)):
        model = rt.ContinualClassifier(labels=POLICIES[policy](), budget=BUDGET, path=tmp_path / name)
        model.learn_task(x[:keep], y[:keep], name="march")
        files = {
            str(f.relative_to(tmp_path / name)): f.stat().st_size for f in (tmp_path / name).rglob("*") if f.is_file()
        }
        keys = re.sub(r"[0-9a-f]{64}|[0-9a-f]{32}", "DIGEST", (tmp_path / name / "manifest.json").read_text())
        shapes.append((files, keys))
    assert shapes[0] == shapes[1]


def test_seeded_models_say_so(tmp_path):
    model = learned("public", tmp_path, NoiseSource.seeded(1))
    assert "NOT PRIVATE" in model.privacy_statement()
    assert not any(r.private for r in rt.load(tmp_path).releases)


def test_predicting_needs_no_gate(tmp_path):
    learned("released", tmp_path)
    code = f"""
import sys, numpy as np, reticent as rt
model = rt.load({str(tmp_path)!r})
assert len(model.predict(np.ones((2, {WIDTH})))) == 2 and len(model.classes_) == 3
print([m for m in sys.modules if m.startswith(("reticent.gate", "reticent.sensitive", "torch"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_damaged_models_are_refused(tmp_path):
    with pytest.raises(errors.InvalidValue, match="No model at"):
        rt.load(tmp_path)
    learned("public", tmp_path / "m")
    (release, *_) = sorted((tmp_path / "m" / "releases").iterdir())
    good = release.read_bytes()
    release.write_bytes(good[:-1])
    with pytest.raises(errors.InvalidValue, match="digest differs"):
        rt.load(tmp_path / "m")
    release.unlink()
    with pytest.raises(errors.InvalidValue, match="missing"):
        rt.load(tmp_path / "m")
    (tmp_path / "m" / "manifest.json").write_text("{")
    with pytest.raises(errors.InvalidValue, match="cannot be read"):
        rt.load(tmp_path / "m")
    (tmp_path / "m" / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(errors.InvalidValue, match="newer version"):
        rt.load(tmp_path / "m")


@pytest.mark.parametrize("number", [1, 3])
def test_older_folders_are_refused(tmp_path, number):
    """Those of 0.1.0 had format 3: they are neither read nor changed, whatever their ledger says."""
    folder = tmp_path / "m"
    learned("public", folder)
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 4', f'"format": {number}'))
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    for use in (rt.load, refuse_foreign):
        with pytest.raises(errors.ReticentError, match=r"written by reticent 0\.1\.0 or before"):
            use(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_an_existing_model_is_not_overwritten(tmp_path):
    """The natural mistake: the same constructor next month. It must not drop what was learned."""
    learned("public", tmp_path)
    other = rt.ContinualClassifier(labels=POLICIES["public"](), budget=BUDGET, path=tmp_path)
    with pytest.raises(errors.InvalidValue, match="Continue with load"):
        other.learn_task(*data(["a"], 10), name="may")
    assert [r.task for r in rt.load(tmp_path).releases] == ["march", "april"]


def test_a_budget_cannot_change(tmp_path):
    model = learned("public", tmp_path)
    model.budget = rt.Budget(epsilon=2.0, delta=1e-5)
    with pytest.raises(errors.InvalidValue, match="cannot change"):
        model.learn_task(*data(["a"], 10), name="may")


def test_functions_are_encoders_of_one_example_at_a_time(tmp_path):
    """A function that sees all rows could let one of them change the features of the others."""
    seen = []

    def lengths(texts: Sequence[object]) -> np.ndarray:
        seen.append(len(texts))
        return np.array([[len(str(text)), 1.0, 50.0] for text in texts])

    given = ["x"] * 300 + ["x" * 50] * 300, ["short"] * 300 + ["long"] * 300
    model = rt.ContinualClassifier(
        encoder=lengths, labels=rt.PublicLabels(["short", "long"]), budget=BUDGET, path=tmp_path
    )
    model.learn_task(*given, name="march")
    assert model.private_score(*given, epsilon=0.1, name="test") >= 0
    assert set(seen) == {1}
    assert model.predict(["y", "y" * 40]).tolist() == ["short", "long"]
    with pytest.raises(errors.InvalidValue, match="Expected the encoder"):
        rt.load(tmp_path)
    assert rt.load(tmp_path, encoder=lengths).predict(["y"]).tolist() == ["short"]


@pytest.fixture
def learned_before(monkeypatch):
    """As if a task had been learned: private accuracy asks for one first."""
    monkeypatch.setattr(schema, "refuse_unlearned", lambda releases: None)


def test_a_function_that_remembers_is_refused_before_the_spend(learned_before):
    seen: list[str] = []

    def mean_so_far(texts: Sequence[str]) -> np.ndarray:
        seen.extend(texts)
        return np.full((len(texts), 2), np.mean([len(text) for text in seen]))

    model = rt.ContinualClassifier(encoder=mean_so_far, labels=rt.PublicLabels(["a"]), budget=BUDGET)
    for verb in (model.learn_task, partial(model.private_score, epsilon=0.1)):
        with pytest.raises(errors.InvalidValue, match="remembers no examples"):
            verb(["private"], ["a"], name="march")
    assert "private" not in seen
    assert model.statement().spends == ()


class SumSoFar:
    """Remembers rows of numbers, and fails on texts."""

    width = 2

    def __init__(self) -> None:
        self.total = np.zeros(2)

    def __call__(self, rows: Any) -> np.ndarray:
        self.total = self.total + np.asarray(rows, dtype=float).sum(axis=0)
        return np.asarray(rows, dtype=float) + self.total


def test_a_function_that_nothing_public_can_be_tried_with_is_refused_before_the_spend(learned_before):
    encoder = SumSoFar()
    model = rt.ContinualClassifier(encoder=encoder, labels=rt.PublicLabels(["a"]), budget=BUDGET)
    for verb in (model.learn_task, partial(model.private_score, epsilon=0.1)):
        with pytest.raises(errors.InvalidValue, match=r"probe=\.\.\."):
            verb([[1.0, 0.0]], ["a"], name="march")
    assert not encoder.total.any()
    assert model.statement().spends == ()


def test_a_function_without_a_width_is_refused_before_the_spend(learned_before):
    model = rt.ContinualClassifier(
        encoder=lambda texts: np.array([float(len(t)) for t in texts]), labels=rt.PublicLabels(["a"]), budget=BUDGET
    )
    for verb in (model.learn_task, partial(model.private_score, epsilon=0.1)):
        with pytest.raises(errors.InvalidValue, match="how many features"):
            verb(["x"] * 3, ["a"] * 3, name="march")
    assert model.statement().spends == ()


def test_rows_that_a_function_cannot_encode_are_left_out():
    """Without an exception, a warning, or another row for it."""

    def inverse(rows: np.ndarray) -> np.ndarray:
        if (rows == 0).any():
            raise ZeroDivisionError(f"{len(rows)} rows")
        return 1 / rows if rows.shape == (1, 2) else np.zeros((1, 1))

    found = one_by_one(inverse, np.ones((3, 2)))(np.array([[1.0, 2.0], [0.0, 1.0], [4.0, 1.0]]))
    assert np.array_equal(found, [[1.0, 0.5], [np.nan, np.nan], [0.25, 1.0]], equal_nan=True)


# --- label spaces of any size


def many(path: Path | None = None, extra: int = 30_000) -> rt.ContinualClassifier:
    labels = ["a", "b", "c", *(f"never {i}" for i in range(extra))]
    return rt.ContinualClassifier(labels=rt.PublicLabels(labels), budget=BUDGET, path=path)


def test_large_label_spaces_keep_what_stands_out():
    model = many()
    x, y = data(["a", "b", "c"], 400)
    model.learn_task(x[:800], y[:800], name="march").learn_task(x[800:], y[800:], name="april")
    first, second = (set(release.parameters["rows"].tolist()) for release in model.releases)
    assert {0, 1} <= first <= second  # what passed once keeps its later blocks
    assert 2 in second
    assert len(second) < 1_500  # of 30,000
    fresh, truth = data(["a", "b", "c"], 50, seed=1)
    assert model.score(fresh, truth) > 0.95
    assert model.predict_top_k(fresh, 300).shape == (150, 300)


def test_empty_tasks_of_large_label_spaces():
    model = many()
    model.learn_task(np.zeros((0, WIDTH)), [], name="empty").learn_task(np.ones((1, WIDTH)), ["a"], name="one")
    assert len(model.predict(np.ones((3, WIDTH)))) == 3
    x, y = data(["a", "b"], 400)
    assert model.learn_task(x, y, name="march").score(x, y) > 0.9


def test_too_many_scores_are_refused():
    model = many(extra=100_000)
    model.learn_task(*data(["a"], 400), name="march")
    with pytest.raises(errors.InvalidValue, match="predict_top_k"):
        model.decision_function(np.ones((1, WIDTH)))


def test_names_are_stored_once(tmp_path):
    """The names are in one file that no task touches; nothing else grows with them."""
    model = many(tmp_path)
    model.learn_task(*data(["a", "b"], 400), name="march")
    names = tmp_path / "labels.json"
    written = names.stat().st_mtime_ns
    model.learn_task(*data(["a", "b"], 400), name="april")
    assert names.stat().st_mtime_ns == written
    assert b"never 29999" in names.read_bytes()
    for file in tmp_path.rglob("*"):
        if file.is_file() and file != names:
            assert b"never 29999" not in file.read_bytes()
            assert file.stat().st_size < 250_000
    again = rt.load(tmp_path)
    x, _ = data(["a", "b"], 50, seed=1)
    assert (again.predict(x) == model.predict(x)).all()
    again.learn_task(*data(["a", "b"], 400), name="may")
    names.write_text("[]")
    with pytest.raises(errors.InvalidValue, match="digest differs"):
        rt.load(tmp_path)


def test_memory_does_not_follow_the_label_space():
    """What a task and a prediction allocate, with 200,000 labels and with 100: names and index apart."""
    peaks = []
    for extra in (100, 200_000):
        model = many(extra=extra).learn_task(*data(["a", "b"], 400), name="march")
        model.predict(np.ones((1, WIDTH)))
        x, y = data(["a", "b"], 400)
        tracemalloc.start()
        model.learn_task(x, y, name="april").predict(x)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 16_000_000  # blocks that are kept: bounded, whatever the space


def test_a_grown_label_space_keeps_its_blocks():
    """A small space publishes all blocks: they are kept when added public labels make it a large one."""
    model = learned("public")
    model.extend_labels(f"never {i}" for i in range(30_000))
    model.learn_task(np.zeros((0, WIDTH)), [], name="may")
    assert {0, 1, 2} <= set(model.releases[-1].parameters["rows"].tolist())
    x, y = data(["a", "b", "c"], 50, seed=1)
    best = model.decision_function(x)[:, :3].argmax(axis=1)  # among themselves: noise of a new label may sometimes win
    assert np.mean(np.array(["a", "b", "c"])[best] == y) > 0.95


def test_labels_may_be_tuples():
    model = rt.ContinualClassifier(labels=rt.PublicLabels([("a", 1), ("b", 2)]), budget=BUDGET)
    x, _ = data(["a", "b"], 400)
    model.learn_task(x, [("a", 1)] * 400 + [("b", 2)] * 400, name="march")
    assert model.predict(x[[0, -1]]).tolist() == [("a", 1), ("b", 2)]
    assert model.classes_.tolist() == [("a", 1), ("b", 2)]


def test_the_paper_publishes_every_block():
    """Also beyond 2,000 labels: the paper's mode is never changed."""
    space = rt.PublicLabels(range(3_000))
    model = rt.ContinualClassifier(labels=space, learner=rt.Cosine.paper(), budget=BUDGET)
    model.learn_task(np.zeros((0, 3)), [], name="march")
    assert len(model.releases[0].parameters["rows"]) == 3_000
    ours = rt.ContinualClassifier(labels=space, budget=BUDGET).learn_task(np.zeros((0, 3)), [], name="march")
    assert len(ours.releases[0].parameters["rows"]) < 400


@pytest.mark.parametrize("learner", [rt.Cosine(), rt.Cosine.paper(), rt.PeftEnsemble(task_size=50)])
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (np.ones((20, WIDTH + 1)), f"width {WIDTH}, as in earlier tasks"),
        (np.ones(20), "shape"),
        (np.ones((20, WIDTH, 2)), "shape"),
        (np.full((20, WIDTH), "text"), "shape"),
        ([[1.0] * WIDTH] * 19 + [[1.0]], "^Expected features of shape .n, K., or an encoder that makes them.$"),
    ],
)
def test_wrong_shapes_are_refused_before_the_spend(learner, wrong, sentence):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), learner=learner, budget=BUDGET)
    model.learn_task(*data(["a", "b"], 20), name="march")
    with pytest.raises(errors.InvalidValue, match=sentence):
        model.learn_task(wrong, ["a", "b"] * 10, name="april")
    assert len(model.statement().spends) == 1
    assert model.predict(np.ones((2, WIDTH))).shape == (2,)
