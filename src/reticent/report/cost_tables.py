"""What a stream costs, for the terminal."""

from collections.abc import Iterator

from rich.table import Table

from reticent import running_costs
from reticent.report.terminal import columns

_PARTS = {
    "encoding": "encode texts",
    "reading": "read rows",
    "sums": "normalise and sum",
    "labels": "look at labels",
    "noise": "draw noise",
    "publishing": "ledger, release, manifest",
    "start": "start, import, compile",
    "cluster": "cluster: start, parts, sums",
    "combining": "combine the releases, once",
    "scoring": "compare with labels",
}


def cost_tables(found: running_costs.Costs) -> Iterator[Table]:
    """Yields tables of time, memory and disk, and cluster."""
    work = found.workload
    time = columns(f"Time with {_workers(work.workers)}", ("part", "learn", "predict"), names=("part",))
    for part, words in _PARTS.items():
        if part in found.learn or part in found.predict:
            time.add_row(words, _cell(found.learn.get(part)), _cell(found.predict.get(part)))
    time.add_section()
    time.add_row("together", seconds(found.learn_total), seconds(found.predict_total))
    yield time
    room = columns("Memory and disk", ("what", "needs"), names=("what",))
    for words, amount in (
        ("memory of a worker that learns", found.memory["worker"]),
        ("memory of the process that draws noise", found.memory["driver"]),
        ("memory to predict", found.memory["predicting"]),
        ("disk: the rows", found.disk["input"]),
        ("disk: the last release", found.disk["release"]),
        ("disk: the model, all releases", found.disk["model"]),
    ):
        room.add_row(words, size(amount))
    yield room
    if work.workers > 1:
        cluster = columns("Cluster", ("what", "needs"), names=("what",))
        cluster.add_row("parts that workers take one after another", f"{found.cluster['parts']:,.0f}")
        cluster.add_row("whole-number sums that they send", size(found.cluster["bytes_to_driver"]))
        cluster.add_row("processor hours of learning", f"{found.cluster['processor_hours']:,.2f}")
        yield cluster


def cost_notes(found: running_costs.Costs) -> Iterator[str]:
    """Yields what was assumed, and how far the numbers may be off."""
    work = found.workload
    yield (
        f"{work.rows:,} rows x {work.width:,} features in {work.tasks:,} task{'s'[: work.tasks > 1]}, read from "
        f"{work.file}; {work.labels:,} labels, of which {work.live:,} have examples in a task (--live-labels). "
        "Predict: as many rows again, in one process."
    )
    if work.parts < work.workers:
        yield (
            f"A task comes in {work.parts:,} part{'s'[: work.parts > 1]}, so no more workers have something to do. "
            "Write it as more files (--shards)."
        )
    yield f"Speeds: {found.speeds.measured} (--measure takes a quarter of a minute here)."
    yield (
        f"Time and memory of one worker, and times of up to eight, were within a factor of {running_costs.FACTOR:g} in "
        "runs that were forecast, or less where few labels stand out. Several machines and larger sizes are on paper. "
        "Public sizes go in, no data is read. Curves and checks: docs/scaling.md."
    )


def seconds(amount: float) -> str:
    """Returns a time that a person can read.

    >>> [seconds(s) for s in (0.0, 0.004, 1.25, 95, 7200, 360000)]
    ['0 s', '4 ms', '1.2 s', '1.6 min', '2.0 h', '4.2 days']
    """
    for limit, unit, scale in ((1, "ms", 1e-3), (60, "s", 1), (3600, "min", 60), (48 * 3600, "h", 3600)):
        if amount < limit:
            return "0 s" if amount < 5e-4 else f"{amount / scale:{'.0f' if unit == 'ms' else '.1f'}} {unit}"
    return f"{amount / 86400:,.1f} days"


def size(amount: float) -> str:
    """Returns bytes that a person can read.

    >>> [size(n) for n in (900, 3.1e6, 184e9, 2e15)]
    ['900 B', '3.1 MB', '184.0 GB', '2,000.0 TB']
    """
    for limit, unit, scale in ((1e3, "B", 1), (1e6, "kB", 1e3), (1e9, "MB", 1e6), (1e12, "GB", 1e9)):
        if amount < limit:
            return f"{amount / scale:{'.0f' if unit == 'B' else '.1f'}} {unit}"
    return f"{amount / 1e12:,.1f} TB"


def _cell(amount: float | None) -> str:
    return "-" if amount is None else seconds(amount)


def _workers(count: int) -> str:
    return "one worker" if count == 1 else f"{count:,} workers"
