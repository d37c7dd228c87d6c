"""What memory between tasks costs: the rows of an epoch are one Gaussian mechanism, and each repeats its event.

`events.Remembered` is the price of a whole epoch. Here it becomes Gaussians and exposures: within one task, and for a
person in several.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping

from reticent.numerics import precision
from reticent.privacy import events
from reticent.privacy.events import Event, Remembered

_WORKING_BITS = 160
_MOST_SPLIT = 64  # tasks of one person; beyond, each is taken to move as much as the worst one alone
_LESS = 1 - 1e-15


def chance(event: Remembered) -> float:
    """Returns p1 = (2H - 1) Q(z), rounded up: the chance that a label with one example becomes known; 0 if public.

    Let D' = D + (x*, y*), the example in task s of an epoch, y* not known then. Let t1 be the first task in which D has
    y*. If t1 <= s, or there is a row in which y* is known in both runs, they look at the same labels at the same times:
    everything published is one function of the rows Y, a Gaussian mechanism with multiplier sigma. Else let f and f' be
    the functions of D and D', and E the event that a look at y* in the tasks s..t1 - 1 exceeds its threshold, or s..H
    where D never has it. Outside E, f = f': y* is not published before t1, and from then on both look at it, with
    statistics that begin at row 1. (One that is declared public in between is published with rows from then on, in both
    runs; the earlier example is dropped.) So

        P(S) = G(f in S) <= G(f' in S) + G(E) <= e^epsilon G'(f' in S) + delta_G(epsilon) + G(E),

    and the same with G and G' exchanged. A look is a fixed combination of rows; one example adds at most `most` to its
    mean and the threshold is `most` plus z deviations, so each exceeds it with chance at most Q(z), under G and under
    G'. There are two looks at each of at most H places, and at the first place they are the same one: by the union
    bound G(E) and G'(E) are at most (2H - 1) Q(z). The laws f(G) and f'(G) are within p1 in total variation, so p1 adds
    to delta in any composition, too.

    Guarantees (one example of one person, add or remove it):
      - delta is at least the exact one, and the larger of the two terms is not.
                      test_pending_labels_cost_at_most_their_claim, test_the_maximum_is_too_little_for_pending_labels

    >>> f"{chance(Remembered(noise_multiplier=4.0, horizon=12, epoch=1, count_weight=0.2, deviations=5.48)):.2g}"
    '4.9e-07'
    """
    if not event.count_weight:
        return 0.0
    with precision.bits(_WORKING_BITS) as mp:
        exact = float((2 * event.horizon - 1) * mp.ncdf(-mp.mpf(event.deviations)))
    return min(1.0, math.nextafter(exact, 2.0))


def squares_and_chance(counts: Mapping[Event, int]) -> tuple[float, float]:
    """Returns mu^2 and the exposure of the epochs among the events of one task; infinite where nothing is proven.

    Two rows of one epoch move the same noise: what a person moves adds up before it is squared. Two examples of a
    pending label are not covered by its threshold, and an epoch has one matrix and one noise.
    """
    squares = exposed = 0.0
    found = {event: times for event, times in counts.items() if isinstance(event, Remembered)}
    settings = Counter(event.epoch for event in found)
    for event, times in found.items():
        if settings[event.epoch] > 1 or (event.count_weight and times > 1):
            return math.inf, 1.0
        squares += (times * event.examples_per_person / event.noise_multiplier) ** 2
        exposed += chance(event)
    return squares, exposed


def bundled(tasks: Iterable[Counter[Remembered]], order: int) -> list[Event]:
    """Returns what a person in up to `order` of these tasks loses by their epochs, all together.

    In one epoch with n of the tasks a person moves at most gamma(n), in several with a split of n no more, see
    `Correlation`: rows of equal settings are one event, whatever their epochs. A task that holds k such events is k
    streams; what they move adds up. Other settings are another event. Labels are gathered for one task per person only.
    """
    layers: Counter[Remembered] = Counter()
    for held in tasks:
        mine: Counter[Remembered] = Counter()
        for event, times in held.items():
            mine[dataclasses.replace(event, epoch=1)] += times
        layers |= mine
    if any(event.count_weight for event in layers):
        return [events.NonPrivate()]
    return [_for_order(event, order, times) for event, times in layers.items()]


def _for_order(event: Remembered, order: int, layers: int) -> Event:
    matrix = event.correlation
    gamma = matrix.gamma(order) if order <= _MOST_SPLIT else order * matrix.gamma()
    noise = event.noise / (gamma * layers) * _LESS
    return events.Gaussian(noise_multiplier=noise, examples_per_person=event.examples_per_person)
