"""Speed side by side with peers, as ratios measured in one run on one thread, written to docs/speed.md.

    python benchmarks/speed.py docs/speed.md            # what `make bench-speed` runs

Machines are noisy and shared. So every contest is played in rounds, peers in turn, in processor time of all threads,
and the median of the rounds' ratios counts.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import io
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import training
from rich.console import Console
from rich.table import Table
from training import Contest

from reticent import Budget
from reticent.gate.noise import NoiseSource
from reticent.privacy import accounting, pld, profiles

SIGMA = 3.7306
GRID = 2**20
ROUNDS = 5

Goal = tuple[str, Callable[[float], bool]]

PAGE = """# Speed

`make bench-speed` installs the peers, sets every library to one thread, plays each contest in rounds, peers in turn,
and writes this page. Times are processor time of all threads, so that other work on the machine counts for little;
ratios are medians over rounds. Absolute times are one machine's; the ratios are the claim.

## Noise and calibration

```
{noise}
```

## A head on features

One step of Adam on 384 cached features. Opacus and plain training draw a batch of fixed size and noise that is not
secure; ours draws a Poisson batch by exact coins and exact noise from a secure source, multiplies exactly, and adds
clipped gradients up in float64.

```
{head}
```

Where a step goes. What plain training does not have is exact noise, one draw for each parameter, and products and a sum
in float64 instead of float32. All are part of the privacy proof (`gate.step.Steps`). Parts are measured alone, with
what they need in the cache; what they leave of a step is softmax, norms, clipping, casts and waiting for memory. A
training draws noise in a second thread by default, which processor time does not show; whether that saves waiting is
not measured.

```
{parts}
```

## FiLM through MiniLM

One step on made-up short texts, 15 classes. Peers see texts of one length at a time, up to 16 as ours unless said
otherwise, without rows that fill a micro-batch up. Ours has such rows where a length's texts do not fill the last
micro-batch: an example's gradient must have the same bits whatever else is in the batch. They weigh less in a larger
batch.

```
{film}
```

bfloat16 is off by default: a processor without it is far slower. One round, a few texts.

```
{bf16}
```

## Memory

What one step adds at its peak to a process that already holds encoder and examples, by logical batch. FiLM has one
micro-batch in memory, whatever the batch; a head takes up to 1,024 rows at a time, so it grows up to there.

```
{memory}
```

## Sums by label

What `Cosine` does with a task, beside a copy of the same memory.

```
{sums}
```

Label spaces: `python benchmarks/label_spaces.py` compares 10,000,000 public labels with 100 (time per task, model size
without names, prediction).
"""


def at_least(ratio: float) -> Callable[[float], bool]:
    """Returns a check that the peer takes at least this many times as long."""
    return lambda measured: measured >= ratio


def seconds(run: Callable[[], Any], units: float) -> float:
    """Returns the processor time of one run per unit of work."""
    start = time.process_time()
    run()
    return (time.process_time() - start) / units


def play(contest: Contest, rounds: int) -> dict[str, list[float]]:
    """Runs all peers in turn, round after round; the first round warms up and does not count."""
    times: dict[str, list[float]] = {name: [] for name in contest}
    for round_ in range(rounds + 1):
        for name, (run, units) in contest.items():
            spent = seconds(run, units)
            if round_:
                times[name].append(spent)
    return times


def noise_contest() -> Contest:
    """Nanoseconds per Gaussian sample."""
    import opendp.prelude as dp
    from pydp.algorithms import numerical_mechanisms

    dp.enable_features("contrib")
    secure, fast = NoiseSource.from_os(), np.random.Generator(np.random.PCG64())
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    exact = dp.m.make_gaussian(*space, scale=SIGMA * GRID)
    google = numerical_mechanisms.GaussianMechanism(1.0, 1e-5, 1.0)
    many, few = 1 << 21, 2_000

    def one_by_one() -> None:
        for _ in range(few):
            google.add_noise(0.0)

    return {
        "reticent (secure, exact)": (lambda: secure.rounded_gaussian(SIGMA * GRID, many), many),
        "NumPy PCG64 (not secure)": (lambda: fast.standard_normal(many), many),
        "OpenDP make_gaussian (secure, exact)": (lambda: exact([0] * few), few),
        "python-dp GaussianMechanism (secure)": (one_by_one, few),
    }


def calibration_contest(epsilon: float, found: dict[str, float]) -> Contest:
    """Seconds to find the noise of DP-SGD at rate 0.1, 400 steps, delta 1e-5; `found` collects the answers."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from opacus.accountants.utils import get_noise_multiplier

    def ours() -> None:
        profiles.of.cache_clear()
        pld.compose.cache_clear()
        budget = Budget(epsilon=epsilon, delta=1e-5)
        found["reticent"] = accounting.noise_multiplier(budget, rate=0.1, steps=400)

    def opacus(accountant: str) -> Callable[[], None]:
        def run() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # RDP warns that its orders end
                found[f"Opacus {accountant.upper()}"] = get_noise_multiplier(
                    target_epsilon=epsilon, target_delta=1e-5, sample_rate=0.1, steps=400, accountant=accountant
                )

        return run

    def google() -> None:
        def event(noise: float) -> dp_accounting.DpEvent:
            step = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(noise))
            return dp_accounting.SelfComposedDpEvent(step, 400)

        found["dp-accounting PLD"] = dp_accounting.calibrate_dp_mechanism(
            PLDAccountant, event, epsilon, 1e-5, dp_accounting.ExplicitBracketInterval(6.0 / epsilon, 12.0), tol=1e-4
        )

    return {
        "reticent": (ours, 1),
        "Opacus PRV": (opacus("prv"), 1),
        "Opacus RDP": (opacus("rdp"), 1),
        "dp-accounting PLD": (google, 1),
    }


