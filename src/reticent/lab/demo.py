"""A complete example on embedded data, offline: a hospital codes diagnoses, chapter by chapter."""

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.markup import escape
from rich.table import Table

from reticent import errors, names
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier, load
from reticent.encoders import minilm
from reticent.lab.attack import label_attack
from reticent.lab.data import datasets
from reticent.lab.evaluation import AccuracyMatrix
from reticent.labels import Taxonomy
from reticent.policies import PublicLabels, ReleasedLabels
from reticent.privacy import planning, selection
from reticent.privacy.count_weights import default_count_weight
from reticent.privacy.rounding import exact, rounded_up
from reticent.report import figures, page, svg, terminal
from reticent.sensitive.learners.cosine import Cosine

BUDGET = Budget(epsilon=1.0, delta=1e-5)
UNSEEN = (
    "Type 1 diabetes mellitus with early kidney damage",
    "Bilateral age-related clouding of the lens",
    "Heart attack of the front wall",
    "Itchy rash after contact with nickel",
)

Say = Callable[[str | Table], object]


@dataclass(frozen=True)
class Hospital:
    """The public sample with its features, split by chapter."""

    data: datasets.Diagnoses
    features: npt.NDArray[np.floating]

    def part(self, chapter: str, *, held_out: bool) -> npt.NDArray[np.int64]:
        """Returns the rows of one chapter, to learn from or to test on."""
        mine = np.array([c == chapter for c in self.data.chapters])
        return np.flatnonzero(mine & (self.data.held_out == held_out))


def run(out: Path, *, say: Say) -> dict[str, Any]:
    """Runs the demonstration, writes report.html and a model directory, and returns the main figures."""
    started = time.monotonic()
    if (out / "model").exists():
        if not (out / "report.html").exists():
            raise errors.InvalidValue(f"{out} holds a model that is not the demonstration's. Choose another folder.")
        shutil.rmtree(out / "model")
    out.mkdir(parents=True, exist_ok=True)
    say("[bold]1. The leak.[/] A classifier with private weights that takes its labels from the data:")
    naive, *remedies = _leak()
    say(f"   the attacker tells whether one patient is in it, right in {naive.accuracy:.0%} of {naive.trials} games.")
    say("[bold]2. The data.[/] Public ICD-10-CM descriptions, encoded with MiniLM on this machine ...")
    hospital = _hospital()
    say(
        f"   {len(hospital.data.texts)} descriptions, {len(set(hospital.data.blocks))} blocks (the labels), "
        f"{len(hospital.data.chapter_names)} chapters (the tasks), {time.monotonic() - started:.0f} s."
    )
    blocks = sorted(set(hospital.data.blocks))
    public = PublicLabels(blocks, remap=Taxonomy.from_icd10cm())
    say("[bold]3. Learning[/] chapter after chapter at epsilon 1, delta 1e-5:")
    runs = {
        "public labels, the paper's": _learn(hospital, public, Cosine.paper(), fine=True),
        "public labels, ours": _learn(hospital, public, Cosine(), fine=True),
        "released labels, the paper's": _learn(hospital, ReleasedLabels.paper(), Cosine.paper()),
        "released labels, ours": _learn(hospital, ReleasedLabels(), Cosine()),
    }
    curves = {name: matrix.after_each_task.tolist() for name, (_, matrix) in runs.items()}
    ends = {name: (matrix.forgetting, len(model.classes_)) for name, (model, matrix) in runs.items()}
    say(terminal.stream_table(curves, hospital.data.chapter_names, ends))
    model = runs["released labels, ours"][0]
    released = _released(hospital, model)
    groups = terminal.by_size(released)
    say("   Which labels were released, by their number of examples (we may look: this data is public):")
    say(terminal.sizes_table(groups))
    model.set_params(encoder=minilm()).save(out / "model")
    again = load(out / "model")
    guesses = dict(zip(UNSEEN, again.predict(list(UNSEEN)).tolist(), strict=True))
    say("[bold]4. The model[/], saved and loaded again, on sentences it has never seen:")
    for text, block in guesses.items():
        say(f"   {text} -> {block}")
    spent = again.spent()
    say(
        f"[bold]5. The price.[/] {len(hospital.data.chapter_names)} tasks; one person has lost at most epsilon "
        f"{rounded_up(spent['epsilon'])} at delta {exact(spent['delta'])}, of a budget of {exact(spent['budget'])}."
    )
    (out / "report.html").write_text(_report(hospital, runs, released, [naive, *remedies], guesses), encoding="utf-8")
    places = escape(names.shown(f"   Report: {out / 'report.html'}; model: {out / 'model'}"))
    say(f"{places}; {time.monotonic() - started:.0f} s in all.")
    return {
        "accuracy": {name: matrix.average_accuracy for name, (_, matrix) in runs.items()},
        "forgetting": {name: matrix.forgetting for name, (_, matrix) in runs.items()},
        "after_each_task": curves,
        "labels": {name: len(model.classes_) for name, (model, _) in runs.items()},
        "labels_by_size": [asdict(group) for group in groups],
        "attack_accuracy": naive.accuracy,
        "predictions": guesses,
        "spent": spent,
        "seconds": time.monotonic() - started,
    }


