"""Label selection formulas: threshold, probability of release, divergence. No data, no randomness.

Contains the laws, one mechanism a file, and `mechanism_table`, which names them. A law maps the number n of examples
of one label to the probability that the label is released; a label without examples never is. Each law states its
probability twice: fast in float64 for planning, and to any precision for drawing, as an integer out of 2^256
(`gate.mechanisms` compares it with 256 random bits). What a law costs when composed is in `profiles`.
"""

from reticent.privacy.selection.binary_test import BinaryTestLaw
from reticent.privacy.selection.divergences import divergence, drawn_law, hockey_stick, sizes_to_check
from reticent.privacy.selection.gaussian_counts import SCALE, GaussianLaw, count_step, gaussian_threshold
from reticent.privacy.selection.laplace import LaplaceLaw
from reticent.privacy.selection.laws import COIN_BITS, CountLaw, Floats, Law, smallest_class, upper_bound
from reticent.privacy.selection.mechanism_table import TABLE, law
from reticent.privacy.selection.optimal import OptimalLaw
from reticent.privacy.selection.truncated_geometric import TruncatedGeometricLaw

__all__ = [
    "COIN_BITS",
    "SCALE",
    "TABLE",
    "BinaryTestLaw",
    "CountLaw",
    "Floats",
    "GaussianLaw",
    "LaplaceLaw",
    "Law",
    "OptimalLaw",
    "TruncatedGeometricLaw",
    "count_step",
    "divergence",
    "drawn_law",
    "gaussian_threshold",
    "hockey_stick",
    "law",
    "sizes_to_check",
    "smallest_class",
    "upper_bound",
]
