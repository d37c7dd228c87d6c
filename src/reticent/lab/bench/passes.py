"""How often runs see an example: what training through an encoder costs, and what is tuned once for many runs."""

import math

from reticent.lab.bench import catalogue
from reticent.lab.bench.run import TASKS, Run
from reticent.lab.data.datasets import FIVE_DATASETS
from reticent.sensitive.tuning.trials import LEAST_BATCH, TUNING_SHARE

TRIALS, EPOCHS = 20, 40  # of the paper's tuning, and of its training
TUNED = ("peft-paper", "naive-paper", "desai-paper", "noncl-paper")
_BUFFER = 0.1  # of each class, which Desai et al. keep and do not train on
_OF_CIFAR10 = 50_000 / 7 / 260_110  # tuned on, of all images of 5-Datasets
_STEPS = 5  # a pass of our PEFT: its rate is a fifth


def training(run: Run) -> float:
    """Returns how many gradients a run through the encoder takes for each example of its stream, without tuning.

    >>> [training(Run(data="d", learner=name)) for name in ("peft", "peft-paper", "desai-paper")]
    [8.0, 40.0, 54.0]
    """
    if run.learner not in TUNED:
        return float(catalogue.FILM_EPOCHS)
    if run.learner == "desai-paper":  # beside its own task, the buffers of all before it
        return EPOCHS * (1 - _BUFFER + _BUFFER * (run.tasks - 1) / 2)
    return float(EPOCHS)


def tuning_key(run: Run) -> tuple[object, ...] | None:
    """Returns what runs share that train with the same tuned settings, as `Workspace.tuned` keeps them; None for none.

    >>> tuning_key(Run(data="d", learner="cosine"))
    """
    if run.learner not in TUNED:
        return None
    return run.data, run.epsilon, run.persons, run.seed, run.adapter, run.tasks


def tuned_share(run: Run) -> float:
    """Returns which part of the stream settings are tuned on: one task, or what the paper took of 5-Datasets.

    >>> tuned_share(Run(data="split-cifar100", learner="noncl-paper", tasks=1))
    0.1
    """
    if run.data == FIVE_DATASETS:
        return _OF_CIFAR10
    return 1 / (TASKS if run.tasks == 1 else run.tasks)


def tuning(examples: float) -> float:
    """Returns how many gradients of one example it takes to tune on so many examples.

    >>> tuning(1_000)
    560000.0
    """
    return TRIALS * EPOCHS * TUNING_SHARE * examples


def steps(run: Run, tuned_on: float) -> float:
    """Returns how many steps a task takes, of settings that were tuned on so many examples.

    Tuning chooses the batch, from ten examples to all, on a logarithmic scale; the middle of that scale is assumed.

    >>> steps(Run(data="d", learner="peft-paper"), tuned_on=1_000 / 0.7)
    400.0
    """
    if run.learner not in TUNED:
        return float(catalogue.FILM_EPOCHS * _STEPS)
    return EPOCHS * math.sqrt(max(1.0, round(TUNING_SHARE * tuned_on) / LEAST_BATCH))
