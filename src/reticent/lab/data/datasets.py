"""Public data for demonstrations and experiments."""

import csv
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.numerics.own_objects import is_own, own_object
from reticent.numerics.rows import take

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Data:
    """Public data of an experiment: inputs and labels, to learn from and to test on.

    Args:
        name: What tables call it, such as "split-cifar100".
        inputs: Features of shape (n, width), texts, or images: uint8 of shape (n, height, width, 3), or a list of
            arrays where their sizes differ.
        labels: One label per input.
        unseen_inputs: Inputs to test on, of the same kind.
        unseen_labels: One label per test input.
        encoder: How inputs become features: "minilm_torch", "efficientnet_lite0" or "hf:<name>"; None where they are
            features already.
        home: The task of each label where the data says so, else None.
        parents: The broader label of each label where there is a hierarchy, else None.
        held_out: Share that a seed holds out to test on, where there is no test set of its own; else 0.
        names: What labels are called, where they do not say it themselves; else None.
        by_label: Whether that share is held out of each label; else of the whole, as the paper splits ImageNet-R.
        tuned_on: Where the paper tunes on a part of one home task: which, and the share of its examples.

    Example:
        >>> Data("toy", np.eye(2), np.array(["a", "b"]), np.eye(2), np.array(["a", "b"])).home is None
        True
    """

    name: str
    inputs: Any
    labels: np.ndarray
    unseen_inputs: Any
    unseen_labels: np.ndarray
    encoder: str | None = None
    home: Mapping[str, int] | None = None
    parents: Mapping[str, str] | None = None
    held_out: float = 0.0
    names: Mapping[str, str] | None = None
    by_label: bool = True
    tuned_on: tuple[int, float] | None = None

    def rows(self, seed: int) -> tuple[Ints, Ints]:
        """Returns the rows to learn from and to test on, of inputs followed by test inputs."""
        if not self.held_out:
            n = len(self.labels)
            return np.arange(n), np.arange(n, n + len(self.unseen_labels))
        draw = np.random.default_rng([seed, len(self.labels)])
        held = np.zeros(len(self.labels), dtype=np.bool_)
        whole = [np.arange(len(held))]
        parts = (np.flatnonzero(self.labels == label) for label in np.unique(self.labels)) if self.by_label else whole
        for part in parts:
            mine = draw.permutation(part)
            held[mine[: round(self.held_out * len(mine))]] = True
        return np.flatnonzero(~held), np.flatnonzero(held)


@dataclass(frozen=True)
class Diagnoses:
    """A seeded public sample of ICD-10-CM: descriptions of diagnoses, coded by block, arriving by chapter.

    Args:
        texts: Descriptions.
        codes: The full code of each, such as E10.21.
        blocks: The block it belongs to, such as E08-E13: the label.
        chapters: The chapter it belongs to, such as "4": the task.
        held_out: Which of them are for testing.
    """

    texts: tuple[str, ...]
    codes: tuple[str, ...]
    blocks: tuple[str, ...]
    chapters: tuple[str, ...]
    held_out: np.ndarray

    @property
    def chapter_names(self) -> tuple[str, ...]:
        """The chapters in their own order."""
        return tuple(sorted(set(self.chapters), key=int))


# --- experiments

CLINC150, CIFAR100, ICD10CM, ICD10CM_BLOCKS = "clinc150", "cifar100-features", "icd10cm", "icd10cm-blocks"
CLINC150_BANKING = "clinc150-banking"  # a fifth of it
SPLIT_CIFAR100, SPLIT_IMAGENET_R, FIVE_DATASETS = "split-cifar100", "split-imagenet-r", "five-datasets"
DIGITS, CIFAR100_IMAGES, DIGITS_AND_CIFAR100 = "digits", "cifar100-images", "digits-and-cifar100"
PHENOTYPES = "phenotypes"
NAMES = (
    *(CLINC150, CIFAR100, ICD10CM, ICD10CM_BLOCKS, CLINC150_BANKING, PHENOTYPES),
    *(DIGITS, CIFAR100_IMAGES, DIGITS_AND_CIFAR100),
    *(SPLIT_CIFAR100, SPLIT_IMAGENET_R, FIVE_DATASETS),
)
_IMAGES = "cifar100_test_images.npz"
_FILES = {
    CLINC150: "clinc150_data_full.json",
    CLINC150_BANKING: "clinc150_data_full.json",
    CIFAR100: "cifar100_efficientnet_lite0.npz",
    CIFAR100_IMAGES: _IMAGES,
    DIGITS_AND_CIFAR100: _IMAGES,
}
_BANKING = ("banking", "credit_cards")  # domains of CLINC150, fifteen intents each
_BENCH_MOST_PER_BLOCK = 100
_FEWEST_OF_A_BLOCK = 3
_HELD_OUT = 0.2


class MissingData(errors.InvalidValue):
    """A data set is not where it should be; the message says what to put where."""


