"""Batches in several threads: the results of `map`, and torch as it was."""

import threading

import numpy as np
import pytest

from reticent.encoders.adapters import features_with_each, film
from reticent.encoders.side_by_side import side_by_side
from tests.encoders.samples import needs_minilm, texts

torch = pytest.importorskip("torch", reason="needs reticent[torch]")


@pytest.fixture(params=[1, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_order(threads):
    seen, inside = [], set()

    def work(given):
        inside.add((threading.current_thread().name, torch.get_num_threads()))
        return given * given

    with side_by_side(True) as each:
        for result in each(work, iter(range(50))):
            seen.append(result)
    assert seen == [i * i for i in range(50)]
    assert {count for _, count in inside} == {1}  # each batch on one core
    assert torch.get_num_threads() == threads
    with side_by_side(False) as each:
        assert each is map


def test_what_work_raises_is_raised(threads):
    def work(given):
        if given == 7:
            raise ImportError("no such package")
        return given

    with pytest.raises(ImportError, match="no such package"), side_by_side(True) as each:
        list(each(work, range(50)))
    assert torch.get_num_threads() == threads
    started = []
    thread = threading.Thread(target=lambda: started.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert started == [threads]  # threads that begin later are not held to one core


def test_little_waits_ahead(threads):
    """Memory must not follow the number of batches."""
    taken: list[int] = []

    def given():
        for i in range(100):
            taken.append(i)
            yield i

    with side_by_side(True) as each:
        results = each(lambda one: one, given())
        next(results)
        assert len(taken) <= 2 * threads + 1


@needs_minilm
def test_adapters_are_attached_in_every_thread(minilm, threads):
    start = film.start(minilm.backend.module)
    other = {name: value * 1.5 for name, value in start.items()}
    found = features_with_each(minilm, film, [start, other], texts(20, longest=20))
    np.testing.assert_allclose(found[0], minilm(texts(20, longest=20)), atol=1e-5)
    assert (np.abs(found[1] - found[0]).max(1) > 1e-3).all()
