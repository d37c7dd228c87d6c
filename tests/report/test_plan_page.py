"""The page for planning: what the terminal shows, and nothing that is fetched."""

import html
import re

from reticent import Budget
from reticent.privacy import planning
from reticent.report import plan_page
from reticent.report.terminal import plan_notes, plan_tables

PLANS = [
    planning.plan(Budget(epsilon=1.0, delta=1e-5), mechanism=name, class_sizes=[40, 100])
    for name in planning.MECHANISMS
]
NOTES = plan_notes(PLANS[0], 12, asked=True)
PAGE = plan_page.plan_page([*plan_tables(PLANS), *NOTES])


def test_the_plan_page_shows_every_cell_and_sentence_of_the_terminal():
    cells = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", PAGE)]
    tables = plan_tables(PLANS)
    rows = [row for table in tables for row in zip(*(column.cells for column in table.columns), strict=True)]
    assert cells == [cell for row in rows for cell in row]
    assert f"{PLANS[0].threshold:.1f}" in cells
    assert all(html.escape(note) in PAGE for note in NOTES)
    assert all(html.escape(str(table.title)) in PAGE for table in tables)
    headings = re.findall(r"<th[^>]*>([^<]*)</th>", PAGE)
    assert headings[-5:] == [*planning.MECHANISMS, "any, at most"]


def test_the_plan_page_fetches_nothing():
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'" in PAGE
    assert not re.search(r"""<script|(src|href)=|url\(|https?:|import\s""", PAGE)
