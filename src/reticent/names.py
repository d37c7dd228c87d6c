"""Public names, such as those of tasks: printable and in one line. And any text as a terminal may get it.

What a user names is refused where it could deceive a reader of the statement. What comes from data or from a file that
somebody else wrote is never refused here, since released labels must not raise: it is escaped where it is shown.
"""

import re
import unicodedata
from collections.abc import Iterable

from reticent import errors

LONGEST = 200  # characters of a name
LONGEST_SENTENCE = 2_000  # characters of a reason or of what is recorded
# Letters and marks that show nothing; what Unicode calls control, format or separator is not printable anyway.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def public_name(text: object, *, what: str = "the task") -> str:
    """Returns a public name as it is recorded, or refuses it: composed characters (NFC), no blanks around, one line.

    Guarantees: control characters, line ends, bidirectional overrides, characters without width and what UTF-8 cannot
    hold are refused, so a name can neither look like another row nor send codes to a terminal.
                                                                          test_names_that_could_deceive_are_refused

    Args:
        text: The name.
        what: What it names, for the refusal.

    Example:
        >>> public_name(" March 2026 ")
        'March 2026'
    """
    if not isinstance(text, str) or not text.strip():
        raise errors.InvalidValue(f"Expected a public name for {what}, such as a month.")
    return one_line(text, what=f"a name for {what}")


def one_line(text: str, *, what: str, longest: int = LONGEST) -> str:
    """Returns a text that is recorded as `public_name` does names, or refuses it.

    Args:
        text: The text.
        what: What it is, for the refusal.
        longest: The most characters it may have.
    """
    if len(text) > longest:
        raise errors.InvalidValue(f"Expected {what} of at most {longest} characters, got {len(text)}.")
    line = normal(text)
    if not line.isprintable() or _INVISIBLE.search(line):
        raise errors.InvalidValue(f"Expected {what} in one line of visible characters, got {text!a}.")
    return line


def normal(text: str) -> str:
    r"""Returns a text with composed characters, plain blanks for other blanks, and none around it; refuses nothing.

    >>> normal(" cafe\u0301\u00a01 ") == "caf\u00e9 1"
    True
    """
    if text.isascii():  # composed already, and its only blank of this kind is the plain one
        return text.strip()
    return "".join(" " if unicodedata.category(c) == "Zs" else c for c in unicodedata.normalize("NFC", text)).strip()


def near(name: str, others: Iterable[str]) -> str | None:
    """Returns another name that is easily taken for this one: it differs in case, blanks or the form of a character.

    >>> near("March 2026", ["april", "march  2026"]), near("march", ["march"])
    ('march  2026', None)
    """
    like = folded(name)
    return next((other for other in others if other != name and folded(other) == like), None)


def folded(name: str) -> str:
    """Returns what names have in common that are easily taken for each other.

    >>> folded("March  2026")
    'march 2026'
    """
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def shown(text: object) -> str:
    r"""Returns any text in one line that a terminal can show: what is not printable is written as an escape.

    >>> print(shown("a\x1b[2Jb"), shown(7))
    a\x1b[2Jb 7
    """
    whole = str(text)
    if whole.isascii() and whole.isprintable():
        return whole
    return "".join(c if c.isprintable() and not _INVISIBLE.match(c) else _escaped(c) for c in whole)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
