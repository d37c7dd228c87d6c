"""Pages of a results folder: all tables in Markdown or JSON, the HTML report, and the list of experiments."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.lab.bench import catalogue, layout, run_rows, spread, tables, typeset, without_data
from reticent.lab.bench import specs as packaged
from reticent.lab.bench.behind import behind_tables
from reticent.lab.bench.chosen import chosen_table
from reticent.lab.bench.estimates import WITHOUT_DATA, Estimates, duration, processor
from reticent.lab.bench.findings import findings, findings_table
from reticent.lab.bench.five_figures import five
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.one_run import NOT_PRIVATE
from reticent.lab.bench.one_screen import one_screen, takeaways
from reticent.lab.bench.our_claims import claims, claims_table
from reticent.lab.bench.paper_claims import summary
from reticent.lab.bench.run import Result, Results
from reticent.lab.bench.runner import Outcome
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.typeset import Table
from reticent.lab.bench.workspace import read
from reticent.numerics.files import write_whole
from reticent.report import bench_tables, origins
from reticent.report.bench_page import results_page


def write(page: Path, specs: Sequence[Spec], out: Path, *, command: str) -> None:
    """Writes the page of some specs, and its figures and rows into a folder of the same name beside it."""
    folder = Folder(out)
    folder.check()
    beside = page.with_suffix("")
    results = folder.results()
    drawn = five(results, folder.beside("attack.json"))
    found = beside_rows(out)
    try:
        beside.mkdir(exist_ok=True)
        for figure in drawn:
            write_whole(beside / f"{figure.name}.svg", figure.drawn)
        write_whole(beside / run_rows.RUNS, run_rows.to_parquet(results))
        write_whole(beside / run_rows.CELLS, run_rows.to_csv(results))
        for name, measured in found.items():
            write_whole(beside / f"{name}.json", json.dumps(measured, indent=1))
        write_whole(page, markdown(specs, out, command=command, beside=beside.name))
    except OSError as error:
        raise errors.StorageError(f"Cannot write {page} and what belongs to it: {error.strerror}.") from error


def beside_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns what stands beside the rows in a folder and is of the present version, by its files without ending."""
    found = {kind: without_data.stored(folder, kind) for kind in without_data.KINDS}
    found[Path(spread.FILE).stem] = spread.of_this_version(read(folder / spread.FILE))
    return {name: value for name, value in found.items() if value is not None}


