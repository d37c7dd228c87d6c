"""Conformance suites that users can run on their own mechanisms and learners.

    from reticent.testing import check_learner, check_mechanism
    check_mechanism(MyMechanism(...))
    check_learner(MyLearner(...))

A check raises AssertionError with one sentence. Statistical checks raise a false alarm with chance ALPHA each.
"""

from reticent.testing.learner_checks import check_learner, features_task
from reticent.testing.mechanism_checks import ALPHA, check_mechanism

__all__ = ["ALPHA", "check_learner", "check_mechanism", "features_task"]
