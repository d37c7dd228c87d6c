"""The service: what it answers, what it refuses, and what it never loads, opens, keeps or repeats."""

import base64
import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors, serving
from reticent.encoders.encoder import Backend, Encoder
from tests.test_boundary import TREE

pytest.importorskip("starlette", reason="reticent[serve]")
testclient = pytest.importorskip("starlette.testclient", reason="needs httpx2")

NOTE = "Erika Mustermann, HIV positive"
LABELS = ["a", "b"]


def learned(path=None, **settings) -> rt.ContinualClassifier:
    made = rt.ContinualClassifier(
        labels=rt.PublicLabels(LABELS), budget=rt.Budget(epsilon=20.0, delta=1e-5), path=path, **settings
    )
    return made.learn_task(np.repeat(np.eye(2, 4), 200, axis=0), ["a"] * 200 + ["b"] * 200, name="march")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    learned(folder := tmp_path_factory.mktemp("served") / "model")
    return rt.load(folder)


@pytest.fixture(scope="module")
def client(model):
    return testclient.TestClient(serving.app(model))


def asked(client: Any, content: Any, **headers: str) -> Any:
    return client.post("/predict", content=content, headers={"content-type": "application/json"} | headers)


def test_it_predicts_as_the_model_does(client, model):
    features = np.concatenate([np.eye(4)[:2], np.random.default_rng(1).normal(size=(20, 4))])
    answer = client.post("/predict", json={"inputs": features.tolist()})
    assert answer.status_code == 200
    assert answer.json() == {"labels": model.predict(features).tolist()}
    answer = client.post("/predict", json={"inputs": features.tolist(), "top": 2})
    assert answer.json() == {"labels": model.predict_top_k(features, 2).tolist()}
    assert client.post("/predict", json={"inputs": []}).json() == {"labels": []}


def test_it_says_how_sure_it_is(client, model):
    features = np.concatenate([np.eye(4)[:2], np.zeros((1, 4))])
    labels, chances = model.top_k_proba(features, 2)
    answer = client.post("/predict", json={"inputs": features.tolist(), "top": 2, "proba": True}).json()
    assert answer["labels"] == labels.tolist()
    np.testing.assert_allclose(answer["probabilities"][:2], chances[:2])
    assert all(value is None or np.isfinite(value) for row in answer["probabilities"] for value in row)
    answer = client.post("/predict", json={"inputs": features.tolist(), "proba": True}).json()
    np.testing.assert_allclose(answer["probabilities"][:2], chances[:2, 0])
    assert client.post("/predict", json={"inputs": [], "proba": True}).json() == {"labels": [], "probabilities": []}
    assert client.post("/predict", json={"inputs": [], "proba": 1}).status_code == 400


def test_it_says_what_it_is(client, model):
    about = client.get("/health").json()
    assert about == {"status": "ok", "version": rt.__version__, "tasks": 1, "labels": 2, "private": True}
    assert client.get("/labels").json() == {"total": 2, "start": 0, "labels": LABELS}
    assert client.get("/labels?start=1&count=5").json() == {"total": 2, "start": 1, "labels": ["b"]}
    assert client.get("/statement").json() == model.statement().json()
    assert client.get("/health").headers["cache-control"] == "no-store"


def test_what_cannot_be_scored_is_unknown_over_http(client):
    content = '{"inputs": [[1, 0, 0, 0], [NaN, 0, 0, 0], [null, 1, 1, 1], [0, 0, 0, 0], [1e999, 1, 1, 1]]}'
    assert asked(client, content).json() == {"labels": ["a", *[rt.UNKNOWN] * 4]}


