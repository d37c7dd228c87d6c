"""What it costs that features depend on the example alone, and what wins it back, measured in one run.

    python benchmarks/encoding.py                # two Markdown tables; five minutes of processor time
    python benchmarks/encoding.py one-thread     # the first alone; or: several

Texts are public: descriptions of diagnoses (ICD-10-CM), and texts of 20 to 200 words that are made of them. All peers
have the same weights and tokenizer, and take turns. Plain batches are sorted by length and filled up to the longest of
each: bits of their features depend on other rows.
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
from reticent.numerics.threads import wait_passively

TEXTS, FEW, ROUNDS = 1000, 200, 3
Peers = dict[str, Callable[[], Any]]


def descriptions(n: int) -> list[str]:
    """Returns public texts of a realistic mix of lengths: 4 to 48 tokens, 18 on average."""
    import simple_icd_10_cm as icd

    codes = [code for code in icd.get_all_codes() if icd.is_leaf(code)]
    return [icd.get_description(code) for code in np.random.default_rng(0).choice(codes, size=n, replace=False)]


def long_texts(n: int) -> list[str]:
    """Returns public texts of 20 to 200 words, some of which are cut at 256 tokens."""
    draw = np.random.default_rng(1)
    words = " ".join(descriptions(40 * n)).split()
    starts, sizes = draw.integers(0, len(words) - 200, size=n), draw.integers(20, 201, size=n)
    return [" ".join(words[start : start + size]) for start, size in zip(starts, sizes, strict=True)]


def by_torch(texts: Sequence[str]) -> Callable[[], Any]:
    """Plain batches in torch."""
    import torch

    model = minilm(backend="torch").load().module

    def embed(ids: Any, mask: Any) -> Any:
        with torch.inference_mode():
            found = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).last_hidden_state
            shown = torch.from_numpy(mask).unsqueeze(-1).float()
            return ((found * shown).sum(1) / shown.sum(1)).numpy()

    return sorted_batches(texts, embed)


def by_onnxruntime(texts: Sequence[str]) -> Callable[[], Any]:
    """Plain batches in onnxruntime, of our graph."""
    forward = minilm().load().forward
    return sorted_batches(texts, lambda ids, mask: forward((ids, mask)))


def sorted_batches(texts: Sequence[str], embed: Callable[[Any, Any], Any], rows: int = 32) -> Callable[[], Any]:
    """Plain batching: sorted by length, padded to the longest of each batch, so that bits depend on other rows."""
    from tokenizers import Tokenizer

    from reticent.encoders.all_minilm import file

    tokenizer = Tokenizer.from_file(str(file("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def encode() -> Any:
        found = [one.ids for one in tokenizer.encode_batch(list(texts))]
        order = np.argsort([-len(one) for one in found])
        features = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(order), rows):
            part = order[start : start + rows]
            ids, mask = np.zeros((2, len(part), len(found[part[0]])), np.int64)
            for row, i in enumerate(part):
                ids[row, : len(found[i])], mask[row, : len(found[i])] = found[i], 1
            features[part] = embed(ids, mask)
        return features

    return encode


def played(peers: Peers, clock: Callable[[], float]) -> dict[str, float]:
    """Returns each peer's time over the first one's."""
    times: dict[str, list[float]] = {name: [] for name in peers}
    for run in peers.values():
        for _ in range(3):  # small batches are probed when they are asked for the third time
            run()
    for _ in range(ROUNDS):
        for name, run in peers.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    first = times[next(iter(peers))]
    return {name: statistics.median(a / b for a, b in zip(some, first, strict=True)) for name, some in times.items()}


def one_thread(texts: Sequence[str]) -> dict[str, float]:
    """Processor time of the same texts, over plain batches in torch."""
    usual, trained = minilm(), minilm(backend="torch")
    return played(
        {
            "plain sorted batches, torch": by_torch(texts),
            "plain sorted batches, onnxruntime": by_onnxruntime(texts),
            "minilm()": lambda: usual(texts),
            'minilm(backend="torch")': lambda: trained(texts),
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
        name = {"plain": "plain batches", "torch": 'minilm(backend="torch")', "onnxruntime": "minilm()"}[self.peer]
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        processes = f"{self.processes} processes of " * (self.processes > 1)
        return f"{name}, {processes}{threads}{' that spin' * self.spins}"


def ways(cores: int) -> list[Way]:
    """Returns the lines of the second table."""
    return [
        Way(peer="plain", threads=1),
        Way(peer="plain", threads=cores, spins=True),
        Way(peer="plain", threads=cores),
        Way(peer="torch", threads=cores),
        Way(peer="onnxruntime", threads=1),
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
    encoder = minilm(backend="torch" if peer == "plain" else peer)
    run = by_torch(texts) if peer == "plain" else lambda: encoder(texts)
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
        print("| one thread, processor time over plain | short texts | long texts |\n|---|---|---|")
        short, long = one_thread(descriptions(TEXTS)), one_thread(long_texts(FEW))
        for name, ratio in short.items():
            print(f"| {name} | {ratio:.2f} | {long[name]:.2f} |", flush=True)
        print()
    if words != ["one-thread"]:
        several(os.cpu_count() or 1)


if __name__ == "__main__":
    main(sys.argv[1:])
