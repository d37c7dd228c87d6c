"""Events in words, with the numbers that `reticent plan` shows: noise is the standard deviation on a sum."""

import math

from reticent.privacy import events, selection
from reticent.privacy.events import Event
from reticent.privacy.rounding import exact, rounded_up

_NAMES = {row.event: row.name for row in selection.TABLE}  # as a plan calls them


def in_words(event: Event) -> str:
    """Returns what was drawn, for people: few digits, and the quantities of a plan.

    >>> in_words(events.JointGaussian(noise_multiplier=3.7306316348196726, count_weight=0.18, threshold=38.50197573))
    'labels and sums, noise 4.1198, a new label above 38.5'
    """
    match event:
        case events.Public():
            said = "public, nothing drawn"
        case events.NonPrivate():
            said = "published WITHOUT NOISE"
        case events.Gaussian():
            said = f"sums, noise {rounded_up(event.noise_multiplier)}"
        case events.JointGaussian():
            on_a_sum = rounded_up(event.noise_multiplier / math.sqrt(1 - event.count_weight))
            said = f"labels and sums, noise {on_a_sum}, a new label above {event.threshold:.1f}"
        case events.LabelCounts():
            said = f"label counts, noise {rounded_up(event.noise_multiplier)}, a new label above {event.threshold:.1f}"
        case events.LabelSelection():
            name = _NAMES.get(type(event), "binary-test")
            said = f"labels ({name}), epsilon {event.epsilon:.4g}, delta {event.delta:.3g}"
        case events.DpSgd():
            noise = rounded_up(event.noise_multiplier)
            said = f"DP-SGD, {event.steps:,} steps at rate {event.rate:g}, noise multiplier {noise}"
        case events.LabelledTraining():
            return f"{in_words(event.counts)}; {in_words(event.training)}"
        case events.PrivateSelection():
            said = f"the best of a random number of runs (eta {event.eta:g}, gamma {event.gamma:.4g}), each "
            return said + in_words(event.run)
        case events.Remembered():
            noise = rounded_up(event.noise)
            said = f"epoch {event.epoch} of up to {event.horizon:,} tasks, correlated noise {noise}"
        case events.Composed():
            return "; ".join(map(in_words, event.parts)) or "nothing"
        case events.Exposure():
            return f"exposed with chance {exact(float(f'{event.chance:.3g}'))}"
        case _:
            return type(event).__name__
    rows = getattr(event, "examples_per_person", 1)
    return said if rows == 1 else f"{said}, {rows:,} rows of a person"
