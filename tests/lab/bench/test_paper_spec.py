"""The spec `paper` from end to end: a tiny ViT where the hub would keep the real one, tiny files of the same formats.

One table goes through the command line; every kind of run of every part that has runs, marked slow, through the runner.
Both are in processes of their own, as on a machine with a GPU. What is checked is that every kind of run ends with a
number, and that the tables have it in its row and column; not which number.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.lab.data.test_image_sets import write_folder, write_parquet

torch = pytest.importorskip("torch", reason="needs reticent[torch]")
pytest.importorskip("transformers", reason="needs reticent[torch]")
pytest.importorskip("optuna", reason="needs reticent[tune]")

MODEL = "google/vit-base-patch16-224-in21k"
CLASSES, EACH, UNSEEN = 20, 6, 2

# One run of each kind for each table: what differs in seed, share, ratio or budget alone goes the same way.
EVERY_KIND = """
import sys
from dataclasses import replace
from pathlib import Path
from reticent.lab.bench import runner, specs
from reticent.lab.bench.processes import Processes

def few(spec):
    kinds = {}
    for run in specs.narrowed(spec, seeds=1).runs:
        kinds.setdefault((run.data, run.learner, run.labels, run.adapter, run.epsilon is None), run)
    return replace(spec, runs=tuple(kinds.values()))

if __name__ == "__main__":
    data, out = map(Path, sys.argv[1:])
    chosen = [few(spec) for spec in specs.chosen(["paper"]) if spec.kind == "grid"]
    outcome = runner.run(chosen, data=data, out=out, engine=Processes(workers=2), say=print)
    print("outcome", outcome.ran, outcome.failed, len(outcome.missing))
"""


ORACLE, BASE, TEN, THOUSAND, RELEASED = (
    *("Label Oracle (reads the data)", "Base Dataset", "Public Labels 10x", "Public Labels 1000x", "Release Labels"),
)
TASKS = [f"task {t}" for t in range(1, 11)]
NON_CL, POOLED = 2 * 2 * 2, 2  # entries that cannot be: all data at once forgets nothing; heads that state no noise
# Of each table of these runs: what goes across, how many rows are measured here, and how many entries of them.
TABLES = {
    "paper-labels": [([ORACLE, BASE, THOUSAND, RELEASED], 8, 32)],
    "paper-share": [(["share 1", "share 2.5"], 4, 4)] * 2,
    "paper-sizes": [([ORACLE, BASE, TEN, THOUSAND], 8, 32)],
    "paper-blurry": [(["ratio 10"], 12, 12)],
    "paper-desai": [(TASKS, 10, 100)] * 2,
    "paper-aggregation": [(["argmax", "median", "entropy", "pooled"], 2, 8 - POOLED)],
    "paper-domain-shift": [
        (["epsilon 1", "no privacy"], 21, 42),
        (["epsilon 1", "no privacy"], 21, 42 - NON_CL),
    ],
    "paper-tasks": [(TASKS, 26, 20 * 10 + 6 * 5)] * 2,
    "paper-orders": [(["epsilon 1", "no privacy"], 1, 2)] * 2,
}


def measured(table: dict[str, Any]) -> tuple[list[str], int, int]:
    """What goes across a table, how many of its rows are not the paper's, and how many of their entries are numbers."""
    names = table["columns"].index("source") + 1
    rows = [row for row in table["rows"] if not row[names - 1].startswith("paper, ")]
    entries = [entry.split()[0] for row in rows for entry in row[names:] if entry not in ("", "-")]
    return table["columns"][names:], len(rows), len([float(entry) for entry in entries])


def pixels(label: int, draw: np.random.Generator, side: int = 32) -> Any:
    """A picture whose colour tells its class, with noise."""
    colour = np.array([10 * label % 256, 70 * label % 256, 255 - 12 * label % 256])
    noisy = np.clip(colour + draw.normal(0, 20, size=(side, side, 3)), 0, 255)
    return Image.fromarray(noisy.astype(np.uint8))


def write_data(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    for part, each in (("train", EACH), ("test", UNSEEN)):
        shard = f"{part}-00000-of-00001.parquet"
        rows = [(pixels(y, draw), y) for y in range(CLASSES) for _ in range(each)]
        write_parquet(folder / "cifar100" / shard, rows, image="img", label="fine_label")
        for task, name in enumerate(("mnist", "svhn/cropped_digits", "fashion_mnist", "cifar10/plain_text")):
            few = [(pixels(3 * task + y, draw, 28 if task % 2 else 32), y) for y in range(2) for _ in range(6 * each)]
            write_parquet(folder / name / shard, few)
        letters = [(pixels(18 + y, draw, 28), "AB"[y]) for y in range(2) for _ in range(6 * each)]
        write_folder(folder / "notMNIST" / part.capitalize(), letters)
    renditions = [(pixels(y, draw, 30 + y), f"n{y:08d}") for y in range(CLASSES) for _ in range(EACH + 6)]
    write_folder(folder / "imagenet-r", renditions)
    return folder


def write_model(home: Path) -> Path:
    """Puts a randomly initialised ViT where transformers looks for the downloaded one."""
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    torch.manual_seed(0)
    snapshot = home / "hub" / f"models--{MODEL.replace('/', '--')}" / "snapshots" / ("0" * 40)
    (snapshot.parents[1] / "refs").mkdir(parents=True)
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    config = ViTConfig(
        hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=16
    )
    ViTModel(config, add_pooling_layer=False).save_pretrained(snapshot)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(snapshot)
    return home


def run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    write_data(folder / "data")
    write_model(folder / "home")
    return folder


def test_a_table_of_the_paper_from_end_to_end(folder):
    words = "bench paper-aggregation --data data --out few --seeds 1 --only split-cifar100 --workers 1"
    command = ("-c", "from reticent.cli import main; main()", *words.split())
    said = run(folder, *command)
    assert "ms to train with it" in said  # an estimate from a measured step
    assert "2 run(s), 0 failed" in said
    assert "0 run(s), 0 failed" in run(folder, *command)  # it resumes
    (table,) = json.loads((folder / "few" / "tables" / "paper-aggregation.json").read_text())
    numbers = [row for row in table["rows"] if "split-cifar100" in row[2]]
    assert len(numbers) == 2
    assert all(float(entry.split()[0]) >= 0 for row in numbers for entry in row[3:6])


@pytest.mark.slow
def test_every_kind_of_run_of_the_paper(folder):
    (folder / "every_kind.py").write_text(EVERY_KIND)
    said = run(folder, "every_kind.py", "data", "whole")
    ran, failed, missing = (int(word) for word in said.splitlines()[-1].split()[1:])
    assert (failed, missing) == (0, 0), said
    assert ran == len(list((folder / "whole" / "runs").glob("*.json")))
    kinds = {
        (made["run"]["data"], made["run"]["learner"], made["run"]["adapter"])
        for made in (json.loads(file.read_text()) for file in (folder / "whole" / "runs").glob("*.json"))
        if made["status"] == "done"
    }
    assert {data for data, _, _ in kinds} == {"split-cifar100", "split-imagenet-r", "five-datasets"}
    assert {learner for _, learner, _ in kinds} == {
        *("cosine-paper", "cosine", "peft-paper", "peft", "naive-paper", "desai-paper", "noncl-paper")
    }
    tables = {file.stem: json.loads(file.read_text()) for file in (folder / "whole" / "tables").glob("*.json")}
    assert {
        name: [measured(table) for table in made if "source" in table["columns"]] for name, made in tables.items()
    } == TABLES
    assert "outcome 0 0 0" in run(folder, "every_kind.py", "data", "whole")  # it resumes
