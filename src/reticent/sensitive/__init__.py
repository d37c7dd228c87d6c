"""Sensitive: what may touch private examples. Only the gate publishes anything of them.

Contains tasks and their persons, what is computed from examples (features, gradients), and learners.
"""
