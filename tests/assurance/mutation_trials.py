"""Tries mutants: each in a forked child of a process that has imported everything, by the tests that reach its lines.

The code of a function is exchanged in a child of a process that has collected the tests: a few hundredths of a second.
What runs at import and what numba compiles is imported anew, with the change, in a child of a process that has imported
all libraries: a second. So is a mutant that survived the first way in a function that runs while the tests are
imported, for values made then may have hidden it. A loop that numba compiles is compiled again alone first: importing
all of them takes many seconds.

A kill counts if the same tests pass, tried in the same way, on the code as it is: otherwise the way is at fault.
"""

import contextlib
import functools
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.assurance.mutation_sites import MODULE, SOURCE, Module, Mutant

ROOT = SOURCE.parents[1]
LIBRARIES = (
    "cryptography.hazmat.primitives.ciphers",
    "dp_accounting.pld.privacy_loss_distribution",
    "hypothesis",
    "mpmath",
    "numba",
    "pandas",
    "safetensors.numpy",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.base",
    "sqlite3",
)
# Seconds of tests for one mutant, by their time on the code as it is.
MOST = 6.0
# Loops take seconds to compile; what they import below is not mutated.
_COMPILED = ("reticent.gate.kernel", "reticent.gate.noise.normal", "reticent.gate.step_kernel")
_BELOW = ("reticent.numerics", "reticent.errors")
# The tables of the noise are made once, by the code as it is, unless the mutant is in what makes them.
_WARM = "reticent.gate.noise.normal"
# Instead of the test that failed: a file could not be imported, or the function's code could not be exchanged.
_IMPORT, _NOT_EXCHANGED = "import", "not exchanged"


@dataclass(frozen=True)
class Reached:
    """What one test reaches.

    Args:
        seconds: It took, on the code as it is.
        places: Lines after the first of a function, by path below src/reticent and name of the function; none if the
            function has changed since.
    """

    seconds: float
    places: dict[str, dict[str, list[int]]]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Args:
        status: `killed`, `timeout`, `survived`, `error` if the trial or the code as it is fails, or `suspect` if it is
            to be imported anew: it survived the exchange of code, or has no code to exchange.
        test: That killed it, or `import`.
        passed: Files with tests that did not kill it, with their digests.
    """

    status: str
    test: str = ""
    passed: dict[str, str] = field(default_factory=dict)


# --- which tests reach which lines


class Tracer:
    """A pytest plugin that notes which lines of mutated files each test reaches."""

    def __init__(self, modules: dict[str, Module]) -> None:
        import coverage

        self._modules = modules
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=[f"{SOURCE}/*"])
        self._seconds: dict[str, float] = {}
        self._caches: list[Any] = []

    def pytest_sessionstart(self) -> None:
        _use_fast_hypothesis()

    def pytest_collection_finish(self) -> None:
        self._caches = _caches()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        for cache in self._caches:  # what an earlier test computed is reached by this one too
            if cache.__module__ != _WARM:
                cache.cache_clear()
        start = time.process_time()
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.process_time() - start

    def found(self) -> dict[str, Reached]:
        """Returns what each test has reached."""
        self._coverage.stop()
        data = self._coverage.get_data()
        found = {test: Reached(seconds, {}) for test, seconds in self._seconds.items()}
        for file, module in self._modules.items():
            by_line = data.contexts_by_lineno(str(module.path))
            for function, (first, last) in module.functions.items():
                for line in range(first, last + 1):
                    for test in by_line.get(line, ()):
                        if test in found:
                            found[test].places.setdefault(file, {}).setdefault(function, []).append(line - first)
        return found


def reached(modules: dict[str, Module], tests: Sequence[str]) -> dict[str, Reached]:
    """Runs the tests on the code as it is, in a child, and returns what each reaches; refuses if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "reached.json"

        def run() -> None:
            tracer = Tracer(modules)
            status = pytest.main([*_options(folder), *tests], plugins=[tracer])
            found = {test: [one.seconds, one.places] for test, one in tracer.found().items()}
            report.write_text(json.dumps({"status": int(status), "found": found}))

        _wait(_fork(run, quiet=False))
        content = json.loads(report.read_text())
    if content["status"]:
        raise RuntimeError("The tests fail on the code as it is: mutants would prove nothing.")
    return {test: Reached(seconds, places) for test, (seconds, places) in content["found"].items()}


