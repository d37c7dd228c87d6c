"""The learners of the benchmark: one entry each, from which specs, tables and runs derive.

To compare another learner of the package, add its entry to `ENTRIES`. A learner outside the package needs none: a spec
names it as "module:object".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from reticent import errors
from reticent.encoders.adapters import film, last_layer
from reticent.lab.baselines.oracles import LabelOracle, NoPrivacy, OracleHeads, without_noise
from reticent.lab.baselines.sequential import Desai, Naive
from reticent.lab.bench.run import BLURRY, FILM, MEMORIES, TASKS, Run
from reticent.numerics.own_objects import is_own
from reticent.sensitive.learners import Cosine, Learner, PeftEnsemble, named
from reticent.sensitive.training import Engine

PAID = "the paper's method here, tuning paid for"
PAPER, OURS, BASELINE, OWN = "the paper's method here", "ours here", "baseline here", "yours"
FILM_EPOCHS = 8

Tuned = Callable[[PeftEnsemble], PeftEnsemble]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A learner of the benchmark.

    Args:
        name: As specs write it.
        family: The paper's mode and ours of one learner are of one family: they share rows of tables.
        title: Of the family, as tables write it.
        origin: `PAPER`, `OURS`, `BASELINE` or `OWN`, as tables write it.
        make: Returns the learner of a run whose tasks have about this many examples; the function it is given
            completes the paper's PEFT with tuned settings.
        one_task: Whether it learns all data as one task.
        pays: Whether its settings are tuned by private selection, which the ledger of the run pays for.
        any_order: Whether what it releases of a task does not depend on the tasks before it.
        adds_up: Whether all that it knows of public labels is their sums over all tasks, so that it does not matter in
            which tasks the examples of a label are.
    """

    name: str
    family: str
    title: str
    origin: str
    make: Callable[[Run, int, Tuned], Learner]
    one_task: bool = False
    pays: bool = False
    any_order: bool = False
    adds_up: bool = False


# --- how learners are made


def _cosine(learner: Cosine) -> Callable[[Run, int, Tuned], Learner]:
    def make(run: Run, size: int, tuned: Tuned) -> Learner:
        if run.epsilon is None:
            return NoPrivacy(learner.rule)
        return LabelOracle(learner.rule) if run.labels == "oracle" else learner

    return make


def _heads(run: Run, size: int) -> PeftEnsemble:
    """Returns our PEFT for a run, without noise where the run has no privacy."""
    peft = PeftEnsemble(adapter=last_layer, task_size=size)
    if run.adapter == FILM:
        peft = PeftEnsemble(adapter=film, task_size=size, epochs=FILM_EPOCHS, engine=Engine(rows=16))
    return _private(run, peft)


def _private(run: Run, peft: PeftEnsemble) -> PeftEnsemble:
    return without_noise(peft) if run.epsilon is None else peft


def _with_labels(run: Run, peft: PeftEnsemble) -> Learner:
    return OracleHeads(peft) if run.labels == "oracle" else peft


def _peft(run: Run, size: int, tuned: Tuned) -> Learner:
    return _with_labels(run, _heads(run, size))


def _tuned_heads(run: Run, size: int, tuned: Tuned) -> PeftEnsemble:
    """Returns the paper's PEFT for a run, tuned as the paper tunes it; its baselines train with the same settings."""
    adapter = film if run.adapter == FILM else last_layer
    return tuned(_private(run, PeftEnsemble.paper(adapter=adapter, task_size=size)))


def _peft_paper(run: Run, size: int, tuned: Tuned) -> Learner:
    return _with_labels(run, _tuned_heads(run, size, tuned))


def _peft_paid(run: Run, size: int, tuned: Tuned) -> Learner:
    return PeftEnsemble.paper(adapter=last_layer, task_size=size)


def _naive(run: Run, size: int, tuned: Tuned) -> Learner:
    return Naive(_heads(run, size))


def _naive_paper(run: Run, size: int, tuned: Tuned) -> Learner:
    return Naive(_tuned_heads(run, size, tuned))


def _desai(run: Run, size: int, tuned: Tuned) -> Learner:
    return _with_buffer(run, _heads(run, size))


def _desai_paper(run: Run, size: int, tuned: Tuned) -> Learner:
    return _with_buffer(run, _tuned_heads(run, size, tuned))


def _with_buffer(run: Run, peft: PeftEnsemble) -> Desai:
    return Desai(replace(peft, task_size=max(1, round(0.9 * peft.task_size))), run.tasks, seed=run.seed)


