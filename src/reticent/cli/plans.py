"""The verb plan: what a budget buys."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from reticent import errors
from reticent.budget import Budget
from reticent.cli import person_options
from reticent.cli.inputs import memory_of
from reticent.cli.options import AsJson, Delta, Epsilon, Horizon, Plot, Recurring, TaskSize, console, starting_with
from reticent.privacy import planning


def plan(
    epsilon: Epsilon,
    delta: Delta,
    class_size: Annotated[
        list[int] | None, typer.Option(help="Examples of a class in a task; may be given several times.")
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help=f"What --json and --plot show: {', '.join(planning.MECHANISMS)}.",
            autocompletion=starting_with(lambda: planning.MECHANISMS),
        ),
    ] = planning.JOINT_GAUSSIAN,
    share: Annotated[
        str, typer.Option(help="Part of epsilon and delta for the labels, or auto (all but joint-gaussian).")
    ] = str(planning.DEFAULT_SHARE),
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
    as_json: AsJson = False,
) -> None:
    """Say what a budget buys, before any data exists.

    Noise, thresholds, and which classes will be released, for every label mechanism.

    Example: `reticent plan --epsilon 1 --delta 1e-5 --class-size 100 --tasks 12`
    """
    budget = person_options.budget(epsilon, delta, tasks_per_person, examples_per_person, replace_one)
    errors.whole("tasks", tasks, at_least=1)
    if 1 < tasks < tasks_per_person:
        raise errors.InvalidValue(f"Expected tasks-per-person <= tasks, got {tasks_per_person} > {tasks}.")
    if learner not in ("cosine", "peft"):
        raise errors.InvalidValue(f"Expected a learner out of cosine, peft; got {learner}.")
    sizes = class_size or [100]
    training = planning.training_plan(budget, class_size=min(sizes), task_size=task_size) if learner == "peft" else None
    part = _share(share)
    settings: dict[str, Any] = {"class_sizes": class_size or (), "share": part, "count_weight": count_weight}
    chosen = planning.plan(budget, mechanism=mechanism, **settings)
    kept = memory_of(Path("vault") if memory else None, horizon, recurring)
    remembered = None
    if kept is not None:
        from reticent.privacy.memory_plan import memory_plan

        remembered = memory_plan(budget, kept, tasks=tasks, class_sizes=class_size or (), count_weight=count_weight)
    if plot is not None:
        _plot_plan(plot, budget, chosen)
    if as_json:
        facts = chosen.json() if training is None else {**chosen.json(), "training": training.json()}
        facts |= {} if remembered is None else {"memory": remembered.json()}
        typer.echo(json.dumps(facts, indent=2))
        return
    from reticent.report.terminal import plan_notes, plan_tables, training_table

    plans = [planning.plan(budget, mechanism=name, **settings) for name in planning.MECHANISMS]
    terminal = console()
    for table in plan_tables(plans):
        terminal.print(table)
    for line in plan_notes(chosen, tasks, asked=bool(class_size)):
        terminal.print(line, markup=False, highlight=False)
    if remembered is not None:
        from reticent.report.memory_tables import memory_lines

        for shown in memory_lines(remembered):
            terminal.print(shown, markup=False, highlight=False)
    if training is not None:
        terminal.print(training_table(training))
        terminal.print(f"Likely better: {training.likely_better}. {training.why}", markup=False, highlight=False)
        terminal.print("rt.compare(proxy, budget, tasks) simulates both on public data.", markup=False, highlight=False)


def _share(text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise errors.InvalidValue(f"Expected share to be a number from 0 to 1, or auto, got {text}.") from None


def _plot_plan(path: Path, budget: Budget, chosen: planning.Plan) -> None:
    from reticent.report import figures, picture

    picture.check_path(path)
    share = 1.0 if chosen.epsilon_labels is None else chosen.epsilon_labels / chosen.epsilon
    plots = figures.plan_figures(budget, mechanism=chosen.mechanism, share=share, count_weight=chosen.count_weight)
    picture.save(path, figures.DROP_TITLE, plots, figures.DROP_WORDS)
