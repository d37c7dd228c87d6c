"""Every kind of event in words."""

import pytest

from reticent.privacy import events
from reticent.privacy.event_words import in_words

COUNTS = events.LabelCounts(noise_multiplier=12.0, threshold=60.04, examples_per_person=2)
TRAINING = events.DpSgd(noise_multiplier=8.0, rate=0.25, steps=1_400)
COUNTED = "label counts, noise 12.0000, a new label above 60.0, 2 rows of a person"
TRAINED = "DP-SGD, 1,400 steps at rate 0.25, noise multiplier 8.0000"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (events.Public(), "public, nothing drawn"),
        (events.NonPrivate(), "published WITHOUT NOISE"),
        (events.Gaussian(noise_multiplier=4.0), "sums, noise 4.0000"),
        (
            events.Gaussian(noise_multiplier=4.0, examples_per_person=1_200),
            "sums, noise 4.0000, 1,200 rows of a person",
        ),
        (
            events.JointGaussian(noise_multiplier=4.0, count_weight=0.36, threshold=38.52),
            "labels and sums, noise 5.0000, a new label above 38.5",
        ),
        (COUNTS, COUNTED),
        (TRAINING, TRAINED),
        (
            events.TruncatedGeometric(epsilon=0.12345, delta=1.2345e-6),
            "labels (truncated-geometric), epsilon 0.1235, delta 1.23e-06",
        ),
        (events.BinaryTest(epsilon=0.5, delta=1e-6), "labels (binary-test), epsilon 0.5, delta 1e-06"),
        (
            events.LabelledTraining(
                counts=events.LabelCounts(noise_multiplier=12.0, threshold=60.0), training=TRAINING
            ),
            f"label counts, noise 12.0000, a new label above 60.0; {TRAINED}",
        ),
        (
            events.PrivateSelection(run=TRAINING, eta=0.5, gamma=0.012345),
            f"the best of a random number of runs (eta 0.5, gamma 0.01235), each {TRAINED}",
        ),
        (
            events.Remembered(noise_multiplier=4.0, epoch=3, horizon=1_200, eighths=0),
            "epoch 3 of up to 1,200 tasks, correlated noise 4.0001",  # rounded up: one step of float64 above 4
        ),
        (events.Exposure(chance=1.2345e-6), "exposed with chance 1.23e-06"),
        (events.compose(events.Public(), TRAINING), f"public, nothing drawn; {TRAINED}"),
        (events.Composed(()), "nothing"),
        (events.Event(), "Event"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_events_in_words(event, words):
    assert in_words(event) == words
