"""What one person loses under replace-one: another person's examples take the place of a person's."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from reticent import errors
from reticent.privacy import events, gaussian, profiles, selection
from reticent.privacy.events import Event
from reticent.privacy.rounding import smallest_epsilon


@dataclass(frozen=True)
class OneReplacedJoint:
    """One joint release under replace-one: another person's examples take the place of a person's.

    Let R be the rows of all others, S and S' what the person contributes to D and to D', up to m examples each. Blocks
    of labels that are known, in R, or in both S and S' are computed in both runs; let j examples of S and j' of S' lie
    on other labels, s = j + j'. The common blocks are a Gaussian whose mean moves by at most (m - j) + (m - j') =
    2m - s, with laws Q and Q'. D exposes a label that D' cannot have with chance a, independently of them, D' one that
    D cannot have with chance b; both are at most p, the exposure of min(s, m) examples. So P = (1 - a) Q + a E and
    P' = (1 - b) Q' + b E', with E and E' apart from everything else, and

        sup_A P(A) - e^epsilon P'(A) = a + sup_A (1 - a) Q(A) - e^epsilon (1 - b) Q'(A).

    It falls neither in a (the slope is 1 - Q(A)), nor in b, nor in the shift, so a = b = p is the worst, and gives
    p + (1 - p) delta_G(epsilon) <= p + delta_G(epsilon), in both directions; delta is the maximum over s.

    Guarantees (replace one person):
      - delta is at least the exact one, for every placement.  test_replacing_covers_every_placement
    """

    event: events.JointGaussian | events.LabelCounts

    def delta(self, epsilon: float) -> float:
        """The maximum over s = 0..2m."""
        sigma = self.event.noise_multiplier
        found = profiles.placements(self.event, 2 * self.event.examples_per_person)
        return min(1.0, max(math.nextafter(p + gaussian.delta(shared / sigma, epsilon), 2.0) for shared, p in found))

    def epsilon(self, delta: float) -> float:
        """By bisection on the curve."""
        return smallest_epsilon(self.delta, delta)


def replaced(event: Event) -> Event | None:
    """Returns an event that costs under add-or-remove-one at least what this one does under replace-one, or None.

    Mechanism by mechanism, since pairs of laws that dominate each one compose, adaptively too, to a pair that dominates
    all (Zhu, Dong and Wang 2022, Theorem 10). Sums move by twice as much. A joint release is the case of
    `OneReplacedJoint` with the largest shift, 2m, beside the largest exposure, p(m); it bounds every s at every
    epsilon. Selected labels are those of a group of 2m. For subsampled steps no proof that opposite gradients are the
    worst is known to us: None.

    Guarantees (replace one person):
      - Covers the exact divergence of two joint releases, for every placement.       test_replacing_covers_two_tasks
      - And of selected labels beside a Gaussian.                    test_replacing_covers_selected_labels_and_sums
    """
    try:
        parts = [part for leaf in profiles.leaves(event) for part in _replaced(leaf)]
    except errors.ReticentError:  # no proof, or values beyond what an event may have
        return None
    return events.compose(*parts) if parts else events.Public()


def _replaced(leaf: Event) -> Iterator[Event]:
    match leaf:
        case events.Gaussian(noise_multiplier=noise, examples_per_person=m):
            yield events.Gaussian(noise_multiplier=noise / 2, examples_per_person=m)
        case events.JointGaussian(examples_per_person=m) | events.LabelCounts(examples_per_person=m):
            yield events.Gaussian(noise_multiplier=leaf.noise_multiplier / 2, examples_per_person=m)
            yield events.Exposure(chance=min(selection.GaussianLaw(leaf).exposures(m)[m], 1 - 1e-9))
        case events.Remembered(count_weight=0.0):
            yield dataclasses.replace(leaf, noise_multiplier=leaf.noise_multiplier / 2)
        case events.LabelSelection(examples_per_person=m):
            yield dataclasses.replace(leaf, examples_per_person=2 * m)
        case events.Exposure():
            yield leaf
        case events.Adaptive():
            parts = ((part for one in profiles.leaves(kind) for part in _replaced(one)) for kind in leaf.kinds)
            yield events.Adaptive(tuple(events.compose(*kind) for kind in parts), leaf.times)
        case _:
            raise errors.UnsupportedEvent(f"No proof of replace-one for {type(leaf).__name__}.")
