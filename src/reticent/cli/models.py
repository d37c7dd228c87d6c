"""Verbs for models: plan, init, learn, predict, evaluate."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from reticent import errors, names
from reticent.budget import Budget
from reticent.cli import ledger_verbs
from reticent.cli.options import AsJson, Delta, Epsilon, Plot, console
from reticent.memory import Memory
from reticent.privacy import planning
from reticent.privacy.correlation import DEFAULT_HORIZON
from reticent.privacy.rounding import exact, rounded_up

Model = Annotated[Path, typer.Option(help="The model directory.")]
Text = Annotated[str | None, typer.Option(help="Column with texts.")]
Image = Annotated[str | None, typer.Option(help="Column with paths of images.")]
Features = Annotated[str | None, typer.Option(help="Columns of numbers, separated by commas.")]
Person = Annotated[
    str | None, typer.Option("--person", "--unit", help="Column that says whose example it is, of private data.")
]
Again = Annotated[
    str | None, typer.Option(help="As given to init, where it is not stored: hf:NAME, timm:NAME or module:object.")
]
Horizon = Annotated[int | None, typer.Option(help="With --memory: how many tasks an epoch has at most; 120.")]
Recurring = Annotated[
    bool | None,
    typer.Option("--recurring/--not-recurring", help="With --memory: whether labels come back, by public knowledge."),
]
TaskSize = Annotated[int, typer.Option(help="About how many examples a task has; only peft asks.")]


def plan(
    epsilon: Epsilon,
    delta: Delta,
    class_size: Annotated[
        list[int] | None, typer.Option(help="Examples of a class in a task; may be given several times.")
    ] = None,
    mechanism: Annotated[
        str, typer.Option(help=f"What --json and --plot show: {', '.join(planning.MECHANISMS)}.")
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
    budget = Budget(
        epsilon=epsilon, delta=delta, tasks_per_person=tasks_per_person, examples_per_person=examples_per_person
    )
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
    kept = _memory(Path("vault") if memory else None, horizon, recurring)
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
    from reticent.report.terminal import plan_notes, plan_table, training_table

    plans = [planning.plan(budget, mechanism=name, **settings) for name in planning.MECHANISMS]
    terminal = console()
    terminal.print(plan_table(plans))
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


def init(
    folder: Annotated[Path, typer.Argument(help="The model directory to make.")],
    epsilon: Epsilon,
    delta: Delta,
    tasks_per_person: Annotated[int, typer.Option(help="In how many tasks one person may appear.")] = 1,
    examples_per_person: Annotated[int, typer.Option(help="How many examples one person may add to a task.")] = 1,
    labels: Annotated[
        Path | None, typer.Option(help="Public labels, one per line; without it labels are released privately.")
    ] = None,
    released: Annotated[bool, typer.Option("--released", help="Release labels privately (the default).")] = False,
    class_size: Annotated[
        int | None, typer.Option(help="With released labels: the smallest class that must be released.")
    ] = None,
    taxonomy: Annotated[
        Path | None, typer.Option(help="With public labels: a CSV file with the columns child and parent.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="What labels mean: a public CSV file with the columns label and name.")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="minilm (text), efficientnet-lite0 (images), hf:NAME, timm:NAME, module:object or none.")
    ] = "minilm",
    learner: Annotated[
        str, typer.Option(help="cosine, peft, the paper's: cosine-paper, peft-paper; or your own: module:object.")
    ] = "cosine",
    task_size: TaskSize = 1_000,
    memory: Annotated[
        Path | None, typer.Option(help="A folder outside of the model for a vault: noise cancels over tasks.")
    ] = None,
    horizon: Horizon = None,
    recurring: Recurring = None,
    as_json: AsJson = False,
) -> None:
    """Make a model directory: the budget and the label policy are fixed here.

    Example: `reticent init model/ --epsilon 1 --delta 1e-5 --tasks-per-person 1 --released`
    """
    from reticent.classifier import ContinualClassifier
    from reticent.label_names import read_names
    from reticent.labels import Taxonomy
    from reticent.policies import PublicLabels, ReleasedLabels
    from reticent.sensitive import learners

    if labels is not None and (released or class_size is not None):
        raise errors.InvalidValue(
            "Expected --labels FILE for public labels, or --released with --class-size; not both."
        )
    if taxonomy is not None and labels is None:
        raise errors.InvalidValue("Expected --labels FILE with --taxonomy.")
    chosen = learners.named(learner, task_size=task_size)
    budget = Budget(
        epsilon=epsilon, delta=delta, tasks_per_person=tasks_per_person, examples_per_person=examples_per_person
    )
    if labels is not None:
        remap = None if taxonomy is None else Taxonomy.from_csv(taxonomy)
        policy: Any = PublicLabels.from_file(labels, remap=remap, names=names)
    else:
        policy = ReleasedLabels(class_size=class_size, names=None if names is None else read_names(names))
        policy.joint(budget)  # refuses what no noise can keep before anything is written
    if (folder / "manifest.json").exists():
        raise errors.InvalidValue(f"{folder} is a model already. Learn with it, or choose another folder.")
    remembered = _memory(memory, horizon, recurring)
    model = ContinualClassifier(
        encoder=_encoder(encoder), labels=policy, learner=chosen, budget=budget, path=folder, memory=remembered
    )
    typer.echo(json.dumps(model.statement().json(), indent=2) if as_json else model.privacy_statement())
    if names is not None and not as_json:
        typer.echo(f"\n{_about_names(policy)}")


def learn(
    source: Annotated[Path, typer.Argument(help="A .csv, .parquet or .npz file, or a folder of images by label.")],
    model: Model,
    text: Text = None,
    image: Image = None,
    features: Features = None,
    label: Annotated[str | None, typer.Option(help="Column with the labels.")] = None,
    person: Person = None,
    name: Annotated[str | None, typer.Option(help="Public name of the task; the file's name by default.")] = None,
    encoder: Again = None,
    learner: Again = None,
    vault: Annotated[
        Path | None, typer.Option(help="Where the vault of a model with memory is, if it was moved.")
    ] = None,
    anchor: Annotated[
        Path | None, typer.Option(help="A note of the ledger's last row, kept elsewhere: checked, and written anew.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn one task from a file. Takes no privacy flags: they were fixed by init.

    Example: `reticent learn march.parquet --model model/ --text note --label code`
    """
    task = _task(source, name)
    classifier = _loaded(model, encoder, learner, vault)
    examples = _labelled(source, text=text, image=image, features=features, label=label, person=person)
    if anchor is not None:
        ledger_verbs.anchored(model, anchor)
    classifier.learn_task(examples.inputs, examples.labels, name=task, persons=examples.persons)
    if anchor is not None:
        ledger_verbs.anchored(model, anchor)
    facts = {"task": task, "labels_known": len(classifier.classes_), **classifier.spent()}
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(
        f"Learned {task}. {facts['labels_known']} label(s) known; one person has lost at most epsilon ", nl=False
    )
    budget = f"{exact(facts['budget'])} at delta {exact(facts['delta'])}"
    typer.echo(f"{rounded_up(facts['epsilon'])} of {budget} ({facts['adjacency']}).")