def show(
    title: str, times: dict[str, list[float]], goals: dict[str, Goal], ratio: str = "peer / ours", **extra: Any
) -> str:
    """Returns one contest as a table; ratios are to the first, round by round."""
    table = Table(title=title)
    for heading in ("", "time", ratio, "goal", *extra):
        table.add_column(heading)
    first = next(iter(times))
    for name, spent in times.items():
        middle = statistics.median(theirs / ours for theirs, ours in zip(spent, times[first], strict=True))
        columns = (f"{column[name]:.5f}" for column in extra.values())
        table.add_row(name, _time(statistics.median(spent)), f"{middle:.2f}", _mark(goals.get(name), middle), *columns)
    return _text(table)


def show_peaks(peaks: dict[str, dict[int, float]]) -> str:
    """Returns a table of peak memory by logical batch."""
    sizes = list(next(iter(peaks.values())))
    table = Table(title="Peak memory of a step, MiB")
    for heading in ("", *(f"batch {size}" for size in sizes)):
        table.add_column(heading)
    for name, found in peaks.items():
        table.add_row(name, *(f"{found[size]:.1f}" for size in sizes))
    return _text(table)


def _time(spent: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if spent * scale >= 0.1:
            return f"{spent * scale:.3f} {unit}"
    return f"{spent * 1e9:,.1f} ns"


def _mark(goal: Goal | None, measured: float) -> str:
    return "" if goal is None else f"{goal[0]}: {'met' if goal[1](measured) else 'MISSED'}"


def _text(table: Table) -> str:
    Console(width=140).print(table)  # for whoever waits
    page = Console(width=140, file=io.StringIO())
    page.print(table)
    lines: str = page.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in lines.splitlines())


def noise_and_calibration() -> str:
    """Returns the tables of noise and calibration."""
    tables = [
        show(
            "Gaussian noise, per sample",
            play(noise_contest(), ROUNDS),
            {
                "NumPy PCG64 (not secure)": ("ours as fast", at_least(1)),
                "OpenDP make_gaussian (secure, exact)": ("at least 100x faster", at_least(100)),
            },
        )
    ]
    for epsilon in (1.0, 8.0):
        found: dict[str, float] = {}
        times = play(calibration_contest(epsilon, found), 3)
        tighter = found["reticent"] < found["Opacus PRV"]
        goal = ("at least 4x faster and tighter", at_least(4 if tighter else math.inf))
        title = f"DP-SGD calibration, epsilon {epsilon:g}, delta 1e-5, rate 0.1, 400 steps"
        tables.append(show(title, times, {"Opacus PRV": goal}, noise_multiplier=found))
    return "\n".join(tables)


def heads() -> str:
    """Returns the tables of a head on features."""
    goals = {
        "plain training, not private": ("ours at 85 % or more", at_least(0.85)),
        "Opacus ghost clipping": ("at least 1.4x faster", at_least(1.4)),
        "Opacus default": ("at least 40x faster", at_least(40)),
    }
    return "\n".join(
        show(
            f"Head, {classes} classes, batch {batch}, per step",
            play(training.head_contest(classes, batch), ROUNDS),
            goals,
        )
        for classes in (15, 150)
        for batch in (256, 1024)
    )


def parts() -> str:
    """Returns the tables of where a step of the head goes."""
    return "\n".join(
        show(
            f"Head, 150 classes, batch {batch}",
            play(training.parts_of_a_step(150, batch), ROUNDS),
            {},
            ratio="part / step",
        )
        for batch in (256, 1024)
    )


def films() -> str:
    """Returns the tables of FiLM."""
    faster = ("ours at least as fast", at_least(1))
    goals = {
        "plain training, not private": ("ours at 95 % or more", at_least(0.95)),
        **{f"Opacus {mode}": faster for mode in ("ghost clipping", "default", "functorch")},
    }
    return "\n".join(
        show(f"FiLM, batch {batch}, per example", play(training.film_contest(batch), rounds), goals)
        for batch, rounds in ((256, 3), (1024, 2))
    )


def main(page: Path) -> None:
    """Plays all contests and writes the page."""
    import torch

    torch.set_num_threads(1)
    page.write_text(
        PAGE.format(
            noise=noise_and_calibration(),
            head=heads(),
            parts=parts(),
            film=films(),
            bf16=show("FiLM, 8 texts, per example", play(training.bf16_contest(), 1), {}, ratio="to float32"),
            memory=show_peaks(training.peaks((64, 1024, 4096))),
            sums=show("Features, per gigabyte", play(training.sums_contest(), ROUNDS), {}),
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
