"""Half precision and static int8 beside float32: time, and what it does to accuracy; a Markdown table.

    python benchmarks/half_precision.py --data ../shared/data

One thread, processor time over that of `minilm(backend="torch")`, encoders in turn on 300 texts at a time, medians;
loading and probes are not in it. Accuracy is that of `Cosine()` with public labels in one task, delta 1e-5: without
noise, and at epsilon 8 the mean of twenty runs. All encoders get the same twenty seeds of noise; behind ± is the
standard error of the difference to float32. CLINC150 has 12 examples and 6 tests of each intent, ICD-10-CM 1,800 and
900 descriptions. A data set that is not in the folder is left out. A few minutes.

Static int8 is not offered: it is here so that its rows can be measured again. By onnxruntime, with scales from 200
texts of ICD-10-CM: all products in whole numbers, or those with weights alone.
"""

from contests import on_one_thread, processor_time

on_one_thread()

import argparse
import importlib
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np

import reticent as rt
from reticent.encoders import Encoder, minilm, onnx_encoder, onnx_texts
from reticent.encoders.devices import computes_in_bf16
from reticent.encoders.encoder import Backend
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.oracles import NoPrivacy, experiment
from reticent.lab.data import datasets

AT_ONCE, SEEDS, SCALED_BY = 300, 20, 200
FORMATS = ("float32", "bf16", "static int8, all products", "static int8, weights")


@dataclass(frozen=True)
class Sample:
    """Public texts to learn from, and to test on."""

    texts: list[str]
    labels: list[str]
    unseen: list[str]
    truth: list[str]


def samples(folder: Path) -> dict[str, Sample]:
    """Returns the samples of the data sets that are there."""
    found = {"ICD-10-CM": icd10cm()}
    try:
        whole = datasets.load("clinc150", folder)
    except datasets.MissingData as error:
        print(error, file=sys.stderr)
        return found
    learned, unseen = few(whole.labels, 12), few(whole.unseen_labels, 6)
    texts, others = [whole.inputs[i] for i in learned], [whole.unseen_inputs[i] for i in unseen]
    clinc150 = Sample(texts, whole.labels[learned].tolist(), others, whole.unseen_labels[unseen].tolist())
    return {"CLINC150": clinc150} | found


def icd10cm() -> Sample:
    """Returns descriptions of diagnoses, labelled by their blocks."""
    whole = datasets.load("icd10cm", Path())
    rows = np.random.default_rng(0).permutation(len(whole.labels))
    learned, unseen = rows[:1_800], rows[1_800:2_700]
    texts, others = [whole.inputs[i] for i in learned], [whole.inputs[i] for i in unseen]
    return Sample(texts, whole.labels[learned].tolist(), others, whole.labels[unseen].tolist())


def few(labels: Any, each: int) -> list[int]:
    """Returns places of a few examples of each label."""
    draw = np.random.default_rng(0)
    return [int(i) for label in np.unique(labels) for i in draw.permutation(np.flatnonzero(labels == label))[:each]]


def encoders() -> dict[str, Encoder]:
    """Returns the encoders, by the names of their rows."""
    usual = minilm(backend="torch")
    small = [replace(usual, load=partial(_int8, weights_alone)) for weights_alone in (False, True)]
    return dict(zip(FORMATS, (usual, minilm(bf16=True, backend="torch"), *small), strict=True))


