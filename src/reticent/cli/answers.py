"""Verbs that let a model answer: predict, evaluate."""

import json
from pathlib import Path
from typing import Annotated

import typer

from reticent import errors
from reticent.cli.inputs import labelled, listed, loaded, task_name
from reticent.cli.options import Again, AsJson, Features, Image, Model, Person, Text


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
    classifier = loaded(model, encoder, learner)
    examples = read(source, Columns(text=text, image=image, features=listed(features)), labelled=False)
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
    task = f"evaluation {task_name(source, name)}"
    classifier = loaded(model, encoder, learner)
    examples = labelled(source, text=text, image=image, features=features, label=label, person=person)
    if epsilon is None:
        accuracy = classifier.score(examples.inputs, examples.labels)
    else:
        accuracy = classifier.private_score(
            examples.inputs, examples.labels, epsilon=epsilon, name=task, persons=examples.persons
        )
    facts = {"accuracy": accuracy, "public": public, "epsilon": epsilon}
    typer.echo(json.dumps(facts, indent=2) if as_json else f"accuracy {accuracy:.4f}{'' if public else ' (noisy)'}")
