"""What a contest is, how it is played, and what a result says against the last accepted one.

A contest has peers that do the same work, ours first. They are run in turn, round after round, on one thread, and the
median of the rounds' ratios counts: a machine that is busy slows all of them alike. A ratio says how many times as long
as ours a peer takes, so larger is better in every contest; where memory or noise is compared, how many times as much.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Peers = Mapping[str, tuple[Callable[[], Any], float]]
"""What each peer runs, and how many units of work that is."""
Costs = Mapping[str, Sequence[float]]
"""What each peer took, round by round; ours first."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
DROP = 0.8
"""A ratio below this share of the stored one is reported."""


def on_one_thread() -> None:
    """Sets every library to one thread; called before they are imported."""
    os.environ.update(dict.fromkeys(THREADS, "1"))


def processor_time() -> float:
    """Returns the processor time of this process and of those that it has started and waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def in_turn(peers: Peers, rounds: int, clock: Callable[[], float] = processor_time) -> Costs:
    """Runs all peers in turn, round after round; the first round warms up and does not count.

    Args:
        peers: What each runs.
        rounds: How many count.
        clock: What is measured: processor time, or `time.perf_counter` where other processes do the work.
    """
    costs: dict[str, list[float]] = {name: [] for name in peers}
    for round_ in range(rounds + 1):
        for name, (run, units) in peers.items():
            start = clock()
            run()
            spent = (clock() - start) / units
            if round_:
                costs[name].append(spent)
    return costs


@dataclass(frozen=True, kw_only=True)
class Contest:
    """One table of the page.

    Args:
        name: What `--only` and the stored ratios call it, such as `noise/many`: its family comes first.
        title: What was measured, and per what.
        play: Takes a number of rounds and returns what each peer took, ours first. It imports what it needs.
        rounds: How many are played unless told otherwise.
        goals: The least ratio to reach against a peer, by its name.
        at_most: The most that ours may cost, where the goal is not a ratio.
        unit: Of the costs: s, MiB, or "" for plain numbers.
        compared: Whether its ratios are stored and compared; not where the rows are parts of one whole.
    """

    name: str
    title: str
    play: Callable[[int], Costs]
    rounds: int = 5
    goals: Mapping[str, float] = field(default_factory=dict)
    at_most: float | None = None
    unit: str = "s"
    compared: bool = True


@dataclass(frozen=True, kw_only=True)
class Family:
    """Contests about one thing.

    Args:
        name: The first part of their names.
        title: Heading on the page.
        words: What the tables show and how to read them.
        contests: Returns them; nothing is measured yet.
    """

    name: str
    title: str
    words: str
    contests: Callable[[], Sequence[Contest]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table: a peer beside ours.

    Args:
        contest: Name of the contest.
        title: Its title.
        peer: Who; the first row of a contest is ours.
        cost: The median over rounds.
        unit: Of the cost.
        ratio: The median over rounds of the peer's cost over ours.
        goal: The least ratio to reach, or for ours the most that it may cost; None for no goal.
        ours: Whether this is ours.
        compared: Whether the ratio is held against the stored one.
        commit: Of which tree.
        day: When.
    """

    contest: str
    title: str
    peer: str
    cost: float
    unit: str
    ratio: float
    goal: float | None
    ours: bool
    compared: bool
    commit: str
    day: str

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        return self.cost <= self.goal if self.ours else self.ratio >= self.goal


@dataclass(frozen=True)
class Drop:
    """A ratio that fell by more than a fifth."""

    row: Row
    before: Row

    def __str__(self) -> str:
        return (
            f"{self.row.contest}, {self.row.peer}: {self.row.ratio:.3g} today, "
            f"{self.before.ratio:.3g} at {self.before.commit} ({self.before.day})"
        )


def played(contest: Contest, rounds: int | None = None) -> list[Row]:
    """Plays a contest and returns its rows, ours first."""
    costs = contest.play(contest.rounds if rounds is None else min(rounds, contest.rounds))
    first = next(iter(costs))
    commit, day = _commit(), datetime.now(UTC).date().isoformat()
    return [
        Row(
            contest=contest.name,
            title=contest.title,
            peer=name,
            cost=statistics.median(spent),
            unit=contest.unit,
            ratio=statistics.median(theirs / ours for theirs, ours in zip(spent, costs[first], strict=True)),
            goal=contest.at_most if name == first else contest.goals.get(name),
            ours=name == first,
            compared=contest.compared,
            commit=commit,
            day=day,
        )
        for name, spent in costs.items()
    ]


def drops(now: Sequence[Row], stored: Sequence[Row]) -> list[Drop]:
    """Returns the ratios that fell by more than a fifth against the stored ones; what is new cannot fall."""
    before = {(row.contest, row.peer): row for row in stored}
    return [
        Drop(row, before[key])
        for row in now
        if row.compared
        and not row.ours
        and (key := (row.contest, row.peer)) in before
        and row.ratio < DROP * before[key].ratio
    ]


def merged(now: Sequence[Row], stored: Sequence[Row]) -> list[Row]:
    """Returns the stored rows with those of the contests played now in place of theirs."""
    again = {row.contest for row in now}
    return [row for row in stored if row.contest not in again] + list(now)


def write(path: Path, rows: Sequence[Row]) -> None:
    """Writes rows and the facts of this machine as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> list[Row]:
    """Returns the rows that `write` wrote; none where there is no file."""
    if not path.exists():
        return []
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]


def machine() -> dict[str, Any]:
    """Returns what a reader must know of the machine; no names of hosts or users."""
    import numpy as np

    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "threads": 1,
    }


def _commit() -> str:
    """Returns the short name of the commit that is measured, with a plus where files differ from it."""
    try:
        words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--exclude=*"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
