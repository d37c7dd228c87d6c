"""Results of a benchmark that never ran, in the shape of real ones."""

import math
import random
from typing import Any

CLASSES = {"clinc150": 150, "cifar100-features": 100, "icd10cm": 286}
SKILL = {"naive": 0.35, "cosine-paper": 0.62, "cosine": 0.74, "peft-paper": 0.7, "peft": 0.78, "noncl": 0.85}
EVIL = "<script>document.title = 'won'</script>"


def runs() -> list[dict[str, Any]]:
    """About 260 runs: sweeps of epsilon, ratio and share, with seeds, a failure and a hostile error."""
    cells = [
        _cell(data, learner, labels, epsilon, seed)
        for data in CLASSES
        for learner in SKILL
        for labels in (("oracle", "released") if learner.startswith("cosine") else ("oracle",))
        for epsilon in ((0.5, 1, 8, None) if data == "clinc150" else (1,))
        for seed in range(5)
    ]
    cells += [
        _cell("clinc150", learner, "oracle", epsilon, seed, ratio=ratio)
        for learner in ("cosine", "cosine-paper")
        for ratio in (10, 50)
        for epsilon in (1, 8)
        for seed in range(3)
    ]
    cells += [
        _cell("clinc150", "cosine-paper", "released", epsilon, seed, share=share)
        for share in (1, 5, 10, 25, 50, 90)
        for epsilon in (1, 8)
        for seed in range(3)
    ]
    found = [_run(cell) for cell in cells]
    failed = {**_cell("clinc150", "peft", "oracle", 2, 0)}
    found.append({"format": 2, "private": False, "run": failed, "status": "failed", "error": f"No memory {EVIL}"})
    return found


def tables() -> list[dict[str, Any]]:
    return [
        {
            "title": f"Main results {EVIL}",
            "caption": "Accuracy in %, median (second worst, second best).",
            "columns": ["data", "learner", "ε = 1", "ε = 8"],
            "rows": [
                ["clinc150", "cosine", "84.1 (83.9, 84.4)", "88.0 (87.8, 88.1)"],
                ["clinc150", "peft", "*not run here* (about 25 min)", "*failed*"],
            ],
            "notes": ["The paper's numbers are for other features."],
        }
    ]


def attack() -> dict[str, Any]:
    epsilons = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    bounds = [[e, math.exp(e) / (1 + math.exp(e))] for e in epsilons]
    points = [
        _played(target, True, game, e, 0.5 + (bound - 0.5) * share)
        for game, part in (("the class size that gives most away", 1.0), ("the only one with the label", 0.02))
        for target, share in (
            ("truncated geometric", 0.9 * part),
            ("optimal", 0.97 * part),
            ("Laplace threshold", 0.8 * part),
            ("joint Gaussian", 0.6 * part),
            ("public labels", 0.55 * part),
        )
        for e, bound in bounds
    ]
    points += [_played("DP weights", False, "the only one with the label", e, 1.0) for e in epsilons]
    return {"points": points, "bounds": bounds, **_origin("attack")}


def drop() -> dict[str, Any]:
    sizes = [round(10 ** (k / 50)) for k in range(150)]
    curves = []
    for epsilon in (0.1, 1, 8):
        for mechanism, pace in (("any mechanism, at least", 5), ("the paper's", 7), ("ours", 6)):
            chances = [1 / (1 + math.exp(min(epsilon * size / pace - 8, 300))) for size in sizes]
            curves.append({"epsilon": epsilon, "mechanism": mechanism, "sizes": sizes, "probability": chances})
    return {"delta": 1e-7, "curves": curves, **_origin("drop")}


def _origin(kind: str) -> dict[str, Any]:
    where = {"python": "3.12", "machine": "m", "cores": 2, "threads": None, "versions": {}}
    return {"version": 7, "command": f"reticent bench {kind}", "environment": where}


def _played(target: str, remedy: bool, game: str, epsilon: float, accuracy: float) -> dict[str, Any]:
    interval = [max(accuracy - 0.02, 0), min(accuracy + 0.02, 1)]
    facts = {"target": target, "remedy": remedy, "game": game, "accuracy": accuracy}
    return {**facts, "epsilon": epsilon, "delta": 1e-5, "interval": interval}


def _adapter(learner: str) -> str | None:
    if learner.startswith("cosine"):
        return None
    return "film" if learner == "peft" else "last_layer"


def _cell(data: str, learner: str, labels: str, epsilon: float | None, seed: int, **more: Any) -> dict[str, Any]:
    own = {"ratio": 0, "share": None, "adapter": _adapter(learner), "tasks": 10, **more}
    return {"data": data, "learner": learner, "labels": labels, "epsilon": epsilon, "seed": seed, **own}


def _run(cell: dict[str, Any]) -> dict[str, Any]:
    draw = random.Random(str(cell))
    noise = 0.0 if cell["epsilon"] is None else 0.22 / (1 + cell["epsilon"])
    top = SKILL[cell["learner"]] - noise - (0.06 if cell["labels"] == "released" else 0) + cell["ratio"] / 900
    if cell["share"] is not None:
        top -= 0.1 * math.log10(cell["share"] / 12) ** 2
    tasks = cell["tasks"]
    matrix: list[list[float | None]] = [
        [
            None if i > t else min(max(top + 0.02 * (tasks - t) - 0.004 * (t - i) + draw.gauss(0, 0.012), 0), 1)
            for i in range(tasks)
        ]
        for t in range(tasks)
    ]
    curve = [sum(v for v in row if v is not None) / (t + 1) for t, row in enumerate(matrix)]
    count = CLASSES[cell["data"]]
    classes = None
    if cell["labels"] == "released" and cell["epsilon"] is not None:
        sizes = [100] * count if cell["data"] == "clinc150" else [max(2, int(900 / (k + 1))) for k in range(count)]
        planned = [1 / (1 + math.exp(max(8 - cell["epsilon"] * size / 8, -300))) for size in sizes]
        classes = [[size, draw.random() < p, p] for size, p in zip(sizes, planned, strict=True)]
    private = cell["epsilon"] is not None
    event = {"kind": "JointGaussian", "noise_multiplier": 4.219, "count_weight": 0.03, "threshold": 52.1}
    ledger = [
        {"row": t + 2, "task": f"task {t + 1}", "event": event, "epsilon": cell["epsilon"], "private": False}
        for t in range(tasks)
    ]
    spent = {
        "epsilon": 0.9999 * cell["epsilon"] if private else None,
        "delta": 1e-5,
        "statement": f"Privacy statement\n\nNOT PRIVATE: noise was drawn from a seeded source. {EVIL}",
        "ledger": ledger,
    }
    peft = cell["learner"].startswith("peft")
    return {
        "format": 2,
        "private": False,
        "run": cell,
        "status": "done",
        "error": None,
        "accuracy": curve[-1],
        "forgetting": None if cell["learner"] == "noncl" else 0.05 + noise / 5 + draw.gauss(0, 0.004),
        "matrix": matrix,
        "curve": curve,
        "aggregations": {"argmax": curve[-1], "median": curve[-1] + 0.003, "entropy": curve[-1] - 0.01} if peft else {},
        "known": count if classes is None else sum(kept for _, kept, _ in classes),
        "classes": classes,
        "seconds": {"learn": draw.uniform(1, 9), "evaluate": draw.uniform(0.1, 1)},
        "spent": spent,
        "environment": {},
        "digests": {},
    }
