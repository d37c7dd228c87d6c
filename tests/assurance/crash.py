"""Kills and I/O errors at every file call of what writes, and what must hold afterwards.

Each trial copies a folder, runs one operation on it in a child process, and lets one of its calls on that folder
fail or kill it (`file_calls`). Then the promises are checked: with the same live object where the process survived, and
with a new one.

`python -m tests.assurance.crash` tries everything; `python -m tests.assurance.crash void` one operation.
"""

import contextlib
import errno
import functools
import io
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from reticent import errors, vaults
from reticent.cli import ledger_verbs as verbs
from reticent.gate import voiding
from reticent.gate.gate import Permit
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum
from reticent.gate.seal import SEAL
from reticent.gate.vault import FILE_NAME as VAULT
from reticent.gate.vault import Vault
from reticent.lab.bench import runner
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.processes import Processes
from reticent.lab.bench.specs import Spec
from reticent.numerics import files
from reticent.privacy import events
from reticent.released import store
from reticent.released.card import CARD
from reticent.released.ledger_file import FILE_NAME
from tests.assurance.file_calls import Call, Ended, Fault, Kind, unavailable, watched
from tests.assurance.part import Part
from tests.lab.tiny import a_run, write_features
from tests.test_directory_writers import killed_at_random, lost_by

BUDGET = rt.Budget(epsilon=2.0, delta=1e-5, tasks_per_person=2)  # so that each further task is seen in the total
LABELS = rt.PublicLabels(["a", "b"])
X = np.repeat(np.eye(2, 8), 20, axis=0)
Y = ["a"] * 20 + ["b"] * 20
POINTS = np.eye(2, 8)
PATIENCE = 2.0  # seconds that a trial waits for a lock
MOST = 120  # seconds that a trial may take
KINDS = ("SIGKILL", "ENOSPC", "ENOSPC that stays", "EIO", "EIO that stays", "EACCES")

Told = dict[str, Any]
Wrong = list[str]


# --- what must hold of a model, whatever happened


def learn(model: rt.ContinualClassifier, name: str) -> None:
    model.learn_task(X, Y, name=name)


def void(folder: Path, row: int) -> None:
    """Voids a row as `reticent ledger` does."""
    with contextlib.redirect_stdout(io.StringIO()):
        verbs.ledger(folder, void=row, reason="a crash", as_json=False)


def tasks_of(model: rt.ContinualClassifier) -> list[str]:
    return [release.task for release in model.releases]


def unsound(model: rt.ContinualClassifier, folder: Path, before: Sequence[str], drawn: int) -> Wrong:
    """Returns what does not hold of a model: its releases, its ledger, what it predicts, and whether it can go on."""
    wrong, stored = [], rt.load(folder)
    if tasks_of(stored)[: len(before)] != list(before):
        wrong.append(f"lost a release: {tasks_of(stored)}")
    if tasks_of(model) != tasks_of(stored)[: len(model.releases)]:
        wrong.append(f"memory has {tasks_of(model)}, the folder {tasks_of(stored)}")
    elif 0 < len(model.releases) == len(stored.releases) and not np.array_equal(
        model.decision_function(POINTS), stored.decision_function(POINTS)
    ):
        wrong.append("memory and folder predict different things")
    wrong += _uncovered(stored, folder, drawn)
    again = next_steps(model, folder)
    return wrong + again if again else wrong + _left_over(folder)


def _uncovered(model: rt.ContinualClassifier, folder: Path, drawn: int) -> Wrong:
    """Everything that was drawn has its spend, everything released is published, and the total says so."""
    wrong, statement = [], model.statement()
    if drawn > len(statement.spends):
        wrong.append(f"{drawn} draws, {len(statement.spends)} spends")
    published = {spend.task for spend in statement.spends if spend.published and spend.voided is None}
    released = [release for release in model.releases if release.parameters]
    wrong += [f"{release.task} is released and not paid for" for release in released if release.task not in published]
    least = len({release.task for release in released if release.event == _event()})
    if statement.now.epsilon < _epsilon(min(least, 2)) - 1e-9:
        wrong.append(f"the statement says {statement.now.epsilon}")
    kept = {spend.task for spend in statement.spends if spend.voided is None}
    listed = [{"file": f"releases/{n:04d}.safetensors"} for n in range(1, len(model.releases) + 1)]
    for _, task, _, is_public in store.unlisted(folder, listed):
        if not is_public and task not in kept:
            wrong.append(f"a release of {task} lies in the folder and has no spend")
    return wrong


