"""Self-contained HTML pages: nothing is fetched, readable without JavaScript, light and dark, printable."""

import html
from collections.abc import Iterable, Sequence

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --line: #d5d5d5; --soft: #f4f5f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #16181d; --line: #3a3e47; --soft: #1f222a; } }
body { font: 16px/1.55 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { border-bottom: 1px solid var(--line);
  padding: .3rem .8rem; text-align: left; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--soft); padding: 1rem; overflow-x: auto; border-radius: 6px; white-space: pre-wrap; }
figure { margin: 1rem 0; background: #fff; border-radius: 8px; padding: .5rem; }
figcaption { color: #444; font-size: .9rem; padding: .3rem .6rem; } svg { width: 100%; height: auto; }
@media print { body { margin: 0; max-width: none; } figure { break-inside: avoid; } }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Returns a whole page from parts that are HTML already.

    >>> page("A & B", [paragraph("x < y")]).count("&lt;")
    1
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def heading(text: str) -> str:
    """Returns a section heading."""
    return f"<h2>{html.escape(text)}</h2>"


def paragraph(text: str) -> str:
    """Returns a paragraph of plain text."""
    return f"<p>{html.escape(text)}</p>"


def preformatted(text: str) -> str:
    """Returns text as it is, in fixed width."""
    return f"<pre>{html.escape(text)}</pre>"


def figure(caption: str, svg: str) -> str:
    """Returns a figure from an inline SVG."""
    words = html.escape(caption)
    return f'<figure role="img" aria-label="{words}">{svg}<figcaption>{words}</figcaption></figure>'


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table; numbers are set to the right."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in headings)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f'<td class="number">{value:.3f}</td>'
    kind = ' class="number"' if isinstance(value, int) else ""
    return f"<td{kind}>{html.escape(str(value))}</td>"
