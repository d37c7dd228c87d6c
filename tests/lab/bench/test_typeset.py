"""Tables as Markdown and LaTeX: every line has all cells, and what is special is escaped."""

import re

from reticent.lab.bench import specs, tables
from reticent.lab.bench.specs import spec
from reticent.lab.bench.typeset import Table, latex, markdown

HOSTILE = Table("50 % & more", "A_b.", ("a|b", "c"), (("x|y", "1 ± 2"), ("#$&%_{}~^", "*failed*")), ("A note.",))


def cells_of(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line)[1:-1]


def test_markdown_has_as_many_cells_in_every_line():
    text = markdown(HOSTILE)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert [len(cells_of(line)) for line in lines] == [2, 2, 2, 2]
    assert lines[0] == "| a\\|b | c |"
    assert lines[1] == "|---|---|"
    assert text.endswith("- A note.\n")
    for found in map(spec, specs.names()):
        for table in tables.tables(found, {}):
            shown = [line for line in markdown(table).splitlines() if line.startswith("|")]
            assert {len(cells_of(line)) for line in shown} == {len(table.columns)}


def test_latex_escapes_what_is_special():
    text = latex(HOSTILE)
    assert r"\caption{50 \% \& more. A\_b.}" in text
    assert r"x|y & 1 $\pm$ 2 \\" in text
    assert r"\#\$\&\%\_\{\}\~{}\^{} & failed \\" in text
    assert r"\begin{tabular}{ll}" in text
    for found in map(spec, specs.names()):
        for table in tables.tables(found, {}):
            body = latex(table).split("\\midrule\n")[1].split("\\bottomrule")[0]
            for line in body.splitlines():
                assert len(re.split(r"(?<!\\)&", line)) == len(table.columns)
                assert line.endswith("\\\\")
                assert not re.search(r"(?<!\\)[#%_]", line)
