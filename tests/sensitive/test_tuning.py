"""Tuning: free on public data, paid for on sensitive data, or marked as not covered."""

import json
import logging
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

import reticent as rt
from reticent import errors
from reticent.encoders import film, wrap
from reticent.gate import gate as gates
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.privacy import accounting, events, renyi
from reticent.privacy.statement import Spend
from reticent.sensitive import tuning
from reticent.sensitive.task import Task
from reticent.sensitive.training import Training, train
from reticent.sensitive.tuning import private_search, public_search, trials
from tests.conftest import ALPHA
from tests.test_boundary import loaded_by

BUDGET = rt.Budget(epsilon=8.0, delta=1e-5)
WIDTH = 12
LABELS = rt.PublicLabels(list("abcd"))
SMALL = rt.PeftEnsemble(task_size=60, epochs=2)


def data(each: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    centres = np.random.default_rng(7).normal(size=(4, WIDTH)) * 3
    x = centres.repeat(each, axis=0) + np.random.default_rng(seed).normal(size=(4 * each, WIDTH))
    return x.astype(np.float32), [label for label in "abcd" for _ in range(each)]


def some_noise(_: events.Event, __: rt.Budget, *, rate: float, steps: int) -> events.DpSgd:
    """Stands for calibration where its result does not matter: it takes most of a trial's time."""
    return events.DpSgd(noise_multiplier=1.0, rate=rate, steps=steps)


@pytest.fixture
def seen(monkeypatch) -> list[Training]:
    """What each training was given."""
    found: list[Training] = []

    def spy(gradients: Any, training: Training, permit: Any, **others: Any) -> Any:
        found.append(training)
        return train(gradients, training, permit, **others)

    monkeypatch.setattr(trials, "train", spy)
    return found


def private(ledger: Any, noise: Any = None, **changes: Any) -> rt.PeftEnsemble:
    given: dict[str, Any] = {"policy": LABELS, "public_validation": data(5, seed=2), "budget": BUDGET, "mean_runs": 2}
    x, y = data(15)
    return tuning.tune_privately(SMALL, x, y, gate=Gate(ledger, noise), **{**given, **changes})


# --- ranges and scaling


def test_candidates_stay_in_the_ranges(seen):
    x, y = data(25)
    learner = rt.PeftEnsemble(task_size=500, epochs=2, calibrate=some_noise)
    rt.tune(learner, x, y, budget=BUDGET, trials=6)
    rng = NoiseSource.from_os()
    drawn = [tuning.draw(SMALL.resolved(None), (rng.words(3) * 2.0**-64).tolist()) for _ in range(300)]
    assert len(seen) == 6
    settings = [(t.batch, 70, t.optimizer.learning_rate, t.clip_norm) for t in seen]
    settings += [((d.rate or 0) * 60, 60, d.learning_rate or 0, d.clip_norm or 0) for d in drawn]
    for batch, size, learning_rate, clip_norm in settings:
        assert batch == pytest.approx(round(batch))
        assert 10 <= round(batch) <= size
        assert 1e-7 <= learning_rate <= 1e-2
        assert 0.2 <= clip_norm <= 10


def test_private_candidates_are_log_uniform(rng):
    learner = rt.PeftEnsemble(task_size=10**6).resolved(None)
    drawn = [tuning.draw(learner, (rng.words(3) * 2.0**-64).tolist()) for _ in range(4000)]
    for name, low, high in (("rate", 1e-5, 1.0), ("learning_rate", 1e-7, 1e-2), ("clip_norm", 0.2, 10.0)):
        values = np.array([getattr(d, name) for d in drawn])
        # a batch is a whole number: spread it over the interval that was rounded to it
        if name == "rate":
            values = np.clip(values + (rng.words(len(values)) * 2.0**-64 - 0.5) * 1e-6, low, high)
        assert kstest(np.log(values / low) / math.log(high / low), "uniform").pvalue > ALPHA
        assert kstest((values - low) / (high - low), "uniform").pvalue < ALPHA  # and the check can fail


@given(st.integers(1, 10**5), st.integers(1, 10**5), st.floats(0.001, 1), st.floats(1e-7, 1e-2), st.floats(0.2, 10))
def test_scaling_laws(size, other, rate, learning_rate, clip_norm):
    small = rt.PeftEnsemble(task_size=size, epochs=3, rate=rate, learning_rate=learning_rate, clip_norm=clip_norm)
    large = tuning.rescaled(small, other)
    assert (large.rate, large.epochs, large.clip_norm, large.task_size) == (rate, 3, clip_norm, other)
    assert large.learning_rate == pytest.approx(learning_rate * math.sqrt(other / size))
    event = some_noise(events.Public(), BUDGET, rate=rate, steps=3)
    assert large.training(event).batch / small.training(event).batch == pytest.approx(other / size)
    assert tuning.rescaled(rt.PeftEnsemble(), other) == rt.PeftEnsemble(task_size=other)


@given(st.integers(10, 400), st.integers(0, 5))
def test_split_is_70_to_30_and_seeded(size, seed):
    part, rest = tuning.split(size, seed)
    assert len(part) == round(0.7 * size)
    assert sorted([*part, *rest]) == list(range(size))
    assert (tuning.split(size, seed)[0] == part).all()


def test_other_seeds_split_in_other_ways():
    assert (tuning.split(100, 0)[0] != tuning.split(100, 1)[0]).any()


# --- on public data


def test_tuned_learner_beats_a_bad_one(capfd):
    budget = rt.Budget(epsilon=1.0, delta=1e-5)
    bad = rt.PeftEnsemble(task_size=200, epochs=4, rate=0.05, learning_rate=1e-7, clip_norm=10.0, length=1.0)
    x, y = data(50)
    good = rt.tune(bad, x, y, budget=budget, trials=12)  # the last two are the Gaussian process's own
    assert capfd.readouterr() == ("", "")
    assert good.tuning == "tuned on public data: 12 trials"
    assert (good.task_size, good.epochs, good.length) == (bad.task_size, bad.epochs, bad.length)

    def accuracy(learner: rt.PeftEnsemble) -> float:
        model = rt.ContinualClassifier(labels=LABELS, learner=learner, budget=budget)
        return model.learn_task(*data(50, seed=3), name="march").score(*data(50, seed=4))

    # 0.91 and 0.39 on average; the difference of two means of ten has standard deviation 0.05
    means = [np.mean([accuracy(learner) for _ in range(10)]) for learner in (good, bad)]
    assert means[0] > means[1] + 0.2


def test_trials_have_the_noise_of_the_budget(seen):
    x, y = data(10)
    rt.tune(rt.PeftEnsemble(epochs=2), x, y, budget=BUDGET, trials=1)
    (training,) = seen
    assert accounting.within(training.event, BUDGET)
    assert not accounting.within(replace(training.event, noise_multiplier=0.99 * training.noise_multiplier), BUDGET)


def test_tuning_repeats():
    x, y = data(10)
    learner = rt.PeftEnsemble(task_size=80, epochs=2, calibrate=some_noise)
    first, again, other = (rt.tune(learner, x, y, budget=BUDGET, trials=3, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert (first.learning_rate or 0) <= 1e-2 * math.sqrt(80 / 28)


def test_every_trial_has_noise_of_its_own(monkeypatch):
    seeds: list[int] = []
    known = NoiseSource.seeded

    def seeded(seed: int) -> NoiseSource:
        seeds.append(seed)
        return known(seed)

    monkeypatch.setattr(NoiseSource, "seeded", seeded)
    x, y = data(10)
    rt.tune(rt.PeftEnsemble(task_size=80, epochs=2, calibrate=some_noise), x, y, budget=BUDGET, trials=4, at_once=2)
    assert len(set(seeds[-4:])) == 4


def test_tuning_through_an_encoder(seen):
    torch = pytest.importorskip("torch")
    layers = [torch.nn.Linear(WIDTH, 8), torch.nn.LayerNorm(8)]
    encoder = wrap(torch.nn.Sequential(*layers), width=8, name="tiny", probe=np.ones(WIDTH, np.float32))
    x, y = data(5)
    learner = rt.PeftEnsemble.paper(task_size=14, calibrate=some_noise, epochs=1)
    tuned = rt.tune(learner, x, y, budget=BUDGET, encoder=encoder, trials=1)
    assert (tuned.adapter, len(seen)) == (film, 1)
    ledger = Ledger.create(None, BUDGET)
    given: dict[str, Any] = {"policy": LABELS, "public_validation": data(2), "budget": BUDGET, "mean_runs": 1.01}
    assert tuning.tune_privately(learner, x, y, encoder=encoder, gate=Gate(ledger), **given).adapter == film


def test_importing_reticent_needs_no_optuna():
    assert not {"optuna", "torch"} & loaded_by("from reticent import tune")


# --- for a price


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_private_selection_stays_within_its_budget(eta):
    for budget in (BUDGET, rt.Budget(epsilon=1.0, delta=1e-6, tasks_per_person=2)):
        event = tuning.private_selection(SMALL, budget, mean_runs=20, eta=eta)
        run = events.DpSgd(noise_multiplier=event.run.noise_multiplier, rate=10 / 60, steps=12)  # type: ignore[attr-defined]
        assert event == accounting.private_selection(run, mean_runs=20, eta=eta)
        assert accounting.within(event, budget)
        less = replace(run, noise_multiplier=0.99 * run.noise_multiplier)
        assert not accounting.within(replace(event, run=less), budget)


@settings(max_examples=25)
@given(st.integers(1, 400), st.integers(1, 40), st.floats(0.3, 20), st.floats(0, 1))
def test_no_run_spends_more_than_the_event(size, epochs, noise, at):
    learner = rt.PeftEnsemble(task_size=size, epochs=epochs).resolved(None)
    least = min(10, size)
    slow, fast = (replace(learner, rate=batch / size) for batch in (least, round(least * (size / least) ** at)))
    run = events.DpSgd(noise_multiplier=noise, rate=slow.rate or 1.0, steps=slow.steps)
    event = tuning.run_like(run, fast)
    assert (event.rate, event.steps) == (fast.rate, fast.steps)
    assert np.all(np.array(renyi.of(event).divergences) <= renyi.of(run).divergences)


def test_runs_of_equal_epsilon_would_spend_more():
    """Why noise is not simply calibrated for each rate: equal at one delta is not equal at every order."""
    run = events.DpSgd(noise_multiplier=1.0, rate=0.02, steps=500)
    epsilon = accounting.epsilon(run, BUDGET.delta)
    other = rt.PeftEnsemble(task_size=500, epochs=10, rate=0.5)
    alike = accounting.training_beside(
        events.Public(), rt.Budget(epsilon=epsilon, delta=BUDGET.delta), rate=0.5, steps=20
    )
    event = tuning.run_like(run, other)
    assert np.any(np.array(renyi.of(alike).divergences) > renyi.of(run).divergences)
    assert alike.noise_multiplier < event.noise_multiplier < 1.3 * alike.noise_multiplier


class Untouched:
    """A noise source that must not be asked."""

    private = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was drawn before the spend")


def test_private_tuning_spends_before_it_draws(seen, monkeypatch):
    ledger = Ledger.create(None, rt.Budget(epsilon=0.5, delta=1e-5))
    with pytest.raises(rt.BudgetExceeded, match="nothing was spent"):
        private(ledger, Untouched())
    assert seen == []
    assert ledger.statement().spends == ()
    ledger = Ledger.create(None, BUDGET)
    spent_by_then: list[Spend] = []

    def spy(event: events.PrivateSelection, *, rng: NoiseSource) -> int:
        assert seen == []
        spent_by_then.extend(ledger.statement().spends)
        return 1

    monkeypatch.setattr(gates, "number_of_runs", spy)
    private(ledger)
    (spend,) = spent_by_then
    assert (spend.task, spend.event) == ("tuning", tuning.private_selection(SMALL, BUDGET, mean_runs=2))
    assert len(seen) == 1
    assert ledger.statement().spends[0].published


@pytest.mark.parametrize("encoder", [None, wrap(np.asarray, width=WIDTH, name="same")], ids=["features", "encoder"])
def test_private_tuning_raises_no_warning(recwarn, encoder):
    """A cast that overflows in one row must not cause a warning."""
    x, y = data(15)
    x = x.astype(np.float64)
    x[3, 1] = 1e300
    public, truth = data(5, seed=2)
    found = tuning.tune_privately(
        replace(SMALL, length=None),
        x if encoder is None else list(x),
        y,
        policy=LABELS,
        public_validation=(public if encoder is None else list(public), truth),
        budget=BUDGET,
        gate=Gate(Ledger.create(None, BUDGET)),
        encoder=encoder,
        mean_runs=2,
    )
    assert found.tuning == "tuned by private selection, paid for as 'tuning'"
    assert not recwarn.list


def test_private_tuning_keeps_the_best(monkeypatch):
    scores = [0.3, 0.2, 0.7, 0.1, 0.7, 0.6]
    tried: list[rt.PeftEnsemble] = []

    def accuracy(candidate: rt.PeftEnsemble, event: events.DpSgd, permit: object) -> float:
        tried.append(candidate)
        return scores[len(tried) - 1]

    monkeypatch.setattr(private_search, "accuracy_of", lambda *_: accuracy)
    monkeypatch.setattr(gates, "number_of_runs", lambda *_, **__: len(scores))
    best = private(Ledger.create(None, BUDGET))
    assert len(tried) == len(scores)
    assert replace(best, tuning=None) == tried[2]  # of equals the first
    assert best.tuning == "tuned by private selection, paid for as 'tuning'"


def test_scores_are_accuracies():
    x, y = data(15)
    part, rest = (trials.TrialExamples.of(Task(*examples), LABELS) for examples in ((x, y), data(5, seed=2)))
    turned = replace(rest, places=(rest.places + 1) % 4)
    learner, free = SMALL.resolved(None), public_search._Free(NoiseSource.from_os())
    event = events.DpSgd(noise_multiplier=0.01, rate=0.2, steps=60)
    assert trials.accuracy_of(learner, part, rest, LABELS.space, None)(learner, event, free) > 0.9
    assert trials.accuracy_of(learner, part, turned, LABELS.space, None)(learner, event, free) < 0.1


def test_number_of_runs_is_never_shown(monkeypatch, capfd, caplog):
    """Everything published is the same after 1 run and after 4, but for the settings themselves."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    def printing(*args: Any, **others: Any) -> Any:
        print("one more run", file=sys.stderr)
        assert others.get("progress") is None
        return train(*args, **others)

    def failing(*_: Any, **__: Any) -> Any:
        left.append(left[-1] - 1)
        if left[-1] == 0:
            raise MemoryError("no room")
        return {"head.weight": np.zeros((4, WIDTH), np.float32), "head.bias": np.zeros(4, np.float32)}

    told = []
    for runs in (1, 4):
        monkeypatch.setattr(gates, "number_of_runs", lambda *_, runs=runs, **__: runs)
        monkeypatch.setattr(trials, "train", printing)
        ledger = Ledger.create(None, BUDGET)
        learner = private(ledger)
        facts = ledger.statement().json()
        del facts["ledger"]  # another ledger has another identity
        for row in facts["rows"]:
            del row["at"]
        hidden = replace(learner, rate=None, learning_rate=None, clip_norm=None)
        left = [runs]
        monkeypatch.setattr(trials, "train", failing)
        with pytest.raises(MemoryError) as raised:
            private(Ledger.create(None, BUDGET))
        told.append((facts, hidden, caplog.text, capfd.readouterr(), str(raised.value), len(raised.traceback)))
    assert told[0] == told[1]
    assert told[0][3] == ("", "")


def test_a_model_keeps_the_ledger_that_paid_for_tuning(tmp_path):
    model = rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=tmp_path / "model")
    x, y = data(15)
    given: dict[str, Any] = {"policy": LABELS, "public_validation": data(5, seed=2), "budget": BUDGET, "mean_runs": 2}
    with model.directory.writer() as gate:
        learner = tuning.tune_privately(SMALL, x, y, gate=gate, **given)
    statement = model.set_params(learner=learner).learn_task(*data(15, seed=5), name="march").statement()
    assert [spend.task for spend in statement.spends] == ["tuning", "march"]
    assert [act.text for act in statement.acts] == [learner.tuning]
    assert statement.not_covered == []
    assert statement.now.epsilon <= BUDGET.epsilon * (1 + 1e-9)
    with model.directory.writer() as gate, pytest.raises(rt.BudgetExceeded):
        tuning.tune_privately(SMALL, x, y, gate=gate, **given)  # the same persons cannot pay twice
    assert rt.load(tmp_path / "model")._learner() == learner


def test_persons_are_bounded_in_private_tuning(monkeypatch):
    sizes = []

    def spy(_: rt.PeftEnsemble, part: Any, *__: Any) -> trials.Accuracy:
        sizes.append(len(part.places))
        return lambda *_: 0.0

    monkeypatch.setattr(private_search, "accuracy_of", spy)
    private(Ledger.create(None, BUDGET), persons=["one person"] * 60)
    assert sizes == [1]


# --- not covered


def test_a_clipping_norm_that_is_given_is_not_searched(seen):
    x, y = data(10)
    learner = rt.PeftEnsemble(task_size=40, epochs=2, calibrate=some_noise)
    found = tuning.tune_uncounted(learner, x, y, budget=BUDGET, trials=3, clip_norms=(64.0, 64.0))
    assert found.clip_norm == 64.0
    assert {training.clip_norm for training in seen} == {64.0}
    assert len({training.optimizer for training in seen}) == 3  # learning rates are searched


def test_statement_says_tuning_is_not_covered(tmp_path):
    x, y = data(10)
    learner = rt.PeftEnsemble(task_size=40, epochs=2, calibrate=some_noise)
    learner = tuning.tune_uncounted(learner, x, y, budget=BUDGET, trials=2)
    model = rt.ContinualClassifier(labels=LABELS, learner=learner, budget=rt.Budget(epsilon=90.0, delta=1e-5))
    assert "not covered" not in model.privacy_statement()
    model.learn_task(*data(10), name="march")
    sentence = "tuning not covered: 2 trials on sensitive data, not paid for"
    assert model.privacy_statement().splitlines()[2] == f"NOT COVERED: {sentence}"
    assert json.loads(json.dumps(model.statement().json()))["not_covered"] == [sentence]


def test_tuning_is_recorded_once(tmp_path):
    said = "tuning not covered: by hand"
    budget = rt.Budget(epsilon=8.0, delta=1e-5)
    learner = replace(SMALL, tuning=said)
    model = rt.ContinualClassifier(labels=LABELS, learner=learner, budget=budget, path=tmp_path / "model")
    model.learn_task(*data(5), name="march").learn_task(*data(5), name="april")
    again = rt.load(tmp_path / "model").learn_task(*data(5), name="may")
    assert [act.text for act in again.statement().acts] == [said]
    assert again.privacy_statement().count("NOT COVERED") == 1
    free = rt.ContinualClassifier(labels=LABELS, learner=replace(SMALL, tuning="tuned on public data"), budget=budget)
    statement = free.learn_task(*data(5), name="march").statement()
    assert "tuned on public data" in statement.text()
    assert "NOT COVERED" not in statement.text()
    assert statement.json()["not_covered"] == []


# --- refusals


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": None}, "Expected labels"),
        ({"labels": ["a"] * 3}, "as many labels as inputs"),
        ({"labels": ["a"] * 40}, "two labels or more"),
        ({"inputs": np.zeros((4, WIDTH)), "labels": list("abab")}, "at least 10 examples"),
        ({"trials": 0}, "Expected trials >= 1"),
        ({"trials": 2.5}, "Expected trials to be a whole number"),
        ({"learner": rt.Cosine()}, "Expected a PeftEnsemble"),
        ({"learner": rt.PeftEnsemble.paper()}, "Use last_layer instead"),
    ],
)
def test_bad_tuning_is_refused(changes, sentence, seen):
    x, y = data(10)
    for way in (rt.tune, tuning.tune_uncounted):
        arguments: dict[str, Any] = {"learner": SMALL, "inputs": x, "labels": y, "budget": BUDGET, **changes}
        with pytest.raises(errors.InvalidValue, match=sentence):
            way(**arguments)
    assert seen == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"policy": rt.ReleasedLabels()}, r"Expected PublicLabels"),
        ({"public_validation": None}, "scores on sensitive data"),
        ({"public_validation": (data(1)[0], None)}, "scores on sensitive data"),
        ({"public_validation": (np.zeros((0, WIDTH)), [])}, "at least one public example"),
        ({"mean_runs": 1}, "Expected runs > 1"),
        ({"eta": -1}, "Expected eta > -1"),
        ({"budget": rt.Budget(epsilon=1.0, delta=0.0)}, "Expected delta > 0"),
        ({"budget": rt.Budget(epsilon=1.0, delta=1e-5, examples_per_person=2)}, "2 examples per person"),
    ],
)
def test_bad_private_tuning_is_refused_before_it_is_paid_for(changes, sentence, seen):
    ledger = Ledger.create(None, BUDGET)
    with pytest.raises(errors.InvalidValue, match=sentence):
        private(ledger, **changes)
    x, _ = data(15)
    with pytest.raises(errors.InvalidValue, match="Expected labels"):
        tuning.tune_privately(
            SMALL, x, None, policy=LABELS, public_validation=data(1), budget=BUDGET, gate=Gate(ledger), mean_runs=2
        )
    assert ledger.statement().spends == ()
    assert seen == []


@pytest.mark.parametrize("package", ["optuna", "torch"])
def test_missing_package_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    x, y = data(10)
    with pytest.raises(rt.ReticentError, match=r"^Tuning needs optuna and torch: pip install 'reticent\[tune\]'\.$"):
        rt.tune(SMALL, x, y, budget=BUDGET)