BAD = {
    "no JSON": (f'{{"inputs": ["{NOTE}"', 400),
    "not UTF-8": (b'{"inputs": ["\xff' + NOTE.encode(), 400),
    "nested": ("[" * 200_000, 400),
    "long number": (f'{{"inputs": [{"1" * 5000}]}}', 400),
    "no object": (f'["{NOTE}"]', 400),
    "no list": (json.dumps({"inputs": NOTE}), 400),
    "another key": (json.dumps({"inputs": [], NOTE: 1}), 400),
    "texts": (json.dumps({"inputs": [NOTE]}), 422),
    "texts in rows": (json.dumps({"inputs": [[NOTE, 1, 2, 3]]}), 422),
    "other widths": (json.dumps({"inputs": [[4711.0815] * 3]}), 422),
    "rows of several lengths": (json.dumps({"inputs": [[4711.0815] * 4, [1.0]]}), 422),
    "top": (json.dumps({"inputs": [[1, 0, 0, 0]], "top": NOTE}), 422),
    "top of truth": (json.dumps({"inputs": [[1, 0, 0, 0]], "top": True}), 422),
    "large top": (json.dumps({"inputs": [[1, 0, 0, 0]], "top": 10**6}), 422),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_repeat_nothing_of_a_request(client, case, caplog, capfd):
    content, status = BAD[case]
    with caplog.at_level(logging.DEBUG):
        answer = asked(client, content)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert len(answer.text) < 200
    told = answer.text + caplog.text + "".join(capfd.readouterr())
    assert not any(part in told for part in ("Erika", "HIV", "4711", "0815", "11111"))


def test_what_a_library_says_of_an_input_is_not_repeated(model, monkeypatch, caplog, capfd):
    def broken(*_):
        raise RuntimeError(f"cannot read {NOTE}")

    client = testclient.TestClient(serving.app(model))
    monkeypatch.setattr(type(model), "predict_top_k", broken)
    answer = client.post("/predict", json={"inputs": [[1, 0, 0, 0]]})
    assert (answer.status_code, answer.json()) == (500, {"error": "This request cannot be answered."})
    assert "Erika" not in caplog.text + "".join(capfd.readouterr())


def test_other_requests_are_refused_in_a_sentence(client):
    for answer, status in (
        (client.get("/predict"), 405),
        (client.post("/labels"), 405),
        (client.get("/../ledger.sqlite"), 404),
        (client.get("/docs"), 404),
        (client.post("/predict", content="{}", headers={"content-type": "text/plain"}), 415),
        (client.get("/labels?start=-1"), 422),
        (client.get(f"/labels?count={'9' * 400}"), 422),
    ):
        assert answer.status_code == status
        assert answer.json()["error"].endswith(".")


def test_limits_are_kept(model):
    client = testclient.TestClient(serving.app(model, limits=serving.Limits(body=200, rows=3, top=2)))
    assert client.post("/predict", json={"inputs": [[1, 0, 0, 0]] * 3}).status_code == 200
    assert client.post("/predict", json={"inputs": [[1, 0, 0, 0]] * 4}).status_code == 413
    assert client.post("/predict", json={"inputs": [[1, 0, 0, 0]], "top": 3}).status_code == 422
    sent = []

    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            sent.append(1)
            yield b" " * 100

    assert asked(client, endless()).status_code == 413
    for wrong in ({"body": 0}, {"rows": -1}, {"seconds": 0}, {"waiting": True}):
        with pytest.raises(errors.ReticentError):
            serving.Limits(**wrong)


def test_answers_that_take_too_long_are_given_up_and_no_more_wait_than_allowed(model, monkeypatch):
    leave = threading.Event()

    def slow(self, inputs, top):
        leave.wait(20)
        return np.full((len(inputs), top), "a", dtype=object)

    monkeypatch.setattr(type(model), "predict_top_k", slow)
    client = testclient.TestClient(serving.app(model, limits=serving.Limits(seconds=0.2, waiting=1)))
    try:
        began = time.monotonic()
        given_up = client.post("/predict", json={"inputs": [[1, 0, 0, 0]]})
        assert time.monotonic() - began < 15
        assert (given_up.status_code, given_up.json()["error"]) == (503, "The answer took too long. Send fewer inputs.")
        refused = client.post("/predict", json={"inputs": [[1, 0, 0, 0]]})
        assert refused.json()["error"].startswith("Too many requests")  # the first one still runs
        assert client.get("/health").status_code == 200
    finally:
        leave.set()


def picture(colour: tuple[int, int, int]) -> str:
    image = pytest.importorskip("PIL.Image", reason="reticent[vision]")
    stream = io.BytesIO()
    image.new("RGB", (4, 4), colour).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


def of_images() -> Encoder:
    """Features are the colour of the first pixel and a one, for images of a file or in memory."""
    from reticent.encoders import images

    def prepare(examples):
        found = map(images.read, examples)
        return [None if i is None else (np.array([*i.getpixel((0, 0)), 1], np.float32),) for i in found]

    probe = np.zeros((2, 2, 3), np.uint8)
    backend = Backend(prepare=prepare, forward=lambda item: item[0], rows=lambda _: 1, width=4, probe=probe)
    return Encoder(name="colours", load=lambda: backend, fingerprint=lambda: "0" * 64, images=True)


def test_no_text_names_a_file_of_the_server(tmp_path):
    model = learned(encoder=None)
    model.encoder = of_images()
    (tmp_path / "secret.png").write_bytes(base64.b64decode(picture((255, 0, 0))))
    assert model.predict([str(tmp_path / "secret.png")]).tolist() == ["a"]  # the library reads a path
    client = testclient.TestClient(serving.app(model))
    inputs = [picture((255, 0, 0)), picture((0, 255, 0)), str(tmp_path / "secret.png"), "x", 7, None]
    assert client.post("/predict", json={"inputs": inputs}).json() == {"labels": ["a", "b", *[rt.UNKNOWN] * 4]}


def test_columns_have_the_names_and_order_of_the_first_task():
    frames = pytest.importorskip("pandas", reason="frames have names of columns")
    model = rt.ContinualClassifier(labels=rt.PublicLabels(LABELS), budget=rt.Budget(epsilon=20.0, delta=1e-5))
    x = frames.DataFrame(np.repeat(np.eye(2, 3), 200, axis=0), columns=["age", "weight", "height"])
    model.learn_task(x, ["a"] * 200 + ["b"] * 200, name="march")
    client = testclient.TestClient(serving.app(model))
    assert client.get("/health").json()["columns"] == ["age", "weight", "height"]
    rows = [{"weight": 0, "height": 0, "age": 1}, {"height": 0, "age": 0, "weight": 1}]
    assert client.post("/predict", json={"inputs": rows}).json() == {"labels": ["a", "b"]}
    for other in ({"age": 1, "weight": 0}, {"age": 1, "weight": 0, "size": 0}, {"a": 1, "age": 1, "weight": 0}):
        answer = client.post("/predict", json={"inputs": [*rows, other]})
        assert (answer.status_code, answer.json()["error"][:20]) == (422, "Expected the columns")


def test_a_model_that_has_learned_nothing_is_not_served(tmp_path):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(LABELS), budget=rt.Budget(epsilon=20.0, delta=1e-5))
    with pytest.raises(errors.InvalidValue, match="learned nothing yet"):
        serving.app(model)


