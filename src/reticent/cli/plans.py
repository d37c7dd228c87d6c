"""The verb plan: what a budget buys, before any data exists."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from reticent import errors
from reticent.budget import Budget
from reticent.cli import person_options
from reticent.cli.inputs import memory_of
from reticent.cli.options import AsJson, Horizon, Plot, Recurring, TaskSize, console, starting_with, tell
from reticent.privacy.mechanism_names import DEFAULT_SHARE, JOINT_GAUSSIAN, MECHANISMS
from reticent.privacy.rounding import exact

if TYPE_CHECKING:
    from rich.table import Table

    from reticent.privacy.planning import Plan

STANDARD_OUTPUT = Path("-")


def plan(
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy loss of one person over the whole stream; or give --release.")
    ] = None,
    delta: Annotated[
        float,
        typer.Option(help="Chance that epsilon does not hold: take it far below one over the number of persons."),
    ] = 1e-5,
    class_size: Annotated[
        list[int] | None, typer.Option(help="Examples of a class in a task; may be given several times.")
    ] = None,
    release: Annotated[
        int | None,
        typer.Option(help="Plan backwards: find the epsilon at which classes of so many examples are released."),
    ] = None,
    chance: Annotated[
        float | None, typer.Option(help="With --release: with which probability they are to be released; 0.99.")
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help=f"What --json and --plot show: {', '.join(MECHANISMS)}.",
            autocompletion=starting_with(lambda: MECHANISMS),
        ),
    ] = JOINT_GAUSSIAN,
    share: Annotated[
        str, typer.Option(help="Part of epsilon and delta for the labels, or auto (all but joint-gaussian).")
    ] = str(DEFAULT_SHARE),
    count_weight: Annotated[
        float | None, typer.Option(help="c^2 of the joint Gaussian; by default chosen for the class sizes.")
    ] = None,
    tasks: Annotated[int, typer.Option(help="Length of the stream.")] = 1,
    tasks_per_person: Annotated[int, typer.Option(help="In how many tasks one person may appear.")] = 1,
    examples_per_person: Annotated[int, typer.Option(help="How many examples one person may add to a task.")] = 1,
    replace_one: person_options.ReplaceOne = False,
    learner: Annotated[str, typer.Option(help="cosine; or peft: also plan DP-SGD and say which is likely better.")] = (
        "cosine"
    ),
    task_size: TaskSize = 1_000,
    memory: Annotated[
        bool, typer.Option("--memory", help="Also say what memory would buy: noise, and when labels become known.")
    ] = False,
    horizon: Horizon = None,
    recurring: Recurring = None,
    plot: Plot = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write the tables as a page, one file that needs no network; - prints it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a budget buys, before any data exists.

    Noise, thresholds, and which classes will be released, for every label mechanism. Or backwards: which epsilon
    releases classes of a size.

    Example: `reticent plan --epsilon 1 --delta 1e-5 --class-size 100 --tasks 12` or
    `reticent plan --release 50 --class-size 40 --tasks 12`
    """
    from reticent.privacy import planning
    from reticent.privacy.backwards import CHANCE
    from reticent.privacy.count_weights import default_count_weight

    if (epsilon is None) == (release is None):
        raise errors.InvalidValue("Expected --epsilon E, or --release N to find it.")
    if chance is not None and release is None:
        raise errors.InvalidValue("Expected --release N with --chance.")
    errors.whole("tasks", tasks, at_least=1, at_most=10**15)
    if 1 < tasks < tasks_per_person:
        raise errors.InvalidValue(f"Expected tasks-per-person <= tasks, got {tasks_per_person} > {tasks}.")
    if learner not in ("cosine", "peft"):
        raise errors.InvalidValue(f"Expected a learner out of cosine, peft; got {learner}.")
    loss = 1.0 if epsilon is None else epsilon
    budget = person_options.budget(loss, delta, tasks_per_person, examples_per_person, replace_one)
    part, asked, wanted = _share(share), tuple(class_size or ()), CHANCE if chance is None else chance
    if release is not None:
        budget = _backwards(budget, release, wanted, mechanism, part, count_weight)
        asked = tuple(dict.fromkeys((release, *asked)))
        if count_weight is None:  # what a model takes that is told no class size
            count_weight = default_count_weight(budget)
    sizes = asked or (100,)
    training = planning.training_plan(budget, class_size=min(sizes), task_size=task_size) if learner == "peft" else None
    settings: dict[str, Any] = {"class_sizes": asked, "share": part, "count_weight": count_weight}
    chosen = planning.plan(budget, mechanism=mechanism, **settings)
    kept = memory_of(Path("vault") if memory else None, horizon, recurring)
    remembered = None
    if kept is not None:
        from reticent.privacy.memory_plan import memory_plan

        remembered = memory_plan(budget, kept, tasks=tasks, class_sizes=asked, count_weight=count_weight)
    if plot is not None:
        _plot_plan(plot, budget, chosen)
    shown: list[Table | str] = []
    if html is not None or not as_json:
        from reticent.report.terminal import plan_notes, plan_tables, training_table

        if release is not None:
            found = (
                f"Classes of {release} are released with probability {wanted:g} from epsilon {exact(budget.epsilon)}"
            )
            shown.append(f"{found} on, at delta {exact(delta)}, in every task that has one.")
        shown += plan_tables([planning.plan(budget, mechanism=name, **settings) for name in MECHANISMS])
        shown += plan_notes(chosen, tasks, asked=bool(class_size) and release is None)
        shown.append(_assumed(budget))
        if remembered is not None:
            from reticent.report.memory_tables import memory_lines

            shown += memory_lines(remembered)
        if training is not None:
            shown += [
                training_table(training),
                f"Likely better: {training.likely_better}. {training.why}",
                "rt.compare(proxy, budget, tasks) simulates both on public data.",
            ]
    if html is not None:
        _write_page(html, shown)
        if html == STANDARD_OUTPUT:
            return
    if as_json:
        facts = chosen.json() if training is None else {**chosen.json(), "training": training.json()}
        facts |= {} if remembered is None else {"memory": remembered.json()}
        facts |= {} if release is None else {"release": {"class_size": release, "chance": wanted}}
        typer.echo(json.dumps(facts, indent=2))
        return
    terminal = console()
    for table_or_text in shown:
        terminal.print(table_or_text, markup=False, highlight=False)
    for written in filter(None, (plot, html)):
        tell(f"Wrote {written}.")


