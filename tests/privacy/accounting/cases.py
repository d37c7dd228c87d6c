"""Events that the tests of accounting look at."""

from reticent import Budget
from reticent.privacy import accounting, events, planning

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def one_gaussian(sigma: float) -> events.Gaussian:
    return events.Gaussian(noise_multiplier=sigma)


JOINT = planning.joint_gaussian(BUDGET, 0.1)
LABELS = events.OptimalSelection(epsilon=0.1, delta=1e-6)
TRAINING = events.DpSgd(noise_multiplier=8.0, rate=0.1, steps=400)
COUNTS = events.LabelCounts(noise_multiplier=12.0, threshold=60.0)
LABELLED = events.LabelledTraining(counts=COUNTS, training=TRAINING)
EVENTS = [
    one_gaussian(4.0),
    JOINT,
    LABELS,
    events.TruncatedGeometric(epsilon=0.1, delta=1e-6),
    events.LaplaceThreshold(epsilon=0.1, delta=1e-6),
    TRAINING,
    COUNTS,
    LABELLED,
    events.PrivateSelection(run=one_gaussian(8.0), eta=0.0, gamma=0.05),
    events.compose(LABELS, one_gaussian(5.0)),
    events.compose(LABELLED, one_gaussian(9.0)),
    events.compose(JOINT, TRAINING),
    events.compose(JOINT, JOINT, events.Public()),
    accounting.remembered(BUDGET, epoch=1),
    events.compose(accounting.remembered(BUDGET, epoch=1), LABELS, one_gaussian(9.0)),
]
