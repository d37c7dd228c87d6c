"""Lower bounds against claims: every mechanism, and every learner under every label policy, at epsilon 1 and 8."""

from collections.abc import Iterator
from dataclasses import replace

import reticent as rt
from reticent.encoders import film, last_layer
from reticent.lab.attack import audit, games
from reticent.policies import Policy, PublicLabels
from reticent.sensitive.learners import Learner
from tests.assurance.part import Part

DELTA = 1e-5


def measure(trials: int = 10_000, epsilons: tuple[float, ...] = (1.0, 8.0)) -> tuple[Part, ...]:
    """Audits everything."""
    rows, held = [], True
    for epsilon in epsilons:
        for found in audits(epsilon, trials):
            held = held and found.verdict == games.CONSISTENT
            rows += [_row(found.name, epsilon, one) for one in _shown(found)]
    laws = [(epsilon, one) for epsilon in epsilons for one in audit.mechanisms(_budget(epsilon), trials=1_000)]
    header = ("epsilon", "attack", "claimed", "at least", "evidence", "verdict")
    return (
        Part(
            title="Lower bounds against claims: mechanisms",
            says=(
                "What each mechanism loses at least, computed from the law that it draws, in both directions; two are "
                "played too. Held: no bound is above its claim."
            ),
            header=("mechanism", *header[:1], *header[2:]),
            rows=tuple((one.game, f"{e:g}", *_figures(one)) for e, one in laws),
            passed=all(one.verdict == games.CONSISTENT for _, one in laws),
        ),
        Part(
            title="Lower bounds against claims: learners and label policies",
            says=(
                "For each configuration the exact law, and the strongest result of each other kind: the same task "
                "without noise over the measured noise, games, one training with many canaries. `At least` holds at "
                "99.9 % confidence. At epsilon 8 games can refute a claim, hardly confirm it. FiLM is trained through "
                "a tiny encoder, for two epochs. Held: nothing is above its claim, except with chance one in a million "
                "for a game."
            ),
            header=("learner, labels", *header),
            rows=tuple(rows),
            passed=held,
        ),
    )


def audits(epsilon: float, trials: int) -> Iterator[audit.Audit]:
    """Yields an audit of each configuration."""
    for name, learner, policy in configurations():
        adapts = isinstance(learner, rt.PeftEnsemble) and learner.adapter not in (None, last_layer)
        yield audit.audit(learner, policy, _budget(epsilon), trials=400 if adapts else trials, name=name)
    several = rt.Budget(epsilon=epsilon, delta=DELTA, tasks_per_person=2, examples_per_person=2)
    for policy in (PublicLabels(["first", "second"]), rt.ReleasedLabels()):
        kind = "public" if isinstance(policy, PublicLabels) else "released"
        name = f"cosine, {kind} labels, two tasks and two examples a person"
        yield audit.audit(rt.Cosine(), policy, several, trials=2_000, name=name)
    yield from audit.with_memory(_budget(epsilon), trials=trials)


def configurations() -> Iterator[tuple[str, Learner, Policy]]:
    """Yields what `reticent audit --all` has, and FiLM; what trains through an encoder does so for two epochs."""
    for name, learner, policy in audit.configurations():
        if isinstance(learner, rt.PeftEnsemble) and learner.adapter == film:
            learner = replace(learner, epochs=2, rate=0.5)
        yield name, learner, policy
    for kind, policy in (("public", PublicLabels(["first", "second"])), ("released", rt.ReleasedLabels())):
        yield f"peft with film, {kind} labels", rt.PeftEnsemble(adapter=film, epochs=2, rate=0.5), policy


def _budget(epsilon: float) -> rt.Budget:
    return rt.Budget(epsilon=epsilon, delta=DELTA)


def _shown(found: audit.Audit) -> Iterator[games.Result]:
    """The strongest result of each kind, and whatever is violated."""
    for kind in games.Kind:
        mine = [one for one in found.results if one.kind is kind]
        if mine:
            yield max(mine, key=lambda one: (one.verdict == games.VIOLATED, one.tightness))


def _row(name: str, epsilon: float, one: games.Result) -> tuple[str, ...]:
    return (name, f"{epsilon:g}", f"{one.kind.value}: {one.game}", *_figures(one))


def _figures(one: games.Result) -> tuple[str, ...]:
    return (f"{one.claimed:.3f}", f"{one.epsilon_lower_bound:.3f}", one.evidence, one.verdict)
