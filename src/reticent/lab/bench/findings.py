"""What a results folder says: the paper's findings checked, one page of tables, the report, the list of experiments."""

import json as plain
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reticent.lab.bench import experiments, tables, typeset
from reticent.lab.bench.estimates import WITHOUT_DATA, Estimates, duration
from reticent.lab.bench.experiments import Cell, Spec
from reticent.lab.bench.one_run import NOT_PRIVATE, code
from reticent.lab.bench.runner import STREAMS, Folder, Outcome
from reticent.lab.bench.typeset import Table
from reticent.lab.data.datasets import NAMES
from reticent.report.bench_page import results_page

# The specs that run without a network and a GPU, in the order of the paper.
OFFLINE = (
    "attack",
    "drop",
    "labels",
    "share",
    "sizes",
    "blurry",
    "hierarchy",
    "desai",
    "aggregation",
    "domain-shift",
    "domain-shift-film",
)
REPRODUCED, NOT_REPRODUCED, NOT_RUN = "reproduced", "*not reproduced here*", "*not run here*"
RATIOS = (10.0, 25.0, 50.0, 75.0, 100.0)
_SAME = 1.0  # points of accuracy that count as no difference, as between the paper's columns

Runs = Mapping[str, Mapping[str, Any]]


# --- the paper's findings


@dataclass(frozen=True)
class Finding:
    """A qualitative finding of the paper, and whether it shows here."""

    claim: str
    data: str
    verdict: str
    measured: str


@dataclass(frozen=True)
class Measured:
    """Medians over seeds of what was run on one data set."""

    runs: Runs
    data: str

    def __call__(self, learner: str, labels: str = "base", *, metric: str = "accuracy", **others: Any) -> float | None:
        """Returns the median, of the best share where several were tried and none is asked for; None if not run."""
        wanted = {"epsilon": 1.0, "ratio": 0.0, "adapter": "last_layer", "tasks": Cell.tasks, **others}
        found: dict[float | None, list[float]] = {}
        for result in self.runs.values():
            cell = result["cell"]
            same = (cell["data"], cell["learner"], cell["labels"]) == (self.data, learner, labels)
            if same and result["status"] == "done" and all(cell[key] == value for key, value in wanted.items()):
                found.setdefault(cell["share"], []).append(result[metric])
        scale = 1 if metric == "known" else 100
        return max((scale * statistics.median(values) for values in found.values()), default=None)


def findings(runs: Runs) -> list[Finding]:
    """Checks the paper's findings on every data set that was run.

    Example:
        >>> findings({})
        []
    """
    names = dict.fromkeys(result["cell"]["data"] for result in runs.values())
    return [finding for name in names if name in NAMES for check in CHECKS for finding in check(Measured(runs, name))]


def _compared(claim: str, data: str, holds: Callable[..., bool], **values: float | None) -> Iterator[Finding]:
    """Yields one finding; none where nothing of it was run."""
    shown = ", ".join(
        f"{name.replace('_', ' ')} {'not run' if value is None else f'{value:.1f}'}" for name, value in values.items()
    )
    if all(value is None for value in values.values()):
        return
    if any(value is None for value in values.values()):
        yield Finding(claim, data, NOT_RUN, shown)
    else:
        yield Finding(claim, data, REPRODUCED if holds(*values.values()) else NOT_REPRODUCED, shown)


def _base_below_oracle(at: Measured) -> Iterator[Finding]:
    base, oracle = at("cosine-paper"), at("cosine-paper", "oracle")
    claim = "Base Dataset below Label Oracle (the paper's Cosine, epsilon 1)"
    yield from _compared(claim, at.data, lambda b, o: b < o, base=base, oracle=oracle)


def _many_labels_are_free(at: Measured) -> Iterator[Finding]:
    for learner, name in (("cosine-paper", "the paper's Cosine"), ("cosine", "our Cosine")):
        for epsilon in (1.0, 8.0):
            one, many = (at(learner, labels, epsilon=epsilon) for labels in ("base", "public-1000x"))
            claim = f"no drop from 1x to 1000x labels ({name}, epsilon {epsilon:g})"
            if many is not None:
                yield from _compared(claim, at.data, lambda a, b: b > a - _SAME, at_1x=one, at_1000x=many)


