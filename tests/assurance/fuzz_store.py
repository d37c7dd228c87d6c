"""Mutated files of the project itself: model folders, ledgers, specs and results.

Each case changes one file and uses it as a user would, in this process. It must end in one sentence of ours or in a
right result; within time and memory; and write nothing. Where a digest or a hash chain would stop nearly every case,
it is computed anew after the change, so that what lies behind it is tried too.
"""

import contextlib
import copy
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from reticent import errors
from reticent.lab.bench import specs
from reticent.lab.bench.folder import Folder
from reticent.released.account import Account
from reticent.released.contents import refuse_foreign
from reticent.released.ledger_file import SCHEMA, LedgerFile, connect
from tests.assurance.part import Part

SECONDS, MEGABYTES = 2.0, 200
INPUTS = np.eye(2, 8)
_NASTY: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**12,
    10**30,
    -(10**400),
    1e308,
    float("inf"),
    float("nan"),
    "",
    "x" * 10_000,
    "../../etc/passwd",
    "/etc/passwd",
    "\ud800",
    "\x00",
    "a\nb\x1b[2J",
    [],
    {},
    [[[[[[[[[[[[1]]]]]]]]]]]],
    ["a"] * 1_000,
    {"kind": "Composed", "parts": [{"kind": "DpSgd", "noise_multiplier": 1e-9, "rate": 1e-9, "steps": 10**9}]},
)
_TEXTS = ("[" * 5_000, '{"a":' * 5_000, "1" * 5_000, "NaN", "-Infinity", "1e999", '"\\ud800"', "\ufeff{}", "nul")


class Wrong(Exception):
    """A case that ended in a result that is not right."""


# --- mutators


