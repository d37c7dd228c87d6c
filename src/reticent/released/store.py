"""Save and load releases: JSON and safetensors, written whole or not at all. Loading never executes anything."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from reticent import errors
from reticent.labels import Label, LabelSpace, labels_from_json, labels_to_json
from reticent.privacy import events
from reticent.released.release import Release

MANIFEST = "manifest.json"
LABELS = "labels.json"
RELEASES = "releases"
FORMAT = 3
_NAMES = "labels"


def write_manifest(folder: Path, settings: Mapping[str, Any]) -> None:
    """Writes the manifest in place of the one before, whole or not at all."""
    text = json.dumps({"format": FORMAT, **settings}, indent=1)
    _write(folder / MANIFEST, text.encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Reads the manifest; refuses a folder that is not a model, or of a newer format."""
    file = folder / MANIFEST
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        stored = int(settings["format"])
    except FileNotFoundError as error:
        raise errors.InvalidValue(f"No model at {folder}. Expected a folder with a {MANIFEST} in it.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.InvalidValue(f"{file} cannot be read. Restore it from a backup.") from error
    if stored != FORMAT:
        way = "a newer version. Update reticent." if stored > FORMAT else "a version before the first release."
        raise errors.InvalidValue(f"{file} was written by {way}")
    checked: dict[str, Any] = settings
    return checked


def write_labels(folder: Path, labels: LabelSpace, remap: Mapping[str, Any] | None) -> dict[str, str]:
    """Writes the public labels and where others are mapped, once for all tasks; returns the manifest's entry."""
    blob = json.dumps({"labels": labels_to_json(labels.labels), "remap": remap}).encode()
    _write(folder / LABELS, blob)
    return {"file": LABELS, "sha256": hashlib.sha256(blob).hexdigest()}


def read_labels(folder: Path, entry: Mapping[str, str]) -> tuple[tuple[Label, ...], Mapping[str, Any] | None]:
    """Reads the public labels and their remap, and checks the digest."""
    stored = json.loads(_read(folder, entry))
    return labels_from_json(stored["labels"]), stored["remap"]


def write_release(folder: Path, number: int, release: Release) -> dict[str, str]:
    """Writes one release and returns its entry for the manifest: file name and digest."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", release.task).strip("-.") or "task"
    file = f"{RELEASES}/{number:04d}-{name[:60]}.safetensors"
    about = {
        "task": release.task,
        "event": json.dumps(events.to_json(release.event)),
        "private": json.dumps(release.private),
    }
    arrays = {key: np.ascontiguousarray(array) for key, array in release.parameters.items()}
    # not in the header, which safetensors limits to 100 MB
    arrays[_NAMES] = np.frombuffer(json.dumps(labels_to_json(release.labels.labels)).encode(), dtype=np.uint8)
    blob = safetensors.numpy.save(arrays, metadata=about)
    (folder / RELEASES).mkdir(exist_ok=True)
    _write(folder / file, blob)
    return {"file": file, "sha256": hashlib.sha256(blob).hexdigest()}


def read_release(folder: Path, entry: Mapping[str, str]) -> Release:
    """Reads one release and checks its digest."""
    _read(folder, entry)
    with safetensors.safe_open(folder / entry["file"], framework="np") as opened:
        about = opened.metadata()
        parameters = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118 (not a mapping)
    event = events.from_json(json.loads(about["event"]))
    labels = labels_from_json(json.loads(parameters.pop(_NAMES).tobytes()))
    return Release(
        task=about["task"],
        labels=LabelSpace(labels, event),
        parameters=parameters,
        event=event,
        private=json.loads(about["private"]),
    )


def _read(folder: Path, entry: Mapping[str, str]) -> bytes:
    """Reads a file of the manifest and checks its digest."""
    file = folder / entry["file"]
    try:
        blob = file.read_bytes()
    except OSError as error:
        raise errors.InvalidValue(f"{file} is missing or unreadable. Restore it from a backup.") from error
    if hashlib.sha256(blob).hexdigest() != entry["sha256"]:
        raise errors.InvalidValue(f"{file} is damaged: its digest differs. Restore it from a backup.")
    return blob


def _write(file: Path, content: bytes) -> None:
    """Writes to a temporary name, syncs, renames, syncs the folder: a kill leaves the old file or the new one."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(draft, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, file)
        descriptor = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise errors.InvalidValue(f"Cannot write {file}: {error.strerror}.") from error
