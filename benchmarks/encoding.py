"""What it costs that features depend on the example alone, and what wins it back, measured in one run.

    python benchmarks/encoding.py                # two Markdown tables; five minutes of processor time
    python benchmarks/encoding.py one-thread     # the first alone; or: several

Texts are public: descriptions of diagnoses (ICD-10-CM). All peers have the same weights and tokenizer, and take turns.
The first table is processor time on one thread, over that of plain batches: medians of the rounds' ratios. The second
is about threads and processes, first as the machine is, then beside one more busy process. Seconds are what threads
are for, but on a machine that others use they say who else was there, so the load is printed, and processor seconds
stand beside them: those of the busiest process, which is what a machine with a free core for each would have to wait
for where each has one thread. Loading and probes are in neither table.
"""

import os
import sys

if "several" not in sys.argv and "worker" not in sys.argv:  # a worker's threads are set by who starts it
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from reticent.encoders import minilm
from reticent.encoders.devices import computes_in_bf16
from reticent.encoders.text import load_model
from reticent.numerics.threads import wait_passively

TEXTS, FEW, ROUNDS = 1000, 200, 3
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


@dataclass(frozen=True, kw_only=True)
class Way:
    """How texts are encoded in processes of their own.

    Args:
        peer: Plain batches, or which backend of `minilm`.
        threads: Of each process.
        processes: Each has its share of the texts.
        spins: Whether threads wait for each other as torch has them by default, not as reticent does.
    """

    peer: Literal["plain", "torch", "onnxruntime"]
    threads: int
    processes: int = 1
    spins: bool = False

    def __str__(self) -> str:
        name = {"plain": "plain batches", "torch": "minilm()", "onnxruntime": "minilm, onnxruntime"}[self.peer]
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        processes = f"{self.processes} processes of " * (self.processes > 1)
        return f"{name}, {processes}{threads}{' that spin' * self.spins}"


def ways(cores: int) -> list[Way]:
    """Returns the lines of the second table."""
    return [
        Way(peer="plain", threads=1),
        Way(peer="plain", threads=cores, spins=True),
        Way(peer="plain", threads=cores),
        Way(peer="torch", threads=1),
        Way(peer="torch", threads=cores),
        Way(peer="torch", threads=1, processes=cores),
        Way(peer="onnxruntime", threads=cores),
        Way(peer="onnxruntime", threads=1, processes=cores),
    ]


class Workers:
    """The processes of one way: they load and probe once, then encode their shares whenever they are asked."""

    def __init__(self, way: Way) -> None:
        waiting = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")  # else a user's would count
        env = {name: value for name, value in os.environ.items() if name not in waiting}
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(way.threads))
        words = [sys.executable, __file__, "worker", way.peer, str(int(way.spins)), str(way.processes)]
        self._started = [
            subprocess.Popen([*words, str(share)], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
            for share in range(way.processes)
        ]

    def answers(self) -> list[float]:
        """Returns what each process says next."""
        lines = [process.stdout.readline() for process in self._started if process.stdout]
        if not all(lines):
            raise SystemExit("A process that encodes has ended: its last words are above.")
        return [float(line) for line in lines]

    def run(self) -> tuple[float, float]:
        """Encodes all texts once; returns seconds, and the processor seconds of the busiest process."""
        start = time.perf_counter()
        for process in self._started:
            if process.stdin:
                process.stdin.write("again\n")
                process.stdin.flush()
        busiest = max(self.answers())
        return time.perf_counter() - start, busiest

    def end(self) -> None:
        """Ends the processes."""
        for process in self._started:
            process.kill()
            process.wait()


def worker(peer: str, spins: bool, processes: int, share: int) -> None:
    """Encodes a share of the texts for every line that it is given, and says how many processor seconds that took."""
    if spins:
        import torch  # noqa: F401  # before reticent would ask its threads to sleep
    else:
        wait_passively()
    texts = descriptions(FEW)[share::processes]
    encoder = minilm(backend="onnxruntime") if peer == "onnxruntime" else minilm()
    run = sorted_batches(texts) if peer == "plain" else lambda: encoder(texts)
    run()
    print(0, flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        run()
        print(time.process_time() - start, flush=True)


def several(cores: int) -> None:
    """Prints the second table: as the machine is, then beside a process that holds a core."""
    started: dict[Way, Workers] = {}
    columns: list[dict[Way, tuple[float, float]]] = []
    load = os.getloadavg()[0]
    try:
        for way in ways(cores):
            started[way] = Workers(way)
            started[way].answers()  # they are ready
        columns.append(_medians(started))
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            columns.append(_medians(started))
        finally:
            busy.kill()
            busy.wait()
    finally:
        for some in started.values():
            some.end()
    print(f"{FEW} texts, {cores} cores; load before it: {load:.1f} (0 is an idle machine)\n")
    print("| | seconds | beside a busy process | processor s | beside |\n|---|---|---|---|---|")
    for way in started:
        (alone, alone_used), (beside, beside_used) = (column[way] for column in columns)
        print(f"| {way} | {alone:.2f} | {beside:.2f} | {alone_used:.2f} | {beside_used:.2f} |")


def _medians(started: dict[Way, Workers]) -> dict[Way, tuple[float, float]]:
    rounds = [{way: workers.run() for way, workers in started.items()} for _ in range(ROUNDS)]
    return {
        way: (statistics.median(r[way][0] for r in rounds), statistics.median(r[way][1] for r in rounds))
        for way in started
    }


def main(words: Sequence[str]) -> None:
    """Prints tables, or is one of the processes that they are about."""
    if words[:1] == ["worker"]:
        peer, spins, processes, share = words[1:]
        worker(peer, spins == "1", int(processes), int(share))
        return
    if words not in ([], ["one-thread"], ["several"]):
        raise SystemExit("Expected nothing, one-thread or several.")
    if words != ["several"]:
        print("| one thread, processor time | over plain |\n|---|---|")
        for name, ratio in one_thread().items():
            print(f"| {name} | {ratio:.2f} |", flush=True)
        print()
    if words != ["one-thread"]:
        several(os.cpu_count() or 1)


if __name__ == "__main__":
    main(sys.argv[1:])
