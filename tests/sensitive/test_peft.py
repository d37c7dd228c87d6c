"""PEFT Ensemble: what it spends, what it releases, and what it learns."""

import importlib.util
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.encoders import film, last_layer, lora, wrap
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import STANDS_OUT, CountLabels
from reticent.gate.noise import NoiseSource
from reticent.privacy import accounting, events
from reticent.released.aggregate import argmax, pooled
from reticent.sensitive.task import Task
from reticent.sensitive.training import Engine
from tests.conftest import ALPHA

BUDGET = rt.Budget(epsilon=4.0, delta=1e-5)
WIDTH = 12
FAST = rt.PeftEnsemble(task_size=600, epochs=4)
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def data(labels: list[str], each: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    centres = np.random.default_rng(7).normal(size=(26, WIDTH)) * 3
    draw = np.random.default_rng(seed)
    x = np.concatenate([centres[ord(label) - 97] + draw.normal(size=(each, WIDTH)) for label in labels])
    return x.astype(np.float32), [label for label in labels for _ in range(each)]


def classifier(policy: Any = None, learner: Any = FAST, **settings: Any) -> rt.ContinualClassifier:
    policy = rt.PublicLabels(list("abcd")) if policy is None else policy
    return rt.ContinualClassifier(labels=policy, learner=learner, budget=BUDGET, **settings)


@pytest.mark.parametrize("policy", [rt.PublicLabels(list("abcd")), rt.ReleasedLabels(), rt.ReleasedLabels.paper(0.3)])
def test_peft_learns_a_stream(policy, tmp_path):
    model = classifier(policy, path=tmp_path / "model")
    model.learn_task(*data(["a", "b"], 300), name="march").learn_task(*data(["c", "d"], 300), name="april")
    x, y = data(list("abcd"), 50, seed=1)
    # the paper's heads know only what their task released, so two of them disagree more often
    assert model.score(x, y) > (0.9 if getattr(policy, "remember", True) else 0.55)
    assert sorted(model.classes_) == list("abcd")
    again = rt.load(tmp_path / "model")
    assert (again.predict(x) == model.predict(x)).all()
    again.learn_task(*data(["a"], 100), name="may")
    assert again._learner() == FAST
    assert again.statement().now.epsilon <= BUDGET.epsilon * (1 + 1e-9)


class Refusing(Ledger):
    """A ledger that refuses every spend."""

    def spend(self, *_: object, **__: object) -> int:
        raise errors.BudgetExceeded("no")


class Untouched:
    """A noise source that must not be asked."""

    private = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was drawn before the spend")


@pytest.mark.parametrize("policy", [rt.PublicLabels(list("abcd")), rt.ReleasedLabels(), rt.ReleasedLabels.paper(0.3)])
def test_peft_spends_before_it_trains(policy):
    known = policy.space if isinstance(policy, rt.PublicLabels) else rt.LabelSpace(())
    x, y = data(["a", "b"], 20)
    gate = Gate(Refusing.create(None, BUDGET), Untouched())  # type: ignore[arg-type]
    with pytest.raises(errors.BudgetExceeded):
        FAST.learn_task(Task(x, y), policy, known=known, encoder=None, gate=gate)


@pytest.mark.parametrize("policy", [rt.PublicLabels(list("abcd")), rt.ReleasedLabels()])
def test_peft_learns_an_empty_task(policy):
    model = classifier(policy).learn_task(np.zeros((0, WIDTH), np.float32), [], name="empty")
    (release,) = model.releases
    classes = 4 if isinstance(policy, rt.PublicLabels) else 0
    assert release.parameters["head.weight"].shape == (classes, WIDTH)
    if classes:
        assert np.abs(release.parameters["head.weight"]).max() > 0  # pure noise is a step too
    else:
        assert model.predict(np.ones((2, WIDTH))).tolist() == [rt.UNKNOWN] * 2
    model.learn_task(*data(list("abcd"), 300), name="march")
    x, y = data(list("abcd"), 50, seed=1)
    assert model.score(x, y) > 0.9


def test_peft_neighbours_differ_in_values():
    x, y = data(["a", "b"], 200)
    found = []
    for keep in (400, 399):
        (release,) = classifier().learn_task(x[:keep], y[:keep], name="march").releases
        found.append((release.event, release.labels, {k: (v.shape, v.dtype) for k, v in release.parameters.items()}))
    assert found[0] == found[1]


def test_peft_drops_what_it_cannot_use():
    x, y = data(["a", "b"], 300)
    bad = np.full((5, WIDTH), np.nan, np.float32)
    bad[1], bad[2], bad[3] = np.inf, 0, 3e38
    mixed: list[object] = [*y, "a", None, float("nan"), "never heard of", "b"]
    model = classifier().learn_task(np.concatenate([x, bad]), mixed, name="march")
    assert model.score(*data(["a", "b"], 50, seed=1)) > 0.9


def test_peft_heads_stay_small():
    space = [*"abcd", *(f"never {i}" for i in range(50_000))]
    model = classifier(rt.PublicLabels(space)).learn_task(*data(["a", "b"], 400), name="march")
    (release,) = model.releases
    assert {0, 1} <= set(release.parameters["rows"].tolist())
    assert len(release.parameters["rows"]) < 40
    assert model.score(*data(["a", "b"], 50, seed=1)) > 0.9
    spent = list(release.event.parts)  # type: ignore[attr-defined]
    assert [type(part) for part in spent] == [events.Gaussian, events.DpSgd]
    assert accounting.within(release.event, BUDGET)


def test_a_wrong_task_size_keeps_the_price():
    spent = [classifier(learner=replace(FAST, task_size=n)).learn_task(*data(["a"], 50), name="m") for n in (5, 90_000)]
    assert len({model.statement().spends[0].event for model in spent}) == 1


def test_several_examples_of_a_person_are_refused():
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(["a"]), learner=FAST, budget=rt.Budget(epsilon=1.0, delta=1e-5, examples_per_person=2)
    )
    with pytest.raises(errors.InvalidValue, match="takes one example of each person and task"):
        model.learn_task(*data(["a"], 20), name="march", persons=list(range(20)))


