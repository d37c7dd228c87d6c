import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import reticent as rt
from reticent.report.demo_page import Guess
from reticent.report.terminal import stream_table

pytest.importorskip("simple_icd_10_cm", reason="simple-icd-10-cm is not installed")


def test_diagnoses_are_the_same_for_the_same_seed():
    from reticent.lab.data.datasets import icd10cm

    data = icd10cm(chapters=("4", "12"), most_per_block=20)
    again = icd10cm(chapters=("4", "12"), most_per_block=20)
    assert data.texts == again.texts
    assert data.chapter_names == ("4", "12")
    assert max(data.blocks.count(block) for block in data.blocks) == 20
    assert 0.1 < np.mean(data.held_out) < 0.3
    taxonomy = rt.Taxonomy.icd10cm()
    known = set(data.blocks)
    assert [taxonomy.nearest(code, known) for code in data.codes] == list(data.blocks)


def test_guesses_fit_the_terminal():
    from reticent.lab import demo
    from reticent.lab.data.datasets import CHAPTERS, icd10cm

    titles = rt.Taxonomy.icd10cm().titles
    lines = [
        demo._line(Guess(block, titles[block], score), right=right)
        for block in icd10cm().blocks
        for score, right in ((0.5, True), (-0.25, False))
    ]
    assert max(map(len, lines)) == 80
    assert lines[0].startswith("   *  0.50  A00-A09  Intestinal")
    assert any(line.endswith("...") for line in lines)
    methods = [f"{kind} labels, {whose}" for kind in ("public", "released") for whose in ("the paper's", "ours")]
    curves = dict.fromkeys([*methods, demo.REFERENCE], [0.5] * len(CHAPTERS))
    table = stream_table(curves, CHAPTERS, dict.fromkeys(curves, (0.05, 149)))
    with (narrow := Console(width=80)).capture() as shown:
        narrow.print(table)
    assert "…" not in shown.get()
    words = {word for name in curves for word in name.split()} | {"right", "after", "forgotten", "known"}
    assert words <= set(shown.get().split())  # no heading is cut
    assert max(map(len, shown.get().splitlines())) <= 80


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    pytest.importorskip("torch", reason="torch is not installed")
    from reticent.lab import demo

    out = tmp_path_factory.mktemp("demo")
    return out, demo.run(out, say=lambda _: None)


@pytest.mark.slow
def test_demo_prints_every_step(ran):
    from reticent.lab.demo import UNSEEN

    out, facts = ran
    assert facts["attack_accuracy"] == 1.0
    accuracy = facts["accuracy"]
    assert accuracy["public labels, ours"] > accuracy["public labels, the paper's"] + 0.15
    assert accuracy["released labels, ours"] > accuracy["released labels, the paper's"] + 0.08
    assert facts["spent"]["epsilon"] <= 1.0001
    found = {text: [guess["block"] for guess in guesses] for text, guesses in facts["predictions"].items()}
    assert sum(found[text][0] == block for text, block in UNSEEN.items()) >= 4  # all six in five runs of five
    assert all(len(guesses) == 3 and guesses[0]["title"] for guesses in facts["predictions"].values())
    model = rt.load(out / "model")
    assert model.predict(["Type 1 diabetes mellitus without complications"]).tolist() == ["E08-E13"]


@pytest.mark.slow
def test_report_renders(ran, tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no Chromium found")
    out, _ = ran
    text = (out / "report.html").read_text()
    assert text.count('<svg class="chart"') == 2
    assert "src=" not in text
    shot = tmp_path / "shot.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    subprocess.run(
        [
            browser,
            *flags,
            f"--user-data-dir={tmp_path}/profile",
            f"--screenshot={shot}",
            (out / "report.html").as_uri(),
        ],
        check=True,
        capture_output=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert Path(shot).stat().st_size > 10_000