def test_a_model_without_its_ledger_is_served_without_a_statement(tmp_path):
    learned(tmp_path / "model")
    (tmp_path / "model" / "ledger.sqlite").unlink()
    client = testclient.TestClient(serving.app(rt.load(tmp_path / "model")))
    assert client.post("/predict", json={"inputs": [[1, 0, 0, 0]]}).json() == {"labels": ["a"]}
    answer = client.get("/statement")
    assert answer.status_code == 404
    assert str(tmp_path) not in answer.text


def test_labels_of_any_kind_are_served():
    labels = [1, 2.5, float("inf"), ("a", 3)]
    model = rt.ContinualClassifier(labels=rt.PublicLabels(labels), budget=rt.Budget(epsilon=20.0, delta=1e-5))
    model.learn_task(np.repeat(np.eye(4), 100, axis=0), [label for label in labels for _ in range(100)], name="march")
    client = testclient.TestClient(serving.app(model))
    assert client.get("/labels").json()["labels"] == [1, 2.5, "inf", ["a", 3]]
    answer = client.post("/predict", json={"inputs": np.eye(4).tolist()})
    assert answer.json() == {"labels": [1, 2.5, "inf", ["a", 3]]}


SERVED = """
import json, socket, sys, threading, time, urllib.request
from reticent import cli

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
place = f"http://127.0.0.1:{port}"

def ask():
    for _ in range(600):
        try:
            urllib.request.urlopen(place + "/health")
            break
        except OSError:
            time.sleep(0.1)
    body = json.dumps({"inputs": [[1, 0, 0, 0], [0, 1, 0, 0]]}).encode()
    sent = urllib.request.Request(place + "/predict", body, {"content-type": "application/json"})
    answers = [json.load(urllib.request.urlopen(sent)), json.load(urllib.request.urlopen(place + "/statement"))]
    print(json.dumps([answers[0]["labels"], answers[1]["private"], sorted(sys.modules)]), flush=True)
    import os, signal
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=ask).start()
sys.argv = ["reticent", "serve", sys.argv[1], "--port", str(port)]
cli.main()
"""


@pytest.mark.posix
def test_serving_loads_nothing_that_reads_private_data(model, tmp_path):
    """The command itself, over a real socket of this machine."""
    pytest.importorskip("uvicorn", reason="reticent[serve]")
    done = subprocess.run(
        [sys.executable, "-c", SERVED, str(model.path)], capture_output=True, text=True, timeout=120, env=os.environ
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert told, done.stderr[-2000:]
    labels, private, loaded = json.loads(told[0])
    assert (labels, private) == (["a", "b"], True)
    assert "reticent.serving" in loaded
    assert {TREE.room(name) for name in set(loaded) & set(TREE.files)} & {"gate", "sensitive", "lab"} == set()
    assert not {"numba", "pyarrow.parquet", "cryptography"} & set(loaded)