def test_heads_have_rows_for_labels_of_their_task():
    model = classifier(rt.ReleasedLabels())
    for labels, name in ((["a", "b"], "march"), (["c", "d"], "april"), ([], "empty"), (["a", "c"], "june")):
        x, y = data(labels, 300) if labels else (np.zeros((0, WIDTH), np.float32), [])
        model.learn_task(x, y, name=name)
    heads = [[model.classes_[row] for row in release.parameters["rows"]] for release in model.releases]
    mine = [set("ab"), set("cd"), set(), set("ac")]
    assert all(labels <= set(head) for labels, head in zip(mine, heads, strict=True))
    # a known label without examples stands out with chance Q(2); six of eight or more with 4e-9
    assert sum(len(head) - len(labels) for labels, head in zip(mine, heads, strict=True)) < 6
    assert all(len(r.parameters["head.weight"]) == len(r.parameters["rows"]) for r in model.releases)
    assert model.score(*data(list("abcd"), 50, seed=1)) > 0.9


def test_selected_labels_are_remembered():
    """A selection mechanism counts no known label, so a head keeps a row for each."""
    model = classifier(rt.ReleasedLabels(selection=events.OptimalSelection))
    model.learn_task(*data(["a", "b"], 300), name="march").learn_task(*data(["c", "d"], 300), name="april")
    assert [len(release.parameters["rows"]) for release in model.releases] == [2, 4]


