"""Continual learning that keeps its labels to itself.

Classifiers trained on a stream of sensitive tasks with differential privacy, whose label set does not leak either.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent import encoders
    from reticent.budget import Adjacency, Budget
    from reticent.classifier import ContinualClassifier
    from reticent.errors import BudgetExceeded, LedgerError, ReticentError
    from reticent.lab.compare import compare
    from reticent.labels import UNKNOWN, LabelSpace
    from reticent.loading import load
    from reticent.memory import Memory
    from reticent.policies import PublicLabels, ReleasedLabels
    from reticent.privacy.planning import Plan, plan
    from reticent.readers import Batches, Columns, open_source
    from reticent.sensitive import engines
    from reticent.sensitive.learners.cosine import Cosine
    from reticent.sensitive.learners.peft import PeftEnsemble
    from reticent.sensitive.tuning import tune
    from reticent.taxonomy import Taxonomy

    __version__: str

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

# Where each name lives, and where those that are modules do. All are imported when first used: one who plans needs no
# scikit-learn, one who predicts no gate, and one who asks for --help no SciPy.
_LATER = {
    "Adjacency": "reticent.budget",
    "Budget": "reticent.budget",
    "Batches": "reticent.readers",
    "BudgetExceeded": "reticent.errors",
    "Columns": "reticent.readers",
    "ContinualClassifier": "reticent.classifier",
    "Cosine": "reticent.sensitive.learners.cosine",
    "LabelSpace": "reticent.labels",
    "LedgerError": "reticent.errors",
    "Memory": "reticent.memory",
    "PeftEnsemble": "reticent.sensitive.learners.peft",
    "Plan": "reticent.privacy.planning",
    "PublicLabels": "reticent.policies",
    "ReleasedLabels": "reticent.policies",
    "ReticentError": "reticent.errors",
    "Taxonomy": "reticent.taxonomy",
    "UNKNOWN": "reticent.labels",
    "compare": "reticent.lab.compare",
    "load": "reticent.loading",
    "open_source": "reticent.readers",
    "plan": "reticent.privacy.planning",
    "tune": "reticent.sensitive.tuning",
}
_MODULES = {"encoders": "reticent.encoders", "engines": "reticent.sensitive.engines"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("reticent")
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _LATER:
        raise AttributeError(f"module 'reticent' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
