"""ContinualClassifier: the scikit-learn-like object that owns ledger and releases."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from reticent import errors, policies
from reticent.budget import Budget
from reticent.labels import Label, LabelSpace, canonical
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.privacy.statement import Statement
from reticent.released import store
from reticent.released.ensemble import Ensemble
from reticent.released.model import Encode, Model, Rule
from reticent.released.release import Release
from reticent.released.sums import Sums

if TYPE_CHECKING:  # learning imports these; predicting does not
    from reticent.gate.ledger import Ledger
    from reticent.gate.noise import NoiseSource
    from reticent.sensitive.learners.learner import Learner

_RULES: dict[str, Callable[[dict[str, Any]], Rule]] = {"sums": Sums.from_json, "ensemble": Ensemble.from_json}


class ContinualClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns a stream of sensitive tasks and keeps its labels to itself.

    Guarantees (with the budget's assumptions):
      - Each task is spent in the ledger before anything is drawn; a task name is learned once.
                                                                          test_task_names_are_learned_once
      - `predict`, `classes_` and everything saved come from releases.    test_saved_model_has_no_trace_of_canaries
      - How its learner was tuned is in the statement.                    test_tuning_is_recorded_once
      - Loading and predicting import neither `gate` nor `sensitive`.     test_predicting_needs_no_gate

    Args:
        encoder: From inputs to features of shape (n, K); None where inputs are features already.
        labels: `ReleasedLabels()` (default) or `PublicLabels([...])`.
        learner: `Cosine()` by default.
        budget: What one person may lose over the whole stream; there is no default.
        path: A folder for the model, durable from the first spend; None keeps it in memory.
        noise: Where noise comes from; the operating system by default. A seeded source is NOT PRIVATE.

    Example:
        >>> model = ContinualClassifier(labels=PublicLabels(["a", "b"]), budget=Budget(epsilon=1.0, delta=1e-5))
        >>> x = np.repeat(np.eye(2), 300, axis=0)
        >>> model.learn_task(x, ["a"] * 300 + ["b"] * 300, name="march").predict(np.eye(2)).tolist()
        ['a', 'b']
    """

    _stored_learner: dict[str, Any] | None = None  # what the manifest of a loaded model says

    def __init__(
        self,
        *,
        encoder: Encode | None = None,
        labels: Policy | None = None,
        learner: "Learner | None" = None,
        budget: Budget | None = None,
        path: str | os.PathLike[str] | None = None,
        noise: "NoiseSource | None" = None,
    ) -> None:
        self.encoder = encoder
        self.labels = labels
        self.learner = learner
        self.budget = budget
        self.path = path
        self.noise = noise

    # --- learning

    def learn_task(self, X: Any, y: Any, *, name: str | None = None, units: Any = None) -> "ContinualClassifier":
        """Learns one task and returns the classifier itself.

        Args:
            X: Features, or inputs for the encoder.
            y: One label per example.
            name: A public name, such as a month; "task N" by default.
            units: Whose example each one is; needed where a person contributes several.
        """
        from reticent.gate.noise import NoiseSource
        from reticent.sensitive.task import Task

        model, ledger = self._model(), self._open_ledger()
        learned = [release.task for release in model.releases if release.parameters]
        task_name = f"task {len(learned) + 1}" if name is None else name
        spends = [spend for spend in ledger.statement().spends if spend.task == task_name and spend.voided is None]
        if spends:
            raise errors.BudgetExceeded(
                f"Task {task_name!r} is in the ledger already (row {spends[0].row}). If these are other people's data, "
                f"give them another name; if its release never left, void the row: "
                f"reticent ledger DIR --void {spends[0].row} --reason TEXT."
            )
        learner = self._learner()
        tuning = getattr(learner, "tuning", None)
        if tuning is not None and all(act.text != tuning for act in ledger.statement().acts):
            ledger.record(tuning)
        with errors.silenced():
            release = learner.learn_task(
                Task(X, y, units, name=task_name),
                self._policy(),
                known=model.labels,
                encoder=self.encoder,
                budget=self._budget(),
                ledger=ledger,
                rng=self.noise or NoiseSource.from_os(),
                past=model.releases,
            )
        _publish(ledger, task_name)
        self._add(release)
        return self

    def partial_fit(self, X: Any, y: Any, classes: object = None) -> "ContinualClassifier":
        """Learns one task; `classes` is refused, because the policy says which labels there are."""
        if classes is not None:
            raise errors.InvalidValue("Expected no classes: the label policy says which labels there are.")
        return self.learn_task(X, y)

    def fit(self, X: Any, y: Any) -> "ContinualClassifier":
        """Learns the first task of a new stream; a classifier that has learned already is not forgotten in silence."""
        if self._model().releases:
            raise errors.InvalidValue("Expected a new classifier: fit learns one first task. Use learn_task, or clone.")
        return self.learn_task(X, y)

    def extend_labels(self, labels: Iterable[Label]) -> "ContinualClassifier":
        """Adds public labels: free, recorded, and safe only if they do not come from the data."""
        new = LabelSpace(tuple(labels))
        known = self._model().labels
        added = LabelSpace(tuple(label for label in new.labels if label not in known))
        ledger = self._open_ledger()
        ledger.record(f"{len(added)} public label(s) added")
        self._add(Release(task="public labels", labels=added, parameters={}, event=added.event, private=True))
        return self

    # --- predicting: releases only

    @property
    def releases(self) -> tuple[Release, ...]:
        """What was released so far, in order; all of it may be published."""
        return self._model().releases

    @property
    def classes_(self) -> npt.NDArray[np.object_]:
        """All known labels; public, or released."""
        known = self._model().labels.labels
        return np.fromiter(known, dtype=object, count=len(known))

    def predict(self, X: Any) -> npt.NDArray[np.object_]:
        """Returns the best known label of each example; `rt.UNKNOWN` while no label is known."""
        model = self._model()
        return model.names(model.top(X, self.encoder, 1)[0][:, 0])

    def predict_top_k(self, X: Any, k: int = 5) -> npt.NDArray[np.object_]:
        """Returns the k best labels of each example, best first, for label spaces of any size."""
        model = self._model()
        return model.names(model.top(X, self.encoder, errors.whole("k", k, at_least=1))[0])

    def decision_function(self, X: Any) -> npt.NDArray[np.float32]:
        """Returns one score per example and known label, in the order of `classes_`."""
        return self._model().scores(X, self.encoder)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy. On private data this number is not private: publish it only for public test data."""
        right = np.array([canonical(a) == canonical(b) for a, b in zip(self.predict(X), y, strict=True)], dtype=float)
        return float(np.average(right, weights=sample_weight))

    def private_score(self, X: Any, y: Any, *, epsilon: float, name: str, units: Any = None) -> float:
        """Returns a noisy accuracy on private test data, paid for in the ledger.

        Args:
            X: Inputs, as `learn_task` takes them.
            y: One label per example.
            epsilon: What to spend.
            name: The public name of the test data in the ledger.
            units: Whose example each one is, to bound what one person contributes.
        """
        from reticent.gate.noise import NoiseSource
        from reticent.sensitive.scoring import noisy_accuracy
        from reticent.sensitive.task import Task

        with errors.silenced():
            return noisy_accuracy(
                self._model(),
                Task(X, y, units, name=name),
                epsilon=epsilon,
                encoder=self.encoder,
                budget=self._budget(),
                ledger=self._open_ledger(),
                rng=self.noise or NoiseSource.from_os(),
            )

    # --- saying what it cost, saving

    def spent(self) -> dict[str, Any]:
        """Returns what one person has lost so far, beside the budget, as plain JSON values."""
        statement, budget = self.statement(), self._budget()
        return {
            "epsilon": statement.now.epsilon,
            "budget": budget.epsilon,
            "delta": budget.delta,
            "private": statement.private,
        }

    def statement(self) -> Statement:
        """Returns what was spent, on what, under which assumptions, as facts."""
        return self._open_ledger().statement()

    def privacy_statement(self) -> str:
        """Returns the statement for people."""
        text = self.statement().text()
        return text if self.path is not None else f"{text}\n\nKept in memory only: the ledger ends with this process."

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copies model and ledger to a new folder."""
        copy = ContinualClassifier(**self.get_params(deep=False)).set_params(path=path)
        folder = Path(path)
        self._open_ledger().copy_to(folder)
        copy._state, copy._stored_learner = self._model(), self._stored_learner
        copy._write_all(folder)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state") and bool(self._state.releases)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.privacy_statement())}</pre>"

    # --- inside

    def _budget(self) -> Budget:
        if not isinstance(self.budget, Budget):
            raise errors.InvalidValue("Expected a budget: Budget(epsilon=..., delta=...) for the whole stream.")
        return self.budget

    def _policy(self) -> Policy:
        policy = ReleasedLabels() if self.labels is None else self.labels
        if not isinstance(policy, PublicLabels | ReleasedLabels):
            raise errors.InvalidValue("Expected a label space. Pass PublicLabels([...]) or ReleasedLabels().")
        return policy

    def _learner(self) -> "Learner":
        from reticent.sensitive import learners

        if self.learner is not None:
            return self.learner
        return learners.from_json(self._stored_learner) if self._stored_learner else learners.Cosine()

    def _model(self) -> Model:
        if not hasattr(self, "_state"):
            if self.path is not None and (Path(self.path) / store.MANIFEST).exists():
                raise errors.InvalidValue(
                    f"{self.path} holds a model already. Go on with it by load(path), or choose another path."
                )
            policy = self._policy()
            public = policy.space if isinstance(policy, PublicLabels) else LabelSpace(())
            self._state = Model(public, Sums() if self.learner is None else self.learner.rule)
        return self._state

    def _open_ledger(self) -> "Ledger":
        from reticent.gate.ledger import FILE_NAME, Ledger

        if not hasattr(self, "_ledger"):
            if self.path is not None and (Path(self.path) / FILE_NAME).exists():
                self._ledger = Ledger.open(self.path)
                if self._ledger.budget != self._budget():
                    raise errors.InvalidValue("Expected the budget that the ledger was made with; it cannot change.")
                if not (Path(self.path) / store.MANIFEST).exists():  # killed between the two
                    self._write_all(Path(self.path))
            else:
                self._ledger = Ledger.create(self.path, self._budget())
                if self.path is not None:
                    self._write_all(Path(self.path))
        return self._ledger

    def _add(self, release: Release) -> None:
        self._state = self._model().with_release(release)
        if self.path is not None:
            folder = Path(self.path)
            entry = store.write_release(folder, len(self._state.releases), release)
            self._entries = [*getattr(self, "_entries", []), entry]
            if not hasattr(self, "_names"):  # written once: there may be millions
                self._names = store.write_labels(folder, self._state.public, policies.remap_to_json(self._policy()))
            store.write_manifest(folder, self._settings())

    def _write_all(self, folder: Path) -> None:
        self._names = store.write_labels(folder, self._model().public, policies.remap_to_json(self._policy()))
        numbered = enumerate(self._model().releases, start=1)
        self._entries = [store.write_release(folder, number, release) for number, release in numbered]
        store.write_manifest(folder, self._settings())

    def _settings(self) -> dict[str, Any]:
        encoder = self.encoder
        learner = self._stored_learner if self.learner is None else getattr(self.learner, "to_json", lambda: None)()
        return {
            "budget": self._budget().to_json(),
            "policy": policies.to_json(self._policy()),
            "public_labels": self._names,
            "rule": self._model().rule.to_json(),
            "learner": learner,
            "encoder": None if encoder is None else _encoder_to_json(encoder),
            "releases": self._entries,
        }