ENTRIES = (
    Entry(
        name="cosine-paper",
        family="cosine",
        title="Cosine Classifier",
        origin=PAPER,
        make=_cosine(Cosine.paper()),
        any_order=True,
        adds_up=True,
    ),
    Entry(
        name="cosine",
        family="cosine",
        title="Cosine Classifier",
        origin=OURS,
        make=_cosine(Cosine()),
    ),
    Entry(
        name="peft-paper",
        family="peft",
        title="PEFT Ensemble",
        origin=PAPER,
        make=_peft_paper,
        any_order=True,
    ),
    Entry(
        name="peft-paid",
        family="peft",
        title="PEFT Ensemble",
        origin=PAID,
        make=_peft_paid,
        pays=True,
    ),
    Entry(name="peft", family="peft", title="PEFT Ensemble", origin=OURS, make=_peft),
    Entry(name="naive", family="naive", title="Naive", origin=BASELINE, make=_naive),
    Entry(name="desai", family="desai", title="Desai et al.", origin=BASELINE, make=_desai),
    Entry(
        name="noncl",
        family="noncl",
        title="Non-CL, all data at once",
        origin=BASELINE,
        make=_peft,
        one_task=True,
    ),
    # the paper's baselines with its tuned settings: forty epochs, and trials before them
    Entry(
        name="naive-paper",
        family="naive",
        title="Naive",
        origin=BASELINE,
        make=_naive_paper,
    ),
    Entry(
        name="desai-paper",
        family="desai",
        title="Desai et al.",
        origin=BASELINE,
        make=_desai_paper,
    ),
    Entry(
        name="noncl-paper",
        family="noncl",
        title="Non-CL, all data at once",
        origin=BASELINE,
        make=_peft_paper,
        one_task=True,
    ),
)


# --- finding one


def names() -> tuple[str, ...]:
    """Returns the names of all learners of the package, as specs write them."""
    return tuple(entry.name for entry in ENTRIES)


def is_known(name: str) -> bool:
    """Returns whether a spec may name this learner; a custom one is looked up when it is run.

    >>> is_known("cosine"), is_known("my_module:Mine"), is_known("cosinus")
    (True, True, False)
    """
    return name in names() or is_own(name)


def entry(name: str) -> Entry:
    """Returns the entry of a learner; one is made for the user's own.

    >>> entry("peft-paper").title, entry("my_module:Mine").origin
    ('PEFT Ensemble', 'yours')
    """
    if is_own(name):
        return Entry(name=name, family=name, title=name, origin=OWN, make=lambda run, size, tuned: named(name))
    found = [entry for entry in ENTRIES if entry.name == name]
    if not found:
        raise errors.InvalidValue(f"No learner is called {name}. There are {', '.join(names())}, or module:object.")
    return found[0]


def title(family: str) -> str:
    """Returns what tables call a family; custom learners are called as specs name them.

    >>> title("cosine"), title("my_module:Mine")
    ('Cosine Classifier', 'my_module:Mine')
    """
    return next((entry.title for entry in ENTRIES if entry.family == family), family)


def of_the_paper(name: str) -> str | None:
    """Returns the paper's mode of a learner of ours, to compare it with; None where there is none.

    >>> of_the_paper("cosine"), of_the_paper("naive")
    ('cosine-paper', None)
    """
    mine = entry(name)
    return next(
        (e.name for e in ENTRIES if mine.origin == OURS and e.origin == PAPER and e.family == mine.family), None
    )


def stand_in(run: Run) -> Run:
    """Returns the run whose result is shown for a run: another one where both give the same by construction.

    The paper's Cosine adds up the noisy sums of all tasks. With public labels each task adds noise to every one of
    them, so the total does not depend on the tasks that the examples of a label are in, and neither do predictions: the
    paper prints one number for all blurry ratios. Among thousands of labels, where a run takes a minute, we measure the
    disjoint stream for all of them; among the labels of the data, where it takes a second, every ratio is measured.

    >>> stand_in(Run(data="d", learner="cosine-paper", labels="public-1000x", ratio=50.0)).ratio
    0.0
    >>> stand_in(Run(data="d", learner="cosine-paper", labels="base", ratio=50.0)).ratio
    50.0
    """
    many = run.labels.startswith("public-") and run.memory == MEMORIES[0] and run.tasks == TASKS
    return replace(run, ratio=0.0, blurry=BLURRY) if many and entry(run.learner).adds_up else run


def learner_of(run: Run, size: int, tuned: Tuned) -> Learner:
    """Returns the learner of a run for tasks of about this size; `tuned` completes the paper's PEFT."""
    return entry(run.learner).make(run, size, tuned)
