"""Verbs that make a model and let it learn: init, learn."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent import errors
from reticent.cli import ledger_verbs, person_options
from reticent.cli.inputs import cluster_of, encoder_of, labelled, learner_of, loaded, memory_of, task_name
from reticent.cli.options import (
    Address,
    Again,
    AsJson,
    BatchSize,
    Delta,
    Device,
    Epsilon,
    Features,
    HalfPrecision,
    Horizon,
    Image,
    Label,
    LearnerAgain,
    Model,
    Recurring,
    Source,
    TaskSize,
    Text,
    starting_with,
)
from reticent.numerics.shared_memory import share_a_file


def _encoders() -> list[str]:
    from reticent import encoders

    return [*(name.replace("_", "-") for name in encoders.SHIPPED), "hf:", "timm:", "none"]


def _learners() -> tuple[str, ...]:
    from reticent.sensitive import learners

    return learners.names()


def init(
    folder: Annotated[Path, typer.Argument(help="The model directory to make.")],
    epsilon: Epsilon,
    delta: Delta,
    tasks_per_person: person_options.TasksPerPerson = None,
    examples_per_person: Annotated[int, typer.Option(help="How many examples one person may add to a task.")] = 1,
    person: person_options.Person = None,
    each_row_is_a_person: person_options.EachRow = False,
    replace_one: person_options.ReplaceOne = False,
    score_epsilon: person_options.ScoreEpsilon = None,
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
        str,
        typer.Option(
            help="What turns inputs into features: minilm (texts; minilm-torch to adapt it or to compute on a graphics "
            "card), efficientnet-lite0 (images), hf:NAME (a model of the Hugging Face hub or a folder), timm:NAME, "
            "onnx:FILE (a text model with its tokenizer.json beside it), none (inputs are features), or your own as "
            "module:object, which imports the module from this folder or the path and runs its code.",
            autocompletion=starting_with(_encoders),
        ),
    ] = "minilm",
    learner: Annotated[
        str,
        typer.Option(
            help="What is released of a task: cosine (one noisy sum for each label; the default, best for small "
            "classes), peft (trains a head on each task with DP-SGD; for large classes, see plan --learner peft), "
            "the paper's cosine-paper and peft-paper, a .json file that tune wrote, or your own as module:object, "
            "which runs the module's code.",
            autocompletion=starting_with(_learners),
        ),
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
    from reticent.policies import PublicLabels, ReleasedLabels
    from reticent.released.settings import PERSON
    from reticent.taxonomy import Taxonomy

    if labels is not None and (released or class_size is not None):
        raise errors.InvalidValue(
            "Expected --labels FILE for public labels, or --released with --class-size; not both."
        )
    if taxonomy is not None and labels is None:
        raise errors.InvalidValue("Expected --labels FILE with --taxonomy.")
    chosen = learner_of(learner, task_size=task_size)
    budget = person_options.budget(epsilon, delta, tasks_per_person, examples_per_person, replace_one, score_epsilon)
    if person is not None and each_row_is_a_person:
        person_options.said(person, each_row_is_a_person, {})  # refuses both
    if labels is not None:
        remap = None if taxonomy is None else Taxonomy.from_csv(taxonomy)
        policy: Any = PublicLabels.from_file(labels, remap=remap, names=names)
    else:
        policy = ReleasedLabels(class_size=class_size, names=None if names is None else read_names(names))
        policy.joint(budget)  # refuses what no noise can keep before anything is written
    if (folder / "manifest.json").exists():
        raise errors.InvalidValue(f"{folder} is a model already. Learn with it, or choose another folder.")
    remembered = memory_of(memory, horizon, recurring)
    model = ContinualClassifier(
        encoder=encoder_of(encoder), labels=policy, learner=chosen, budget=budget, path=folder, memory=remembered
    )
    if person is not None or each_row_is_a_person:
        model.directory.set({PERSON: person_options.said(person, each_row_is_a_person, {})})
    typer.echo(json.dumps(model.statement().json(), indent=2) if as_json else model.privacy_statement())
    if not as_json:
        person_options.say_sizes(policy, budget, remembers=memory is not None)
    if names is not None and not as_json:
        typer.echo(f"\n{_about_names(policy)}")


def learn(
    source: Source,
    model: Model,
    text: Text = None,
    image: Image = None,
    features: Features = None,
    label: Label = None,
    person: person_options.Person = None,
    each_row_is_a_person: person_options.EachRow = False,
    name: Annotated[str | None, typer.Option(help="Public name of the task; the file's name by default.")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Labels of this task alone, one in each line: a public part of the model's public labels."),
    ] = None,
    encoder: Again = None,
    learner: LearnerAgain = None,
    device: Device = None,
    batch_size: BatchSize = None,
    bf16: HalfPrecision = False,
    engine: Annotated[
        str | None, typer.Option(help="ray: the machines of a Ray cluster encode and add up; the release is the same.")
    ] = None,
    address: Address = None,
    vault: Annotated[
        Path | None, typer.Option(help="Where the vault of a model with memory is, if it was moved.")
    ] = None,
    anchor: Annotated[
        Path | None, typer.Option(help="A note of the ledger's last row, kept elsewhere: checked, and written anew.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn one task from a file. Takes no privacy flags: they were fixed by init.

    Example: `reticent learn march.parquet --model model/ --person patient --text note --label code`
    """
    from reticent.policies import PublicLabels

    task, cluster = task_name(source, name), cluster_of(engine, address)
    if labels is not None and share_a_file(labels, source):
        raise errors.InvalidValue("Expected --labels FILE with labels that were chosen in public, got the examples.")
    part = None if labels is None else PublicLabels.from_file(labels).labels
    classifier = loaded(model, encoder, learner, vault, device=device, batch_size=batch_size, bf16=bf16)
    classifier.engine = cluster
    person = person_options.said(person, each_row_is_a_person, classifier.directory.settings)
    examples = labelled(source, text=text, image=image, features=features, label=label, person=person)
    if anchor is not None:
        ledger_verbs.anchored(model, anchor)
    if not as_json:
        person_options.say_sizes(classifier.labels, classifier.budget, remembers=classifier.memory is not None)
    classifier.learn_task(examples, name=task, each_row_is_a_person=person is None, labels=part)
    if anchor is not None:
        ledger_verbs.anchored(model, anchor)
    statement, known = classifier.statement(), len(classifier.classes_)
    if as_json:
        typer.echo(json.dumps({"task": task, "labels_known": known, **statement.spent()}, indent=2))
        return
    typer.echo(f"Learned {task}. {known} label(s) known.")
    person_options.say_spent(statement)


def _about_names(policy: Any) -> str:
    """Says how many labels have a name, and what becomes of the others."""
    if not hasattr(policy, "labels"):
        return f"Names: {len(policy.names):,} labels have one in the file; others, what they say by themselves."
    without = sum(policy.name(label) is None for label in policy.labels)
    return f"Names: {len(policy.labels) - without:,} of {len(policy.labels):,} labels have one; {without:,} without."
