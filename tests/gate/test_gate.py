"""The gate: nothing is drawn that was not paid for, and nothing is published that was not drawn."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

from reticent import Budget, LabelSpace, errors
from reticent.gate import gate as gates
from reticent.gate.epochs import Kept
from reticent.gate.gate import Gate, Permit, RunPermit, drawn_by
from reticent.gate.grid import SCALE
from reticent.gate.label_sums import sum_by_label
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import CountLabels, GaussianSum, SelectLabels
from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import RememberedRows, RememberedSums, StreamSums
from reticent.gate.step import NoisySteps
from reticent.memory import Epoch
from reticent.privacy import accounting, events, renyi
from reticent.released.release import Release
from reticent.sensitive.head import HeadGradients
from reticent.sensitive.task import Task

BUDGET = Budget(epsilon=2.0, delta=1e-5)
GAUSSIAN = events.Gaussian(noise_multiplier=9.0)
LABELS = events.OptimalSelection(epsilon=0.5, delta=1e-6)
TRAINING = events.DpSgd(noise_multiplier=6.0, rate=0.1, steps=4)
COUNTS = events.LabelCounts(noise_multiplier=12.0, threshold=60.0)
SUMS = np.zeros(3, np.int64)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger.create(None, BUDGET)


@pytest.fixture
def gate(ledger) -> Gate:
    return Gate(ledger)


def gradients() -> HeadGradients:
    return HeadGradients(np.ones((3, 2), np.float32), np.zeros(3, np.int64), 2)


def test_a_writer_learns_one_task_with_memory():
    """Two tasks of one writer would both have the sums of those before, in one place of the epoch."""
    budget = Budget(epsilon=1.0, delta=1e-5)
    epoch = Epoch(number=1, vault="0" * 32, place=None, eighths=2, horizon=3, recurring=None)
    event = accounting.remembered(budget, epoch=1, horizon=3)
    gate = Gate(Ledger.create(None, budget), memory=Kept(epoch, ()))
    for other in (replace(event, epoch=2), replace(event, eighths=1), replace(event, horizon=4)):
        with pytest.raises(errors.NotPaidFor, match="epoch that the vault of this model is for"):
            gate.spend(other, task="march")
    gate.spend(event, task="march")
    for task in ("march", "april"):
        with pytest.raises(errors.NotPaidFor, match="learns one task with memory"):
            gate.spend(event, task=task)
    with pytest.raises(errors.NotPaidFor, match="epoch that the vault of this model is for"):
        Gate(Ledger.create(None, budget)).spend(event, task="march")


def test_a_row_of_memory_is_kept_for_its_spend():
    """A mechanism of one's own, or an entry of another spend: the vault would not know what was published."""
    budget = Budget(epsilon=1.0, delta=1e-5)
    epoch = Epoch(number=1, vault="0" * 32, place=None, eighths=2, horizon=3, recurring=None)
    event, space = accounting.remembered(budget, epoch=1, horizon=3), LabelSpace(("a",))
    exact = sum_by_label(np.eye(1, 3), ["a"], known=space, count_weight=0.0)

    @dataclass(frozen=True)
    class Mine:
        event: events.Remembered

        def __call__(self, value: StreamSums, *, rng: NoiseSource) -> RememberedRows | None:
            return None if value.row == 0 else RememberedSums(self.event, space)(value, rng=rng)

    for row, good in ((0, False), (99, False), (2, True)):
        gate = Gate(Ledger.create(None, budget), memory=Kept(epoch, ()))
        permit = gate.spend(event, task="march")
        permit.draw(Mine(event), StreamSums(exact, (), row))
        if good:
            assert gate.entry_of(permit.release(parameters={})) is permit.entry
        else:
            with pytest.raises(errors.NotPaidFor, match="nothing else can be kept"):
                permit.release(parameters={})


