"""The page of a model: its releases and what they cost. Everything on it may be published."""

import math
from collections.abc import Collection, Iterator, Sequence

from reticent import names
from reticent.labels import Label
from reticent.privacy.event_words import in_words
from reticent.privacy.rounding import exact, rounded_up
from reticent.privacy.statement import Statement
from reticent.released.release import Release
from reticent.report import axes, page, sign_off, spends, svg


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
    counts = list(_labels_known(releases, known))
    plots = [*_growth(releases, counts), *_prices(statement)]
    return page.page(
        title,
        [
            page.paragraph(statement.claim, kind="takeaway"),
            *(page.paragraph(text, kind="warn") for text in statement.warnings()),
            page.paragraph(f"{len(releases):,} release(s); {len(known):,} label(s) known."),
            page.facts(sign_off.identity(statement)),
            page.section("At a glance", [svg.grid(plots)] if plots else []),
            page.section("Releases", [_releases(releases, counts)]),
            page.section("Ledger", [spends.ledger(statement.json()["rows"])] if statement.spends else []),
            page.section("Privacy statement", [page.preformatted(statement.text())]),
        ],
    )


def _labels_known(releases: Sequence[Release], known: Collection[Label]) -> Iterator[int]:
    """Yields how many labels were known after each release."""
    so_far = set(known) - {label for release in releases for label in release.labels.labels}
    for release in releases:
        so_far |= set(release.labels.labels)
        yield len(so_far)


def _growth(releases: Sequence[Release], counts: Sequence[int]) -> list[svg.Plot]:
    """Draws how many labels the model can answer with, after each release; a release is what may be counted."""
    if len(releases) < 2:
        return []
    points = [
        svg.Point(x=float(i), y=float(n), at=f"after {names.shown(release.task)}", value=f"{n:,}")
        for i, (release, n) in enumerate(zip(releases, counts, strict=True), start=1)
    ]
    x = axes.marked("after release", {p.x: f"{p.x:g}" for p in points})
    y = axes.linear("labels known", [0.0, *(p.y for p in points)])
    return [svg.Plot(caption="Labels known", series=[svg.Series(name="labels known", points=points)], x=x, y=y)]


def _prices(statement: Statement) -> list[svg.Plot]:
    """Draws what each spend costs a person who is in that task alone, beside the budget."""
    paid = [spend for spend in statement.spends if spend.voided is None and spend.private]
    prices = [(i, spend, statement.price(spend)) for i, spend in enumerate(paid, start=1)]
    finite = [(i, spend, price) for i, spend, price in prices if math.isfinite(price)]
    if len(finite) < 2:
        return []
    points = [
        svg.Point(x=float(i), y=price, at=names.shown(spend.task), value=rounded_up(price))
        for i, spend, price in finite
    ]
    budget = statement.budget.epsilon
    x = axes.marked("spend", {p.x: f"{p.x:g}" for p in points})
    y = axes.linear("epsilon of a spend alone", [0.0, budget, *(p.y for p in points)])
    limit = svg.Series(name=f"budget: epsilon {exact(budget)}", style=6, guide=[(x.low, budget), (x.high, budget)])
    alone = svg.Series(name="epsilon of a spend alone", style=1, points=points, joined=False)
    return [svg.Plot(caption="What each spend costs a person in it", series=[alone, limit], x=x, y=y)]


def _releases(releases: Sequence[Release], counts: Sequence[int]) -> str:
    if not releases:
        return page.paragraph("Nothing was released yet.")
    rows = [
        (number, release.task, count, in_words(release.event), _private(release))
        for number, (release, count) in enumerate(zip(releases, counts, strict=True), start=1)
    ]
    shapes = [(number, release.task, _shapes(release)) for number, release in enumerate(releases, start=1)]
    table = page.table(["release", "task", "labels known", "what was drawn", "private"], rows, stacked=True)
    return table + page.details("What each release holds", page.table(["release", "task", "parameters"], shapes))


def _shapes(release: Release) -> str:
    named = sorted(release.parameters.items())  # a file holds them in a random order
    sizes = ((name, " × ".join(map(str, array.shape)) or "one number") for name, array in named)
    return "; ".join(f"{name}: {size}" for name, size in sizes) or "none"


def _private(release: Release) -> str:
    return "yes" if release.private else "NOT PRIVATE"
