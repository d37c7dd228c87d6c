"""What can go wrong, in one sentence each; no message ever repeats a private value."""

import contextlib
import logging
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from numbers import Integral, Real

import numpy as np

LARGEST_EPSILON = 100.0
MOST_EXAMPLES_PER_PERSON = 100_000
OWN_LEARNER = (
    "Expected the learner that this model was made with, which is not stored: load(path, learner=...), or --learner."
)
GATHERED_ONCE = (
    "Expected one task and one example per person where labels are gathered over tasks: for more there is no proof. "
    "Name the labels in public, or do without memory."
)


class ReticentError(Exception):
    """Base of every refusal; the command line turns it into one sentence and exit code 2."""


class InvalidValue(ReticentError, ValueError):
    """A public setting is out of range or of the wrong type."""


class UnsupportedEvent(ReticentError, TypeError):
    """No accountant knows this event; unknown means refuse."""


class LedgerError(ReticentError):
    """The ledger cannot be read, written or trusted."""


class StorageError(LedgerError, InvalidValue):
    """A file could not be read or written: no room, no permission, a broken disk, or another program at work."""


class VaultError(LedgerError):
    """The vault of a model with memory is missing, another model's, out of step, open to others or not whole."""


class BudgetExceeded(LedgerError):
    """The spend would exceed the budget of one person; nothing was recorded."""


class NotReserved(BudgetExceeded):
    """The spend is of a kind that had to be stated before the first one; nothing was recorded."""


class NotPaidFor(LedgerError):
    """Something was to be drawn or released that no spend covers; nothing was published."""


class ReticentWarning(UserWarning):
    """Something that is allowed and may be a mistake; it depends on public facts alone."""


class LearningFailed(ReticentError):
    """Something failed while private rows were read; what it was could depend on a row, so nobody is told.

    One sentence for whatever happened. It does not say whether anything was spent: the ledger does.

    >>> str(LearningFailed()) == str(LearningFailed())
    True
    """

    def __init__(self) -> None:
        super().__init__(
            "Learning stopped while it read private rows; the cause is not shown, because it could tell about one "
            "person. A spend that the ledger shows for this task stays until you void its row: reticent ledger DIR "
            "--void ROW --reason TEXT. To see the cause, repeat this in Python on public data with "
            "noise=NoiseSource.seeded(0), which is NOT PRIVATE."
        )

    def __reduce__(self) -> "tuple[type[LearningFailed], tuple[()]]":
        return LearningFailed, ()


@contextlib.contextmanager
def without_cause(hidden: Callable[[Exception], bool]) -> Iterator[None]:
    """Raises `LearningFailed` in place of what is to be hidden, with nothing chained to it: frames hold values of rows.

    Args:
        hidden: Whether an exception may depend on private rows.
    """
    try:
        yield
    except Exception as error:
        if not hidden(error):
            raise
        failure = LearningFailed()
        try:
            raise failure
        except LearningFailed:
            failure.__context__ = None  # `from None` would keep it there, and only not print it
            raise


class _Silence:
    """Warnings and logs off while any thread asks for it: both are settings of the whole process."""

    def __init__(self) -> None:
        self._lock, self._asked, self._stack = threading.Lock(), 0, contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._asked += 1
            if self._asked == 1:  # the first one in; the last one out puts all back
                self._stack.callback(logging.disable, logging.root.manager.disable)
                logging.disable(logging.CRITICAL)
                self._stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._asked -= 1
            if self._asked == 0:
                self._stack.close()


_silence = _Silence()


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Silences warnings and logs: a message about one row reveals something about one person."""
    with _silence, np.errstate(all="ignore"):
        yield


def real(name: str, value: object, *, above: float, below: float, at_least: bool = False) -> float:
    """Returns a public number as float, or refuses it: `above < value < below` (`<=` with at_least).

    >>> real("epsilon", 1, above=0, below=math.inf)
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidValue(f"Expected {name} to be a number, got {type(value).__name__}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (above < number or (at_least and above == number)) or not number < below:
        bound = f"{name} {'>=' if at_least else '>'} {above:g}"
        upper = " and finite" if math.isinf(below) else f" and {name} < {below:g}"
        raise InvalidValue(f"Expected {bound}{upper}, got {value}.")
    return number


def whole(name: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Returns a public count as int, or refuses it.

    >>> whole("tasks", 3, at_least=1)
    3
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidValue(f"Expected {name} to be a whole number, got {type(value).__name__}.")
    if value < at_least:
        raise InvalidValue(f"Expected {name} >= {at_least}, got {value}.")
    if at_most is not None and int(value) > at_most:
        raise InvalidValue(f"Expected {name} <= {at_most}, got a larger number.")
    return int(value)


def set_real(instance: object, name: str, *, above: float, below: float, at_least: bool = False) -> None:
    """Validates a number of a frozen value at construction and stores it as a plain float."""
    value = real(name, getattr(instance, name), above=above, below=below, at_least=at_least)
    object.__setattr__(instance, name, value)


def set_whole(instance: object, name: str, *, at_least: int, at_most: int | None = None) -> None:
    """Validates a count of a frozen value at construction and stores it as a plain int."""
    object.__setattr__(instance, name, whole(name, getattr(instance, name), at_least=at_least, at_most=at_most))