def _blurriness(at: Measured) -> Iterator[Finding]:
    paper, ours = (
        {ratio: at(learner, "released", ratio=ratio) for ratio in (0.0, *RATIOS)}
        for learner in ("cosine-paper", "cosine")
    )
    claim = "Release Labels degrades with blurriness (the paper's Cosine, epsilon 1)"
    ends = {"ratio_10": paper[10.0], "ratio_50": paper[50.0], "ratio_100": paper[100.0]}
    yield from _compared(claim, at.data, lambda a, b, c: a > b > c, **ends)
    pairs = {
        "blurriness costs ours less than the paper's at every ratio (released, epsilon 1; points lost)": {
            ratio: (_difference(ours[0.0], ours[ratio]), _difference(paper[0.0], paper[ratio])) for ratio in RATIOS
        },
        "ours is above the paper's at every ratio (released, epsilon 1)": {
            ratio: (paper[ratio], ours[ratio]) for ratio in RATIOS
        },
    }
    for claim, by_ratio in pairs.items():
        if all(value is None for pair in by_ratio.values() for value in pair):
            continue
        known = {ratio: (low, high) for ratio, (low, high) in by_ratio.items() if low is not None and high is not None}
        verdict = REPRODUCED if all(low < high for low, high in known.values()) else NOT_REPRODUCED
        shown = ", ".join(f"{ratio:g}: {low:.1f} < {high:.1f}" for ratio, (low, high) in known.items() if low < high)
        against = ", ".join(f"{ratio:g}: {low:.1f} > {high:.1f}" for ratio, (low, high) in known.items() if low >= high)
        measured = f"{shown}; but {against}" if shown and against else shown or against
        yield Finding(claim, at.data, verdict if len(known) == len(by_ratio) else NOT_RUN, measured)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else before - after


def _ninety_labels(at: Measured) -> Iterator[Finding]:
    if at.data != "cifar100-features":  # classes of 500, as in the paper
        return
    known = at("cosine-paper", "released", metric="known", share=2.5)
    yield from _compared("about 90 of 100 labels at a share of 2.5 %", at.data, lambda n: 85 <= n <= 95, labels=known)


def _naive_collapses(at: Measured) -> Iterator[Finding]:
    for epsilon in (1.0, 8.0):
        naive, peft = (at(learner, epsilon=epsilon) for learner in ("naive", "peft"))
        claim = f"Naive collapses: less than two thirds of PEFT (epsilon {epsilon:g})"
        if naive is not None:
            yield from _compared(claim, at.data, lambda n, p: n < 2 / 3 * p, naive=naive, peft=peft)


def _desai_below(at: Measured) -> Iterator[Finding]:
    for epsilon in (1.0, 8.0):
        values = {learner: at(learner, epsilon=epsilon) for learner in ("desai", "cosine-paper", "peft")}
        claim = f"Desai et al. below both methods (epsilon {epsilon:g})"
        if values["desai"] is not None:
            yield from _compared(
                claim,
                at.data,
                lambda d, c, p: d < min(c, p),
                desai=values["desai"],
                cosine_of_the_paper=values["cosine-paper"],
                peft=values["peft"],
            )


def _peft_above_cosine(at: Measured) -> Iterator[Finding]:
    for epsilon in (1.0, 8.0):
        peft, cosine = at("peft", epsilon=epsilon), at("cosine-paper", epsilon=epsilon)
        claim = f"PEFT above the paper's Cosine (epsilon {epsilon:g}, last layer)"
        if peft is not None:
            yield from _compared(claim, at.data, lambda p, c: p > c, peft=peft, cosine_of_the_paper=cosine)


CHECKS: tuple[Callable[[Measured], Iterator[Finding]], ...] = (
    _base_below_oracle,
    _many_labels_are_free,
    _blurriness,
    _ninety_labels,
    _naive_collapses,
    _desai_below,
    _peft_above_cosine,
)


def findings_table(found: Sequence[Finding]) -> Table:
    """Returns the findings as a table."""
    rows = tuple((f.claim, f.data, f.measured, f.verdict) for f in found)
    return Table(
        "Findings",
        "The paper's, and ours beside them; medians over seeds.",
        ("finding", "data", "measured", "verdict"),
        rows,
    )


# --- pages


def markdown(specs: Sequence[Spec], out: Path, *, command: str) -> str:
    """Returns all tables of some specs as one page; it says how it was made and on what."""
    folder = Folder(out)
    folder.check()
    runs = folder.runs()
    made = [table for spec in specs for table in _tables(spec, folder, runs)]
    behind = [note for table in made for note in table.notes if note.startswith("Ours is behind")]
    learn = sum(result["seconds"]["learn"] + result["seconds"]["evaluate"] for result in runs.values() if _done(result))
    lines = [
        "# Results",
        "",
        f"Written by `{command}`, never by hand. {NOT_PRIVATE}",
        f"{sum(map(_done, runs.values()))} runs, {duration(learn)} of one core in all.",
        "The paper's numbers are for ViT-B/16 on its own data sets; data and encoders here are others, so compare the",
        "shape, not the height. *Ours* is what a user gets without arguments. Seconds are by the clock, beside other",
        "runs.",
        "",
        *_environment_lines(runs),
        *_code_lines(runs),
        "",
        typeset.markdown(findings_table(findings(runs))),
        "## Where ours is behind the paper's method",
        "",
        *([f"- {note.removeprefix('Ours is behind: ')}" for note in dict.fromkeys(behind)] or ["Nowhere."]),
        "",
        *(typeset.markdown(_without_behind(table)) for table in made),
    ]
    return "\n".join(lines)


