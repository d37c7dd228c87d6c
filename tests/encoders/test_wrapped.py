"""Any module, any function as an encoder: rows do not influence each other, and reveal nothing but their features."""

import logging
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reticent import encoders, errors
from tests.encoders.mixing import PROBE, WIDTH, mixing, module, remembering
from tests.encoders.samples import TORCH, assert_depends_on_the_example_alone, needs_torch

pytestmark = pytest.mark.usefixtures("one_thread")


def torch_pad(x: Any) -> Any:
    """Rows of any shape as features of one width."""
    import torch

    return torch.nn.functional.pad(x, (0, WIDTH - x.shape[1]))


@pytest.mark.parametrize("probe", ["short", None])
def test_a_row_that_is_too_long_is_nan(probe):
    """The exception would be about a row, with a public example or without one."""

    def function(batch):
        if len(batch[0]) > 20:
            raise MemoryError("Unable to allocate 4321 MiB")
        return np.array([[len(text), 1.0] for text in batch])

    encoder = encoders.wrap(function, width=2, name="mine", probe=probe)
    found = encoder(["a", "much longer than the public one", "b"])
    assert np.isnan(found).all(axis=1).tolist() == [False, True, False]


def test_a_row_of_another_width_is_nan():
    def words(batch):
        return np.array([[len(word) for word in text.split()][:2] for text in batch], float)

    encoder = encoders.wrap(words, width=2, name="words", probe="public text")
    found = encoder(["one two", "lonely", "three four"])
    assert np.isnan(found).all(axis=1).tolist() == [False, True, False]
    assert found[2].tolist() == [5.0, 4.0]


def several_rows(encoder: encoders.Encoder, rows: int = 4) -> encoders.Encoder:
    """As if the model came with the package: it gets several rows as long as no probe shows that they mix."""
    load = encoder.load
    return replace(encoder, load=lambda: replace(load(), rows=lambda _: rows))


@needs_torch
@pytest.mark.parametrize("several", [False, True], ids=["wrapped", "four rows"])
@pytest.mark.parametrize("name", mixing() if TORCH else [])
def test_rows_that_influence_each_other_are_encoded_alone(name, several):
    """One row at a time by construction; and where a model has several, probes of every shape notice it."""
    width = 48 if name != "one width" else WIDTH  # the public example has another shape
    made = module(lambda x: torch_pad(mixing()[name](x)))
    encoder = encoders.wrap(made, width=WIDTH, name="mine", probe=PROBE[:50])
    x = list(np.random.default_rng(0).normal(size=(23, width)) * np.geomspace(1, 50, 23)[:, None])
    found = several_rows(encoder) if several else encoder
    assert_depends_on_the_example_alone(found, x, alone=5, sizes=(1, 3, 17))
    (item,) = found.prepare(x[:1])
    assert item is not None
    assert found.backend.rows(item) == (4 if several and name == "with gradients" else 1)


@needs_torch
def test_independent_rows_share_a_batch():
    """The probes do not refuse everything: a norm of each row, at two shapes, in batches of four."""
    made = module(lambda x: torch_pad(x / x.abs().amax(1, keepdim=True)))
    encoder = several_rows(encoders.wrap(made, width=WIDTH, name="mine", probe=PROBE[:50]))
    for width in (50, WIDTH):
        (item,) = encoder.prepare([np.ones(width, np.float32)])
        assert item is not None
        assert encoder.backend.rows(item) == 4
    unknown = replace(encoder, load=lambda: replace(encoder.backend, probe=None))
    assert item is not None
    assert unknown.backend.rows(item) == 1  # nothing public to try it with


@needs_torch
@pytest.mark.parametrize("name", remembering() if TORCH else [])
def test_what_remembers_is_refused(name):
    seen = []

    def first(self, x):
        seen.append(x.abs().max().item())
        return remembering()[name](self, x)

    encoder = encoders.wrap(module(first, own=True), width=WIDTH, name="mine", probe=PROBE)
    with pytest.raises(errors.ReticentError, match=r"^mine gives other features for a public example after"):
        encoder([np.full(WIDTH, 99.0)])
    assert 99.0 not in seen  # nothing private was shown to it


