"""How the time to learn falls with the workers of a cluster, beside what the cost model says of it.

    python benchmarks/workers.py benchmarks/scaling.json --page docs/scaling.md

A Ray cluster on this machine learns a task in shards, short texts that are encoded and rows of features, with one, two,
four and eight workers. What the model says is written down before the first of them is run, with speeds that
`reticent plan --measure` finds here in the same minute. Clusters of different size take turns; medians of three rounds.

Wall-clock seconds are shown for as many workers as the machine has cores, and need a machine that does nothing else.
For more of them the longest way is what counts: processor time of this process and of the busiest worker, one after
the other, which is what machines with a free core for each would have to wait for. Starting a cluster, its first task
with loading of encoders, and a part that does nothing are measured, too. About five minutes.
"""

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cluster import longest_way, nothing, seconds  # first: it sets every library to one thread
from contests import machine
from scaling import DOCS, Sizes, exponent, write

import reticent as rt
from reticent.lab import machine_speed
from reticent.running_costs import Costs, Speeds, Workload, costs

BEGIN, END = "<!-- workers: begin -->", "<!-- workers: end -->"
COUNTS = (1, 2, 4, 8)
SHARDS, ROUNDS = 16, 3
SERIES = {
    "texts": Sizes(rows=2_400, labels=20, live_labels=20, texts=True),
    "rows of features": Sizes(rows=640_000, labels=100, live_labels=100),
}
ENCODER = rt.encoders.minilm()