def predict(
    source: Annotated[Path, typer.Argument(help="A .csv, .parquet or .npz file, or a folder of images.")],
    model: Model,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A CSV file to write.")] = None,
    text: Text = None,
    image: Image = None,
    features: Features = None,
    top: Annotated[int, typer.Option(help="How many labels for each example.")] = 1,
    safe_csv: Annotated[
        bool, typer.Option("--safe-csv", help="For spreadsheets: an apostrophe before texts that begin like a formula.")
    ] = False,
    encoder: Again = None,
    learner: Again = None,
    as_json: AsJson = False,
) -> None:
    """Predict labels from releases alone: one row for each example, in their order; what cannot be read is UNKNOWN.

    Example: `reticent predict new.csv --model model/ --text note -o out.csv`
    """
    from reticent.readers import Columns, read
    from reticent.released.contents import refuse_own
    from reticent.report.csv_output import write_csv

    if output is not None:
        refuse_own(output)
    elif not as_json:
        raise errors.InvalidValue("Expected a place for the predictions: -o FILE.csv, or --json.")
    classifier = _loaded(model, encoder, learner)
    examples = read(source, Columns(text=text, image=image, features=_list(features)), labelled=False)
    best = classifier.predict_top_k(examples.inputs, top)
    if as_json:
        typer.echo(json.dumps({"labels": best.tolist()}, indent=2))
    if output is None:
        return
    shown = examples.inputs if text or image else range(1, len(best) + 1)
    header = [text or image or "row", "label", *(f"label_{i}" for i in range(2, top + 1))]
    write_csv(output, header, ([example, *row] for example, row in zip(shown, best, strict=True)), safe=safe_csv)


