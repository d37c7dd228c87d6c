"""Sensitive: what may touch private examples. What leaves goes through the gate.

Here live tasks, whose examples they hold, what is computed of them (gradients, cached features), and learners.
"""
