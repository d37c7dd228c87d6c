"""Peers of `training_contests`: a head on features, FiLM through MiniLM, memory, and sums by label.

Peers share every batch's rows, and Opacus is used without its data loader, which would only slow it down.
"""

import multiprocessing
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from contests import Peers

from reticent.budget import Budget
from reticent.encoders import film, minilm
from reticent.encoders.attach import norms
from reticent.encoders.batches import Item, batches, stacked
from reticent.encoders.devices import tensors
from reticent.encoders.encoder import Backend
from reticent.gate import step_kernel
from reticent.gate.gate import Gate
from reticent.gate.label_sums import PartialSums, sum_by_label
from reticent.gate.noise import NoiseSource
from reticent.gate.step import Gradients, clipped_sum
from reticent.lab.baselines.oracles import LabLedger
from reticent.labels import LabelSpace
from reticent.numerics.coded import Coded
from reticent.released.optimizers import Adam
from reticent.sensitive.engines import Local
from reticent.sensitive.gradients import AdapterGradients
from reticent.sensitive.head import HeadGradients
from reticent.sensitive.training import Engine, Training, train

Batch = Sequence[tuple[tuple[Any, ...], Any]]  # micro-batches: inputs and labels
Step = Callable[[Batch], None]

WIDTH, EXAMPLES = 384, 20_000
WORDS = ["what", "is", "my", "card", "balance", "please", "tell", "me", "how", "to", "book", "a", "flight", "tomorrow"]


# --- one training step of each peer


def plain(module: Any) -> Step:
    """Adam on the sum of losses, by autograd."""
    import torch

    trained = [weight for weight in module.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-3)
    loss = torch.nn.CrossEntropyLoss(reduction="sum")

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        for inputs, labels in batch:
            loss(module(*inputs), labels).backward()
        optimizer.step()

    return step


def opacus(module: Any, size: int, mode: str) -> Step:
    """Opacus with Adam; a batch of several micro-batches is one step."""
    import torch
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    ghost = mode == "ghost"
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    adam, loss = torch.optim.Adam(trained, lr=1e-3), torch.nn.CrossEntropyLoss()
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": size}
    if ghost:
        sampled = GradSampleModuleFastGradientClipping(module, strict=False, max_grad_norm=1.0)
        optimizer = DPOptimizerFastGradientClipping(adam, **settings)
        loss = DPLossFastGradientClipping(sampled, optimizer, loss)
    else:
        sampled = GradSampleModule(module, strict=False, force_functorch=mode == "functorch")
        optimizer = DPOptimizer(adam, **settings)

    def step(batch: Batch) -> None:
        for place, (inputs, labels) in enumerate(batch, start=1):
            optimizer.zero_grad()
            optimizer.signal_skip_step(do_skip=place < len(batch))
            loss(sampled(*inputs), labels).backward()
            optimizer.step()

    return step


def ours(gradients: Gradients, size: int, rate: float, steps: int, engine: Engine) -> Callable[[], Any]:
    """Steps of `train`."""
    training = Training(
        noise_multiplier=1.0,
        rate=rate,
        steps=steps,
        clip_norm=1.0,
        batch=rate * size,
        optimizer=Adam(learning_rate=1e-3),
    )
    noise = NoiseSource.from_os()

    def run() -> Any:
        gate = Gate(LabLedger.create(None, Budget(epsilon=1.0, delta=1e-5)), noise)
        return train(gradients, training, gate.spend(training.event, task="speed"), engine=engine)

    return run


# --- a head on features


