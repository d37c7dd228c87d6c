"""The paper's numbers: all there, in the right place, and the same as in its source where that is at hand."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reticent.errors import InvalidValue
from reticent.lab.bench.paper_numbers import TABLES, PaperValue, paper_values, parse

PAPER = Path(__file__).parents[4] / "shared" / "paper"
COUNTS = {
    "datafig3": 24,
    "datafig4a": 27,  # 28 cells, one of them empty
    "datafig4b": 14,
    "datafig5": 32,
    "datafig6": 60,
    "split-cifar100": 18 + 8,  # accuracy everywhere, forgetting in eight cells
    "imagenet-r": 18 + 12,
    "five-datasets": 9 + 9,
}
ALL = [value for table in TABLES for value in paper_values(table)]


def test_every_table_has_all_its_numbers():
    assert {table: len(paper_values(table)) for table in TABLES} == COUNTS


@pytest.mark.parametrize(
    ("table", "where", "numbers"),
    [
        ("datafig3", {"data": "split-imagenet-r", "learner": "peft", "labels": "released"}, (61.5, 64.0, 65.4)),
        ("datafig4a", {"data": "split-imagenet-r", "learner": "cosine", "share": 50}, (52.6, 52.9, 52.9)),
        ("datafig4b", {"data": "split-cifar100", "share": 2.5}, (87, 90, 93)),
        (
            "datafig5",
            {"data": "split-imagenet-r", "learner": "peft", "labels": "public-1000x", "epsilon": 1},
            (27.4, 27.8, 35.4),
        ),
        ("datafig6", {"epsilon": 1, "learner": "peft", "labels": "base", "ratio": 50}, (48.2, 77.6, 79.5)),
        ("datafig6", {"epsilon": 8, "learner": "peft", "labels": "released", "ratio": 100}, (84.8, 86.0, 86.1)),
    ],
)
def test_selected_medians_of_the_paper(table, where, numbers):
    assert [(v.low, v.middle, v.high) for v in find(table, where)] == [numbers]


@pytest.mark.parametrize(
    ("table", "where", "mean", "std"),
    [
        ("split-cifar100", {"learner": "cosine", "epsilon": 1, "metric": "accuracy"}, 72.78, 0.51),
        ("split-cifar100", {"learner": "noncl", "adapter": "film", "epsilon": None}, 90.68, None),
        (
            "imagenet-r",
            {"learner": "peft", "adapter": "last_layer", "epsilon": None, "metric": "accuracy"},
            48.16,
            12.8,
        ),
        ("five-datasets", {"learner": "naive", "epsilon": 8, "metric": "forgetting"}, 90.0, 2.0),
    ],
)
def test_selected_means_of_the_paper(table, where, mean, std):
    assert [(v.middle, v.std) for v in find(table, where)] == [(mean, std)]


def find(table: str, where: dict[str, object]) -> list[PaperValue]:
    return [v for v in paper_values(table) if all(getattr(v, key) == wanted for key, wanted in where.items())]


def test_what_tables_share_is_the_same_in_both():
    five = {(v.data, v.epsilon, v.learner, v.labels): (v.low, v.middle, v.high) for v in paper_values("datafig5")}
    shared = [v for v in paper_values("datafig3") if v.labels != "released"]
    assert len(shared) == 18
    assert all(five[v.data, v.epsilon, v.learner, v.labels] == (v.low, v.middle, v.high) for v in shared)


def test_no_two_numbers_are_of_the_same_cell():
    keys = [(v.table, v.data, v.learner, v.labels, v.epsilon, v.share, v.ratio, v.adapter, v.metric) for v in ALL]
    assert len(set(keys)) == len(keys)


# What the fields must be where the paper's words are in the row.
MEANINGS = {
    "CIFAR-100": ("data", "split-cifar100"),
    "ImageNet-R": ("data", "split-imagenet-r"),
    "Cosine": ("learner", "cosine"),
    "PEFT Ensemble": ("learner", "peft"),
    "Naive": ("learner", "naive"),
    "Non CL": ("learner", "noncl"),
    "last layer": ("adapter", "last_layer"),
    "FiLM": ("adapter", "film"),
    "Oracle": ("labels", "oracle"),
    "Base Dataset": ("labels", "base"),
    "(10x)": ("labels", "public-10x"),
    "(1000x)": ("labels", "public-1000x"),
    "Public Labels (Ours)": ("labels", "public-1000x"),
    "Release Labels": ("labels", "released"),
    "%": ("labels", "released"),
    "non-DP": ("epsilon", None),
    "epsilon 1,": ("epsilon", 1),
    "epsilon 8,": ("epsilon", 8),
}


@pytest.mark.parametrize("words", MEANINGS)
def test_fields_match_the_words_of_their_row(words):
    field, meaning = MEANINGS[words]
    named = [v for v in ALL if words in v.row + ","]
    assert named
    assert {getattr(v, field) for v in named} == {meaning}


def test_numbers_in_rows_are_the_fields():
    for value in ALL:
        share, ratio = re.search(r"([\d.]+)%", value.row), re.search(r"Ratio (\d+)", value.row)
        assert value.share == (float(share[1]) if share else None)
        assert value.ratio == (float(ratio[1]) if ratio else None)


def test_spreads_are_ordered():
    for value in ALL:
        if value.low is not None and value.high is not None:
            assert value.low <= value.middle <= value.high


def test_unknown_keys_and_tables_are_refused():
    with pytest.raises(InvalidValue, match="Unknown key 'colour'"):
        parse('table = "t"\ncolour = 1')
    with pytest.raises(InvalidValue, match="Unknown key 'accurracy'"):
        parse('table = "t"\nstatistic = "s"\n[[value]]\nrow = "r"\naccurracy = [1, 2, 3]')
    with pytest.raises(InvalidValue, match="Unknown key 'median'"):
        parse('table = "t"\nstatistic = "s"\n[[value]]\nrow = "r"\ndata = "d"\naccuracy = { median = 1 }')
    with pytest.raises(InvalidValue, match="No table 'datafig7'"):
        paper_values("datafig7")


# --- against the paper's own source: number by number, both ways


def test_numbers_match_the_source_of_the_paper():
    files = sorted(PAPER.glob("*.txt"))
    if not files:
        pytest.skip("the paper's LaTeX is not next to this repository")
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for table in TABLES:
        ours = {(v.row, v.metric): numbers_of(v) for v in paper_values(table)}
        assert dict(printed(source, paper_values(table)[0].table)) == ours


def numbers_of(value: PaperValue) -> list[float]:
    return [n for n in (value.low, value.middle, value.high, value.std) if n is not None]


def printed(source: str, label: str) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """Row and metric, and the numbers, of every cell of a table that is not empty."""
    at = source.index(rf"\label{{{label}}}")
    text = source[source.rindex(r"\begin{table", 0, at) : source.index(r"\end{table", at)]
    above, below = text[text.index(r"\toprule") : text.index(r"\bottomrule")].split(r"\midrule")
    heads, blurry, means = [cells(line) for line in lines(above)], "Blurry" in above, "non-DP" in above
    names: list[str] = []
    for row in [cells(line) for line in lines(below)]:
        first = next(i for i, cell in enumerate(row) if re.match(r"\(\d|\d+\.|-$", cell))
        names = [cell or names[i] for i, cell in enumerate(row[:first])]
        for i, cell in enumerate(row[first:]):
            numbers = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", cell)]
            if not numbers:
                continue
            if means:
                column = ("epsilon 1", "epsilon 8", "non-DP")[i // 2]
            else:
                column = (
                    f"Blurry Sample Ratio {heads[1][3 + i]}"
                    if blurry
                    else f"{heads[0][first + i]} {heads[1][first + i]}"
                )
            metric = "forgetting" if means and i % 2 else "known" if "4b" in label else "accuracy"
            words = [f"epsilon {name}" if name in ("1", "8") else name for name in names]
            yield (", ".join([*words, column]), metric), numbers


def lines(text: str) -> list[str]:
    return [line for line in re.sub(r"\\c(line|midrule)(\(lr\))?\{[^}]*\}", "", text).split(r"\\") if "&" in line]


def cells(line: str) -> list[str]:
    plain = re.sub(r"\\multirow\[t\]\{\d\}\{\*\}\{([^}]*)\}", r"\1", line).replace(r"$\times$", "x")
    return [re.sub(r"\\toprule|\\(?=%)", "", cell).strip() for cell in plain.split("&")]
