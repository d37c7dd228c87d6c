"""The results folder of a benchmark: one file per run, the tables made of them, and one runner at a time."""

import contextlib
import json
from pathlib import Path
from types import TracebackType, UnionType
from typing import Any

from filelock import FileLock, Timeout

import reticent
from reticent import errors
from reticent.lab.bench import spread, without_data
from reticent.lab.bench.one_run import FORMAT
from reticent.lab.bench.run import Result
from reticent.lab.bench.versions import version_of
from reticent.lab.bench.workspace import read
from reticent.numerics.files import remove_drafts, write_whole
from reticent.released import store

_ABOUT = "bench.json"
# As rows of runs have them (`run_rows`): the same page is made of these and of a results folder.
_DIGITS = {
    **dict.fromkeys(("accuracy", "forgetting", "public", "parent"), 6),
    **dict.fromkeys(("curve", "forgetting_curve", "overall", "aggregations", "orders"), 6),
    "seconds": 2,
}
_FAILED: dict[str, type | UnionType] = {"run": dict, "status": str, "environment": dict}
_DONE: dict[str, type | UnionType] = {
    **_FAILED,
    "command": str,
    "accuracy": float,
    "forgetting": float | None,
    "curve": list,
    "aggregations": dict,
    "known": int,
    "seconds": dict,
    "spent": dict,
    "digests": dict,
}


class Folder:
    """A results folder: one JSON file per run, tables, and a lock that admits one runner at a time.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name, Folder(Path(name) / "results") as folder:
        ...     len(folder.results())
        0
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / "lock")

    def __enter__(self) -> "Folder":
        """Takes the folder for one runner; refuses one that another holds, another version wrote, or a model is in."""
        try:
            if (self.path / store.MANIFEST).exists():
                raise errors.InvalidValue(f"{self.path} is a model directory. Choose another --out.")
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
        except Timeout as error:
            raise errors.InvalidValue(
                f"Another runner is at work in {self.path}. Wait for it, or choose another --out."
            ) from error
        except OSError as error:
            raise errors.StorageError(f"Cannot write results to {self.path}: {error.strerror}.") from error
        try:
            for place in ("", "runs", "tables", "features", "tuned"):
                remove_drafts(self.path / place)
            if not (self.path / _ABOUT).exists():
                self.write(_ABOUT, json.dumps({"format": FORMAT, "version": reticent.__version__}))
            self.check()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):  # it ends with this process
            self._lock.release()
        if isinstance(error, OSError):
            raise errors.StorageError(
                f"{self.path} cannot be used: {error.strerror}. What is done stays: run it again when that is mended."
            ) from error

    def check(self) -> None:
        """Refuses a folder that holds no results, or those of another version: numbers must be comparable."""
        file = self.path / _ABOUT
        if not file.exists():
            raise errors.InvalidValue(f"{self.path} holds no results. Run: reticent bench NAME --out {self.path}")
        made, elsewhere = read(file), "Make new ones in another folder: reticent bench NAME --out DIR"
        if not isinstance(made, dict):
            raise errors.InvalidValue(f"{file} cannot be read, so the version of these results is unknown. {elsewhere}")
        if made != {"format": FORMAT, "version": reticent.__version__}:
            raise errors.InvalidValue(
                f"{self.path} holds results of reticent {made.get('version')} (format {made.get('format')}); this is "
                f"{reticent.__version__} (format {FORMAT}). {elsewhere}"
            )

    def write(self, name: str, content: bytes | str) -> None:
        """Writes a file whole or not at all."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)

    def read(self, name: str) -> dict[str, Any] | None:
        """Returns what a JSON file of the folder holds; None where it is missing or damaged."""
        found = read(self.path / name)
        return found if isinstance(found, dict) else None

    def beside(self, name: str) -> dict[str, Any] | None:
        """Returns what a file beside the runs holds; None where it is missing or damaged, or of another version."""
        if name == spread.FILE:
            return spread.of_this_version(self.read(name))
        return without_data.stored(self.path, name.removesuffix(".json"))

    def results(self) -> dict[str, dict[str, Any]]:
        """Returns all results by the digests of their runs, as in rows; damaged or of another version is not run."""
        files = sorted((self.path / "runs").glob("*.json"))
        found = {file.stem: self.read(f"runs/{file.name}") for file in files}
        return {key: _rounded(result) for key, result in found.items() if result is not None and _whole(result)}

    def tables(self) -> dict[str, list[Any] | None]:
        """Returns the stored tables of each spec, by its name; None where they are damaged."""
        found = {file.stem: read(file) for file in sorted((self.path / "tables").glob("*.json"))}
        return {name: made if isinstance(made, list) else None for name, made in found.items()}


def _rounded(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, **{name: _round(result[name], digits) for name, digits in _DIGITS.items() if name in result}}


def _round(value: Any, digits: int) -> Any:
    """Rounds a number, or those in a list or by name.

    >>> _round([0.12345678, None], 6), _round({"learn": 1.2345}, 2)
    ([0.123457, None], {'learn': 1.23})
    """
    if isinstance(value, list):
        return [_round(part, digits) for part in value]
    if isinstance(value, dict):
        return {name: _round(part, digits) for name, part in value.items()}
    return round(value, digits) if isinstance(value, float) else value


def _whole(result: Result) -> bool:
    """Returns whether a result has all fields that tables and pages read, and is of the present version."""
    shapes = _FAILED if result.get("status") == "failed" else _DONE
    whole = all(name in result and isinstance(result[name], shape) for name, shape in shapes.items())
    return whole and (shapes is _FAILED or result.get("version") == version_of(str(result["run"].get("learner"))))