class Selection:
    """Which tests to run for a mutant, in which order.

    Args:
        modules: Files with mutants.
        found: What each test reaches.
        passed: Files with tests that a mutant has survived before, by its key; they are not run again as they are.
    """

    def __init__(
        self, modules: dict[str, Module], found: dict[str, Reached], passed: dict[str, dict[str, str]]
    ) -> None:
        self._passed = passed
        self._digests = {file: digest_of(ROOT / file) for file in {home(test) for test in found}}
        self._found, self._modules = found, modules
        self._at: dict[tuple[str, str, int], set[str]] = defaultdict(set)
        self._somewhere: dict[tuple[str, str], set[str]] = defaultdict(set)
        for test, one in found.items():
            for file, functions in one.places.items():
                for function, lines in functions.items():
                    if not lines:
                        self._somewhere[file, function].add(test)
                    for line in lines:
                        self._at[file, function, line].add(test)
        self._sources = {file: (SOURCE / file).read_text(encoding="utf-8").splitlines() for file in modules}
        self._killers: dict[tuple[str, str], list[str]] = defaultdict(list)

    def of(self, mutant: Mutant) -> list[str]:
        """Returns tests of at most MOST seconds together.

        First what killed a neighbour, then tests of its module or that name its function, then the fastest.
        """
        passed = self._passed.get(mutant.key, {})
        tests = {test for test in self._reaching(mutant) if passed.get(home(test)) != self._digests[home(test)]}
        killers = [test for test in self._killers[mutant.file, mutant.function] if test in tests]
        near = {file for file in map(home, tests) if self._is_near(file, mutant)}
        rest = sorted(tests - set(killers), key=lambda test: (home(test) not in near, self._found[test].seconds))
        ordered = [*killers, *rest]
        total, chosen = 0.0, list[str]()
        for test in ordered:
            total += self._found[test].seconds
            if total > MOST and chosen:
                break
            chosen.append(test)
        return chosen

    @functools.lru_cache(maxsize=65536)  # noqa: B019 (there is one selection)
    def _is_near(self, file: str, mutant: Mutant) -> bool:
        """Whether a file has tests of the mutant's module, or names its function."""
        path = Path(mutant.file)
        if Path(file).parent == "tests" / path.parent and Path(file).stem.startswith(f"test_{path.stem}"):
            return True
        name = mutant.function.replace(f".{MODULE}", "").rpartition(".")[2]
        return name != MODULE and bool(re.search(rf"\b{re.escape(name)}\b", _text(ROOT / file)))

    def survived(self, mutant: Mutant) -> Outcome:
        """Returns the outcome of a mutant that no test has killed: tests that it has survived are noted."""
        files = {home(test) for test in self._reaching(mutant)}
        return Outcome("survived", passed={file: self._digests[file] for file in sorted(files)})

    def seconds(self, tests: Iterable[str]) -> float:
        """How long tests take together on the code as it is; nothing for one that it does not have."""
        return sum(self._found[test].seconds for test in tests if test in self._found)

    def killed_by(self, mutant: Mutant, test: str) -> None:
        """Notes a test that is likely to kill the neighbours too."""
        killers = self._killers[mutant.file, mutant.function]
        if test in killers:
            killers.remove(test)
        killers.insert(0, test)

    def _reaching(self, mutant: Mutant) -> set[str]:
        first = self._modules[mutant.file].functions.get(mutant.function, (0, 0))[0]
        lines = range(mutant.lines[0] - first, mutant.lines[1] - first + 1)
        tests = set().union(*(self._at[mutant.file, mutant.function, line] for line in lines))
        tests |= self._somewhere[mutant.file, mutant.function]
        names = mutant.names if mutant.imports else ()
        if mutant.compiled:  # coverage does not see into loops, and what calls them may lie outside of these folders
            names = (*names, *self._modules[mutant.file].loops_with(mutant.compiled), Path(mutant.file).stem)
        if not tests:  # a function that is new since what is reached was measured
            names = (*names, *mutant.function.split("."))
        if _imported(mutant.file) == _WARM:  # its tables are made once, for all tests
            names = (*names, "pieces")
        for name in names:  # what runs at import, or in compiled code, is reached by what mentions its name
            tests |= self._mentioning(name)
        return tests

    @functools.lru_cache(maxsize=1024)  # noqa: B019 (there is one selection)
    def _mentioning(self, name: str) -> set[str]:
        word = re.compile(rf"\b{re.escape(name)}\b")
        tests: set[str] = set()
        for file, module in self._modules.items():
            for function, (first, last) in module.functions.items():
                for line in range(first, last + 1):
                    if word.search(self._sources[file][line - 1]):
                        tests |= self._at[file, function, line - first] | self._somewhere[file, function]
        naming = {file for file in self._digests if word.search(_text(ROOT / file))}
        return tests | {test for test in self._found if home(test) in naming}


