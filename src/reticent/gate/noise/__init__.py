"""Where all noise comes from: `source` turns the operating system's entropy into draws, `normal` is its inner loop."""

from reticent.gate.noise.source import NoiseSource

__all__ = ["NoiseSource"]
