"""What Windows and macOS lack, or do otherwise: taken away in a process of its own, in which everything is then tried.

It is no test on these systems: that is the matrix of `.github/workflows/ci.yml`.
"""

import ast
import contextlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

from reticent.numerics import databases, files
from tests.test_boundary import SOURCE

TESTS = Path(__file__).parent

# Modules that Windows has not got; `posix` itself stays, since Python's own modules use it here.
ABSENT = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")

# Before our code is imported, what it uses is imported as it is here.
OTHERS = """
import cryptography.hazmat.primitives.ciphers.algorithms, filelock, numba, numpy as np, rich.progress, sqlite3
import safetensors.numpy, scipy.optimize, scipy.special, scipy.stats, sklearn.base, typer
filelock.FileLock = filelock.SoftFileLock  # its lock for Windows needs Windows
"""

# Then what Windows lacks is taken away. There an open file can neither be replaced nor removed, and `os.open` opens no
# folder.
WINDOWS = f"""
import os, pathlib, signal, stat, sys

GONE = '''O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC WNOHANG chown chroot fchmod fork forkpty geteuid getuid
getgid getegid getpgid getppgid getloadavg getsid initgroups kill killpg lchown mkfifo mknod nice pread pwrite
posix_spawn register_at_fork sched_getaffinity setsid statvfs sync uname wait waitpid'''.split()
for name in GONE:
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGALRM", "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "alarm", "setitimer", "pause"):
    delattr(signal, name)
for name in {ABSENT}:
    sys.modules[name] = None
os.name = "nt"
sys.modules[pathlib.Path.__module__].WindowsPath = pathlib.PosixPath  # in another module from Python 3.13 on
os.supports_fd = os.supports_fd - {{os.chmod}}

def refusing_open_files(call):
    def checked(*paths, **more):
        inodes = {{os.stat(path, follow_symlinks=False).st_ino for path in paths if os.path.lexists(path)}}
        for number in os.listdir("/proc/self/fd"):
            try:
                opened = os.fstat(int(number))
            except OSError:
                continue
            if stat.S_ISREG(opened.st_mode) and opened.st_ino in inodes:
                raise PermissionError(13, "The process cannot access the file because it is being used")
        return call(*paths, **more)
    return checked

for name in ("replace", "rename", "unlink", "remove"):
    setattr(os, name, refusing_open_files(getattr(os, name)))
real_open = os.open

def opened(path, *more, **others):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied")
    return real_open(path, *more, **others)

os.open = opened
"""

EVERYTHING = """
import importlib, pkgutil, warnings
import reticent as rt

sys.modules["torch"] = None  # it would look for Windows' own libraries
for module in pkgutil.walk_packages(rt.__path__, "reticent."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
del sys.modules["torch"]
warnings.simplefilter("ignore")
folder = pathlib.Path(sys.argv[1])
budget = rt.Budget(epsilon=20.0, delta=1e-5, tasks_per_person=2)
made = dict(labels=rt.PublicLabels(["a", "b"]), budget=budget)
x, y = np.repeat(np.eye(2, 4), 200, axis=0), ["a"] * 200 + ["b"] * 200
model = rt.ContinualClassifier(path=folder / "model", **made)
model.learn_task(x, y, name="march")
model = rt.load(folder / "model")
model.learn_task(x, y, name="april")
model.save(folder / "copy")
for place in ("model", "copy"):
    again = rt.load(folder / place)
    assert again.predict(np.eye(2, 4)).tolist() == ["a", "b"]
    assert again.statement().private and len(again.statement().spends) == 2
kept = rt.Memory(vault=folder / "vault", horizon=4)
model = rt.ContinualClassifier(path=folder / "remembers", memory=kept, **made)
model.learn_task(x, y, name="march").learn_task(x, y, name="april")
from reticent import vaults
vaults.rotate(folder / "vault")
assert not list(folder.rglob(".*"))
print("all of it works")
"""


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="sees open files in /proc")
def test_everything_is_imported_and_learns_without_what_windows_lacks(tmp_path):
    assert run(OTHERS + WINDOWS + EVERYTHING, tmp_path).endswith("all of it works\n")


# The twins: each of these must fail there.
CANNOT = {
    "os.register_at_fork(after_in_child=print)": "AttributeError",
    "import fcntl": "ModuleNotFoundError",
    "os.open('.', os.O_RDONLY)": "PermissionError",
    "stream = open(sys.argv[1] + '/note', 'w'); os.replace(stream.name, stream.name + '2')": "PermissionError",
}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="sees open files in /proc")
def test_code_that_windows_cannot_run_is_noticed(tmp_path):
    tried = f"""
for code in {list(CANNOT)}:
    try:
        exec(code)
    except Exception as error:
        print(type(error).__name__)
"""
    assert run(WINDOWS + tried, tmp_path).split() == list(CANNOT.values())


def imported_at_once(path: Path) -> set[str]:
    """Modules that a file imports as soon as it is imported itself."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("root", [SOURCE, TESTS], ids=["src", "tests"])
def test_no_module_imports_at_once_what_windows_lacks(root):
    assert {path for path in root.rglob("*.py") if imported_at_once(path) & set(ABSENT)} == set()


def test_macos_empties_the_cache_of_the_drive(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(
        sys.modules, "fcntl", types.SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda _, what: asked.append(what))
    )
    monkeypatch.setattr("os.fsync", lambda _: asked.append("fsync"))
    files.write_whole(tmp_path / "note", "kept")
    assert set(asked) == {51}
    assert len(asked) >= 1


def test_a_file_system_without_that_call_is_synced_as_elsewhere(tmp_path, monkeypatch):
    asked = []

    def refuse(_, what):
        raise OSError(45, "Operation not supported")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "fcntl", types.SimpleNamespace(F_FULLFSYNC=51, fcntl=refuse))
    monkeypatch.setattr("os.fsync", lambda _: asked.append("fsync"))
    files.write_whole(tmp_path / "note", "kept")
    assert asked


def test_databases_empty_the_cache_too():
    import sqlite3

    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        databases.harden(database, longest=1000)
        asked = [database.execute(f"PRAGMA {name}").fetchone() for name in ("fullfsync", "checkpoint_fullfsync")]
    assert asked == [(1,), (1,)]


def test_without_pyarrow_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    from reticent import errors, readers

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "march.parquet").write_bytes(b"PAR1")
    with pytest.raises(errors.ReticentError, match=r"Parquet files need pyarrow: pip install 'reticent\[parquet\]'"):
        readers.read(tmp_path / "march.parquet", readers.Columns(text="note"), labelled=False)
