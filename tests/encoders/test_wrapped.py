"""Any module, any function as an encoder: rows do not influence each other, and reveal nothing but their features."""

import logging
import re

import numpy as np
import pytest

from reticent import encoders, errors
from tests.encoders.samples import assert_depends_on_the_example_alone, needs_torch

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_row_that_is_too_long_is_nan():
    """As long as the public example fits, the exception would be about a row."""

    def function(batch):
        if len(batch[0]) > 5:
            raise MemoryError
        return np.array([[len(text), 1.0] for text in batch])

    encoder = encoders.wrap(function, width=2, name="mine", probe="short")
    assert np.isnan(encoder(["a", "much longer", "b"])).all(axis=1).tolist() == [False, True, False]
    with pytest.raises(MemoryError):
        encoders.wrap(function, width=2, name="mine")(["a", "much longer"])


@pytest.mark.parametrize("rows", [1, 4])
def test_a_row_of_another_width_is_nan(rows):
    def words(batch):
        return np.array([[len(word) for word in text.split()][:2] for text in batch], float)

    encoder = encoders.wrap(words, width=2, name="words", probe="public text", rows=rows)
    found = encoder(["one two", "lonely", "three four"])
    assert np.isnan(found).all(axis=1).tolist() == [False, True, False]
    assert found[2].tolist() == [5.0, 4.0]


def test_rows_whose_place_matters_are_encoded_alone():
    seen = []

    def function(batch):
        seen.append(len(batch))
        return np.array([[float(text), place] for place, text in enumerate(batch)])

    encoder = encoders.wrap(function, width=2, name="mine", probe="1", rows=4)
    assert encoder(["7", "8", "9"]).tolist() == [[7.0, 0.0], [8.0, 0.0], [9.0, 0.0]]
    assert seen == [4, 1, 1, 1]


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
    many = encoders.wrap(function, width=2, name="mine", rows=4)
    np.testing.assert_array_equal(many([1, "no number", 2]), encoder([1, "no number", 2]))
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
    assert seen == ["public"]
    works = encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine", probe="public")
    assert works(["private"]).shape == (1, 2)


@needs_torch
def test_parts_of_a_module_keep_their_mode():
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(), torch.nn.Dropout().eval())
    encoders.wrap(module, width=3, name="mine", probe=np.zeros(3))(np.zeros((2, 3)))
    assert [part.training for part in module.modules()] == [True, True, True, False]