def next_steps(model: rt.ContinualClassifier, folder: Path) -> Wrong:
    """Learns the task again or follows the advice, then learns another one; both must be there."""
    try:
        _learn_as_advised(model, folder, "april")
        learn(model, "may")
    except errors.ReticentError as error:
        return [f"cannot go on: {error}"]
    found = Counter(tasks_of(rt.load(folder)))
    april = found["april"] + ("april" in counted_for_good(folder))
    return [] if april == found["may"] == 1 else [f"went on, and has {dict(found)}"]


def counted_for_good(folder: Path) -> set[str]:
    """The tasks whose release may have been read and could not be published: they are not learned again."""
    statement = rt.load(folder).statement()
    named = [re.search(r"read: row ([0-9, ]+) counts as published", act.text) for act in statement.acts]
    rows = {int(row) for found in named if found for row in found[1].split(",")}
    return {spend.task for spend in statement.spends if spend.row in rows}


def _learn_as_advised(model: rt.ContinualClassifier, folder: Path, name: str) -> None:
    try:
        learn(model, name)
    except rt.BudgetExceeded as refused:
        advised = re.search(r"--void (\d+) --reason", str(refused))
        if advised is not None:
            void(folder, int(advised[1]))
            _learn_as_advised(model, folder, name)
        elif name not in tasks_of(rt.load(folder)) and name not in counted_for_good(folder):
            raise


def _left_over(folder: Path) -> Wrong:
    """What lies in a folder that should not, after a writer has ended."""
    model = rt.load(folder)
    expected = {files.LOCK, FILE_NAME, store.LABELS, store.MANIFEST, store.RELEASES, CARD, "expected.json"}
    expected |= {f"{store.RELEASES}/{file.name}" for file in (folder / store.RELEASES).glob("*.safetensors")}
    found = {str(file.relative_to(folder)) for file in folder.rglob("*")}
    wrong = [f"left over: {name}" for name in sorted(found - expected)]
    if not (card := (folder / CARD).read_text()).startswith("---\n") or f"| {model.releases[-1].task} |" not in card:
        wrong.append("the model card is of an earlier task, or not whole")
    listed = [entry["file"] for entry in json.loads((folder / store.MANIFEST).read_text())["releases"]]
    if len(listed) != len(model.releases):
        wrong.append("the manifest lags behind")
    lying = sorted(f"{store.RELEASES}/{file.name}" for file in (folder / store.RELEASES).glob("*"))
    return wrong if lying == sorted(listed) else [*wrong, f"releases lie about: {set(lying) ^ set(listed)}"]


def untrue(told: Told, model: rt.ContinualClassifier, task: str) -> Wrong:
    """Returns what the message of a call that failed says and is not so."""
    said = str(told["said"])
    if told["stays"] and "cannot be read now" in said:
        return []  # true as long as the disk is full
    rows = [spend for spend in model.statement().spends if spend.task == task and spend.voided is None]
    spent = [spend.row for spend in rows if not spend.published]
    if "its release may be written. Learn the task again" in said:
        return []  # `next_steps` does
    if any(spend.published for spend in rows):
        return [] if "published" in said and "void" not in said else [f"it was published, and the message says: {said}"]
    if spent:
        return [] if f"--void {spent[0]} --reason" in said else [f"row {spent[0]} is spent, and it says: {said}"]
    return [] if "othing was spent" in said else [f"nothing was spent, and it does not say so: {said}"]


@functools.cache
def _clean() -> list[rt.ContinualClassifier]:
    """Models of one and two tasks, without faults."""
    model = classifier(None)
    learn(model, "march")
    return [model]


def _event() -> events.Event:
    return _clean()[0].releases[0].event


@functools.cache
def _epsilon(tasks: int) -> float:
    model = classifier(None)
    for task in range(tasks):
        learn(model, str(task))
    return float(model.statement().now.epsilon)


def classifier(path: Path | None, **settings: Any) -> rt.ContinualClassifier:
    return rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=path, **settings)


# --- operations


