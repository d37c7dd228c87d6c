"""How much a service costs: requests over HTTP against the same predictions without one, as ratios of one run.

Starts `reticent serve` on this machine with a model of 384 features and 150 labels, and sends it a bounded number of
requests from a few threads. `python benchmarks/serving_speed.py`; under a minute on one core.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

import reticent as rt

WIDTH, LABELS, EACH = 384, 150, 40
REQUESTS = {1: 400, 100: 60, 1000: 6}  # inputs of a request: how many requests
CLIENTS = 4


def model(folder: Path) -> rt.ContinualClassifier:
    """A model of features with as many labels as CLINC150."""
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(LABELS, WIDTH))
    x = np.repeat(centres, EACH, axis=0) + draw.normal(size=(LABELS * EACH, WIDTH))
    made = rt.ContinualClassifier(
        labels=rt.PublicLabels([f"label {i}" for i in range(LABELS)]),
        budget=rt.Budget(epsilon=8.0, delta=1e-5),
        path=folder,
    )
    return made.learn_task(x, [f"label {i // EACH}" for i in range(LABELS * EACH)], name="march")


class Service:
    """`reticent serve` in a process of its own, on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-c", "from reticent.cli import main; main()", "serve", folder, "--port", self.port]
        command += ["--body", 1 << 24]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)  # noqa: S603 (our own)

    def ready(self) -> None:
        """Waits until it answers."""
        for _ in range(600):
            try:
                self.ask(http.client.HTTPConnection("127.0.0.1", self.port), "GET", "/health", None)
                return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("The service did not start.")

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: str | None) -> Any:
        """Sends one request, and refuses anything but an answer."""
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        content = json.loads(answer.read())
        assert answer.status == 200, content
        return content


def seconds_of(act: Callable[[], object], times: int) -> float:
    """Returns the median time of an act."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        found.append(time.perf_counter() - began)
    return float(np.median(found))


def over_http(service: Service, body: str, requests: int) -> tuple[float, list[float], list[str]]:
    """Returns seconds of all requests by `CLIENTS` threads, seconds of each, and the labels of the last."""
    each: list[float] = []
    last: list[str] = []
    left, lock = list(range(requests)), threading.Lock()

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", service.port)
        while True:
            with lock:
                if not left:
                    return
                left.pop()
            began = time.perf_counter()
            answer = service.ask(connection, "POST", "/predict", body)["labels"]
            each.append(time.perf_counter() - began)
            last[:] = answer

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began, each, last


def main() -> None:
    """Prints one line for each size of request."""
    with tempfile.TemporaryDirectory() as name:
        made = model(Path(name, "model"))
        service = Service(Path(name, "model"))
        try:
            service.ready()
            print("inputs  HTTP / same JSON in process  HTTP / same array in process  99 % / median")
            for inputs, requests in REQUESTS.items():
                rows = np.random.default_rng(inputs).normal(size=(inputs, WIDTH))
                body = json.dumps({"inputs": rows.tolist()})
                expected = made.predict(rows).tolist()
                array = seconds_of(lambda rows=rows: made.predict(rows), requests)  # type: ignore[misc]
                text = seconds_of(lambda body=body: made.predict(json.loads(body)["inputs"]), requests)  # type: ignore[misc]
                seconds, each, found = over_http(service, body, requests)
                assert found == expected, "the service answers otherwise than the model"
                tail = float(np.quantile(each, 0.99) / np.median(each))
                one = seconds / requests
                print(f"{inputs:6}  {one / text:27.1f}  {one / array:28.1f}  {tail:13.1f}")
        finally:
            service.process.terminate()
            service.process.wait()


if __name__ == "__main__":
    main()