def test_permits_draw_what_was_paid_for(gate, ledger):
    permit = gate.spend(events.compose(LABELS, GAUSSIAN, TRAINING), task="march")
    assert [spend.event for spend in ledger.statement().spends] == [permit.event]
    assert permit.draw(SelectLabels(LABELS), {"common": 10_000}) == ("common",)
    assert permit.draw(GaussianSum(GAUSSIAN), SUMS).shape == (3,)
    steps = permit.draw(NoisySteps(TRAINING, 1.0), gradients())
    assert steps(np.zeros(6)).shape == (6,)


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [
        (GaussianSum(replace(GAUSSIAN, noise_multiplier=4.5)), SUMS),  # half the noise
        (GaussianSum(replace(GAUSSIAN, noise_multiplier=18.0)), SUMS),  # and more noise is something else, too
        (GaussianSum(replace(GAUSSIAN, examples_per_person=2)), SUMS),
        (SelectLabels(replace(LABELS, epsilon=0.6)), {}),
        (SelectLabels(events.TruncatedGeometric(epsilon=0.5, delta=1e-6)), {}),
        (NoisySteps(replace(TRAINING, steps=5), 1.0), None),
        (CountLabels(COUNTS), {}),
    ],
)
def test_other_parameters_are_refused(gate, mechanism, value):
    permit = gate.spend(events.compose(LABELS, GAUSSIAN, TRAINING), task="march")
    with pytest.raises(errors.NotPaidFor, match="was not paid for"):
        permit.draw(mechanism, value)


def test_each_part_is_drawn_once(gate):
    permit = gate.spend(events.compose(GAUSSIAN, GAUSSIAN), task="march")  # paid for twice
    for _ in range(2):
        permit.draw(GaussianSum(GAUSSIAN), SUMS)
    with pytest.raises(errors.NotPaidFor, match="drawn its Gaussian already"):
        permit.draw(GaussianSum(GAUSSIAN), SUMS)


def test_labelled_training_is_drawn_in_its_two_parts(gate):
    event = events.LabelledTraining(counts=COUNTS, training=TRAINING)
    permit = gate.spend(event, task="march")
    permit.draw(CountLabels(COUNTS), {"common": 500})
    steps = permit.draw(NoisySteps(TRAINING, 1.0), gradients())
    for _ in range(TRAINING.steps):
        steps(np.zeros(6))
    assert permit.release(parameters={}).event == event


def test_refusals_draw_nothing(ledger):
    asked = []

    class Watched(NoiseSource):
        def words(self, n):
            asked.append(n)
            return super().words(n)

    gate = Gate(ledger, Watched(seed=None))
    with pytest.raises(errors.BudgetExceeded):
        gate.spend(events.Gaussian(noise_multiplier=0.1), task="march")
    permit = gate.spend(GAUSSIAN, task="march")
    with pytest.raises(errors.NotPaidFor):
        permit.draw(GaussianSum(events.Gaussian(noise_multiplier=1.0)), SUMS)
    assert asked == []


def test_voided_permits_draw_nothing(gate, ledger):
    permit = gate.spend(GAUSSIAN, task="march")
    ledger.void(permit.row, reason="a second thought")
    for act in (
        lambda: permit.draw(GaussianSum(GAUSSIAN), SUMS),
        lambda: permit.release(parameters={}),
        permit.publish,
    ):
        with pytest.raises(errors.NotPaidFor, match="is voided"):
            act()


def test_what_was_voided_after_its_draw_is_not_published(gate, ledger):
    permit = gate.spend(GAUSSIAN, task="march")
    permit.draw(GaussianSum(GAUSSIAN), SUMS)
    release = permit.release(parameters={})
    ledger.void(permit.row, reason="a second thought")
    with pytest.raises(errors.LedgerError, match="must not be published"):
        ledger.publish(gate.rows(release))


def test_a_closed_gate_spends_and_draws_nothing(gate):
    permit = gate.spend(GAUSSIAN, task="march")
    gate.close()
    acts: list[Callable[[], object]] = [
        lambda: gate.spend(GAUSSIAN, task="april"),
        lambda: permit.draw(GaussianSum(GAUSSIAN), SUMS),
        lambda: permit.release(parameters={}),
        lambda: gate.uniform(1),
    ]
    for act in acts:
        with pytest.raises(errors.NotPaidFor, match="gate is closed"):
            act()


