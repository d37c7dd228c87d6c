import statistics

import pytest

from reticent.report.seeds import IN_WORDS, spread


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([2.0], "2.0"),
        ([1.0, 2.0], "1.5 (1.0, 2.0)"),
        ([3.0, 1.0, 2.0], "2.0 (1.0, 3.0)"),
        ([4.0, 1.0, 3.0, 2.0], "2.5 (2.0, 3.0)"),
        ([9.0, 1.0, 2.0, 3.0, 4.0], "3.0 (2.0, 4.0)"),
    ],
)
def test_median_leaves_out_the_extremes_of_four_seeds_or_more(values, text):
    found = spread(values)
    assert str(found) == text
    assert found.seeds == len(values)
    assert found.middle == statistics.median(values)
    assert min(values) <= found.low <= found.middle <= found.high <= max(values)


def test_other_statistics_use_every_seed():
    found = spread([1, 2, 3, 9], "minmax", digits=0)
    assert (found.low, found.high, str(found)) == (1, 9, "2 (1, 9)")
    found = spread([1.0, 2.0, 3.0, 6.0], "mean")
    assert str(found) == "3.0 ± 2.2"
    assert found.high - found.middle == pytest.approx(statistics.stdev([1.0, 2.0, 3.0, 6.0]))
    assert str(spread([1.0], "mean")) == "1.0"


def test_every_statistic_has_words():
    for statistic in IN_WORDS:
        spread([1.0, 2.0], statistic)
    with pytest.raises(ValueError, match="Expected a statistic out of median, minmax, mean"):
        spread([1.0], "mode")
    with pytest.raises(ValueError, match="at least one value"):
        spread([])