@dataclass(frozen=True)
class Operation:
    """Something that writes.

    Args:
        name: As the table says it.
        prepare: Makes what is there before, in a new folder.
        live: Opens what the operation works on, in the child, before it is watched.
        act: The operation.
        wrong: What does not hold afterwards. It gets the live object, or None where it must be opened anew; the folder;
            what the child told, None if it was killed; and the number of draws.
        kinds: Of faults.
    """

    name: str
    prepare: Callable[[Path], None]
    live: Callable[[Path], Any]
    act: Callable[[Any, Path], object]
    wrong: Callable[[Any, Path, Told | None, int], Wrong]
    kinds: tuple[str, ...] = KINDS


def _with_march(folder: Path, **settings: Any) -> None:
    learn(classifier(folder, **settings), "march")


def _learned(model: rt.ContinualClassifier | None, folder: Path, told: Told | None, drawn: int) -> Wrong:
    stored = rt.load(folder)
    wrong = [] if told is None or told["done"] else untrue(told, stored, "april")
    if told is not None and told["done"] and "april" not in tasks_of(stored):
        wrong.append("was told to be learned, and is not there")
    return wrong + unsound(model or stored, folder, ["march"], drawn + 1)


def _evaluated(model: rt.ContinualClassifier | None, folder: Path, told: Told | None, drawn: int) -> Wrong:
    stored = rt.load(folder)
    wrong = [] if told is None or told["done"] else untrue(told, stored, "test")
    paid = [spend for spend in stored.statement().spends if spend.task == "test" and spend.published]
    if told is not None and told["done"] and not paid:
        wrong.append("was told, and is not paid for")
    for spend in stored.statement().spends:
        if spend.task == "test" and not spend.published:
            void(folder, spend.row)
    return wrong + unsound(model or stored, folder, ["march"], drawn + 1)


def _read(_: Any, folder: Path) -> None:
    model = rt.load(folder)
    model.statement()
    model.predict(POINTS)


def _was_read(_: Any, folder: Path, told: Told | None, drawn: int) -> Wrong:
    return unsound(rt.load(folder), folder, ["march"], 1)


def _evaluate(model: rt.ContinualClassifier, folder: Path) -> None:
    model.private_score(X, Y, epsilon=0.1, name="test")


def _tune(model: rt.ContinualClassifier, folder: Path) -> None:
    event = events.Gaussian(noise_multiplier=60.0)  # stands for the selection, whose file calls are the same
    with model.directory.writer() as gate:
        permit = gate.spend(event, task="test")
        permit.draw(GaussianSum(event), np.zeros(2, np.int64))
        permit.publish()


def _extended(model: rt.ContinualClassifier | None, folder: Path, told: Told | None, drawn: int) -> Wrong:
    known = rt.load(folder).classes_.tolist()
    wrong = [] if known in (["a", "b"], ["a", "b", "c"]) else [f"has the labels {known}"]
    if told is not None and told["done"] and "c" not in known:
        wrong.append("the label was told to be added, and is not there")
    if told is not None and not told["done"] and "c" in known and "published" not in str(told["said"]):
        wrong.append(f"the label was added, and it says: {told['said']}")
    return wrong + unsound(model or rt.load(folder), folder, ["march"], 1)


def _set(model: rt.ContinualClassifier, folder: Path) -> None:
    learner = rt.Cosine.paper()
    model.directory.set({"learner": learner.to_json()}, rule=learner.rule)


def _were_set(model: rt.ContinualClassifier | None, folder: Path, told: Told | None, drawn: int) -> Wrong:
    stored = rt.load(folder)
    wrong = []
    if told is not None and told["done"] and stored._learner() != rt.Cosine.paper():
        wrong.append("the learner was told to be set, and is not")
    if model is not None and len(model.releases) == len(stored.releases):
        rules = [m.directory.model.rule for m in (model, stored)]
        wrong += [] if rules[0] == rules[1] else ["memory and folder have different rules"]
    return wrong + unsound(model or stored, folder, ["march"], 1)


def _with_lost_row(folder: Path) -> None:
    """A process was killed between a spend and its release."""
    _with_march(folder)
    with contextlib.suppress(KeyboardInterrupt), _replaced(store, "write_release", _killed):
        learn(rt.load(folder), "april")


def _killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def _void_april(_: Any, folder: Path) -> None:
    voiding.void(folder, 4, reason="a crash")


