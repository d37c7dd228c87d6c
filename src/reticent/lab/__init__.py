"""Experiments; nothing a model needs to run."""
