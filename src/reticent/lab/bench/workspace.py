"""Where runs find their data, features and tuned settings: features and settings are made once, and kept."""

import functools
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from reticent import encoders, errors
from reticent.encoders import Speed
from reticent.encoders.batches import Items
from reticent.encoders.encoder import Backend, Encoder
from reticent.lab.bench.run import FILM, Run
from reticent.lab.bench.versions import version_of
from reticent.lab.data import datasets
from reticent.lab.data.datasets import Data
from reticent.numerics.files import write_whole
from reticent.numerics.reading import MEGABYTE, json_of, read_regular
from reticent.sensitive.learners import PeftEnsemble
from reticent.sensitive.tuning import CLIP_NORMS, tune_uncounted

_LARGEST_RESULT = 64 * MEGABYTE
_AT_ONCE = 1024
Strings = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Workspace:
    """Where data lies and where features are kept.

    Args:
        data: The folder of data sets.
        out: The results folder.
        speed: Where and how encoders compute.
    """

    data: Path
    out: Path
    speed: Speed = field(default=Speed(), kw_only=True)

    def load(self, run: Run) -> Data:
        """Returns the raw data of a run."""
        return _loaded(run.data, self.data, run.text, run.label)[0]

    def digest(self, run: Run) -> str:
        """Returns the digest of a run's data."""
        return _loaded(run.data, self.data, run.text, run.label)[1]

    def features(self, run: Run) -> npt.NDArray[np.float32]:
        """Returns features of inputs followed by test inputs, encoded once for all runs."""
        file = self.out / "features" / f"{self.digest(run)[:20]}.npy"
        if not _readable(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(file.with_suffix(".lock")):
                if not _readable(file):
                    write_whole(file, _stored(_encoded(self.load(run), self.speed)))
        return _mapped(file)

    def reader(self, run: Run) -> Encoder:
        """Returns an encoder of texts that has the features of the data already; others, such as names, it encodes."""
        data, features = self.load(run), self.features(run)
        rows = {text: i for i, text in enumerate([*data.inputs, *data.unseen_inputs])}
        real = encoder_of(data, self.speed, shared=True)

        def prepare(texts: Sequence[object]) -> Items:
            new = [text for text in texts if text not in rows]
            found = dict(zip(new, real(new), strict=True)) if new else {}
            return [(found[text] if text in found else features[rows[str(text)]],) for text in texts]

        def load() -> Backend:
            return Backend(
                prepare=prepare,
                forward=lambda item: item[0],
                rows=lambda item: _AT_ONCE,
                width=features.shape[1],
                probe=data.inputs[0],
            )

        return Encoder(name=real.name, load=load, fingerprint=lambda: real.digest)

    def tuned(self, run: Run, learner: PeftEnsemble, inputs: Any, labels: Strings) -> PeftEnsemble:
        """Returns the paper's learner with settings tuned once for each budget and seed, as the paper has.

        Label policies, blurry ratios and baselines share them: they are tuned on one task of a disjoint stream.
        Settings of another version of that learner are not taken over.
        """
        key = [version_of("peft-paper"), run.data, run.epsilon, run.persons, run.seed, run.adapter, run.tasks]
        clip_norms = CLIP_NORMS
        if run.epsilon is None:  # the learner has no noise and clips nothing: nor do its trials
            clip_norms = (learner.clip_norm or 1.0,) * 2
            key.append("no noise")
        file = self.out / "tuned" / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:20]}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock")):
            if read(file) is None:
                encoder = encoder_of(self.load(run), self.speed) if run.adapter == FILM else None
                found = tune_uncounted(
                    learner,
                    inputs,
                    labels.tolist(),
                    budget=run.budget,
                    encoder=encoder,
                    seed=run.seed,
                    clip_norms=clip_norms,
                )
                settings = {name: getattr(found, name) for name in ("rate", "learning_rate", "clip_norm", "tuning")}
                write_whole(file, json.dumps({"for": key, **settings}, indent=1))
            settings = read(file)
        return replace(learner, **{name: value for name, value in settings.items() if name != "for"})


@functools.lru_cache(maxsize=2)
def _loaded(name: str, folder: Path, text: str | None, label: str | None) -> tuple[Data, str]:
    data = datasets.load(name, folder, text=text, label=label)
    return data, datasets.digest(data)


@functools.lru_cache(maxsize=2)
def _mapped(file: Path) -> npt.NDArray[np.float32]:
    features: npt.NDArray[np.float32] = np.load(file, mmap_mode="r")
    return features


def _readable(file: Path) -> bool:
    """Returns whether features are there and whole."""
    try:
        features = np.load(file, mmap_mode="r")  # no pickles: allow_pickle is False
    except (OSError, ValueError, EOFError):
        return False
    return isinstance(features, np.ndarray) and features.ndim == 2 and features.dtype == np.float32


def encoder_of(data: Data, speed: Speed = Speed(), *, shared: bool = False) -> Any:  # noqa: B008 (a frozen value)
    """Returns the encoder that a data set asks for, at a speed; a shared one is to read with, not to train through."""
    if data.encoder is None:
        raise errors.InvalidValue(f"{data.name} has features alone: nothing can be trained through its encoder.")
    return _shared(data.encoder, speed) if shared else _encoder(data.encoder, speed)


def _encoder(name: str, speed: Speed) -> Any:
    named = encoders.named(name)
    return named if named is None else replace(named, speed=speed)


_shared = functools.lru_cache(maxsize=1)(_encoder)  # its weights are loaded once in a process


def _encoded(data: Data, speed: Speed) -> npt.NDArray[np.float32]:
    parts = [part for part in (data.inputs, data.unseen_inputs) if len(part)]
    if data.encoder is None:
        return np.concatenate(parts).astype(np.float32)
    encoder = encoder_of(data, speed)
    return np.concatenate([np.asarray(encoder(part), np.float32) for part in parts])


def _stored(values: npt.NDArray[np.float32]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def read(file: Path) -> Any:
    """Returns what a JSON file holds; None where it is not there, or damaged."""
    try:
        return json_of(read_regular(file, most=_LARGEST_RESULT))
    except (OSError, ValueError):
        return None
