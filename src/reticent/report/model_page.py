"""The page of a model: its releases and what they cost. Everything on it may be published."""

from collections.abc import Collection, Sequence

from reticent.labels import Label
from reticent.privacy import events
from reticent.privacy.rounding import exact, rounded_up
from reticent.privacy.statement import NOT_PRIVATE, Statement
from reticent.released.release import Release
from reticent.report import page, spends


def model_page(title: str, *, releases: Sequence[Release], known: Collection[Label], statement: Statement) -> str:
    """Returns a self-contained page about a model: releases, ledger and privacy statement.

    Guarantees: it is made of releases and ledger alone, and names no label.    test_model_page_names_no_label

    Args:
        title: Plain text.
        releases: What was published, in order.
        known: Every label that the model can answer with; the page says how many there are.
        statement: What the ledger says was spent.

    Example:
        >>> from reticent import Budget
        >>> statement = Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=())
        >>> "Nothing was released yet" in model_page("A model", releases=[], known=["a", "b"], statement=statement)
        True
    """
    budget, now = statement.budget, rounded_up(statement.epsilon)
    warnings = [] if statement.private else [NOT_PRIVATE]
    warnings += [f"NOT COVERED: {sentence}" for sentence in statement.not_covered]
    return page.page(
        title,
        [
            page.paragraph(
                f"{len(releases)} release(s); {len(known)} label(s) known. One person has lost at most "
                f"epsilon {now} at delta {exact(budget.delta)} ({budget.adjacency}), of a budget of "
                f"{exact(budget.epsilon)}, if {statement.condition}."
            ),
            *(page.paragraph(text, kind="warn") for text in warnings),
            page.section("Releases", [_releases(releases, known)]),
            page.section("Ledger", [spends.ledger(statement.json()["rows"])] if statement.spends else []),
            page.section("Privacy statement", [page.preformatted(statement.text())]),
        ],
    )


def _releases(releases: Sequence[Release], known: Collection[Label]) -> str:
    if not releases:
        return page.paragraph("Nothing was released yet.")
    so_far = set(known) - {label for release in releases for label in release.labels.labels}
    rows = []
    for number, release in enumerate(releases, start=1):
        so_far |= set(release.labels.labels)
        rows.append((number, release.task, len(so_far), _shapes(release), _event(release), _private(release)))
    return page.table(["", "task", "labels known", "parameters", "event", "private"], rows)


def _shapes(release: Release) -> str:
    named = sorted(release.parameters.items())  # a file holds them in a random order
    sizes = ((name, " × ".join(map(str, array.shape)) or "one number") for name, array in named)
    return "; ".join(f"{name}: {size}" for name, size in sizes) or "none"


def _event(release: Release) -> str:
    return spends.in_words(events.to_json(release.event))


def _private(release: Release) -> str:
    return "yes" if release.private else "NOT PRIVATE"
