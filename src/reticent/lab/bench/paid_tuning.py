"""Tuning that is paid for: the one row of the tables whose settings cost privacy.

The paper tunes on sensitive examples of the first task, learns from them too, and counts the tuning nowhere. Which
training follows is chosen by the tuning, so for a person in both there is no bound. Here half of the private examples
of the first task are tuned on by private selection, and no task learns from them: their persons spend the budget on it.
Runs are scored on public examples: three in ten of the first task are taken to be public, and no task learns from them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.classifier import ContinualClassifier
from reticent.gate.noise import NoiseSource
from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.run import Run
from reticent.numerics.rows import take
from reticent.policies import PublicLabels
from reticent.sensitive.learners import PeftEnsemble
from reticent.sensitive.tuning import tune_privately

_PUBLIC = 0.3  # of the first task, as the paper splits it
_PRIVATE = 0.35  # to tune on: half of the rest
NAME = "tuning"


def tune_and_pay(
    run: Run,
    model: ContinualClassifier,
    policy: PublicLabels,
    stream: Assigned,
    inputs: Any,
    names: npt.NDArray[np.str_],
) -> PeftEnsemble:
    """Returns the model's learner with settings that its ledger has paid for; takes what it needs out of the stream.

    Args:
        run: The run.
        model: One that has learned nothing yet.
        policy: Its public labels.
        stream: Which training example is in which task; changed.
        inputs: Features of the training examples.
        names: Their labels.
    """
    learner = model.learner
    if not isinstance(learner, PeftEnsemble):
        raise errors.InvalidValue(f"{run.learner} has no settings that could be tuned.")
    mine = np.random.default_rng([run.seed, 11]).permutation(np.flatnonzero(stream.task == 0))
    public, private, _ = np.split(mine, [round(_PUBLIC * len(mine)), round((_PUBLIC + _PRIVATE) * len(mine))])
    stream.leave_out(np.concatenate([public, private]))
    noise = NoiseSource.seeded(int(run.digest, 16) % 2**60 + run.tasks)
    with errors.silenced(), model.directory.writer(noise) as gate:
        found = tune_privately(
            learner,
            take(inputs, private),
            names[private].tolist(),
            policy=policy,
            public_validation=(take(inputs, public), names[public].tolist()),
            budget=run.budget,
            gate=gate,
            name=NAME,
        )
    model.set_params(learner=found)
    return found
