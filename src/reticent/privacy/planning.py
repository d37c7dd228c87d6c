"""Everything that can be known before data exists: noise, thresholds, which classes will be released."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.privacy import accounting, events, selection
from reticent.privacy.count_weights import default_count_weight, expected_accuracy
from reticent.privacy.mechanism_names import DEFAULT_SHARE as DEFAULT_SHARE
from reticent.privacy.mechanism_names import JOINT_GAUSSIAN as JOINT_GAUSSIAN
from reticent.privacy.mechanism_names import MECHANISMS as MECHANISMS

DEFAULT_SIZES = (10, 20, 50, 100, 200, 500, 1000)
SURE = 0.999
# Ratio of class size to the noise on a sum from which a trained head beats sums; see `training_plan`.
TRAINING_PAYS = 300.0

BY_SHARE = {row.name: row.event for row in selection.TABLE}


@dataclass(frozen=True)
class ClassPlan:
    """What happens to a class of one size."""

    size: int
    release_probability: float
    upper_bound: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one label mechanism means for a budget; the fields are the keys of `reticent plan --json`.

    Example:
        >>> chosen = plan(Budget(epsilon=1.0, delta=1e-5), class_sizes=[100])
        >>> chosen.sigma > chosen.sigma_without_labels
        True
    """

    mechanism: str
    epsilon: float
    delta: float
    epsilon_labels: float | None
    delta_labels: float | None
    threshold: float
    count_weight: float | None
    default_count_weight: float | None
    expected_accuracy: float | None
    sigma: float | None
    sigma_without_labels: float
    smallest_class_50: int
    smallest_class_99: int
    classes: tuple[ClassPlan, ...]

    def json(self) -> dict[str, Any]:
        """Returns the plan as plain JSON values."""
        return dataclasses.asdict(self)


