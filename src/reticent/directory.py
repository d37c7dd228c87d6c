"""A model directory: manifest, labels, releases, ledger and lock, as one object.

Everything that is written goes through one writer and has one commit point: a release is durable under its final name,
then one transaction of the ledger publishes its digest. The manifest is derived from the ledger. Reading and predicting
need neither the gate nor anything sensitive.
"""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent import errors, names, policies, stored_policies
from reticent.budget import Budget
from reticent.labels import Label, LabelSpace, public_space, spelled
from reticent.memory import Epoch, Memory
from reticent.numerics import files
from reticent.policies import Policy, PublicLabels
from reticent.privacy import events
from reticent.privacy.statement import Spend, Statement
from reticent.released import card, contents, derived, rules, store, wellformed
from reticent.released.account import Account
from reticent.released.contents import described, foreign, new_folder, read_contents, what_was_spent
from reticent.released.ledger_file import FILE_NAME, LedgerFile
from reticent.released.model import Model, Rule
from reticent.released.release import Release
from reticent.released.settings import MEMORY, epoch_of, to_store

if TYPE_CHECKING:  # learning imports these; predicting does not
    from reticent.gate.epochs import Kept
    from reticent.gate.gate import Gate
    from reticent.gate.ledger import Ledger
    from reticent.gate.noise import NoiseSource
    from reticent.gate.remembered import Entry
    from reticent.gate.vault import Vault


