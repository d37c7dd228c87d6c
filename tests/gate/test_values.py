"""Mechanisms and sums cannot be changed between the spend and the draw."""

import dataclasses

import pytest

import reticent.gate
from reticent.gate import (
    epochs,
    grid,
    label_sums,
    mechanisms,
    outer_products,
    remembered,
    sparse,
    sparse_joint,
    step,
    vault,
)
from tests.frozen import dataclasses_of

VALUES = (
    grid.Rows,
    label_sums.LabelSums,
    label_sums._SumsOfSome,
    mechanisms.SelectLabels,
    mechanisms.CountLabels,
    mechanisms.NoisySums,
    mechanisms.GaussianSum,
    mechanisms.JointGaussian,
    sparse.SparseSums,
    sparse.Kept,
    sparse.SparseGaussian,
    sparse.Tail,
    sparse_joint.SparseJointSums,
    sparse_joint.SparseNoisySums,
    sparse_joint.SparseJoint,
    outer_products.Directions,
    outer_products.OuterProducts,
    outer_products.Factors,
    step.Block,
    step.NoisySteps,
    remembered.Entry,
    remembered.StreamSums,
    remembered.RememberedRows,
    remembered.RememberedSums,
    epochs.Kept,
    vault.About,
    vault._Stored,
)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_values_of_the_gate_are_frozen(kind):
    """A mechanism whose event could be exchanged after it was compared with the spend would draw something else."""
    value = object.__new__(kind)
    for name in (*(field.name for field in dataclasses.fields(kind)), "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)


def test_all_values_of_the_gate_are_listed():
    assert dataclasses_of(reticent.gate) == set(VALUES)
