"""Golden runs: one run of every kind, made by the benchmark's own code, and what it gave when it was recorded.

A row of results is worth keeping as long as the code gives the same numbers. So each kind of run is made again by the
tests and compared with `runs.json`: to the last digit on the kind of processor, with the libraries, that recorded it;
elsewhere within `TOLERANCE`, since other kernels add up in another order.
"""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from reticent.lab.bench.one_run import result_of
from reticent.lab.bench.run import Run
from reticent.lab.bench.workspace import Workspace

FILE = Path(__file__).with_name("runs.json")
SHARED = Path(__file__).parents[3] / "shared" / "data"
# Of a share of answers: one of the smallest task, of 36. With the kernels of other processors (OPENBLAS_CORETYPE,
# ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA, MKL_ENABLE_INSTRUCTIONS, NPY_DISABLE_CPU_FEATURES, NUMBA_CPU_NAME) and two
# threads no answer of the fast runs differed; shares of `peft-paid` by 0.003, epsilon by 4e-9, tuned settings by 4e-13.
TOLERANCE = 0.03
CHANGED = (
    "{run} does not give the golden numbers: {differing}. If the change is meant, raise the version of {learner} in "
    "src/reticent/lab/bench/versions.py, record anew (python -m tests.golden), and say so in the changelog."
)
# Environment variables that choose kernels, and packages that have them
_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_", "MKL_", "ATEN_", "ONEDNN_", "DNNL_", "NPY_", "NUMBA_")
_LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "numba", "torch", "transformers", "tokenizers", "onnxruntime", "optuna"),
    *("mpmath", "dp-accounting"),
)
MEASURES = (
    *("accuracy", "forgetting", "known", "public", "parent"),
    *("curve", "forgetting_curve", "overall", "aggregations"),
)


def _runs(data: str, *several: Mapping[str, Any], **fields: Any) -> list[Run]:
    return [Run(**{"data": data, "epsilon": 8.0, **fields, **one}) for one in several]


def _of(learner: str, *several: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"learner": learner, **one} for one in several or ({},)]


NOISY = {"epsilon": 0.3}  # where answers hang on every constant
ALL_BLURRY = {"ratio": 100.0, "blurry": 100.0}
# A second each, from what comes with packages
PIXELS = _runs(
    "tests.golden.data:pixels",
    *_of("cosine", {**NOISY}, {"epsilon": 1.0, "persons": 3}, {"epsilon": None}, {**ALL_BLURRY, **NOISY}),
    *_of("cosine", *({"labels": f"public-{times}x", "ratio": 50.0, **NOISY} for times in (10, 1000))),
    *_of("cosine", {"labels": "released", **NOISY}),
    *_of("cosine-paper", {**NOISY}, {"labels": "oracle"}, {"labels": "public-100x", **NOISY}, {"persons": 5}),
    *_of("cosine-paper", {"labels": "released", "share": 10.0, "ratio": 50.0, "epsilon": 1.0}),
    *_of("peft", {}, {"epsilon": 1.0}, {"epsilon": None}, {"labels": "oracle"}, {"persons": 3}, {"ratio": 50.0}),
    *_of("peft", {"labels": "public-1000x"}, {"labels": "released"}),
    *_of("peft-paper", {}, {"epsilon": None}, {"labels": "oracle"}, {"ratio": 10.0}, {"labels": "public-10x"}),
    *_of("peft-paper", {"labels": "released", "share": 20.0}),
    *_of("peft-paid"),
    *(run for learner in ("naive", "naive-paper", "desai", "desai-paper") for run in _of(learner)),
    *_of("noncl", {"tasks": 1}),
    *_of("tests.lab.learners:mine"),
    tasks=5,
)
HOMES = _runs("tests.golden.data:pixels_in_tasks", *_of("cosine-paper"), *_of("peft-paper"), tasks=5)
TEXTS = _runs(
    "tests.golden.data:diagnoses",
    *_of("cosine", *({"labels": f"remap-{to}"} for to in ("parent", "unknown", "drop"))),
    *_of("cosine-paper", {"labels": "remap-parent"}),
    *_of("cosine", {"names": True}, {"names": True, "memory": "vault", "ratio": 50.0}),
    *_of("cosine", {"names": True, "memory": "recurring", "labels": "released", "epsilon": 4.0, **ALL_BLURRY}),
    *_of("noncl-paper", {"tasks": 1}),
    epsilon=1.0,
    tasks=4,
)
FEATURES = _runs(
    "cifar100-features",
    *_of("cosine", {"epsilon": 1.0}),
    *_of("cosine-paper", {"epsilon": 1.0}, {"labels": "released", "share": 10.0}),
)
FAST = [*PIXELS, *HOMES, *TEXTS, *FEATURES]