def _voided(_: Any, folder: Path, told: Told | None, drawn: int) -> Wrong:
    stored = rt.load(folder)
    (row,) = (spend for spend in stored.statement().spends if spend.task == "april")
    wrong = []
    if told is not None and told["done"] and row.voided is None:
        wrong.append("was told to be voided, and is not")
    if told is not None and not told["done"] and row.voided is not None:
        wrong.append(f"was voided, and it says: {told['said']}")
    if row.voided is not None and (folder / store.RELEASES / "0002.safetensors").exists():
        wrong.append("the release of a voided row lies in the folder")
    return wrong + unsound(stored, folder, ["march"], 2)


def _made(_: Any, folder: Path, told: Told | None, drawn: int) -> Wrong:
    wrong = []
    try:
        model = rt.load(folder)
    except errors.InvalidValue as error:
        wrong += [] if "No model at" in str(error) else [str(error)]
        wrong += ["was told to be made, and is not there"] if told is not None and told["done"] else []
        _init(None, folder)
        model = rt.load(folder)
    else:
        if told is not None and not told["done"] and "load" not in str(told["said"]):
            wrong.append(f"it was made, and it says: {told['said']}")
    return wrong + unsound(model, folder, [], 0)


def _init(_: Any, folder: Path) -> None:
    assert classifier(folder).directory.path == folder


def _save(model: rt.ContinualClassifier, folder: Path) -> None:
    model.save(folder / "copy")


def _saved(model: rt.ContinualClassifier | None, folder: Path, told: Told | None, drawn: int) -> Wrong:
    wrong = []
    model = model or rt.load(folder / "model")
    try:
        copied = rt.load(folder / "copy")
    except errors.InvalidValue as error:
        wrong += [] if "No model at" in str(error) else [str(error)]
        wrong += ["was told to be saved, and is not there"] if told is not None and told["done"] else []
        _save(model, folder)
        copied = rt.load(folder / "copy")
    else:
        if told is not None and not told["done"] and "load" not in str(told["said"]):
            wrong.append(f"it was saved, and it says: {told['said']}")
    return wrong + unsound(copied, folder / "copy", ["march"], 1) + unsound(model, folder / "model", ["march"], 1)


def _with_vault(folder: Path) -> None:
    """A model with memory that has learned a task, beside its vault."""
    _with_march(folder / "model", memory=rt.Memory(vault=folder / "vault"))


def _own_vault(folder: Path) -> rt.ContinualClassifier:
    """Trials begin with a copy of the folder: the vault is told that it was moved."""
    with Vault.open(folder / "vault") as vault:
        vault.settle(folder / "model")
    return rt.load(folder / "model")


def _committed(folder: Path) -> tuple[int, bytes] | None:
    """The row and the bytes of a release that the vault holds and the ledger has not published."""
    with Vault.open(folder / "vault") as vault:
        waiting = vault.waiting()
    spends = {spend.row: spend for spend in rt.load(folder / "model").statement().spends}
    if waiting is None or waiting.row not in spends or spends[waiting.row].published:
        return None
    return waiting.row, waiting.release


def _out_of_step(folder: Path, committed: tuple[int, bytes] | None) -> Wrong:
    """What vault and releases contradict each other in, after the next writers."""
    model, wrong = rt.load(folder / "model"), []
    spends = model.statement().spends
    with Vault.open(folder / "vault") as vault:
        epoch, rows, keys = vault.about.epoch, list(vault.heads()), {entry.key for entry in vault.entries()}
    mine = [spend.row for spend in spends if spend.published and _is_of(spend.event, epoch)]
    if rows != mine or len(keys) < len(rows):
        wrong.append(f"published rows {mine}, the vault has {rows}")
    places = [int(release.parameters["place"][0]) for release in model.releases if _is_of(release.event, epoch)]
    if places != list(range(1, len(rows) + 1)):
        wrong.append(f"places {places}")
    if committed is not None:
        row, content = committed
        voided = next(spend.voided is not None for spend in spends if spend.row == row)
        released = (folder / "model" / store.RELEASES).glob("*.safetensors")
        if voided or not any(file.read_bytes() == content for file in released):
            wrong.append("what was committed is not published as it was")
    left = {file.name for file in (folder / "vault").iterdir()} - {VAULT, SEAL, files.LOCK}
    return wrong + [f"left over in the vault: {name}" for name in sorted(left)]


def _is_of(event: events.Event, epoch: int) -> bool:
    return isinstance(event, events.Remembered) and event.epoch == epoch


