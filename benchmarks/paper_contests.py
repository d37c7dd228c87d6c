"""The paper's Cosine as its authors would write it, dense, against ours: few live labels of a large public space."""

from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from contests import Contest, Costs, Family, processor_time

ROWS, WIDTH, LIVE, LABELS, FRESH = 50_000, 768, 100, 100_000, 10_000
SIGMA = 3.7306  # epsilon 1, delta 1e-5, as ours calibrates it
OURS, TORCH, NUMPY = "reticent", "the paper's Cosine, dense torch", "the paper's Cosine, dense NumPy"
GOAL = 50.0


def families() -> list[Family]:
    """Returns the one family."""
    return [
        Family(
            name="paper",
            title="The paper's Cosine, as its authors would write it",
            words=f"""
One task of {ROWS:,} rows x {WIDTH} float32 features (CIFAR-100's shape), {LIVE} labels with examples out of {LABELS:,}
public ones, epsilon 1, delta 1e-5, one thread. Then {FRESH:,} fresh rows are predicted. All find the same labels for at
least 99 % of them.

*Dense, torch or NumPy*: normalise the rows, add them up in an array of {LABELS:,} x {WIDTH} (`index_add_`,
`np.add.at`; float32), add Gaussian noise of the library's own generator to every coordinate (neither secure nor exact),
normalise all rows of the array; predict by one product with it, 1,000 fresh rows at a time, and `argmax`. Labels are
integers already.

*Ours*: labels are strings, looked up in the space; a new model in memory, its budget, calibration and ledger; exact
sums in integers; exact noise from a secure source for all {LABELS:,} labels, of which those blocks are drawn and kept
that stand out (`gate.sparse`: the same law as dense noise and a threshold after it). Learning does not include making
the list of public labels, which both are given; predicting includes combining the release. The process is warm: numba
has compiled.
""",
            contests=_contests,
        )
    ]


def _contests() -> list[Contest]:
    return [
        Contest(
            name=f"paper/{part}",
            title=title,
            play=lambda rounds, part=part: _played(rounds)[part],  # type: ignore[misc]
            rounds=3,
            goals=dict.fromkeys((TORCH, NUMPY), GOAL) if part == "together" else {},
        )
        for part, title in (
            ("learn", f"Learn {ROWS:,} x {WIDTH}, {LIVE} live of {LABELS:,} labels"),
            ("predict", f"Predict {FRESH:,} rows after it"),
            ("together", "Learn and predict"),
        )
    ]


@cache
def _played(rounds: int) -> dict[str, Costs]:
    """Plays learning and predicting once, and returns the seconds of each part and of both together."""
    import torch

    torch.set_num_threads(1)
    data = _Data()
    learners: dict[str, _Learner] = {OURS: _Ours(data), TORCH: _Torch(data), NUMPY: _NumPy(data)}
    learn: dict[str, list[float]] = {name: [] for name in learners}
    predict: dict[str, list[float]] = {name: [] for name in learners}
    for round_ in range(rounds + 1):
        for name, learner in learners.items():
            start = processor_time()
            learner.learn()
            learned = processor_time()
            found = learner.predict(data.fresh if round_ else data.fresh[:200])
            if round_:
                learn[name].append(learned - start)
                predict[name].append(processor_time() - learned)
                assert np.mean(found == data.truth) >= 0.99, f"{name} does not find the labels"
    both = {name: [a + b for a, b in zip(learn[name], predict[name], strict=True)] for name in learners}
    return {"learn": learn, "predict": predict, "together": both}


class _Learner(Protocol):
    def learn(self) -> None:
        """Learns the task, from nothing."""

    def predict(self, fresh: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the numbers of labels."""


class _Data:
    """Rows around the centres of their labels."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        self.live = np.sort(draw.choice(LABELS, LIVE, replace=False))
        centres = draw.standard_normal((LIVE, WIDTH), dtype=np.float32)
        which, again = draw.integers(0, LIVE, ROWS), draw.integers(0, LIVE, FRESH)
        self.rows = centres[which] + draw.standard_normal((ROWS, WIDTH), dtype=np.float32)
        self.fresh = centres[again] + draw.standard_normal((FRESH, WIDTH), dtype=np.float32)
        self.labels, self.truth = self.live[which], self.live[again]


class _Ours:
    def __init__(self, data: _Data) -> None:
        import reticent as rt

        self.rt, self.rows = rt, data.rows
        self.space = rt.PublicLabels(f"label {i}" for i in range(LABELS))
        self.labels = [f"label {i}" for i in data.labels]

    def learn(self) -> None:
        budget = self.rt.Budget(epsilon=1.0, delta=1e-5)
        self.model = self.rt.ContinualClassifier(labels=self.space, budget=budget)
        self.model.learn_task(self.rows, self.labels, name="one")

    def predict(self, fresh: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.array([int(label.removeprefix("label ")) for label in self.model.predict(fresh)])


class _Torch:
    def __init__(self, data: _Data) -> None:
        import torch

        self.torch, self.rows, self.labels = torch, torch.from_numpy(data.rows), torch.from_numpy(data.labels)

    def learn(self) -> None:
        unit = self.torch.nn.functional.normalize
        sums = self.torch.zeros(LABELS, WIDTH).index_add_(0, self.labels, unit(self.rows, dim=1))
        sums += SIGMA * self.torch.randn(LABELS, WIDTH)
        self.weights = unit(sums, dim=1)

    def predict(self, fresh: npt.NDArray[Any]) -> npt.NDArray[Any]:
        parts = self.torch.from_numpy(fresh).split(1_000)
        found = [(part @ self.weights.T).argmax(dim=1) for part in parts]
        return np.asarray(self.torch.cat(found).numpy())


class _NumPy:
    def __init__(self, data: _Data) -> None:
        self.rows, self.labels = data.rows, data.labels

    def learn(self) -> None:
        sums = np.zeros((LABELS, WIDTH), np.float32)
        np.add.at(sums, self.labels, self.rows / np.linalg.norm(self.rows, axis=1, keepdims=True))
        sums += np.random.default_rng().normal(0.0, SIGMA, sums.shape).astype(np.float32)
        self.weights = sums / np.linalg.norm(sums, axis=1, keepdims=True)

    def predict(self, fresh: npt.NDArray[Any]) -> npt.NDArray[Any]:
        parts = np.split(fresh, range(1_000, len(fresh), 1_000))
        return np.concatenate([(part @ self.weights.T).argmax(axis=1) for part in parts])
