"""Watches the file calls that a child process makes on one folder, and lets one of them fail or kill the child.

SQLite writes from C, so nothing in Python sees its calls: this is a small tracer (ptrace, through ctypes) for Linux on
x86-64 and ARM64. `available` tries it out, since some containers forbid it.
"""

import contextlib
import ctypes
import errno
import functools
import json
import os
import platform
import signal
import struct
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

# --- what the kernel says (ptrace.h, elf.h)

_TRACEME, _CONT, _DETACH, _SYSCALL, _OPTIONS, _GETREGS, _SETREGS, _INFO = 0, 7, 17, 24, 0x4200, 0x4204, 0x4205, 0x420E
_SYSGOOD, _FOLLOW, _EXITKILL = 1, 2 | 4 | 8, 1 << 20
_STATUS_SET, _ARM_CALL_SET = 1, 0x404
_ALL = 0x40000000  # threads too
_ENTRY, _EXIT = 1, 2
_AT_CWD = -100


@dataclass(frozen=True)
class _Machine:
    """Where a machine keeps number, third argument and result of a call among its registers."""

    registers: int
    number: int
    third: int
    result: int
    calls: dict[int, str]


_X86 = """0 read 1 write 2 open 4 stat 5 fstat 6 lstat 9 mmap 17 pread64 18 pwrite64 20 writev 21 access 72 fcntl
73 flock 74 fsync 75 fdatasync 76 truncate 77 ftruncate 82 rename 83 mkdir 84 rmdir 85 creat 86 link 87 unlink
90 chmod 91 fchmod 93 fchown 217 getdents64 257 openat 258 mkdirat 262 newfstatat 263 unlinkat 264 renameat 265 linkat
268 fchmodat 269 faccessat 285 fallocate 316 renameat2 332 statx 439 faccessat2 452 fchmodat2"""
_ARM = """25 fcntl 32 flock 34 mkdirat 35 unlinkat 37 linkat 38 renameat 45 truncate 46 ftruncate 47 fallocate
48 faccessat 52 fchmod 53 fchmodat 55 fchown 56 openat 61 getdents64 63 read 64 write 66 writev 67 pread64 68 pwrite64
79 newfstatat 80 fstat 82 fsync 83 fdatasync 222 mmap 276 renameat2 291 statx 439 faccessat2 452 fchmodat2"""


def _table(text: str) -> dict[int, str]:
    words = text.split()
    return dict(zip(map(int, words[::2]), words[1::2], strict=True))


_MACHINES = {
    "x86_64": _Machine(registers=27, number=15, third=12, result=10, calls=_table(_X86)),
    "aarch64": _Machine(registers=34, number=8, third=2, result=0, calls=_table(_ARM)),
}


class Kind(Enum):
    """What a call does."""

    WRITE = "write"
    SYNC = "sync"
    NAME = "name"  # makes, renames or removes a name, or sets its mode
    OPEN = "open"
    LOCK = "lock"
    MAP = "map"
    READ = "read"
    LOOK = "look"

    @property
    def changes(self) -> bool:
        """Whether a kill before it leaves other files than a kill after it, or another lock."""
        return self not in (Kind.OPEN, Kind.READ, Kind.LOOK)


_BY_DESCRIPTOR = {
    "write pwrite64 writev ftruncate fallocate": Kind.WRITE,
    "fsync fdatasync": Kind.SYNC,
    "fchmod fchown": Kind.NAME,
    "flock fcntl": Kind.LOCK,
    "read pread64 getdents64": Kind.READ,
    "fstat": Kind.LOOK,
}
_BY_PATH: dict[
    str, tuple[Kind, list[tuple[int | None, int]]]
] = {  # which arguments are paths, and which ones the folders that they start from
    "truncate": (Kind.WRITE, [(None, 0)]),
    "rename link": (Kind.NAME, [(None, 0), (None, 1)]),
    "mkdir rmdir creat unlink chmod": (Kind.NAME, [(None, 0)]),
    "mkdirat unlinkat fchmodat fchmodat2": (Kind.NAME, [(0, 1)]),
    "renameat renameat2 linkat": (Kind.NAME, [(0, 1), (2, 3)]),
    "stat lstat access": (Kind.LOOK, [(None, 0)]),
    "newfstatat faccessat faccessat2 statx": (Kind.LOOK, [(0, 1)]),
    "open": (Kind.OPEN, [(None, 0)]),
    "openat": (Kind.OPEN, [(0, 1)]),
}
_DESCRIPTOR = {name: kind for names, kind in _BY_DESCRIPTOR.items() for name in names.split()}
_PATHS = {name: found for names, found in _BY_PATH.items() for name in names.split()}
_SET_LOCKS = (6, 7, 37, 38)  # F_SETLK, F_SETLKW and those of open files
_HALVES = ("write", "pwrite64")


