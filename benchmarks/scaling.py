"""How time and memory grow with each size of a stream: measures, fits exponents, and draws docs/scaling-*.svg.

    python benchmarks/scaling.py benchmarks/scaling.json --page docs/scaling.md

Each point is a process of its own on one thread, forked from one that has imported and compiled everything: it writes
Parquet files, learns them by `reticent learn` and predicts by `reticent predict`, so reading, sums, noise, ledger and
files are all in. Times are processor time of the verbs alone; memory is the most that the process holds while a verb
runs, with everything that was imported. Points that the file holds already are not measured again, so a run that was
stopped goes on. About five minutes on an idle machine.

    python benchmarks/scaling.py benchmarks/scaling.json --only forecasts --page docs/scaling.md

runs streams of other sizes than those that speeds were fitted to. What the model says of each is written into the file
before it is run, and stays there. `--only texts` does the same for texts, which the default encoder reads: loading it
and its probes, once in each process, are in the measured time, since a user waits for them, too.
"""

from contests import machine, on_one_thread, processor_time

on_one_thread()

import argparse
import gc
import importlib
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
MEASURES = ("learn_s", "predict_s", "learn_mib", "predict_mib", "model_mib")
FITTED = ("learn_s", "predict_s", "model_mib")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """One point; the names are those of `reticent.running_costs.Workload`."""

    rows: int = 50_000
    width: int = 384
    labels: int = 100
    live_labels: int = 100
    tasks: int = 1
    predicted: int = 20_000
    heads: bool = False
    file: str = "parquet"
    texts: bool = False

    @property
    def key(self) -> str:
        """What the file of results calls it."""
        named = asdict(self)
        if self.file == "parquet":
            del named["file"]
        if not self.texts:
            del named["texts"]
        return json.dumps(named)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What is varied, from where, and over which values."""

    field: str
    words: str
    values: Sequence[int]
    base: Sizes = Sizes()

    def points(self) -> list[Sizes]:
        """Returns the points; as many rows are predicted as learned where rows are varied."""
        made = [replace(self.base, **{self.field: value}) for value in self.values]  # type: ignore[arg-type]
        return [replace(p, predicted=p.rows) for p in made] if self.field == "rows" else made


AXES = {
    "rows": Axis(field="rows", words="rows", values=(25_000, 50_000, 100_000, 200_000, 400_000)),
    "width": Axis(field="width", words="features of a row", values=(96, 192, 384, 768, 1536)),
    "tasks": Axis(
        field="tasks",
        words="tasks, the same rows",
        values=(1, 4, 16, 64),
        base=Sizes(rows=6_400, predicted=2_000),
    ),
    "labels": Axis(
        field="labels",
        words="public labels, 100 with examples",
        values=(100, 500, 2_000, 10_000, 100_000, 1_000_000),
        base=Sizes(rows=20_000),
    ),
    "live": Axis(
        field="live_labels",
        words="labels with examples, of 100,000",
        values=(100, 1_000, 4_000, 16_000),
        base=Sizes(rows=80_000, width=128, labels=100_000),
    ),
    "ensemble": Axis(
        field="tasks",
        words="heads of an ensemble, 10 labels each",
        values=(1, 4, 16, 64),
        base=Sizes(rows=6_400, labels=10, live_labels=10, heads=True, predicted=10_000),
    ),
}


FORECASTS = (  # no size is one of those above, and several differ at once
    Sizes(rows=1_500_000, width=64, labels=20, live_labels=20, predicted=300_000),
    Sizes(rows=300_000, width=512, labels=1_000, live_labels=1_000, tasks=3, predicted=30_000),
    Sizes(rows=60_000, width=1_024, labels=300, live_labels=30, tasks=30, predicted=10_000),
    Sizes(rows=150_000, width=256, labels=30_000, live_labels=300, tasks=6, predicted=50_000),
    Sizes(rows=120_000, width=96, labels=300_000, live_labels=2_500, tasks=2, predicted=5_000),
    Sizes(rows=12_000, width=200, labels=40, live_labels=40, tasks=120, predicted=3_000),
    Sizes(rows=40_000, width=300, labels=60, live_labels=60, tasks=2, predicted=15_000, file="csv"),
    Sizes(rows=250_000, width=320, labels=250, live_labels=250, tasks=5, predicted=80_000, file="npz"),
)

TEXTS = (
    Sizes(rows=400, labels=20, live_labels=20, predicted=200, texts=True),
    Sizes(rows=2_400, labels=20, live_labels=20, predicted=800, texts=True),
)


# --- one point, in a process of its own


def point(sizes: Sizes) -> dict[str, float]:
    """Learns and predicts one stream and returns what it took."""
    import reticent as rt
    from reticent.cli import app

    def verb(*words: object) -> None:
        with redirect_stdout(sys.stderr):
            app([str(word) for word in words], standalone_mode=False)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = ("--text", "x") if sizes.texts else ("--features", features_of(sizes))
        learner = rt.PeftEnsemble(task_size=max(1, sizes.rows // sizes.tasks)) if sizes.heads else rt.Cosine()

        made = rt.ContinualClassifier(
            labels=rt.PublicLabels(f"label {i}" for i in range(sizes.labels)),
            budget=rt.Budget(epsilon=8.0, delta=1e-5),
            learner=learner,
            encoder=rt.encoders.minilm() if sizes.texts else None,
            path=folder / "model",
        )
        made.privacy_statement()  # makes the folder
        files = [folder / f"task {t}.{sizes.file}" for t in range(sizes.tasks)]
        for t, file in enumerate(files):
            write(file, sizes, sizes.rows // sizes.tasks, seed=t)
        write(folder / f"fresh.{sizes.file}", sizes, sizes.predicted, seed=-1)
        start = _reset()
        for file in files:
            verb("learn", file, "--model", folder / "model", *inputs, "--label", "y", "--each-row-is-a-person")
        learned, learn_mib = processor_time() - start, resident_peak()
        start = _reset()
        asked = ("--model", folder / "model", *inputs, "-o", folder / "out.csv")
        verb("predict", folder / f"fresh.{sizes.file}", *asked)
        predicted, predict_mib = processor_time() - start, resident_peak()
        size = sum(f.stat().st_size for f in (folder / "model").rglob("*") if f.is_file() and f.name != "labels.json")
    return dict(zip(MEASURES, (learned, predicted, learn_mib, predict_mib, size / 2**20), strict=True))


def features_of(sizes: Sizes) -> str:
    """Returns the names of the columns that hold features."""
    return ",".join(f"x{i}" for i in range(sizes.width)) if sizes.file == "csv" else "x"


def write(path: Path, sizes: Sizes, rows: int, seed: int) -> None:
    """Writes rows of a point: made-up features, or public texts with labels that mean nothing."""
    if not sizes.texts:
        write_rows(path, rows, sizes.width, sizes.live_labels, seed=seed)
        return
    import pyarrow as pa
    from encoding import descriptions
    from pyarrow import parquet

    labels = [f"label {i % sizes.live_labels}" for i in range(rows)]
    parquet.write_table(pa.table({"x": descriptions(rows), "y": labels}), path)


def write_rows(path: Path, rows: int, width: int, live: int, seed: int = 0) -> None:
    """Writes made-up rows around the centres of their labels, a few at a time."""
    import numpy as np

    parts = made_up(rows, width, live, seed)
    if path.suffix == ".parquet":
        write_parquet(path, parts, width)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8") as stream:
            stream.write(",".join([*(f"x{i}" for i in range(width)), "y"]) + "\n")
            for x, y in parts:
                stream.writelines(
                    ",".join([*(f"{v:.6f}" for v in row), label]) + "\n" for row, label in zip(x, y, strict=True)
                )
    else:
        whole = list(parts)
        np.savez(path, x=np.concatenate([x for x, _ in whole]), y=np.array([label for _, y in whole for label in y]))


def made_up(rows: int, width: int, live: int, seed: int) -> Iterator[tuple[Any, list[str]]]:
    """Yields features and labels of some rows at a time."""
    import numpy as np

    centres = np.random.default_rng(7).standard_normal((live, width), dtype=np.float32)
    draw = np.random.default_rng(seed + 1)
    for start in range(0, rows, 10_000):
        which = draw.integers(0, live, min(10_000, rows - start))
        x = centres[which] + draw.standard_normal((len(which), width), dtype=np.float32)
        yield x, [f"label {i}" for i in which]


def write_parquet(path: Path, parts: Iterator[tuple[Any, list[str]]], width: int) -> None:
    """Writes rows as a column of lists."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([("x", pa.list_(pa.float32(), width)), ("y", pa.string())])
    with parquet.ParquetWriter(path, schema, compression="none") as writer:
        for x, y in parts:
            flat = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), width)
            writer.write_table(pa.table([flat, pa.array(y)], schema=schema))