def markdown(specs: Sequence[Spec], out: Path, *, command: str, beside: str = "results") -> str:
    """Returns all tables of some specs as one page; it names command, versions and environment that made it.

    Args:
        specs: What to show.
        out: The results folder.
        command: What made it.
        beside: The folder of its figures and rows, beside the page.
    """
    folder = Folder(out)
    folder.check()
    results = folder.results()
    made = dict.fromkeys(table for spec in specs for table in _tables(spec, folder, results))  # of several specs: once
    taken = sum(processor(result) for result in results.values() if _done(result))
    figures = five(results, folder.beside("attack.json"))
    same, another = behind_tables(results)
    lines = [
        "# Results",
        "",
        f"Written by `{command}`, never by hand. {NOT_PRIVATE}",
        f"{sum(map(_done, results.values()))} runs, {duration(taken)} of one core in all, of resumed runs the last "
        f"part; {_left(specs, results)}",
        "The paper's numbers are for ViT-B/16 on its own data sets; data and encoders here are others, so compare the",
        "shape, not the height. *Ours* is what a user gets without arguments; FiLM is asked for, with eight epochs",
        "instead of ten. Times are wall-clock seconds, measured while other runs share the machine.",
        "",
        "## What to take away",
        "",
        *(f"- {sentence}" for sentence in takeaways(results)),
        "",
        typeset.markdown(one_screen(results)),
        *_two_by_two([f"![{figure.title}]({beside}/{figure.name}.svg)" for figure in figures]),
        typeset.markdown(summary(results)),
        typeset.markdown(same),
        *([typeset.markdown(another, folded=True)] if another.rows else []),
        "## How it was made",
        "",
        *(f"{line}\n" for line in _made(results)),
        f"Every run, with its version, data and command: `{beside}/{run_rows.RUNS}`.",
        f"Every cell: `{beside}/{run_rows.CELLS}`.",
        "",
        typeset.markdown(chosen_table()),
        typeset.markdown(findings_table(findings(results))),
        typeset.markdown(claims_table(claims(results))),
        *map(_written, made),
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
    same, another = behind_tables(results)
    before = [another, chosen_table(), findings_table(found), claims_table(claims(results))]
    tables_of = ({**table, "spec": name} for name, made in stored.items() for table in made or ())
    return results_page(
        "reticent bench",
        _named(results),
        [*map(asdict, before), *tables_of],
        first=[asdict(table) for table in (one_screen(results), summary(results), same)],
        made=_made(results),
        takeaways=takeaways(results),
        attack=folder.beside("attack.json"),
        drop=folder.beside("drop.json"),
        streams=(folder.beside(spread.FILE) or {}).get("data"),
        notes=[
            f"tables/{name}.json is damaged and left out; reticent bench with --tables-only writes it again."
            for name, made in stored.items()
            if made is None
        ],
    )


def _named(results: Results) -> list[Result]:
    """Returns results with the words of tables; learners that share them are told apart by their names."""
    found = [(result["run"]["learner"], layout.named(result)) for result in results.values()]
    sharing: dict[str, set[str]] = {}
    for learner, result in found:
        sharing.setdefault(result["run"]["learner"], set()).add(learner)
    return [
        {**result, "run": {**result["run"], "learner": f"{result['run']['learner']} ({learner})"}}
        if len(sharing[result["run"]["learner"]]) > 1
        else result
        for learner, result in found
    ]


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
        runs = list(dict.fromkeys(map(catalogue.stand_in, spec.runs)))
        status = [results.get(run.digest, {}).get("status") for run in runs]
        seconds = estimates.seconds(run for run, state in zip(runs, status, strict=True) if state != "done")
        if spec.kind != "grid":
            status = ["done" if folder.beside(f"{spec.kind}.json") else None]
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


def offline(listed: Sequence[dict[str, Any]], out: Path) -> str:
    """Says how many runs there are offline, each counted once however many specs ask for it, and how long they take.

    Args:
        listed: What `listing` returned.
        out: The results folder.
    """
    results = Folder(out).results() if (out / "bench.json").exists() else {}
    specs = [packaged.spec(name) for name in packaged.OFFLINE]
    wanted = {run.digest: run for spec in specs for run in map(catalogue.stand_in, spec.runs)}
    left = [run for key, run in wanted.items() if key not in results or not _done(results[key])]
    alone = sum(entry["seconds_left"] for entry in listed if entry["name"] in WITHOUT_DATA)
    time = duration(Estimates(results).seconds(left) + alone)
    return f"all: {len(wanted):,} runs offline, each once; {len(left):,} are left, about {time} of one core."


def _tables(spec: Spec, folder: Folder, results: Results) -> list[Table]:
    return tables.tables(spec, results, extra=folder.beside)


def _left(specs: Sequence[Spec], results: Results) -> str:
    """Says how many runs of these specs are not made, and how long they take."""
    wanted = {run.digest: run for spec in specs for run in map(catalogue.stand_in, spec.runs)}
    left = [run for key, run in wanted.items() if key not in results or not _done(results[key])]
    return (
        f"{len(left)} more are not run, about {duration(Estimates(results).seconds(left))}." if left else "none left."
    )


def _written(table: Table) -> str:
    """Returns a table as Markdown; rows of which nothing was run are folded away."""
    entry = asdict(table)
    rest = [row for row in table.rows if bench_tables.is_missing(entry, row)]
    if not rest:
        return typeset.markdown(table)
    here = replace(table, rows=tuple(row for row in table.rows if row not in rest))
    names = bench_tables.names(entry)
    lines = [
        f"- {', '.join(row[:names])}: {next(e for e in row if e.startswith(bench_tables.NOT_RUN))}" for row in rest
    ]
    head = f"<details><summary>{len(rest)} row(s) of this table were not run here</summary>"
    return "\n".join([typeset.markdown(here), head, "", *lines, "", "</details>", ""])


def _two_by_two(images: Sequence[str]) -> list[str]:
    """Returns images as a table of two columns, so that all are seen at once.

    >>> _two_by_two(["one", "two", "three"])
    ['| | |', '|---|---|', '| one | two |', '| three | |', '']
    """
    pairs = [[*images[i : i + 2], ""][:2] for i in range(0, len(images), 2)]
    rows = [f"| {left} | {right} |".replace("|  |", "| |") for left, right in pairs]
    return ["| | |", "|---|---|", *rows, ""] if rows else []


def _done(result: Result) -> bool:
    return bool(result["status"] == "done")


def _made(results: Results) -> list[str]:
    """Says which runs a page shows, and in which versions, by which commands and machines they were made."""
    done = [result for result in results.values() if _done(result)]
    kinds = {field: len({result["run"][field] for result in results.values()}) for field in ("data", "learner", "seed")}
    lines = [
        f"{len(results)} runs, {len(results) - len(done)} of them failed; {kinds['data']} data set(s), "
        f"{kinds['learner']} learner(s), {kinds['seed']} seed(s)."
    ]
    if done:
        lines.append(f"Runs by the version of their learner: {_counted(str(result['version']) for result in done)}.")
        lines.append(f"Runs by their commands: {_counted(result['command'] for result in done)}.")
    seen = {json.dumps(result["environment"], sort_keys=True) for result in results.values()}
    return [*lines, *(origins.machine(json.loads(text)) for text in sorted(seen))]


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(Counter(names).items()))
