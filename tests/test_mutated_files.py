"""A part of what `make assurance` tries on files of the project."""

import random

import pytest

from reticent import errors
from tests.assurance import fuzz_store


@pytest.mark.posix
def test_mutated_files_end_in_a_sentence_or_a_right_result(tmp_path):
    found = fuzz_store.fuzz(500, tmp_path)
    assert [fault for outcome in found.values() for fault in outcome.faults] == []
    assert sum(outcome.cases for outcome in found.values()) >= 500
    assert sum(outcome.refused for outcome in found.values()) > 100  # else nothing was changed


@pytest.mark.posix
@pytest.mark.parametrize(
    "fault", [KeyError("rows"), fuzz_store.Wrong("another prediction"), errors.InvalidValue("a\nb")]
)
def test_the_fuzzer_notices_faults(fault):
    """The broken twin: another exception, another result, or more than a sentence."""

    def run(_: random.Random) -> None:
        raise fault

    outcome = fuzz_store.Outcome()
    fuzz_store._one(fuzz_store.Format("twin", run), "1", outcome)
    assert len(outcome.faults) == 1