def head_contest(classes: int, batch: int, width: int = WIDTH) -> Peers:
    """Seconds per step."""
    import torch

    x, y = _features(EXAMPLES, width), np.random.default_rng(1).integers(0, classes, size=EXAMPLES)
    all_x, all_y = torch.from_numpy(x), torch.from_numpy(y)

    def steps(step: Step, count: int) -> tuple[Callable[[], None], float]:
        def run() -> None:
            for _ in range(count):
                rows = torch.randint(EXAMPLES, (batch,))
                step([((all_x[rows],), all_y[rows])])

        return run, count

    def layer() -> Any:
        return torch.nn.Linear(width, classes)

    gradients, few, many = HeadGradients(x, y, classes), 5, 50
    rate = batch / EXAMPLES
    return {
        "reticent": (ours(gradients, EXAMPLES, rate, many, Engine(prefetch=False)), many),
        "plain training, not private": steps(plain(layer()), many),
        "Opacus ghost clipping": steps(opacus(layer(), batch, "ghost"), many // 2),
        "Opacus default": steps(opacus(layer(), batch, "hooks"), few),
    }


EXACT, SINGLE = "sum in float64", "the same sum in float32"
ADDED = ("exact noise", "the batch, by exact coins", "norms of all examples")


def parts_of_a_step(classes: int, batch: int, width: int = WIDTH) -> Peers:
    """Seconds that one step of ours spends on its parts, beside a step of plain training."""
    draw = np.random.default_rng(2)
    contest, x = head_contest(classes, batch, width), _features(EXAMPLES, width)
    rate, steps, parameters = batch / EXAMPLES, 20, classes * (width + 1)
    secure, error = NoiseSource.from_os(), draw.normal(size=(batch, classes))
    weight = draw.normal(size=(classes, width)).astype(np.float32)
    single, double = x[:batch].copy(), x[:batch].astype(np.float64)
    error_in_float32, point = error.astype(np.float32), np.zeros(parameters)
    halves = np.concatenate([error_in_float32, error_in_float32], axis=1)
    update, gradient = Adam(learning_rate=1e-3).update(parameters), draw.normal(size=parameters)
    products, labels = error_in_float32 * np.float32(1000), draw.integers(0, classes, size=batch)
    units, ones, found, squares = np.full(batch, 1e-3), np.ones(classes), np.empty_like(error), np.empty(batch)

    def coins(mp: Any) -> Any:
        return mp.mpf(rate)

    def often(part: Callable[[], Any]) -> tuple[Callable[[], None], float]:
        def run() -> None:
            for _ in range(steps):
                part()

        return run, steps

    noise, batches_, norms_ = ADDED
    return {
        "a step of ours": contest["reticent"],
        "plain training, not private": contest["plain training, not private"],
        noise: often(lambda: secure.rounded_gaussian(2.0**24, parameters)),
        batches_: often(lambda: secure.successes(EXAMPLES, coins)),
        norms_: often(lambda: step_kernel.squared_lengths(error, squares)),
        EXACT: often(lambda: error.T @ double),
        SINGLE: often(lambda: error_in_float32.T @ single),
        "the same in float32, in two halves of its digits": often(lambda: halves.T @ single),
        "logits in float32": often(lambda: single @ weight.T),
        "softmax": often(lambda: step_kernel.softmax_errors(products, units, ones, ones, labels, found)),
        "Adam in float64": often(lambda: update(point, gradient)),
    }


# --- FiLM through MiniLM


def film_contest(batch: int) -> Peers:
    """Seconds per example of one step: 15 classes, texts of 3 to 24 tokens."""
    import torch

    items, labels = _texts(batch)

    def micro_batches(module: Any, most: int) -> Batch:
        """Texts of one length at a time, without rows that fill a micro-batch up."""
        return [
            (tensors(module, stacked(items_of, len(items_of))), torch.from_numpy(labels[places]))
            for places, items_of, _ in batches(items, lambda _: most)
        ]

    def peer(make: Callable[[Any], Step], most: int = 16) -> tuple[Callable[[], None], float]:
        module = _classifier(minilm(backend="torch").load(), 15)
        return partial(make(module), micro_batches(module, most)), batch

    gradients = AdapterGradients(minilm(backend="torch").backend, film, items, labels, 15)
    return {
        "reticent": (ours(gradients, batch, 1.0, 1, Engine()), batch),
        "plain training, not private": peer(plain),
        "plain training, up to 64 texts": peer(plain, 64),
        "Opacus ghost clipping": peer(partial(opacus, size=batch, mode="ghost")),
        "Opacus default": peer(partial(opacus, size=batch, mode="hooks")),
        "Opacus functorch": peer(partial(opacus, size=batch, mode="functorch")),
    }


def bf16_contest() -> Peers:
    """Seconds per example of a few texts with FiLM: slow where the processor has no bfloat16."""
    items, labels = _texts(8)
    backend = minilm(backend="torch").backend
    gradients = {bf16: AdapterGradients(backend, film, items, labels, 15, Engine(bf16=bf16)) for bf16 in (False, True)}
    return {
        "float32 (default)": (ours(gradients[False], 8, 1.0, 1, Engine()), 8),
        "bfloat16": (ours(gradients[True], 8, 1.0, 1, Engine()), 8),
    }


# --- memory


def peaks(sizes: Sequence[int], through_encoder: bool) -> dict[int, float]:
    """MiB that one step of each logical batch adds to a process that already holds encoder and examples."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as fresh:
        return {size: fresh.submit(peak, size, through_encoder).result() for size in sizes}


def peak(size: int, through_encoder: bool) -> float:
    """Runs in a process of its own, which holds the same examples for every size."""
    most = 4096
    gradients: Gradients
    if through_encoder:
        items, labels = _texts(most)
        gradients = AdapterGradients(minilm(backend="torch").backend, film, items, labels, 15)
    else:
        labels = np.random.default_rng(1).integers(0, 150, size=most)
        gradients = HeadGradients(_features(most), labels, 150)
    Path("/proc/self/clear_refs").write_text("5")  # the peak of what came before does not count
    before = _resident_peak()
    clipped_sum(gradients, gradients.start, np.arange(size), 1.0)
    return _resident_peak() - before


def _resident_peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


# --- sums by label


def sums_contest() -> Peers:
    """Seconds per gigabyte of features."""
    n, classes = 200_000, 150
    x = _features(n)
    labels = Coded.of(np.random.default_rng(1).integers(0, classes, size=n))
    space, copy = LabelSpace(tuple(range(classes))), np.empty_like(x)

    def often(work: Callable[[], Any]) -> tuple[Callable[[], None], float]:
        def run() -> None:
            for _ in range(3):
                work()

        return run, 3 * x.nbytes / 1e9

    return {
        "reticent: normalise, snap, sum by label": often(
            lambda: sum_by_label(x, labels, known=space, count_weight=0.0)
        ),
        "copy of the same array": often(lambda: np.copyto(copy, x)),
        "squares of the same array, added up": often(lambda: np.einsum("ij,ij->i", x, x)),
    }


def threads_contest() -> Peers:
    """Wall-clock seconds per gigabyte of features, for parts that threads take in turn."""
    n, classes = 400_000, 150
    x = _features(n)
    labels = Coded.of(np.random.default_rng(1).integers(0, classes, size=n))
    space, copy = LabelSpace(tuple(range(classes))), np.empty_like(x)
    parts: list[Any] = [slice(start, start + n // 40) for start in range(0, n, n // 40)]

    def add(part: Any) -> PartialSums:
        found = PartialSums(space)
        found.add(x[part], labels.taken(part))
        return found

    def copied(part: Any) -> None:
        np.copyto(copy[part], x[part])

    def shared(threads: int, work: Callable[[Any], Any]) -> tuple[Callable[[], None], float]:
        return lambda: [*Local(threads=threads).map(work, parts)].clear(), x.nbytes / 1e9

    return {
        "sums, two threads": shared(2, add),
        "sums, one thread": shared(1, add),
        "copy, two threads": shared(2, copied),
        "copy, one thread": shared(1, copied),
    }


# --- public data


def _features(n: int, width: int = WIDTH) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, width)).astype(np.float32)
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def _texts(n: int) -> tuple[list[Item | None], np.ndarray]:
    draw = np.random.default_rng(3)
    lengths = np.clip(np.rint(draw.normal(8.5, 3.3, size=n)), 1, 22).astype(int)
    texts = [" ".join(draw.choice(WORDS, size=length)) for length in lengths]
    return minilm(backend="torch").prepare(texts), draw.integers(0, 15, size=n)


def _classifier(backend: Backend, classes: int) -> Any:
    """The same parameters as FiLM and a head, as a module of torch."""
    import torch

    class Classifier(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = backend.module, torch.nn.Linear(backend.width, classes)

        def forward(self, *inputs: Any) -> Any:
            assert backend.embed is not None
            return self.head(backend.embed(inputs))

    for layer in norms(backend.module).values():
        layer.requires_grad_(True).train()  # Opacus leaves out layers that do not train
    return Classifier()
