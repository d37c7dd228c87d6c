"""A complete example on embedded data, offline: a hospital codes diagnoses, chapter by chapter."""

import shutil
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.markup import escape
from rich.table import Table

from reticent import errors, names
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.encoders import Encoder, minilm, wrap
from reticent.lab.attack import label_attack
from reticent.lab.baselines.oracles import NoPrivacy, experiment
from reticent.lab.data import datasets
from reticent.lab.evaluation import AccuracyMatrix
from reticent.loading import load
from reticent.memory import Memory
from reticent.policies import PublicLabels, ReleasedLabels
from reticent.privacy import planning, selection
from reticent.privacy.count_weights import default_count_weight
from reticent.privacy.memory_plan import memory_plan
from reticent.report import terminal
from reticent.report.demo_page import Guess, Learned, Question, Story, demo_page
from reticent.report.figures import Size
from reticent.sensitive.learners.cosine import Cosine
from reticent.taxonomy import Taxonomy

BUDGET = Budget(epsilon=1.0, delta=1e-5)
# Sentences that no description has, with the block that a coder would choose. They were chosen so that class means
# without any noise choose it, too: what is wrong here is the price of privacy, not the encoder's. (They do not for
# "Heart attack of the front wall", for example, which becomes I30-I5A.)
UNSEEN = {
    "Type 1 diabetes mellitus with early kidney damage": "E08-E13",
    "Bilateral age-related clouding of the lens": "H25-H28",
    "Stone in the gallbladder": "K80-K87",
    "Itchy rash after contact with nickel": "L20-L30",
    "High blood pressure in late pregnancy": "O10-O16",
    "Blood clot in a deep vein of the leg": "I80-I89",
}
OURS, REFERENCE = "released labels, ours", "no privacy (reference)"
_WIDTH = 80  # columns of a terminal

Say = Callable[[str | Table], object]
Runs = dict[str, tuple[ContinualClassifier, AccuracyMatrix]]


@dataclass(frozen=True)
class Hospital:
    """The public sample, split by chapter, with what encodes it: each description was encoded once."""

    data: datasets.Diagnoses
    encoder: Encoder
    icd: Taxonomy

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
    say("[bold]1. The leak.[/] A classifier with private weights, its labels read off the data:")
    naive, *remedies = _leak()
    say(f"   the attacker tells whether one patient is in it, right in {naive.accuracy:.0%} of {naive.trials} games.")
    say("[bold]2. The data.[/] Public ICD-10-CM descriptions, encoded with MiniLM here ...")
    hospital = _hospital()
    say(
        f"   {len(hospital.data.texts)} descriptions, {len(set(hospital.data.blocks))} blocks (the labels), "
        f"{len(hospital.data.chapter_names)} chapters (the tasks), {time.monotonic() - started:.0f} s."
    )
    blocks = sorted(set(hospital.data.blocks))
    public = PublicLabels(blocks, remap=hospital.icd)  # whose titles are their names
    released = ReleasedLabels(names=hospital.icd.titles)
    say("[bold]3. Learning[/] chapter after chapter at epsilon 1, delta 1e-5:")
    runs: Runs = {
        "public labels, the paper's": _learn(hospital, _model(hospital, public, Cosine.paper()), fine=True),
        "public labels, ours": _learn(hospital, _model(hospital, public, Cosine()), fine=True),
        "released labels, the paper's": _learn(hospital, _model(hospital, ReleasedLabels.paper(), Cosine.paper())),
        OURS: _learn(hospital, _model(hospital, released, Cosine())),
        REFERENCE: _learn(hospital, _without_privacy(hospital, blocks)),
    }
    curves = {name: matrix.after_each_task.tolist() for name, (_, matrix) in runs.items()}
    ends = {name: (matrix.forgetting, len(model.classes_)) for name, (model, matrix) in runs.items()}
    say(terminal.stream_table(curves, hospital.data.chapter_names, ends))
    model = runs[OURS][0]
    sizes = _released(hospital, model)
    groups = terminal.by_size(sizes)
    say("   Which labels were released, by their number of examples (public data: we may\n   look):")
    say(terminal.sizes_table(groups))
    model.set_params(encoder=minilm()).save(out / "model")
    again = load(out / "model")
    questions = _questions(again, hospital.icd)
    right = sum(question.right for question in questions)
    say(
        "[bold]4. The model[/], saved and loaded again, on sentences it has never seen: the three\n"
        f"   best of {len(again.classes_)} labels, with scores. {right} of {len(UNSEEN)} have the right one (*) first."
    )
    for question in questions:
        say(f"   {question.sentence}: expected {question.block}")
        for guess in question.guesses:
            say(escape(_line(guess, right=guess.block == question.block)))
    price = f"5. The price. {len(hospital.data.chapter_names)} tasks. {again.statement().claim}"
    say(textwrap.fill(price, 79, subsequent_indent="   ").replace("5. The price.", "[bold]5. The price.[/]"))
    say(_memory(len(hospital.data.chapter_names)))
    story = _story(runs, again, hospital.data.chapter_names, sizes, [naive, *remedies], questions)
    (out / "report.html").write_text(demo_page(story), encoding="utf-8")
    places = escape(names.shown(f"   Report: {out / 'report.html'}; model: {out / 'model'}"))
    say(f"{places}; {time.monotonic() - started:.0f} s in all.")
    return {
        "accuracy": {name: matrix.average_accuracy for name, (_, matrix) in runs.items()},
        "forgetting": {name: matrix.forgetting for name, (_, matrix) in runs.items()},
        "after_each_task": curves,
        "labels": {name: len(model.classes_) for name, (model, _) in runs.items()},
        "labels_by_size": [asdict(group) for group in groups],
        "attack_accuracy": naive.accuracy,
        "predictions": {q.sentence: [asdict(guess) for guess in q.guesses] for q in questions},
        "spent": again.spent(),
        "seconds": time.monotonic() - started,
    }


