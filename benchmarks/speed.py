"""Speed side by side with peers, as ratios measured in one run on one thread. `make bench-speed` runs it.

Machines are noisy, so every contest is played in rounds, peers in turn, and the median of the rounds' ratios counts.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from reticent import Budget, accounting, pld, profiles
from reticent.gate.noise import NoiseSource

SIGMA = 3.7306
GRID = 2**20
ROUNDS = 5

Contest = dict[str, tuple[Callable[[], Any], int]]
Goal = tuple[str, Callable[[float], bool]]


def at_least(ratio: float) -> Callable[[float], bool]:
    """Returns a check that the peer takes at least this many times as long."""
    return lambda measured: measured >= ratio


def seconds(run: Callable[[], Any], units: int) -> float:
    """Returns the time of one run per unit of work."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) / units


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


def show(title: str, times: dict[str, list[float]], goals: dict[str, Goal], **extra: dict[str, float]) -> None:
    """Prints one contest; ratios are the peer's time over ours, round by round."""
    table = Table(title=title)
    for heading in ("", "time", "peer / ours", "goal", *extra):
        table.add_column(heading)
    first = next(iter(times))
    for name, spent in times.items():
        ratio = statistics.median(theirs / ours for theirs, ours in zip(spent, times[first], strict=True))
        goal, met = goals.get(name, ("", at_least(0)))
        mark = "" if not goal else f"{goal}: {'met' if met(ratio) else 'MISSED'}"
        middle = statistics.median(spent)
        shown = f"{middle * 1e9:,.1f} ns" if middle < 1e-4 else f"{middle:.3f} s"
        table.add_row(name, shown, f"{ratio:.2f}", mark, *(f"{column[name]:.5f}" for column in extra.values()))
    Console(width=140).print(table)


def main() -> None:
    """Plays all contests."""
    import torch

    torch.set_num_threads(1)
    show(
        "Gaussian noise, per sample",
        play(noise_contest(), ROUNDS),
        {
            "NumPy PCG64 (not secure)": ("ours within 3x", at_least(1 / 3)),
            "OpenDP make_gaussian (secure, exact)": ("at least 100x faster", at_least(100)),
        },
    )
    for epsilon in (1.0, 8.0):
        found: dict[str, float] = {}
        times = play(calibration_contest(epsilon, found), 3)
        tighter = found["reticent"] < found["Opacus PRV"]
        show(
            f"DP-SGD calibration, epsilon {epsilon:g}, delta 1e-5, rate 0.1, 400 steps",
            times,
            {"Opacus PRV": ("at least 4x faster and tighter", at_least(4 if tighter else math.inf))},
            noise_multiplier=found,
        )


if __name__ == "__main__":
    main()
