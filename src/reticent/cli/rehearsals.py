"""Verbs that try things out before a model learns: compare, on public data; tune, on public data or for a price."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from reticent import errors
from reticent.budget import Budget
from reticent.cli import person_options, tuning_verb
from reticent.cli.inputs import cluster_of, encoder_of, labelled, learner_of
from reticent.cli.options import Address, AsJson, Delta, Epsilon, Features, Image, Label, TaskSize, Text, console, tell

Sample = Annotated[
    Path,
    typer.Argument(help="PUBLIC data that look like what is to come: a .csv, .parquet or .npz file, or - for CSV."),
]
IsPublic = Annotated[
    bool, typer.Option("--public", help="Your word that the data are public: nothing is paid for, nothing is private.")
]
Encoder = Annotated[
    str,
    typer.Option(
        help="The encoder to come: minilm, efficientnet-lite0, hf:NAME, onnx:FILE, timm:NAME, none, module:object."
    ),
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
    from reticent.readers import collected

    examples = collected(labelled(sample, text=text, image=image, features=features, label=label))
    found = simulate(
        (examples.inputs, list(examples.labels or ())),
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
    sample: Annotated[
        Path,
        typer.Argument(help="Public data like those to come; or, with --model, private data, paid for."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .json file for the learner: init or learn --learner FILE.")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Of the model to come; with --model what tuning may cost, else its budget."),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Likewise.")] = None,
    text: Text = None,
    image: Image = None,
    features: Features = None,
    label: Label = None,
    public: IsPublic = False,
    tasks_per_person: TasksPerPerson = 1,
    task_size: TaskSize = 1_000,
    trials: Annotated[int, typer.Option(help="With --public: how many settings are tried.")] = 20,
    encoder: Annotated[
        str | None,
        typer.Option(help="As init takes it, else minilm; with --model as given to init, where it is not stored."),
    ] = None,
    seed: Seed = 0,
    at_once: Annotated[
        int, typer.Option(help="With --public: how many settings are chosen before their scores are known.")
    ] = 1,
    engine: Annotated[
        str | None, typer.Option(help="With --public: ray, to try settings on a Ray cluster, --at-once of them.")
    ] = None,
    address: Address = None,
    model: Annotated[
        Path | None, typer.Option(help="Tune on private data: the model, made with --learner peft, whose ledger pays.")
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(help="With --model: PUBLIC data with the same columns that runs are scored on.")
    ] = None,
    person: person_options.Person = None,
    each_row_is_a_person: person_options.EachRow = False,
    name: Annotated[str, typer.Option(help="With --model: the public name of the spend.")] = "tuning",
    mean_runs: Annotated[
        float, typer.Option(help="With --model: how many runs to expect; their number is random and secret.")
    ] = 20.0,
) -> None:
    """Find settings for training (peft): on public data for free, or on private data for a price in the ledger.

    On private data the persons pay once, as for a task: they may be in no other one unless the budget says so. Running
    time tells roughly how many runs there were: do not publish it. See docs/tuning.md.

    Example: `reticent tune public.csv --public --text note --label code --epsilon 4 --delta 1e-5 -o learner.json`
    """
    if public == (model is not None):
        raise errors.InvalidValue(
            "Expected --public for public data, or --model for private data that a ledger pays for."
        )
    _refuse_output(output)
    columns = {"text": text, "image": image, "features": features, "label": label}
    if model is not None:
        if engine is not None or at_once != 1:
            raise errors.InvalidValue(
                "Expected --engine and --at-once with --public alone: private runs draw noise here."
            )
        found = tuning_verb.privately(
            sample,
            columns,
            model=model,
            validation=validation,
            encoder=encoder,
            epsilon=epsilon,
            delta=delta,
            whose=(person, each_row_is_a_person),
            name=name,
            mean_runs=mean_runs,
        )
    else:
        if epsilon is None or delta is None:
            raise errors.InvalidValue("Expected --epsilon and --delta: noise is part of what settings must suit.")
        budget = Budget(epsilon=epsilon, delta=delta, tasks_per_person=tasks_per_person)
        found = tuning_verb.on_public_data(
            sample,
            columns,
            budget=budget,
            task_size=task_size,
            trials=trials,
            encoder=encoder or "minilm",
            seed=seed,
            at_once=at_once,
            cluster=cluster_of(engine, address),
        )
    from reticent.numerics.files import write_whole

    write_whole(output, json.dumps(found.to_json(), indent=2) + "\n")
    tell(f"Wrote {output}: {found.tuning}.")


def _refuse_output(file: Path) -> None:
    """Refuses a place that nothing can be written to, before anything is computed or spent."""
    from reticent.released.contents import refuse_own

    if file.suffix.lower() != ".json":
        raise errors.InvalidValue(f"Expected a file that ends in .json, got {file.name}.")
    refuse_own(file)
    if not os.access(file.parent, os.W_OK):
        raise errors.InvalidValue(f"Cannot write {file}: its folder is not there, or may not be written to.")


def _refuse_private(public: bool) -> None:
    if not public:
        raise errors.InvalidValue("Expected --public: your word that these data are public, since nothing is paid for.")