# --- trials


class Swapper:
    """A pytest plugin that, instead of running the tests, tries mutants by exchanging the code of their functions."""

    def __init__(self, mutants: Sequence[Mutant], modules: dict[str, Module], trials: "Trials") -> None:
        import coverage

        self._mutants, self._modules, self._trials = mutants, modules, trials
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=[f"{SOURCE}/*"])
        self._coverage.start()  # of what runs while the tests are imported
        self.failed = ""

    def pytest_sessionstart(self) -> None:
        _use_fast_hypothesis()

    def _run_at_import(self) -> set[tuple[str, str]]:
        """Files and functions of which a line has run so far."""
        self._coverage.stop()
        data = self._coverage.get_data()
        return {
            (file, function)
            for file, module in self._modules.items()
            for function, lines in module.bodies.items()
            if not lines.isdisjoint(data.lines(str(module.path)) or ())
        }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        early = self._run_at_import()
        _compile_loops()
        items = {item.nodeid: item for item in session.items}
        caches = _caches()
        functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(str(SOURCE)):
                functions[_place(thing.__code__)].append(thing)
        gc.freeze()

        def attempt(mutant: Mutant, change: bool, tests: list[str], folder: str) -> str:
            session.config._tmp_path_factory._given_basetemp = Path(folder) / "base"  # type: ignore[attr-defined]
            module = self._modules[mutant.file]
            try:
                exchanged = not change or bool(mutant.compiled) or _exchange(module, mutant, functions)
                if mutant.compiled:
                    _recompile(module, mutant.compiled, mutant.number if change else None)
            except Exception:  # of the compiler: importing it would fail
                return _IMPORT
            if not exchanged:
                return _NOT_EXCHANGED
            for cache in caches:
                if cache.__module__ != _WARM or mutant.file == "gate/noise/normal.py":
                    cache.cache_clear()
            chosen = [items[test] for test in tests if test in items]
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                _begin(item.nodeid, self._trials.selection, folder)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    return self.failed
            return ""

        loops = {(mutant.file, mutant.function) for mutant in self._mutants if mutant.compiled}
        self._trials.run(self._mutants, attempt, early | loops)
        return True


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module of the source tree with a change."""

    def __init__(self, module: Module, number: int | None) -> None:
        self._module, self._number, self.name = module, number, _imported(module.file)

    def find_spec(
        self, name: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self._module.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self._module.code(self._number), module.__dict__)  # noqa: S102


class Chosen:
    """A pytest plugin that runs chosen tests until one fails.

    Args:
        tests: Chosen ones.
        known: All there are: one with another name is run too, for a change may have given it that name. Nothing if
            there is no change.
        selection: Knows how long they take.
        folder: For the name of the test that runs.
    """

    def __init__(self, tests: Sequence[str], known: Collection[str] | None, selection: Selection, folder: str) -> None:
        self._place, self._known = {test: i for i, test in enumerate(tests)}, known
        self._selection, self._folder = selection, folder
        self.failed = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        _begin(item.nodeid, self._selection, self._folder)

    def pytest_sessionstart(self) -> None:
        _use_fast_hypothesis()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known = self._known
        chosen = [item for item in items if item.nodeid in self._place or (known and item.nodeid not in known)]
        items[:] = sorted(chosen, key=lambda item: self._place.get(item.nodeid, len(self._place)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


# Runs tests on a mutant, with its change or without, in a folder; returns the one that failed, or nothing.
Attempt = Callable[[Mutant, bool, list[str], str], str]


@dataclass(frozen=True)
class Child:
    """A process that tries a mutant, until a time on the monotonic clock."""

    process: int
    mutant: Mutant
    tests: list[str]
    folder: tempfile.TemporaryDirectory[str]
    end: float

    def outcome(self) -> Outcome | None:
        """Returns what became of it, once it has ended."""
        status = _poll(self.process, self.end)
        if status is None:
            return None
        outcome = _outcome(status, Path(self.folder.name))
        with contextlib.suppress(OSError):
            self.folder.cleanup()
        shutil.rmtree(self.folder.name, ignore_errors=True)
        return outcome


class Trials:
    """Runs mutants in children, some at a time.

    Args:
        selection: Which tests to run.
        workers: How many children at a time.
        done: Called with each mutant and its outcome.
        end: When to begin no more of them, on the monotonic clock.
    """

    def __init__(self, selection: Selection, workers: int, done: Callable[[Mutant, Outcome], None], end: float) -> None:
        self.selection, self._workers, self._done, self._end = selection, workers, done, end

    def run(self, mutants: Iterable[Mutant], attempt: Attempt, early: Collection[tuple[str, str]] = ()) -> None:
        """Forks a child for each mutant; one that survives in these files and functions is suspect."""
        running: dict[int, Child] = {}
        killers: dict[str, bool] = {}  # whether they pass on the code as it is
        waiting = iter(mutants)
        while True:
            late = time.monotonic() > self._end
            while not late and len(running) < self._workers and (mutant := next(waiting, None)) is not None:
                tests = self.selection.of(mutant)
                if not tests:
                    self._done(mutant, self.selection.survived(mutant))
                    continue
                child = self._start(attempt, mutant, tests, change=True)
                running[child.process] = child
            if not running:
                return
            for child in list(running.values()):
                outcome = child.outcome()
                if outcome is None:
                    continue
                del running[child.process]
                if outcome.status in ("killed", "timeout"):
                    tests = _up_to(outcome.test, child.tests)
                    killer = outcome.test if outcome.test in child.tests else " ".join([outcome.test, *tests])
                    if killer not in killers:
                        killers[killer] = self._passes(attempt, child.mutant, tests)
                    if outcome.test not in child.tests:  # the change has changed its name
                        outcome = replace(outcome, test=_IMPORT)
                    outcome = outcome if killers[killer] else Outcome("error", outcome.test)
                if outcome.status == "survived":
                    outcome = self.selection.survived(child.mutant)
                    if (child.mutant.file, child.mutant.function) in early:
                        outcome = replace(outcome, status="suspect")
                if outcome.status == "killed":
                    self.selection.killed_by(child.mutant, outcome.test)
                self._done(child.mutant, outcome)
            time.sleep(0.005)

    def _start(self, attempt: Attempt, mutant: Mutant, tests: list[str], *, change: bool) -> "Child":
        limit = 20 + 4 * self.selection.seconds(tests)
        folder = tempfile.TemporaryDirectory(prefix="mutant-")
        process = _fork(functools.partial(_report, attempt, mutant, change, tests, folder.name), seconds=limit)
        return Child(process, mutant, tests, folder, time.monotonic() + 20 + 2 * limit)

    def _passes(self, attempt: Attempt, mutant: Mutant, tests: list[str]) -> bool:
        """Whether tests pass without the change, tried in the same way."""
        child = self._start(attempt, mutant, tests, change=False)
        while (outcome := child.outcome()) is None:
            time.sleep(0.005)
        return outcome.status == "survived"

    def by_code(self, mutants: Sequence[Mutant], modules: dict[str, Module], tests: Sequence[str]) -> None:
        """Tries mutants of functions by exchanging their code."""
        with tempfile.TemporaryDirectory() as folder:
            swapper = Swapper(mutants, modules, self)

            def run() -> None:
                pytest.main([*_options(folder), *tests], plugins=[swapper])

            _wait(_fork(run))

    def by_import(self, mutants: Iterable[Mutant], modules: dict[str, Module], known: Collection[str]) -> None:
        """Tries mutants by importing everything anew."""

        _compile_loops()
        gc.freeze()

        def attempt(mutant: Mutant, change: bool, tests: list[str], folder: str) -> str:
            changed = Mutated(modules[mutant.file], mutant.number if change else None)
            kept = (*_BELOW, *(name for name in _COMPILED if changed.name not in (name, _COMPILED[0])))
            for name in [name for name in sys.modules if name.partition(".")[0] == "reticent"]:
                if not name.startswith(kept):
                    del sys.modules[name]
            sys.meta_path.insert(0, changed)
            chosen = Chosen(tests, known if change else None, self.selection, folder)
            files = dict.fromkeys(map(home, tests))
            status = pytest.main(["-x", *_options(folder), *files], plugins=[chosen])
            return chosen.failed or (_IMPORT if status not in (0, 5) else "")

        self.run(mutants, attempt)


def digest_of(*paths: Path) -> str:
    """Returns a digest of files below the project's root."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]