@pytest.mark.parametrize("size", [0, 1, 5, 30])
def test_known_labels_stand_out_with_their_probability(size):
    """One coin for each known label, with examples or without; a twin that skips the labels without is caught."""
    from scipy.stats import binom, norm

    counts = events.LabelCounts(noise_multiplier=10.0, threshold=45.0)
    trials, rng = 40_000, NoiseSource.from_os()
    known = tuple(f"{i}" for i in range(trials))
    found = dict.fromkeys(known, size) if size else {}
    chance = float(norm.sf(STANDS_OUT - size / 10.0))
    seen = len(CountLabels(counts, known)(found, rng=rng))
    assert binom.sf(seen - 1, trials, chance) > ALPHA
    assert binom.cdf(seen, trials, chance) > ALPHA
    skipping = len([label for label in CountLabels(counts, known)(found, rng=rng) if label in found])
    assert (binom.cdf(skipping, trials, chance) < ALPHA) == (size == 0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_known_labels_cost_their_count(epsilon):
    """The hockey stick of one known label, n against n + 1, is below that of the Gaussian in the event.

    A twin with a third of the noise is caught.
    """
    from scipy.stats import norm

    def divergence(noise: float) -> float:
        chance = norm.sf(STANDS_OUT - np.arange(200) / noise)
        both = ((chance[:-1], chance[1:]), (chance[1:], chance[:-1]))
        return max(
            float(np.max(np.maximum(p - np.exp(epsilon) * q, 0) + np.maximum((1 - p) - np.exp(epsilon) * (1 - q), 0)))
            for p, q in both
        )

    noise = accounting.gaussian_sigma(rt.Budget(epsilon=epsilon, delta=1e-5))
    assert divergence(noise) <= 1e-5 * (1 + 1e-9)
    assert divergence(noise / 3) > 1e-4


def test_counts_expose_at_most_p1():
    counts = events.LabelCounts(noise_multiplier=1.0, threshold=3.0)  # p1 = Q(2) = 0.0228, large enough to count
    trials, rng = 40_000, NoiseSource.from_os()
    seen = len(CountLabels(counts)({f"{i}": 1 for i in range(trials)}, rng=rng))
    from scipy.stats import binom, norm

    p1 = float(norm.sf(2.0))
    assert binom.sf(seen - 1, trials, p1) > ALPHA
    assert binom.cdf(seen, trials, p1) > ALPHA
    broken = len(CountLabels(replace(counts, threshold=2.9))({f"{i}": 1 for i in range(trials)}, rng=rng))
    assert binom.sf(broken - 1, trials, p1) < ALPHA  # a threshold a tenth lower is caught


@pytest.mark.parametrize(
    "learner",
    [
        rt.PeftEnsemble(),
        rt.PeftEnsemble.paper(task_size=500),
        rt.PeftEnsemble(adapter=lora(rank=2), rate=0.5, engine=Engine(rows=4)),
        rt.PeftEnsemble(adapter=last_layer, length=None, tuning="tuned on public data: 20 trials"),
    ],
)
def test_peft_survives_json(learner):
    assert rt.PeftEnsemble.from_json(json.loads(json.dumps(learner.to_json()))) == learner


def test_paper_mode_is_the_papers():
    paper = rt.PeftEnsemble.paper(task_size=700).resolved(None)
    assert (paper.adapter, paper.epochs, paper.length, paper.decoys) == (film, 40, None, 0)
    assert paper.aggregate is rt.PeftEnsemble.paper().rule.aggregate
    assert paper.aggregate.__name__ == "argmax"
    event = events.DpSgd(noise_multiplier=1.0, rate=0.1, steps=paper.steps)
    assert paper.steps == 400
    assert type(paper.training(event).optimizer).__name__ == "Adam"
    assert paper.training(event).batch == pytest.approx(70)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"task_size": 0}, "task_size >= 1"),
        ({"rate": 1.5}, "rate"),
        ({"learning_rate": -1.0}, "learning_rate > 0"),
        ({"epochs": 0}, "epochs >= 1"),
        ({"decoys": -1}, "decoys >= 0"),
        ({"decoys": 1}, "at least 2 decoys"),
    ],
)
def test_peft_refuses(settings, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        rt.PeftEnsemble(**settings)


def test_film_needs_an_encoder_and_says_so_before_it_spends():
    model = classifier(learner=rt.PeftEnsemble(adapter=film))
    with pytest.raises(errors.InvalidValue, match="Use last_layer instead"):
        model.learn_task(*data(["a"], 20), name="march")
    assert model.statement().spends == ()


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("tasks", ["b", "bb", "bc"])
def test_the_only_label_of_a_head_is_answered(tasks, epsilon):
    """Its own row was taken off as the average input.

    The median of three: one in 10,000 has noise that looks like a label.
    """
    draw, found = np.random.default_rng(5), []
    centres = draw.normal(size=(4, 16))
    for _ in range(3):
        budget = rt.Budget(epsilon=epsilon, delta=1e-5)
        learner = rt.PeftEnsemble(task_size=1_000)
        model = rt.ContinualClassifier(labels=rt.PublicLabels(list("abcd")), learner=learner, budget=budget)
        parts = [centres["abcd".index(label)] + 0.1 * draw.normal(size=(1_000, 16)) for label in tasks]
        for i, (label, part) in enumerate(zip(tasks, parts, strict=True)):
            model.learn_task(part, [label] * 1_000, name=f"task {i}", each_row_is_a_person=True)
        found.append(model.score(np.concatenate(parts), np.repeat(list(tasks), 1_000)))
    assert np.median(found) > 0.99


def test_labels_that_come_back_add_up():
    """Thirty examples of a label in each of eight tasks: no head knows it well, all of them together do."""
    draw = np.random.default_rng(5)
    centres = draw.normal(size=(10, 64))

    def part(each: int) -> tuple[np.ndarray, list[int]]:
        labels = np.repeat(np.arange(10), each)
        return (centres[labels] + 2 * draw.normal(size=(len(labels), 64))).astype(np.float32), labels.tolist()

    accuracy = {}
    months, test = [part(12) for _ in range(8)], part(60)
    for rule in (argmax, pooled):
        learner = rt.PeftEnsemble(task_size=120, epochs=8, aggregate=rule)
        model = classifier(rt.PublicLabels(range(10)), learner, noise=NoiseSource.seeded(3))
        for t, month in enumerate(months):
            model.learn_task(*month, name=f"month {t}")
        accuracy[rule] = model.score(*test)
    assert accuracy[pooled] > accuracy[argmax] + 0.05


# --- through an encoder


def tiny(width: int = 8) -> Any:
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, 16), torch.nn.LayerNorm(16), torch.nn.ReLU(), torch.nn.Linear(16, width)]
    return wrap(torch.nn.Sequential(*layers), width=width, name="tiny", probe=np.ones(WIDTH, np.float32))


