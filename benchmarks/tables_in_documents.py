"""Writes the tables of README.md and docs/ that show rows of the benchmark, from the files in `docs/results/`.

    python benchmarks/tables_in_documents.py            # writes them
    python benchmarks/tables_in_documents.py --check    # says which differ from the rows

A table of rows comes after a comment with its name, `<!-- rows: film -->`. Medians over all seeds that the rows have;
with names and memory and without them, over those that all have. Of the paper's released labels the best share, as in
the tables of `docs/results.md`. Tables of other scripts are stored beside the rows, with the command and the versions
of the learners.
"""

import argparse
import itertools
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reticent.lab.bench import run_rows
from reticent.lab.bench.estimates import duration
from reticent.lab.bench.medians import Measured
from reticent.lab.bench.run import FILM, Results

ROOT = Path(__file__).parents[1]
ROWS = tuple(ROOT / "docs" / "results" / name for name in (run_rows.RUNS, "mnist.parquet"))
DOCUMENTS = ("README.md", "docs/names.md", "docs/training.md", "docs/reproducing-the-paper.md")
RATIOS = (0.0, 50.0, 100.0)
EPSILONS = (1.0, 8.0, None)
CLINC, BANKING, BLOCKS, FEATURES, PHENOTYPES = (
    "clinc150",
    "clinc150-banking",
    "icd10cm-blocks",
    "cifar100-features",
    "phenotypes",
)
DIGITS, BOTH, PHOTOGRAPHS, MNIST = "digits", "digits-and-cifar100", "cifar100-images", "mnist:digits"
TITLES = {
    CLINC: "CLINC150",
    BLOCKS: "ICD-10-CM, 277 blocks",
    FEATURES: "CIFAR-100 features",
    PHENOTYPES: "phenotypes",
}
CLASSES = {CLINC: 150, FEATURES: 100, PHENOTYPES: 78}
MONTHS = (1, 12, 24, 36, 60)

Line = list[str]
Maker = Callable[[Results], list[Line]]


def _shown(values: Iterable[float | None]) -> str:
    """Values between slashes, as far as there are any."""
    return " / ".join(f"{value:.1f}" for value in values if value is not None)


def _of(results: Results, data: str) -> Measured:
    return Measured({key: made for key, made in results.items() if made["run"]["data"] == data}, data)


def _argmax(found: Measured, **fields: Any) -> float | None:
    """The median accuracy of our heads under the paper's rule, in percent."""
    wanted = {"learner": "peft", "labels": "base", "ratio": 0.0, "adapter": "last_layer", "persons": 1, **fields}
    rules = [
        made["aggregations"]["argmax"]
        for made in found.results.values()
        if all(made["run"][key] == value for key, value in wanted.items())
    ]
    return 100 * statistics.median(rules) if rules else None


def _over_common_seeds(found: Measured, kinds: Sequence[dict[str, Any]], cell: dict[str, Any]) -> list[float | None]:
    """Medians of some ways in a cell, over the seeds that all of them have; None for what was not run."""
    by_seed = [found.by_seed(**kind, **cell) for kind in kinds]
    common = set.intersection(*(set(one) for one in by_seed if one))
    return [statistics.median(one[seed] for seed in common) if one else None for one in by_seed]


def names_at(epsilon: float) -> Maker:
    """Names and memory where labels come back, in docs/names.md."""

    def table(results: Results) -> list[Line]:
        lines = [
            [
                f"ε = {epsilon:g}",
                "the paper's method",
                "without names",
                "with names",
                "with names and memory (recurring)",
                "recurring not known",
            ]
        ]
        for data, labels in itertools.product(TITLES, ("base", "released")):
            found, named = _of(results, data), data != FEATURES
            kinds: list[dict[str, Any]] = [
                {"learner": "cosine-paper"},
                {"learner": "cosine"},
                {"learner": "cosine", "names": True},
                {"learner": "cosine", "names": named, "memory": "recurring"},
                {"learner": "cosine", "names": named, "memory": "vault"},
            ]
            cells: list[dict[str, Any]] = [{"labels": labels, "epsilon": epsilon, "ratio": ratio} for ratio in RATIOS]
            columns = [_over_common_seeds(found, kinds, cell) for cell in cells]
            shown = [_shown(values) for values in zip(*columns, strict=True)]
            called = {"base": "public", "released": "released"}[labels]
            lines.append([f"{TITLES[data]}, {called}", *(value or "no names" for value in shown)])
        return lines

    return table


