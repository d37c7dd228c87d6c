"""The page of a benchmark: plots and tables from runs that are plain JSON values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from reticent.privacy.rounding import exact, rounded_up
from reticent.report import bench_tables, curves, figures, groups, origins, page, seeds, spends, svg
from reticent.report.groups import Group

HOW = "How it was made"
SEEDED = "NOT PRIVATE: these runs draw their noise from seeds, so that they can be repeated on public data."
SEEDS = (
    f"Unless a table says otherwise, numbers over seeds are {seeds.IN_WORDS['median']}; bands and bars of plots have "
    "the same limits. Where several shares of the budget were tried, other sections show the best one."
)


def results_page(
    title: str,
    runs: Sequence[Mapping[str, Any]],
    tables: Sequence[Mapping[str, Any]],
    *,
    first: Sequence[Mapping[str, Any]] = (),
    made: Sequence[str] = (),
    attack: Mapping[str, Any] | None = None,
    drop: Mapping[str, Any] | None = None,
    streams: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    takeaways: Sequence[str] = (),
) -> str:
    """Returns a self-contained page about the runs of a benchmark: what to take away, then plots and tables.

    Args:
        title: Plain text.
        runs: As in `runs/*.json`, with learners and labels named as tables name them; a failed run is listed with its
            error.
        tables: As in `tables/*.json`.
        first: Tables that come before everything else.
        made: How all this was made: sentences that follow these tables.
        attack: As in `attack.json`.
        drop: As in `drop.json`.
        streams: As in `streams.json`: data set -> ratio -> examples of a blurry class, from its home task on.
        notes: Sentences for the top of the page.
        takeaways: The sentences to remember, if there are any.

    Example:
        >>> table = {"title": "Main", "caption": "", "columns": ["learner"], "rows": [["*not run here*"]], "notes": []}
        >>> "1 table(s) of which nothing was run here" in results_page("Results", [], [table])
        True
    """
    found = groups.groups(runs)
    best = groups.chosen(found)
    parts = {
        **{table["title"]: [bench_tables.shown(table)] for table in first},
        HOW: [*map(page.paragraph, made), page.paragraph(SEEDS, kind="note") if found else ""],
        "At a glance": bench_tables.at_a_glance(best),
        "Accuracy after each task": _plots(best, curves.by_task, "On all tasks learned so far."),
        "Accuracy against epsilon": _plots(best, curves.accuracy_by_epsilon),
        "Accuracy against the share of the budget for labels": _share(found),
        "Accuracy against the blurry ratio": _blurry(best),
        "Examples of a blurry class by task": _figures(figures.blurry_classes(streams)) if streams else [],
        "Forgetting": _forgetting(best),
        "Released labels by class size": _plots(
            best, curves.by_size, "Markers: share of labels that were released. Dotted: as planned."
        ),
        "Membership attack on labels": _measured(attack, figures.attack_figures, figures.ATTACK_WORDS),
        "Probability that a label is dropped": _measured(drop, figures.dropped_labels),
        "Tables": bench_tables.measured_tables(tables),
        "Accuracy matrix": _matrices(best),
        "Accuracy by aggregation rule": _rules(best),
        "Cost in epsilon and seconds": _costs(found),
        "Privacy statement of one run": _statement(runs),
        "Failed runs": _failures(runs),
    }
    sections = {name: page.section(name, inner) for name, inner in parts.items()}
    seeded = any(not run.get("private", False) for run in runs)
    top = [
        *(page.paragraph(sentence, kind="takeaway") for sentence in takeaways),
        page.paragraph(SEEDED, kind="warn") if seeded else "",
        *(page.paragraph(note) for note in notes),
        page.contents(sections),
    ]
    rest = len(first) + 1  # filters are for what follows the first tables and how it was made
    listed = list(sections.values())
    return page.page(title, [*top, *listed[:rest], _filters(found), *listed[rest:]], interactive=True)


def _filters(found: Sequence[Group]) -> str:
    choices: dict[str, tuple[str, dict[str, str]]] = {}
    for field, label in (("data", "Data set"), ("epsilon", "Epsilon"), ("ratio", "Blurry ratio")):
        values = sorted({g.settings.get(field) for g in found}, key=groups.order)
        words = [text for text in (groups.say(field, value) for value in values) if text]
        if len(words) > 1:
            choices[field] = label, dict(zip(words, words, strict=True))
    return page.filters(choices)


def _plots(found: Sequence[Group], draw: Callable[[Sequence[Group]], list[svg.Plot]], words: str = "") -> list[str]:
    """Shows the plots of the least blurry streams, and unfolds to those of the others."""
    first, others = (draw(part) for part in groups.least_blurry(found))
    if not (first or others):
        return []
    return [
        page.paragraph(words, kind="note") if words else "",
        svg.grid(first) if first else "",
        page.details("At higher blurry ratios", svg.grid(others), opened=not first) if others else "",
    ]


def _measured(
    found: Mapping[str, Any] | None, draw: Callable[[Mapping[str, Any]], list[svg.Plot]], words: str = ""
) -> list[str]:
    """Shows what an experiment without runs has found, and what measured it."""
    parts = [] if found is None else _figures(draw(found), words)
    return [*parts, page.paragraph(origins.measured_by(found), kind="note")] if found and parts else []


def _figures(plots: Sequence[svg.Plot], words: str = "") -> list[str]:
    return [page.paragraph(words, kind="note") if words else "", svg.grid(plots)] if plots else []


def _blurry(found: Sequence[Group]) -> list[str]:
    tried = groups.swept(found, "ratio", least=2)
    plots = curves.against(tried, "ratio", curves.ACCURACY, by=["epsilon"])
    return [page.paragraph("At 0 % each class is in one task only.", kind="note"), svg.grid(plots)] if plots else []


def _forgetting(found: Sequence[Group]) -> list[str]:
    own = [g for g in found if curves.FORGETTING.of(g)]
    if not own:
        return []
    return [
        page.paragraph("How much accuracy on a task falls from its best to the end of the stream.", kind="note"),
        *_plots(own, curves.forgetting_by_epsilon),
        *_by_data(own, [curves.FORGETTING.label], lambda g: [_said(g, curves.FORGETTING)]),
    ]


def _fields(found: Sequence[Group], *first: str) -> list[str]:
    """What to say of each group: these first, then all in which they differ."""
    return list(dict.fromkeys([*first, *groups.varying(found)]))


def _share(found: Sequence[Group]) -> list[str]:
    tried = groups.swept(found, "share", least=3)
    accuracy = curves.against(tried, "share", curves.ACCURACY, by=[], ring=True)
    if not accuracy:
        return []
    known = curves.against(tried, "share", curves.KNOWN, by=[])
    fields = [f for f in _fields(tried, "data", "learner") if f != "share"]
    rows = []
    for line in groups.part_by(tried, fields):
        best = max(line, key=groups.accuracy)
        words = groups.name(best.settings, fields)
        rows.append((words, f"{best.settings['share']:g} %", _said(best, curves.ACCURACY), _said(best, curves.KNOWN)))
    return [
        page.paragraph("A ring marks the best share.", kind="note"),
        svg.grid([*accuracy, *known]),
        page.table(["run", "best share", "accuracy, %", "labels known"], rows),
    ]


def _said(group: Group, metric: curves.Metric) -> str:
    found = metric.of(group)
    return "" if found is None else str(found)


def _matrices(found: Sequence[Group]) -> list[str]:
    fields = _fields(found, "data", "learner", "labels")
    parts: list[str] = []
    for group in found:
        rows = _matrix(group)
        if any(len(row) > 1 for row in rows):
            parts.append(page.details(groups.name(group.settings, fields), _heat(rows), opened=not parts))
    if not parts:
        return []
    words = "Accuracy in % on each task (columns) after each task (rows); median over seeds."
    return [page.paragraph(words, kind="note"), page.picker("Show", "matrices", parts)]


def _matrix(group: Group) -> list[list[float | None]]:
    matrices = [run["matrix"] for run in group.runs if run.get("matrix")]
    longest = max((len(matrix) for matrix in matrices), default=0)
    rows = (group.spreads((m[t] for m in matrices if t < len(m)), scale=100) for t in range(longest))
    return [[None if found is None else found.middle for found in row] for row in rows]


def _heat(rows: Sequence[Sequence[float | None]]) -> str:
    head = "".join(f'<th scope="col">{i + 1}</th>' for i in range(max(map(len, rows))))
    body = "".join(
        f'<tr><th scope="row">{t + 1}</th>'
        + "".join("<td></td>" if v is None else f'<td style="--v:{v:.0f}%">{v:.0f}</td>' for v in row)
        + "</tr>"
        for t, row in enumerate(rows)
        if any(v is not None for v in row)
    )
    table = f'<table class="heat"><thead><tr><th scope="col">after</th>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _rules(found: Sequence[Group]) -> list[str]:
    own = [g for g in found if any(run.get("aggregations") for run in g.runs)]
    rules = list(dict.fromkeys(rule for g in own for run in g.runs for rule in run.get("aggregations") or {}))
    if not rules:
        return []

    def row(group: Group) -> list[str]:
        spreads = (
            groups.over_seeds(((run.get("aggregations") or {}).get(rule) for run in group.runs), scale=100)
            for rule in rules
        )
        return ["" if found is None else str(found) for found in spreads]

    return _by_data(own, [f"{rule}, %" for rule in rules], row)


def _costs(found: Sequence[Group]) -> list[str]:
    columns = ["seeds", "epsilon spent", "delta", "seconds to learn", "seconds to evaluate"]

    def row(group: Group) -> list[object]:
        return [len(group.runs), *_spent(group), _seconds(group, "learn"), _seconds(group, "evaluate")]

    return _by_data(found, columns, row)


def _by_data(found: Sequence[Group], columns: Sequence[str], row: Callable[[Group], Sequence[object]]) -> list[str]:
    """Returns a table for each data set, with a row for each group; many are folded."""
    parts = []
    for own in groups.part_by(found, ["data"]):
        fields = _fields(own, "learner", "labels")
        rows = [(groups.name(group.settings, fields), *row(group)) for group in own]
        table = page.table(["run", *columns], rows)
        title = groups.say("data", own[0].settings.get("data"))
        parts.append(page.details(title, table, opened=len(found) <= bench_tables.MOST_ROWS, facts=groups.facts(own)))
    return parts


def _spent(group: Group) -> tuple[str, str]:
    spent = [run.get("spent") or {} for run in group.runs]
    epsilons = [s["epsilon"] for s in spent if s.get("epsilon") is not None]
    deltas = [s["delta"] for s in spent if s.get("delta") is not None]
    most = max(epsilons) if len(epsilons) == len(spent) else None
    return rounded_up(most), exact(max(deltas)) if deltas else ""


def _seconds(group: Group, part: str) -> str:
    found = groups.over_seeds((run.get("seconds") or {}).get(part) for run in group.runs)
    return "" if found is None else f"{found.middle:.1f}"


def _statement(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Shows one run, if possible one that released labels with privacy."""
    stated = [run for run in runs if run["status"] == "done" and (run.get("spent") or {}).get("statement")]
    if not stated:
        return []
    run = max(stated, key=lambda r: (r["run"].get("epsilon") is not None, r["run"].get("labels") == "released"))
    words = groups.name(run["run"], ["data", *groups.SAID])
    rows = run["spent"].get("ledger") or []
    return [
        page.paragraph(f"{words}, seed {run['run'].get('seed')}", kind="note"),
        page.details("Statement", page.preformatted(run["spent"]["statement"])),
        page.details("Ledger", spends.ledger(rows)) if rows else "",
    ]


def _failures(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    failed = [run for run in runs if run["status"] != "done"]
    fields = ["data", *groups.SAID]
    rows = [
        (groups.name(run["run"], fields), str(run["run"].get("seed", "")), run.get("error") or "") for run in failed
    ]
    return [page.table(["run", "seed", "error"], rows)] if rows else []