@dataclass(frozen=True)
class Call:
    """One call on the folder.

    Args:
        name: As the kernel names it.
        kind: What it does.
        file: On which file, from the folder.
        halves: Whether it can end in the middle.
    """

    name: str
    kind: Kind
    file: str
    halves: bool


@dataclass(frozen=True)
class Fault:
    """What happens at one call.

    Args:
        at: Which call, counted from 0.
        error: The error that it returns; None kills the process.
        when: "before" it was made, "inside" (half of the bytes are written), or "after".
        stays: Whether all later writes fail in the same way, as on a full disk.
    """

    at: int
    error: int | None = None
    when: str = "before"
    stays: bool = False

    def __str__(self) -> str:
        what = "SIGKILL" if self.error is None else errno.errorcode[self.error]
        return f"{what} {self.when} call {self.at}{' and from then on' if self.stays else ''}"


@dataclass(frozen=True)
class Ended:
    """How a child ended: the calls it made on the folder, whether it was killed, and what it told."""

    calls: tuple[Call, ...]
    killed: bool
    told: Any


# --- the tracer

_libc: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None  # see `unavailable`


def _ptrace(request: int, process: int, address: int = 0, data: Any = 0) -> int:
    found = _libc.ptrace(ctypes.c_long(request), process, ctypes.c_void_p(address), data)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(found)


