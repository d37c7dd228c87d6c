"""Save and load releases: JSON and safetensors, written whole or not at all. Loading never executes anything."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from reticent import errors
from reticent.labels import Label, LabelSpace, labels_from_json, labels_to_json
from reticent.numerics.files import is_draft, names_in, remove, remove_drafts, write_whole
from reticent.numerics.reading import MEGABYTE, json_of, read_inside
from reticent.privacy import events, stored_events
from reticent.released import settings, tensors
from reticent.released.release import Release

MANIFEST = "manifest.json"
LABELS, RELEASES = settings.LABELS, settings.RELEASES
FORMAT = 4
_LARGEST_MANIFEST, _LARGEST_LABELS, _LARGEST_RELEASE = 64 * MEGABYTE, 512 * MEGABYTE, 4096 * MEGABYTE
_LEDGER = "ledger"
_PUBLIC = stored_events.to_json(events.Public())


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Writes the manifest in place of the one before."""
    # one line for each release: json indents in Python, which takes longer than to learn a task when there are many;
    # names and digests of files hold neither braces nor commas
    releases = json.dumps(list(content["releases"]))[1:-1].replace("}, {", "},\n  {")
    others = {name: value for name, value in content.items() if name != "releases"}
    head = json.dumps({"format": FORMAT, **others}, indent=1).removesuffix("\n}")
    write_whole(folder / MANIFEST, f'{head},\n "releases": [\n  {releases}\n ]\n}}\n')


def read_manifest(folder: Path) -> dict[str, Any]:
    """Reads the manifest; refuses a folder that is not a model, or of a format this version does not know."""
    file = folder / MANIFEST
    if not file.exists():
        raise errors.InvalidValue(f"No model at {folder}. Expected a folder with a {MANIFEST} in it.")
    with readable(file):
        content = json_of(read_inside(folder, MANIFEST, most=_LARGEST_MANIFEST))
        stored = errors.whole("format", content["format"], at_least=1)
    if stored != FORMAT:
        way = "a newer version. Update reticent." if stored > FORMAT else settings.TOO_OLD
        raise errors.InvalidValue(f"{file} was written by {way}")
    return dict(content)


@contextlib.contextmanager
def readable(file: Path) -> Iterator[None]:
    """Refuses, in one sentence, a file whose content is not what was written."""
    try:
        yield
    except errors.ReticentError:
        raise
    except OSError as error:
        sentence = f"{file} cannot be read: {error.strerror}. Try again. Restore it from a backup if it stays so."
        raise errors.StorageError(sentence) from error
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise errors.InvalidValue(f"{file} cannot be read. Restore it from a backup.") from error


def write_labels(folder: Path, labels: LabelSpace, public: Mapping[str, Any]) -> dict[str, str]:
    """Writes the public labels, where others are mapped, and names, once for all tasks; returns the manifest's entry.

    Args:
        folder: The model directory.
        labels: Known before any task.
        public: What `stored_policies.public_json` returned.
    """
    blob = json.dumps({"labels": labels_to_json(labels.labels), **public}).encode()
    if len(blob) > _LARGEST_LABELS:
        raise errors.InvalidValue(
            f"Expected public labels, their mapping and their names in at most {_LARGEST_LABELS:,} bytes."
        )
    write_whole(folder / LABELS, blob)
    return {"file": LABELS, "sha256": hashlib.sha256(blob).hexdigest()}


def read_labels(folder: Path, entry: Mapping[str, str]) -> tuple[tuple[Label, ...], Mapping[str, Any]]:
    """Reads the public labels, and their remap and names; checks the digest."""
    with readable(folder / LABELS):
        stored = json_of(_read(folder, entry, most=_LARGEST_LABELS))
        return labels_from_json(stored["labels"]), stored


def packed(release: Release, identity: str) -> bytes:
    """Returns the content of a release's file; its arrays are in another order each time."""
    about = {
        "task": release.task,
        "event": json.dumps(stored_events.to_json(release.event)),
        "private": json.dumps(release.private),
        _LEDGER: identity,
    }
    arrays = {key: np.ascontiguousarray(array) for key, array in release.parameters.items()}
    # not in the header, which safetensors limits to 100 MB
    arrays[tensors.NAMES] = np.frombuffer(json.dumps(labels_to_json(release.labels.labels)).encode(), dtype=np.uint8)
    content: bytes = safetensors.numpy.save(arrays, metadata=about)
    return content


def write_release(folder: Path, number: int, release: Release | bytes, identity: str) -> dict[str, str]:
    """Writes one release, under a number, and returns its entry for ledger and manifest: file and digest.

    Args:
        folder: The model directory.
        number: From 1.
        release: Or what `packed` made of it.
        identity: Of the ledger.
    """
    file = f"{RELEASES}/{number:04d}.safetensors"
    blob = release if isinstance(release, bytes) else packed(release, identity)
    try:
        (folder / RELEASES).mkdir(exist_ok=True)
        if (folder / RELEASES).is_symlink():
            raise errors.InvalidValue(f"Expected a folder and not a link: {folder / RELEASES}.")
    except OSError as error:
        raise errors.StorageError(f"Cannot make {folder / RELEASES}: {error.strerror}.") from error
    write_whole(folder / file, blob, guarded=True)
    return {"file": file, "sha256": hashlib.sha256(blob).hexdigest()}


