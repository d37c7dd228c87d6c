"""Shared by all tests."""

import importlib.util
import os
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before anything imports NumPy or torch: parallel workers, and the processes that tests start, must not fight for the
# cores, and nothing is downloaded. What the user has set stays.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import hypothesis
import pytest

from reticent.gate.noise import NoiseSource
from tests import tiers

# False-alarm rate of every statistical check; noise is never seeded to make a check pass. Where a law has no closed
# form (the accuracy of a noisy model), a threshold is five deviations away, as measured over many draws.
ALPHA = 1e-6

hypothesis.settings.register_profile("reticent", deadline=None, max_examples=60)
hypothesis.settings.load_profile("reticent")


@pytest.hookimpl(tryfirst=True)  # before pytest picks tests by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tiers.mark(items)
    if os.name != "posix":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="kills, forks or permissions of POSIX systems"))


@pytest.fixture
def rng() -> NoiseSource:
    return NoiseSource.from_os()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """On a busy machine threads wait for each other, and slow tests down."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Says how many threads torch has until the test ends."""
    torch = pytest.importorskip("torch", reason="needs reticent[torch]")
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "golden" / "paper.toml").read_text())


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the optional benchmark data beside the project (../shared/data)")
    return folder
