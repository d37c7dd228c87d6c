"""Verbs for experiments: demo, audit, attack, bench, report."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from reticent import errors
from reticent.budget import Budget
from reticent.cli.inputs import cluster_of
from reticent.cli.options import (
    Address,
    AsJson,
    BatchSize,
    Delta,
    Device,
    Epsilon,
    HalfPrecision,
    Plot,
    console,
    fail_if,
    plain,
    starting_with,
    tell,
)
from reticent.privacy.rounding import exact, rounded_down, rounded_up

if TYPE_CHECKING:
    from reticent.encoders import Speed
    from reticent.privacy.statement import Statement


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report and the model go.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Show a complete example on embedded data, offline: a hospital codes diagnoses.

    Example: `reticent demo --out demo/`
    """
    from reticent.lab import demo as story

    facts = story.run(out, say=(lambda _: None) if as_json else console().print)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))


def audit(
    folder: Annotated[Path | None, typer.Argument(help="A model directory; only its manifest is read.")] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Games with the canary, and as many without; 10,000, or fewer where each one trains."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Audit every mechanism, and every learner with every label policy.")
    ] = False,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    as_json: AsJson = False,
) -> None:
    """Measure epsilon from below: replay a model's configuration on synthetic canaries. Never needs the data.

    Laws are computed where they are known; games learn tasks with a canary in the data and without it.

    Exits with 1 where more is lost than is claimed. `--epsilon` and `--delta` are for `--all`.

    Example: `reticent audit model/` or `reticent audit --all --epsilon 1`
    """
    from reticent.lab.attack import audit as auditing
    from reticent.lab.attack import games

    if everything == (folder is not None):
        raise errors.InvalidValue("Expected a model directory, or --all for everything that ships.")
    if folder is not None:
        found = [auditing.audit_model(folder, trials=trials)]
    else:
        found = auditing.audit_everything(Budget(epsilon=epsilon, delta=delta), trials=trials)
    violated = any(one.verdict == games.VIOLATED for one in found)
    if as_json:
        facts = [one.json() for one in found]
        typer.echo(json.dumps(facts[0] if folder is not None else {"audits": facts}, indent=2))
        fail_if(violated)
        return
    terminal = console()
    for one in found:
        title = f"Audit of {one.name}: epsilon {exact(one.budget.epsilon)}, delta {exact(one.budget.delta)}"
        table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", width=80)
        for heading in ("what is attacked", "claimed", "at least", "evidence", "verdict"):
            table.add_column(heading, no_wrap=heading != "what is attacked")
        for r in one.results:
            verdict = f"[{'green' if r.verdict == games.CONSISTENT else 'bold red'}]{r.verdict}[/]"
            figures = rounded_up(r.claimed, 3), rounded_down(r.epsilon_lower_bound, 3)
            table.add_row(r.game, *figures, r.evidence.split(":")[0], verdict)
        terminal.print(table)
    for note in dict.fromkeys((auditing.SCOPE, *(note for one in found for note in one.notes))):
        terminal.print(note, highlight=False)
    terminal.print(
        "`At least` holds at 99.9 % confidence; VIOLATED is wrong once in a million games. Evidence: exact (a law was "
        "computed), strong, fair or weak (how much of the claim the attack finds). Weak evidence proves nothing: more "
        "--trials find smaller faults.",
        highlight=False,
    )
    fail_if(violated)


