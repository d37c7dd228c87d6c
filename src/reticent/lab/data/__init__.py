"""Public data for experiments, and how it is cut into streams of tasks."""
