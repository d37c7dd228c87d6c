"""Where numbers come from, in words: the command that measured them, its version, and the machine."""

from collections.abc import Mapping
from typing import Any


def machine(environment: Mapping[str, Any]) -> str:
    """Returns an environment as results have it, in words.

    >>> machine({"python": "3.12.1", "machine": "x86_64", "cores": 2, "threads": "1", "versions": {"numpy": "2.1.0"}})
    'Python 3.12.1, x86_64, 2 cores, 1 thread(s) a run; numpy 2.1.0.'
    """
    versions = ", ".join(f"{name} {number}" for name, number in environment["versions"].items())
    threads = f", {environment['threads']} thread(s) a run" if environment["threads"] else ""
    where = f"Python {environment['python']}, {environment['machine']}, {environment['cores']} cores{threads}"
    return f"{where}; {versions}."


def measured_by(found: Mapping[str, Any]) -> str:
    """Returns which command measured something, in which version, and where.

    Args:
        found: As in `attack.json` and `drop.json`.
    """
    return f"Measured by {found['command']}, version {found['version']}. {machine(found['environment'])}"
