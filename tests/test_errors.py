"""Errors: what is silent while private rows are read, and speaks again afterwards."""

import logging
import threading
import warnings

from reticent import errors


def test_silence_ends_with_the_last_thread_that_asked(caplog, recwarn):
    """Two threads that overlap: whoever leaves last must put back what was there before the first."""
    inside, leave = threading.Event(), threading.Event()

    def second() -> None:
        with errors.silenced():
            inside.set()
            leave.wait(10)

    before = logging.root.manager.disable, list(warnings.filters)
    thread = threading.Thread(target=second)
    with errors.silenced():
        thread.start()
        assert inside.wait(10)
    logging.getLogger("a model").error("still silent")
    warnings.warn("still silent", UserWarning, stacklevel=1)
    assert not caplog.records
    assert not recwarn.list
    leave.set()
    thread.join()
    assert (logging.root.manager.disable, list(warnings.filters)) == before
    logging.getLogger("a model").error("shown again")
    assert [record.message for record in caplog.records] == ["shown again"]
