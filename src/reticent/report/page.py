"""Self-contained HTML pages: nothing is fetched, readable without JavaScript, light and dark, printable."""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from reticent import names

LONG = 40  # letters: text that needs room
MOST_COLUMNS = 7  # a table with more is set in smaller letters
_FILES = resources.files("reticent.report")
PAGE_STYLE, CHART_STYLE = ((_FILES / name).read_text(encoding="utf-8") for name in ("page.css", "chart.css"))
_SCRIPT = (_FILES / "page.js").read_text(encoding="utf-8")
# The browser itself refuses to fetch anything, and to run any script but ours.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src '{}'"


def page(title: str, parts: Iterable[str], *, interactive: bool = False, kind: str = "") -> str:
    """Returns a whole page from parts that are HTML already.

    Args:
        title: Plain text.
        parts: HTML, from the functions below.
        interactive: Whether legends, filters and values under the pointer are to work.
        kind: Its class, for a page that is set in its own way.

    >>> page("A & B", [paragraph("x < y")]).count("&lt;")
    1
    """
    script = _SCRIPT if interactive else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = _POLICY.format(f"sha256-{digest}" if script else "none")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(names.shown(title))}</title><style>{CHART_STYLE}{PAGE_STYLE}</style></head>\n"
        f"<body{_class(kind)}><h1>{html.escape(names.shown(title))}</h1>\n"
        + "\n".join(parts)
        + (f"\n<script>{script}</script>" if script else "")
        + "\n</body></html>\n"
    )


def heading(text: str, *, level: int = 2) -> str:
    """Returns a section heading."""
    return f"<h{level}>{html.escape(text)}</h{level}>"


def paragraph(text: str, *, kind: str = "") -> str:
    """Returns a paragraph of plain text; its kind may be "warn", "note" or "takeaway": the sentence to remember."""
    return f"<p{_class(kind)}>{html.escape(text)}</p>"


def preformatted(text: str) -> str:
    """Returns text unchanged, in fixed width."""
    return f"<pre>{html.escape(text)}</pre>"


def facts(pairs: Mapping[str, str]) -> str:
    """Returns facts with their names, as a list of terms.

    >>> facts({"Model": "a & b"})
    '<dl><dt>Model</dt><dd>a &amp; b</dd></dl>'
    """
    listed = (f"<dt>{html.escape(name)}</dt><dd>{html.escape(names.shown(said))}</dd>" for name, said in pairs.items())
    return f"<dl>{''.join(listed)}</dl>"


def checklist(sentences: Iterable[str]) -> str:
    """Returns sentences to tick off on paper.

    >>> checklist(["It is so."])
    '<ul class="check"><li>It is so.</li></ul>'
    """
    items = "".join(f"<li>{html.escape(names.shown(sentence))}</li>" for sentence in sentences)
    return f'<ul class="check">{items}</ul>'


def section(title: str, parts: Iterable[str]) -> str:
    """Returns a section under a heading, or nothing where it has no parts.

    >>> section("Empty", [])
    ''
    """
    inner = "\n".join(part for part in parts if part)
    return f'<section id="{_anchor(title)}">{heading(title)}\n{inner}</section>' if inner else ""


def contents(sections: Mapping[str, str]) -> str:
    """Returns links to sections, by their titles; empty ones are left out.

    >>> contents({"Cost in seconds": section("Cost in seconds", [paragraph("12")]), "Empty": ""})
    '<nav aria-label="Contents"><a href="#cost-in-seconds">Cost in seconds</a></nav>'
    """
    links = [f'<a href="#{_anchor(title)}">{html.escape(title)}</a>' for title, inner in sections.items() if inner]
    return f'<nav aria-label="Contents">{" ".join(links)}</nav>' if links else ""


def details(summary: str, inner: str, *, opened: bool = False, facts: Mapping[str, str] | None = None) -> str:
    """Returns a part that unfolds; it needs no JavaScript."""
    start = "<details open" if opened else "<details"
    return f"{start}{attributes(facts)}><summary>{html.escape(summary)}</summary>{inner}</details>"


def attributes(facts: Mapping[str, str] | None) -> str:
    """Returns facts as data attributes: what filters look at.

    >>> attributes({"epsilon": "1"})
    ' data-epsilon="1"'
    """
    return "".join(f' data-{name}="{html.escape(value)}"' for name, value in (facts or {}).items())