def shards_of(folder: Path, sizes: Sizes) -> Path:
    """Writes a task in shards of equal size."""
    folder.mkdir()
    for shard in range(SHARDS):
        write(folder / f"{shard:02}.parquet", sizes, sizes.rows // SHARDS, seed=shard)
    return folder


def learn(folder: Path, sizes: Sizes, engine: rt.engines.Engine) -> None:
    """Learns the shards as one task of a model in memory."""
    model = rt.ContinualClassifier(
        encoder=ENCODER if sizes.texts else None,
        labels=rt.PublicLabels(f"label {i}" for i in range(sizes.labels)),
        budget=rt.Budget(epsilon=1.0, delta=1e-5),
        engine=engine,
    )
    columns = rt.Columns(label="y", text="x") if sizes.texts else rt.Columns(label="y", features=("x",))
    with rt.errors.silenced():  # that it is kept in memory
        model.learn_task(rt.open_source(folder, columns), name="march", each_row_is_a_person=True)


def model_of(sizes: Sizes, workers: int, speeds: Speeds) -> Costs:
    """Returns what the cost model says."""
    sized = {name: getattr(sizes, name) for name in ("rows", "width", "labels", "live_labels", "texts")}
    return costs(Workload(**sized, shards=SHARDS, workers=workers), speeds)


def warm_seconds(said: Costs) -> float:
    """Returns what the model says of a task on a cluster that has started and has loaded everything."""
    once = said.learn["start"] + (said.speeds.ray_start + said.learn["start"] if said.workload.workers > 1 else 0.0)
    return said.learn_total - once


def measured() -> dict[str, Any]:
    """Measures everything, and returns it with what was said before."""
    speeds = machine_speed.measure(texts=True)
    said = {name: {str(n): warm_seconds(model_of(sizes, n, speeds)) for n in COUNTS} for name, sizes in SERIES.items()}
    found: dict[str, Any] = {
        "machine": machine(),
        "cores": os.cpu_count(),
        "shards": SHARDS,
        "said": said,
        "series": {},
    }
    print(json.dumps(said), flush=True)
    ray = rt.engines.Ray(workers=max(COUNTS))
    found["start_s"] = seconds(ray.ready)
    with TemporaryDirectory() as name:
        folders = {kind: shards_of(Path(name, kind), sizes) for kind, sizes in SERIES.items()}
        for kind, sizes in SERIES.items():
            engines = {n: replace(ray, workers=n) for n in COUNTS}
            cold = seconds(partial(learn, folders[kind], sizes, engines[2]))
            learn(folders[kind], sizes, ray)  # every worker has loaded what it needs
            rounds: dict[int, list[tuple[float, float]]] = {n: [] for n in COUNTS}
            for _ in range(ROUNDS):
                for n, took in rounds.items():
                    took.append(longest_way(partial(learn, folders[kind], sizes, engines[n]), n))
                    print(kind, n, took[-1], flush=True)
            clock, way = ({n: statistics.median(t[i] for t in took) for n, took in rounds.items()} for i in (0, 1))
            found["series"][kind] = {"first_task_s": cold, "clock_s": clock, "longest_way_s": way}
    list(ray.map(nothing, range(30)))
    found["part_s"] = seconds(lambda: list(ray.map(nothing, range(1_000)))) / 1_000
    return found


def table(found: Mapping[str, Any]) -> Iterator[str]:
    """Yields Markdown: what the model said, and what was measured."""
    yield "| learned | workers | model, s | wall-clock, s | longest way, s | model / longest way | against one worker |"
    yield "|---|---|---|---|---|---|---|"
    worst = 1.0
    slopes = []
    for kind, series in found["series"].items():
        sizes, way = SERIES[kind], series["longest_way_s"]
        words = f"{sizes.rows:,} {kind}"
        for n in COUNTS:
            said, took = found["said"][kind][str(n)], way[str(n)]
            clock = f"{series['clock_s'][str(n)]:.2f}" if n <= found["cores"] else "-"
            worst = max(worst, said / took, took / said)
            yield f"| {words} | {n} | {said:.2f} | {clock} | {took:.2f} | {said / took:.2f} | {way['1'] / took:.2f} |"
        slopes.append(f"{exponent([(float(n), way[str(n)]) for n in COUNTS]):.2f} for {kind}")
    yield ""
    here = "{processor}, {cores} cores, Python {python}".format(**found["machine"])
    first = ", ".join(f"{s['first_task_s']:.1f} s for {kind}" for kind, s in found["series"].items())
    yield (
        f"Largest factor between model and run: {worst:.2f}. Exponents of the longest way, over the last three points "
        f"(-1 is ideal): {', '.join(slopes)}. Starting a cluster of {max(COUNTS)} workers took {found['start_s']:.1f} "
        f"s, the first task on two of them, which import and load everything, {first}; a part that does nothing "
        f"{1_000 * found['part_s']:.1f} ms. {here}."
    )


def draw(found: Mapping[str, Any]) -> None:
    """Writes the picture: time against workers, on logarithmic axes."""
    from reticent.report import axes, picture, svg

    plots = []
    for kind, series in found["series"].items():
        lines = {
            "longest way": series["longest_way_s"],
            "wall-clock": {n: s for n, s in series["clock_s"].items() if int(n) <= found["cores"]},
            "model": found["said"][kind],
        }
        points = {
            words: [
                svg.Point(x=math.log10(int(n)), y=math.log10(s), at=f"{n} workers", value=f"{s:.3g} s")
                for n, s in line.items()
            ]
            for words, line in lines.items()
        }
        x = axes.powers("workers", [1.0, 10.0])
        y = axes.powers("seconds", [s for line in lines.values() for s in line.values()])
        drawn = [svg.Series(name=words, style=style, points=p) for style, (words, p) in enumerate(points.items())]
        plots.append(svg.Plot(caption=f"{SERIES[kind].rows:,} {kind}", series=drawn, x=x, y=y, size=(560, 250)))
    words = "Both axes are logarithmic: twice as many workers in half the time is a straight line downwards."
    (DOCS / "scaling-workers.svg").write_text(picture.standalone("Time by workers", plots, words), encoding="utf-8")


def main() -> None:
    """Measures, draws, and writes the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="JSON of what was measured, where the workers are added")
    parser.add_argument("--page", type=Path, help="the page whose table of workers is replaced")
    parser.add_argument("--stored", action="store_true", help="measure nothing: write the table of what is stored")
    asked = parser.parse_args()
    everything = json.loads(asked.out.read_text(encoding="utf-8"))
    if not asked.stored:
        everything["workers"] = json.loads(json.dumps(measured()))
        asked.out.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    if asked.page is not None:
        before, _, rest = asked.page.read_text(encoding="utf-8").partition(BEGIN)
        made = "\n".join(table(everything["workers"]))
        asked.page.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
        draw(everything["workers"])


if __name__ == "__main__":
    main()
