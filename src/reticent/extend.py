"""What your own learner, encoder, mechanism or data set needs, in one place.

- A learner reads a `Task` through a `Gate`, sums with `sum_by_label` or counts with `count_by_label`, draws mechanisms
  with a `Permit`, and has a `Rule`, such as `Sums`. `check_learner` checks it.
- A mechanism has an event of `events` and is called with `rng: NoiseSource`; `check_mechanism` checks it.
- An encoder is `wrap(...)` of a function or a module. A data set is `Data`.

See docs/own-learner.md, which imports nothing else of the package.
"""

from reticent import encoders, errors
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.encoders import Encoder, wrap
from reticent.gate.gate import Gate, Permit
from reticent.gate.grid import SCALE
from reticent.gate.label_sums import count_by_label, sum_by_label
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import CountLabels, GaussianSum, JointGaussian, Mechanism, SelectLabels
from reticent.gate.noise import NoiseSource
from reticent.lab.data.datasets import Data
from reticent.labels import LabelSpace
from reticent.loading import load
from reticent.numerics.rows import unit_rows
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.privacy import accounting, events
from reticent.released.model import Rule, Scorer, learned_rows
from reticent.released.release import Release
from reticent.released.sums import Sums
from reticent.sensitive.learners.learner import Learner, encoded
from reticent.sensitive.task import Task
from reticent.testing import check_learner, check_mechanism

__all__ = [
    "SCALE",
    "Budget",
    "ContinualClassifier",
    "CountLabels",
    "Data",
    "Encoder",
    "Gate",
    "GaussianSum",
    "JointGaussian",
    "LabelSpace",
    "Learner",
    "Ledger",
    "Mechanism",
    "NoiseSource",
    "Permit",
    "Policy",
    "PublicLabels",
    "Release",
    "ReleasedLabels",
    "Rule",
    "Scorer",
    "SelectLabels",
    "Sums",
    "Task",
    "accounting",
    "check_learner",
    "check_mechanism",
    "count_by_label",
    "encoded",
    "encoders",
    "errors",
    "events",
    "learned_rows",
    "load",
    "sum_by_label",
    "unit_rows",
    "wrap",
]