def _int8(weights_alone: bool) -> Backend:
    """Returns MiniLM with static int8 products, whose scales are fixed before any text is seen."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    q: Any = importlib.import_module("onnxruntime.quantization")
    backend = minilm(backend="torch").load()
    scaled_by = backend.prepare(icd10cm().texts[-SCALED_BY:])
    names = onnx_texts.INPUTS
    feeds = iter([dict(zip(names, (array[None] for array in item or ()), strict=True)) for item in scaled_by])

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        """Gives one text after the other."""

        def get_next(self) -> Any:
            """Returns the next, None at the end."""
            return next(feeds, None)

    arrays = [np.stack([array, array]) for array in scaled_by[0] or ()]
    with tempfile.TemporaryDirectory() as folder:
        whole, small = Path(folder, "whole.onnx"), Path(folder, "int8.onnx")
        whole.write_bytes(onnx_encoder.traced(backend, "minilm", names, arrays))
        form = q.QuantFormat.QOperator if weights_alone else q.QuantFormat.QDQ
        extra = {"MatMulConstBOnly": weights_alone}
        q.quantize_static(whole, small, Reader(), form, ["MatMul"], per_channel=True, extra_options=extra)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
        session = onnxruntime.InferenceSession(small.read_bytes(), options, providers=["CPUExecutionProvider"])

    def forward(item: Sequence[Any]) -> Any:
        return session.run([onnx_texts.OUTPUT], dict(zip(names, item, strict=True)))[0]

    return replace(backend, forward=forward, module=None, embed=None)


def encoded(sample: Sample, by: dict[str, Encoder]) -> tuple[dict[str, float], dict[str, Any]]:
    """Returns times over those of the first encoder, and features of learned and unseen texts together."""
    texts = [*sample.texts, *sample.unseen]
    parts: dict[str, list[Any]] = {name: [] for name in by}
    times: dict[str, list[float]] = {name: [] for name in by}
    for encoder in by.values():
        encoder(texts[::4])  # loads, and probes most lengths
    for start in range(0, len(texts), AT_ONCE):
        for name, encoder in by.items():
            began = processor_time()
            parts[name].append(encoder(texts[start : start + AT_ONCE]))
            times[name].append(processor_time() - began)
    first = times[next(iter(by))]
    over = {name: statistics.median(a / b for a, b in zip(some, first, strict=True)) for name, some in times.items()}
    return over, {name: np.concatenate(some) for name, some in parts.items()}


def accuracies(sample: Sample, features: Any) -> tuple[float, list[float]]:
    """Returns percent without noise, and at epsilon 8 for each seed of noise."""
    n = len(sample.texts)
    space, budget = rt.PublicLabels(sorted({*sample.labels, *sample.truth})), rt.Budget(epsilon=8.0, delta=1e-5)

    def right(model: rt.ContinualClassifier) -> float:
        model.learn_task(features[:n], sample.labels, name="one", each_row_is_a_person=True)
        return 100 * float(model.score(features[n:], sample.truth))

    noisy = [
        right(rt.ContinualClassifier(labels=space, budget=budget, noise=NoiseSource.seeded(seed)))
        for seed in range(SEEDS)
    ]
    return right(experiment(NoPrivacy(), space, budget=budget)), noisy


def error_of_difference(some: Sequence[float], first: Sequence[float]) -> float:
    """Returns the standard error of the mean difference between runs with the same noise.

    >>> error_of_difference([3.0, 4.0], [1.0, 2.0])
    0.0
    """
    spread: float = statistics.stdev(a - b for a, b in zip(some, first, strict=True)) / len(some) ** 0.5
    return spread


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of data sets")
    found = samples(parser.parse_args().data)
    by = encoders()
    cells: dict[str, list[str]] = {name: [] for name in by}
    for sample in found.values():
        over, features = encoded(sample, by)
        found_by = {name: accuracies(sample, features[name]) for name in by}
        first = found_by[FORMATS[0]][1]
        for name, (exact, noisy) in found_by.items():
            error = f" ± {error_of_difference(noisy, first):.1f}" * (name != FORMATS[0])
            cells[name].append(f"{over[name]:.2f}; {exact:.1f}, {statistics.mean(noisy):.1f}{error}")
    print(f"This processor has {'' if computes_in_bf16('cpu') else 'no '}instructions for bfloat16.\n")
    print(f"| time; no noise, ε = 8 | {' | '.join(found)} |\n|---|{'---|' * len(found)}")
    for name, some in cells.items():
        print(f"| {name} | {' | '.join(some)} |")


if __name__ == "__main__":
    main()
