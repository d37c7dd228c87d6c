"""Continual learning that keeps its labels to itself.

Classifiers trained on a stream of sensitive tasks with differential privacy, whose label set does not leak either.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from reticent import encoders
from reticent.budget import Adjacency, Budget
from reticent.errors import BudgetExceeded, LedgerError, ReticentError
from reticent.labels import UNKNOWN, LabelSpace, Taxonomy
from reticent.memory import Memory
from reticent.policies import PublicLabels, ReleasedLabels
from reticent.privacy.planning import Plan, plan

if TYPE_CHECKING:
    from reticent.classifier import ContinualClassifier
    from reticent.lab.compare import compare
    from reticent.loading import load
    from reticent.readers import Batches, Columns, open_source
    from reticent.sensitive import engines
    from reticent.sensitive.learners.cosine import Cosine
    from reticent.sensitive.learners.peft import PeftEnsemble
    from reticent.sensitive.tuning import tune

__version__ = version("reticent")
__all__ = [
    "UNKNOWN",
    "Adjacency",
    "Batches",
    "Budget",
    "BudgetExceeded",
    "Columns",
    "ContinualClassifier",
    "Cosine",
    "LabelSpace",
    "LedgerError",
    "Memory",
    "PeftEnsemble",
    "Plan",
    "PublicLabels",
    "ReleasedLabels",
    "ReticentError",
    "Taxonomy",
    "__version__",
    "compare",
    "encoders",
    "engines",
    "load",
    "open_source",
    "plan",
    "tune",
]

# Imported when first used: planning needs no scikit-learn, and predicting needs no gate.
_LATER = {
    "Batches": "reticent.readers",
    "Columns": "reticent.readers",
    "ContinualClassifier": "reticent.classifier",
    "compare": "reticent.lab.compare",
    "load": "reticent.loading",
    "open_source": "reticent.readers",
    "engines": "reticent.sensitive.engines",
    "Cosine": "reticent.sensitive.learners.cosine",
    "PeftEnsemble": "reticent.sensitive.learners.peft",
    "tune": "reticent.sensitive.tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'reticent' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LATER[name])
    return getattr(module, name, module)  # `engines` is the module itself
