import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np

import reticent as rt
from reticent.gate.noise import NoiseSource
from reticent.privacy import events
from reticent.privacy.statement import UNCOVERED, Act, Spend, Statement
from reticent.report.model_page import model_page

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)


def trained(**settings: Any) -> rt.ContinualClassifier:
    model = rt.ContinualClassifier(budget=rt.Budget(epsilon=4.0, delta=1e-5), **settings)
    for month in ("march", "april <b>"):
        model.learn_task(np.repeat(np.eye(3), 400, axis=0), np.repeat(["rare-a", "rare-b", "rare-c"], 400), name=month)
    return model


def page_of(model: rt.ContinualClassifier, title: str = "A model") -> str:
    return model_page(title, releases=model.releases, known=model.classes_.tolist(), statement=model.statement())


def test_model_page_shows_releases_and_ledger():
    text = page_of(trained(), "A & B")
    assert "<h1>A &amp; B</h1>" in text
    assert "2 release(s); 3 label(s) known" in text
    assert "april &lt;b&gt;" in text
    assert "labels and sums, noise" in text
    assert "Privacy statement" in text
    assert " × 3" in text
    assert "NOT PRIVATE" not in text
    assert "<script" not in text


def test_model_page_names_no_label():
    assert "rare-" not in page_of(trained())


def test_public_labels_are_known_from_the_start():
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=1.0, delta=1e-5))
    model.learn_task(np.eye(2), ["a", "b"], name="first")
    model.extend_labels(["c"])
    text = page_of(model)
    assert re.search(r"first</td><td[^>]*>2</td>", text)
    assert re.search(r"public labels</td><td[^>]*>3</td>", text)


def test_model_page_marks_seeded_noise():
    text = page_of(trained(noise=NoiseSource.seeded(1)))
    assert text.count("NOT PRIVATE") >= 5  # the warning, two releases, two spends
    assert "What one person has lost has no bound." in text
    assert "What each spend costs" not in text


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_model_page_loads_no_package_that_holds_data():
    """Beyond what the package itself loads."""
    more = loaded_by("reticent.report.model_page") - loaded_by("reticent")
    assert "reticent.report.model_page" in more
    assert not {name.split(".")[1] for name in more if name.startswith("reticent.")} & {"lab", "gate", "sensitive"}


def test_model_page_begins_with_what_is_claimed_and_under_which_condition():
    model = trained()
    body = page_of(model).split("</h1>")[1].lstrip()
    assert body.startswith('<p class="takeaway">Epsilon ')
    assert body.index(f"if {model.statement().condition}.") < body.index("</p>")
    for fact in ("Model id (ledger)", "Last hash of the ledger", "Written by"):
        assert f"<dt>{fact}</dt>" in body


def test_figures_of_a_model_show_labels_and_prices_beside_the_budget():
    text = page_of(trained())
    labels, prices = re.findall(r"<figure.*?</figure>", text, flags=re.DOTALL)
    assert "labels known against after release" in labels
    assert "labels known, after march: 3" in labels
    assert "epsilon of a spend alone against spend" in prices
    assert "budget: epsilon 4" in prices
    assert text.count("<figure") == 2
    assert "<figure" not in model_page("A model", releases=[], known=[], statement=Statement(budget=BUDGET, spends=()))


def test_page_looks_right_in_a_browser(tab, tmp_path):
    file = tmp_path / "model.html"
    file.write_text(page_of(trained()), encoding="utf-8")
    for dark in (False, True):
        tab.screen(width=375, dark=dark)
        tab.open(file)
        assert tab.said == []
        assert tab.run("document.documentElement.scrollWidth") <= 375


def test_hostile_names_are_shown_escaped():
    """A ledger and its releases may come from somebody else, or from a version that took any name."""
    name = "<script>x</script>\x1b[2J\u202e\udce9\n<b onclick='x'>\"*a*"
    model, event = trained(), events.Gaussian(noise_multiplier=8.0)
    spend = Spend(row=2, at=name, task=name, event=event, private=True, voided=name)
    statement = Statement(budget=BUDGET, spends=(spend,), acts=(Act(row=3, at="", text=f"{UNCOVERED} {name}"),))
    text = model_page(
        name, releases=[replace(model.releases[0], task=name)], known=[name, ("a", name)], statement=statement
    )
    assert "<script" not in text
    assert "<b " not in text
    body = text.split("</head>")[1].split("</h1>")[1]
    assert all(c.isprintable() or c == "\n" for c in body)
    body.encode()