def labels(
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    trials: Annotated[int, typer.Option(help="Games against each remedy.")] = 10_000,
    trainings: Annotated[
        int, typer.Option("--trainings", help="Games against each classifier; every game trains one.")
    ] = 200,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Play the membership game on the label set: won against real classifiers, lost against each remedy.

    A fair coin decides whether one person with a rare label is in the data; the attacker sees the labels that the
    classifier can output (and everything else a remedy publishes) and guesses the coin.

    Example: `reticent attack labels --epsilon 1 --plot attack.png`
    """
    from reticent.lab.attack import label_attack
    from reticent.report import attack_tables, figures, picture

    budget = Budget(epsilon=epsilon, delta=delta)
    errors.whole("trials", trials, at_least=1)
    errors.whole("trainings", trainings, at_least=1)
    if plot is not None:
        picture.check_path(plot)
    results = label_attack.attack_labels(budget, trials=trials, trainings=trainings)
    wanted = plot is not None or as_json
    curve = label_attack.accuracy_curve(delta, trials=trials, trainings=trainings) if wanted else []
    if plot is not None:
        bounds = sorted({(r.epsilon, r.bound) for r in curve})
        plots = figures.attack_figures({"points": [r.json() for r in curve], "bounds": bounds})
        picture.save(plot, figures.ATTACK_TITLE, plots, figures.ATTACK_WORDS)
    if as_json:
        facts = {"games": [r.json() for r in results], "curve": [r.json() for r in curve]}
        typer.echo(json.dumps(facts, indent=2))
        return
    terminal = console()
    for table in attack_tables.attack_tables([r.json() for r in results]):
        terminal.print(table)
    terminal.print(attack_tables.attack_words(epsilon, delta, label_attack.ALPHA), highlight=False)


def _specs() -> tuple[str, ...]:
    from reticent.lab.bench import specs

    return (*specs.names(), "all")


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Specs by name or by path of a .toml file; all for all that run here.",
            autocompletion=starting_with(_specs),
        ),
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder with data sets; see docs/reproducing-the-paper.md.")] = Path(
        "data"
    ),
    out: Annotated[Path, typer.Option("--out", "-o", help="Results folder; runs that are done there are kept.")] = Path(
        "results"
    ),
    workers: Annotated[
        int | None, typer.Option(help="Processes at once; by default one per core, or one for a GPU.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of each process.")] = 1,
    engine: Annotated[
        str | None, typer.Option(help="ray: a Ray cluster makes the runs; its machines share --data and --out.")
    ] = None,
    address: Address = None,
    device: Device = None,
    batch_size: BatchSize = None,
    bf16: HalfPrecision = False,
    seeds: Annotated[int | None, typer.Option(help="Only the first so many seeds of each spec.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only runs with this data set, learner or adapter.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write all tables as one Markdown page, with figures and rows beside it.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Rows of earlier runs, runs.parquet: what is there and beside it of the same code is not made again."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Begin no run after so many minutes, with 0 none; the same command goes on later."),
    ] = None,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Run nothing: write the tables of what is done.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="Show what exists, its time here and its status.")] = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's tables beside ours: runs what is not done yet. Seeded, NOT PRIVATE, on public data.

    Example: `reticent bench quick --data data/ --out results/`
    """
    from reticent.encoders import Speed
    from reticent.lab.bench import findings, our_claims, pages, run_rows, runner, specs
    from reticent.lab.bench.folder import Folder
    from reticent.report.terminal import columns

    if listed or not names:
        shown = pages.listing(out)
        if as_json:
            typer.echo(json.dumps(shown, indent=2))
            return
        table = columns(
            plain(f"Experiments, with their status in {out}; time left on one core"),
            ("name", "shows", "data", "done", "time left"),
            names=("name", "data"),
            words=("shows",),
        )
        for entry in shown:
            done = f"{entry['done']} of {entry['runs']}" + (f"\n{entry['failed']} failed" if entry["failed"] else "")
            needs = entry["data"].replace(", ", ",\n")
            table.add_row(*map(plain, (entry["name"], entry["title"])), needs, done, entry["left"])
        console().print(table)
        tell(pages.offline(shown, out))
        return
    wanted = specs.chosen(names)
    for spec in wanted:
        if spec.kind == "grid" and not spec.runs:
            raise errors.InvalidValue(f"Spec {spec.name} has no runs. Give it a [[grid]] with data and learner.")
    sys.path.append(str(Path.cwd()))  # the user's own learner may be in this folder; workers inherit the path
    chosen = [specs.narrowed(spec, seeds=seeds, only=tuple(only or ())) for spec in wanted]
    if not any(spec.runs or spec.kind != "grid" for spec in chosen):
        raise errors.InvalidValue(f"No run of {', '.join(names)} is left by --only {' --only '.join(only or ())}.")
    if page is not None and not page.parent.is_dir():
        raise errors.InvalidValue(f"Expected --page in an existing folder, got {page}.")
    if minutes is not None:
        errors.real("minutes", minutes, above=0, below=1e6, at_least=True)
    stored = {} if resume is None else run_rows.read(resume)
    if tables_only and not stored:  # what there is to show can only be in the folder
        Folder(out).check()
    if resume is not None and not as_json:
        tell(
            f"{len(stored)} of {run_rows.count(resume)} rows in {resume} are of present versions; others are left out."
        )
    speed = Speed(device=device or "cpu", batch_size=batch_size, bf16="auto" if bf16 else False)
    outcome = runner.run(
        [] if tables_only else chosen,
        data=data,
        out=out,
        shown=wanted,
        engine=_makers(cluster_of(engine, address, workers), workers, threads, speed),
        speed=speed,
        stored=stored,
        measured={} if resume is None else pages.beside_rows(resume.parent),
        minutes=minutes,
        say=(lambda text: None) if as_json else tell,
    )
    results = Folder(out).results()
    found = [*findings.findings(results), *our_claims.claims(results)]
    if page is not None:
        pages.write(page, wanted, out, command=_command())
    if as_json:
        typer.echo(json.dumps(pages.to_json(wanted, out, outcome), indent=2))
    else:
        for finding in found:
            tell(f"{finding.data}, {finding.verdict}: {finding.claim}: {finding.measured}")
        tell(f"{outcome.ran} run(s), {outcome.failed} failed. Tables: {out / 'tables'}")
    fail_if(outcome.failed > 0)


def _makers(cluster: Any, workers: int | None, threads: int, speed: "Speed") -> Any:
    """Returns what makes runs: a cluster, or processes of this machine."""
    from reticent.lab.bench.processes import Processes

    if cluster is None:
        return Processes(workers=_workers(speed) if workers is None else workers, threads=threads)
    if threads != 1:
        raise errors.InvalidValue("Expected --threads without --engine ray: there each run has one processor.")
    return cluster


def _workers(speed: "Speed") -> int:
    """One process for each core; one for a GPU, whose memory they would share."""
    if speed.device == "cpu":
        return os.cpu_count() or 1
    from reticent.encoders.devices import available

    return (os.cpu_count() or 1) if available(speed.device) == "cpu" else 1


def report(
    folder: Annotated[Path, typer.Argument(help="A results folder of bench, or a model directory.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write; report.html or sign-off.html in the folder by default."),
    ] = None,
    sign_off: Annotated[
        bool, typer.Option("--sign-off", help="Of a model: the page that a privacy officer signs, on two sheets.")
    ] = False,
) -> None:
    """Write one self-contained HTML page: results of a benchmark, or releases and ledger of a model.

    Beside the page of a model its privacy statement is written too, as text and as JSON.

    Example: `reticent report results/` or `reticent report model/ --sign-off`
    """
    from reticent.released import store
    from reticent.released.contents import refuse_own
    from reticent.released.ledger_file import FILE_NAME

    if out is not None:
        refuse_own(out)
    if any((folder / name).exists() for name in (store.MANIFEST, FILE_NAME)):
        text, statement = _model_page(folder, sign_off=sign_off)
    elif sign_off:
        raise errors.InvalidValue(f"Expected a model directory for --sign-off; {folder} holds no model.")
    elif not (folder / "bench.json").exists():
        raise errors.InvalidValue(
            f"Expected a model directory, which reticent init makes, or results, which reticent bench makes; {folder} "
            f"{'holds neither' if folder.exists() else 'does not exist'}."
        )
    else:
        from reticent.lab.bench import pages

        text, statement = pages.report(folder), None
    file = folder / ("sign-off.html" if sign_off else "report.html") if out is None else out
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise errors.InvalidValue(f"Cannot write {file}: {error.strerror}.") from error
    if statement is not None:
        from reticent.report import statement_files

        statement_files.write(file.parent, statement)
    tell(f"Wrote {file}.")


def _model_page(folder: Path, *, sign_off: bool) -> "tuple[str, Statement]":
    """Returns the page of a model directory, read without its encoder and its learner, and its statement."""
    from reticent.directory import Directory
    from reticent.released.sums import Sums
    from reticent.report.model_page import model_page
    from reticent.report.sign_off import sign_off_page

    directory = Directory.open(folder, rule=Sums())  # nothing is predicted: any rule will do
    model, statement = directory.model, directory.statement()
    known = model.labels.labels
    if sign_off:
        return sign_off_page(statement, releases=len(model.releases), labels=len(known)), statement
    title = f"Model {statement.name}" if statement.name else "A model"
    return model_page(title, releases=model.releases, known=known, statement=statement), statement


def _command() -> str:
    """Returns what makes the results: what the user typed, without "run nothing"."""
    return shlex.join(["reticent", *(word for word in sys.argv[1:] if word != "--tables-only")])
