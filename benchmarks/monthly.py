"""Draws docs/monthly.svg, the README's curve of sixty tasks, from the results of `reticent bench streams-long`.

Run `reticent bench streams-long --data DATA --out results`, then this with the folder and `docs/monthly.svg`.
"""

import json
import statistics
import sys
from pathlib import Path

from reticent.lab.bench.specs import spec
from reticent.report import axes, picture, svg

DATA, EPSILON = "clinc150", 1.0
LINES = {
    ("cosine-paper", False, "none"): "the paper's sums",
    ("cosine", False, "none"): "ours, without names",
    ("cosine", True, "none"): "ours, with names",
    ("cosine", True, "recurring"): "ours, with names and memory",
}


def curves(results: Path) -> dict[str, list[float]]:
    """Returns the median accuracy over seeds after each task, in percent, by line."""
    found: dict[str, list[list[float]]] = {}
    for run in spec("streams-long").runs:
        file = results / "runs" / f"{run.digest}.json"
        if run.data == DATA and run.epsilon == EPSILON and file.exists():
            name = LINES[run.learner, run.names, run.memory]
            found.setdefault(name, []).append(json.loads(file.read_text(encoding="utf-8"))["overall"])
    return {
        name: [100 * statistics.median(seeds) for seeds in zip(*found[name], strict=True)]
        for name in LINES.values()
        if name in found
    }


def _points(values: list[float]) -> list[svg.Point]:
    return [svg.Point(x=float(t), y=y, at=f"task {t}", value=f"{y:.1f}") for t, y in enumerate(values, start=1)]


def main(results: Path, out: Path) -> None:
    """Writes the picture, and prints some of its points."""
    lines = curves(results)
    series = [
        svg.Series(name=name, style=style, points=_points(values)) for style, (name, values) in enumerate(lines.items())
    ]
    x = axes.marked("after task", {float(t): str(t) for t in (1, 12, 24, 36, 48, 60)})
    plot = svg.Plot(caption="", series=series, x=x, y=axes.percent("accuracy on all labels, %"), size=svg.LARGE)
    words = "CLINC150: 150 intents, 1.7 examples of each in each task; epsilon 1, delta 1e-5; median of 5 seeds."
    out.write_text(picture.standalone("Sixty tasks with every label in each", [plot], words), encoding="utf-8")
    for name, values in lines.items():
        print(f"{name:24}", *(f"{values[t - 1]:6.1f}" for t in (1, 6, 12, 24, 36, 60)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