def json(specs: Sequence[Spec], out: Path, outcome: Outcome) -> dict[str, Any]:
    """Returns everything for scripts."""
    folder = Folder(out)
    runs = folder.runs()
    return {
        "private": False,
        "ran": outcome.ran,
        "failed": outcome.failed,
        "missing": dict(outcome.missing),
        "by_other_code": by_other_code(specs, out),
        "findings": [asdict(finding) for finding in findings(runs)],
        "tables": {spec.name: [asdict(table) for table in _tables(spec, folder, runs)] for spec in specs},
    }


def report(path: Path) -> str:
    """Returns the HTML page of a results folder."""
    folder = Folder(path)
    folder.check()
    runs = folder.runs()
    stored = folder.tables()
    return results_page(
        "reticent bench",
        list(runs.values()),
        [asdict(findings_table(findings(runs))), *(table for made in stored.values() for table in made or ())],
        attack=folder.read("attack.json"),
        drop=folder.read("drop.json"),
        streams=folder.read(STREAMS),
        notes=[
            f"tables/{name}.json is damaged and left out; reticent bench with --tables writes it again."
            for name, made in stored.items()
            if made is None
        ],
    )


def listing(out: Path) -> list[dict[str, Any]]:
    """Returns every spec with its time here and its status in a results folder."""
    runs: Runs = {}
    folder = Folder(out)
    if (out / "bench.json").exists():
        folder.check()
        runs = folder.runs()
    estimates = Estimates(runs)
    shown = []
    for name in experiments.names():
        spec = experiments.spec(name)
        status = [runs.get(cell.digest, {}).get("status") for cell in spec.cells]
        seconds = estimates.seconds(cell for cell, state in zip(spec.cells, status, strict=True) if state != "done")
        if spec.kind != "grid":
            status = ["done" if folder.read(f"{spec.kind}.json") else None]
            seconds = WITHOUT_DATA[spec.kind] * status.count(None)
        shown.append(
            {
                "name": name,
                "title": spec.title,
                "data": ", ".join(dict.fromkeys(cell.data for cell in spec.cells)),
                "runs": len(status),
                "done": status.count("done"),
                "failed": status.count("failed"),
                "seconds_left": round(seconds),
                "left": duration(seconds),
            }
        )
    return shown


def _tables(spec: Spec, folder: Folder, runs: Runs) -> list[Table]:
    return tables.tables(spec, runs, extra=folder.read)


def _without_behind(table: Table) -> Table:
    notes = tuple(note for note in table.notes if not note.startswith("Ours is behind"))
    return Table(table.title, table.caption, table.columns, table.rows, notes)


def _done(result: Mapping[str, Any]) -> bool:
    return bool(result["status"] == "done")


def by_other_code(specs: Sequence[Spec], out: Path) -> int:
    """Returns how many results of these specs were made by other sources than the present ones, of the same version."""
    runs = Folder(out).runs()
    made = (runs.get(cell.digest) for cell in {cell.digest: cell for spec in specs for cell in spec.cells}.values())
    return sum(result is not None and _done(result) and _code(result) != code() for result in made)


def _code(result: Mapping[str, Any]) -> str | None:
    found: str | None = result["digests"].get("code")
    return found


def _code_lines(runs: Runs) -> list[str]:
    made = Counter(_code(result) or "not written down" for result in runs.values() if _done(result))
    counts = ", ".join(f"{name} {count}" for name, count in sorted(made.items()))
    return [f"Runs by a digest of the code that made them: {counts}."] if made else []


def _environment_lines(runs: Runs) -> list[str]:
    seen = {plain.dumps(result["environment"], sort_keys=True) for result in runs.values()}
    lines = []
    for text in sorted(seen):
        env = plain.loads(text)
        versions = ", ".join(f"{name} {number}" for name, number in env["versions"].items())
        where = f"Python {env['python']}, {env['machine']}, {env['cores']} cores, {env['threads']} thread(s) a run"
        lines.append(f"{where}; {versions}.")
    return lines