def _backwards(
    budget: Budget, release: int, chance: float, mechanism: str, share: float | Literal["auto"], weight: float | None
) -> Budget:
    from reticent.privacy.backwards import budget_to_release

    if share == "auto":
        raise errors.InvalidValue("Expected a number for --share with --release: auto is found from epsilon.")
    return budget_to_release(budget, release, chance=chance, mechanism=mechanism, share=share, count_weight=weight)


def _assumed(budget: Budget) -> str:
    """Says what the budget assumes of persons."""
    tasks, examples = budget.tasks_per_person, budget.examples_per_person
    return (
        f"Valid only if no person is in more than {tasks} task{'s'[: tasks > 1]}, with at most {examples} "
        f"example{'s'[: examples > 1]} in each (--tasks-per-person, --examples-per-person); this is not checked."
    )


def _share(text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise errors.InvalidValue(f"Expected share to be a number from 0 to 1, or auto, got {text}.") from None


def _write_page(path: Path, shown: "list[Table | str]") -> None:
    from reticent.report.plan_page import plan_page

    if path == STANDARD_OUTPUT:
        typer.echo(plan_page(shown))
        return
    if path.suffix.lower() != ".html":
        raise errors.InvalidValue(f"Expected a file that ends in .html, or - to print the page, got {path.name}.")
    try:
        path.write_text(plan_page(shown), encoding="utf-8")
    except OSError as error:
        raise errors.InvalidValue(f"Cannot write {path}: {error.strerror}.") from error


def _plot_plan(path: Path, budget: Budget, chosen: "Plan") -> None:
    from reticent.report import figures, picture

    picture.check_path(path)
    share = 1.0 if chosen.epsilon_labels is None else chosen.epsilon_labels / chosen.epsilon
    plots = figures.plan_figures(budget, mechanism=chosen.mechanism, share=share, count_weight=chosen.count_weight)
    picture.save(path, figures.DROP_TITLE, plots, figures.DROP_WORDS)
