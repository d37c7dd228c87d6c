"""Descriptions of spends cannot be changed once they are checked, and events are made by name alone."""

import dataclasses

import pytest

from reticent.privacy import events, planning, pld, profiles, renyi, statement
from reticent.privacy.selection import binary_test, gaussian_counts, laplace, optimal, truncated_geometric

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
)
OTHERS = (
    events.Event,
    events.Public,
    events.NonPrivate,
    events.Composed,
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
    profiles.OneReplacedJoint,
    profiles.OneLabelledTraining,
    profiles.OneSelection,
    profiles.Selections,
    renyi.Bound,
)
SHOWN = (planning.ClassPlan, planning.Plan, planning.TrainingPlan, statement.Spend, statement.Act, statement.Statement)


@pytest.mark.parametrize("kind", [*EVENTS, *OTHERS, *SHOWN], ids=lambda kind: kind.__name__)
def test_values_of_privacy_are_frozen(kind):
    """What was checked at birth, and cached by value, must not change afterwards."""
    value = object.__new__(kind)
    for name in (*(field.name for field in dataclasses.fields(kind)), "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, 1)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_events_are_made_by_name_alone(kind):
    """Two numbers in the wrong order would be another cost."""
    assert all(field.kw_only for field in dataclasses.fields(kind))
    with pytest.raises(TypeError, match="positional"):
        kind(1.0)