def read_release(folder: Path, entry: Mapping[str, str], identity: str) -> Release:
    """Reads one release, and checks its digest and that it belongs to the ledger."""
    blob = _read(folder, entry, most=_LARGEST_RELEASE)
    return unpacked(blob, folder / entry["file"], identity)


def unpacked(blob: bytes, file: Path, identity: str) -> Release:
    """Returns the release that a file holds, and checks that it belongs to the ledger."""
    with readable(file):
        about = _header(blob).about
        if about[_LEDGER] != identity:
            raise errors.InvalidValue(f"{file} belongs to another ledger. Restore it from a backup.")
        parameters = tensors.arrays_of(blob)
        event = stored_events.from_json(json_of(about["event"]))
        labels = labels_from_json(json_of(parameters.pop(tensors.NAMES).tobytes()))
        return Release(
            task=about["task"],
            labels=LabelSpace(labels, event),
            parameters=parameters,
            event=event,
            private={"true": True, "false": False}[about["private"]],
        )


class Unlisted(NamedTuple):
    """A release in a folder that is not listed: its file, and what it says of itself."""

    file: str
    task: str
    ledger: str
    is_public: bool


def unlisted(folder: Path, listed: Sequence[Mapping[str, str]]) -> Iterator[Unlisted]:
    """Yields the releases in the folder that are not listed; one that a writer removes meanwhile is none."""
    for file in _releases_among(_strays(folder, listed), folder):
        name = f"{RELEASES}/{file.name}"
        with readable(file), contextlib.suppress(FileNotFoundError):
            about = _header_in(folder, name).about
            yield Unlisted(name, about["task"], about[_LEDGER], json_of(about["event"]) == _PUBLIC)


def left_behind(folder: Path, listed: Sequence[Mapping[str, str]], identity: str) -> list[str]:
    """Returns drafts of releases, and releases of this ledger that are not listed: somebody may have read them.

    Public labels alone are no release of examples.
    """
    with readable(folder / RELEASES):
        drafts = [f"{RELEASES}/{name}" for name in _strays(folder, listed) if is_draft(name)]
        mine = (release for release in unlisted(folder, listed) if release.ledger == identity)
        return drafts + [release.file for release in mine if not release.is_public]


def read_unlisted(folder: Path, file: str, identity: str) -> tuple[bytes, Release]:
    """Reads a release that is not listed, whole: its bytes, and what they say."""
    with readable(folder / file):
        blob = read_inside(folder, file, most=_LARGEST_RELEASE)
    return blob, unpacked(blob, folder / file, identity)


def remove_unlisted(folder: Path, listed: Sequence[Mapping[str, str]], identity: str) -> None:
    """Removes what killed processes have left: drafts, and releases of this ledger that are not listed."""
    with readable(folder):
        if (folder / RELEASES).is_symlink():
            raise errors.InvalidValue(f"Expected a folder and not a link: {folder / RELEASES}.")
        remove_drafts(folder)
        remove(folder / RELEASES / name for name in _strays(folder, listed) if is_draft(name))
        mine = [release.file for release in unlisted(folder, listed) if release.ledger == identity]
        remove(folder / file for file in mine)


def _strays(folder: Path, listed: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns what lies among the releases and is not listed, by one look at the folder."""
    return names_in(folder / RELEASES, but={entry["file"][len(RELEASES) + 1 :] for entry in listed})


def _releases_among(names: Sequence[str], folder: Path) -> list[Path]:
    return [folder / RELEASES / name for name in names if name.endswith(".safetensors") and name[0] != "."]


def _header_in(folder: Path, name: str) -> tensors.Header:
    """The header of a file that nobody vouches for: its arrays are not read."""
    return _header(read_inside(folder, name, most=_LARGEST_RELEASE, first=tensors.HEADER_BYTES))


def _header(blob: bytes) -> tensors.Header:
    header = tensors.header_of(blob)
    if not {"task", "event", "private", _LEDGER} <= set(header.about):
        raise ValueError("Expected the header of a release.")
    return header


def _read(folder: Path, entry: Mapping[str, str], *, most: int) -> bytes:
    """Reads a file of the model once, and checks the digest of what it read."""
    if not settings.is_entry(entry):
        raise errors.InvalidValue(f"{folder} names a file outside of it. Restore it from a backup.")
    file = folder / entry["file"]
    try:
        blob = read_inside(folder, entry["file"], most=most)
    except OSError as error:
        raise errors.InvalidValue(f"{file} is missing or unreadable. Restore it from a backup.") from error
    if hashlib.sha256(blob).hexdigest() != entry["sha256"]:
        raise errors.InvalidValue(f"{file} is damaged: its digest differs. Restore it from a backup.")
    return blob
