"""ContinualClassifier: a model directory with the interface of a scikit-learn estimator."""

import html
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from reticent import errors, estimator, program, schema
from reticent.budget import Budget
from reticent.labels import Label, LabelSpace
from reticent.memory import Memory
from reticent.numerics.containers import opened
from reticent.policies import Policy, PublicLabels, ReleasedLabels, refuse_numbers
from reticent.released.model import Encode, Model, Rule, judged
from reticent.released.naming import refuse_unusable
from reticent.released.release import Release
from reticent.released.sums import Sums

if TYPE_CHECKING:  # making or loading a model imports these, or learning does; a classifier by itself does not
    from reticent.directory import Directory
    from reticent.gate.noise import NoiseSource
    from reticent.privacy.statement import Statement
    from reticent.sensitive.engines import Engine
    from reticent.sensitive.learners.learner import Learner

_MAKING = threading.RLock()  # a field could not be cloned or stored


class ContinualClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns a stream of sensitive tasks and keeps its labels to itself.

    Guarantees (with the budget's assumptions):
      - Each task is spent in the ledger before anything is drawn; a task name is learned once.
                                                                          test_task_names_are_learned_once
      - `predict`, `classes_` and everything saved come from releases.    test_saved_model_has_no_trace_of_canaries
      - How its learner was tuned is in the statement.                    test_tuning_is_recorded_once
      - Loading and predicting import neither `gate` nor `sensitive`.     test_predicting_needs_no_gate
      - A copy of what has learned (pickle, joblib, deepcopy) predicts, and has no ledger to learn with.
                                                                          test_copies_only_predict

    Args:
        encoder: From inputs to features of shape (n, K); None where inputs are features already.
        labels: `ReleasedLabels()` (default) or `PublicLabels([...])`.
        learner: `Cosine()` by default.
        budget: What one person may lose over the whole stream; there is no default.
        path: A folder for the model, durable from the first spend; None keeps it in memory.
        noise: Where noise comes from; the operating system by default. A seeded source is NOT PRIVATE.
        memory: What it may keep between tasks in a vault outside of `path`; nothing by default. See `Memory`.
        engine: Where a task is worked on: `rt.engines.Local()` by default. It changes no bit of a release.
        refused: Nothing; a class weight is refused with the reason.

    Example:
        >>> model = ContinualClassifier(labels=PublicLabels(["a", "b"]), budget=Budget(epsilon=1.0, delta=1e-5))
        >>> x = np.repeat(np.eye(2), 300, axis=0)
        >>> model.learn_task(x, ["a"] * 300 + ["b"] * 300, name="march").predict(np.eye(2)).tolist()
        ['a', 'b']
    """

    _made_with: Memory | None = None  # the memory of its directory
    _family: str | None = None  # what it and its copies have in common

    def __init__(
        self,
        *,
        encoder: Encode | None = None,
        labels: Policy | None = None,
        learner: "Learner | None" = None,
        budget: Budget | None = None,
        path: str | os.PathLike[str] | None = None,
        noise: "NoiseSource | None" = None,
        memory: Memory | None = None,
        engine: "Engine | None" = None,
        **refused: Never,
    ) -> None:
        estimator.refuse_others(refused)
        self.encoder = encoder
        self.labels = labels
        self.learner, self.budget = learner, budget
        self.path = path
        self.noise = noise
        self.memory, self.engine = memory, engine

    # --- learning

    def learn_task(
        self,
        X: Any,
        y: Any = None,
        *,
        name: str | None = None,
        persons: Any = None,
        each_row_is_a_person: bool = False,
        labels: Iterable[Label] | None = None,
    ) -> "ContinualClassifier":
        """Learns one task and returns the classifier itself.

        Args:
            X: Features, or inputs for the encoder; or, without y and persons, what is read in batches after the spend:
                `rt.Batches(...)` of record batches, or `rt.open_source(path, rt.Columns(...))`.
            y: One label per example.
            name: A public name, such as a month; the first task of a model may do without: "task 1".
            persons: Whose example each one is; needed where a person contributes several.
            each_row_is_a_person: Instead: your word that no person has two examples. Where neither is given this is
                assumed, and everything that prints a loss says so.
            labels: Of this task alone: a public part of `PublicLabels`, chosen without its data; see its `of_task`.
        """
        directory, learner = self._to_learn(X), self._learner()
        policy = program.task_policy(self._policy(), labels, directory, private=y)
        name = program.name_of_first(directory) if name is None else name
        with errors.silenced():  # what a container says while it is read may be about one row
            said = {"name": name, "each_row_is_a_person": each_row_is_a_person, "engine": self.engine}
            task = estimator.task_of(X, y, persons, **said)
        program.warn_of_near_name(task.name, directory)
        if (tuning := getattr(learner, "tuning", None)) is not None:
            directory.record(tuning)
        with errors.silenced():
            program.learn([task], learner, policy, directory, encoder=self.encoder, noise=self.noise)
        program.warn_of_no_label(self._policy(), directory, task.name)
        estimator.warn_of_copies(self, directory)
        return self

    def partial_fit(self, X: Any, y: Any = None, **refused: Never) -> "ContinualClassifier":
        """Learns the first task, as `learn_task` without a name; a later one needs a name. `classes` is refused."""
        estimator.refuse_others(refused, y)
        return self.learn_task(X, y)

    def fit(self, X: Any, y: Any = None, **refused: Never) -> "ContinualClassifier":
        """Learns the first task of a new stream; refuses a classifier that has learned already."""
        from reticent.encoders import preprocessing

        estimator.refuse_others(refused, y)
        if self.releases:
            raise errors.InvalidValue("Expected a new classifier: fit learns one first task. Use learn_task, or clone.")
        preprocessing.refuse_fitted_steps(self)
        return self.learn_task(X, y)

    def extend_labels(self, labels: Iterable[Label]) -> "ContinualClassifier":
        """Adds public labels: free, recorded, and safe only if they do not come from the data."""
        self._to_learn().add_labels(labels)
        return self

    # --- predicting: releases only

    @property
    def releases(self) -> tuple[Release, ...]:
        """What was released so far, in order; all of it may be published."""
        return self._model().releases

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns, where the first task had some: public schema, stored with the model."""
        return schema.feature_names(self.directory)

    @property
    def n_features_in_(self) -> int:
        """How many features an example has, where inputs are features; known once a task was learned."""
        return schema.n_features(self.encoder, self._model())

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """All known labels; public, or released."""
        known = self._model().labels.labels
        return estimator.typed(np.fromiter(known, dtype=object, count=len(known)))

    def model_for(self, X: Any) -> Model:
        """Returns what was released, to score these inputs with; refuses other columns, and predicting too early."""
        model = self._model()
        schema.refuse_unlearned(model.releases)
        schema.refuse_other(schema.of(self.directory), X)
        return model

    def predict(self, X: Any, *, abstain: float | None = None) -> npt.NDArray[Any]:
        """Returns the best known label of each example; `rt.UNKNOWN` where none is known or it has no features.

        Args:
            X: Features, or inputs for the encoder.
            abstain: `rt.UNKNOWN` also where the best label's probability (`predict_proba`) is below this; 0 to 1.
        """
        best = self.predict_top_k(X, 1) if abstain is None else self.top_k_proba(X, 1, abstain=abstain)[0]
        return estimator.typed(best[:, 0])

    def predict_top_k(self, X: Any, k: int = 5) -> npt.NDArray[np.object_]:
        """Returns the k best labels of each example, best first, for label spaces of any size."""
        model = self.model_for(X)
        return model.names(model.top(opened(X), self.encoder, errors.whole("k", k, at_least=1))[0])

    def top_k_proba(
        self, X: Any, k: int = 5, *, abstain: float = 0.0
    ) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.float64]]:
        """Returns the k best labels of each example and their probabilities, for label spaces of any size.

        Args:
            X: Features, or inputs for the encoder.
            k: How many.
            abstain: All labels of an example are `rt.UNKNOWN` where the probability of the best is below this.
        """
        least = errors.real("abstain", abstain, above=0, below=np.nextafter(1, 2), at_least=True)
        model, k = self.model_for(X), errors.whole("k", k, at_least=1)
        found = model.best(opened(X), self.encoder, k, weighed=True).abstaining(least)
        return model.names(found.rows), found.chances

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Returns one probability per example and known label, in the order of `classes_`; NaN without features.

        How sure to be follows from releases alone; docs/sklearn.md says how, and how far it was off where measured.
        """
        return self.model_for(X).probabilities(opened(X), self.encoder)

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Returns the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)), dtype=np.float64)

    def decision_function(self, X: Any) -> npt.NDArray[np.float32]:
        """Returns one score per example and known label, in the order of `classes_`; NaN for what cannot be scored."""
        return self.model_for(X).scores(opened(X), self.encoder)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy on examples with a label; not private: publish it only for public test data."""
        from reticent.sensitive.columns import column_of

        pairs = zip(answers := self.predict(X), column_of("labels", y, answers), strict=True)
        found = [(label is not None, right) for label, right in judged(pairs, self._model().labels)]
        there, right = np.array(found, dtype=float).reshape(-1, 2).T
        if not there.any():
            raise errors.InvalidValue("Expected at least one example with a label to measure accuracy on.")
        return float(np.average(right, weights=there if sample_weight is None else np.where(there, sample_weight, 0)))

    def private_score(
        self,
        X: Any,
        y: Any = None,
        *,
        epsilon: float,
        name: str,
        persons: Any = None,
        each_row_is_a_person: bool = False,
    ) -> float:
        """Returns a noisy accuracy on private test data, paid for in the ledger.

        For persons who are in a learned task too it is another task of theirs: count it in `tasks_per_person`.

        Args:
            X: Inputs, or a source, as `learn_task` takes them.
            y: One label per example.
            epsilon: What to spend.
            name: The public name of the test data in the ledger.
            persons: Whose example each one is, to bound what one person contributes.
            each_row_is_a_person: Instead: your word that no person has two examples.
        """
        from reticent.sensitive.scoring import noisy_accuracy

        with errors.silenced():
            task = estimator.task_of(X, y, persons, name=name, each_row_is_a_person=each_row_is_a_person)
        schema.refuse_unlearned(self.releases)
        directory = self._to_learn(X)
        program.warn_of_near_name(task.name, directory)
        if task.numeric:
            refuse_numbers(self._policy(), directory.model.labels)
        with errors.silenced(), directory.writer(self.noise, remembers=False) as gate:
            found = noisy_accuracy(directory.model, task, epsilon=epsilon, encoder=self.encoder, gate=gate)
        estimator.warn_of_copies(self, directory)
        return found

    # --- what it cost, saving

    def spent(self) -> dict[str, Any]:
        """Returns what one person has lost so far, rounded up, under which assumptions, beside the budget."""
        return self.statement().spent()

    def statement(self) -> "Statement":
        """Returns what was spent, on what, under which assumptions, as facts."""
        return self.directory.statement()

    def privacy_statement(self) -> str:
        """Returns the statement as text."""
        text = self.statement().text()
        return text if self.path is not None else f"{text}\n\nKept in memory only: the ledger ends with this process."

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copies model and ledger to a new folder."""
        self.directory.save(path, settings=self._settings())

    # --- what scikit-learn asks

    def set_params(self, **params: Any) -> "ContinualClassifier":
        """Sets parameters; refuses what cannot change once the model has been made: budget, labels, path, memory."""
        estimator.refuse_changes(self.get_params(deep=False) if hasattr(self, "_directory") else {}, params)
        super().set_params(**params)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        more = {"noise": None} if "_directory" in state else {"_family": estimator.family(self)}
        return state | more  # a copy of what has learned only predicts

    def __sklearn_clone__(self) -> Any:
        return estimator.related(super().__sklearn_clone__(), self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.non_deterministic = True
        tags.input_tags.string = self.encoder is not None
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_directory") and bool(self.releases)

    def _repr_html_(self) -> str:
        states = hasattr(self, "_directory") and not self._directory.copied
        return f"<pre>{html.escape(self.privacy_statement() if states else repr(self))}</pre>"

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
        stored = self.directory.settings["learner"]
        return learners.from_json(stored) if stored else learners.Cosine()

    @property
    def directory(self) -> "Directory":
        """Releases and ledger: made when first needed, in `path` or in memory."""
        with _MAKING:
            if not hasattr(self, "_directory"):
                from reticent.directory import Directory

                refuse_unusable(self._policy(), self.encoder)
                schema.refuse_fitted(self.encoder)
                if self.memory is not None and not isinstance(self.memory, Memory):
                    raise errors.InvalidValue("Expected memory=Memory(vault=...), or None.")
                if self.learner is not None:
                    program.refuse_several(self.learner, self._budget())
                    if self.memory is not None:
                        program.refuse_without_memory(self.learner)
                self._made_with = self.memory
                self._directory = Directory.create(
                    self.path,
                    self._policy(),
                    self._rule(),
                    self._budget(),
                    learner=schema.learner_to_json(self.learner),
                    encoder=schema.encoder_to_json(self.encoder),
                    memory=self.memory,
                )
            return self._directory

    def _rule(self) -> Rule:
        return Sums() if self.learner is None else self.learner.rule

    def _model(self) -> Model:
        """What was released so far; before the first task that is nothing, and needs neither a folder nor a budget."""
        if hasattr(self, "_directory"):
            return self._directory.model
        policy = self._policy()
        return Model(policy.space if isinstance(policy, PublicLabels) else LabelSpace(()), self._rule())

    def _to_learn(self, X: Any = None) -> "Directory":
        """Returns the directory, with the settings that this classifier has now; refuses other columns than before."""
        directory = self.directory
        if directory.budget != self._budget():
            raise errors.InvalidValue("Expected the budget that the ledger was made with; it cannot change.")
        if directory.policy != self._policy():
            raise errors.InvalidValue("Expected the labels that the model was made with; use extend_labels, or clone.")
        if directory.given != (None if self.path is None else Path(self.path)):
            raise errors.InvalidValue("Expected the path that the model was made with; save(path) copies it.")
        if self._made_with != self.memory:
            raise errors.InvalidValue("Expected the memory that the model was made with; it cannot change.")
        settings = self._settings() | ({} if X is None else schema.of_task(directory, X))
        directory.set(settings, rule=None if self.learner is None else self.learner.rule)
        return directory

    def _settings(self) -> dict[str, Any]:
        """What may change between tasks: the learner and the encoder of the tasks that follow."""
        changed: dict[str, Any] = {"encoder": schema.encoder_to_json(self.encoder)}
        if (learner := self.learner) is not None:
            changed |= {"learner": schema.learner_to_json(learner), "rule": learner.rule.to_json()}
        return changed
