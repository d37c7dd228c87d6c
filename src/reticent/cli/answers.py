"""Verbs that let a model answer: predict, evaluate."""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent import errors
from reticent.cli import person_options
from reticent.cli.inputs import labelled, listed, loaded, task_name
from reticent.cli.options import (
    Again,
    AsJson,
    BatchSize,
    Device,
    Features,
    HalfPrecision,
    Image,
    Label,
    LearnerAgain,
    Model,
    Source,
    Text,
    tell,
)

_PLURAL = {"score": "scores", "probability": "probabilities"}  # columns of predictions, and their keys in JSON


def predict(
    source: Annotated[
        Path,
        typer.Argument(
            help="A .csv, .parquet or .npz file, a folder of .csv or .parquet files or of images, or - for CSV on "
            "standard input."
        ),
    ],
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A .csv, .parquet, .json or .jsonl file to write, or - for CSV on standard output.",
        ),
    ] = None,
    text: Text = None,
    image: Image = None,
    features: Features = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Column to carry along to the predictions, such as an id; may be given several times."),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", "--top", help="So many labels for each example, with their scores, best first."),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Also the probability of each label.")] = False,
    abstain: Annotated[
        float | None, typer.Option(help="UNKNOWN where the best label's probability is below this, such as 0.5.")
    ] = None,
    safe_csv: Annotated[
        bool, typer.Option("--safe-csv", help="For spreadsheets: an apostrophe before texts that begin like a formula.")
    ] = False,
    encoder: Again = None,
    learner: LearnerAgain = None,
    device: Device = None,
    batch_size: BatchSize = None,
    bf16: HalfPrecision = False,
    as_json: AsJson = False,
) -> None:
    """Predict labels from releases alone: one row for each example, in their order; what cannot be read is UNKNOWN.

    Inputs are not repeated beside the labels: --keep says which columns are. Images of a folder are named by their
    files. Scores rank the labels of one example; probabilities say how sure to be, as far as releases tell.

    Example: `reticent predict new.csv --model model/ --text note --keep id -o out.csv`
    """
    import numpy as np

    from reticent.readers import Columns, open_source
    from reticent.readers.image_folders import FolderSource
    from reticent.released.contents import refuse_own
    from reticent.report import row_files

    k = 1 if top_k is None else errors.whole("top-k", top_k, at_least=1)
    least = errors.real("abstain", abstain or 0.0, above=0, below=math.nextafter(1, 2), at_least=True)
    if output is not None:
        refuse_own(output)
        row_files.check_ending(output)
    elif not as_json:
        raise errors.InvalidValue("Expected a place for the predictions: -o FILE.csv, or --json.")
    if as_json and output == row_files.STANDARD_OUTPUT:
        raise errors.InvalidValue("Expected --json, or -o - for CSV on standard output; not both.")
    columns = Columns(text=text, image=image, features=listed(features), keep=tuple(dict.fromkeys(keep or ())))
    _refuse_own_columns(columns.keep, k)
    if output is not None and output != row_files.STANDARD_OUTPUT:
        _refuse_input(output, source, shards=bool(columns.inputs))
    classifier = loaded(model, encoder, learner, device=device, batch_size=batch_size, bf16=bf16)
    opened = open_source(source, columns, labelled=False)
    facts: dict[str, list[Any]] = {}
    written = ""

    def tables() -> Iterator[dict[str, Any]]:
        nonlocal written
        first = 1
        for examples in opened:
            released = classifier.model_for(examples.inputs)
            found = released.best(examples.inputs, classifier.encoder, k, weighed=proba or least > 0)
            found = found.abstaining(least) if least > 0 else found
            more = {"score": found.scores} if top_k is not None else {}
            more |= {"probability": found.chances.round(6)} if proba else {}
            if as_json:
                named = released.names(found.rows).tolist()
                facts.setdefault("labels", []).extend([row_files.infinite(label) for label in row] for row in named)
                for name, values in more.items():
                    shown = [[row_files.finite(value) for value in row] for row in values.tolist()]
                    facts.setdefault(_PLURAL[name], []).extend(shown)
            kept = dict(examples.kept)  # of a folder of images, the names of its files
            count = np.arange(first, first + len(found.rows))
            table: dict[str, Any] = kept if of_images else {"row": count, **kept}
            for i in range(k):
                table[f"label{_place(i)}"] = released.coded_names(found.rows[:, i])
                table |= {f"{name}{_place(i)}": values[:, i] for name, values in more.items()}
            first, written = first + len(found.rows), ", ".join(table)
            yield table

    of_images = isinstance(opened, FolderSource)
    if output is None:
        for _ in tables():
            pass
    else:
        texts = [f"label{_place(i)}" for i in range(k)]
        row_files.write_batches(output, tables(), texts=texts, safe=safe_csv)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    elif output != row_files.STANDARD_OUTPUT:
        tell(f"Wrote {output}: one row for each example, in their order; columns {written}.")


