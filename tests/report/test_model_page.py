from typing import Any

import numpy as np

import reticent as rt
from reticent.gate.noise import NoiseSource
from reticent.report.model_page import model_page


def trained(**settings: Any) -> rt.ContinualClassifier:
    model = rt.ContinualClassifier(budget=rt.Budget(epsilon=4.0, delta=1e-5), **settings)
    for month in ("march", "april <b>"):
        model.learn_task(np.repeat(np.eye(3), 400, axis=0), np.repeat(["rare-a", "rare-b", "rare-c"], 400), name=month)
    return model


def test_model_page_shows_releases_and_ledger():
    model = trained()
    text = model_page(model, title="A & B")
    assert "<h1>A &amp; B</h1>" in text
    assert "2 releases; 3 labels known" in text
    assert "april &lt;b&gt;" in text
    assert "joint Gaussian (noise multiplier" in text
    assert "Privacy statement" in text
    assert " × 3" in text
    assert "NOT PRIVATE" not in text
    assert "<script" not in text


def test_model_page_names_no_label():
    assert "rare-" not in model_page(trained())


def test_public_labels_are_known_from_the_start():
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=1.0, delta=1e-5))
    model.learn_task(np.eye(2), ["a", "b"], name="first")
    model.extend_labels(["c"])
    text = model_page(model)
    assert '<td>first</td><td class="number">2</td>' in text
    assert '<td>public labels</td><td class="number">3</td>' in text


def test_seeded_noise_is_named():
    text = model_page(trained(noise=NoiseSource.seeded(1)))
    assert text.count("NOT PRIVATE") >= 5  # the warning, two releases, two spends


def test_a_statement_read_elsewhere_is_used(tmp_path):
    trained(path=tmp_path / "model")
    model = rt.load(tmp_path / "model")
    from reticent.gate.ledger import Ledger

    with Ledger.open(tmp_path / "model", read_only=True) as ledger:
        statement = ledger.statement()
    assert "2 releases" in model_page(model, statement=statement)
    assert not hasattr(model, "_ledger")


def test_page_looks_right_in_a_browser(tab, tmp_path):
    file = tmp_path / "model.html"
    file.write_text(model_page(trained()), encoding="utf-8")
    tab.screen(width=400, dark=True)
    tab.open(file)
    assert tab.said == []
    assert tab.run("document.documentElement.scrollWidth") <= 400
