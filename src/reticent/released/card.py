"""The model card: README.md of a model directory, as the Hugging Face hub reads it, from releases and ledger alone."""

import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reticent import names
from reticent.budget import Budget
from reticent.numerics import files, reading
from reticent.privacy.statement import Spend, Statement
from reticent.released.account import Account
from reticent.released.model import Model
from reticent.released.settings import epoch_of, persons_of

CARD = "README.md"
# Where this line is missing, the file is somebody's own and stays as it is.
MARK = "# Written anew by reticent after each task. Remove this line to keep a text of your own."
_MOST_LABELS, _MOST_TASKS, _LONGEST = 100, 100, 80  # shown; characters of a name
_LONGEST_SENTENCE = names.LONGEST_SENTENCE + 100
_LARGEST = 1 << 20  # bytes of a card that is looked at
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
# What is public about encoders that come with a package: the task, and where the weights are from.
_ABOUT: dict[str, tuple[str | None, str | None]] = {
    "minilm": ("text-classification", "sentence-transformers/all-MiniLM-L6-v2"),
    "minilm_torch": ("text-classification", "sentence-transformers/all-MiniLM-L6-v2"),
    "efficientnet_lite0": ("image-classification", None),
}


def write(folder: Path, model: Model, settings: Mapping[str, Any], account: Account | None) -> None:
    """Writes the card in place of the one before; a text of the user's own stays.

    Whatever fails, a card is no reason to fail: what it is about was published before, and the next one is whole.

    Guarantees:
      - It never raises, and never replaces what it did not write.  test_a_card_that_cannot_be_written_changes_nothing,
                                                                    test_a_text_of_the_users_own_is_kept
      - Names and labels are shown as text, whatever is in them.    test_cards_show_any_label_as_text
      - It says how far the ledger was when it was written.         test_cards_are_renewed_with_each_commit

    Args:
        folder: The model directory.
        model: What was released.
        settings: Of the directory.
        account: Of its ledger; None before the first row that is not about its making.
    """
    with contextlib.suppress(Exception):
        if _may_write(folder):
            files.write_whole(folder / CARD, text(model, settings, account or Account()))


def _may_write(folder: Path) -> bool:
    try:
        head = reading.read_regular(folder / CARD, most=_LARGEST, first=len(MARK) + 8)
    except FileNotFoundError:
        return True
    return MARK.encode() in head


def text(model: Model, settings: Mapping[str, Any], account: Account) -> str:
    """Returns the card of a model.

    Args:
        model: What was released.
        settings: Of the directory.
        account: Of its ledger.

    Example:
        >>> from reticent.labels import LabelSpace
        >>> from reticent.released.sums import Sums
        >>> budget = Budget(epsilon=1.0, delta=1e-5).to_json()
        >>> settings = {"budget": budget, "policy": {"kind": "public"}, "encoder": None, "rule": {"kind": "sums"}}
        >>> print(text(Model(LabelSpace(("a", "b")), Sums()), settings, Account(first=budget)).splitlines()[2])
        library_name: reticent
    """
    statement = Statement(
        budget=Budget.from_json(settings["budget"]),
        spends=tuple(account.spends.values()),
        acts=tuple(account.acts),
        memory=epoch_of(account.settings or {}) if account.first else None,
        persons=persons_of(account.settings or {}),
    )
    parts = [
        *_front_matter(settings),
        "",
        "# A classifier with differential privacy",
        "",
        *(f"**{escaped(sentence, longest=_LONGEST_SENTENCE)}**\n" for sentence in statement.warnings()),
        *_summary(model, settings),
        "",
        "## Privacy",
        "",
        *_privacy(statement, account),
        "",
        "## Use",
        "",
        *_use(settings),
        "",
        "## Labels",
        "",
        *_labels(model, settings),
        "",
        "## Tasks",
        "",
        *_tasks(model, statement.spends),
        "",
        "## What this card does not say",
        "",
        "How accurate the model is, which data it learned from, who may use it and under which licence: releases and",
        "ledger do not know. Say it here; to keep your text, remove the line that begins with `# Written anew` above.",
        "",
    ]
    return "\n".join(parts)