def test_releases_wait_for_their_draws(gate):
    permit = gate.spend(events.compose(LABELS, GAUSSIAN), task="march")
    permit.draw(SelectLabels(LABELS), {})
    with pytest.raises(errors.NotPaidFor, match="to be drawn before its release"):
        permit.release(parameters={"sums": np.ones(3)})
    permit.draw(GaussianSum(GAUSSIAN), SUMS)
    assert permit.release(parameters={}).task == "march"


def made(gate: Gate) -> tuple[Permit, Release]:
    permit = gate.spend(GAUSSIAN, task="march")
    noisy = permit.draw(GaussianSum(GAUSSIAN), SUMS)
    return permit, permit.release(parameters={"sums": noisy / SCALE}, labels=LabelSpace(()))


def test_releases_come_from_permits(gate):
    permit, release = made(gate)
    assert (release.event, release.private, release.task) == (GAUSSIAN, True, "march")
    assert gate.rows(release) == [permit.row]
    for other in (replace(release), replace(release, private=False), replace(release, event=events.Public())):
        with pytest.raises(errors.NotPaidFor, match="Nothing was spent on this release"):
            gate.rows(other)
    with pytest.raises(errors.NotPaidFor, match="Nothing was spent on this release"):
        Gate(gate._ledger).rows(release)  # another writer's


def test_a_release_costs_all_that_was_spent_on_its_task(gate):
    first, second = (gate.spend(GAUSSIAN, task="march") for _ in range(2))
    other = gate.spend(TRAINING, task="memory")
    unused = gate.spend(LABELS, task="never drawn")
    for permit in (first, second):
        permit.draw(GaussianSum(GAUSSIAN), SUMS)
    steps = other.draw(NoisySteps(TRAINING, 1.0), gradients())
    for _ in range(TRAINING.steps):
        steps(np.zeros(6))
    release = second.release(parameters={})
    assert release.event == events.compose(GAUSSIAN, GAUSSIAN)
    assert gate.rows(release) == [first.row, second.row, other.row]
    assert unused.row not in gate.rows(release)


def test_seeded_and_non_private_releases_say_so(ledger):
    assert not made(Gate(ledger, NoiseSource.seeded(1)))[1].private

    class Anything(Ledger):
        def _refuse_unaffordable(self, event, task):
            pass

    gate = Gate(Anything.create(None, BUDGET))
    exact = gate.spend(events.NonPrivate(), task="march")
    assert not exact.release(parameters={}).private
    raw = gate.spend(GAUSSIAN, task="april", private=False)
    raw.draw(GaussianSum(GAUSSIAN), SUMS)
    assert not raw.release(parameters={}).private
    assert [spend.private for spend in gate._ledger.statement().spends] == [False, False]


def test_persons_are_capped_by_the_gate():
    budget = Budget(epsilon=1.0, delta=1e-5, examples_per_person=2)
    task = Gate(Ledger.create(None, budget)).admit(Task(np.eye(4), list("abcd"), ["x", "x", "x", "y"]))
    assert task.labels == ["a", "b", "d"]


# --- private selection


@dataclass(frozen=True)
class Once:
    """A mechanism that says what it costs."""

    event: events.Event

    def __call__(self, value: int, *, rng: NoiseSource) -> int:
        return value


def selection() -> events.PrivateSelection:
    return accounting.private_selection(events.DpSgd(noise_multiplier=9.0, rate=0.1, steps=4), mean_runs=2)


def test_runs_spend_no_more_than_the_selection_says(gate):
    event = selection()
    permit = gate.spend(event, task="tuning")

    def run(mine: RunPermit) -> tuple[float, str]:
        for dearer in (replace(TRAINING, noise_multiplier=8.0), events.NonPrivate()):
            with pytest.raises(errors.NotPaidFor, match="A run draws once, at most"):
                mine.draw(Once(dearer), 1)
        assert mine.draw(Once(event.run), 1) == 1
        with pytest.raises(errors.NotPaidFor, match="A run draws once, at most"):
            mine.draw(Once(event.run), 1)
        return 0.5, "settings"

    assert permit.best(run) == "settings"
    with pytest.raises(errors.NotPaidFor, match="drawn its PrivateSelection already"):
        permit.best(run)
    with pytest.raises(errors.NotPaidFor, match="no private selection"):
        gate.spend(GAUSSIAN, task="march").best(run)


def test_runs_of_several_examples_per_person_keep_their_noise():
    """The attack: noise 20 for five examples is as much as noise 4 for one, but five are in the data."""
    gate = Gate(Ledger.create(None, Budget(epsilon=50.0, delta=1e-5, examples_per_person=5)))
    paid = events.Gaussian(noise_multiplier=20.0, examples_per_person=5)
    permit = gate.spend(accounting.private_selection(paid, mean_runs=2), task="tuning")

    def run(mine: RunPermit) -> tuple[float, int]:
        with pytest.raises(errors.InvalidValue, match="5 examples per person"):
            mine.draw(Once(events.Gaussian(noise_multiplier=4.0)), 1)
        return 0.0, mine.draw(Once(paid), 1)

    assert permit.best(run) == 1


def test_only_the_best_run_is_seen(gate, monkeypatch):
    scores = iter([0.2, 0.7, 0.7, 0.1])
    monkeypatch.setattr(gates, "number_of_runs", lambda *_, **__: 4)
    permit = gate.spend(selection(), task="tuning")
    made: list[int] = []

    def run(mine: RunPermit) -> tuple[float, int]:
        made.append(len(made))
        return next(scores), made[-1]

    assert permit.best(run) == 1  # of equals the first
    assert made == [0, 1, 2, 3]


def test_spends_name_the_task_that_was_admitted(gate):
    """The attack: the same examples under a hundred names, each of which would be other persons' data."""
    task = gate.admit(Task(np.eye(2), ["a", "b"], name="march"))
    with pytest.raises(errors.NotPaidFor, match="the task that was admitted"):
        gate.spend(GAUSSIAN, task="another name")
    assert gate.spend(GAUSSIAN, task=task.name).task == "march"


def test_nothing_is_spent_or_drawn_after_the_release(gate):
    permit, _ = made(gate)
    with pytest.raises(errors.NotPaidFor, match="has its release already"):
        gate.spend(GAUSSIAN, task="march")
    with pytest.raises(errors.NotPaidFor, match="has its release already"):
        permit.draw(GaussianSum(GAUSSIAN), SUMS)


def test_steps_end_with_their_gate(gate, ledger):
    permit = gate.spend(TRAINING, task="march")
    steps = permit.draw(NoisySteps(TRAINING, 1.0), gradients())
    steps(np.zeros(6))
    with pytest.raises(errors.NotPaidFor, match="to be drawn before its release"):
        permit.release(parameters={})
    ledger.void(permit.row, reason="a second thought")
    with pytest.raises(errors.NotPaidFor, match="is voided"):
        steps(np.zeros(6))
    other = gate.spend(TRAINING, task="april")
    later = other.draw(NoisySteps(TRAINING, 1.0), gradients())
    gate.close()
    with pytest.raises(errors.NotPaidFor, match="gate is closed"):
        later(np.zeros(6))


def test_counts_come_before_training(gate):
    permit = gate.spend(events.LabelledTraining(counts=COUNTS, training=TRAINING), task="march")
    with pytest.raises(errors.NotPaidFor, match="counted before training"):
        permit.draw(NoisySteps(TRAINING, 1.0), gradients())


