"""Dataclasses of a package, for tests that none of them can be changed once it is made."""

import dataclasses
import importlib
import pkgutil
from types import ModuleType


def dataclasses_of(package: ModuleType) -> set[type]:
    """Returns all dataclasses that the modules of a package define."""
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    modules = [importlib.import_module(name) for name in names]
    found = [(module.__name__, value) for module in modules for value in vars(module).values()]
    return {
        value
        for name, value in found
        if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == name
    }
