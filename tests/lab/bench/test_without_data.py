"""Experiments without data: what they find, and their tables."""

import json

import pytest

from reticent.lab.attack import label_attack
from reticent.lab.bench import label_experiments, pages, runner, specs, tables, without_data
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.specs import spec
from reticent.lab.bench.versions import version_of


def test_dropped_labels_are_those_of_the_mechanisms(tmp_path):
    said: list[str] = []
    runner.run([specs.spec("drop")], data=tmp_path, out=tmp_path, say=said.append)
    found = Folder(tmp_path).read("drop.json")
    assert found is not None
    curves = {
        (c["epsilon"], c["mechanism"]): dict(zip(c["sizes"], c["probability"], strict=True)) for c in found["curves"]
    }
    assert found["delta"] == 1e-7
    for (epsilon, mechanism), dropped in curves.items():
        chances = list(dropped.values())
        assert chances == sorted(chances, reverse=True)  # a larger class is dropped less often
        assert all(0 <= chance <= 1 for chance in chances)
        least = curves[epsilon, "any mechanism, at least"]
        assert all(dropped[n] >= least[n] - 1e-12 for n in dropped), mechanism
    assert curves[1.0, "the paper's, the whole budget"][1] == pytest.approx(1 - 1e-7)
    assert len(said) == 1
    runner.run([specs.spec("drop")], data=tmp_path, out=tmp_path, say=said.append)
    assert len(said) == 1  # it is done


def test_what_another_version_measured_is_not_run_and_is_made_again(tmp_path):
    made = without_data.measured("drop")
    assert without_data.stored(tmp_path, "drop") is None
    for changed in ({"version": 0}, {"version": None}):
        (tmp_path / "drop.json").write_text(json.dumps({**made, **changed}))
        assert without_data.stored(tmp_path, "drop") is None
        assert Folder(tmp_path).beside("drop.json") is None
    runner.run([], data=tmp_path, out=tmp_path, shown=[spec("drop")])
    assert "*not run here*" in (tmp_path / "tables" / "drop.md").read_text()
    runner.run([spec("drop")], data=tmp_path, out=tmp_path)
    assert without_data.stored(tmp_path, "drop") == made
    origin = f"Measured by reticent bench drop, version {version_of('drop')}. Python "
    origin += made["environment"]["python"]
    assert f"- {origin}" in (tmp_path / "tables" / "drop.md").read_text()
    assert origin in pages.report(tmp_path)


def test_what_the_present_version_measured_is_taken_from_beside_stored_rows(tmp_path):
    made = without_data.measured("drop")
    runner.run([spec("drop")], data=tmp_path, out=tmp_path / "new", measured={"drop": made}, say=pytest.fail)
    assert without_data.stored(tmp_path / "new", "drop") == made


@pytest.mark.slow
def test_the_attack_is_won_against_classifiers_alone(tmp_path):
    runner.run([specs.spec("attack")], data=tmp_path, out=tmp_path)
    found = Folder(tmp_path).read("attack.json")
    assert found is not None
    leaks = [point for point in found["points"] if not point["remedy"]]
    assert {point["accuracy"] for point in leaks} == {1.0}
    assert {point["broken"] for point in leaks if point["epsilon"] <= 1} == {True}  # above, 100 games prove less
    assert {point["epsilon"] for point in leaks} == {epsilon for epsilon, _ in found["bounds"]}
    assert {point["broken"] for point in found["points"] if point["remedy"]} == {False}
    assert "leaks" in (tmp_path / "tables" / "attack.md").read_text()
    again = label_attack.accuracy_curve(1e-5, trainings=1, seed=label_experiments.SEED)  # other trainings, same games
    remedies = [point for point in found["points"] if point["remedy"]]
    assert [result.json() for result in again if result.remedy] == remedies


def test_attack_and_drop_show_what_their_files_hold():
    point = {
        "target": "scikit-learn",
        "game": "the only one",
        "epsilon": 1.0,
        "trials": 10_000,
        "accuracy": 1.0,
        "interval": [0.98, 1.0],
        "bound": 0.73,
        "broken": True,
    }
    where = {"python": "3", "machine": "m", "cores": 2, "threads": None, "versions": {"numpy": "2"}}
    origin = {"version": 7, "command": "reticent bench attack", "environment": where}
    (attack,) = tables.tables(spec("attack"), {}, extra={"attack.json": {"points": [point], **origin}}.get)
    assert attack.notes == ("Measured by reticent bench attack, version 7. Python 3, m, 2 cores; numpy 2.",)
    assert attack.rows == (("scikit-learn", "the only one", "1", "1.000", "0.980 to 1.000", "0.730", "leaks"),)
    assert "10,000 games; limits are exact, at confidence 0.999999." in attack.caption
    curve = {"epsilon": 0.5, "mechanism": "ours", "sizes": [1, 10], "probability": [1.0, 0.25]}
    (drop,) = tables.tables(spec("drop"), {}, extra={"drop.json": {"delta": 1e-7, "curves": [curve], **origin}}.get)
    assert drop.notes == attack.notes
    assert (drop.columns, drop.rows) == (("epsilon", "mechanism", "1", "10"), (("0.5", "ours", "1.000", "0.250"),))
    for name in ("attack", "drop"):
        (empty,) = tables.tables(spec(name), {})
        assert empty.rows[0][0].startswith("*not run here*")
