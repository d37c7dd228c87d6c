"""The benchmark: specs, the runner, what one run measures, and the tables and pages made of it."""
