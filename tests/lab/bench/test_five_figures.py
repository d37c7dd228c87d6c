"""The figures of the page are SVG documents of what was run."""

from typing import Any
from xml.etree import ElementTree

from reticent.lab.bench.five_figures import five
from reticent.lab.bench.run import Run
from tests.lab.tiny import by_digest, done

ATTACK = {
    "points": [
        {"remedy": True, "target": "ours", "game": "g", "epsilon": 1.0, "accuracy": 0.6, "interval": [0.5, 0.7]},
    ],
    "bounds": [[1.0, 0.73]],
}


def test_all_five_are_drawn_where_their_runs_are_there():
    paper: dict[str, Any] = {"data": "clinc150", "learner": "cosine-paper"}
    runs = [
        *(Run(**paper, labels=labels) for labels in ("oracle", "base", "public-10x", "public-1000x")),
        *(Run(**paper, labels="released", share=share, ratio=r) for share in (2.5, 10.0) for r in (0.0, 50.0)),
    ]
    made = five(by_digest([done(run, 0.5) for run in runs]), ATTACK)
    assert [figure.name for figure in made] == ["attack", "labels", "sizes", "blurry", "share"]
    for figure in made:
        assert ElementTree.fromstring(figure.drawn).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 (our own)
        assert figure.title in figure.drawn


def test_a_single_point_is_no_figure():
    assert five(by_digest([done(Run(data="clinc150", learner="cosine"), 0.5)]), None) == []


def test_data_that_chose_no_default_is_in_the_figures():
    def runs(data: str) -> list[Run]:
        return [Run(data=data, learner="cosine", labels=labels) for labels in ("base", "public-10x")]

    made = five(
        by_digest([done(run, 0.5) for name in ("clinc150", "icd10cm", "phenotypes") for run in runs(name)]), None
    )
    (sizes,) = (figure for figure in made if figure.name == "sizes")
    assert [name in sizes.drawn for name in ("clinc150", "icd10cm", "phenotypes")] == [True, False, True]


def test_sources_of_labels_are_not_joined_by_lines():
    runs = [Run(data="clinc150", learner="cosine", labels=labels) for labels in ("oracle", "base", "released")]
    made = five(by_digest([done(run, 0.5) for run in runs]), None)
    assert {figure.name: "L" in "".join(path.get("d", "") for path in _paths(figure.drawn)) for figure in made} == {
        "labels": False
    }


def _paths(drawn: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(drawn).findall(".//{http://www.w3.org/2000/svg}path")  # noqa: S314 (our own)