def large_spaces(results: Results) -> list[Line]:
    """Labels that never occur, in docs/names.md."""
    lines = [["data, labels", "ε", "the paper's method", "ours"]]
    for data, epsilon, times in itertools.product(CLASSES, EPSILONS[:2], (10, 100, 1000)):
        found, labels = _of(results, data), f"public-{times}x"
        theirs = found("cosine-paper", labels, epsilon=epsilon)
        ours = _shown(found("cosine", labels, epsilon=epsilon, ratio=ratio) for ratio in RATIOS)
        lines.append([f"{TITLES[data]}, {times * CLASSES[data]:,} labels", f"{epsilon:g}", _shown([theirs]), ours])
    return lines


def film(results: Results) -> list[Line]:
    """FiLM beside the head alone, in docs/training.md."""
    lines = [["data, encoder", "`last_layer`", "the same heads by `argmax`", "`film`", "seeds"]]
    titles = {
        BANKING: "banking intents of CLINC150, MiniLM",
        DIGITS: "handwritten digits, EfficientNet-Lite0",
        BOTH: "digits and photographs",
        PHOTOGRAPHS: "photographs (CIFAR-100, 80 a class)",
    }
    for data, title in titles.items():
        found = _of(results, data)
        alone, through = found.by_seed("peft", epsilon=8.0), found.by_seed("peft", epsilon=8.0, adapter=FILM)
        both = {adapter: _taken(found, adapter) for adapter in ("last_layer", FILM)}
        line = [
            title,
            f"{statistics.median(alone.values()):.1f} in {both['last_layer']}",
            _shown([_argmax(found, epsilon=8.0)]),
            f"{statistics.median(through.values()):.1f} in {both[FILM]}",
            f"{len(alone)}, {len(through)}",
        ]
        lines.append(line)
    return lines


def _taken(found: Measured, adapter: str) -> str:
    wanted = {"learner": "peft", "labels": "base", "ratio": 0.0, "adapter": adapter, "persons": 1, "epsilon": 8.0}
    seconds = [
        made["seconds"]["processor"]
        for made in found.results.values()
        if all(made["run"][key] == value for key, value in wanted.items())
    ]
    return duration(max(seconds))  # of a run that was stopped and went on, rows have the time since


def rules(results: Results) -> list[Line]:
    """How heads are joined, in docs/training.md."""
    lines = [["data", "epsilon", "`pooled`", "`argmax`, same heads", "the paper's PEFT", "seeds"]]
    for data, title in {
        CLINC: "CLINC150",
        PHENOTYPES: "phenotypes",
        FEATURES: "CIFAR-100 features",
        PHOTOGRAPHS: "CIFAR-100, 80 images a class",
        DIGITS: "digits, two labels a task",
        BOTH: "digits and photographs",
    }.items():
        found = _of(results, data)
        cells: list[tuple[str, dict[str, Any]]] = [("", {"epsilon": epsilon}) for epsilon in EPSILONS]
        if data == CLINC:
            cells += [(f"a person in {n} tasks", {"epsilon": 1.0, "persons": n}) for n in (3, 10)]
        for i, (who, cell) in enumerate(cells):
            ratios = RATIOS if "persons" not in cell else RATIOS[:1]
            ours = [found("peft", ratio=ratio, **cell) for ratio in ratios]
            theirs = [found("peft-paper", ratio=ratio, **cell) for ratio in ratios]
            same = [_argmax(found, ratio=ratio, **cell) for ratio in ratios]
            if any(value is not None for value in ours):
                at = "none" if cell["epsilon"] is None else f"{cell['epsilon']:g}"
                seeds = sorted({len(found.seeds(learner, **cell)) for learner in ("peft", "peft-paper")})
                shown = [_shown(values) for values in (ours, same, theirs)]
                lines.append([who or ("" if i else title), at, *shown, ", ".join(map(str, seeds))])
    return lines