def test_mechanisms_refuse_what_their_event_does_not_say():
    with pytest.raises(errors.InvalidValue, match="no test with any other"):
        SelectLabels(LABELS, lambda n: 1.0)
    with pytest.raises(errors.InvalidValue, match="its delta is the chance of a single example"):
        SelectLabels(events.BinaryTest(epsilon=1.0, delta=1e-6), lambda n: 0.5)
    with pytest.raises(errors.InvalidValue, match="one example per person"):
        NoisySteps(replace(TRAINING, examples_per_person=5), 1.0)


@pytest.mark.parametrize("event", [events.Public(), events.Composed(()), events.Exposure(chance=1e-9)])
def test_what_is_never_drawn_cannot_be_spent(gate, event):
    """The attack: pay nothing, draw nothing, and publish exact sums as a release."""
    with pytest.raises(errors.InvalidValue, match="Expected an event that some mechanism draws"):
        gate.spend(event, task="march")
    assert drawn_by(events.compose(events.Public(), events.NonPrivate())) == {}


# --- found by mutants: each of these changed something that no test noticed


def test_uniform_numbers_are_the_words_of_the_source(ledger):
    class Words(NoiseSource):
        def words(self, n):
            return np.array([0, 2**63, 3 * 2**62], np.uint64)[:n]

    assert Gate(ledger, Words(seed=1)).uniform(3) == [0.0, 0.5, 0.75]


def test_rows_of_a_release_are_not_told_by_a_closed_gate(gate):
    permit = gate.spend(GAUSSIAN, task="march")
    permit.draw(GaussianSum(GAUSSIAN), SUMS)
    release = permit.release(parameters={})
    assert gate.rows(release) == [permit.row]
    gate.close()
    with pytest.raises(errors.NotPaidFor, match="gate is closed"):
        gate.rows(release)


def test_publishing_ends_a_permit(gate, ledger):
    permit = gate.spend(GAUSSIAN, task="accuracy")
    permit.draw(GaussianSum(GAUSSIAN), SUMS)
    permit.publish()
    assert [spend.published for spend in ledger.statement().spends] == [True]
    for act in (lambda: permit.draw(GaussianSum(GAUSSIAN), SUMS), permit.publish):
        with pytest.raises(errors.NotPaidFor, match="has its release already"):
            act()


def test_publishing_waits_for_all_draws(gate, ledger):
    permit = gate.spend(events.compose(GAUSSIAN, TRAINING), task="accuracy")
    steps = permit.draw(NoisySteps(TRAINING, 1.0), gradients())
    for _ in range(TRAINING.steps):
        with pytest.raises(errors.NotPaidFor, match="before it is published"):
            permit.publish()
        steps(np.zeros(6))
    with pytest.raises(errors.NotPaidFor, match="before it is published"):
        permit.publish()
    permit.draw(GaussianSum(GAUSSIAN), SUMS)
    permit.publish()
    assert [spend.published for spend in ledger.statement().spends] == [True]


class SlowCounter(Counter[events.Event]):
    """Gives other threads time between a look and what follows from it."""

    def __getitem__(self, event: events.Event) -> int:
        found = super().__getitem__(event)
        time.sleep(0.05)
        return found


def slowly_true(*_: object) -> bool:
    time.sleep(0.05)
    return True


def by_threads(draw: Callable[[], object]) -> int:
    """Returns how many of several draws at the same time are not refused."""

    def drawn(_: int) -> bool:
        try:
            draw()
        except errors.NotPaidFor:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        return sum(threads.map(drawn, range(4)))


def test_threads_draw_what_was_paid_for_once(gate, monkeypatch):
    permit = gate.spend(GAUSSIAN, task="march")
    permit._left = SlowCounter(permit._left)
    assert by_threads(lambda: permit.draw(GaussianSum(GAUSSIAN), SUMS)) == 1

    runs: list[int] = []
    monkeypatch.setattr(gates, "number_of_runs", lambda event, *, rng: 1)
    monkeypatch.setattr(renyi, "spends_no_more", slowly_true)

    def run(permit: RunPermit) -> tuple[float, None]:
        runs.append(by_threads(lambda: permit.draw(GaussianSum(GAUSSIAN), SUMS)))
        return 0.0, None

    gate.spend(accounting.private_selection(GAUSSIAN, mean_runs=2), task="tuning").best(run)
    assert runs == [1]


