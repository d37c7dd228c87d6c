"""Noise and calibration beside NumPy, OpenDP, python-dp, Opacus and dp-accounting."""

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from contests import Contest, Costs, Family, Peers, in_turn

SIGMA, GRID = 3.7306, 2**20
NUMPY, OPENDP = "NumPy PCG64 (not secure)", "OpenDP make_gaussian (secure, exact)"
SETTINGS = {  # name: epsilon, rate, steps
    "epsilon-1": (1.0, 0.1, 400),
    "epsilon-8": (8.0, 0.1, 400),
    "rate-0.01": (1.0, 0.01, 2_000),
    "rate-0.001": (1.0, 0.001, 10_000),
}


def families() -> list[Family]:
    """Returns the family of noise and the family of calibration."""
    return [
        Family(
            name="noise",
            title="Noise",
            words="""
Gaussian noise, per sample, in one call for many samples or few. Ours is secure and exact: bits of a stream cipher, and
a law without floating-point gaps. NumPy is neither; OpenDP is both; python-dp is secure. Small calls are mostly their
own overhead: asking the operating system for bits alone, which ours does in every call so that it keeps no state to
repeat, takes as much of one as the lines below say, and calling a compiled loop about as much again.
""",
            contests=_noise,
        ),
        Family(
            name="calibration",
            title="Calibration",
            words="""
Finding the noise of DP-SGD for a budget, delta 1e-5, with nothing cached. After each table of times stands the noise
multiplier that was found: a ratio above 1 means that the peer adds more noise for the same budget.
""",
            contests=_calibrations,
        ),
    ]


def _noise() -> list[Contest]:
    few = [
        Contest(
            name=f"noise/{size}",
            title=f"Gaussian noise, {size:,} sample{'s'[: size > 1]} a call, per sample",
            play=partial(_small_draws, size),
            goals={NUMPY: 1.0} if size == 1_000 else {},
        )
        for size in (1, 100, 1_000)
    ]
    goals = {NUMPY: 1.0, OPENDP: 100.0}
    return [
        Contest(
            name="noise/many",
            title="Gaussian noise, 2 million samples a call, per sample",
            play=lambda n: in_turn(_large_draw(), n),
            goals=goals,
        ),
        *few,
    ]


def _large_draw() -> Peers:
    import numpy as np
    import opendp.prelude as dp
    from pydp.algorithms import numerical_mechanisms

    from reticent.gate.noise import NoiseSource

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
        NUMPY: (lambda: fast.standard_normal(many), many),
        OPENDP: (lambda: exact([0] * few), few),
        "python-dp GaussianMechanism (secure)": (one_by_one, few),
    }


def _small_draws(size: int, rounds: int) -> Costs:
    import numpy as np
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from reticent.gate.noise import NoiseSource, normal

    secure, fast = NoiseSource.from_os(), np.random.Generator(np.random.PCG64())
    calls, sigma = 20_000 // size + 100, SIGMA * GRID
    nonce, zeros, words = bytes(12), bytes(8 * size), secure.words(size).view(np.int64)
    polynomials, bounds = normal.pieces()
    decided, out, marks = 0.49 - sigma * bounds, np.empty(size, np.int64), np.empty(size, np.int64)

    def often(draw: Callable[[], Any]) -> tuple[Callable[[], None], float]:
        def run() -> None:
            for _ in range(calls):
                draw()

        return run, calls * size

    peers: Peers = {
        "reticent (secure, exact)": often(lambda: secure.rounded_gaussian(SIGMA * GRID, size)),
        NUMPY: often(lambda: np.rint(fast.normal(0.0, SIGMA * GRID, size)).astype(np.int64)),
        "bits of the operating system alone": often(lambda: os.urandom(8 * size)),
        "bits by a new key alone": often(lambda: AESGCM(os.urandom(32)).encrypt(nonce, zeros, None)),
        "the compiled loop alone": often(lambda: normal.round_words(words, sigma, polynomials, decided, out, marks)),
    }
    return in_turn(peers, rounds)


def _calibrations() -> list[Contest]:
    made = []
    for name, (epsilon, rate, steps) in SETTINGS.items():
        words = f"epsilon {epsilon:g}, rate {rate:g}, {steps:,} steps"
        made += [
            Contest(
                name=f"calibration/{name}",
                title=f"Calibration, {words}",
                play=lambda rounds, at=(epsilon, rate, steps): _calibrated(*at, rounds)[0],  # type: ignore[misc]
                rounds=3,
                goals={"Opacus PRV": 4.0},
            ),
            Contest(
                name=f"calibration/{name}-noise",
                title=f"Noise multiplier found, {words}",
                play=lambda rounds, at=(epsilon, rate, steps): _calibrated(*at, rounds)[1],  # type: ignore[misc]
                rounds=3,
                goals={"Opacus PRV": 1.0, "Opacus RDP": 1.0},
                unit="",
            ),
        ]
    return made


@cache
def _calibrated(epsilon: float, rate: float, steps: int, rounds: int) -> tuple[Costs, Costs]:
    """Returns the seconds and the noise found, played once."""
    found: dict[str, float] = {}
    times = in_turn(_calibrators(epsilon, rate, steps, found), rounds)
    return times, {name: [found[name]] for name in times}


def _calibrators(epsilon: float, rate: float, steps: int, found: dict[str, float]) -> Peers:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from opacus.accountants.utils import get_noise_multiplier

    from reticent import Budget
    from reticent.privacy import accounting, pld, profiles

    def ours() -> None:
        profiles.of.cache_clear()
        pld.compose.cache_clear()
        budget = Budget(epsilon=epsilon, delta=1e-5)
        found["reticent"] = accounting.noise_multiplier(budget, rate=rate, steps=steps)

    def opacus(accountant: str) -> None:
        found[f"Opacus {accountant.upper()}"] = get_noise_multiplier(
            target_epsilon=epsilon, target_delta=1e-5, sample_rate=rate, steps=steps, accountant=accountant
        )

    def google() -> None:
        def event(noise: float) -> dp_accounting.DpEvent:
            step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
            return dp_accounting.SelfComposedDpEvent(step, steps)

        near = dp_accounting.ExplicitBracketInterval(found["reticent"] / 1.5, found["reticent"] * 1.5)  # a good start
        found["dp-accounting PLD"] = dp_accounting.calibrate_dp_mechanism(
            PLDAccountant, event, epsilon, 1e-5, near, tol=1e-4
        )

    return {
        "reticent": (ours, 1),
        "Opacus PRV": (partial(opacus, "prv"), 1),
        "Opacus RDP": (partial(opacus, "rdp"), 1),
        "dp-accounting PLD": (google, 1),
    }
