"""What rounding changes in the gradient that a head sends back to an adapter: a Markdown table by the number of labels.

    python benchmarks/adapter_gradients.py

`Head.back` multiplies the softmax error, rounded to whole multiples of about 2^-12 of its norm, by the head's rows.
Here it is compared with the same product in float64, for two kinds of rows: after one step of Adam from zero without
noise, where the rows of all labels but the example's own are alike, and drawn independently of each other. Features are
random, 384 of norm 10. Shown is the norm of the difference in percent: of what the other labels contribute, and of the
whole gradient; medians of 32 examples. Seconds on one core.
"""

from contests import on_one_thread

on_one_thread()

import numpy as np
import numpy.typing as npt

from reticent.released.heads import BIAS, WEIGHT
from reticent.sensitive.head import Head, snapped

LABELS, EXAMPLES, WIDTH, LENGTH = (100, 1_000, 2_100, 5_000, 10_000), 32, 384, 10.0
STEP = 0.002  # the learning rate of FiLM

Floats = npt.NDArray[np.float64]


def changed(weight: Floats, x: Floats, label: int) -> tuple[float, float]:
    """Returns the difference for one example: over what other labels contribute, and over the whole gradient."""
    rows = weight.astype(np.float32)
    head = Head({WEIGHT: rows, BIAS: np.zeros(len(rows), np.float32)})
    error = head.errors(snapped(x[None].astype(np.float32)), np.array([label]))
    exact = (error @ rows.astype(np.float64))[0]
    others = exact - error[0, label] * rows[label].astype(np.float64)
    difference = np.linalg.norm(head.back(error)[0] - exact)
    return float(difference / np.linalg.norm(others)), float(difference / np.linalg.norm(exact))


def after_one_step(labels: int, x: Floats, label: int) -> Floats:
    """Returns rows after one step of Adam from zero, which has the sign of the gradient: all but one are alike."""
    weight = np.tile(-STEP * np.sign(x), (labels, 1))
    weight[label] *= -1
    return weight


def main() -> None:
    """Prints the table, in percent."""
    draw = np.random.default_rng(0)
    print("| labels | after one step: of others, of all | independent rows: of others, of all |")
    print("|---|---|---|")
    for labels in LABELS:
        examples = draw.normal(size=(EXAMPLES, WIDTH))
        examples *= LENGTH / np.linalg.norm(examples, axis=1, keepdims=True)
        independent = draw.uniform(-1, 1, (labels, WIDTH)) / np.sqrt(WIDTH)  # as torch.nn.Linear begins
        stepped = [changed(after_one_step(labels, x, i), x, i) for i, x in enumerate(examples)]
        drawn = [changed(independent, x, i) for i, x in enumerate(examples)]
        shown = [100 * np.median(found, axis=0) for found in (stepped, drawn)]
        print(f"| {labels:,} | " + " | ".join(f"{of_others:.1f}, {of_all:.1f}" for of_others, of_all in shown) + " |")


if __name__ == "__main__":
    main()
