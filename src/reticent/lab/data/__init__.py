"""Public data sets for experiments, and how they become streams of tasks. Nothing here is for sensitive data."""
