"""What to take away is computed from the pairs of ours and the paper's."""

from typing import Any

from reticent.lab.bench.one_screen import one_screen, takeaways
from reticent.lab.bench.run import Run
from tests.lab.tiny import by_digest, done


def pair(mine: float, theirs: float, *, method: str = "cosine", data: str = "clinc150", **fields: Any) -> list[Any]:
    values = {method: mine, f"{method}-paper": theirs}
    return [done(Run(data=data, learner=learner, **fields), value / 100) for learner, value in values.items()]


def test_sentences_count_settings_and_say_the_median_difference():
    made = [
        *pair(60, 50),
        *pair(50, 52, ratio=50.0),
        *pair(50, 50.4, ratio=100.0),
        *pair(55, 51, data="phenotypes", epsilon=8.0),
    ]
    said = takeaways(by_digest(made))[-2:]
    assert said == [
        "Our Cosine Classifier against the paper's, 4 settings: ahead by more than half a point in 2, behind by as "
        "much in 1; the median difference is -0.4 at epsilon 1 and +4.0 at epsilon 8.",
        "On data that no default of ours was chosen on (phenotypes), 1 settings: behind in 0; the median difference is "
        "+4.0 at epsilon 8.",
    ]


def test_it_is_said_where_another_rule_would_not_be_behind():
    ours = Run(data="clinc150", learner="peft")
    made = [done(ours, 0.5, aggregations={"argmax": 0.7}), done(Run(data="clinc150", learner="peft-paper"), 0.7)]
    assert takeaways(by_digest(made))[-1].endswith(
        "In 1 of these 1 the same heads are not behind under the paper's argmax."
    )


def test_a_row_has_both_epsilons():
    made = [*pair(60, 50), *pair(70, 65, epsilon=8.0), *pair(40, 30, labels="released")]
    assert one_screen(by_digest(made)).rows == (
        ("clinc150", "public", "50.0 / 65.0", "60.0 / 70.0", "-", "-"),
        ("clinc150", "released", "30.0 / -", "40.0 / -", "-", "-"),
    )
