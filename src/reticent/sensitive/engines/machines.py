"""Machines of a cluster: what decides about bits there, so that those that differ are refused; and their silence."""

import contextlib
import functools
import importlib.metadata
import os
import platform
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reticent import errors

_KERNELS = (  # what the user tells libraries to make of a processor
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "NPY_DISABLE_CPU_FEATURES",
    "NUMBA_CPU_FEATURES",
    "NUMBA_CPU_NAME",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
)
_COMPUTING = ("reticent", "ray", "numpy", "numba", "scipy", "torch", "transformers", "tokenizers", "onnxruntime")


class Machine(NamedTuple):
    """A machine, as far as it decides about bits; all public.

    Args:
        versions: Of Python and of what computes.
        processor: Its name, what it can do and what of that is used: the order of sums depends on it.
        files: What it sees of files, with their sizes; -1 for one that it cannot read.
    """

    versions: tuple[tuple[str, str], ...]
    processor: str
    files: tuple[tuple[str, int], ...] = ()


def machine_here(files: Iterable[Path] = ()) -> Machine:
    """Returns the machine of this process.

    Args:
        files: What will be read there.
    """
    return _machine()._replace(files=tuple((str(file), _size(file)) for file in files))


def one_kind(here: Machine, machines: Sequence[Machine]) -> Machine:
    """Returns what all machines are, without files; refuses those that do not compute the same bits.

    What one person adds is bounded because all other rows stay as they are. On machines that round in different ways,
    one row more would send others elsewhere, and change them.

    Args:
        here: The machine that asks. It adds up nothing, so its processor may be another.
        machines: Those that compute.
    """
    if not machines:
        raise errors.ReticentError("Expected a cluster with at least one processor. Nothing was spent.")
    for machine in machines:
        for (name, mine), (_, theirs) in zip(here.versions, machine.versions, strict=True):
            if theirs != mine:
                raise errors.ReticentError(
                    f"Expected {name} {mine} on every machine of the cluster, as here; one has {theirs}. Nothing was "
                    "spent. Install the same versions everywhere."
                )
        for (file, size), (_, other) in zip(here.files, machine.files, strict=True):
            if other != size:
                raise errors.ReticentError(
                    f"Expected {Path(file).name} on every machine of the cluster, under the same path and with the "
                    "same size as here; on one it is not. Nothing was spent. Use a file system that all machines share."
                )
        if machine.processor != machines[0].processor:
            raise errors.ReticentError(
                "Expected processors of one kind in the cluster: on others, sums differ in their last bits, and where "
                "a row is computed would change it. Nothing was spent. Use machines of one type."
            )
    return machines[0]._replace(files=())


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Keeps what is said in a worker from the files in which its cluster keeps it: warnings, logs and prints."""
    with contextlib.ExitStack() as stack:
        nowhere = stack.enter_context(open(os.devnull, "w"))
        stack.enter_context(contextlib.redirect_stdout(nowhere))
        stack.enter_context(contextlib.redirect_stderr(nowhere))
        stack.enter_context(errors.silenced())
        yield


@functools.cache
def _machine() -> Machine:
    from llvmlite import binding

    versions = (("Python", platform.python_version()), *((name, _version(name)) for name in _COMPUTING))
    used = [f"{name}={os.environ[name]}" for name in _KERNELS if name in os.environ]
    return Machine(versions, " ".join((binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), *used)))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _size(file: Path) -> int:
    """Bytes of a file that can be read here, 0 of a folder; -1 of what cannot be read."""
    try:
        found = file.stat()
    except OSError:
        return -1
    if not os.access(file, os.R_OK):
        return -1
    return 0 if stat.S_ISDIR(found.st_mode) else found.st_size
