"""The page of the demonstration: what leaks, what was learned beside no privacy, and answers beside expected ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.privacy import planning
from reticent.privacy.rounding import exact, rounded_up
from reticent.report import attack_tables, figures, page, svg
from reticent.report.figures import Size

OUR_MECHANISM = planning.JOINT_GAUSSIAN


@dataclass(frozen=True)
class Guess:
    """One of the best labels of a sentence."""

    block: str
    title: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Question:
    """A sentence that the model has never seen, the block that a coder would choose, and the model's best answers."""

    sentence: str
    block: str
    title: str
    guesses: Sequence[Guess]

    @property
    def right(self) -> bool:
        """Whether the first answer is the expected one."""
        return self.guesses[0].block == self.block


@dataclass(frozen=True, kw_only=True)
class Learned:
    """How one method did: accuracy on all chapters so far after each, at the end, forgetting, number of labels."""

    after_each_task: Sequence[float]
    accuracy: float
    forgetting: float
    labels: int


@dataclass(frozen=True, kw_only=True)
class Story:
    """Everything that the page shows, from public data, releases and their ledger.

    Args:
        epsilon: Of the budget.
        delta: Of the budget.
        chapters: The tasks, in order.
        methods: What each method reached; ours is the one whose model is shown.
        ours: Its name.
        reference: The name of the method without privacy.
        sizes: Size, whether it was released, and planned probability of each label. Public data only.
        games: As in `attack.json`, of one game; the first is the leak.
        questions: Sentences and answers of our model.
        right_without_privacy: How many of them the reference answers as expected.
        statement: The privacy statement of our model.
    """

    epsilon: float
    delta: float
    chapters: Sequence[str]
    methods: Mapping[str, Learned]
    ours: str
    reference: str
    sizes: Sequence[Size]
    games: Sequence[Mapping[str, Any]]
    questions: Sequence[Question]
    right_without_privacy: int
    statement: str


def demo_page(story: Story) -> str:
    """Returns a self-contained page about the demonstration.

    Guarantees: each shown answer has the expected one beside it, with titles, and is marked right or wrong.
    test_answers_stand_beside_the_expected_ones
    """
    curves = {name: method.after_each_task for name, method in story.methods.items()}
    return page.page(
        "A hospital codes diagnoses",
        [
            page.paragraph(_takeaway(story), kind="takeaway"),
            page.paragraph(
                "Descriptions of diagnoses (public ICD-10-CM) arrive chapter by chapter, as if each description were "
                "another patient and each chapter a month. A classifier learns to name their block, with epsilon "
                f"{exact(story.epsilon)} and delta {exact(story.delta)} for each patient."
            ),
            page.section("The leak", _leak(story)),
            page.section(
                "Accuracy",
                [
                    page.paragraph(
                        "Right answers on held-out descriptions of all chapters learned so far.", kind="note"
                    ),
                    page.beside(
                        [svg.figure(figures.accuracy_by_task(curves, story.chapters, story.reference)), _methods(story)]
                    ),
                ],
            ),
            page.section("Labels", _labels(story)),
            page.section("Unseen sentences", _questions(story.questions, story.right_without_privacy)),
            page.section("What it cost", [page.preformatted(story.statement)]),
        ],
    )


def _takeaway(story: Story) -> str:
    leak, ours = story.games[0], next(g for g in story.games if g["remedy"] and g["target"] == OUR_MECHANISM)
    learned, reference = story.methods[story.ours], story.methods[story.reference]
    bound = rounded_up(100 * ours["bound"], 1)
    return (
        f"With epsilon {exact(story.epsilon)} for each patient, {_percent(learned.accuracy)} of unseen descriptions "
        f"get the right block; without privacy {_percent(reference.accuracy)}. Somebody who looks for one patient in "
        f"the label set guessed right in {_percent(ours['accuracy'])} of the games (a coin: 50 %; nobody can pass "
        f"{bound} %), and in {_percent(leak['accuracy'])} where labels are read off the data."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _leak(story: Story) -> list[str]:
    bound = rounded_up(100 * story.games[0]["bound"], 1)
    return [
        page.paragraph(
            "Is one patient with a rare diagnosis in the data? The attacker sees what is published and guesses. "
            f"At this epsilon and delta no attacker can be right in more than {bound} % of the games. Our classifier "
            f"releases its labels with the {OUR_MECHANISM} mechanism."
        ),
        page.table(
            ["published by", "right, %", "limits, %", "verdict"],
            [
                (
                    game["target"],
                    f"{100 * game['accuracy']:.1f}",
                    attack_tables.limits(game, scale=100, digits=1),
                    attack_tables.verdict(broken=game["broken"]),
                )
                for game in story.games
            ],
            stacked=True,
        ),
    ]


def _methods(story: Story) -> str:
    return page.table(
        ["method", "accuracy, %", "forgetting, points", "labels"],
        [
            (name, f"{100 * method.accuracy:.1f}", f"{100 * method.forgetting:.1f}", method.labels)
            for name, method in story.methods.items()
        ],
        caption="After the last chapter.",
        stacked=True,
    )


def _labels(story: Story) -> list[str]:
    kept = sum(released for _, released, _ in story.sizes)
    return [
        page.beside(
            [
                svg.figure(figures.released_by_size(story.sizes)),
                page.paragraph(
                    f"{kept} of {len(story.sizes)} labels were released, with the same epsilon and delta as everything "
                    "else. Markers: the share of the labels of similar size that were released (this data is public, "
                    "so that sizes may be shown). Dotted: as planned before any data was read. A label that was not "
                    "released is never an answer.",
                    kind="note",
                ),
            ]
        )
    ]


def _questions(questions: Sequence[Question], without_privacy: int) -> list[str]:
    right = sum(question.right for question in questions)
    return [
        page.paragraph(
            f"{right} of {len(questions)} sentences that are in no description get the expected block first; without "
            f"privacy {without_privacy} do (the sentences were chosen so that all do). Scores are in parentheses."
        ),
        page.table(
            ["sentence", "expected", "answer of the model", "next best"],
            [
                (
                    question.sentence,
                    _named(question.block, question.title),
                    page.Marked(_guessed(question.guesses[0]), right=question.right),
                    "; ".join(map(_guessed, question.guesses[1:])),
                )
                for question in questions
            ],
            stacked=True,
        ),
    ]


def _guessed(guess: Guess) -> str:
    return f"{_named(guess.block, guess.title)} ({guess.score:.2f})"


def _named(block: str, title: str) -> str:
    """Returns code and title; no line end divides the code."""
    return f"{block.replace('-', chr(0x2011))} {title}"