def shift(results: Results) -> list[Line]:
    """Domain shift with the head alone, in docs/reproducing-the-paper.md."""
    places = {
        PHOTOGRAPHS: "photographs, ten tasks",
        DIGITS: "digits, five tasks",
        BOTH: "both, five tasks",
        MNIST: "MNIST, five tasks",
    }
    methods = {
        "cosine-paper": "Cosine, the paper's",
        "cosine": "Cosine, ours",
        "peft-paper": "PEFT, the paper's",
        "peft": "PEFT, ours",
        "naive-paper": "Naive, tuned",
        "noncl-paper": "Non-CL, all data at once",  # tuned where a tenth of the labels is more than one
    }
    lines = [["", *places.values()]]
    for learner, title in methods.items():
        line = [title]
        for data in places:
            tasks = 1 if learner == "noncl-paper" else 10 if data == PHOTOGRAPHS else 5
            run = "noncl" if learner == "noncl-paper" and data in (DIGITS, MNIST) else learner
            line.append(_shown(_of(results, data)(run, epsilon=e, tasks=tasks) for e in EPSILONS))
        lines.append(line)
    return lines


def months(results: Results) -> list[Line]:
    """Sixty tasks with every label in each, in README.md."""
    kinds = {
        "the paper's sums": ("cosine-paper", False, "none"),
        "ours, without names": ("cosine", False, "none"),
        "ours, with names": ("cosine", True, "none"),
        "ours, with names and memory": ("cosine", True, "recurring"),
    }
    lines = [["", *map(str, MONTHS)]]
    for title, kind in kinds.items():
        curves = [
            made["overall"]
            for made in _of(results, CLINC).results.values()
            if (run := made["run"])["tasks"] == MONTHS[-1]
            and run["epsilon"] == 1.0
            and (run["learner"], run["names"], run["memory"]) == kind
        ]
        lines.append([title, *(f"{100 * statistics.median(c[t - 1] for c in curves):.1f}" for t in MONTHS)])
    return lines


def stored(name: str) -> Maker:
    """A table that a script has stored in docs/results/."""
    file = ROOT / "docs" / "results" / f"{name}.json"

    def table(results: Results) -> list[Line]:
        lines: list[Line] = json.loads(file.read_text(encoding="utf-8"))["lines"]
        return lines

    return table


TABLES: dict[str, Maker] = {
    "names at epsilon 1": names_at(1.0),
    "names at epsilon 8": names_at(8.0),
    "large spaces": large_spaces,
    "film": film,
    "rules": rules,
    "shift": shift,
    "months": months,
    "joining heads": stored("joining-heads"),
    "joining sums": stored("joining-sums"),
}


def markdown(lines: Sequence[Line]) -> str:
    """Returns lines as a Markdown table, the first one as its head.

    >>> print(markdown([["", "a"], ["b", "1"]]), end="")
    | | a |
    |---|---|
    | b | 1 |
    """
    head, *rest = ("| " + " | ".join(line) + " |" for line in lines)
    written = [head, "|" + "---|" * len(lines[0]), *rest]
    return "".join(f"{line.replace('|  |', '| |')}\n" for line in written)


def rows() -> Results:
    """Returns the results that the tables show, of whatever version."""
    return {key: made for path in ROWS for key, made in run_rows.read(path, of_any_version=True).items()}


def filled(text: str, results: Results) -> str:
    """Returns a document with its tables of rows written anew."""

    def one(match: re.Match[str]) -> str:
        return match["mark"] + markdown(TABLES[match["name"]](results))

    return re.sub(r"(?P<mark><!-- rows: (?P<name>.+?) -->\n\n)(?:\|.*\n)+", one, text)


def differing(results: Results) -> Iterator[tuple[Path, str]]:
    """Yields the documents whose tables are not those of the rows, and what they should be."""
    for document in DOCUMENTS:
        path = ROOT / document
        text = path.read_text(encoding="utf-8")
        if (new := filled(text, results)) != text:
            yield path, new


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the tables, or says which are not those of the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    found = list(differing(rows()))
    for path, new in found:
        print(path.name, "differs from the rows." if given.check else "is written.")
        if not given.check:
            path.write_text(new, encoding="utf-8")
    return 1 if given.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