def load(name: str, folder: Path, *, text: str | None = None, label: str | None = None) -> Data:
    """Loads a data set by its name, a CSV file of the user's own, or what the user's own code returns.

    Args:
        name: One of `NAMES`, the path of a CSV file, or "module:object": a `Data`, or what returns one.
        folder: Where the files of named data sets lie; `icd10cm`, `phenotypes` and `digits` need none.
        text: Column of a CSV file.
        label: Column of a CSV file.

    Example:
        >>> load("mnist-1d", Path("."))
        Traceback (most recent call last):
        reticent.lab.data.datasets.MissingData: No data set is called mnist-1d. There are clinc150, cifar100-features, \
icd10cm, icd10cm-blocks, clinc150-banking, phenotypes, digits, cifar100-images, digits-and-cifar100, split-cifar100, \
split-imagenet-r, five-datasets, a path that ends in .csv, or module:object.
    """
    check(name, folder)
    if name.endswith(".csv"):
        return _csv(Path(name), text, label)
    if is_own(name):
        own: Data = own_object(name, "a data set", lambda it: isinstance(it, Data))
        return own
    if name == CLINC150:
        return _clinc150(folder)
    if name == CLINC150_BANKING:
        return _clinc150_banking(folder)
    if name == CIFAR100:
        return _cifar100(folder)
    if name in (ICD10CM, ICD10CM_BLOCKS):
        return _icd10cm() if name == ICD10CM else _icd10cm_blocks()
    from reticent.lab.data import image_sets, phenotypes, shifted

    return {
        PHENOTYPES: lambda folder: phenotypes.phenotypes(),
        DIGITS: lambda folder: shifted.digits(),
        CIFAR100_IMAGES: lambda folder: shifted.cifar100_images(folder / _IMAGES),
        DIGITS_AND_CIFAR100: lambda folder: shifted.digits_and_cifar100(folder / _IMAGES),
        SPLIT_CIFAR100: image_sets.split_cifar100,
        SPLIT_IMAGENET_R: image_sets.split_imagenet_r,
        FIVE_DATASETS: image_sets.five_datasets,
    }[name](folder)


def check(name: str, folder: Path) -> None:
    """Refuses a data set that is not there, as far as its name and its file tell; `load` also refuses what is in it.

    Args:
        name: As in `load`.
        folder: Where the files of named data sets lie.

    Example:
        >>> check("icd10cm", Path("."))
    """
    if name.endswith(".csv"):
        if not Path(name).is_file():
            raise MissingData(f"Expected a CSV file of public data at {name}; there is none.")
    elif name not in NAMES and not is_own(name):
        raise MissingData(
            f"No data set is called {name}. There are {', '.join(NAMES)}, a path that ends in .csv, or module:object."
        )
    elif name in _FILES and not (folder / _FILES[name]).exists():
        raise MissingData(
            f"{name} needs {_FILES[name]} in the data folder (--data); see docs/reproducing-the-paper.md."
        )


# What encoders were called when rows were first stored: their digests of data stay.
_CALLED = {"minilm_torch": "minilm", "minilm": "minilm_onnxruntime"}


def digest(data: Data) -> str:
    """Returns a digest of inputs and labels: what a result was measured on."""
    hashed = hashlib.sha256(
        json.dumps(
            [
                data.name,
                _CALLED.get(data.encoder or "", data.encoder),
                data.held_out,
                *([] if data.by_label else ["whole"]),
            ]
        ).encode()
    )
    for part in (data.inputs, data.unseen_inputs):
        if isinstance(part, np.ndarray) and part.dtype != object:
            hashed.update(np.ascontiguousarray(part).data)
        else:
            for value in part:
                hashed.update(value.tobytes() if isinstance(value, np.ndarray) else str(value).encode() + b"\0")
    for labels in (data.labels, data.unseen_labels):
        hashed.update("\0".join(map(str, labels.tolist())).encode())
    return hashed.hexdigest()


def _clinc150(folder: Path) -> Data:
    stored = json.loads((folder / _FILES[CLINC150]).read_text(encoding="utf-8"))
    parts = [[row[k] for row in stored[name]] for name in ("train", "test") for k in (0, 1)]
    domains = folder / "clinc150_domains.json"
    parents = None
    if domains.exists():
        tree = json.loads(domains.read_text(encoding="utf-8"))
        parents = {label: parent for parent, labels in tree.items() for label in labels}
    return Data(CLINC150, parts[0], np.array(parts[1]), parts[2], np.array(parts[3]), "minilm_torch", parents=parents)


def _clinc150_banking(folder: Path) -> Data:
    """The intents of two domains, a fifth of CLINC150: for runs that go through the encoder."""
    whole = _clinc150(folder)
    if whole.parents is None:
        raise MissingData(f"{CLINC150_BANKING} needs clinc150_domains.json in the data folder (--data).")
    mine = {label for label, parent in whole.parents.items() if parent in _BANKING}
    learned, unseen = (np.isin(labels, list(mine)) for labels in (whole.labels, whole.unseen_labels))
    return replace(
        whole,
        name=CLINC150_BANKING,
        inputs=take(whole.inputs, np.flatnonzero(learned)),
        labels=whole.labels[learned],
        unseen_inputs=take(whole.unseen_inputs, np.flatnonzero(unseen)),
        unseen_labels=whole.unseen_labels[unseen],
    )


