"""A head on features, FiLM through MiniLM, what a step holds in memory, and sums by label; see `training`."""

import time
from collections.abc import Callable
from functools import partial

from contests import Contest, Costs, Family, Peers, in_turn

PLAIN = "plain training, not private"


def families() -> list[Family]:
    """Returns the families of training and of sums."""
    return [
        Family(
            name="head",
            title="A head on features",
            words="""
One step of Adam on cached features. Opacus and plain training draw a batch of fixed size and noise that is not
secure; ours draws a Poisson batch by exact coins and exact noise from a secure source, and adds clipped gradients up
exactly.
""",
            contests=_heads,
        ),
        Family(
            name="parts",
            title="Where a step of the head goes",
            words="""
Parts of one step, as a share of it, each measured alone with what it needs in the cache. The last line adds up, in each
round, plain training's own step and the least that privacy adds to it: exact noise, a Poisson batch, a norm for each
example, and an exact sum instead of one in float32. Divide plain training's share by that of the last line: so near to
plain training comes a private step that is otherwise as fast. The exact sum takes float64, or two products in float32
of half the digits each, which take as long. One product in float32 is exact for about 11 bits of an error vector, where
no class and no feature has much of the batch: it would round gradients to 2^-11 of the clipping norm, and all of an
error that is smaller, as with thousands of classes, would be lost.
""",
            contests=_parts,
        ),
        Family(
            name="film",
            title="FiLM through MiniLM",
            words="""
One step on made-up short texts, 15 classes. Peers see texts of one length at a time, up to 16 as ours unless said
otherwise, without rows that fill a micro-batch up. An example's gradient of ours has the same bits whatever else is in
the batch. bfloat16 is off by default: many processors are slower with it.
""",
            contests=_films,
        ),
        Family(
            name="step-memory",
            title="Memory of a step",
            words="""
What one step adds at its peak to a process that already holds encoder and examples, by logical batch. A ratio near 1
means that a batch of 4,096 needs no more than a smaller one.
""",
            contests=_memory,
        ),
        Family(
            name="sums",
            title="Sums by label",
            words="""
What `Cosine` does with a task: normalise each row, snap it to the grid, and add it to its label in integers. Beside it
a copy of the same memory, and the first of these steps alone in NumPy: squares, added up row by row. Integer sums do
not depend on their order, so threads share the rows; their table is wall-clock time, for a machine without other work.
""",
            contests=_sums,
        ),
    ]


def _turns(make: Callable[[], Peers]) -> Callable[[int], Costs]:
    """Returns what plays peers that are made when they are needed, on one thread of torch."""

    def play(rounds: int) -> Costs:
        import torch

        torch.set_num_threads(1)
        return in_turn(make(), rounds)

    return play


def _heads() -> list[Contest]:
    def peers(classes: int, batch: int, width: int) -> Peers:
        import training

        return training.head_contest(classes, batch, width)

    goals = {PLAIN: 0.85, "Opacus ghost clipping": 1.4}
    return [
        Contest(
            name=f"head/{width}x{classes}-{batch}",
            title=f"Head, {width} features, {classes} classes, batch {batch:,}, per step",
            play=_turns(partial(peers, classes, batch, width)),
            goals=goals,
        )
        for width, classes in ((384, 15), (384, 150), (768, 100))
        for batch in (256, 1024)
    ]


def _parts() -> list[Contest]:
    def play(classes: int, batch: int, width: int, rounds: int) -> Costs:
        import training

        costs = _turns(partial(training.parts_of_a_step, classes, batch, width))(rounds)
        added = (costs[name] for name in (PLAIN, *training.ADDED))
        exact, single = costs[training.EXACT], costs[training.SINGLE]
        least = [sum(parts) for parts in zip(*added, strict=True)]
        least = [most + more - less for most, more, less in zip(least, exact, single, strict=True)]
        return {**costs, "plain and what privacy adds": least}

    return [
        Contest(
            name=f"parts/{width}x{classes}-{batch}",
            title=f"Head, {width} features, {classes} classes, batch {batch:,}",
            play=partial(play, classes, batch, width),
            compared=False,
        )
        for width, classes in ((384, 150), (768, 100))
        for batch in (256, 1024)
    ]


def _films() -> list[Contest]:
    def peers(batch: int) -> Peers:
        import training

        return training.film_contest(batch)

    def in_bf16() -> Peers:
        import training

        return training.bf16_contest()

    goals = {f"Opacus {mode}": 1.0 for mode in ("ghost clipping", "default", "functorch")}
    return [
        *(
            Contest(
                name=f"film/{batch}",
                title=f"FiLM, batch {batch:,}, per example",
                play=_turns(partial(peers, batch)),
                rounds=rounds,
                goals=goals,
            )
            for batch, rounds in ((256, 3), (1024, 2))
        ),
        Contest(
            name="film/bfloat16",
            title="FiLM, 8 texts, per example",
            play=_turns(in_bf16),
            rounds=1,
            compared=False,
        ),
    ]


def _memory() -> list[Contest]:
    def play(through_encoder: bool, rounds: int) -> Costs:
        import training

        found = training.peaks((4096, 1024, 64), through_encoder)
        return {f"batch {size:,}": [mib] for size, mib in found.items()}

    return [
        Contest(
            name=f"step-memory/{name}",
            title=f"Peak memory that a step adds, {words}",
            play=partial(play, through_encoder),
            rounds=1,
            unit="MiB",
        )
        for name, words, through_encoder in (
            ("head", "head with 150 classes", False),
            ("film", "FiLM through MiniLM", True),
        )
    ]


def _sums() -> list[Contest]:
    def peers() -> Peers:
        import training

        return training.sums_contest()

    def threads(rounds: int) -> Costs:
        import training

        return in_turn(training.threads_contest(), rounds, time.perf_counter)

    return [
        Contest(
            name="sums/copy",
            title="Features by label, per gigabyte",
            play=_turns(peers),
            goals={"copy of the same array": 0.5},
        ),
        Contest(
            name="sums/threads",
            title="Features by label in two threads, wall clock, per gigabyte",
            play=threads,
            goals={"sums, one thread": 1.7},
        ),
    ]