def resident_peak() -> float:
    """Returns the most MiB that this process has held since its peak was reset."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def _reset() -> float:
    """Forgets the peak of what came before, and returns the time."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return processor_time()


# --- all points


def measured(out: Path, only: Sequence[str]) -> dict[str, Any]:
    """Measures what is missing, writing after each point, and returns everything."""
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"points": {}}
    wanted = {p.key: p for name, a in AXES.items() if not only or name in only for p in a.points()}
    ahead = {p.key: p for p in FORECASTS if not only or "forecasts" in only}
    ahead |= {p.key: p for p in TEXTS if "texts" in only}
    missing = {key: sizes for key, sizes in (wanted | ahead).items() if key not in found["points"]}
    if not missing:
        return found
    said = found.setdefault("forecasts", {})
    said |= {key: model_of(sizes) for key, sizes in ahead.items() if key in missing}  # before any of them is run
    for library in ("torch", "transformers") if "texts" in only else ():
        importlib.import_module(library)  # but each point loads its encoder
    for warm in (Sizes(rows=50, predicted=50), Sizes(rows=50, predicted=50, heads=True)):
        point(warm)  # imports and compiles, so that processes that are forked need not
    with get_context("fork").Pool(1, maxtasksperchild=1) as fresh:
        for key, sizes in missing.items():
            found["points"][key] = fresh.apply(point, (sizes,))
            found["machine"] = machine()
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(key, found["points"][key], flush=True)
    return found


