import json

import pytest

import reticent as rt
from reticent.gate.remembered import RememberedSums
from reticent.lab.attack import audit, exact, games, memory_games
from reticent.lab.attack.memory_moves import Remembering
from reticent.memory import Epoch
from reticent.privacy import accounting, events
from tests.assurance import planted_memory

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
EPOCH = Epoch(number=1, vault=None, place=None, eighths=2, horizon=12, recurring=None)


@pytest.mark.parametrize(
    ("policy", "budget", "played"),
    [
        (rt.PublicLabels(["a"]), BUDGET, 3),
        (rt.ReleasedLabels(count_weight=0.2), BUDGET, 4),
        (rt.PublicLabels(["a"]), rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2, examples_per_person=2), 3),
    ],
)
def test_epochs_are_audited(policy, budget, played):
    found = audit.audit(rt.Cosine(), policy, budget, trials=400, epoch=EPOCH)
    assert found.verdict == games.CONSISTENT
    assert len(found.results) == played
    law, moved = found.results[:2]
    assert law.tightness > 0.99
    assert law.game == "the law of what is drawn"
    assert 0.55 < moved.tightness <= 1  # of four tasks out of twelve


def test_the_audit_of_a_model_with_memory_plays_its_epoch(tmp_path):
    memory = rt.Memory(vault=tmp_path / "vault", horizon=12)
    labels = rt.PublicLabels(["a", "b"])
    _ = rt.ContinualClassifier(labels=labels, budget=BUDGET, path=tmp_path / "model", memory=memory).directory
    found = audit.audit_model(tmp_path / "model", trials=100)
    assert memory_games.MOVED in [result.game for result in found.results]
    assert found.verdict == games.CONSISTENT
    assert json.loads(json.dumps(found.json()))["verdict"] == "consistent"


def test_audits_of_broken_epochs_say_so():
    event = accounting.remembered(BUDGET, epoch=1, eighths=4, horizon=3)
    stream = Remembering(event, ("a", "b"), planted_memory.without_gamma)
    found = memory_games.moved("", stream, event, BUDGET.delta)
    assert found.verdict == games.VIOLATED
    assert found.epsilon_lower_bound > found.claimed
    said = events.Gaussian(noise_multiplier=event.noise)  # one ledger event per task
    assert memory_games.moved("", Remembering(event, ("a", "b")), said, BUDGET.delta).verdict == games.VIOLATED
    keyed = Remembering(event, ("a", "b"), planted_memory.OneKey)
    assert memory_games.moved("", keyed, event, BUDGET.delta).epsilon_lower_bound == float("inf")


def test_looks_without_the_union_are_caught():
    event = accounting.remembered(BUDGET, epoch=1, eighths=4, horizon=3, count_weight=0.2)
    delta = BUDGET.delta / 10
    assert memory_games.gathered(event, delta).verdict == games.CONSISTENT
    drawn, said = planted_memory.without_union(event, BUDGET.delta / 20)
    assert memory_games.gathered(drawn, delta, claimed=said).verdict == games.VIOLATED


def test_games_on_streams_with_memory_find_missing_noise():
    event = accounting.remembered(BUDGET, epoch=1)

    def silent(event, known, gathered):
        return RememberedSums(planted_memory.Louder(event, event.noise / 4), known, gathered)  # type: ignore[arg-type]

    assert memory_games.play(event, 1e-5, trials=600).verdict == games.CONSISTENT
    assert memory_games.play(event, 1e-5, trials=600, mechanism=silent).verdict == games.VIOLATED


def test_epochs_beside_other_spends_have_a_law():
    event = events.compose(accounting.remembered(BUDGET, epoch=1), events.Gaussian(noise_multiplier=9.0))
    assert 0.99 < exact.exact("", event, 1e-5).tightness <= 1


def test_memory_is_audited_where_it_has_a_proof():
    names = [found.name for found in audit.with_memory(BUDGET, trials=50)]
    assert names == ["cosine with memory, public labels", "cosine with memory, released labels"]
    several = rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2)
    assert [found.name for found in audit.with_memory(several, trials=50)] == names[:1]
    assert not list(audit.with_memory(rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=9), trials=50))