def escaped(name: object, *, longest: int = _LONGEST) -> str:
    r"""Returns a name as Markdown that shows it and does nothing else.

    >>> print(escaped("<b>|[a](b)"))
    \<b\>\|\[a\]\(b\)
    """
    shown = names.shown(name)
    shown = shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
    return _PUNCTUATION.sub(r"\\\1", shown)


def _front_matter(settings: Mapping[str, Any]) -> list[str]:
    encoder = settings["encoder"]
    task, base = ("tabular-classification", None) if encoder is None else _ABOUT.get(encoder["name"], (None, None))
    return [
        "---",
        MARK,
        "library_name: reticent",
        *([f"pipeline_tag: {task}"] if task else []),
        *([f"base_model: {base}"] if base else []),
        "tags:",
        "- differential-privacy",
        "- continual-learning",
        "- reticent",
        "---",
    ]


@functools.cache
def _version() -> str:
    return version("reticent")  # reads a file


def _summary(model: Model, settings: Mapping[str, Any]) -> list[str]:
    encoder = settings["encoder"]
    inputs = "rows of numbers" if encoder is None else f"what the encoder {escaped(encoder['name'])} reads"
    return [
        f"It has learned {model.tasks} task(s) with the Python package `reticent`, version {_version()}, and",
        f"knows {len(model.labels):,} label(s). Its inputs are {inputs}. Weights and this card come from noisy",
        "releases and from the ledger; reticent puts no example into this folder.",
    ]


def _privacy(statement: Statement, account: Account) -> list[str]:
    head = f"row {account.rows} of the ledger, `{account.chain}`" if account.rows else "the first row of the ledger"
    memory = [] if statement.memory is None else statement.memory_sentences(statement.memory)
    return [
        f"**{statement.claim}** {statement.at_most}",
        "",
        "What a person would lose:",
        "",
        *(f"- {sentence}" for sentence in statement.in_tasks()),
        "",
        "It rests on this:",
        "",
        *(f"- {sentence}" for sentence in (*statement.assumptions(), *memory)),
        "",
        f"As of {head}. What was spent so far, row by row: `reticent ledger` on this folder.",
    ]


def _use(settings: Mapping[str, Any]) -> list[str]:
    encoder = settings["encoder"]
    known = encoder is None or encoder["name"] in _ABOUT
    example = {
        "text-classification": '["burning chest pain"]',
        "image-classification": '["picture.jpg"]',
        None: "inputs",
    }
    given = "features" if encoder is None else example[_ABOUT.get(encoder["name"], (None, None))[0]]
    return [
        "```python",
        "import reticent as rt",
        "",
        f'model = rt.load("PATH OF THIS FOLDER"{"" if known else ", encoder=..."})  # runs no code of the folder',
        f"model.predict({given})",
        "```",
        "",
        "From the command line: `reticent predict`, `reticent serve`, `reticent export --onnx`.",
    ]


def _labels(model: Model, settings: Mapping[str, Any]) -> list[str]:
    known = model.labels.labels
    public = settings["policy"]["kind"] == "public"
    how = "They were public before any task." if public else "Each was released with noise; rare ones stay unknown."
    shown = ", ".join(escaped(label) for label in known[:_MOST_LABELS])
    more = f", and {len(known) - _MOST_LABELS:,} more: `model.classes_`" if len(known) > _MOST_LABELS else ""
    return [how, "", f"{shown}{more}" if known else "None is known yet: every answer is `<unknown>`."]


def _tasks(model: Model, spends: Sequence[Spend]) -> list[str]:
    if not spends:
        return ["None yet."]
    shown = {spend.task for spend in spends[-_MOST_TASKS:]}
    new = {release.task: len(release.labels) for release in model.releases if release.task in shown}
    rows = [f"{len(spends) - _MOST_TASKS:,} earlier rows are in the ledger.\n"] if len(spends) > _MOST_TASKS else []
    rows += ["| row | task | new labels | mechanism | |", "|---|---|---|---|---|"]
    for spend in spends[-_MOST_TASKS:]:
        marks = [] if spend.private else ["NOT PRIVATE"]
        marks += ["voided"] if spend.voided is not None else [] if spend.published else ["not published"]
        found = new.get(spend.task, 0) if spend.published else 0
        cells = [str(spend.row), escaped(spend.task), f"{found:,}", type(spend.event).__name__, ", ".join(marks)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows
