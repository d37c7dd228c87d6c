"""A part of the assurance page: twins are caught with few games too, and the table of the documentation is true."""

from pathlib import Path

import pytest

import reticent as rt
from reticent.testing import check_learner
from tests.assurance import bounds, planted, twins

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")


def documented() -> dict[str, tuple[str, ...]]:
    """The table of twins and checks, by twin."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and line.count("|") == len(twins.CHECKS) + 2]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    (header,) = (line for line in cells if line[0] == "twin")
    assert header[1:] == twins.CHECKS
    return {name: row for name, *row in cells if name != "twin"}  # type: ignore[misc]


def test_every_twin_is_caught_as_documented():
    """Games may miss what they find with more trials; all other cells are as they are written."""
    part = twins.measure(trials=1_000)
    assert part.passed, part.markdown()
    table = documented()
    games = twins.CHECKS.index("games")
    for name, *found in part.rows:
        said = list(table.pop(name))
        assert {found.pop(games), said.pop(games)} <= {twins.CAUGHT, twins.MISSED, twins.NOT_APPLICABLE}
        assert found == said, name
    assert table == {}


@pytest.mark.parametrize(
    "twin", [planted.NoNoise(), planted.OldNoise(), planted.ExactCount()], ids=lambda twin: type(twin).__name__
)
def test_values_without_noise_fail(twin):
    with pytest.raises(AssertionError, match="follows the data without noise"):
        check_learner(twin, policies=[twins.PUBLIC])


def test_features_that_depend_on_other_rows_fail():
    with pytest.raises(AssertionError, match="depend on the others"):
        check_learner(rt.Cosine(), policies=[twins.PUBLIC], encoder=planted.mixing_encoder(8))


def test_bounds_are_of_every_learner_and_policy():
    names = {name for name, _, _ in bounds.configurations()}
    for kind in ("cosine", "cosine-paper", "peft", "peft-paper"):
        for labels in ("public labels", "released labels", "released labels of the paper"):
            assert f"{kind}, {labels}" in names
    assert {"cosine, public labels with remap", "peft with film, public labels"} < names