def plan(
    budget: Budget,
    *,
    mechanism: str = JOINT_GAUSSIAN,
    class_sizes: Sequence[int] = (),
    share: float | Literal["auto"] = DEFAULT_SHARE,
    count_weight: float | None = None,
) -> Plan:
    """Plans the release of labels and of sums of unit vectors, from public settings alone.

    Args:
        budget: What one person may lose over the stream.
        mechanism: One of `MECHANISMS`.
        class_sizes: Sizes to plan for, in examples per class and task: public guesses, never counted in the data.
        share: Part of epsilon and delta for the labels (all but the joint Gaussian); "auto" takes the smallest that
            releases the given sizes with probability 0.999, where there is one.
        count_weight: c^2 of the joint Gaussian; by default the smallest that releases the given sizes with
            probability 0.999, where there is one, else the best for classes of unknown size
            (`count_weights.default_count_weight`).

    Example:
        >>> budget = Budget(epsilon=1.0, delta=1e-5)
        >>> paper = plan(budget, mechanism="truncated-geometric", share=0.025, class_sizes=[500])
        >>> paper.threshold, round(paper.classes[0].release_probability, 4)
        (433.0, 0.9052)
    """
    events.refuse_zero_delta(budget.delta)
    budget.warn()
    sizes = tuple(errors.whole("class size", size, at_least=1) for size in class_sizes)
    event, sigma = _chosen(budget, mechanism, sizes, share, count_weight)
    law, weight = selection.law(event), getattr(event, "count_weight", None)
    shown = sizes or DEFAULT_SIZES
    persons = -(-np.asarray(shown) // budget.examples_per_person)
    bounds = selection.upper_bound(persons, budget.epsilon, budget.delta)
    return Plan(
        mechanism=mechanism,
        epsilon=budget.epsilon,
        delta=budget.delta,
        epsilon_labels=getattr(event, "epsilon", None),
        delta_labels=getattr(event, "delta", None),
        threshold=law.threshold,
        count_weight=weight,
        default_count_weight=None if weight is None else default_count_weight(budget),
        expected_accuracy=None if weight is None else expected_accuracy(budget, weight),
        sigma=sigma,
        sigma_without_labels=accounting.gaussian_sigma(budget),
        smallest_class_50=selection.smallest_class(law, 0.5),
        smallest_class_99=selection.smallest_class(law, 0.99),
        classes=tuple(
            ClassPlan(size, float(probability), float(bound))
            for size, probability, bound in zip(shown, law.release_probability(shown), bounds, strict=True)
        ),
    )


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What a budget means for DP-SGD, and which learner is likely better; the key "training" of `reticent plan`.

    Args:
        noise_multiplier: Standard deviation of a step's noise over the clipping norm.
        rate: Chance that a step sees an example.
        steps: Steps of a task.
        batch: Expected batch size.
        noise_per_example: Noise on the average gradient of an expected batch, in clipping norms.
        class_size: Examples of a class in a task.
        signal: class_size over the noise that Cosine puts on a sum.
        likely_better: "cosine" or "peft".
        why: One sentence.
    """

    noise_multiplier: float
    rate: float
    steps: int
    batch: float
    noise_per_example: float
    class_size: int
    signal: float
    likely_better: str
    why: str

    def json(self) -> dict[str, Any]:
        """Returns the plan as plain JSON values."""
        return dataclasses.asdict(self)


def training_plan(
    budget: Budget, *, class_size: int, task_size: int = 1_000, rate: float = 0.2, steps: int = 100
) -> TrainingPlan:
    """Plans DP-SGD for a task, and says whether it or Cosine is likely better, from public facts alone.

    A rule of thumb, measured with disjoint tasks and a head alone on CLINC150, ICD-10-CM and CIFAR-100: Cosine adds one
    noise to a class's sum, training spreads its budget over steps. Cosine was better from a signal of about 15 to
    251, training at 833 (docs/results.md); below 10 neither is of use. With proxy data, `rt.compare` measures it.

    Example:
        >>> training_plan(Budget(epsilon=1.0, delta=1e-5), class_size=100).likely_better
        'cosine'
    """
    size = errors.whole("class_size", class_size, at_least=1)
    examples = errors.whole("task_size", task_size, at_least=1)
    noise = accounting.noise_multiplier(budget, rate=rate, steps=steps)
    signal = size / accounting.gaussian_sigma(budget)
    better = "peft" if signal >= TRAINING_PAYS else "cosine"
    above = "at least" if better == "peft" else "less than"
    return TrainingPlan(
        noise_multiplier=noise,
        rate=rate,
        steps=steps,
        batch=rate * examples,
        noise_per_example=noise / (rate * examples),
        class_size=size,
        signal=signal,
        likely_better=better,
        why=f"A class of {size} is {signal:.0f} times the noise on its sum, {above} {TRAINING_PAYS:.0f}: "
        + ("training can use that." if better == "peft" else "sums waste less of it."),
    )


def _chosen(
    budget: Budget, mechanism: str, sizes: Sequence[int], share: float | Literal["auto"], count_weight: float | None
) -> tuple[events.LabelSelection | events.JointGaussian, float | None]:
    """Returns the label event and the noise it leaves on a sum of unit vectors."""
    if mechanism == JOINT_GAUSSIAN:
        if count_weight is None:
            count_weight = smallest_count_weight(budget, min(sizes)) if sizes else None
        joint = joint_gaussian(budget, default_count_weight(budget) if count_weight is None else count_weight)
        return joint, joint.noise_multiplier / math.sqrt(1 - joint.count_weight)
    kind = _by_share(mechanism)
    if share == "auto":
        if not sizes:
            raise errors.InvalidValue("Expected a class size with share auto: which classes must be released?")
        share = smallest_share(budget, kind, min(sizes)) or DEFAULT_SHARE
    share = errors.real("share", share, above=0, below=math.nextafter(1, 2))
    labels = labels_by_share(budget, kind, share)
    if share == 1:
        return labels, None
    rest = dataclasses.replace(budget, epsilon=budget.epsilon * (1 - share), delta=budget.delta * (1 - share))
    return labels, accounting.gaussian_sigma(rest)


def label_event(
    budget: Budget, mechanism: str, *, share: float, count_weight: float
) -> events.LabelSelection | events.JointGaussian:
    """Returns what one task spends on its labels: by a share of the budget, or beside the sums with a count weight.

    >>> label_event(Budget(epsilon=1.0, delta=1e-5), "joint-gaussian", share=0.1, count_weight=0.18).count_weight
    0.18
    """
    if mechanism == JOINT_GAUSSIAN:
        return joint_gaussian(budget, count_weight)
    return labels_by_share(budget, _by_share(mechanism), share)


def _by_share(mechanism: str) -> type[events.LabelSelection]:
    if mechanism not in BY_SHARE:
        raise errors.InvalidValue(f"Expected a mechanism out of {', '.join(MECHANISMS)}, got {mechanism}.")
    return BY_SHARE[mechanism]


def joint_gaussian(budget: Budget, count_weight: float) -> events.JointGaussian:
    """Returns the joint release of one task: the least noise, then the lowest threshold, within the budget.

    A person in one task pays the larger of the Gaussian's delta and the exposure of a new label. In several tasks, or
    under replace-one, both add up, and a tenth of delta is kept for exposure.

    >>> round(joint_gaussian(Budget(epsilon=1.0, delta=1e-5), 0.1).threshold, 1)
    51.3
    """
    events.refuse_zero_delta(budget.delta)
    errors.real("count_weight", count_weight, above=events.SMALLEST_COUNT_WEIGHT, below=1, at_least=True)
    alone = budget.tasks_per_person == 1 and budget.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    kept = 0.0 if alone else accounting.EXPOSURE_SHARE
    sigma = accounting.gaussian_sigma(dataclasses.replace(budget, delta=budget.delta * (1 - kept)))
    exposure = budget.delta * (1.0 if alone else kept) / budget.tasks_per_person

    def at(threshold: float) -> events.JointGaussian:
        return events.JointGaussian(
            noise_multiplier=sigma,
            count_weight=count_weight,
            threshold=threshold,
            examples_per_person=budget.examples_per_person,
        )

    first = selection.gaussian_threshold(sigma, count_weight, exposure)
    if accounting.within(at(first), budget):
        return at(first)
    spread = sigma / math.sqrt(count_weight)
    low, high = first, first + spread
    while not accounting.within(at(high), budget):
        low, high = high, high + 2 * (high - low)
        if high > first + 1e6 * spread:
            raise errors.InvalidValue("No threshold keeps this budget. Raise delta, or lower examples_per_person.")
    while high - low > 1e-6 * spread:
        middle = (low + high) / 2
        low, high = (low, middle) if accounting.within(at(middle), budget) else (middle, high)
    return at(high)


def smallest_count_weight(budget: Budget, size: int) -> float | None:
    """Returns the smallest c^2 that releases a class of this size with probability 0.999, or None.

    >>> round(smallest_count_weight(Budget(epsilon=1.0, delta=1e-5), 500), 4)
    0.003
    """
    return _smallest(lambda weight: joint_gaussian(budget, weight), size, most=0.999)


def labels_by_share(budget: Budget, kind: type[events.LabelSelection], share: float) -> events.LabelSelection:
    """Returns the label release of one task that takes this share of epsilon and delta over the stream.

    As in the paper the two parts of a task, and a person's tasks, add up. For m examples per person the parameters of
    one example are lowered until the group of m costs no more; under replace-one until two steps do not.
    """
    n, m = budget.tasks_per_person, budget.examples_per_person
    part = dataclasses.replace(budget, epsilon=share * budget.epsilon, delta=share * budget.delta)
    epsilon, delta = part.epsilon / n, part.delta / n
    if budget.adjacency is Adjacency.REPLACE_ONE:
        epsilon, delta = epsilon / 2, delta / (1 + math.exp(part.epsilon / 2))
    grown = math.expm1(epsilon) / math.expm1(epsilon / m)
    for less in (0.0, 1e-9, 1e-6, 1e-4, 1e-2):  # for the rounding that accounting adds
        event = kind(epsilon=epsilon / m * (1 - less), delta=delta / grown * (1 - less), examples_per_person=m)
        if accounting.within(event, part):
            return event
    raise errors.InvalidValue("No label release fits this share of the budget. Raise delta.")


def smallest_share(budget: Budget, kind: type[events.LabelSelection], size: int) -> float | None:
    """Returns the smallest share that releases a class of this size with probability 0.999, or None."""
    return _smallest(lambda share: labels_by_share(budget, kind, share), size, most=1.0)


def _smallest(
    make: Callable[[float], events.LabelSelection | events.JointGaussian], size: int, *, most: float
) -> float | None:
    """Returns the smallest argument whose event releases the size with probability 0.999, or None up to `most`."""

    def sure(value: float) -> bool:
        return float(selection.law(make(value)).release_probability(size)) >= SURE

    if not sure(most):
        return None
    low, high = events.SMALLEST_COUNT_WEIGHT, most
    while high > low * (1 + 1e-4):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if sure(middle) else (middle, high)
    return high
