"""Pages of a results folder: all tables in Markdown or JSON, the HTML report, and the list of experiments."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reticent.lab.bench import layout, tables, typeset
from reticent.lab.bench import specs as packaged
from reticent.lab.bench.estimates import WITHOUT_DATA, Estimates, duration
from reticent.lab.bench.findings import claims, claims_table, findings, findings_table, in_short
from reticent.lab.bench.folder import STREAMS, Folder
from reticent.lab.bench.one_run import NOT_PRIVATE, code
from reticent.lab.bench.one_screen import one_screen
from reticent.lab.bench.run import Result, Results
from reticent.lab.bench.runner import Outcome
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.typeset import Table
from reticent.report.bench_page import results_page


def markdown(specs: Sequence[Spec], out: Path, *, command: str) -> str:
    """Returns all tables of some specs as one page; it names the command and the environment that made it."""
    folder = Folder(out)
    folder.check()
    results = folder.results()
    made = [table for spec in specs for table in _tables(spec, folder, results)]
    behind = [note for table in made for note in table.notes if note.startswith("Ours is behind")]
    learn = sum(
        result["seconds"]["learn"] + result["seconds"]["evaluate"] for result in results.values() if _done(result)
    )
    lines = [
        "# Results",
        "",
        f"Written by `{command}`, never by hand. {NOT_PRIVATE}",
        f"{sum(map(_done, results.values()))} runs, {duration(learn)} of one core in all.",
        "The paper's numbers are for ViT-B/16 on its own data sets; data and encoders here are others, so compare the",
        "shape, not the height. *Ours* is what a user gets without arguments. Times are wall-clock seconds, measured",
        "while other runs share the machine.",
        "",
        typeset.markdown(one_screen(results)),
        "## How it was made",
        "",
        *_environment_lines(results),
        *_code_lines(results),
        "",
        typeset.markdown(findings_table(findings(results))),
        typeset.markdown(claims_table(claims(results))),
        "## Where ours is behind the paper's method",
        "",
        *([f"- {note.removeprefix('Ours is behind: ')}" for note in dict.fromkeys(behind)] or ["Nowhere."]),
        "",
        *(typeset.markdown(_without_behind(table)) for table in made),
    ]
    return "\n".join(lines)


def to_json(specs: Sequence[Spec], out: Path, outcome: Outcome) -> dict[str, Any]:
    """Returns everything for scripts."""
    folder = Folder(out)
    results = folder.results()
    return {
        "private": False,
        "ran": outcome.ran,
        "failed": outcome.failed,
        "missing": dict(outcome.missing),
        "by_other_code": by_other_code(specs, out),
        "findings": [asdict(finding) for finding in findings(results)],
        "claims": [asdict(claim) for claim in claims(results)],
        "tables": {spec.name: [asdict(table) for table in _tables(spec, folder, results)] for spec in specs},
    }


def report(path: Path) -> str:
    """Returns the HTML page of a results folder."""
    folder = Folder(path)
    folder.check()
    results = folder.results()
    stored, found = folder.tables(), findings(results)
    tables_of = ({**table, "spec": name} for name, made in stored.items() for table in made or ())
    return results_page(
        "reticent bench",
        [layout.named(result) for result in results.values()],
        [asdict(findings_table(found)), asdict(claims_table(claims(results))), *tables_of],
        takeaway=in_short(found),
        attack=folder.read("attack.json"),
        drop=folder.read("drop.json"),
        streams=folder.read(STREAMS),
        notes=[
            f"tables/{name}.json is damaged and left out; reticent bench with --tables-only writes it again."
            for name, made in stored.items()
            if made is None
        ],
    )


def listing(out: Path) -> list[dict[str, Any]]:
    """Returns every spec with its status and the time it still takes in a results folder."""
    results: Results = {}
    folder = Folder(out)
    if (out / "bench.json").exists():
        folder.check()
        results = folder.results()
    estimates = Estimates(results)
    shown = []
    for name in packaged.names():
        spec = packaged.spec(name)
        status = [results.get(run.digest, {}).get("status") for run in spec.runs]
        seconds = estimates.seconds(run for run, state in zip(spec.runs, status, strict=True) if state != "done")
        if spec.kind != "grid":
            status = ["done" if folder.read(f"{spec.kind}.json") else None]
            seconds = WITHOUT_DATA[spec.kind] * status.count(None)
        shown.append(
            {
                "name": name,
                "title": spec.title,
                "data": ", ".join(dict.fromkeys(run.data for run in spec.runs)),
                "runs": len(status),
                "done": status.count("done"),
                "failed": status.count("failed"),
                "seconds_left": round(seconds),
                "left": duration(seconds),
            }
        )
    return shown


def _tables(spec: Spec, folder: Folder, results: Results) -> list[Table]:
    return tables.tables(spec, results, extra=folder.read)


def _without_behind(table: Table) -> Table:
    notes = tuple(note for note in table.notes if not note.startswith("Ours is behind"))
    return Table(table.title, table.caption, table.columns, table.rows, notes)


def _done(result: Result) -> bool:
    return bool(result["status"] == "done")


def by_other_code(specs: Sequence[Spec], out: Path) -> int:
    """Returns how many results of these specs were made by other sources of the same version than the present ones."""
    results = Folder(out).results()
    made = (results.get(digest) for digest in {run.digest for spec in specs for run in spec.runs})
    return sum(result is not None and _done(result) and _code(result) != code() for result in made)


def _code(result: Result) -> str | None:
    found: str | None = result["digests"].get("code")
    return found


def _code_lines(results: Results) -> list[str]:
    made = Counter(_code(result) or "not written down" for result in results.values() if _done(result))
    counts = ", ".join(f"{name} {count}" for name, count in sorted(made.items()))
    return [f"Runs by a digest of the code that made them: {counts}."] if made else []


def _environment_lines(results: Results) -> list[str]:
    seen = {json.dumps(result["environment"], sort_keys=True) for result in results.values()}
    lines = []
    for text in sorted(seen):
        env = json.loads(text)
        versions = ", ".join(f"{name} {number}" for name, number in env["versions"].items())
        where = f"Python {env['python']}, {env['machine']}, {env['cores']} cores, {env['threads']} thread(s) a run"
        lines.append(f"{where}; {versions}.")
    return lines
