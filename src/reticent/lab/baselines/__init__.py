"""Baselines of the paper: what privacy costs, and what other ways of learning a stream reach."""