def curve(axis: Axis, measure: str, points: Mapping[str, Mapping[str, float]]) -> list[tuple[float, float]]:
    """Returns size and cost of the points of an axis that were measured."""
    found = ((getattr(s, axis.field), points.get(s.key)) for s in axis.points())
    return [(float(size), cost[measure]) for size, cost in found if cost is not None]


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Returns the slope of a line through the last three points on logarithmic axes: 1 is linear, 0 constant.

    >>> round(exponent([(1.0, 5.0), (10.0, 30.0), (100.0, 300.0), (1000.0, 3000.0)]), 3)
    1.0
    """
    last = [(math.log(x), math.log(y)) for x, y in points[-3:]]
    x0, y0 = (math.fsum(values) / len(last) for values in zip(*last, strict=True))
    return math.fsum((x - x0) * (y - y0) for x, y in last) / math.fsum((x - x0) ** 2 for x, _ in last)


# --- the page


def tables(points: Mapping[str, Mapping[str, float]], said: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yields Markdown: exponents, then predicted against measured of the runs that were fitted, and of others."""
    yield "| what grows | learn, time | predict, time | learn, memory | predict, memory | model |"
    yield "|---|---|---|---|---|---|"
    for axis in AXES.values():
        curves = [curve(axis, measure, points) for measure in MEASURES]
        cells = (f"{exponent(c):.2f}" if len(c) >= 3 else "-" for c in curves)
        yield f"| {axis.words} | {' | '.join(cells)} |"
    yield ""
    yield from checks(points)
    yield ""
    yield "**Forecasts.** Runs of other sizes, said before they were run and not fitted to since; said / measured:"
    yield ""
    yield from forecasts(FORECASTS, points, said)
    if any(sizes.key in points for sizes in TEXTS):
        yield ""
        yield "**Texts**, in the same way. Loading the encoder and its probes are measured, and not in what was said:"
        yield ""
        yield from forecasts(TEXTS, points, said)