def _leak() -> list[label_attack.Result]:
    results = label_attack.attack_labels(BUDGET, trials=4_000, trainings=100)
    return [results[0], *(r for r in results if r.remedy and r.game == label_attack.ALONE)]


def _hospital() -> Hospital:
    data = datasets.icd10cm()
    return Hospital(data, minilm()(list(data.texts)))


def _learn(
    hospital: Hospital, policy: PublicLabels | ReleasedLabels, learner: Cosine, *, fine: bool = False
) -> tuple[ContinualClassifier, AccuracyMatrix]:
    """Learns all chapters; `fine` labels are full codes that the hierarchy maps to public blocks."""
    model = ContinualClassifier(labels=policy, learner=learner, budget=BUDGET)
    data, chapters = hospital.data, hospital.data.chapter_names
    matrix = np.full((len(chapters), len(chapters)), np.nan)
    for t, chapter in enumerate(chapters):
        rows = hospital.part(chapter, held_out=False)
        labels = [(data.codes if fine else data.blocks)[i] for i in rows]
        model.learn_task(hospital.features[rows], labels, name=f"chapter {chapter}")
        for i, seen in enumerate(chapters[: t + 1]):
            test = hospital.part(seen, held_out=True)
            matrix[t, i] = model.score(hospital.features[test], [data.blocks[j] for j in test])
    return model, AccuracyMatrix(matrix)


def _released(hospital: Hospital, model: ContinualClassifier) -> list[tuple[int, bool, float]]:
    """Returns size, whether it was released, and the planned probability of each label. Public data only."""
    counts = Counter(b for b, held in zip(hospital.data.blocks, hospital.data.held_out, strict=True) if not held)
    law = selection.law(planning.joint_gaussian(BUDGET, default_count_weight(BUDGET)))
    known = set(model.classes_)
    return [(size, block in known, float(law.release_probability(size))) for block, size in counts.items()]


def _report(
    hospital: Hospital,
    runs: dict[str, tuple[ContinualClassifier, AccuracyMatrix]],
    released: list[tuple[int, bool, float]],
    games: list[label_attack.Result],
    guesses: dict[str, str],
) -> str:
    chapters = hospital.data.chapter_names
    curves = {name: matrix.after_each_task.tolist() for name, (_, matrix) in runs.items()}
    statement = runs["released labels, ours"][0].privacy_statement()
    return page.page(
        "A hospital codes diagnoses",
        [
            page.paragraph(
                "Descriptions of diagnoses (public ICD-10-CM) arrive chapter by chapter, as if each were a month of "
                f"patients. A classifier learns to name their block, with epsilon {BUDGET.epsilon:g} and delta "
                f"{BUDGET.delta:g} for each patient."
            ),
            page.heading("The leak"),
            page.paragraph(
                "Is one patient with a rare diagnosis in the data? The attacker sees what is published and guesses."
            ),
            page.table(
                ["published by", "accuracy of the attacker", "most that the budget allows"],
                [(g.target, g.accuracy, g.bound) for g in games],
            ),
            page.heading("Accuracy"),
            page.table(
                ["method", "accuracy", "forgetting", "labels"],
                [
                    (name, matrix.average_accuracy, matrix.forgetting, len(model.classes_))
                    for name, (model, matrix) in runs.items()
                ],
            ),
            page.paragraph("Below: right answers on held-out examples of all chapters learned so far.", kind="note"),
            svg.figure(figures.accuracy_by_task(curves, chapters)),
            page.heading("Labels"),
            page.paragraph(
                "Markers: share of the labels of similar size that were released (this data is public, so that sizes "
                "may be shown). Dotted: as planned.",
                kind="note",
            ),
            svg.figure(figures.released_by_size(released)),
            page.heading("Unseen sentences"),
            page.table(["sentence", "block"], list(guesses.items())),
            page.heading("What it cost"),
            page.preformatted(statement),
        ],
    )
