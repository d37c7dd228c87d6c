"""Verbs that try things out on public data before any sensitive data is touched: compare, tune."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent import errors
from reticent.budget import Budget
from reticent.cli.inputs import encoder_of, labelled, learner_of
from reticent.cli.options import AsJson, Delta, Epsilon, Features, Image, TaskSize, Text, console, tell

Sample = Annotated[
    Path,
    typer.Argument(help="PUBLIC data that look like what is to come: a .csv, .parquet or .npz file, or - for CSV."),
]
Label = Annotated[str | None, typer.Option(help="Column with the labels.")]
IsPublic = Annotated[
    bool, typer.Option("--public", help="Your word that the data are public: nothing is paid for, nothing is private.")
]
Encoder = Annotated[
    str,
    typer.Option(help="The encoder to come: minilm, efficientnet-lite0, hf:NAME, timm:NAME, none or module:object."),
]
TasksPerPerson = Annotated[int, typer.Option(help="Of the model to come: in how many tasks one person may appear.")]
Seed = Annotated[int, typer.Option(help="Of splits, order and noise.")]


def compare(
    sample: Sample,
    epsilon: Epsilon,
    delta: Delta,
    text: Text = None,
    image: Image = None,
    features: Features = None,
    label: Label = None,
    public: IsPublic = False,
    tasks_per_person: TasksPerPerson = 1,
    tasks: Annotated[int, typer.Option(help="Into how many tasks of different labels the sample is split.")] = 10,
    learner: Annotated[
        list[str] | None,
        typer.Option(help="Learner to try, as init takes it; may be given several times; cosine and peft by default."),
    ] = None,
    released: Annotated[bool, typer.Option("--released", help="Release labels, as the model to come does.")] = False,
    encoder: Encoder = "minilm",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare learners on public data that look like yours: which accuracy to expect. NOT for sensitive data.

    A fifth is held out for testing; the rest becomes a stream of tasks. Noise is drawn from a seed.

    Example: `reticent compare public.csv --public --text note --label code --epsilon 1 --delta 1e-5 --tasks 12`
    """
    _refuse_private(public)
    budget = Budget(epsilon=epsilon, delta=delta, tasks_per_person=tasks_per_person)
    named = {name: learner_of(name) for name in learner} if learner else None
    from reticent.lab.compare import compare as simulate
    from reticent.policies import ReleasedLabels

    examples = labelled(sample, text=text, image=image, features=features, label=label)
    found = simulate(
        (examples.inputs, list(examples.labels)),
        budget,
        errors.whole("tasks", tasks, at_least=1),
        learners=named,
        labels=ReleasedLabels() if released else None,
        encoder=encoder_of(encoder if text or image else "none"),
        seed=seed,
    )
    if as_json:
        typer.echo(json.dumps(found.json(), indent=2))
        return
    from reticent.report.terminal import columns

    table = columns(
        "Average accuracy after the last task",
        ("learner", "accuracy", "forgotten", "seconds", "storage"),
        names=("learner",),
    )
    for trial in found.trials:
        shown = (f"{trial.accuracy:.1%}", f"{trial.forgetting:.1%}", f"{trial.seconds:.1f}")
        table.add_row(trial.learner, *shown, f"{trial.storage / 1024:,.0f} kB")
    console().print(table)
    tell(f"Best here: {found.best}. One split and one draw of seeded noise; NOT PRIVATE.")


def tune(
    sample: Sample,
    epsilon: Epsilon,
    delta: Delta,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .json file for the learner: init --learner FILE.")],
    text: Text = None,
    image: Image = None,
    features: Features = None,
    label: Label = None,
    public: IsPublic = False,
    tasks_per_person: TasksPerPerson = 1,
    task_size: TaskSize = 1_000,
    trials: Annotated[int, typer.Option(help="How many settings are tried.")] = 20,
    encoder: Encoder = "minilm",
    seed: Seed = 0,
) -> None:
    """Find settings for training (peft) on one public task like those to come. NOT for sensitive data.

    On sensitive data settings have a price, which Python pays: see docs/tuning.md.

    Example: `reticent tune public.csv --public --text note --label code --epsilon 4 --delta 1e-5 -o learner.json`
    """
    _refuse_private(public)
    if output.suffix.lower() != ".json":
        raise errors.InvalidValue(f"Expected a file that ends in .json, got {output.name}.")
    budget = Budget(epsilon=epsilon, delta=delta, tasks_per_person=tasks_per_person)
    start = learner_of("peft", task_size=task_size)
    from reticent.numerics.files import write_whole
    from reticent.released.contents import refuse_own
    from reticent.sensitive.tuning import tune as search

    refuse_own(output)
    examples = labelled(sample, text=text, image=image, features=features, label=label)
    through: Any = encoder_of(encoder if text or image else "none")
    found = search(
        start, examples.inputs, list(examples.labels), budget=budget, encoder=through, trials=trials, seed=seed
    )
    write_whole(output, json.dumps(found.to_json(), indent=2) + "\n")
    tell(f"Wrote {output}: {found.tuning}. Use it: reticent init MODEL --learner {output} ...")


def _refuse_private(public: bool) -> None:
    if not public:
        raise errors.InvalidValue("Expected --public: your word that these data are public, since nothing is paid for.")