def changed_bytes(draw: random.Random, content: bytes) -> bytes:
    """Flips, cuts, repeats or splices bytes."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5, 30))):
        at = draw.randrange(len(made) + 1)
        match draw.randrange(7):
            case 0 if made:
                made[at % len(made)] ^= 1 << draw.randrange(8)
            case 1 if made:
                made[at % len(made)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x5C, 0x7B))
            case 2:
                del made[at:]
            case 3:
                del made[at : at + draw.randrange(1, 50)]
            case 4:
                made[at:at] = draw.randbytes(draw.randrange(1, 20))
            case 5:
                end = min(len(made), at + draw.randrange(1, 200))
                made[at:at] = made[at:end] * draw.randrange(1, 4)
            case _:
                other = draw.randrange(len(made) + 1)
                made[at : at + 8] = made[other : other + 8]
    return bytes(made)


def changed_json(draw: random.Random, value: Any) -> str:
    """Changes values anywhere in a JSON document: types, sizes, keys twice, nesting."""
    made = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 2, 4))):
        parent, key = draw.choice(list(_places(made)) or [(None, None)])
        if parent is None:
            made = copy.deepcopy(draw.choice(_NASTY))
            continue
        match draw.randrange(5):
            case 0 if isinstance(parent, dict):
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[draw.choice(("", "kind", "\ud800", "x" * 1_000, "format"))] = copy.deepcopy(draw.choice(_NASTY))
            case 2:
                parent[key] = copy.deepcopy(draw.choice([place[place_key] for place, place_key in _places(made)]))
            case _:
                parent[key] = copy.deepcopy(draw.choice(_NASTY))
    text = json.dumps(made)
    if draw.random() < 0.15:
        at = draw.choice([i for i, letter in enumerate(text) if letter in ":,[{"] or [0])
        text = text[: at + 1] + draw.choice(_TEXTS) + text[at + 1 :]
    if draw.random() < 0.05 and text.startswith("{"):
        text = "{" + text[1:-1] + "," + text[1:]  # every key twice
    return text


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


def changed_text(draw: random.Random, text: str) -> str:
    """Changes words and numbers of a text such as TOML."""
    words = ("= 1000000000", '= "x"', "= []", "= [[1]]", "= nan", "= -1", "= 1e400", "= true", "= {}", "= 2026-01-01")
    lines = text.splitlines()
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.randrange(len(lines))
        match draw.randrange(5):
            case 0:
                lines[at] = lines[at].split("=")[0] + draw.choice(words)
            case 1:
                lines.insert(at, lines[draw.randrange(len(lines))])
            case 2:
                lines.insert(
                    at, draw.choice(("[[grid]]", "[grid]", "seeds = 999999999", "a." * 400 + "b = 1", "[" * 900))
                )
            case 3:
                lines[at] = changed_bytes(draw, lines[at].encode()).decode(errors="replace")
            case _:
                lines[at] = lines[at].replace(
                    "]", ", " + ", ".join(map(str, range(draw.choice((3, 300, 30_000))))) + "]"
                )
    return "\n".join(lines)


# --- what is tried


@dataclass(frozen=True)
class Format:
    """One format: how a case is made and used.

    Args:
        name: For the table.
        run: From a source of chance to nothing; raises what a user would see.
    """

    name: str
    run: Callable[[random.Random], None]


class Workshop:
    """A model, a spec and results to mutate; every case starts from the same bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model, self.alone = folder / "model", folder / "without-ledger"
        features, labels = np.repeat(INPUTS, 300, axis=0), ["a"] * 300 + ["b"] * 300
        made = rt.ContinualClassifier(
            labels=rt.PublicLabels(["a", "b", "c"], remap={"aa": "a", ("t", 1): "b"}),
            budget=rt.Budget(epsilon=1.0, delta=1e-5),
            path=self.model,
        )
        made.learn_task(features, labels, name="march").learn_task(features, labels, name="april")
        shutil.copytree(self.model, self.alone, ignore=shutil.ignore_patterns("ledger.sqlite*", "*.lock"))
        self.predicted = rt.load(self.model).predict(INPUTS).tolist()
        self.manifest = json.loads((self.alone / "manifest.json").read_bytes())
        self.labels = json.loads((self.alone / "labels.json").read_bytes())
        self.release = (self.alone / "releases" / "0001.safetensors").read_bytes()
        with LedgerFile.open(self.model) as ledger:
            self.statement = ledger.statement().json()
            self.rows = list(ledger._db.execute("SELECT kind, body FROM entries ORDER BY row"))
        self.ledger = (self.model / "ledger.sqlite").read_bytes()
        self.spec = 'title = "mine"\ndata = ["clinc150"]\nlearner = ["cosine", "peft"]\nlabels = ["base", "released"]\n'
        self.spec += "epsilon = [1, 8]\nseeds = 2\n[[grid]]\nratio = [0, 10]\n"
        self.results = folder / "results"
        with Folder(self.results) as results:
            results.write("runs/0123.json", json.dumps(_RESULT))

    def formats(self) -> tuple[Format, ...]:
        """All formats, in the order of the table."""
        return (
            Format("manifest.json", self.try_manifest),
            Format("labels.json, digest renewed", self.try_labels),
            Format("releases, digest as it was", self.try_damaged_release),
            Format("releases, digest renewed", self.try_release),
            Format("headers of releases, digest renewed", self.try_header),
            Format("ledger.sqlite, bytes", self.try_ledger),
            Format("rows of a ledger, chain renewed", self.try_rows),
            Format("bench specs", self.try_spec),
            Format("bench results", self.try_results),
        )

    # --- model folders

    def try_manifest(self, draw: random.Random) -> None:
        raw = json.dumps(self.manifest).encode()
        self._load_with(
            "manifest.json",
            changed_bytes(draw, raw) if draw.random() < 0.3 else changed_json(draw, self.manifest).encode(),
        )

    def try_labels(self, draw: random.Random) -> None:
        raw = json.dumps(self.labels).encode()
        content = changed_bytes(draw, raw) if draw.random() < 0.3 else changed_json(draw, self.labels).encode()
        self._load_with("labels.json", content, renewed=("public_labels",))

    def try_damaged_release(self, draw: random.Random) -> None:
        content = changed_bytes(draw, self.release)
        self._load_with("releases/0001.safetensors", content)
        if content != self.release:
            raise Wrong("a damaged release was read")

    def try_release(self, draw: random.Random) -> None:
        self._load_with("releases/0001.safetensors", changed_bytes(draw, self.release), renewed=("releases", 0))

    def try_header(self, draw: random.Random) -> None:
        length = int.from_bytes(self.release[:8], "little")
        header, data = json.loads(self.release[8 : 8 + length]), self.release[8 + length :]
        if draw.random() < 0.4:  # what is stored as text inside of it
            about = header["__metadata__"]
            key = draw.choice(list(about))
            about[key] = changed_json(draw, json.loads(about[key]) if key == "event" else about[key])
            text = json.dumps(header)
        elif draw.random() < 0.5:
            array = header[draw.choice([name for name in header if name != "__metadata__"])]
            array["shape"] = [draw.choice((0, 1, 2, 3, 8, -1, 2**31, 2**63, 2**64)) for _ in range(draw.randrange(4))]
            array["dtype"] = draw.choice(("F32", "F64", "F16", "I32", "I64", "U8", "BOOL", "BF16", "F8_E4M3", "C64"))
            text = json.dumps(header)
        else:
            text = changed_json(draw, header)
        raw = text.encode()
        size = draw.choice((len(raw),) * 9 + (0, 2**63, 2**40, len(raw) + 1))
        self._load_with("releases/0001.safetensors", size.to_bytes(8, "little") + raw + data, renewed=("releases", 0))

    def _load_with(self, name: str, content: bytes, *, renewed: tuple[Any, ...] = ()) -> None:
        """Loads and predicts with one file changed, in a folder without a ledger: there the manifest decides."""
        file, manifest = self.alone / name, copy.deepcopy(self.manifest)
        before = file.read_bytes()
        try:
            file.write_bytes(content)
            if renewed:
                entry = manifest
                for step in renewed:
                    entry = entry[step]
                entry["sha256"] = hashlib.sha256(content).hexdigest()
                (self.alone / "manifest.json").write_text(json.dumps(manifest))
            model = rt.load(self.alone)
            found = model.predict(INPUTS).tolist()
            if content == before and found != self.predicted:
                raise Wrong("the same files predict something else")
            known = set(model.classes_.tolist())
            if not all(label in known or label == rt.UNKNOWN for label in found):
                raise Wrong("an unknown label is predicted")
        finally:
            file.write_bytes(before)
            (self.alone / "manifest.json").write_text(json.dumps(self.manifest))

    # --- ledgers

    def try_ledger(self, draw: random.Random) -> None:
        file = self.model / "ledger.sqlite"
        content = _changed_pages(draw, self.ledger) if draw.random() < 0.7 else changed_bytes(draw, self.ledger)
        try:
            file.write_bytes(content)
            if draw.random() < 0.1:
                (self.model / "ledger.sqlite-wal").write_bytes(draw.randbytes(draw.choice((0, 31, 32, 5_000))))
            refuse_foreign(self.model)  # as the command does: rows cut off at the end are noticed by their releases
            with LedgerFile.open(self.model) as ledger:
                if ledger.statement().json() != self.statement:
                    raise Wrong("another statement")
            if rt.load(self.model).predict(INPUTS).tolist() != self.predicted:
                raise Wrong("another prediction")
        finally:
            file.write_bytes(self.ledger)
            for ending in ("-wal", "-shm", "-journal"):
                file.with_name(file.name + ending).unlink(missing_ok=True)

    def try_rows(self, draw: random.Random) -> None:
        rows = [(kind, body) for kind, body in self.rows]
        at = draw.randrange(len(rows))
        kind, body = rows[at]
        rows[at] = (
            draw.choice((kind,) * 9 + ("open", "publish", "void", "spend", "releases", "settings", "other")),
            changed_json(draw, json.loads(body)),
        )
        ledger = LedgerFile(connect(None, "memory"), None)
        try:
            for statement in SCHEMA:
                ledger._db.execute(statement)
            chained = Account()
            for kind, text in rows:
                with contextlib.suppress(errors.ReticentError, KeyError):
                    link = chained.link(kind, text)
                    ledger._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (chained.rows + 1, kind, text, link))
                    chained.add(kind, text)
                chained.rows, chained.chain = chained.rows + (chained.chain != link), link
            ledger.statement().text()
        finally:
            ledger.close()

    # --- specs, results

    def try_spec(self, draw: random.Random) -> None:
        found = specs.read("mine", changed_text(draw, self.spec))
        if len(found.runs) > specs.RUNS_AT_MOST:
            raise Wrong("a spec without a limit")

    def try_results(self, draw: random.Random) -> None:
        file = self.results / "runs" / "0123.json"
        try:
            raw = json.dumps(_RESULT).encode()
            file.write_bytes(changed_bytes(draw, raw) if draw.random() < 0.3 else changed_json(draw, _RESULT).encode())
            found = Folder(self.results).results()
            if found and repr(found["0123"]) != repr(json.loads(file.read_bytes())):  # else run again, or as it stands
                raise Wrong("a result is not what its file says")
        finally:
            file.write_text(json.dumps(_RESULT))