def test_a_release_waits_for_every_permit_of_its_task(gate):
    first, second = (gate.spend(GAUSSIAN, task="march") for _ in range(2))
    first.draw(GaussianSum(GAUSSIAN), SUMS)
    with pytest.raises(errors.NotPaidFor, match="before its release"):
        first.release(parameters={})
    second.draw(GaussianSum(GAUSSIAN), SUMS)
    assert first.release(parameters={}).event == events.compose(GAUSSIAN, GAUSSIAN)


def test_one_part_that_is_not_private_makes_a_release_not_private(gate):
    permits = [gate.spend(GAUSSIAN, task="march", private=private) for private in (True, False)]
    for permit in permits:
        permit.draw(GaussianSum(GAUSSIAN), SUMS)
    assert not permits[0].release(parameters={}).private


def test_refusals_name_what_was_paid_for(gate):
    permit = gate.spend(events.compose(GAUSSIAN, LABELS), task="march")
    with pytest.raises(errors.NotPaidFor) as refused:
        permit.draw(GaussianSum(events.Gaussian(noise_multiplier=1 / 3)), SUMS)
    assert str(refused.value) == (
        "Gaussian(noise_multiplier=0.333333, examples_per_person=1) was not paid for. This permit draws "
        "Gaussian(noise_multiplier=9, examples_per_person=1), "
        "OptimalSelection(epsilon=0.5, delta=1e-06, examples_per_person=1)."
    )


def test_runs_end_with_their_permit(gate, monkeypatch):
    """A run that its caller keeps for later is refused once the row is voided."""
    event = accounting.private_selection(GAUSSIAN, mean_runs=2)
    permit = gate.spend(event, task="tuning")
    kept: list[RunPermit] = []
    monkeypatch.setattr(gates, "number_of_runs", lambda event, *, rng: 1)

    def keep(run: RunPermit) -> tuple[float, None]:
        kept.append(run)
        return 0.0, None

    permit.best(keep)
    gate._ledger.void(permit.row, reason="a second thought")
    with pytest.raises(errors.NotPaidFor, match="is voided"):
        kept[0].draw(GaussianSum(GAUSSIAN), SUMS)


def test_exposure_beside_a_draw_cannot_be_spent(gate):
    with pytest.raises(errors.InvalidValue, match="some mechanism draws"):
        gate.spend(events.compose(GAUSSIAN, events.Exposure(chance=1e-6)), task="march")


@pytest.mark.parametrize(
    "parameters",
    [
        {"w": np.zeros(2, np.complex64)},
        {"w": np.zeros(2, object)},
        {"w": np.zeros(2, "U3")},
        {"w": [1.0, 2.0]},
        {"labels": np.zeros(2)},
        {"__metadata__": np.zeros(2)},
        {"w" * 301: np.zeros(2)},
        {"\ud800": np.zeros(2)},
        {7: np.zeros(2)},
        dict.fromkeys(map(str, range(10_000)), SUMS),
    ],
)
def test_what_no_file_can_hold_is_not_released(gate, parameters):
    permit = gate.spend(GAUSSIAN, task="march")
    permit.draw(GaussianSum(GAUSSIAN), SUMS)
    with pytest.raises(errors.InvalidValue, match="arrays of plain numbers, with printable names"):
        permit.release(parameters=parameters)
    assert permit.release(parameters={"w": SUMS.astype(bool), "ä": np.zeros(2, np.float16)}).task == "march"


def test_spends_that_make_a_release_too_long_to_read_are_refused(gate, ledger):
    """Each of them alone could be read back."""
    several = events.compose(*[events.Gaussian(noise_multiplier=5e3)] * 600)
    gate.spend(several, task="march")
    with pytest.raises(errors.UnsupportedEvent, match="more parts than reticent ever writes"):
        gate.spend(several, task="march")
    assert len(ledger.statement().spends) == 1
    gate.spend(several, task="april")
