"""Engines: where the parts of a task are worked on. Speed alone: none changes a bit of what is released of features."""

from reticent.sensitive.engines.arrow import InArrow
from reticent.sensitive.engines.engine import Engine, Part
from reticent.sensitive.engines.local import Local
from reticent.sensitive.engines.ray import Ray

__all__ = ["Engine", "InArrow", "Local", "Part", "Ray"]
