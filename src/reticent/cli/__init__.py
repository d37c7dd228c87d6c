"""The command line: one library call per verb, and what it prints.

A verb imports what it needs when it is called, so that `predict` and `report` load no room that learns.
"""

import inspect
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from reticent import errors, names
from reticent.cli import answers, experiments, ledger_verbs, models, plans, rehearsals, shipping, vault_verbs

app = typer.Typer(
    name="reticent",
    help="Continual learning that keeps its labels to itself.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its panels cut names of options at 80 columns
)
attack = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Play attacks against label spaces.")
app.add_typer(attack, name="attack")
vault = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look after the vault of a model with memory.")
app.add_typer(vault, name="vault")
_LEARNING = ("cryptography", "dp_accounting", "numba")  # what requirements-predict.txt leaves out
VERBS: tuple[Callable[..., None], ...] = (
    experiments.demo,
    plans.plan,
    rehearsals.compare,
    rehearsals.tune,
    models.init,
    models.learn,
    answers.predict,
    answers.evaluate,
    ledger_verbs.ledger,
    experiments.audit,
    experiments.bench,
    experiments.report,
    shipping.export,
    shipping.serve,
)
for group, verbs in ((app, VERBS), (attack, (experiments.labels,)), (vault, (vault_verbs.show, vault_verbs.rotate))):
    for verb in verbs:
        said = inspect.cleandoc(verb.__doc__ or "").replace("`", "")
        group.command(help=said, short_help=said.splitlines()[0])(verb)  # else the list of verbs cuts it


def main() -> NoReturn:
    """Runs the command line; a refusal is one sentence on standard error and exit code 2."""
    try:
        with warnings.catch_warnings():
            _show_our_warnings()
            app()
    except errors.ReticentError as error:
        _say(f"Error: {error}")
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name not in _LEARNING:
            raise
        _say(
            f"Error: {error.name} is not installed, so this environment predicts alone. To learn: pip install reticent"
        )
        sys.exit(2)
    sys.exit(0)


def _say(sentence: str) -> None:
    """Prints a sentence on standard error; names of files in it may hold anything."""
    Console(stderr=True, soft_wrap=True).print(names.shown(sentence), style="bold", markup=False, highlight=False)


def _show_our_warnings() -> None:
    """Shows each of our own warnings once, as a sentence, without the line of code that it comes from."""
    others, said = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, errors.ReticentWarning):
            others(message, category, *place, **more)
        elif str(message) not in said:
            said.add(str(message))
            _say(f"Warning: {message}")

    warnings.simplefilter("always", errors.ReticentWarning)
    warnings.showwarning = show


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"reticent {version('reticent')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Continual learning that keeps its labels to itself."""
