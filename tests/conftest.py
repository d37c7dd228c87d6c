"""Shared by all tests."""

import tomllib
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from reticent.gate.noise import NoiseSource

# False-alarm rate of every statistical check; noise is never seeded to make a check pass. Where a law has no closed
# form (the accuracy of a noisy model), a threshold is five deviations away, as measured over many draws.
ALPHA = 1e-6

hypothesis.settings.register_profile("reticent", deadline=None, max_examples=60)
hypothesis.settings.load_profile("reticent")


@pytest.fixture
def rng() -> NoiseSource:
    return NoiseSource.from_os()


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "golden" / "paper.toml").read_text())


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the optional benchmark data beside the project (../shared/data)")
    return folder