def _cifar100(folder: Path) -> Data:
    with np.load(folder / _FILES[CIFAR100]) as stored:
        scale = np.float32(stored["scale"])
        train, test = stored["x_train"] * scale, stored["x_test"] * scale
        names = stored["classes"].astype(str)
        return Data(CIFAR100, train, names[stored["y_train"]], test, names[stored["y_test"]])


def _icd10cm() -> Data:
    """Diagnoses of all chapters: labels are blocks, whose parents are chapters."""
    sample = icd10cm(chapters=tuple(str(i) for i in range(1, 23)), most_per_block=_BENCH_MOST_PER_BLOCK)
    labels = np.array(sample.blocks)
    parents = {b: f"chapter {c}" for b, c in zip(sample.blocks, sample.chapters, strict=True)}
    return Data(
        ICD10CM, list(sample.texts), labels, [], labels[:0], "minilm_torch", parents=parents, held_out=_HELD_OUT
    )


def _icd10cm_blocks() -> Data:
    """Diagnoses of all blocks that have three or more, with the blocks' official titles."""
    import simple_icd_10_cm as icd

    sample = icd10cm(chapters=tuple(str(i) for i in range(1, 23)), most_per_block=150)
    labels = np.array(sample.blocks)
    found, counts = np.unique(labels, return_counts=True)
    kept = np.isin(labels, found[counts >= _FEWEST_OF_A_BLOCK])
    texts = [text for text, keep in zip(sample.texts, kept, strict=True) if keep]
    names = {block: icd.get_description(block) for block in np.unique(labels[kept]).tolist()}
    return Data(ICD10CM_BLOCKS, texts, labels[kept], [], labels[:0], "minilm_torch", held_out=_HELD_OUT, names=names)


def _csv(path: Path, text: str | None, label: str | None) -> Data:
    """A row without a label is left out: it can be used neither to learn nor to test."""
    heading, rows = _table(path)
    if text not in heading or label not in heading:
        raise MissingData(f"Expected text and label in the spec to name columns of {path.name}.")
    at_text, at_label = heading.index(text), heading.index(label)
    labelled = [row for row in rows if row[at_label].strip()]
    if not labelled:
        raise MissingData(f"Expected rows with a label in {path.name}; there are none.")
    labels = np.array([row[at_label] for row in labelled])
    texts = [row[at_text] for row in labelled]
    return Data(str(path), texts, labels, [], labels[:0], "minilm_torch", held_out=_HELD_OUT)


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Returns heading and rows of a CSV file, all of one length."""
    rows: list[list[str]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines)
            for row in filter(None, reader):  # an empty line is no row
                rows.append(row)
                if len(row) != len(rows[0]):
                    raise MissingData(
                        f"Line {reader.line_num} of {path.name} has {len(row)} entries, the first line {len(rows[0])}. "
                        "Quote entries that have a comma."
                    )
    except UnicodeDecodeError as error:
        raise MissingData(f"{path.name} is not in UTF-8. Save it as CSV in UTF-8.") from error
    except (OSError, csv.Error) as error:
        raise MissingData(f"{path.name} cannot be read: {error}.") from error
    return (rows[0], rows[1:]) if rows else ([], [])


# --- the demonstration's sample


# Infections, tumours, diabetes, nerves, eyes, heart, digestion, skin, kidneys, birth, malformations, symptoms: chapters
# of some hundred diagnoses each. The largest ones (injuries, external causes) would be most of the sample.
CHAPTERS = ("1", "2", "4", "6", "7", "9", "11", "12", "14", "15", "17", "18")


def icd10cm(
    *, chapters: tuple[str, ...] = CHAPTERS, most_per_block: int = 150, held_out: float = 0.2, seed: int = 0
) -> Diagnoses:
    """Samples leaf diagnoses, at most a given number of each block; the same for the same seed."""
    try:
        import simple_icd_10_cm as icd
    except ImportError as error:
        raise errors.ReticentError("ICD-10-CM needs: pip install 'reticent[demo]'") from error
    draw = np.random.default_rng(seed)
    rows: list[tuple[str, str, str, str]] = []
    for chapter in chapters:
        for block in icd.get_children(chapter):
            codes = [code for code in icd.get_descendants(block) if icd.is_leaf(code)]
            picked = draw.permutation(len(codes))[:most_per_block]
            rows += [(icd.get_description(codes[i]), codes[i], block, chapter) for i in picked]
    texts, codes_, blocks_, chapters_ = zip(*rows, strict=True)
    return Diagnoses(texts, codes_, blocks_, chapters_, draw.random(len(rows)) < held_out)