@dataclass(frozen=True)
class Marked:
    """An entry of a table with a mark before it: right or wrong, in words and in colour.

    >>> table(["answer"], [[Marked("E08", right=False)]]).count('<span class="wrong">✗ wrong</span> E08')
    1
    """

    text: str
    right: bool


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "", stacked: bool = False
) -> str:
    """Returns a table; columns of numbers are set to the right; *words* between stars are emphasised, as its caption's.

    Args:
        headings: One for each column.
        rows: Text, numbers, or `Marked` entries.
        caption: What the table shows.
        stacked: Whether a phone shows each row as a block, with a heading before each entry: for tables of words.

    Example:
        >>> "<em>not run</em>" in table(["accuracy"], [["*not run* here"]])
        True
    """
    shown = [[_shown(value) for value in row] for row in rows]
    kinds = [_class(_kind([row[i] for row in shown])) for i in range(len(headings))]
    said = [attributes({"name": h}) if stacked and h else "" for h in headings]
    # What is shown as a block is a table to nobody who hears it, unless it says so.
    whole, group, line, head, cell = (
        f' role="{role}"' if stacked else "" for role in ("table", "rowgroup", "row", "columnheader", "cell")
    )
    top = "".join(f'<th scope="col"{head}{kind}>{html.escape(h)}</th>' for h, kind in zip(headings, kinds, strict=True))
    cells = (
        "".join(f"<td{cell}{kind}{name}>{text}</td>" for text, kind, name in zip(row, kinds, said, strict=True))
        for row in shown
    )
    body = "".join(f"<tr{line}>{row}</tr>" for row in cells)
    words = f"<caption><span>{_emphasised(caption)}</span></caption>" if caption else ""
    parts = f"<thead{group}><tr{line}>{top}</tr></thead><tbody{group}>{body}</tbody>"
    kind = " ".join(["stacked"] * stacked + ["dense"] * (len(headings) > MOST_COLUMNS))
    return f'<div class="scroll" tabindex="0"><table{_class(kind)}{whole}>{words}{parts}</table></div>'


def beside(parts: Iterable[str]) -> str:
    """Returns parts next to each other where there is room, else below each other.

    >>> beside([paragraph("left"), paragraph("right")]).count("<div>")
    2
    """
    return f'<div class="beside">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def filters(choices: Mapping[str, tuple[str, Mapping[str, str]]]) -> str:
    """Returns menus that filter the page, each by one data attribute; shown with JavaScript only.

    Args:
        choices: From the attribute's name to a label and the words of each of its values.
    """
    menus = [
        f'<label>{html.escape(label)} <select name="{name}"><option value="">all</option>{_options(values)}</select>'
        "</label>"
        for name, (label, values) in choices.items()
    ]
    return f'<form class="filters" aria-label="Filter" hidden>{"".join(menus)}<output></output></form>' if menus else ""


def picker(label: str, name: str, parts: Iterable[str]) -> str:
    """Returns parts that unfold, of which a menu shows one at a time; all are there without JavaScript."""
    menu = f'<p data-pick="{name}" hidden><label>{html.escape(label)} <select></select></label></p>'
    return f'{menu}<div id="{name}">{"".join(parts)}</div>'


def _options(values: Mapping[str, str]) -> str:
    return "".join(
        f'<option value="{html.escape(value)}">{html.escape(words)}</option>' for value, words in values.items()
    )


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Marked):
        mark = '<span class="right">✓ right</span>' if value.right else '<span class="wrong">✗ wrong</span>'
        return f"{mark} {_shown(value.text)}"
    return _emphasised(names.shown(value))


def _emphasised(text: str) -> str:
    """Returns text as HTML, with words between stars emphasised.

    >>> _emphasised("*Public*: a < b, **at most**; 2 * 3 * 4")
    '<em>Public</em>: a &lt; b, <em>at most</em>; 2 * 3 * 4'
    """
    return re.sub(r"(\*\*?)(?! )([^*]+)(?<! )\1", r"<em>\2</em>", html.escape(text))


def _kind(column: Sequence[str]) -> str:
    """Numbers, with their limits or not, whatever else was not measured; or long text, which needs room.

    >>> _kind(["54.6", "-", "<em>not run</em>"]), _kind(["54.6 / 90.3", "- / 93.0"]), _kind(["-"])
    ('number', 'number', '')
    """
    filled = [text for text in column if text not in ("", "-") and "<em>" not in text]
    if filled and all(re.fullmatch(r"(- / )?[-+−]?\d([^A-Za-z]|to|e-)*", text) for text in filled):
        return "number"
    return "long" if any(len(text) > LONG for text in filled) else ""


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower())


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
