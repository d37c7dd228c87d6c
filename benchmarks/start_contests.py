"""Start-up: importing the package and asking for help, beside importing scikit-learn."""

import subprocess
import sys
from collections.abc import Callable

from contests import Contest, Costs, Family, Peers, in_turn

SKLEARN = "import sklearn"


def families() -> list[Family]:
    """Returns the one family."""
    return [
        Family(
            name="start",
            title="Start-up",
            words="""
Processor time of a new Python process, its own start included; files are in the system's cache. What is needed
only to learn, calibrate or predict is imported when it is first used.
""",
            contests=_contests,
        )
    ]


def _contests() -> list[Contest]:
    imported = "import reticent"
    helped = "from reticent.cli import main; main()"
    return [
        _contest("import", "import reticent", [imported], at_most=0.4),
        _contest("help", "reticent --help", [helped, "--help"], at_most=0.5),
    ]


def _contest(name: str, words: str, code: list[str], at_most: float) -> Contest:
    def play(rounds: int) -> Costs:
        peers: Peers = {
            words: (_process(code), 1),
            SKLEARN: (_process(["import sklearn"]), 1),
            "import numpy": (_process(["import numpy"]), 1),
        }
        return in_turn(peers, rounds)

    return Contest(name=f"start/{name}", title=f"{words}, per process", play=play, at_most=at_most)


def _process(code: list[str]) -> Callable[[], None]:
    def run() -> None:
        subprocess.run([sys.executable, "-c", *code], check=True, stdout=subprocess.DEVNULL)  # noqa: S603

    return run