def watched(act: Callable[[], Callable[[], Any]], folder: Path, fault: Fault | None = None) -> Ended:
    """Runs a function in a child of this process, watches its calls on a folder, and makes one of them fail.

    Args:
        act: Prepares, and returns what is watched. That returns what is then run without being watched, whose result
            (JSON) is returned, if the child lives.
        folder: Calls on files in it are counted and may fail.
        fault: None watches only.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # newer Pythons warn of forks beside threads
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        os.close(reading)
        _run(act, writing)
    os.close(writing)
    try:
        calls, killed = _Watch(child, folder.resolve(), fault).run()
        with os.fdopen(reading, "rb") as stream:
            told = stream.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    return Ended(tuple(calls), killed, json.loads(told) if told else None)


def _run(act: Callable[[], Callable[[], Any]], writing: int) -> None:
    """In the child: never returns."""
    status = 1
    try:
        os.setpgid(0, 0)
        watched_part = act()
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        rest = watched_part()
        os.kill(os.getpid(), signal.SIGUSR2)  # the watch ends here
        os.write(writing, json.dumps(rest()).encode())
        status = 0
    except BaseException as error:
        import traceback

        traceback.print_exception(error)
        os.write(writing, json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode())
    finally:
        os._exit(status)


class _Watch:
    """One child and its threads, from the first stop to the end."""

    def __init__(self, child: int, folder: Path, fault: Fault | None) -> None:
        self._machine = _MACHINES[platform.machine()]
        self._child, self._folder, self._fault = child, str(folder), fault
        self._calls: list[Call] = []
        self._to_do: dict[int, Callable[[], None]] = {}  # when a thread comes out of its call
        self._started = False

    def run(self) -> tuple[list[Call], bool]:
        """Watches until the child ends; returns its calls, and whether it was killed."""
        while True:
            thread, status = os.waitpid(-self._child if self._started else self._child, _ALL)
            if os.WIFSTOPPED(status):
                self._stopped(thread, os.WSTOPSIG(status), status >> 16)
            elif thread == self._child:
                return self._calls, os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def _stopped(self, thread: int, by: int, event: int) -> None:
        again, passed_on = _SYSCALL, 0
        if by == signal.SIGSTOP and not self._started:
            _ptrace(_OPTIONS, thread, 0, _SYSGOOD | _FOLLOW | _EXITKILL)
            self._started = True
        elif by == signal.SIGTRAP | 0x80:
            self._called(thread)
        elif by == signal.SIGUSR2 and thread == self._child:
            again = _DETACH
        elif not event and by not in (signal.SIGSTOP, signal.SIGTRAP):
            passed_on = by
        with contextlib.suppress(ProcessLookupError):  # killed
            _ptrace(again, thread, 0, passed_on)

    def _called(self, thread: int) -> None:
        info = ctypes.create_string_buffer(88)
        _ptrace(_INFO, thread, len(info), info)
        if info.raw[0] == _EXIT:
            self._to_do.pop(thread, lambda: None)()
            return
        number, *arguments = struct.unpack_from("<7Q", info.raw, 24)
        name = self._machine.calls.get(number)
        call = None if name is None else self._on_folder(thread, name, arguments)
        if call is None:
            return
        place, fault = len(self._calls), self._fault
        self._calls.append(call)
        if fault is None or place < fault.at:
            return
        if place == fault.at or (fault.stays and call.kind in (Kind.WRITE, Kind.SYNC)):
            self._inject(thread, fault, arguments[2])

    def _inject(self, thread: int, fault: Fault, count: int) -> None:
        if fault.error is None:
            end = functools.partial(os.kill, self._child, signal.SIGKILL)
        else:
            end = functools.partial(self._change, thread, self._machine.result, -fault.error)
        if fault.when == "inside":
            self._change(thread, self._machine.third, count // 2)
        if fault.when == "before":
            self._change(thread, self._machine.number, -1)  # no call: it is not made
            if fault.error is None:
                end()
                return
        self._to_do[thread] = end

    def _change(self, thread: int, register: int, value: int) -> None:
        """Changes one register."""
        if platform.machine() == "aarch64" and register == self._machine.number:
            self._set(thread, _ARM_CALL_SET, ctypes.create_string_buffer(struct.pack("<i", value), 4), write=True)
            return
        kept = ctypes.create_string_buffer(8 * self._machine.registers)
        self._set(thread, _STATUS_SET, kept, write=False)
        struct.pack_into("<q", kept, 8 * register, value)
        self._set(thread, _STATUS_SET, kept, write=True)

    def _set(self, thread: int, which: int, values: Any, *, write: bool) -> None:
        vector = (ctypes.c_size_t * 2)(ctypes.addressof(values), len(values))
        _ptrace(_SETREGS if write else _GETREGS, thread, which, ctypes.byref(vector))

    # --- which file a call is on

    def _on_folder(self, thread: int, name: str, arguments: list[int]) -> Call | None:
        if name in _DESCRIPTOR or name == "mmap":
            kind = _DESCRIPTOR.get(name, Kind.MAP)
            if name == "fcntl" and arguments[1] not in _SET_LOCKS:
                return None
            files = [self._link(thread, f"fd/{_signed(arguments[4 if name == 'mmap' else 0])}")]
        else:
            kind, places = _PATHS[name]
            files = [self._path(thread, None if at is None else arguments[at], arguments[path]) for at, path in places]
            flags = arguments[1 if name == "open" else 2]
            if kind is Kind.OPEN and flags & (os.O_CREAT | os.O_TRUNC):
                kind = Kind.NAME
        inside = [file for file in files if file == self._folder or file.startswith(self._folder + os.sep)]
        if not inside:
            return None
        halves = name in _HALVES and arguments[2] > 1
        return Call(name, kind, os.path.relpath(inside[-1], self._folder), halves)

    def _link(self, thread: int, name: str) -> str:
        try:
            return os.readlink(f"/proc/{thread}/{name}")
        except OSError:
            return ""

    def _path(self, thread: int, start: int | None, address: int) -> str:
        with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
            try:
                memory.seek(address)
                text = memory.read(4096).partition(b"\0")[0].decode(errors="replace")
            except OSError:
                return ""
        if os.path.isabs(text):
            return os.path.normpath(text)
        at = _AT_CWD if start is None else _signed(start)
        base = self._link(thread, "cwd" if at == _AT_CWD else f"fd/{at}")
        return os.path.normpath(os.path.join(base, text)) if base else ""


def _signed(value: int) -> int:
    return int(ctypes.c_int(value & 0xFFFFFFFF).value)


@functools.cache
def unavailable() -> str | None:
    """Returns why calls cannot be watched here, or None: it makes one write of a child fail and sees whether it did."""
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        return "watching file calls needs Linux on x86-64 or ARM64"
    with tempfile.TemporaryDirectory() as name:

        def act() -> Callable[[], Callable[[], Any]]:
            def write() -> Callable[[], Any]:
                file = os.open(Path(name, "file"), os.O_WRONLY | os.O_CREAT)
                try:
                    os.write(file, b"content")
                except OSError as error:
                    code = error.errno
                    return lambda: code
                return lambda: None

            return write

        try:
            found = watched(act, Path(name), Fault(at=1, error=errno.ENOSPC))
        except OSError as error:
            return f"this machine does not let a process be watched ({error.strerror})"
        works = found.told == errno.ENOSPC and [call.name for call in found.calls] == ["openat", "write"]
    return None if works else "this machine does not let calls of a process be changed"
