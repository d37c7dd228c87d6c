"""Everything that an outsider sees of one run, up to the noisy values: what must not depend on a single private row."""

import contextlib
import io
import json
import logging
import os
import re
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

import reticent as rt

PUBLIC = ("rows", "noise", "labels", "place", "earlier_rows", "earlier_places", "earlier_noise")
"""Arrays of a release that are no noisy values: which labels have a block, its noise, and the names of new labels; with
memory the place of the task, and of which earlier places there are rows."""


@dataclass(frozen=True)
class Seen:
    """What was seen of one run.

    Args:
        outcome: "returned", or the exception with its message and causes.
        printed: Standard output and error, of Python and of C.
        logs: Level and text of every log record.
        warned: Kind and text of every warning.
        files: By name: size and content, without noisy values, digests and times.
        facts: What the run returned.
    """

    outcome: str
    printed: str
    logs: list[str]
    warned: list[str]
    files: dict[str, tuple[int, str]]
    facts: Any

    def differs(self, other: "Seen") -> dict[str, tuple[Any, Any]]:
        """Returns what is not the same, by field; files one by one."""
        found = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.name != "files"}
        for file in sorted({*self.files, *other.files}):
            found[file] = self.files.get(file), other.files.get(file)
        return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def observe(run: Callable[[Path], Any]) -> Seen:
    """Runs in a new folder, and notes everything that leaves."""
    records: list[str] = []
    handler = logging.Handler(1)
    handler.emit = lambda record: records.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
    outcome, facts = "returned", None
    with (
        tempfile.TemporaryDirectory() as name,
        _descriptors() as printed,
        warnings.catch_warnings(record=True) as warned,
    ):
        folder = Path(name) / "run"
        folder.mkdir()
        warnings.simplefilter("always")
        logging.root.addHandler(handler)
        level = logging.root.level
        logging.root.setLevel(1)
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                facts = run(folder)
        except Exception as error:
            outcome = _told(error)
        finally:
            logging.root.setLevel(level)
            logging.root.removeHandler(handler)
        files = {}
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "data" not in file.relative_to(folder).parts:  # the private data themselves
                files[str(file.relative_to(folder))] = (file.stat().st_size, content(file))
    kinds = [f"{w.category.__name__} {w.message}" for w in warned]
    text = out.getvalue() + printed[0]
    return Seen(*(masked(part, name) for part in (outcome, text, records, kinds, files, facts)))


def content(file: Path) -> str:
    """Returns what a file says, without noisy values."""
    if file.suffix == ".safetensors":
        blob = file.read_bytes()
        arrays = safetensors.numpy.load(blob)
        kept = {name: array.tolist() for name, array in arrays.items() if name in PUBLIC}
        header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])  # its keys have a random order
        return json.dumps([len(blob), header, kept], sort_keys=True)
    if file.suffix == ".sqlite":
        with contextlib.closing(sqlite3.connect(file)) as ledger:
            pages = ledger.execute("PRAGMA page_count").fetchone()
            return json.dumps([pages, ledger.execute("SELECT row, kind, body FROM entries").fetchall()])
    return file.read_bytes().decode("latin-1")


def masked(value: Any, folder: str) -> Any:
    """Takes away the name of the folder, digests, identities, times and addresses of objects."""
    if isinstance(value, str):
        text = value.replace(folder, "FOLDER")
        text = re.sub(r"[0-9a-f]{64}|[0-9a-f]{32}", lambda found: "H" * len(found[0]), text)
        text = re.sub(r"0x[0-9a-f]{8,}|(?<=[Ll]ock )\d+", "ADDRESS", text)
        return re.sub(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?", lambda found: "T" * len(found[0]), text)
    if isinstance(value, dict):
        return {key: masked(part, folder) for key, part in value.items()}
    return [masked(part, folder) for part in value] if isinstance(value, list | tuple) else value


def facts_of(model: rt.ContinualClassifier) -> dict[str, Any]:
    """Returns what a model says of itself, without noisy values."""
    probes = np.eye(2, releases[0].parameters["sums"].shape[1]) if (releases := _sums(model)) else None
    return {
        "repr": repr(model).partition("noise=")[0],
        "classes": model.classes_.tolist(),
        "releases": [
            (r.task, r.labels.labels, r.private, {n: (a.shape, a.dtype.str) for n, a in r.parameters.items()})
            for r in model.releases
        ],
        "events": [repr(r.event) for r in model.releases],
        "spent": model.spent(),
        "statement": model.privacy_statement(),
        "predictions": None if probes is None else model.predict_top_k(probes, 3).shape,
    }


def _sums(model: rt.ContinualClassifier) -> list[Any]:
    return [] if model.encoder is not None else [r for r in model.releases if "sums" in r.parameters]


def _told(error: BaseException | None) -> str:
    """An exception as a traceback would show it, without places in the code."""
    parts = []
    while error is not None:
        parts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return " from ".join(parts)


@contextlib.contextmanager
def _descriptors() -> Iterator[list[str]]:
    """Catches what libraries in C print."""
    found: list[str] = []
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        kept = [os.dup(1), os.dup(2)]
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            for at in (1, 2):
                os.dup2(file.fileno(), at)
            yield found
        finally:
            for at, before in zip((1, 2), kept, strict=True):
                os.dup2(before, at)
                os.close(before)
            file.seek(0)
            found.append(file.read())