def _imported(file: str) -> str:
    """The name of a module, from its path below src/reticent."""
    return ".".join(("reticent", *Path(file).with_suffix("").parts)).removesuffix(".__init__")


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def home(test: str) -> str:
    """Returns the file of a test."""
    return test.partition("::")[0]


# --- children


def _fork(run: Callable[[], None], *, seconds: float | None = None, quiet: bool = True) -> int:
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        if quiet:
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
        if seconds is not None:
            import resource  # Windows has none, and imports this module

            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), used + (3 << 30)))
        run()
        status = 0
    finally:
        os._exit(status)


def _begin(test: str, selection: Selection, folder: str) -> None:
    """Notes that a test begins; ends this process if it takes far longer than on the code as it is: an endless loop."""
    (Path(folder) / "begun").write_text(test)
    signal.setitimer(signal.ITIMER_PROF, 4 + 5 * selection.seconds([test]))


def _up_to(failed: str, tests: list[str]) -> list[str]:
    """What a control runs: tests until the one that failed; where files could not be imported, one test of each."""
    if failed in tests:
        return tests[: tests.index(failed) + 1]
    return list({home(test): test for test in tests}.values()) if failed == _IMPORT else [*tests, failed]


def _report(attempt: Attempt, mutant: Mutant, change: bool, tests: list[str], folder: str) -> None:
    failed = attempt(mutant, change, tests, folder)
    (Path(folder) / "failed").write_text(failed)