@needs_torch
@pytest.mark.parametrize("adapter", [film, lora(rank=2, modules=["0", "3"])])
def test_peft_trains_through_an_encoder(adapter, tmp_path):
    encoder = tiny()
    learner = rt.PeftEnsemble(adapter=adapter, task_size=600, learning_rate=0.02, epochs=6)
    model = classifier(learner=learner, encoder=encoder, path=tmp_path / "m")
    x, y = data(list("abcd"), 50, seed=1)
    # 1.00 in sixty of sixty trials; two heads of eight features each disagree too often to promise anything of both
    assert model.learn_task(*data(["a", "b"], 300), name="march").score(x[:100], y[:100]) > 0.8
    model.learn_task(*data(["c", "d"], 300), name="april")
    names = set(model.releases[0].parameters)
    assert any(name.startswith(f"{adapter.name}.") for name in names)
    again = rt.load(tmp_path / "m", encoder=encoder)
    assert (again.predict(x) == model.predict(x)).all()


@needs_torch
def test_adapters_are_refused_before_anything_is_spent():
    import torch

    bare = wrap(torch.nn.Linear(WIDTH, 8), width=8, name="bare", probe=np.ones(WIDTH, np.float32))
    model = classifier(learner=rt.PeftEnsemble(adapter=film), encoder=bare)
    with pytest.raises(errors.InvalidValue, match="normalisation layers"):
        model.learn_task(*data(["a"], 20), name="march")
    assert model.statement().spends == ()


