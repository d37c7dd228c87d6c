"""Export and serve, as a user meets them."""

import json
import socket

import numpy as np
import pytest

import reticent as rt
from tests.cli.command import refused, reticent

pytest.importorskip("onnx", reason="reticent[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="reticent[onnx]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shipping") / "model"
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=20.0, delta=1e-5), path=path
    )
    model.learn_task(np.repeat(np.eye(2, 4), 200, axis=0), ["a"] * 200 + ["b"] * 200, name="march")
    return path


def test_export_writes_a_scorer_that_answers_as_the_model(folder, tmp_path):
    done = reticent("export", folder, "--onnx", tmp_path / "scorer.onnx")
    assert done.returncode == 0, done.stderr
    assert "the same labels in onnxruntime" in done.stdout
    session = onnxruntime.InferenceSession(tmp_path / "scorer.onnx", providers=["CPUExecutionProvider"])
    features = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    assert session.run(["label"], {"features": features})[0].tolist() == rt.load(folder).predict(features).tolist()
    assert json.loads(session.get_modelmeta().custom_metadata_map["labels"]) == ["a", "b"]


def test_export_names_the_file_after_the_model(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = reticent("export", folder, "--onnx")
    assert done.returncode == 0, done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_export_refuses_in_one_line(folder, tmp_path):
    assert "the only format there is" in refused(reticent("export", folder, tmp_path / "scorer.pmml"))
    assert "belongs to a model" in refused(reticent("export", folder, "--onnx", folder / "manifest.json"))
    wanted = ["--onnx", tmp_path / "a.onnx", "--encoder-onnx", tmp_path / "b.onnx"]
    assert "has no encoder" in refused(reticent("export", folder, *wanted))
    assert "No model at" in refused(reticent("export", tmp_path, "--onnx", tmp_path / "a.onnx"))
    assert list(tmp_path.iterdir()) == []


def test_serve_refuses_in_one_line(folder, tmp_path):
    assert "Expected port" in refused(reticent("serve", folder, "--port", 0))
    assert "Expected rows" in refused(reticent("serve", folder, "--rows", 0))
    assert "Expected seconds" in refused(reticent("serve", folder, "--seconds", -1))
    assert "No model at" in refused(reticent("serve", tmp_path))


def test_a_port_that_is_taken_is_refused(folder):
    pytest.importorskip("uvicorn", reason="reticent[serve]")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = reticent("serve", folder, "--port", taken.getsockname()[1])
    assert done.returncode == 2
    assert "Choose another with --port." in done.stderr
