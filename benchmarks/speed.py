"""Speed side by side with peers, as ratios of one run on one thread, written to docs/speed.md and as JSON.

    python benchmarks/speed.py docs/speed.md --json results/speed.json     # what `make bench-speed` runs
    python benchmarks/speed.py --list                                      # names of contests
    python benchmarks/speed.py page.md --only noise --only paper/learn     # some; other rows as stored
    python benchmarks/speed.py docs/speed.md --accept                      # and store the ratios

Ends with exit code 1 where a ratio fell by more than a fifth below the one in `benchmarks/ratios.json`. A contest whose
peer is not installed is left out, and said so.
"""

from contests import on_one_thread

on_one_thread()

import argparse
import importlib
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import contests
import pages
from contests import Contest, Family, Row

STORED = Path(__file__).with_name("ratios.json")
MODULES = (
    "noise_contests",
    "training_contests",
    "reading_contests",
    "data_contests",
    "paper_contests",
    "label_space_contests",
    "stream_contests",
    "start_contests",
)
"""In the order of the page; each has `families()`."""


def families() -> list[Family]:
    """Returns all families of contests; nothing is measured yet."""
    return [family for module in MODULES for family in importlib.import_module(module).families()]


def wanted(found: Sequence[Contest], only: Sequence[str]) -> list[Contest]:
    """Returns the contests that were asked for by their names or that of their family; all if none was.

    >>> noise = Contest(name="noise/many", title="", play=lambda rounds: {})
    >>> [len(wanted([noise], only)) for only in ([], ["noise"], ["noise/many"])]
    [1, 1, 1]
    """
    names = {name for contest in found for name in (contest.name, contest.name.partition("/")[0])}
    unknown = [name for name in only if name not in names]
    if unknown:
        raise SystemExit(f"No contest is called {', '.join(unknown)}: see --list.")
    return [c for c in found if not only or {c.name, c.name.partition("/")[0]} & set(only)]


def play(found: Sequence[Contest], rounds: int | None, out: Path | None) -> list[Row]:
    """Plays contests one after another, shows each table, and writes what there is after each."""
    rows: list[Row] = []
    for contest in found:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mine = contests.played(contest, rounds)
        except ModuleNotFoundError as error:
            print(f"{contest.name}: left out, {error.name} is not installed.", file=sys.stderr)
            continue
        print(pages.table(mine), end="\n\n", flush=True)
        rows += mine
        if out is not None:
            contests.write(out, rows)
    return rows


def main(words: Sequence[str] | None = None) -> int:
    """Plays, writes and compares; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, nargs="?", help="the Markdown file to write")
    parser.add_argument("--json", type=Path, dest="out", help="also write this run as JSON")
    parser.add_argument("--only", action="append", default=[], metavar="CONTEST", help="a contest or a family")
    parser.add_argument("--rounds", type=int, help="at most this many rounds each")
    parser.add_argument("--stored", type=Path, default=STORED, help="ratios to compare with")
    parser.add_argument("--accept", action="store_true", help="store the ratios of this run")
    parser.add_argument("--list", action="store_true", help="print the names of all contests")
    asked = parser.parse_args(words)
    known = families()
    all_of_them = [contest for family in known for contest in family.contests()]
    if asked.list:
        print(*(f"{contest.name:32} {contest.title}" for contest in all_of_them), sep="\n")
        return 0
    stored = contests.read(asked.stored)
    now = play(wanted(all_of_them, asked.only), asked.rounds, asked.out)
    fallen = contests.drops(now, stored)
    rows = contests.merged(now, stored)
    order = {contest.name: place for place, contest in enumerate(all_of_them)}
    rows = sorted((row for row in rows if row.contest in order), key=lambda row: order[row.contest])
    if asked.page is not None:
        asked.page.write_text(pages.page(known, rows, fallen, contests.machine()), encoding="utf-8")
    if asked.accept:
        contests.write(asked.stored, rows)
    if fallen:
        print(pages.section_of_drops(fallen), file=sys.stderr)
    return 1 if fallen and not asked.accept else 0


if __name__ == "__main__":
    sys.exit(main())