def evaluate(
    source: Annotated[Path, typer.Argument(help="A .csv, .parquet or .npz file, or a folder of images by label.")],
    model: Model,
    text: Text = None,
    image: Image = None,
    features: Features = None,
    label: Annotated[str | None, typer.Option(help="Column with the labels.")] = None,
    public: Annotated[bool, typer.Option("--public", help="The test data is public: exact accuracy, free.")] = False,
    epsilon: Annotated[
        float | None, typer.Option(help="The test data is private: noisy accuracy, paid for in the ledger.")
    ] = None,
    person: Person = None,
    name: Annotated[str | None, typer.Option(help="Public name of the test data; the file's name by default.")] = None,
    encoder: Again = None,
    learner: Again = None,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy: exactly on public test data, or with noise on private data.

    Example: `reticent evaluate test.csv --model model/ --text note --label code --public`
    """
    if public == (epsilon is not None):
        raise errors.InvalidValue("Expected --public for public test data, or --epsilon E for private data.")
    if public and person is not None:
        raise errors.InvalidValue("Expected --person with --epsilon only: it bounds what one person adds to a sum.")
    task = f"evaluation {_task(source, name)}"
    classifier = _loaded(model, encoder, learner)
    examples = _labelled(source, text=text, image=image, features=features, label=label, person=person)
    if epsilon is None:
        accuracy = classifier.score(examples.inputs, examples.labels)
    else:
        accuracy = classifier.private_score(
            examples.inputs, examples.labels, epsilon=epsilon, name=task, persons=examples.persons
        )
    facts = {"accuracy": accuracy, "public": public, "epsilon": epsilon}
    typer.echo(json.dumps(facts, indent=2) if as_json else f"accuracy {accuracy:.4f}{'' if public else ' (noisy)'}")


def _about_names(policy: Any) -> str:
    """Says how many labels have a name, and what becomes of the others."""
    if not hasattr(policy, "labels"):
        return f"Names: {len(policy.names):,} labels have one in the file; others, what they say by themselves."
    without = sum(policy.name(label) is None for label in policy.labels)
    return f"Names: {len(policy.labels) - without:,} of {len(policy.labels):,} labels have one; {without:,} without."


def _encoder(name: str) -> Any:
    from reticent import encoders

    return encoders.named(name, own=True)


def _memory(vault: Path | None, horizon: int | None, recurring: bool | None) -> Memory | None:
    if vault is None:
        if horizon is not None or recurring is not None:
            raise errors.InvalidValue("Expected --memory VAULT with --horizon, --recurring and --not-recurring.")
        return None
    return Memory(vault=vault, horizon=DEFAULT_HORIZON if horizon is None else horizon, recurring=recurring)


def _loaded(folder: Path, encoder: str | None, learner: str | None, vault: Path | None = None) -> Any:
    """Loads a model; code and weights that are not stored are named again by the user."""
    from reticent.classifier import load

    own = None
    if learner is not None:
        from reticent.sensitive import learners

        own = learners.named(learner)
    return load(folder, encoder=None if encoder is None else _encoder(encoder), learner=own, vault=vault)


def _labelled(source: Path, *, features: str | None, **columns: str | None) -> Any:
    """Reads examples with their labels."""
    from reticent.readers import Columns, read

    examples = read(source, Columns(features=_list(features), **columns))
    if examples.labels is None:
        raise errors.InvalidValue("Expected the column with the labels: --label.")
    return examples


def _task(source: Path, name: str | None) -> str:
    """Returns the public name of a task: the file's, unless another is given."""
    if name is not None:
        return names.public_name(name)
    try:
        return names.public_name(source.stem)
    except errors.InvalidValue as error:
        raise errors.InvalidValue(f"{error} The name of the file is that of the task unless --name is given.") from None


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


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
