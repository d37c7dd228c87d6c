"""Learners: frozen settings with one verb, `learn_task`."""