def _memory(tasks: int) -> str:
    """Returns in one sentence what a vault would add in a stream where labels come back."""
    plan = memory_plan(BUDGET, Memory(vault="vault", recurring=True), tasks=tasks, class_sizes=[10])
    sums, label = plan.classes[-1], plan.labels[0]
    return (
        "   If labels came back monthly, memory (docs/memory.md) would lower the noise\n"
        f"   on a sum of {sums.times} months from {sums.without_memory:.1f} to {sums.with_memory:.1f}, and a label of "
        f"{label.size} examples a month\n"
        f"   would be known after {label.with_memory_50} months; without memory it never is."
    )


def _leak() -> list[label_attack.Result]:
    leak = next(label_attack.attack_classifiers(BUDGET, trainings=100))
    remedies = label_attack.attack_remedies(BUDGET, trials=4_000)
    return [leak, *(result for result in remedies if result.game == label_attack.ALONE)]


def _hospital() -> Hospital:
    data, encoder = datasets.icd10cm(), minilm()  # most of the time that the demonstration takes
    known = dict(zip(data.texts, encoder(list(data.texts)), strict=True))

    def look_up(texts: list[Any]) -> Any:
        return [known[text] if text in known else encoder([text])[0] for text in texts]

    remembered = wrap(look_up, width=encoder.width, name=encoder.name, probe=data.texts[0])  # features do not change
    return Hospital(data, remembered, Taxonomy.icd10cm())


def _questions(model: ContinualClassifier, icd: Taxonomy) -> list[Question]:
    """Returns the unseen sentences with the three best labels of each."""
    scores = model.decision_function(list(UNSEEN))
    best = np.argsort(-scores, axis=1, kind="stable")[:, :3]
    return [
        Question(
            sentence=text,
            block=wanted,
            title=icd.titles[wanted],
            guesses=[Guess(block := str(model.classes_[i]), icd.titles[block], float(row[i])) for i in order],
        )
        for (text, wanted), row, order in zip(UNSEEN.items(), scores, best, strict=True)
    ]


def _line(guess: Guess, *, right: bool) -> str:
    """Returns a guess as a line of the terminal; a long title is cut."""
    line = f"   {'*' if right else ' '} {guess.score:5.2f}  {guess.block:<8} {guess.title}"
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3].rstrip()}..."


def _model(hospital: Hospital, policy: PublicLabels | ReleasedLabels, learner: Cosine) -> ContinualClassifier:
    return ContinualClassifier(encoder=hospital.encoder, labels=policy, learner=learner, budget=BUDGET)


def _without_privacy(hospital: Hospital, blocks: Sequence[str]) -> ContinualClassifier:
    """Returns what privacy is compared with: exact class means, NOT PRIVATE, for public data only."""
    return experiment(NoPrivacy(), PublicLabels(blocks), budget=BUDGET, encoder=hospital.encoder)


def _learn(
    hospital: Hospital, model: ContinualClassifier, *, fine: bool = False
) -> tuple[ContinualClassifier, AccuracyMatrix]:
    """Learns all chapters; `fine` labels are full codes that the hierarchy maps to public blocks."""
    data, chapters = hospital.data, hospital.data.chapter_names
    matrix = np.full((len(chapters), len(chapters)), np.nan)
    for t, chapter in enumerate(chapters):
        rows = hospital.part(chapter, held_out=False)
        labels = [(data.codes if fine else data.blocks)[i] for i in rows]
        texts = [data.texts[i] for i in rows]
        model.learn_task(texts, labels, name=f"chapter {chapter}", each_row_is_a_person=True)
        for i, seen in enumerate(chapters[: t + 1]):
            test = hospital.part(seen, held_out=True)
            matrix[t, i] = model.score([data.texts[j] for j in test], [data.blocks[j] for j in test])
    return model, AccuracyMatrix(matrix)


def _released(hospital: Hospital, model: ContinualClassifier) -> list[Size]:
    """Returns size, whether it was released, and the planned probability of each label. Public data only."""
    counts = Counter(b for b, held in zip(hospital.data.blocks, hospital.data.held_out, strict=True) if not held)
    law = selection.law(planning.joint_gaussian(BUDGET, default_count_weight(BUDGET)))
    known = set(model.classes_)
    return [(size, block in known, float(law.release_probability(size))) for block, size in counts.items()]


def _story(
    runs: Runs,
    saved: ContinualClassifier,
    chapters: Sequence[str],
    sizes: list[Size],
    games: list[label_attack.Result],
    questions: list[Question],
) -> Story:
    return Story(
        epsilon=BUDGET.epsilon,
        delta=BUDGET.delta,
        chapters=chapters,
        methods={
            name: Learned(
                after_each_task=matrix.after_each_task.tolist(),
                accuracy=matrix.average_accuracy,
                forgetting=matrix.forgetting,
                labels=len(model.classes_),
            )
            for name, (model, matrix) in runs.items()
        },
        ours=OURS,
        reference=REFERENCE,
        sizes=sizes,
        games=[game.json() for game in games],
        questions=questions,
        right_without_privacy=sum(
            answer == question.block
            for answer, question in zip(runs[REFERENCE][0].predict(list(UNSEEN)), questions, strict=True)
        ),
        statement=saved.privacy_statement(),
    )