def _remembered(model: rt.ContinualClassifier | None, folder: Path, told: Told | None, drawn: int) -> Wrong:
    home, committed = folder / "model", _committed(folder)
    return _learned(model, home, told, drawn) + _out_of_step(folder, committed)


def _rotate(_: Any, folder: Path) -> None:
    vaults.rotate(folder / "vault")


def _with_waiting(folder: Path) -> None:
    """A process was killed between the vault and the ledger."""
    _with_vault(folder)
    with contextlib.suppress(KeyboardInterrupt), _replaced(Ledger, "publish", _killed):
        learn(rt.load(folder / "model"), "april")


def _rotated(_: Any, folder: Path, told: Told | None, drawn: int) -> Wrong:
    """Either nothing has changed, or the next task is the first of a new epoch; at worst it is begun once more."""
    home, wrong = folder / "model", []
    epoch = rt.load(home).directory.epoch
    assert epoch is not None
    if told is not None and told["done"] and (epoch.number != 2 or "april" not in tasks_of(rt.load(home))):
        wrong.append("was told to be rotated, and is not")
    try:
        learn(rt.load(home), "june")
    except errors.VaultError as error:
        wrong += [] if "vault rotate" in str(error) and "Nothing was spent" in str(error) else [str(error)]
        vaults.rotate(folder / "vault", model=home)
        learn(rt.load(home), "june")
    wrong += unsound(rt.load(home), home, ["march"], 2)
    return wrong + _out_of_step(folder, None)


# --- something else after a kill


def _with_one_task(folder: Path, *, memory: bool) -> None:
    """A model that has learned a task, for persons of one: a score costs nobody more."""
    kept = rt.Memory(vault=folder / "vault") if memory else None
    budget = replace(BUDGET, tasks_per_person=1)
    learn(rt.ContinualClassifier(labels=LABELS, budget=budget, path=folder / "model", memory=kept), "march")


def _void_every_april(folder: Path) -> None:
    for spend in rt.load(folder / "model").statement().spends:
        if spend.task == "april":
            voiding.void(folder / "model", spend.row, reason="a crash")


def _lose_the_vault(folder: Path) -> None:
    shutil.rmtree(folder / "vault")
    vaults.rotate(folder / "vault", model=folder / "model")


SECOND: dict[str, Callable[[Path], object]] = {
    "nothing": lambda folder: None,
    "evaluate": lambda folder: rt.load(folder / "model").private_score(X, Y, epsilon=0.1, name="test"),
    "set": lambda folder: rt.load(folder / "model").directory.set({"learner": rt.Cosine().to_json()}),
    "record": lambda folder: rt.load(folder / "model").directory.record("looked at"),
    "add labels": lambda folder: rt.load(folder / "model").extend_labels(["c"]),
    "void": _void_every_april,
    "save": lambda folder: _save(rt.load(folder / "model"), folder),
}
SECOND_WITH_MEMORY = SECOND | {
    "rotate": lambda folder: vaults.rotate(folder / "vault"),
    "rotate, the vault lost": _lose_the_vault,
}


def _followed(second: Callable[[Path], object], _: Any, folder: Path, told: Told | None, drawn: int) -> Wrong:
    """What could be read of april is published as it is or never, and its spend is not voided; else it is learned."""
    home = folder / "model"
    seen, wrong = _of_april(home), []
    for draft in (home / store.RELEASES).glob(".*"):
        wrong += [f"others may read {draft.name}"] if draft.stat().st_mode & 0o077 else []
    if (folder / "vault").exists() and (waiting := _committed(folder)) is not None:
        seen.add(waiting[1])
    ever = set[bytes]()
    for step in (second, _void_every_april, lambda _: learn(rt.load(home), "april"), _void_every_april):
        with contextlib.suppress(errors.ReticentError):
            step(folder)
        ever |= _of_april(home)
    first = next(spend for spend in rt.load(home).statement().spends if spend.task == "april")
    wrong += ["april was voided, and could be read"] if seen and first.voided is not None else []
    wrong += ["april has other noise than what could be read"] if _differ(seen | ever) else []
    times, counts = tasks_of(rt.load(home)).count("april"), "april" in counted_for_good(home)
    wrong += [] if times + counts == 1 else [f"april is there {times} times; counts without a release: {counts}"]
    learn(rt.load(home), "may")
    return wrong + _left_over(home)