def evaluate(
    source: Source,
    model: Model,
    text: Text = None,
    image: Image = None,
    features: Features = None,
    label: Label = None,
    public: Annotated[bool, typer.Option("--public", help="The test data is public: exact accuracy, free.")] = False,
    by_label: Annotated[
        Path | None,
        typer.Option(help="With --public: write the accuracy of each label to a .csv, .parquet, .json or .jsonl file."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The test data is private: noisy accuracy, paid for in the ledger.")
    ] = None,
    person: person_options.Person = None,
    each_row_is_a_person: person_options.EachRow = False,
    name: Annotated[str | None, typer.Option(help="Public name of the test data; the file's name by default.")] = None,
    encoder: Again = None,
    learner: LearnerAgain = None,
    device: Device = None,
    batch_size: BatchSize = None,
    bf16: HalfPrecision = False,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy: exactly on public test data, or with noise on private data.

    On public data also how sure it is, and how much is lost to labels that the model does not know.

    Example: `reticent evaluate test.csv --model model/ --text note --label code --public`
    """
    if public == (epsilon is not None):
        raise errors.InvalidValue("Expected --public for public test data, or --epsilon E for private data.")
    if public and (person is not None or each_row_is_a_person):
        raise errors.InvalidValue(
            "Expected --person and --each-row-is-a-person with --epsilon only: public test data need neither."
        )
    if by_label is not None:
        from reticent.released.contents import refuse_own
        from reticent.report import row_files

        if not public:
            raise errors.InvalidValue("Expected --by-label with --public only: what is paid for is one number.")
        if by_label == row_files.STANDARD_OUTPUT:
            raise errors.InvalidValue("Expected a file for --by-label: standard output shows the accuracy.")
        refuse_own(by_label)
        row_files.check_ending(by_label)
    task = "" if public else f"evaluation {task_name(source, name)}"
    classifier = loaded(model, encoder, learner, device=device, batch_size=batch_size, bf16=bf16)
    if not public:
        person = person_options.said(person, each_row_is_a_person, classifier.directory.settings)
    examples = labelled(source, text=text, image=image, features=features, label=label, person=person)
    if epsilon is not None:
        accuracy = classifier.private_score(examples, epsilon=epsilon, name=task, each_row_is_a_person=person is None)
        facts = {"accuracy": accuracy, "public": False, "epsilon": epsilon}
        if as_json:
            typer.echo(json.dumps(facts, indent=2))
            return
        typer.echo(f"accuracy {accuracy:.4f} (noisy)")
        person_options.say_spent(classifier.statement())
        allowed = f"this budget allows one person {classifier.budget.tasks_per_person:,}"
        also = f"For whoever is in a learned task too, this is another task of theirs; {allowed}."
        typer.echo(person_options.folded(also))
        return
    from reticent.report.measured import measure

    answered = ((classifier.predict(batch.inputs), batch.labels) for batch in examples)
    pairs = chain.from_iterable(zip(answers, labels, strict=True) for answers, labels in answered)
    found = measure(pairs, known=classifier.classes_)
    if by_label is not None:
        row_files.write_rows(by_label, found.table(), texts=["label"])
    if as_json:
        typer.echo(json.dumps({**found.json(), "public": True, "epsilon": None}, indent=2))
        return
    for line in found.lines():
        tell(line)
    if by_label is not None:
        tell(f"Wrote {by_label}: one row for each label.")


def _refuse_input(output: Path, source: Path, *, shards: bool) -> None:
    """Refuses to write predictions in place of what they are made of, or as one more shard beside it."""
    written, read = output.resolve(), source.resolve()
    if written == read and read.is_file():
        raise errors.InvalidValue(f"{output} is the input. Choose another file for the predictions.")
    if shards and written.parent == read and written.suffix.lower() in (".csv", ".parquet"):
        raise errors.InvalidValue(f"{output} would be a file of the input. Choose another folder for the predictions.")


def _refuse_own_columns(kept: Sequence[str], k: int) -> None:
    own = {"row", *(f"{what}{_place(i)}" for what in ("label", *_PLURAL) for i in range(k))}
    clash = next((name for name in kept if name in own), None)
    if clash is not None:
        raise errors.InvalidValue(f"Expected --keep with other names than columns of predictions, got {clash!r}.")


def _place(i: int) -> str:
    return f"_{i + 1}" if i else ""
