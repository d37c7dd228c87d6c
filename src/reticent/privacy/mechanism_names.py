"""What label mechanisms are called; apart from their formulas, so that `--help` can list them without SciPy."""

JOINT_GAUSSIAN = "joint-gaussian"
OPTIMAL, TRUNCATED_GEOMETRIC, LAPLACE = "optimal", "truncated-geometric", "laplace"
MECHANISMS = (JOINT_GAUSSIAN, OPTIMAL, TRUNCATED_GEOMETRIC, LAPLACE)
"""All of them; one that is not the joint Gaussian has a row in `selection.TABLE`."""
DEFAULT_SHARE = 0.1
"""The part of a budget that goes to the labels, where a mechanism selects them by itself."""