def _of_april(home: Path) -> set[bytes]:
    """The content of all releases of april, and of all drafts, which are nobody else's here."""
    found = {file.name: file.read_bytes() for file in (home / store.RELEASES).iterdir()}
    return {content for name, content in found.items() if name[0] == "." or b'"task":"april"' in content}


def _differ(contents: set[bytes]) -> bool:
    """Whether two of them are not the same, or the beginning of the same."""
    longest = max(contents, key=len, default=b"")
    return not all(longest.startswith(content) for content in contents)


_BENCH = Spec(name="mine", title="Mine", runs=(a_run(tasks=2), a_run(tasks=2, seed=1)))


def _bench_data(folder: Path) -> Path:
    return folder.parent / "data"


def _with_results(folder: Path) -> None:
    write_features(_bench_data(folder))
    _bench(replace(_BENCH, runs=_BENCH.runs[:1]), folder)


def _bench(spec: Spec, folder: Path) -> None:
    def in_this_process(self: Processes, task: Any, parts: Any, *, lost: Any) -> Any:
        return map(task, parts)

    with _replaced(Processes, "map", in_this_process):
        runner.run([spec], data=_bench_data(folder), out=folder, engine=Processes(workers=1))


def _benched(_: Any, folder: Path, told: Told | None, drawn: int) -> Wrong:
    first, second = (run.digest for run in _BENCH.runs)
    found = Folder(folder).results()
    wrong = [] if first in found else ["lost a result"]
    if told is not None and told["done"] and second not in found:
        wrong.append("a run was told to be done, and is not there")
    done = [key for key, result in found.items() if result["status"] == "done"]  # one that failed is run again
    kept = {key: (folder / "runs" / f"{key}.json").read_bytes() for key in done}
    _bench(_BENCH, folder)
    later = Folder(folder).results()
    wrong += [f"{key} is not done" for key in (first, second) if later.get(key, {}).get("status") != "done"]
    wrong += [f"{key} was run again" for key in kept if (folder / "runs" / f"{key}.json").read_bytes() != kept[key]]
    wrong += [] if {first, second} <= set(Folder(folder).results()) else ["does not resume"]
    left = [file for file in folder.rglob("*") if file.name.startswith(".")]
    return wrong + [f"left over: {file.name}" for file in left]


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


_PEFT = rt.PeftEnsemble(task_size=40, epochs=1, rate=0.5, length=None)

INIT = Operation("init", lambda folder: None, lambda folder: None, _init, _made)
LEARN = Operation("learn (cosine)", _with_march, rt.load, lambda model, _: learn(model, "april"), _learned)
LEARN_HEAD = Operation(
    "learn (PEFT head)",
    functools.partial(_with_march, learner=_PEFT),
    rt.load,
    lambda model, _: learn(model, "april"),
    _learned,
)
VOID = Operation("void", _with_lost_row, lambda folder: None, _void_april, _voided)
ADD_LABELS = Operation("add labels", _with_march, rt.load, lambda model, _: model.extend_labels(["c"]), _extended)
SET = Operation("set", _with_march, rt.load, _set, _were_set)
REMEMBER = Operation("learn with memory", _with_vault, _own_vault, lambda model, _: learn(model, "april"), _remembered)
ROTATE = Operation("vault rotate", _with_waiting, _own_vault, _rotate, _rotated)
SAVE = Operation("save", lambda f: _with_march(f / "model"), lambda f: rt.load(f / "model"), _save, _saved)
EVALUATE = Operation("evaluate with epsilon", _with_march, rt.load, _evaluate, _evaluated)
TUNE = Operation("tune (its ledger)", _with_march, rt.load, _tune, _evaluated)
FOLLOWED = tuple(
    Operation(
        f"learn{' with memory' if memory else ''}, then {name}",
        functools.partial(_with_one_task, memory=memory),
        _own_vault if memory else lambda folder: rt.load(folder / "model"),
        lambda model, _: learn(model, "april"),
        functools.partial(_followed, second),
        kinds=("SIGKILL",),
    )
    for memory, seconds in ((False, SECOND), (True, SECOND_WITH_MEMORY))
    for name, second in seconds.items()
)
BENCH = Operation("bench", _with_results, lambda folder: None, lambda _, folder: _bench(_BENCH, folder), _benched)
READ = Operation("load and read", _with_march, lambda folder: None, _read, _was_read)
OPERATIONS = (
    READ,
    INIT,
    LEARN,
    LEARN_HEAD,
    REMEMBER,
    ROTATE,
    VOID,
    ADD_LABELS,
    SET,
    SAVE,
    EVALUATE,
    TUNE,
    BENCH,
    *FOLLOWED,
)