@needs_torch
def test_a_release_holds_adapter_and_head_alone():
    model = classifier(learner=rt.PeftEnsemble(adapter=film, task_size=100, epochs=1), encoder=tiny())
    model.learn_task(*data(["a", "b"], 50), name="march")
    (release,) = model.releases
    sizes = {name: value.size for name, value in release.parameters.items()}
    adapter, decoys = {"film.1.weight": 16, "film.1.bias": 16}, {"head.noise": 2, "head.decoy": 8}
    assert sizes == {"rows": 4, "head.weight": 32, "head.bias": 4, **adapter, **decoys}


@needs_torch
def test_the_last_layer_is_trained_unless_earlier_tasks_have_an_adapter():
    """A model of reticent 0.1 was trained through its encoder without being told to, and goes on like that."""
    assert rt.PeftEnsemble().resolved(tiny()).adapter == last_layer
    old = rt.PeftEnsemble.from_json({**rt.PeftEnsemble(task_size=40).to_json(), "adapter": None, "aggregate": "argmax"})
    began = classifier(learner=replace(old, adapter=film, epochs=1), encoder=tiny())
    began.learn_task(*data(["a"], 20), name="march")
    assert old.resolved(tiny(), began.releases).adapter == film
    assert old.resolved(tiny(), classifier().learn_task(*data(["a"], 20), name="march").releases).adapter == last_layer


@needs_torch
@pytest.mark.parametrize("first", [film, last_layer, lora(rank=2, modules=["0"])])
def test_another_adapter_or_encoder_is_refused_before_anything_is_spent(first, tmp_path):
    """Releases of several shapes have no rule: a second one would be paid for and make all of them useless."""
    learner = rt.PeftEnsemble(adapter=first, task_size=40, epochs=1, rate=0.5)
    model = classifier(learner=learner, encoder=tiny(), path=tmp_path / "model")
    x, y = data(["a", "b"], 20)
    model.learn_task(x, y, name="march")
    others: list[Any] = [film, last_layer, lora(rank=2, modules=["0"]), lora(rank=3, modules=["0"])]
    for other in (other for other in others if other != first):
        model.learner = replace(learner, adapter=other)
        with pytest.raises(errors.InvalidValue, match="Start a new model for another one"):
            model.learn_task(x, y, name="april")
    model.learner, model.encoder = learner, tiny(width=6)
    with pytest.raises(errors.InvalidValue, match="Expected the encoder of earlier tasks"):
        model.learn_task(x, y, name="april")
    assert [spend.task for spend in model.statement().spends] == ["march"]
    model.encoder = tiny()
    assert model.learn_task(x, y, name="april").predict(x[:2]).shape == (2,)
    assert rt.load(tmp_path / "model", encoder=tiny()).predict(x[:2]).shape == (2,)


@needs_torch
def test_an_encoder_of_another_width_is_refused_before_anything_is_spent():
    """Also where it has no digest that could tell."""
    learner, ledger = rt.PeftEnsemble(adapter=film, task_size=40, epochs=1, rate=0.5), Ledger.create(None, BUDGET)
    past = classifier(learner=learner, encoder=tiny()).learn_task(*data(["a"], 20), name="march").releases
    policy = rt.PublicLabels(list("abcd"))
    with pytest.raises(errors.InvalidValue, match="an encoder of the same width"):
        learner.learn_task(
            Task(*data(["a"], 20), name="april"),
            policy,
            known=policy.space,
            encoder=tiny(width=6),
            gate=Gate(ledger),
            past=past,
        )
    assert not ledger.statement().spends


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_training_that_diverges_leaves_a_model_that_can_be_read(tmp_path):
    model = classifier(learner=replace(FAST, learning_rate=1e38), path=tmp_path / "model")
    model.learn_task(*data(["a", "b"], 20), name="march")
    assert rt.load(tmp_path / "model").predict(data(["a"], 2)[0]).shape == (2,)
