"""Label policies: where the labels of a classifier come from. Frozen descriptions without state."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors, label_names
from reticent.budget import Budget
from reticent.label_names import Names
from reticent.labels import (
    Label,
    LabelSpace,
    by_label,
    is_number_or_its_text,
    number_of,
    plain,
    public_space,
    spelled,
)
from reticent.numerics import text_files
from reticent.privacy import events
from reticent.taxonomy import Taxonomy

Remap = Taxonomy | Mapping[Label, Label | None] | Callable[[Label], Label | None]


@dataclass(frozen=True)
class PublicLabels:
    """The labels are known to everybody; what the data adds is remapped by a public rule, or dropped.

    Args:
        labels: The label space, in public order. A `LabelSpace` says how they became known. A number and its text are
            one label, so these may be texts where a column holds numbers.
        remap: Where a label outside the space goes: a `Taxonomy`, a dict, or a function of the label alone. It must be
            fixed in public, not fitted to the data. What it cannot place is dropped. A function is asked for a number
            as its text, then as a number; the other way round where some of these labels are numbers.
        names: What labels mean, from label to text; an encoder of texts makes a prior of it. A label without one has
            its title in the `Taxonomy` of remap, or what it says by itself ("card_arrival" does, "E11.9" does not).
        name_features: Instead: one row of features for each label, in their order, such as those of a text tower where
            inputs are images or features. A row of zeros is no name.

    Example:
        >>> PublicLabels(["E10", "E11"], remap={"E10.2": "E10"}).resolve("E10.2", {"E10", "E11"})
        'E10'
        >>> PublicLabels(["E10", "lost_card"], names={"E10": "Type 1 diabetes"}).name("lost_card")
        'lost card'
    """

    labels: tuple[Label, ...]
    remap: Remap | None = field(default=None, hash=False)
    names: Names | None = field(default=None, hash=False)
    name_features: npt.NDArray[np.float32] | None = field(default=None, repr=False, compare=False)
    space: LabelSpace = field(init=False, repr=False, compare=False)
    part: LabelSpace | None = field(default=None, init=False, repr=False)  # labels of one task, where it has its own
    _features: str | None = field(init=False, repr=False)  # their digest, to compare

    def __init__(
        self,
        labels: Iterable[Label] | LabelSpace,
        remap: Remap | None = None,
        names: Names | None = None,
        name_features: npt.ArrayLike | None = None,
    ) -> None:
        space = public_space(labels)
        object.__setattr__(self, "space", space)  # checked and indexed once, however large
        object.__setattr__(self, "labels", space.labels)
        if remap is not None and not isinstance(remap, Taxonomy | Mapping) and not callable(remap):
            raise errors.InvalidValue("Expected remap to be a Taxonomy, a dict or a function.")
        if isinstance(remap, Mapping):
            remap = {label: plain(target) for label, target in by_label(remap).items()}
        object.__setattr__(self, "remap", remap)
        if names is not None and name_features is not None:
            raise errors.InvalidValue("Expected names or name_features, not both: which of them is the label's name?")
        features = None if name_features is None else label_names.checked_features(name_features, len(space))
        object.__setattr__(self, "names", None if names is None else label_names.checked(names, space))
        object.__setattr__(self, "name_features", features)
        digest = None if features is None else hashlib.sha256(repr(features.shape).encode() + features.tobytes())
        object.__setattr__(self, "_features", digest and digest.hexdigest())

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        remap: Remap | None = None,
        names: str | os.PathLike[str] | None = None,
    ) -> "PublicLabels":
        """Reads public labels from a text file, one in each line; empty lines are left out.

        Args:
            path: The file.
            remap: Where a label outside the space goes.
            names: A CSV file with the columns label and name.

        Guarantees: a label that could never equal one in the data is refused: blanks around it, a character that cannot
        be seen, bytes that are not UTF-8. A byte order mark is no part of one.    test_label_files_are_read_or_refused
        """
        lines = enumerate(text_files.read_public_text(path).split("\n"), start=1)
        labels = [(number, text_files.clean(path, number, line)) for number, line in lines if line.strip()]
        if not labels:
            raise errors.InvalidValue(f"Expected one label in each line of {path}, got none.")
        first: dict[str, int] = {}
        for number, label in labels:
            if first.setdefault(label, number) != number:
                raise errors.InvalidValue(f"Lines {first[label]} and {number} of {path} are the same label.")
        return cls(tuple(first), remap, None if names is None else label_names.read_names(names))

    def of_task(self, labels: Iterable[Label], known: LabelSpace) -> "PublicLabels":
        """Returns the policy of one task whose label space is a public part of the known labels.

        Examples of other labels are remapped to labels of the part as `remap` says, else dropped. That changes nothing
        about privacy (the paper's proposition on S_prior): the part is fixed without the data, and where an example
        goes depends on this example alone. So neighbouring tasks stay neighbours or become equal, and what is spent and
        drawn is that of a model with these labels alone.

        Guarantees:
          - A label that is not known is refused, before anything is spent.   test_labels_of_a_task_are_refused
          - What is released differs between neighbours in noisy values only.
                                                                test_one_row_changes_nothing_but_noisy_values

        Args:
            labels: Of the task; chosen in public, never read off its data.
            known: All labels of the model.

        Example:
            >>> whole = PublicLabels(["E10", "E11", "other"], remap=lambda label: "other")
            >>> whole.of_task(["E10", "other"], whole.space).resolve("E11", whole.space)
            'other'
        """
        given = [spelled(label, known) for label in public_space(labels).labels]
        if not given:
            raise errors.InvalidValue("Expected at least one label of the task.")
        if not all(label in known for label in given):
            raise errors.InvalidValue(
                "Expected labels of a task among the public labels of the model. Nothing was spent. extend_labels adds "
                "public ones."
            )
        narrowed = copy(self)
        object.__setattr__(narrowed, "part", LabelSpace(tuple(sorted(given, key=known.row))))
        return narrowed

    def name(self, label: Label) -> str | None:
        """Returns what a public label means: its name, else its title, else what it says by itself, else None."""
        titles, named = self.remap.titles if isinstance(self.remap, Taxonomy) else {}, self.names or {}
        found = named.get(spelled(label, named), titles.get(spelled(label, titles)))
        return label_names.said_by(label) if found is None else label_names.proper(found)

    def resolve(self, label: object, known: Container[Label]) -> Label | None:
        """Returns the known label an example counts for, or None to drop it; never raises on a private label."""
        known = known if self.part is None else self.part
        name = spelled(label, known)
        if name is None or name in known:
            return name
        targets = (spelled(target, known) for target in self._targets(label, name, known))
        return next((target for target in targets if target in known), None)

    def _targets(self, label: object, name: Label, known: Container[Label]) -> Iterator[object]:
        """Yields where a label outside the space may go; a function is asked for both spellings of a number."""
        if isinstance(self.remap, Taxonomy):
            yield self.remap.nearest(label, known)
        elif isinstance(self.remap, Mapping):
            yield self.remap.get(spelled(label, self.remap))
        elif self.remap is not None:
            number = number_of(name)
            spellings = (name,) if number is None else (number, str(number)) if self._numeric else (str(number), number)
            for spelling in spellings:
                with contextlib.suppress(Exception):  # an error would reveal that there was such a label
                    yield self.remap(spelling)

    @cached_property
    def _numeric(self) -> bool:
        """Whether some of the labels are no texts: then a function is asked for a number before its text."""
        return not all(isinstance(label, str) for label in self.labels)

    def rows(self, labels: Sequence[object], known: LabelSpace) -> npt.NDArray[np.int64]:
        """Returns the row of the known label that each example counts for; -1 drops it."""
        rows = (known.row(self.resolve(label, known)) for label in labels)
        return np.fromiter(rows, dtype=np.int64, count=len(labels))

    def sums(self, budget: Budget) -> events.Gaussian:
        """Returns what a task costs: noise on the sums, nothing for the labels."""
        return _gaussian(budget)


@dataclass(frozen=True, kw_only=True)
class ReleasedLabels:
    """The labels are learned from the data, each through a private release.

    By default counts and sums are one joint Gaussian, and a label once released is known from then on.

    Args:
        count_weight: c^2 of the joint Gaussian. By default the best for classes of unknown size, by a model of
            expected accuracy from the budget (`reticent plan` shows it), fixed when the model is made.
        class_size: Instead of count_weight: the smallest class that must be released, in examples per task. A public
            guess or a wish, never counted in the data.
        remember: Whether a released label is updated in every later task without being paid for again.
        selection: A separate mechanism instead of the joint one, such as `events.OptimalSelection`.
        share: Its share of epsilon and delta.
        names: What labels mean: a function from label to text, or a dict. It must be fixed in public, not made from the
            data, and is asked for released labels alone. A label that it does not know (None) has what it says by
            itself; where it raises, or returns no text, the label has no name. A function is not stored.

    Example:
        >>> ReleasedLabels.paper(share=0.1).remember
        False
    """

    count_weight: float | None = None
    class_size: int | None = None
    remember: bool = True
    selection: type[events.LabelSelection] | None = None
    share: float | None = None
    names: Names | Callable[[Any], str | None] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if self.names is not None and not callable(self.names):
            object.__setattr__(self, "names", label_names.checked(self.names))
        if self.share is not None and self.selection is None:
            raise errors.InvalidValue("Expected selection with share: which mechanism gets it?")
        if self.selection is not None and (self.count_weight is not None or self.class_size is not None):
            raise errors.InvalidValue("Expected share with selection; count_weight is for the joint mechanism.")
        if self.count_weight is not None and self.class_size is not None:
            raise errors.InvalidValue("Expected count_weight or class_size, not both.")
        if self.count_weight is not None:
            errors.real("count_weight", self.count_weight, above=0, below=1)
        if self.class_size is not None:
            errors.whole("class_size", self.class_size, at_least=2)
        if self.share is not None:
            errors.real("share", self.share, above=0, below=1)
        if self.selection is not None and not issubclass(self.selection, events.LabelSelection):
            raise errors.InvalidValue("Expected selection to be a label selection event, such as OptimalSelection.")
        if self.selection is events.BinaryTest:
            raise errors.InvalidValue("Expected a selection that counts. A BinaryTest needs a learner of your own.")

    @classmethod
    def paper(cls, share: float = 0.1) -> "ReleasedLabels":
        """The paper's Release Labels: truncated geometric, labels updated only in the tasks that released them."""
        return cls(selection=events.TruncatedGeometric, share=share, remember=False)

    def name(self, label: Label) -> str | None:
        """Returns what a released label means, or None; never raises, and may not be asked for any other label."""
        return label_names.from_answer(self.names, label)

    def joint(self, budget: Budget) -> events.JointGaussian:
        """Returns what a task costs when labels and sums are released together."""
        from reticent.privacy import planning  # what calibrates takes a while to import

        return planning.joint_gaussian(budget, self.weight(budget))

    def selection_and_sums(self, budget: Budget) -> tuple[events.LabelSelection, events.Gaussian]:
        """Returns what a task costs when labels have their own mechanism: for the labels, and for the sums."""
        chosen, rest = self.selection_and_rest(budget)
        return chosen, _gaussian(rest)

    def selection_and_rest(self, budget: Budget) -> tuple[events.LabelSelection, Budget]:
        """Returns what the labels cost by their own mechanism, and what is left for everything else."""
        if self.selection is None:
            raise errors.InvalidValue("Expected a selection mechanism.")
        from reticent.privacy import planning

        events.refuse_zero_delta(budget.delta)
        share = planning.DEFAULT_SHARE if self.share is None else self.share
        rest = replace(budget, epsilon=budget.epsilon * (1 - share), delta=budget.delta * (1 - share))
        return planning.labels_by_share(budget, self.selection, share), rest

    def sizes(self, budget: Budget) -> tuple[int, int]:
        """Returns how many examples a label needs in one task to become known with probability 1/2, and with 0.99.

        >>> ReleasedLabels().sizes(Budget(epsilon=1.0, delta=1e-5))
        (39, 59)
        """
        from reticent.privacy import selection

        event = self.joint(budget) if self.selection is None else self.selection_and_rest(budget)[0]
        law = selection.law(event)
        return selection.smallest_class(law, 0.5), selection.smallest_class(law, 0.99)

    def expectation(self, budget: Budget) -> str:
        """Returns in words which classes will be released, from public facts: to be read before anything is spent."""
        return (
            "New labels: a class of {:,} examples in a task is released with probability 0.5, one of {:,} with 0.99. "
            "Smaller classes are lost; `reticent plan` shows what other budgets release."
        ).format(*self.sizes(budget))

    def weight(self, budget: Budget, *, horizon: int | None = None) -> float:
        """Returns c^2, the share of the squared noise-to-signal ratio that pays for the counts.

        Args:
            budget: What one person may lose over the stream.
            horizon: With memory: most tasks of an epoch.
        """
        if self.count_weight is not None:
            return self.count_weight
        from reticent.privacy import count_weights, planning

        if self.class_size is None:
            return count_weights.default_count_weight(budget, horizon=horizon)
        weight = planning.smallest_count_weight(budget, self.class_size)
        if weight is None:
            raise errors.InvalidValue(
                f"No count weight releases classes of {self.class_size} with probability {planning.SURE} at this "
                "budget. `reticent plan` shows which sizes it does."
            )
        return weight


Policy = PublicLabels | ReleasedLabels


def refuse_private(space: LabelSpace) -> None:
    """Refuses labels that are not public as public ones."""
    if space.event != events.Public():
        raise errors.InvalidValue("Expected labels that are public; these are not. Use ReleasedLabels().")


def refuse_numbers(policy: Policy, known: LabelSpace) -> None:
    """Refuses a column of numbers where no number can be a label: the whole budget would be spent on nothing."""
    mapped = isinstance(policy, ReleasedLabels) or policy.remap is not None
    if not mapped and not any(map(is_number_or_its_text, known.labels)):
        raise errors.InvalidValue(
            "The labels of this model are texts and the column of labels holds numbers, none of which can be one of "
            "them. Nothing was spent. Pass the column that holds these labels."
        )


def _gaussian(budget: Budget) -> events.Gaussian:
    from reticent.privacy import accounting

    sigma = accounting.gaussian_sigma(budget)
    return events.Gaussian(noise_multiplier=sigma, examples_per_person=budget.examples_per_person)