# --- trials


_NO_ROOM = (Kind.WRITE, Kind.SYNC, Kind.NAME)
_NO_ACCESS = (Kind.NAME, Kind.OPEN, Kind.LOOK, Kind.LOCK, Kind.MAP)


def faults_of(calls: Sequence[Call]) -> dict[str, list[Fault]]:
    """Returns all faults to try, by what they are.

    A kill where nothing is changed leaves what a kill at the next call leaves: such calls only fail.
    """
    found: dict[str, list[Fault]] = {}

    def add(name: str, **fault: Any) -> None:
        found.setdefault(name, []).append(Fault(**fault))

    for at, call in enumerate(calls):
        if call.kind.changes:
            for when in ("before", "inside", "after") if call.halves else ("before", "after"):
                add("SIGKILL", at=at, when=when)
        if call.kind in _NO_ROOM:
            for when in ("before", "inside") if call.halves else ("before",):
                add("ENOSPC", at=at, error=errno.ENOSPC, when=when)
                add("ENOSPC that stays", at=at, error=errno.ENOSPC, when=when, stays=True)
        if call.kind is not Kind.MAP:
            add("EIO", at=at, error=errno.EIO)
        if call.kind in (Kind.WRITE, Kind.SYNC):
            add("EIO that stays", at=at, error=errno.EIO, stays=True)
        if call.halves:
            add("EIO", at=at, error=errno.EIO, when="inside")
        if call.kind in _NO_ACCESS:
            add("EACCES", at=at, error=errno.EACCES)
    return found


class Bench:
    """A place for the trials of one operation."""

    def __init__(self, operation: Operation, place: Path) -> None:
        self.operation, self._place = operation, place
        self._template = place / "before"
        self._template.mkdir(parents=True)
        operation.prepare(self._template)

    def watch(self) -> tuple[Call, ...]:
        """Returns the file calls of the operation, which must go well without a fault."""
        with self._folder() as folder:
            ended = self._run(folder, None)
            if not ended.told["done"] or ended.told["wrong"]:
                raise AssertionError(ended.told)
            return ended.calls

    def wrong_after(self, fault: Fault) -> Wrong:
        """Tries one fault; returns the promises that were broken."""
        with self._folder() as folder:
            ended = self._run(folder, fault)
            if len(ended.calls) <= fault.at:
                return ["not reached"]
            if ended.killed != (fault.error is None):
                return [f"expected another end: {ended.told}"]
            drawn = self._drawn(folder)
            told = ended.told
            if told is None:
                return self._checked(lambda: self.operation.wrong(None, folder, None, drawn))
            if "broken" in told or told.get("raised"):
                return [told.get("broken") or told["raised"]]
            return list(told["wrong"])

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._place, ignore_cleanup_errors=True) as name:
            folder = Path(name, "folder")
            shutil.copytree(self._template, folder)
            if (self._place / "data").exists():
                os.symlink(self._place / "data", Path(name, "data"))
            yield folder

    def _run(self, folder: Path, fault: Fault | None) -> Ended:
        stays = fault is not None and fault.stays
        return watched(functools.partial(self._child, folder, stays), folder, fault)

    def _child(self, folder: Path, stays: bool) -> Callable[[], Callable[[], Any]]:
        signal.alarm(MOST)
        files.PATIENCE = PATIENCE
        live = self.operation.live(folder)
        draw = Permit._drawn

        def noted(*arguments: Any) -> Any:
            with open(folder.parent / "drawn", "ab", buffering=0) as file:
                file.write(b".")
            return draw(*arguments)

        Permit._drawn = noted  # type: ignore[method-assign, assignment]

        def act() -> Callable[[], Any]:
            told: Told = {"done": False, "stays": stays}
            try:
                self.operation.act(live, folder)
                told["done"] = True
            except errors.ReticentError as error:
                told["said"] = str(error)
            except BaseException as error:
                told["raised"] = f"{type(error).__name__}: {error}"
            Permit._drawn = draw  # type: ignore[method-assign]

            def rest() -> Told:
                if told.get("raised"):
                    return told
                drawn = self._drawn(folder)
                return {**told, "wrong": self._checked(lambda: self.operation.wrong(live, folder, told, drawn))}

            return rest

        return act

    @staticmethod
    def _checked(check: Callable[[], Wrong]) -> Wrong:
        try:
            return check()
        except (errors.ReticentError, OSError, LookupError, ValueError) as error:
            return [f"{type(error).__name__}: {error}"]

    @staticmethod
    def _drawn(folder: Path) -> int:
        file = folder.parent / "drawn"
        return file.stat().st_size if file.exists() else 0