def _poll(child: int, end: float) -> int | None:
    """Returns the status of a child that has ended, or waits for something that never comes."""
    found, status = os.waitpid(child, os.WNOHANG)
    if not found and time.monotonic() > end and _sleeps(child):
        os.killpg(child, signal.SIGKILL)
        found, status = os.waitpid(child, 0)
    if not found:
        return None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what it has started
    return status


def _sleeps(child: int) -> bool:
    """Whether a process waits for something; one that only waits for its turn on a busy machine does not."""
    return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "R"


def _outcome(status: int, folder: Path) -> Outcome:
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL)
        begun = folder / "begun"
        return Outcome("timeout" if ended else "killed", begun.read_text() if begun.exists() else _IMPORT)
    if status:
        return Outcome("error")
    failed = (folder / "failed").read_text()
    if failed == _NOT_EXCHANGED:
        return Outcome("suspect")
    return Outcome("killed", failed) if failed else Outcome("survived")


def _wait(child: int) -> None:
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError("The process that tries mutants has ended early.")


def _exchange(module: Module, mutant: Mutant, functions: dict[tuple[str, str, int], list[FunctionType]]) -> bool:
    """Gives functions the code of a mutant; returns whether that was possible."""
    before, after = dict(_codes(module.code(None))), dict(_codes(module.code(mutant.number)))
    changed = [place for place, code in before.items() if place in after and code != after[place]]
    found = [(function, after[place]) for place in changed for function in functions.get(place, ())]
    try:
        for function, code in found:
            function.__code__ = code
    except (TypeError, ValueError):  # it uses other variables of what is around it, or `super`
        return False
    return bool(found)


def _codes(code: Any) -> Iterator[tuple[tuple[str, str, int], Any]]:
    """All code below that of a module: functions and methods, by place."""
    for part in code.co_consts:
        if hasattr(part, "co_qualname"):
            yield _place(part), part
            yield from _codes(part)


def _place(code: Any) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _compile_loops() -> None:
    """Imports all loops, and makes the tables that all draws of noise share."""
    for name in _COMPILED:
        importlib.import_module(name)
    from reticent.gate.noise import NoiseSource

    NoiseSource.from_os().rounded_gaussian(1.0, 1)


def _recompile(module: Module, name: str, number: int | None) -> None:
    """Compiles a loop with a change, or none, and those that it is part of; all modules get the new ones."""
    place = sys.modules[_imported(module.file)].__dict__
    names = module.loops_with(name)
    before = [place[name] for name in names]
    exec(module.code(number, names=names), place)  # noqa: S102
    new = {id(old): place[name] for name, old in zip(names, before, strict=True)}
    for other in [part for at, part in sys.modules.items() if at.partition(".")[0] in ("reticent", "tests")]:
        for attribute, value in list(vars(other).items()):
            if id(value) in new:
                setattr(other, attribute, new[id(value)])


def _caches() -> list[Any]:
    found = [thing for thing in gc.get_objects() if isinstance(thing, functools._lru_cache_wrapper)]
    return [cache for cache in found if (getattr(cache, "__module__", "") or "").startswith("reticent")]


def _use_fast_hypothesis() -> None:
    """No shrinking, no data base, the same examples each time."""
    import hypothesis

    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    quick = hypothesis.settings(hypothesis.settings(), phases=phases, database=None, derandomize=True)
    hypothesis.settings.register_profile("mutants", quick)
    hypothesis.settings.load_profile("mutants")


def _options(folder: str) -> list[str]:
    return [
        "-q",
        "--no-header",
        "--tb=no",
        "--assert=plain",  # else files with examples are read anew to rewrite their assertions, without the change
        "-p",
        "no:cacheprovider",
        f"--basetemp={Path(folder) / 'scratch'}",
        "--rootdir",
        str(ROOT),
    ]
