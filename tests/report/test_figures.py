import re

import pytest

import reticent as rt
from reticent.privacy import planning
from reticent.report import figures, svg
from tests.report import made_up

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)


def every_figure() -> list[svg.Plot]:
    classes = [(size, size > 40, min(size / 80, 1.0)) for size in range(2, 90)]
    return [
        *figures.plan_figures(BUDGET, mechanism=planning.JOINT_GAUSSIAN, share=1.0, count_weight=0.03),
        *figures.attack_figures(made_up.attack()),
        *figures.dropped_labels(made_up.drop()),
        *figures.blurry_classes({"toy": {"10": [60.0, 40.0], "50": [50.0, 50.0]}}),
        figures.accuracy_by_task({"ours": [0.8, 0.7], "the paper's": [0.6, 0.5]}, ["march", "april"]),
        figures.released_by_size(classes),
    ]


@pytest.mark.parametrize("plot", every_figure(), ids=lambda plot: plot.caption)
def test_shares_and_accuracies_have_fixed_axes(plot):
    assert plot.x.label
    assert plot.y.label
    assert ("%" in plot.y.label) == ((plot.y.low, plot.y.high) == (0.0, 100.0))
    assert all(p.value for series in plot.series for p in series.points)


def test_the_figure_of_a_plan_shows_the_plan_and_the_bound():
    (plot,) = figures.plan_figures(BUDGET, mechanism="optimal", share=0.1, count_weight=0.03)
    assert "optimal" in plot.caption
    assert "1e-05" in plot.caption
    assert [s.name for s in plot.series] == [f"epsilon {e:g}" for e in figures.DROP_EPSILONS]
    at = [p.at for p in plot.series[3].points].index("13 examples")
    planned = planning.plan(BUDGET, mechanism="optimal", share=0.1, class_sizes=[13]).classes[0]
    assert plot.series[3].points[at].y == pytest.approx(100 * (1 - planned.release_probability))
    assert plot.series[3].guide[at][1] == pytest.approx(100 * (1 - planned.upper_bound))
    for series in plot.series:
        assert all(bound <= p.y + 1e-9 for p, (_, bound) in zip(series.points, series.guide, strict=True))


def test_the_figure_of_an_attack_shows_limits_bound_and_leaks():
    attack = made_up.attack()
    plots = figures.attack_figures(attack)
    assert len(plots) == 2  # one for each game
    for plot in plots:
        by_name = {series.name: series for series in plot.series}
        bound = by_name["most that any attacker can reach"]
        assert [p.y for p in bound.points] == [y for _, y in bound.guide] == [100 * b for _, b in attack["bounds"]]
        leak = by_name["labels read off the data, no remedy"]
        assert leak.joined
        assert [p.y for p in leak.points] == [100.0] * len(attack["bounds"])
        assert len({p.x for p in leak.points}) == len(attack["bounds"])  # a line over all epsilon
        for p in by_name["public labels"].points:
            assert p.low is not None
            assert p.high is not None
            assert p.low < p.y < p.high


def test_the_figure_of_released_labels_counts_them():
    plot = figures.released_by_size([(5, False, 0.0), (50, True, 0.9), (50, False, 0.9)])
    (series,) = plot.series
    assert series.name == "released: 1 of 3 labels"
    assert [(p.at, p.y) for p in series.points] == [("5 examples", 0.0), ("50 examples", 50.0)]
    assert [y for _, y in series.guide] == pytest.approx([0.0, 90.0])
    assert series.points[1].value == "50 % (1 of 2 labels), planned 90 %"


def test_names_in_figures_are_escaped():
    plot = figures.accuracy_by_task({"<b>": [0.5]}, ["<i>"])
    assert not re.search("<[bi]>", svg.figure(plot))