# --- all of it


_MEMORY = Path("/dev/shm")  # noqa: S108 (a disk in memory, where there is one: thousands of trials sync files)
_benches: list[Bench] = []  # of this process and those that it forks


def place() -> str | None:
    """Returns where to make the folders of trials."""
    return str(_MEMORY) if os.access(_MEMORY, os.W_OK) else None


def _try(job: tuple[int, str, Fault]) -> tuple[int, str, list[str]]:
    number, kind, fault = job
    return (
        number,
        kind,
        [f"{_benches[number].operation.name}, {fault}: {w}" for w in _benches[number].wrong_after(fault)],
    )


def tried(operations: Sequence[Operation], *, workers: int = 2) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Tries every fault of some operations; returns how many of which kind there were, and what was wrong."""
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(dir=place()) as name:
        _benches[:] = [Bench(operation, Path(name, str(n))) for n, operation in enumerate(operations)]
        found = ((number, faults_of(bench.watch())) for number, bench in enumerate(_benches))
        jobs = [
            (number, kind, fault)
            for number, kinds in found
            for kind in operations[number].kinds
            for fault in kinds.get(kind, ())
        ]
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            for number, kind, broken in pool.imap_unordered(_try, jobs, chunksize=8):
                counts[operations[number].name, kind] += 1
                wrong += broken
    return counts, wrong


def measure(operations: Sequence[Operation] = OPERATIONS) -> tuple[Part, Part]:
    """Returns the table of faults, and the table of writers."""
    reason = unavailable()
    counts, wrong = (Counter[tuple[str, str]](), [reason]) if reason else tried(operations)
    for sentence in wrong:
        sys.stderr.write(f"{sentence}\n")
    rows = []
    for operation in operations:
        numbers = [counts[operation.name, kind] for kind in KINDS]
        broken = sum(sentence.startswith(f"{operation.name}, ") for sentence in wrong)
        rows.append((operation.name, *map(str, numbers), f"{sum(numbers) - broken} of {sum(numbers)}"))
    total = sum(counts.values())
    faults = Part(
        title="Kills and failing disks",
        says=(
            f"{total:,} trials. In each, one file call of an operation is hit: the process is killed before, inside "
            "(half of the bytes are written) or after it, or the call returns an error: no room, a broken disk, no "
            "access; once, or from then on. Afterwards the folder loads; no release or spend is lost; what was drawn "
            "is in the ledger; the message says truly what was spent; its advice works; the live object and the folder "
            "agree; the next writer leaves no file behind. In *learn, then ...* something else follows the kill; then "
            "the row is voided and the task learned again: what could be read is published byte for byte or never, and "
            "its spend is never voided. A kill where nothing is changed leaves what a kill at the next call leaves, so "
            "calls that only look are not killed."
        ),
        header=("operation", *KINDS, "survived"),
        rows=tuple(rows),
        passed=not wrong,
    )
    return faults, _writers()


def _writers() -> Part:
    rows, passed = [], True
    for workers, tasks in ((2, 50), (8, 15)):
        with tempfile.TemporaryDirectory(dir=place()) as name:
            lost = lost_by(Path(name, "model"), workers, tasks)
        passed &= not lost
        rows.append((f"{workers} processes x {tasks} tasks", str(workers * tasks), str(len(lost))))
    with tempfile.TemporaryDirectory(dir=place()) as name:
        kills, told, lost = killed_at_random(Path(name), seconds=20)
    passed &= not lost
    rows.append((f"2 processes, {kills} of them killed at random", str(told), str(len(lost))))
    return Part(
        title="Several writers",
        says="Processes learn into one folder at once. Every release and its spend must be there, once.",
        header=("writers", "releases", "lost or doubled"),
        rows=tuple(rows),
        passed=passed,
    )


if __name__ == "__main__":
    chosen = [operation for operation in OPERATIONS if not sys.argv[1:] or operation.name in sys.argv[1:]]
    for part in measure(chosen):
        sys.stdout.write(part.markdown())
