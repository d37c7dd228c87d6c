"""Mutated files, and a guard on what reading one may cost and touch. Shared by all fuzzers of the assurance page."""

import contextlib
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from reticent import errors

_HANGS = 120.0  # seconds of the clock until a case is stopped; a busy machine may need some
_WORDS = [
    bytes.fromhex(word)
    for word in ("00", "01", "7f", "80", "ff", "ffff", "ff7f", "ffffff7f", "00000080", "ffffffff", "ff" * 8, "00" * 8)
]
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_NEVER = {"os.system", "subprocess.Popen", "pickle.find_class", "os.symlink", "socket.connect"}
_CHANGES = {"os.remove": 1, "os.chmod": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.truncate": 1, "os.link": 2}


class Stopped(BaseException):
    """A case took so long that it was stopped."""


def mutated(content: bytes, draw: random.Random, tokens: Sequence[bytes] = ()) -> bytes:
    """Returns a file with up to eight changes: bits, bytes, numbers, tokens, and parts cut, moved or repeated.

    >>> mutated(b"child,parent", random.Random(1)) != b"child,parent"
    True
    """
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1)
        part = slice(at, at + draw.choice((1, 2, 4, 16, 200)))
        match draw.randrange(8):
            case 0 if at < len(data):
                data[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(data):
                data[at] = draw.randrange(256)
            case 2:
                word = draw.choice(_WORDS)
                data[at : at + len(word)] = word
            case 3:
                del data[part]
            case 4:
                data[at:at] = data[part] * draw.choice((1, 2, 50))
            case 5 if tokens:
                data[at:at] = draw.choice(tokens)
            case 6 if draw.random() < 0.2:
                del data[at:]
            case _:
                there = draw.randrange(len(data) + 1)
                data[there:there] = data[part]
    return bytes(data)


@dataclass
class Tally:
    """What became of the cases of one kind.

    Attributes:
        cases: How many were tried.
        read: How many gave a result.
        refused: How many gave a refusal of one sentence.
        seconds: The longest one.
        megabytes: The one that took most memory.
        faults: What went wrong otherwise, and how often.
    """

    cases: int = 0
    read: int = 0
    refused: int = 0
    seconds: float = 0.0
    megabytes: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)

    def row(self, name: str) -> tuple[str, ...]:
        """Returns a line of the assurance page."""
        counts = (f"{self.cases:,}", f"{self.read:,}", f"{self.refused:,}")
        worst = f"{self.seconds:.2f} s", f"{self.megabytes:.0f} MB"
        return (name, *counts, *worst, "; ".join(f"{n} x {what}" for what, n in self.faults.items()) or "none")


class Guard:
    """Runs cases one by one and tallies them: a refusal is one sentence, and nothing is touched outside of a folder.

    Args:
        folder: Where a case may write.
        seconds: Of the processor that a case may take.
        megabytes: By which the process may grow in a case.
    """

    def __init__(self, folder: Path, *, seconds: float = 2.0, megabytes: float = 200.0) -> None:
        self._inside, self._seconds, self._megabytes = os.path.realpath(folder), seconds, megabytes
        self._thread, self._touched = 0, Counter[str]()
        self._devices = (os.devnull, "/proc/self/clear_refs", "/dev/tty")
        sys.addaudithook(self._audit)  # for good: a hook cannot be removed

    def run(self, case: Callable[[], object], tally: Tally, *, must_pass: bool = False) -> object:
        """Runs a case and returns its result, None where it was refused.

        Args:
            case: What to try.
            tally: Where it is counted.
            must_pass: Whether a refusal is a fault too: what differs are private rows alone.
        """
        result, fault = None, None
        tally.cases += 1
        with self._watching() as cost:
            try:
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    result = case()
                tally.read += 1
                fault = f"a warning: {told[0].category.__name__}" if told else None
            except errors.ReticentError as refusal:
                tally.refused += 1
                fault = "a refusal by rows" if must_pass else _bad_sentence(str(refusal))
            except Stopped:
                fault = f"more than {_HANGS:g} s"
            except AssertionError as wrong:
                fault = f"a wrong result: {wrong}"
            except Exception as error:
                fault = f"{type(error).__name__}"
        tally.seconds, tally.megabytes = max(tally.seconds, cost.seconds), max(tally.megabytes, cost.megabytes)
        if fault is None and cost.seconds > self._seconds:
            fault = f"more than {self._seconds:g} s"
        if fault is None and cost.megabytes > self._megabytes:
            fault = f"more than {self._megabytes:g} MB"
        tally.faults.update([] if fault is None else [fault])
        tally.faults.update(self._touched)
        self._touched.clear()
        return result

    @contextlib.contextmanager
    def _watching(self) -> Iterator["_Cost"]:
        cost, start = _Cost(), time.process_time()
        before = _memory(reset=True)
        self._thread = threading.get_ident()
        try:
            with _alarm():
                yield cost
        finally:
            self._thread = 0
            cost.seconds, cost.megabytes = time.process_time() - start, max(0.0, _memory() - before)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._thread != threading.get_ident():
            return
        if event in _NEVER:
            self._touched[event] += 1
        paths: tuple[Any, ...] = ()
        if event == "open":
            path, mode, flags = arguments
            if any(letter in (mode or "") for letter in "wax+") or (flags or 0) & _WRITES:
                paths = (path,)
        elif event in _CHANGES:
            paths = arguments[: _CHANGES[event]]
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike) and not self._may_touch(os.fsdecode(path)):
                self._touched[f"{event} outside"] += 1

    def _may_touch(self, path: str) -> bool:
        return path in self._devices or f"{os.path.realpath(path)}/".startswith(f"{self._inside}/")


@dataclass
class _Cost:
    seconds: float = 0.0
    megabytes: float = 0.0


def _bad_sentence(text: str) -> str | None:
    """A refusal is one line that ends as a sentence does."""
    good = text.endswith((".", "?")) and "\n" not in text and len(text) < 1_000
    return None if good else "a refusal that is no sentence"


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Stops what hangs, where the system can."""

    def stop(*_: int | FrameType | None) -> None:
        raise Stopped

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _HANGS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _memory(*, reset: bool = False) -> float:
    """Returns the largest size of this process since the last reset, in MB; 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1e3
    return 0.0
