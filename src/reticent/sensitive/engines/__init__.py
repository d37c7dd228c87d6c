"""Engines: where the parts of a task are worked on. Speed alone: which engine there is changes no bit of a release."""

from reticent.sensitive.engines.ray import Ray

__all__ = ["Ray"]
