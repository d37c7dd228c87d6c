"""What it costs that features depend on the example alone, and what wins it back: ratios measured in one run.

    python benchmarks/encoding.py                       # a Markdown table; takes a few minutes

Texts are public: descriptions of diagnoses (ICD-10-CM). All peers have the same weights and tokenizer. Contests on one
thread are measured in processor time; those about threads and processes in seconds, because that is what these are for,
alone and beside one busy process: run them on an idle machine. Peers take turns; medians of the rounds'
ratios count.
"""

import os
import sys

WAY = sys.argv[1] if len(sys.argv) > 1 else "all"  # "threads" is what this file starts again, with torch's own threads
if WAY == "all":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import functools
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from typing import Any

import numpy as np

from reticent.encoders import Encoder, minilm
from reticent.encoders.devices import computes_in_bf16
from reticent.encoders.text import load_model

TEXTS, FEW, ROUNDS = 1000, 300, 3
Peers = dict[str, Callable[[], Any]]


def descriptions(n: int) -> list[str]:
    """Returns public texts of a realistic mix of lengths: 4 to 48 tokens, 18 on average."""
    import simple_icd_10_cm as icd

    codes = [code for code in icd.get_all_codes() if icd.is_leaf(code)]
    return [icd.get_description(code) for code in np.random.default_rng(0).choice(codes, size=n, replace=False)]


def sorted_batches(texts: Sequence[str], rows: int = 32) -> Callable[[], Any]:
    """Plain batching: sorted by length, padded to the longest of each batch, so that bits depend on other rows."""
    import torch
    import transformers

    folder = str(minilm().load().module.config._name_or_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = load_model(folder, local=True)

    def encode() -> Any:
        ids = tokenizer(list(texts), truncation=True, max_length=256)["input_ids"]
        order = np.argsort([-len(one) for one in ids])
        features = np.empty((len(texts), 384), np.float32)
        with torch.inference_mode():
            for start in range(0, len(order), rows):
                part = order[start : start + rows]
                padded = tokenizer.pad({"input_ids": [ids[i] for i in part]}, return_tensors="pt")
                hidden = model(**padded).last_hidden_state
                mask = padded["attention_mask"].unsqueeze(-1).float()
                features[part] = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
        return features

    return encode


def played(peers: Peers, clock: Callable[[], float]) -> dict[str, float]:
    """Returns each peer's time over the first one's."""
    times: dict[str, list[float]] = {name: [] for name in peers}
    for run in peers.values():
        run()
    for _ in range(ROUNDS):
        for name, run in peers.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    first = times[next(iter(peers))]
    return {name: statistics.median(a / b for a, b in zip(some, first, strict=True)) for name, some in times.items()}


def one_thread() -> dict[str, float]:
    """Processor time of the same texts, over plain sorted batching."""
    texts = descriptions(TEXTS)
    usual, fast, half = minilm(), minilm(backend="onnxruntime"), minilm(bf16=True)
    return played(
        {
            "plain sorted batches of 32": sorted_batches(texts),
            "minilm()": lambda: usual(texts),
            'minilm(backend="onnxruntime")': lambda: fast(texts),
            f"minilm(bf16=True), {'with' if computes_in_bf16('cpu') else 'without'} instructions for it": (
                lambda: half(texts)
            ),
        },
        time.process_time,
    )


def several_threads() -> dict[str, dict[str, float]]:
    """Seconds over those of plain batches, alone and beside a process that holds a core."""
    texts = descriptions(FEW)
    usual, fast = minilm(), minilm(backend="onnxruntime")
    both = f"{os.cpu_count()} threads"
    with get_context("spawn").Pool(os.cpu_count(), initializer=on_one_thread) as pool:
        peers: Peers = {
            f"plain sorted batches of 32, {both}": sorted_batches(texts),
            f"minilm(), {both}": lambda: usual(texts),
            f'minilm(backend="onnxruntime"), {both}': lambda: fast(texts),
            "minilm(), 1 process of one thread": lambda: pool.map(in_a_process, [texts]),
            f"minilm(), {os.cpu_count()} processes of one thread": lambda: pool.map(in_a_process, shares(texts), 1),
        }
        list(pool.map(in_a_process, shares(texts) * 3, 1))  # each process has loaded the model
        alone = played(peers, time.perf_counter)
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            return {"alone": alone, "beside a busy process": played(peers, time.perf_counter)}
        finally:
            busy.kill()
            busy.wait()


def shares(texts: Sequence[str]) -> list[Sequence[str]]:
    """Returns a share of the texts for each core."""
    cores = os.cpu_count() or 1
    return [texts[core::cores] for core in range(cores)]


def on_one_thread() -> None:
    """Makes torch compute on one thread in a new process."""
    import torch

    torch.set_num_threads(1)


def in_a_process(texts: Sequence[str]) -> int:
    """Encodes in a process of its own, which keeps its model."""
    return len(_mine()(texts))


@functools.cache
def _mine() -> Encoder:
    return minilm()


def main() -> None:
    """Prints tables; the second is measured in a process of its own, whose torch has all cores."""
    if WAY == "threads":
        print(json.dumps(several_threads()))
        return
    print("| one thread, processor time | over plain |\n|---|---|")
    for name, ratio in one_thread().items():
        print(f"| {name} | {ratio:.2f} |")
    usual = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, __file__, "threads"]
    again = subprocess.run(command, env=usual, capture_output=True, text=True, check=True)  # noqa: S603
    found = json.loads(again.stdout)
    print(f"\n| {os.cpu_count()} cores, seconds | {' | '.join(found)} |\n|---|{'---|' * len(found)}")
    for name in found["alone"]:
        print(f"| {name} | {' | '.join(f'{column[name]:.2f}' for column in found.values())} |")


if __name__ == "__main__":
    main()
