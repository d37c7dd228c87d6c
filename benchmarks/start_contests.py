"""Start-up: importing the package, asking for help, encoding a first text, beside importing what others need."""

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
    helped = "from reticent.cli import main; main()"
    classifier = "import reticent as rt; rt.ContinualClassifier"
    text = "from reticent.encoders import minilm; minilm()(['a text'])"
    return [
        _contest("import", "import reticent", ["import reticent"], SKLEARN, at_most=0.4),
        _contest("help", "reticent --help", [helped, "--help"], SKLEARN, at_most=0.5),
        _contest("classifier", "rt.ContinualClassifier", [classifier], "import sklearn.base", goal=0.9),
        _contest("text", "the first text through minilm()", [text], "import torch, transformers", goal=2.0),
    ]


def _contest(
    name: str, words: str, code: list[str], beside: str, *, at_most: float | None = None, goal: float | None = None
) -> Contest:
    def play(rounds: int) -> Costs:
        peers: Peers = {
            words: (_process(code), 1),
            beside: (_process([beside]), 1),
            "import numpy": (_process(["import numpy"]), 1),
        }
        return in_turn(peers, rounds)

    goals = {} if goal is None else {beside: goal}
    return Contest(name=f"start/{name}", title=f"{words}, per process", play=play, at_most=at_most, goals=goals)


def _process(code: list[str]) -> Callable[[], None]:
    def run() -> None:
        subprocess.run([sys.executable, "-c", *code], check=True, stdout=subprocess.DEVNULL)  # noqa: S603

    return run
