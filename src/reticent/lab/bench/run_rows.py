"""Results as rows: every run in one compact file that can be committed, and from which a benchmark resumes.

A row has what tables, findings and pages read of a run, the version of its learner, the digest of its data, and the
command. It has no ledger, no statement and no accuracy matrix: these stay in the results folder.
"""

import csv
import io
import json
import statistics
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

from reticent import errors
from reticent.lab.bench.medians import accuracy_of
from reticent.lab.bench.one_run import FORMAT, NOT_PRIVATE
from reticent.lab.bench.run import DELTA, Result, Results, Run
from reticent.lab.bench.versions import version_of
from reticent.names import shown
from reticent.numerics.reading import MEGABYTE, read_regular

RUNS, CELLS = "runs.parquet", "cells.csv"
_NUMBERS = ("accuracy", "forgetting", "known", "public", "parent")
_LISTS = ("curve", "forgetting_curve", "overall")
_ORDERS = "forgetting_by_order"  # where one training shows every order of the tasks; older files do not have it
_FIELDS = tuple(field.name for field in fields(Run))
_LARGEST_FILE = 256 * MEGABYTE
_ARROW: dict[object, str] = {str: "string", float: "float64", int: "int64", bool: "bool_"}


def to_parquet(results: Results) -> bytes:
    """Returns the runs that came to their end as a Parquet file, sorted, so that equal results are equal bytes."""
    pyarrow = _pyarrow()
    rows = sorted((_row(result) for result in results.values() if result["status"] == "done"), key=_order)
    stream = io.BytesIO()
    whole, floats = pyarrow.int64(), pyarrow.float64()
    types = {
        **{field.name: getattr(pyarrow, _ARROW[_plain(field.type)])() for field in fields(Run)},
        **dict.fromkeys(_NUMBERS, floats),
        "known": whole,
        **dict.fromkeys((*_LISTS, _ORDERS), pyarrow.list_(pyarrow.float32())),
        **dict.fromkeys(("aggregations", "digest"), pyarrow.string()),
        "version": whole,
        **dict.fromkeys(("command", "data_digest", "made_by", "environment"), pyarrow.string()),
        **dict.fromkeys(("learn_seconds", "evaluate_seconds", "processor_seconds", "spent_epsilon"), floats),
    }
    table = pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(list(types.items())))
    pyarrow.parquet.write_table(table, stream, compression="zstd", compression_level=19)
    return stream.getvalue()


def to_csv(results: Results) -> str:
    """Returns one line for each cell: what was run, over how many seeds, and median, least and most accuracy."""
    cells: dict[tuple[object, ...], list[Result]] = {}
    settings = [name for name in _FIELDS if name not in ("seed", "text", "label")]
    for result in results.values():
        if result["status"] == "done":
            run = asdict(Run(**result["run"]))
            cells.setdefault(tuple(run[name] for name in settings), []).append(result)
    stream = io.StringIO()
    written = csv.writer(stream, lineterminator="\n")
    measured = ("seeds", "accuracy", "least", "most", "forgetting", "known", "version", "command")
    written.writerow([*settings, *measured])
    for key, made in sorted(cells.items(), key=lambda item: [_sortable(value) for value in item[0]]):
        right = [accuracy_of(result) for result in made]
        lost = [100 * result["forgetting"] for result in made if result["forgetting"] is not None]
        known = statistics.median(result["known"] for result in made)
        numbers = [f"{value:.2f}" for value in (statistics.median(right), min(right), max(right))]
        forgetting = f"{statistics.median(lost):.2f}" if lost else ""
        versions = " ".join(sorted({str(result["version"]) for result in made}))
        commands = " ".join(sorted({result["command"] for result in made}))
        written.writerow([*key, len(made), *numbers, forgetting, f"{known:g}", versions, commands])
    return stream.getvalue()


def read(path: Path, *, of_any_version: bool = False) -> dict[str, dict[str, Any]]:
    """Returns the results that a file of rows holds of the present versions, by the digests of their runs.

    Args:
        path: The file.
        of_any_version: To show what was measured. Else rows of other versions of their learners are left out: their
            numbers are not those of this code.
    """
    pyarrow = _pyarrow()
    try:
        raw = read_regular(path, most=_LARGEST_FILE, link=True)
        rows = pyarrow.parquet.read_table(io.BytesIO(raw)).to_pylist()
        found = [_result(row) for row in rows if of_any_version or row["version"] == version_of(row["learner"])]
    except (OSError, ValueError, KeyError, TypeError, pyarrow.ArrowException) as error:
        said = f"Expected rows of runs in {path.name}, as --page writes them: {shown(error)[:200]}."
        raise errors.InvalidValue(said) from error
    return {key: result for key, result in found if Run(**result["run"]).digest == key}


def count(path: Path) -> int:
    """Returns how many rows a file has, of whatever version."""
    return int(_pyarrow().parquet.read_metadata(path).num_rows)


def _row(result: Result) -> dict[str, Any]:
    run = asdict(Run(**result["run"]))
    return {
        **run,
        **{name: result.get(name) for name in (*_NUMBERS, *_LISTS)},
        _ORDERS: result["orders"]["forgetting"] if "orders" in result else None,
        "aggregations": json.dumps(result["aggregations"], sort_keys=True),
        "digest": Run(**result["run"]).digest,
        "version": result["version"],
        "command": result["command"],
        "data_digest": result["digests"]["data"],
        "made_by": result["digests"]["learner"],
        "environment": json.dumps(result["environment"], sort_keys=True),
        **{f"{part}_seconds": seconds for part, seconds in result["seconds"].items()},
        "spent_epsilon": result["spent"]["epsilon"],
    }


def _result(row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the result of a row, with the digest of its run."""
    by_order = row.get(_ORDERS)
    return row["digest"], {
        "format": FORMAT,
        "private": False,
        "note": NOT_PRIVATE,
        "run": {name: row[name] for name in _FIELDS},
        "name": Run(**{name: row[name] for name in _FIELDS}).name,
        "status": "done",
        "error": None,
        "version": row["version"],
        **{name: row[name] for name in (*_NUMBERS, *_LISTS) if row[name] is not None or name == "forgetting"},
        **({} if by_order is None else {"orders": {"number": len(by_order), "forgetting": by_order}}),
        "aggregations": json.loads(row["aggregations"]),
        "seconds": {part: row[f"{part}_seconds"] for part in ("learn", "evaluate", "processor")},
        "spent": {"epsilon": row["spent_epsilon"], "delta": DELTA},
        "command": row["command"],
        "environment": json.loads(row["environment"]),
        "digests": {"data": row["data_digest"], "learner": row["made_by"]},
    }


def _plain(annotation: Any) -> object:
    """Returns the type of a field that may be None.

    >>> _plain(float | None), _plain(int)
    (<class 'float'>, <class 'int'>)
    """
    return next((kind for kind in get_args(annotation) if kind is not type(None)), annotation)


def _order(row: dict[str, Any]) -> list[tuple[bool, Any]]:
    return [_sortable(row[name]) for name in _FIELDS]


def _sortable(value: object) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


def _pyarrow() -> Any:
    try:
        import pyarrow
        from pyarrow import parquet  # noqa: F401 (reached as pyarrow.parquet)
    except ImportError as error:
        raise errors.ReticentError("Rows of runs need pyarrow: pip install 'reticent[parquet]'.") from error
    return pyarrow
