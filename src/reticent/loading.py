"""load: a model directory as a classifier."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from reticent import errors, schema
from reticent.classifier import ContinualClassifier
from reticent.directory import Directory
from reticent.released.model import Encode

if TYPE_CHECKING:  # learning imports it; predicting does not
    from reticent.sensitive.learners.learner import Learner

# Its features were torch's once: the same up to their last bits, and not the same encoder.
_BEFORE = " An older model has that of torch: load(path, encoder=minilm(backend='torch')), or --encoder minilm-torch."


def load(
    path: str | os.PathLike[str],
    *,
    encoder: Encode | None = None,
    learner: "Learner | None" = None,
    vault: str | os.PathLike[str] | None = None,
) -> ContinualClassifier:
    """Loads a model directory to predict or to continue learning. The user's own code must be passed again.

    Args:
        path: The model directory.
        encoder: Where it is not one that comes with a package.
        learner: Another one than is stored, for the tasks that follow.
        vault: Where the vault of a model with memory is, if it was moved: your word that no copy of it is in use.
            Only learning needs it.

    Example:
        >>> load("no such folder")
        Traceback (most recent call last):
        reticent.errors.InvalidValue: No model at no such folder. Expected a folder with a manifest.json in it.
    """
    directory = Directory.open(path, rule=None if learner is None else learner.rule)
    if learner is not None:
        directory.refuse_other_rule(learner.rule)
    stored = directory.settings["encoder"]
    if stored is not None:
        encoder = schema.stored_encoder(stored) if encoder is None else encoder
        if stored["digest"] not in (None, getattr(encoder, "digest", None)):
            raise errors.InvalidValue(
                f"Expected the encoder {stored['name']!r} with the weights and the rule of batches it had."
                f"{_BEFORE if stored['name'] == 'minilm' else ''}"
            )
    model = ContinualClassifier(
        encoder=encoder, labels=directory.policy, learner=learner, budget=directory.budget, path=path
    )
    if directory.epoch is not None:
        directory.vault = None if vault is None else Path(vault).absolute()
        model.memory = directory.epoch.memory(Path(path), directory.vault)
    elif vault is not None:
        raise errors.InvalidValue("This model has no memory, and needs no vault.")
    model._directory, model._made_with = directory, model.memory
    return model