class Directory:
    """Releases and ledger of one model, in a folder or in memory.

    Guarantees:
      - One writer at a time: others wait, or are refused with a sentence.     test_two_processes_lose_nothing
      - Whatever fails while private rows are read ends in one sentence, the same for all of it, with nothing chained.
                                                          test_failures_that_depend_on_rows_are_one_sentence
      - A release counts once the ledger has published its digest, and never before; a manifest that lags behind is
        derived anew.                                                          test_the_ledger_decides_what_is_published
      - A ledger that is missing, older than the releases or of another model is refused for learning; predicting from
        the releases stays possible.                                           test_without_its_ledger_a_model_predicts
      - A copy in memory predicts and has no ledger: two would spend one budget twice.   test_copies_only_predict

    Args:
        path: The folder; None keeps everything in memory.
        policy: Where labels come from; a function that maps labels is not stored.
        model: What was released so far.
        settings: Budget, policy, public labels, rule, learner, encoder.
        identity: Of the ledger.
    """

    def __init__(
        self, path: Path | None, policy: Policy, model: Model, settings: Mapping[str, Any], *, identity: str
    ) -> None:
        self.given, self.path = path, None if path is None else path.absolute()  # wherever the process goes later
        self.policy, self.model, self.settings = policy, model, dict(settings)
        self.vault: Path | None = None  # where the user says that it is
        self.copied = False  # by copy.deepcopy or pickle: without a ledger
        self._identity = identity
        self._releases: list[dict[str, str]] = []  # file and digest of each; none in memory
        self._known: Account | None = None  # what was verified of the ledger before; none in memory
        self._ledger: Ledger | None = None  # in memory for good, of a folder while its writer is open
        self._gate: Gate | None = None  # while a writer is open
        self._vault: Vault | None = None  # that needs it
        self._mutex, self._thread, self._process = threading.Lock(), 0, os.getpid()  # who writes

    def __repr__(self) -> str:
        return f"Directory({'in memory' if self.path is None else str(self.path)!r})"

    def __getstate__(self) -> dict[str, Any]:
        mine = {"_releases": list(self._releases), "copied": True}
        return vars(self) | dict.fromkeys(("_known", "_ledger", "_gate", "_vault", "_mutex")) | mine

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._mutex, self._thread, self._process = threading.Lock(), 0, os.getpid()

    # --- making and opening

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | None,
        policy: Policy,
        rule: Rule,
        budget: Budget,
        *,
        learner: Mapping[str, Any] | None = None,
        encoder: Mapping[str, Any] | None = None,
        ledger: "type[Ledger] | None" = None,
        memory: Memory | None = None,
    ) -> "Directory":
        """Makes a new model directory; refuses a folder that holds a model or a ledger.

        Args:
            path: The folder; None keeps everything in memory.
            policy: Where labels come from.
            rule: How releases become a classifier.
            budget: What one person may lose over the whole stream; it never changes.
            learner: The learner as JSON, where it can be stored.
            encoder: Name and digest of the encoder.
            ledger: The kind of ledger; experiments without privacy have one of their own, in memory.
            memory: What it may keep between tasks, in a vault elsewhere.
        """
        from reticent.gate import epochs
        from reticent.gate.ledger import Ledger

        public = policy.space if isinstance(policy, PublicLabels) else LabelSpace(())
        if ledger is None:  # that of an experiment accepts any
            policies.refuse_private(public)
            budget.warn()
        epoch = None if memory is None else epochs.first(memory, path, policy, budget)
        settings = described(policy, rule, budget, learner=learner, encoder=encoder, epoch=epoch)
        if path is None:
            made = (ledger or Ledger).create(None, budget, settings=settings)
            directory = cls(None, policy, Model(public, rule), settings, identity=made.identity)
            directory._ledger = made
            if public.event != events.Public():
                made.spend(public.event, task="public labels", private=False)
            return directory
        with new_folder(Path(path)) as folder:
            settings["public_labels"] = store.write_labels(folder, public, stored_policies.public_json(policy))
            with Ledger.create(folder, budget, settings=settings) as made:
                directory = cls(folder, policy, Model(public, rule), settings, identity=made.identity)
            if memory is not None and epoch is not None:
                directory.vault = epochs.make_vault(Path(memory.vault), epoch, folder, made.identity)
            directory._write_manifest()
        return directory

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, rule: Rule | None = None) -> "Directory":
        """Opens a model directory to predict or to continue learning.

        Args:
            path: The folder.
            rule: How releases become a classifier, where that is the user's own code; by default as stored.
        """
        folder = Path(path)
        found = read_contents(folder)
        with store.readable(folder / store.MANIFEST):
            labels = store.read_labels(folder, found.settings["public_labels"])
            policy = stored_policies.from_json(found.settings["policy"], *labels)
            rule = rules.from_json(found.settings["rule"]) if rule is None else rule
        public = policy.space if isinstance(policy, PublicLabels) else LabelSpace(())
        model = Model(public, rule, tuple(store.read_release(folder, one, found.identity) for one in found.releases))
        wellformed.refuse_malformed(model, found.settings["rule"]["kind"])
        directory = cls(folder, policy, model, found.settings, identity=found.identity)
        directory._releases, directory._known = found.releases, found.account
        return directory

    @property
    def budget(self) -> Budget:
        """What one person may lose over the whole stream."""
        return Budget.from_json(self.settings["budget"])

    @property
    def epoch(self) -> Epoch | None:
        """The epoch of its memory; None where a model has none."""
        return epoch_of(self.settings)

    def statement(self) -> Statement:
        """Returns what was spent, on what, under which assumptions, as facts."""
        with self._read_ledger() as ledger:
            return ledger.statement()

    def spends_like(self, task: str) -> list[Spend]:
        """Returns the spends, without voided ones, of a task and of those whose names are easily taken for its name."""
        with self._read_ledger() as ledger:
            return ledger.spends_like(task)

    def _read_ledger(self) -> contextlib.AbstractContextManager[LedgerFile]:
        self._forget_parent()
        if (ledger := self._ledger) is not None and (self.path is None or self._thread == threading.get_ident()):
            return contextlib.nullcontext(ledger)
        return contents.open_ledger(LedgerFile, self.path or Path(), self._known, self._identity)

    # --- writing

    @contextlib.contextmanager
    def writer(self, noise: "NoiseSource | None" = None, *, remembers: bool = True) -> Iterator["Gate"]:
        """Gives the gate to one writer; others wait for a minute, then are refused.

        What fails while private rows are read becomes `errors.LearningFailed`, whatever it was.

        Args:
            noise: Where noise comes from; the operating system by default. A seeded source is NOT PRIVATE.
            remembers: Whether a model with memory opens its vault, as it must to learn a task.
        """
        from reticent.gate.gate import Gate

        with self._one_writer() as ledger, self._open_vault(ledger, remembers) as kept:
            if kept is not None:
                kept.refuse_if_full()
            private = self.model.public.event == events.Public() and (kept is None or kept.private)
            gate = self._gate = Gate(ledger, noise, private=private, memory=kept)
            try:
                with errors.without_cause(gate.hides):
                    yield gate
            finally:
                gate.close()
                self._gate = None

    def publish(self, release: Release) -> Model:
        """Publishes the release that a permit of the open writer made, closes its gate, and returns the new model."""
        if (gate := self._gate) is None or self._ledger is None or self._thread != threading.get_ident():
            raise errors.LedgerError("Expected an open writer: with directory.writer() as gate.")
        rows, kept = gate.rows(release), gate.entry_of(release)
        gate.close()
        return self._commit(self._ledger, release, rows, kept=kept)

    def refuse_second_time(self, task: str) -> None:
        """Refuses a task name that is in the ledger already, and says what to do."""
        contents.refuse_second_time(self.spends_like(task), task)

    def refuse_other_rule(self, rule: Rule) -> None:
        """Refuses a rule that cannot read what was released."""
        wellformed.refuse_other_rule(self.model, self.settings["rule"], rule.to_json())

    def add_labels(self, labels: Iterable[Label]) -> Model:
        """Adds public labels: free, recorded, and safe only if they do not come from the data."""
        given = public_space(labels).labels
        with self._one_writer() as ledger, self._open_vault(ledger):
            known = self.model.labels
            new = LabelSpace(tuple(label for label in given if spelled(label, known) not in known))
            release = Release(task="public labels", labels=new, parameters={}, event=new.event, private=True)
            return self._commit(ledger, release, [], act=f"{len(new)} public label(s) added")

    def record(self, act: str) -> None:
        """Records a public act that costs nothing, once."""
        with self._one_writer() as ledger:
            if all(known.text != names.normal(act) for known in ledger.statement().acts):
                ledger.record(act)

    def set(self, settings: Mapping[str, Any], *, rule: Rule | None = None) -> None:
        """Records other settings, such as the learner of the tasks that follow; the budget and labels stay.

        Args:
            settings: Those that may differ from what was recorded last.
            rule: How releases become a classifier from now on.
        """
        with self._one_writer() as ledger:
            rule = self.model.rule if rule is None else rule
            self.refuse_other_rule(rule)
            wanted = to_store({**self.settings, **settings, "rule": rule.to_json()})
            wellformed.refuse_other_encoder(self.model, self.settings["encoder"], wanted["encoder"])
            if wanted != self.settings:
                ledger.set(wanted)
                self.settings = wanted
            if rule != self.model.rule:
                self.model = replace(self.model, rule=rule)

    def save(self, path: str | os.PathLike[str], *, settings: Mapping[str, Any] | None = None) -> None:
        """Copies model and ledger to a new folder; what is spent there later is not known here.

        Args:
            path: The new folder.
            settings: Settings that differ there.
        """
        with self._one_writer() as ledger, new_folder(Path(path), copy=True) as folder:
            wanted = to_store({**self.settings, **(settings or {})})
            if (epoch := self.epoch) is not None:  # the vault stays here: two copies would publish the same sums twice
                wanted[MEMORY] = replace(epoch, vault=None, place=None).to_json()
            labels = self.model.public, stored_policies.public_json(self.policy)
            wanted["public_labels"] = store.write_labels(folder, *labels)
            releases, whose = enumerate(self.model.releases, start=1), self._identity
            entries = [store.write_release(folder, n, release, whose) for n, release in releases]
            ledger.copy_to(folder, settings=wanted, releases=entries)
            store.write_manifest(folder, {"identity": self._identity, **wanted, "releases": entries})
            card.write(folder, self.model, wanted, ledger.account)

    # --- inside

    @contextlib.contextmanager
    def _one_writer(self) -> Iterator["Ledger"]:
        """Opens the ledger for one thread of one process, with all that others have published loaded."""
        self._forget_parent()
        if self._thread == threading.get_ident():
            raise errors.LedgerError("A writer of this model is open in this thread already. Finish it first.")
        if not (mutex := self._mutex).acquire(timeout=files.PATIENCE):  # a forked child has another one
            raise errors.LedgerError("Another thread is learning into this model. Try again when it is done.")
        try:
            self._thread = threading.get_ident()
            if self.path is None:
                assert self._ledger is not None  # noqa: S101 (since it was made)
                yield self._ledger
                return
            with self._one_process(self.path) as ledger:
                self._ledger, before = ledger, ledger.account.rows
                if self.epoch is None:  # else the vault decides: who does not open it touches nothing
                    self._settle_leftovers(ledger)
                yield ledger
                if ledger.account.rows > before:
                    self._write_manifest()
        finally:
            if self.path is not None and self._ledger is not None:
                self._known, self._ledger = self._ledger.account, None
            self._thread, self._vault = 0, None
            mutex.release()

    def _forget_parent(self) -> None:
        """In a forked child: a writer that was open is its parent's. A copy has no ledger, and is refused."""
        if self.copied:
            raise errors.LedgerError(contents.A_COPY)
        if self._process != os.getpid() and self.path is not None:
            if self._ledger is not None:
                self._ledger.close()
            self._ledger, self._gate, self._vault = None, None, None
            self._mutex, self._thread, self._process = threading.Lock(), 0, os.getpid()

    @contextlib.contextmanager
    def _one_process(self, folder: Path) -> Iterator["Ledger"]:
        """Opens the ledger under the folder's lock; where a file fails, says what was spent."""
        from reticent.gate.ledger import Ledger

        self._began: tuple[int, int] | None = None  # rows and releases before what this writer does itself
        with files.one_writer(folder):
            try:
                with contents.open_ledger(Ledger, folder, self._known, self._identity) as ledger:
                    self._catch_up(ledger)
                    self._began = ledger.account.rows, len(self._releases)
                    yield ledger
            except (errors.StorageError, errors.VaultError) as error:
                raise type(error)(f"{error} {what_was_spent(folder, self._began)}") from error

    @contextlib.contextmanager
    def _open_vault(self, ledger: "Ledger", remembers: bool = True) -> Iterator["Kept | None"]:
        """Opens the vault of a model with memory, and publishes what a killed process had committed to it."""
        epoch, folder = self.epoch, self.path
        if epoch is None or folder is None or not remembers:
            yield None
            return
        from reticent.gate import epochs

        with epochs.opened(epoch, folder, ledger, self.vault) as self._vault:
            self.settings = dict(ledger.settings or self.settings)  # where the vault is may be new
            self._settle_leftovers(ledger)
            yield epochs.kept(self._vault, epoch, ledger)

    def _catch_up(self, ledger: "Ledger") -> None:
        """Takes over what others have published and set; refuses what does not continue what was read before.

        From the ledger that is open for writing: it may see a last commit of a killed process that a reader did not.
        """
        folder, published, settings = self.path or Path(), ledger.releases, dict(ledger.settings or self.settings)
        if ledger.identity != self._identity or published[: len(self._releases)] != self._releases:
            raise errors.LedgerError(foreign(self.path))
        if settings["rule"] != self.settings["rule"]:
            with store.readable(folder / FILE_NAME):
                self.model = replace(self.model, rule=rules.from_json(settings["rule"]))
        self.settings = settings
        for entry in published[len(self._releases) :]:
            model = self.model.with_release(store.read_release(folder, entry, self._identity))
            wellformed.refuse_malformed(model, settings["rule"]["kind"], since=len(self.model.releases))
            self.model = model
            self._releases.append(entry)
        self._releases = published  # the same, and as objects: compared in no time

    def _settle_leftovers(self, ledger: "Ledger") -> None:
        from reticent.gate import leftovers

        leftovers.settle(self.path or Path(), ledger, self._vault, self._releases, partial(self._commit, ledger))
        self._began = ledger.account.rows, len(self._releases)

    def _commit(
        self,
        ledger: "Ledger",
        release: Release,
        rows: list[int],
        *,
        act: str | None = None,
        kept: "Entry | bytes | None" = None,
    ) -> Model:
        """Publishes a release. With memory: what the vault must keep before, or the bytes that it has already."""
        model, folder, identity = self.model.with_release(release), self.path, self._identity
        checked, kind = len(self.model.releases), self.settings["rule"].get("kind")
        wellformed.refuse_malformed(model, kind, since=checked, advice="It was not published: correct the learner.")
        if kept is not None and not isinstance(kept, bytes) and self._vault is not None:
            kept = self._vault.commit(kept, ledger.head_at(kept.row), rows, store.packed(release, identity))
        content = kept if isinstance(kept, bytes) else release
        write = partial(store.write_release, folder or Path(), release=content, identity=identity)
        entry = ledger.publish(rows, write=None if folder is None else write, act=act)
        self.model = model
        if entry is not None:
            self._releases.append(entry)
        return model

    def _write_manifest(self) -> None:
        about = self.path or Path(), self._identity, self.settings, self._releases
        derived.write(*about, model=self.model, account=self._known if self._ledger is None else self._ledger.account)