def _publish(ledger: "Ledger", task: str) -> None:
    """Records that what was spent on a task is about to leave; others may have spent on other tasks meanwhile."""
    spends = [spend for spend in ledger.statement().spends if spend.task == task and spend.voided is None]
    if not spends:
        raise errors.LedgerError(f"Nothing was spent on task {task!r}, or it was voided: its release must not leave.")
    for spend in spends:
        ledger.publish(spend.row)


def _encoder_to_json(encoder: Encode) -> dict[str, Any]:
    name = getattr(encoder, "name", getattr(encoder, "__name__", type(encoder).__name__))
    return {"name": name, "digest": getattr(encoder, "digest", None)}


def _stored_encoder(stored: dict[str, Any]) -> Encode:
    """Returns an encoder whose weights come with a package; any other is passed again."""
    from reticent import encoders

    shipped: dict[str, Any] = {"minilm": encoders.minilm, "efficientnet_lite0": encoders.efficientnet_lite0}
    if stored["name"] not in shipped:
        raise errors.InvalidValue(f"Expected the encoder {stored['name']!r}: load(path, encoder=...).")
    encoder: Encode = shipped[stored["name"]]()
    return encoder


def _stored_rule(stored: dict[str, Any]) -> Rule:
    if stored.get("kind") not in _RULES:
        raise errors.InvalidValue("Expected the learner that this model was made with: load(path, learner=...).")
    return _RULES[stored["kind"]](stored)


