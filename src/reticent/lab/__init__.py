"""Experiments on public or synthetic data; nothing that a model needs to learn or predict.

`attack/` measures privacy from below, `baselines/` and `bench/` measure accuracy, `data/` has public data sets.
"""