_RESULT: dict[str, Any] = {
    "run": {"data": "clinc150", "learner": "cosine", "labels": "base", "epsilon": 1.0, "seed": 0},
    "status": "done",
    "environment": {"python": "3.11"},
    "accuracy": 0.5,
    "forgetting": None,
    "curve": [0.5, 0.5],
    "aggregations": {"argmax": 0.5},
    "known": 150,
    "seconds": {"learn": 1.0},
    "spent": {"epsilon": 1.0},
    "digests": {"data": "abc"},
}


def _changed_pages(draw: random.Random, content: bytes) -> bytes:
    """Edits headers, cell pointers and cells of a database, which keep its size."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4, 10))):
        page = draw.randrange(max(1, len(made) // 4096)) * 4096
        at = page + draw.choice((draw.randrange(108), draw.randrange(4096)))
        made[at % len(made)] = draw.choice((0, 1, 2, 5, 10, 13, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    return bytes(made)


# --- the harness


@dataclass
class Outcome:
    """What became of the cases of one format."""

    cases: int = 0
    refused: int = 0
    right: int = 0
    slowest: float = 0.0
    faults: tuple[str, ...] = ()


def fuzz(cases: int, folder: Path, *, seed: int | None = None) -> dict[str, Outcome]:
    """Tries as many cases in all, spread over the formats; returns what became of them, by format."""
    seed = secrets.randbits(64) if seed is None else seed
    workshop = Workshop(folder)
    formats, found = workshop.formats(), {}
    before = _tree(folder)
    with unittest.mock.patch("time.sleep"):  # readers look again after a moment: nobody writes here
        for form in formats:
            outcome = found[form.name] = Outcome()
            for number in range(-(-cases // len(formats))):
                _one(form, f"{seed}/{form.name}/{number}", outcome)
            if _tree(folder) != before:
                outcome.faults += (f"{form.name}: files were written or changed",)
    return found


def _one(form: Format, name: str, outcome: Outcome) -> None:
    draw, memory, started = random.Random(name), _peak(), time.process_time()
    try:
        with _alarm():
            form.run(draw)
        outcome.right += 1
    except errors.ReticentError as error:
        outcome.refused += 1
        text = str(error)
        if not text or "\n" in text or len(text) > 1_000:
            outcome.faults += (f"{name}: not one sentence: {text[:80]!r}",)
    except Exception as error:
        outcome.faults += (f"{name}: {type(error).__name__}: {str(error)[:120]}",)
    outcome.cases += 1
    seconds = time.process_time() - started
    outcome.slowest = max(outcome.slowest, seconds)
    if seconds > SECONDS:
        outcome.faults += (f"{name}: {seconds:.1f} s",)
    if _peak() - memory > MEGABYTES:
        outcome.faults += (f"{name}: {_peak() - memory:.0f} MB",)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Ends what does not end by itself."""

    def ring(*_: object) -> None:
        raise TimeoutError("the case did not end")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _peak() -> float:
    """The most memory that this process has used so far, in megabytes."""
    import resource  # Windows has none, and imports this module

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).digest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.endswith(".lock") and file.name != "manifest.json"
    }


def measure(cases: int = 36_000) -> Part:
    """Tries all formats at full size."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        found = fuzz(cases, Path(folder))
    faults = [fault for outcome in found.values() for fault in outcome.faults]
    for fault in faults[:50]:
        print(fault, file=sys.stderr)
    rows = [
        (name, f"{o.cases:,}", f"{o.refused:,}", f"{o.right:,}", f"{o.slowest:.2f} s", str(len(o.faults)))
        for name, o in found.items()
    ]
    total = sum(o.cases for o in found.values())
    return Part(
        title="Mutated files of the project",
        says=(
            f"{total:,} files of model folders, ledgers, specs and results were changed in one place or a few, "
            "and used in one process. Each case must end in one sentence or in a right result, within "
            f"{SECONDS:g} seconds of processor time and {MEGABYTES} MB, and change no other file. Anything else is a "
            "fault."
        ),
        header=("format", "cases", "refused with a sentence", "read, and right", "slowest", "faults"),
        rows=tuple(rows),
        passed=not faults,
    )


if __name__ == "__main__":
    print(measure(int(os.environ.get("CASES", "40000"))).markdown())