def test_functions_that_remember_are_refused():
    kept: list[float] = []

    def mean_so_far(batch):
        kept.extend(len(text) for text in batch)
        return np.full((len(batch), 1), np.mean(kept))

    with pytest.raises(errors.ReticentError, match=r"^mine gives other features for a public example after"):
        encoders.wrap(mean_so_far, width=1, name="mine", probe="public")(["private"])


def test_encoders_pass_on_no_warning_or_log_message(recwarn, caplog):
    def function(batch):
        logging.getLogger("a model").error("padded to 12 tokens")
        return np.array([[np.mean([len(word) for word in text.split()]), np.float64(1e300)] for text in batch])

    encoder = encoders.wrap(function, width=2, name="mine")
    assert np.isnan(encoder(["two words", "", "three more words"])[1, 0])
    encoder.prepare([np.float64(1e300)])
    assert not recwarn.list
    assert not caplog.records
    logging.getLogger("a model").error("shown again")
    assert len(caplog.records) == 1


@needs_torch
def test_modules_are_wrapped_in_evaluation_mode():
    import torch

    linear = encoders.wrap(torch.nn.Linear(37, 10), width=10, name="linear")  # in blocks, bits depend on the position
    assert_depends_on_the_example_alone(linear, list(np.random.default_rng(0).normal(size=(200, 37))), alone=20)
    module = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5))
    encoder = encoders.wrap(module, width=5, name="mine")
    x = list(np.random.default_rng(0).normal(size=(40, 8)))
    assert_depends_on_the_example_alone(encoder, x, alone=10)
    assert module.training
    rows = encoder([x[0], None, "text", np.zeros(3), x[1]])
    assert np.isnan(rows).all(axis=1).tolist() == [False, True, True, True, False]
    before = encoder.digest
    other = encoders.wrap(torch.nn.Linear(8, 5), width=5, name="mine")
    assert re.fullmatch("[0-9a-f]{64}", before)
    assert other.digest != before


def test_callables_see_one_example_at_a_time():
    seen = []

    def function(batch):
        seen.append(len(batch))
        return np.array([[float(x), -float(x)] for x in batch])

    encoder = encoders.wrap(function, width=2, name="mine")
    assert np.isnan(encoder([1, "no number", 2])).all(axis=1).tolist() == [False, True, False]
    assert set(seen) == {1}
    many = several_rows(encoders.wrap(function, width=2, name="mine", probe=3))
    np.testing.assert_array_equal(many([1, "no number", 2]), encoder([1, "no number", 2]))
    assert 4 in seen
    with pytest.raises(errors.ReticentError, match="mine cannot encode a public example"):
        encoders.wrap(function, width=3, name="mine", probe=1)([1])
    with pytest.raises(errors.InvalidValue, match="Expected a torch module or a callable, got int"):
        encoders.wrap(3, width=3, name="mine")  # type: ignore[arg-type]


def test_what_always_fails_is_refused_on_its_probe():
    seen = []

    def broken(batch):
        seen.extend(batch)
        raise ValueError

    with pytest.raises(errors.ReticentError, match=r"^mine cannot encode a public example\."):
        encoders.wrap(broken, width=2, name="mine", probe="public")(["private"])
    assert set(seen) == {"public"}
    works = encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine", probe="public")
    assert works(["private"]).shape == (1, 2)


@needs_torch
def test_parts_of_a_module_keep_their_mode():
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(), torch.nn.Dropout().eval())
    encoders.wrap(module, width=3, name="mine", probe=np.zeros(3))(np.zeros((2, 3)))
    assert [part.training for part in module.modules()] == [True, True, True, False]
