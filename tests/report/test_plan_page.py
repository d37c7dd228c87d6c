"""The page for planning: its script computes what Python computes, and fetches nothing."""

import dataclasses
import re
import shutil
import subprocess

import pytest

from reticent import Budget
from reticent.errors import InvalidValue
from reticent.report import page, plan_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FIRST = Budget(epsilon=1.0, delta=1e-5)


def numbers(text: str) -> dict[str, str]:
    found = dict(re.findall(r'<dd id="([a-z-]+)">([^<]*)</dd>', text))
    found["command"] = text.split('id="command">')[1].split("<")[0]
    return {name: value.replace("&lt;", "<").replace("&gt;", ">") for name, value in found.items()}


def in_browser(tmp_path, asked: str = "") -> str:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to run the page in")
    file = tmp_path / "plan.html"
    file.write_text(plan_page.plan_page(FIRST, size=100, tasks=12), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    words = [CHROMIUM, *flags, "--virtual-time-budget=9000", "--dump-dom", f"file://{file}#{asked}"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize(
    ("budget", "size", "tasks", "persons", "like"),
    [
        (FIRST, 40, 12, 10_000, "clinc150"),
        (Budget(epsilon=0.07, delta=3e-11, tasks_per_person=7), 3_000, 60, 2_000_000, "icd10cm-blocks"),
        (Budget(epsilon=12.5, delta=1e-6, tasks_per_person=2), 9, 2, 500, "cifar100-features"),
    ],
    ids=["one task", "seven tasks, little budget", "large budget"],
)
def test_the_page_computes_what_python_computes(tmp_path, budget, size, tasks, persons, like):
    asked = f"epsilon={budget.epsilon}&delta={budget.delta}&size={size}&tasks={tasks}&persons={persons}"
    shown = in_browser(tmp_path, f"{asked}&each={budget.tasks_per_person}&like={like}")
    expected = plan_page.answers(budget, size=size, tasks=tasks, persons=persons, like=like)
    assert numbers(shown) == expected
    assert expected != plan_page.answers(FIRST, size=100, tasks=12, persons=10_000, like="clinc150")
    assert 'id="release-line" class="line s0" d="M50' in shown
    assert ' d=""' not in shown


def test_a_page_with_another_formula_would_be_noticed(tmp_path, monkeypatch):
    """The broken twin: a script that forgets the square root over tasks."""
    whole = page.page
    monkeypatch.setattr(
        page,
        "page",
        lambda *parts, script, style: whole(*parts, script=script.replace("Math.sqrt(each)", "each"), style=style),
    )
    shown = numbers(in_browser(tmp_path, "epsilon=1&delta=1e-5&size=40&tasks=12&each=4"))
    budget = dataclasses.replace(FIRST, tasks_per_person=4)
    true = plan_page.answers(budget, size=40, tasks=12, persons=10_000, like="clinc150")
    assert shown["public-noise"] != true["public-noise"]
    assert shown["exposed"] == true["exposed"]


def test_the_plan_page_fetches_nothing():
    text = plan_page.plan_page(FIRST, size=100, tasks=12)
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" in text
    assert not re.search(r"""(src|href)=|url\(|https?:|import\s|fetch\(|XMLHttp|WebSocket""", text)
    assert text.count("<script>") == 1


def test_the_page_is_right_without_its_script():
    budget = Budget(epsilon=2.0, delta=1e-6, tasks_per_person=3)
    text = plan_page.plan_page(budget, size=70, tasks=5, persons=300, like="cifar100-features")
    assert numbers(text) == plan_page.answers(budget, size=70, tasks=5, persons=300, like="cifar100-features")
    assert "The sliders need JavaScript" in text


@pytest.mark.parametrize(
    ("change", "size", "sentence"),
    [
        ({"examples_per_person": 2}, 100, "one example per person and task"),
        ({"epsilon": 30.0}, 100, "whole stream from 0.05 to 20 on the page, got 30"),
        ({}, 20_000, "class in a task from 1 to 10000 on the page"),
    ],
)
def test_what_the_page_cannot_show_is_refused(change, size, sentence):
    with pytest.raises(InvalidValue, match=sentence):
        plan_page.plan_page(dataclasses.replace(FIRST, **change), size=size, tasks=12)
