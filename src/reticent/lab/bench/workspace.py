"""Where an experiment finds its data, features and tuned settings: made once, by the first who asks."""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from reticent import encoders, errors
from reticent.lab.bench.experiments import Cell
from reticent.lab.data import datasets
from reticent.lab.data.datasets import Data
from reticent.sensitive.learners import PeftEnsemble
from reticent.sensitive.tuning import tune_uncounted

Strings = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Workspace:
    """Where data lies and where features are kept.

    Args:
        data: The folder of data sets.
        out: The results folder.
    """

    data: Path
    out: Path

    def load(self, cell: Cell) -> Data:
        """Returns the raw data of a cell."""
        return _loaded(cell.data, self.data, cell.text, cell.label)[0]

    def digest(self, cell: Cell) -> str:
        """Returns the digest of a cell's data."""
        return _loaded(cell.data, self.data, cell.text, cell.label)[1]

    def features(self, cell: Cell) -> npt.NDArray[np.float32]:
        """Returns features of inputs followed by test inputs, encoded by the first who asks."""
        file = self.out / "features" / f"{self.digest(cell)[:20]}.npy"
        if not _readable(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            with only_one(file.with_suffix(".lock")):
                if not _readable(file):
                    write_array(file, _encoded(self.load(cell)))
        return _mapped(file)

    def tuned(self, cell: Cell, learner: PeftEnsemble, inputs: Any, labels: Strings) -> PeftEnsemble:
        """Returns the paper's learner with settings tuned once for each stream and budget, as the paper has."""
        key = [cell.data, cell.epsilon, cell.seed, cell.adapter, cell.tasks, cell.ratio]
        file = self.out / "tuned" / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:20]}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        with only_one(file.with_suffix(".lock")):
            if read(file) is None:
                encoder = encoder_of(self.load(cell)) if cell.adapter == "film" else None
                found = tune_uncounted(
                    learner, inputs, labels.tolist(), budget=cell.budget, encoder=encoder, seed=cell.seed
                )
                settings = {name: getattr(found, name) for name in ("rate", "learning_rate", "clip_norm", "tuning")}
                write(file, json.dumps({"for": key, **settings}, indent=1))
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
    """Tells whether an array is there and whole."""
    try:
        np.load(file, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return False
    return True


def encoder_of(data: Data) -> Any:
    """Returns the encoder that a data set asks for."""
    name = data.encoder
    if name is None:
        raise errors.InvalidValue(f"{data.name} has features alone: nothing can be trained through its encoder.")
    return encoders.hf(name.removeprefix("hf:")) if name.startswith("hf:") else getattr(encoders, name)()


def _encoded(data: Data) -> npt.NDArray[np.float32]:
    parts = [part for part in (data.inputs, data.unseen_inputs) if len(part)]
    if data.encoder is None:
        return np.concatenate(parts).astype(np.float32)
    encoder = encoder_of(data)
    return np.concatenate([np.asarray(encoder(part), np.float32) for part in parts])


def read(file: Path) -> Any:
    """Returns what a JSON file holds; None where it is not there, or damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write(file: Path, text: str) -> None:
    """Writes a file whole or not at all, whether the process or the machine stops."""
    part = file.with_suffix(f".{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as stream:
        stream.write(text)
        _sync(stream)
    part.replace(file)


def write_array(file: Path, values: npt.NDArray[np.float32]) -> None:
    """Writes an array whole or not at all, whether the process or the machine stops."""
    part = file.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as stream:
        np.save(stream, values)
        _sync(stream)
    part.replace(file)


def _sync(stream: IO[Any]) -> None:
    """Brings content to the disk before its name: else a power cut may leave the name of an empty file."""
    stream.flush()
    os.fsync(stream.fileno())


@contextlib.contextmanager
def only_one(file: Path) -> Iterator[None]:
    """Lets one process in at a time."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
