"""Encoders made of any torch module or any callable."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.batches import Item, Items
from reticent.encoders.devices import inference
from reticent.encoders.encoder import Backend, Encoder, sha256, sha256_of_weights
from reticent.encoders.probes import same


def wrap(
    module_or_callable: Callable[..., Any],
    *,
    width: int,
    name: str,
    probe: object = None,
) -> Encoder:
    """Makes an encoder of a torch module or of any callable.

    A module gets stacked float32 (or integer) tensors and is put in evaluation mode; a callable gets a list of inputs
    and returns an array of shape (len, width). Both get one row at a time, always: whatever they would do with other
    rows (scale by the largest value, fill the places of an expert, multiply matrices whose last bits depend on the
    number of rows), one example cannot change the features or gradients of another. What raises, or has another width,
    gives a row of NaN: pass a public example as `probe`, and what always fails is refused before any data. So is what
    remembers: a counter or a running mean that makes an example's features depend on those before it.

    Args:
        module_or_callable: Public code and weights, not fitted to the sensitive data.
        width: Number of features.
        name: What it is called in a manifest; pass the encoder again when the model is loaded.
        probe: A public example that it must be able to encode; adapters can be trained only with one. Without it nobody
            checks that the code remembers nothing. A text says that it reads texts: then it gets labels' names, too.

    Example:
        >>> lengths = wrap(lambda texts: np.array([[len(text), 1.0] for text in texts]), width=2, name="lengths")
        >>> lengths(["a", "abc", None])
        array([[ 1.,  1.],
               [ 3.,  1.],
               [nan, nan]], dtype=float32)
    """
    if not callable(module_or_callable):
        raise errors.InvalidValue(f"Expected a torch module or a callable, got {type(module_or_callable).__name__}.")
    if hasattr(module_or_callable, "__self__"):
        from reticent.encoders.preprocessing import refuse_fitted_encoder

        refuse_fitted_encoder(module_or_callable)
    width = errors.whole("width", width, at_least=1)
    torch = sys.modules.get("torch")
    module = torch is not None and isinstance(module_or_callable, torch.nn.Module)
    if module:
        embed = partial(_module, module_or_callable)
        forward = inference(module_or_callable, embed)
        backend = Backend(
            prepare=_arrays,
            forward=forward,
            rows=_one,
            width=width,
            probe=probe,
            module=module_or_callable,
            embed=embed,
        )
    else:
        call = partial(_call, module_or_callable)
        backend = Backend(prepare=_objects, forward=call, rows=_one, width=width, probe=probe)
    digest = partial(sha256_of_weights, module_or_callable, name) if module else partial(sha256, name.encode())
    return Encoder(name=name, load=partial(replace, backend), fingerprint=digest, declared_width=width, kinds="OUTbiuf")


@dataclass(frozen=True)
class OneByOne:
    """A function from inputs to features that nobody has read, given one example at a time.

    What raises, or has another width, gives a row of NaN.

    Args:
        function: Gets a slice of the inputs of length one, of the type of the inputs.
        width: How many features it makes of an example.
    """

    function: Callable[[Any], Any]
    width: int

    def __call__(self, inputs: Any) -> npt.NDArray[np.float32]:
        """Returns features of shape (n, width)."""
        features = np.full((len(inputs), self.width), np.nan, np.float32)
        for i in range(len(inputs)):
            with contextlib.suppress(Exception):  # a row that cannot be encoded is left out, silently
                row = np.asarray(self.function(inputs[i : i + 1]), dtype=np.float32)
                features[i] = row[0] if row.shape == (1, self.width) else np.nan
        return features


def one_by_one(function: Callable[[Any], Any], inputs: Any) -> OneByOne:
    """Returns the function for one example at a time; its width is its own word, or what it makes of a public example.

    A function that makes something else of the public example after another one is refused, and so is one that no
    public example of ours can be tried with.

    Args:
        function: Encodes a text or, for arrays of numbers, an example of ones or of zeros; where the text "a public
            example" or the ones fail, it has a `width`.
        inputs: Sensitive; only their type, and the shape and type of one row of an array, are looked at.
    """
    one, other = _public(inputs)
    made, of_other, *again = (_tried(function, given) for given in (one, other, one, other))
    if not same([made, of_other], again):
        raise errors.InvalidValue(
            "Expected an encoder that remembers no examples and draws nothing at random: this one makes other features "
            "of a public example after another one."
        )
    width = getattr(function, "width", None)
    if not isinstance(width, int):
        width = made.shape[1] if made.ndim == 2 and len(made) == 1 else None
    if width is None or width < 1:
        raise errors.InvalidValue(
            "Expected an encoder that says how many features it makes. Use "
            "reticent.encoders.wrap(function, width=..., name=...)."
        )
    if (1, width) not in (made.shape, of_other.shape):
        raise errors.InvalidValue(
            "Expected an encoder of texts or of arrays of numbers: this one cannot be tried with a public example, to "
            "see that it remembers none. Use reticent.encoders.wrap(function, width=..., name=..., probe=...)."
        )
    return OneByOne(function, width)


def _public(inputs: Any) -> tuple[Any, Any]:
    """Returns two public examples, of the type of the inputs."""
    texts: tuple[Any, Any] = ["a public example"], ["another text, and a longer one"]
    if not isinstance(inputs, np.ndarray):
        return texts
    if inputs.dtype.kind in "biuf":
        one = np.ones((1, *inputs.shape[1:]), inputs.dtype)
        return one, one * 0
    return np.array(texts[0], dtype=object), np.array(texts[1], dtype=object)


def _tried(function: Callable[[Any], Any], given: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(function(given)).copy()
    except Exception:
        return np.zeros(0)


def _one(_: Item) -> int:
    return 1


def _arrays(examples: Sequence[object]) -> Items:
    return [_array(example) for example in examples]


def _array(example: object) -> Item | None:
    try:
        array = np.asarray(example)
    except Exception:
        return None
    if array.dtype.kind in "f":
        return (array.astype(np.float32),)
    return (array.astype(np.int64),) if array.dtype.kind in "biu" else None


def _objects(examples: Sequence[object]) -> Items:
    items: Items = []
    for example in examples:
        holder = np.empty((), dtype=object)
        holder[()] = example
        items.append((holder,))
    return items


def _module(module: Any, item: tuple[Any, ...]) -> Any:
    with evaluating(module):
        return module(item[0])


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Puts a module in evaluation mode, and restores the mode of every part afterwards."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _call(function: Callable[[list[Any]], Any], item: Item) -> npt.NDArray[Any]:
    return np.asarray(function(list(item[0])), dtype=np.float32)
