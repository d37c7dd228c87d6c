"""The page of a model: its releases and what they cost. Everything on it may be published."""

from reticent.classifier import ContinualClassifier
from reticent.privacy import events
from reticent.privacy.statement import Statement
from reticent.released.release import Release
from reticent.report import page, spends


def model_page(model: ContinualClassifier, *, title: str = "A model", statement: Statement | None = None) -> str:
    """Returns a self-contained page about a model: releases, ledger and privacy statement.

    Guarantees: it is made of releases and ledger alone, and names no label.    test_model_page_names_no_label

    Args:
        model: A classifier, such as `load` returns.
        title: Plain text.
        statement: What its ledger amounts to, if that was read already; `model.statement()` by default.

    Example:
        >>> from reticent import Budget; from reticent import PublicLabels
        >>> model = ContinualClassifier(labels=PublicLabels(["a", "b"]), budget=Budget(epsilon=1.0, delta=1e-5))
        >>> "Nothing was released yet" in model_page(model)
        True
    """
    facts = model.statement() if statement is None else statement
    budget, now = facts.budget, spends.rounded_up(facts.now.epsilon)
    warnings = [] if facts.private else ["NOT PRIVATE: noise was drawn from a seeded source."]
    warnings += [f"NOT COVERED: {sentence}" for sentence in facts.not_covered]
    return page.page(
        title,
        [
            page.paragraph(
                f"{len(model.releases)} releases; {len(model.classes_)} labels known. One person has lost at most "
                f"epsilon {now} at delta {budget.delta:g}, of a budget of {budget.epsilon:g}."
            ),
            *(page.paragraph(text, kind="warn") for text in warnings),
            page.section("Releases", [_releases(model)]),
            page.section("Ledger", [spends.ledger(facts.json()["rows"])] if facts.spends else []),
            page.section("Privacy statement", [page.preformatted(facts.text())]),
        ],
    )


def _releases(model: ContinualClassifier) -> str:
    if not model.releases:
        return page.paragraph("Nothing was released yet.")
    later = {label for release in model.releases for label in release.labels.labels}
    known = set(model.classes_) - later
    rows = []
    for number, release in enumerate(model.releases, start=1):
        known |= set(release.labels.labels)
        rows.append((number, release.task, len(known), _shapes(release), _event(release), _private(release)))
    return page.table(["", "task", "labels known", "parameters", "event", "private"], rows)


def _shapes(release: Release) -> str:
    sizes = ((name, " × ".join(map(str, array.shape)) or "one number") for name, array in release.parameters.items())
    return "; ".join(f"{name}: {size}" for name, size in sizes) or "none"


def _event(release: Release) -> str:
    return spends.in_words(events.to_json(release.event))


def _private(release: Release) -> str:
    return "yes" if release.private else "NOT PRIVATE"
