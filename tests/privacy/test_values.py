"""Descriptions of spends cannot be changed once they are checked, and events are made by name alone."""

import dataclasses

import pytest

import reticent.privacy
from reticent.privacy import (
    adaptive,
    conditions,
    correlation,
    events,
    memory_plan,
    planning,
    pld,
    profiles,
    renyi,
    replacing,
    statement,
)
from reticent.privacy.selection import binary_test, gaussian_counts, laplace, optimal, truncated_geometric
from tests.frozen import dataclasses_of

EVENTS = (
    events.Gaussian,
    events.Exposure,
    events.JointGaussian,
    events.LabelSelection,
    events.TruncatedGeometric,
    events.OptimalSelection,
    events.LaplaceThreshold,
    events.BinaryTest,
    events.DpSgd,
    events.LabelCounts,
    events.LabelledTraining,
    events.PrivateSelection,
    events.Remembered,
)
OTHERS = (
    events.Event,
    events.Public,
    events.NonPrivate,
    events.Composed,
    events.Adaptive,
    adaptive.Worst,
    conditions.Condition,
    laplace.LaplaceLaw,
    binary_test.BinaryTestLaw,
    optimal.OptimalLaw,
    truncated_geometric.TruncatedGeometricLaw,
    gaussian_counts.GaussianLaw,
    pld.Part,
    pld.Loss,
    profiles.Unbounded,
    profiles.PlainGaussian,
    profiles.Exposed,
    profiles.OneJointGaussian,
    replacing.OneReplacedJoint,
    profiles.OneLabelledTraining,
    profiles.OneSelection,
    profiles.Selections,
    renyi.Bound,
    correlation.Correlation,
    planning.ClassPlan,
)
SHOWN = (
    planning.Plan,
    planning.TrainingPlan,
    memory_plan.Returning,
    memory_plan.BecomesKnown,
    memory_plan.MemoryPlan,
    statement.Spend,
    statement.Act,
    statement.EpochCost,
    statement.Statement,
)


@pytest.mark.parametrize("kind", [*EVENTS, *OTHERS, *SHOWN], ids=lambda kind: kind.__name__)
def test_values_of_privacy_are_frozen(kind):
    """What was checked at birth, and cached by value, must not change afterwards."""
    value = object.__new__(kind)
    for name in (*(field.name for field in dataclasses.fields(kind)), "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, 1)


def test_all_values_of_privacy_are_listed():
    assert dataclasses_of(reticent.privacy) == {*EVENTS, *OTHERS, *SHOWN}


@pytest.mark.parametrize("kind", [*EVENTS, *SHOWN], ids=lambda kind: kind.__name__)
def test_events_are_made_by_name_alone(kind):
    """Two numbers in the wrong order would be another cost."""
    assert all(field.kw_only for field in dataclasses.fields(kind))
    with pytest.raises(TypeError, match="positional"):
        kind(1.0)