def forecasts(
    runs: Sequence[Sizes], points: Mapping[str, Mapping[str, float]], said: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """Yields a table of what the cost model said before runs of other sizes, and the largest factors."""
    sizes_and = ("file", "rows", "width", "labels", "live", "tasks")
    yield f"| {' | '.join((*sizes_and, 'learn, s', 'predict, s', 'learn, MiB', 'predict, MiB', 'model, MiB'))} |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    worst = dict.fromkeys(MEASURES, 1.0)
    for sizes in runs:
        if sizes.key not in points or sizes.key not in said:
            continue
        cells = []
        for measure in MEASURES:
            value, found = said[sizes.key][measure], points[sizes.key][measure]
            cells.append(f"{value:.3g} / {found:.3g}")
            worst[measure] = max(worst[measure], value / found, found / value)
        shown = (sizes.rows, sizes.width, sizes.labels, sizes.live_labels, sizes.tasks)
        file = "texts" if sizes.texts else sizes.file
        yield f"| {file} | {' | '.join(f'{n:,}' for n in shown)} | {' | '.join(cells)} |"
    yield ""
    yield (
        f"Largest factor: {worst['learn_s']:.2f} for learning, {worst['predict_s']:.2f} for predicting, "
        f"{worst['learn_mib']:.2f} and {worst['predict_mib']:.2f} for their memory, {worst['model_mib']:.2f} for the "
        "model's size."
    )


def checks(points: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yields a table of what the cost model says beside what was measured, and the largest factor between them."""
    yield "| rows | width | labels | live | tasks | learn, s | predict, s | model, MiB |"
    yield "|---|---|---|---|---|---|---|---|"
    worst: dict[str, float] = dict.fromkeys(FITTED, 1.0)
    for sizes in {point: None for axis in AXES.values() for point in axis.points() if not point.heads}:
        found = points.get(sizes.key)
        if found is None:
            continue
        said = model_of(sizes)
        cells = []
        for measure in FITTED:
            value = said[measure]
            cells.append(f"{value:.3g} / {found[measure]:.3g}")
            worst[measure] = max(worst[measure], value / found[measure], found[measure] / value)
        shown = (sizes.rows, sizes.width, sizes.labels, sizes.live_labels, sizes.tasks)
        yield f"| {' | '.join(f'{n:,}' for n in shown)} | {' | '.join(cells)} |"
    yield ""
    yield (
        f"Largest factor between model and run: {worst['learn_s']:.2f} for learning, {worst['predict_s']:.2f} for "
        f"predicting, {worst['model_mib']:.2f} for the size of the model."
    )


def model_of(sizes: Sizes) -> dict[str, float]:
    """Returns what the cost model says of a point, without the start of a process."""
    from reticent.running_costs import Workload, costs

    work = Workload(
        rows=sizes.rows,
        width=sizes.width,
        labels=sizes.labels,
        live_labels=sizes.live_labels,
        tasks=sizes.tasks,
        file=sizes.file,  # type: ignore[arg-type]
        texts=sizes.texts,
    )
    found = costs(work)
    scale = sizes.predicted / sizes.rows
    predict = found.predict["start"] - found.speeds.start + found.predict["combining"]
    predict += scale * sum(found.predict.get(part, 0.0) for part in ("encoding", "reading", "scoring"))
    return {
        "learn_s": found.learn_total - found.learn["start"],
        "predict_s": predict,
        "learn_mib": max(found.memory["worker"], found.memory["driver"]) / 2**20,
        "predict_mib": found.memory["predicting"] / 2**20,
        "model_mib": (found.disk["model"] - 20 * sizes.labels) / 2**20,
    }


def draw(points: Mapping[str, Mapping[str, float]]) -> None:
    """Writes the pictures: time and memory against each size, on logarithmic axes."""
    from reticent.report import axes, picture, svg

    for name, unit, lines in (
        ("time", "seconds", {"learn_s": "learn", "predict_s": "predict"}),
        ("memory", "MiB", {"learn_mib": "learn", "predict_mib": "predict", "model_mib": "model on disk"}),
    ):
        plots = []
        for axis in AXES.values():
            curves = {words: curve(axis, measure, points) for measure, words in lines.items()}
            if not all(curves.values()):
                continue
            series = [
                svg.Series(
                    name=f"{words}: exponent {exponent(line):.2f}" if len(line) >= 3 else words,
                    style=style,
                    points=[
                        svg.Point(x=math.log10(x), y=math.log10(y), at=f"{x:,.0f}", value=f"{y:.3g} {unit}")
                        for x, y in line
                    ],
                )
                for style, (words, line) in enumerate(curves.items())
            ]
            everything = [p for line in curves.values() for p in line]
            x = axes.powers(axis.words, [p[0] for p in everything])
            y = axes.powers(unit, [p[1] for p in everything])
            caption = f"{name.capitalize()} by {axis.words}"
            plots.append(svg.Plot(caption=caption, series=series, x=x, y=y, size=(560, 250)))
        words = "Both axes are logarithmic. The exponent is the slope through the last three points: 1 is linear."
        drawn = picture.standalone(f"How {name} grows", plots, words)
        (DOCS / f"scaling-{name}.svg").write_text(drawn, encoding="utf-8")


def main() -> None:
    """Measures, draws, and writes the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="JSON of what was measured; measured points are kept")
    parser.add_argument("--only", action="append", default=[], choices=[*AXES, "forecasts", "texts"], help="an axis")
    parser.add_argument("--page", type=Path, help="the page whose tables are replaced, and whose pictures are drawn")
    asked = parser.parse_args()
    found = measured(asked.out, asked.only)
    if asked.page is not None:
        before, _, rest = asked.page.read_text(encoding="utf-8").partition(BEGIN)
        made = "\n".join(tables(found["points"], found.get("forecasts", {})))
        asked.page.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
        draw(found["points"])


if __name__ == "__main__":
    main()