def load(
    path: str | os.PathLike[str], *, encoder: Encode | None = None, learner: "Learner | None" = None
) -> ContinualClassifier:
    """Loads a model directory to predict or to go on learning. What was the user's own code is passed again.

    A release that a crash kept out of the manifest is not loaded; its spend stays in the ledger.

    Example:
        >>> load("no such folder")
        Traceback (most recent call last):
        reticent.errors.InvalidValue: No model at no such folder. Expected a folder with a manifest.json in it.
    """
    folder = Path(path)
    settings = store.read_manifest(folder)
    if settings["encoder"] is not None:
        encoder = _stored_encoder(settings["encoder"]) if encoder is None else encoder
        if settings["encoder"]["digest"] not in (None, getattr(encoder, "digest", None)):
            raise errors.InvalidValue(f"Expected the encoder {settings['encoder']['name']!r} with the weights it had.")
    policy = policies.from_json(settings["policy"], *store.read_labels(folder, settings["public_labels"]))
    model = ContinualClassifier(
        encoder=encoder,
        labels=policy,
        learner=learner,
        budget=Budget.from_json(settings["budget"]),
        path=path,
    )
    rule = _stored_rule(settings["rule"]) if learner is None else learner.rule
    releases = tuple(store.read_release(folder, entry) for entry in settings["releases"])
    model._state = Model(policy.space if isinstance(policy, PublicLabels) else LabelSpace(()), rule, releases)
    model._stored_learner = settings["learner"]
    model._entries, model._names = settings["releases"], settings["public_labels"]
    return model
