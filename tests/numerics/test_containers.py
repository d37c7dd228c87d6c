from typing import Any

import numpy as np
import pytest
import scipy.sparse

import reticent as rt
from reticent import encoders, errors
from reticent.gate.noise import NoiseSource
from reticent.numerics.containers import MOST_COLUMNS, opened

X = np.repeat(np.eye(2, 8) * 2 + 0.25, 60, axis=0)
Y = [7] * 60 + [9] * 60


class Converts:
    """All that it can do is to become an array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


def learned(x: Any, y: Any) -> rt.ContinualClassifier:
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels([7, 9]), budget=rt.Budget(epsilon=5.0, delta=1e-3), noise=NoiseSource.seeded(1)
    )
    return model.learn_task(x, y, name="march")


def same(x: Any, y: Any = Y) -> None:
    """Learned and predicted from another container: the same to the bit, with the same noise."""
    expected, found = learned(X, Y), learned(x, y)
    for name, array in expected.releases[0].parameters.items():
        assert np.array_equal(array, found.releases[0].parameters[name]), name
    assert found.predict(x).tolist() == Y
    assert np.array_equal(found.predict_proba(x), expected.predict_proba(X))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_containers_hold_the_same_numbers(form, kind):
    same(kind(X).asformat(form))


def test_array_likes_hold_the_same_numbers():
    same(Converts(X), Converts(np.array(Y)))


def test_tensors_hold_the_same_numbers():
    torch = pytest.importorskip("torch", reason="needs reticent[torch]")
    labels = torch.tensor(Y)
    same(torch.tensor(X, requires_grad=True), labels)
    same(torch.tensor(X), list(labels))  # each a tensor with one value
    same(torch.tensor(X).to(torch.bfloat16))
    same(torch.tensor(X).half())


def test_columns_of_data_sets_hold_the_same_cells():
    datasets = pytest.importorskip("datasets", reason="needs reticent[bench]")
    table = datasets.Dataset.from_dict({"x": X.tolist(), "y": Y, "text": [f"text {y}" for y in Y]})
    arrays = table.with_format("numpy")
    same(arrays["x"][:], table["y"])
    same(arrays["x"][:], arrays["y"])
    same(X, list(table["y"]))
    torch = pytest.importorskip("torch", reason="needs reticent[torch]")
    tensors = table.with_format("torch")
    assert isinstance(tensors["y"][0], torch.Tensor)
    same(tensors["x"][:], tensors["y"])
    encoder = encoders.wrap(lambda texts: np.array([[t[-1] == "7", t[-1] == "9"] for t in texts]), width=2, name="ends")
    model = rt.ContinualClassifier(
        encoder=encoder, labels=rt.PublicLabels([7, 9]), budget=rt.Budget(epsilon=5, delta=0.1)
    )
    for texts in (table["text"], list(table["text"])):
        model.learn_task(texts, table["y"], name=str(type(texts)))
        assert model.predict(texts).tolist() == Y
    for whole, sentence in ((table, 'dataset\\["text"\\]'), (table["x"], "features of shape")):
        with pytest.raises(errors.InvalidValue, match=sentence):
            learned(whole, Y)


def tensor_of(kind: str) -> Any:
    torch = pytest.importorskip("torch", reason="needs reticent[torch]")
    return torch.tensor(X).to_sparse() if kind == "sparse" else torch.empty(120, 8, device="meta")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: scipy.sparse.csr_array((120, MOST_COLUMNS + 1)), "at most 65,536 columns"),
        (lambda: scipy.sparse.coo_array(np.ones(120)), "at most 65,536 columns"),
        (lambda: X * 1j, "Complex data not supported"),
        (lambda: scipy.sparse.csr_array(X * 1j), "Complex data not supported"),
        (lambda: tensor_of("sparse"), "dense tensor"),
        (lambda: tensor_of("meta"), "dense tensor"),
    ],
)
def test_containers_are_refused_by_type(make, sentence):
    """Before anything is spent, whatever they hold."""
    values = make()
    model = rt.ContinualClassifier(labels=rt.PublicLabels([7, 9]), budget=rt.Budget(epsilon=1.0, delta=1e-5))
    with pytest.raises(errors.InvalidValue, match=sentence):
        model.learn_task(values, Y, name="march")
    assert model.statement().spends == ()
    with pytest.raises(errors.InvalidValue, match=sentence):
        learned(X, Y).predict(values)
    assert isinstance(opened(X), np.ndarray)


class TooLarge(scipy.sparse.csr_array):  # type: ignore[misc]
    def toarray(self, *_: object, **__: object) -> np.ndarray:
        raise MemoryError("Unable to allocate 3.6 GiB for an array with shape (120, 4096)")


class Fails(Converts):
    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise ValueError("could not convert string to float: 'a private cell'")


@pytest.mark.parametrize("values", [TooLarge(X), Fails(X)], ids=["too large", "fails"])
def test_failing_conversions_tell_nothing(values):
    with pytest.raises(errors.InvalidValue, match="could not be made an array") as caught:
        opened(values)
    assert caught.value.__context__ is None
    assert not any(word in str(caught.value) for word in ("120", "private", "GiB"))