# Of whole data sets, which an encoder reads first, and through an encoder
SLOW = [
    *_runs("cifar100-features", *_of("peft"), *_of("peft-paper", {"labels": "released", "share": 30.0, "ratio": 50.0})),
    *_runs("digits", *_of("cosine-paper"), *_of("peft"), *_of("naive-paper"), *_of("noncl", {"tasks": 1}), tasks=5),
    *_runs("phenotypes", *_of("cosine", {"labels": "public-1000x"}), *_of("peft-paper", {"ratio": 50.0})),
    *_runs("icd10cm", *_of("cosine", {"labels": "remap-parent"})),
    *_runs("icd10cm-blocks", *_of("cosine", {"names": True, "memory": "vault", "labels": "released", "ratio": 100.0})),
    *_runs("clinc150", *_of("cosine", {"names": True, "memory": "recurring", "ratio": 50.0}), *_of("desai-paper")),
    *_runs("clinc150", *_of("peft-paid"), *_of("noncl-paper", {"tasks": 1})),
    *_runs("clinc150-banking", *_of("peft"), *_of("naive")),
    *_runs("digits-and-cifar100", *_of("peft-paper"), tasks=5),
    *_runs("tests.golden.data:few_diagnoses", *_of("peft", {"adapter": "film", "tasks": 1})),
    *_runs("tests.golden.data:few_digits", *_of("peft", {"adapter": "film", "tasks": 2})),
]


def made(run: Run, place: Workspace) -> dict[str, Any]:
    """Returns what a run gives, as far as rows of results have it."""
    found = result_of(run, place)
    return {
        **{name: found[name] for name in MEASURES if found.get(name) not in (None, {})},
        **({"orders": found["orders"]["forgetting"]} if "orders" in found else {}),
        "spent": found["spent"]["epsilon"],
        "learner": found["digests"]["learner"],
        "data": found["digests"]["data"],
    }


def kind_of_processor() -> dict[str, Any]:
    """Returns what decides which kernels the numeric libraries run, and which versions of them there are."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").split("\n\n")[0].splitlines() if file.exists() else []
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    vectors = sorted(flag for flag in said.get("flags", "").split() if flag.startswith(("sse", "avx", "fma", "amx")))
    return {
        "system": " ".join([platform.system(), platform.machine(), *platform.libc_ver()]),
        "cpu": " ".join(said.get(name, "") for name in ("vendor_id", "cpu family", "model")) or platform.processor(),
        "vectors": " ".join(vectors),
        "settings": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_SETTINGS)},
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
    }


def same_kind(birth: Mapping[str, Any]) -> bool:
    """Returns whether golden runs were recorded where numbers come out equal to the last digit."""
    return all(birth.get(name) == value for name, value in kind_of_processor().items())


def differing(stored: Mapping[str, Any], found: Mapping[str, Any], *, exactly: bool) -> dict[str, Any]:
    """Returns what a run gives now and what is stored, of all that differs.

    Args:
        stored: As in the file.
        found: As `made` returns it.
        exactly: To the last digit; else within `TOLERANCE`, and settings that were tuned may be others.
    """
    now = json.loads(json.dumps(found))  # as the file has it
    names = [name for name in {**stored, **now} if name not in ("run", "version")]
    pairs = {name: (stored.get(name), now.get(name)) for name in names}
    if exactly:
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return {name: pair for name, pair in pairs.items() if name != "learner" and not _near(*pair)}


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_near(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= TOLERANCE
    return bool(one == other)


def written(stored: Mapping[str, Any]) -> str:
    """Returns birth and runs as JSON that people read: a line for each number or list."""
    head = ",\n".join(f' "{name}": {json.dumps(value)}' for name, value in stored["birth"].items())
    each = [",\n".join(f'  "{name}": {json.dumps(value)}' for name, value in one.items()) for one in stored["runs"]]
    runs = ",\n".join(f" {{\n{one}\n }}" for one in each)
    return f'{{"birth": {{\n{head}\n}}, "runs": [\n{runs}\n]}}\n'


def fields_of(run: Run) -> dict[str, Any]:
    """Returns the settings of a run that are not the default ones."""
    return {name: value for name, value in asdict(run).items() if value != getattr(Run, name, None)}
