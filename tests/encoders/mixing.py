"""Modules whose rows influence each other, and modules that remember: each would break the sensitivity."""

from typing import Any

import numpy as np

WIDTH = 64
PROBE = np.cos(np.arange(WIDTH, dtype=np.float32))


def mixing() -> dict[str, Any]:
    """By name, what a forward pass does with a batch of shape (n, width)."""
    import torch

    def experts(x: Any) -> Any:
        """Two experts with room for two rows each; a row that finds no room is dropped."""
        out = torch.zeros_like(x)
        for expert in (0, 1):
            mine = torch.nonzero((x[:, 0] > 0).long() == expert).flatten()[:2]
            out[mine] = x[mine] * (expert + 1)
        return out

    return {
        "largest value": lambda x: x / x.abs().max(),
        "batch statistics": lambda x: (x - x.mean(0)) / (x.var(0, unbiased=False) + 1),
        "batch norm without statistics": lambda x: torch.nn.functional.batch_norm(
            x[:, :, None].repeat(1, 1, 2) * torch.tensor([1.0, 2.0]), None, None, training=True
        ).sum(2),
        "softmax over rows": lambda x: x.softmax(0),
        "neighbours": lambda x: x + torch.roll(x, 1, 0) / 8,
        "the row before": lambda x: torch.cat([x[:1], x[1:] + x[:-1] / 8]),
        "the last row": lambda x: x + x[-1:] / 8,
        "place": lambda x: x + torch.arange(len(x))[:, None],
        "four rows": lambda x: x / x.abs().max() if len(x) == 4 else x,
        "one width": lambda x: x / x.abs().max() if x.shape[1] == WIDTH else x,
        "differing rows": lambda x: x + (x != x[0]).any(),
        "no plain rows": lambda x: x * (1 + x.abs().sum() / 64),
        "experts": experts,
        "with gradients": lambda x: x / x.abs().max() if torch.is_grad_enabled() else x,
    }


def remembering() -> dict[str, Any]:
    """By name, a function that makes a forward pass with a state of its own: `self` is the module."""
    import torch

    def counter(self: Any, x: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        return x + self.calls / 8

    def silent(self: Any, x: Any) -> Any:
        self.kept += 1
        return x * 1

    def running_mean(self: Any, x: Any) -> Any:
        self.kept.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x - self.kept

    def last_batch(self: Any, x: Any) -> Any:
        last, self.last = getattr(self, "last", 0 * x), x.detach()
        return x + last[:1] / 8

    def dropout(self: Any, x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.5, training=True)

    return {made.__name__: made for made in (counter, silent, running_mean, last_batch, dropout)}


def module(first: Any, *, own: bool = False, width: int = WIDTH) -> Any:
    """A LayerNorm after what is done with the rows; `own` gives it the module, to remember things in."""
    import torch

    class Through(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(width)
            self.register_buffer("kept", torch.zeros(width))

        def forward(self, x: Any) -> Any:
            return self.norm(first(self, x) if own else first(x)) * (1 + x.abs().mean(1, keepdim=True) / 100)

    return Through()
