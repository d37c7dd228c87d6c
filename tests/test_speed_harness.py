"""The harness of `make bench-speed`: what is stored, what counts as slower, and that nobody can overlook it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import contests
import pages
import speed
from contests import Contest, Family, Row


def row(ratio: float, **changes: object) -> Row:
    made = Row(
        contest="sums/copy",
        title="Sums",
        peer="copy",
        cost=0.5,
        unit="s",
        ratio=ratio,
        goal=0.5,
        ours=False,
        compared=True,
        commit="abc",
        day="2026-01-01",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def family(play, **settings) -> Family:
    made = Contest(name="toy/one", title="Toy", play=play, rounds=3, goals={"peer": 2.0}, **settings)
    return Family(name="toy", title="Toys", words="How to read toys.", contests=lambda: [made])


@pytest.fixture
def toy(monkeypatch):
    """Lets the harness know one family, whose peer takes as many times as long as is set."""
    ratio = [4.0]
    made = family(lambda rounds: {"reticent": [0.25] * rounds, "peer": [0.25 * ratio[0]] * rounds})
    monkeypatch.setattr(speed, "families", lambda: [made])
    return ratio


def test_a_fall_of_more_than_a_fifth_is_found():
    stored = [row(1.0)]
    assert contests.drops([row(0.8)], stored) == []
    assert contests.drops([row(5.0)], stored) == []
    (fallen,) = contests.drops([row(0.799)], stored)
    assert str(fallen) == "sums/copy, copy: 0.799 today, 1 at abc (2026-01-01)"


def test_only_ratios_of_the_same_contest_and_peer_are_compared():
    for other in (row(9.0, contest="sums/two"), row(9.0, peer="another")):
        assert contests.drops([row(0.1)], [other]) == []
    assert contests.drops([row(0.1, ours=True)], [row(9.0)]) == []
    assert contests.drops([row(0.1, compared=False)], [row(9.0)]) == []


def test_contests_that_were_not_played_keep_their_stored_rows():
    stored = [row(1.0), row(1.0, peer="gone"), row(3.0, contest="noise/many")]
    assert contests.merged([row(2.0)], stored) == [stored[2], row(2.0)]


def test_rounds_are_played_in_turn_and_the_first_does_not_count():
    calls: list[str] = []
    ticks = iter(range(100))
    peers = {"a": (lambda: calls.append("a"), 1), "b": (lambda: calls.append("b"), 2)}
    costs = contests.in_turn(peers, 2, clock=lambda: float(next(ticks)))
    assert calls == ["a", "b"] * 3
    assert costs == {"a": [1.0, 1.0], "b": [0.5, 0.5]}


def test_the_median_of_the_ratios_of_rounds_counts():
    costs = {"ours": [1.0, 10.0, 2.0], "peer": [3.0, 40.0, 2.0]}
    ours, peer = contests.played(Contest(name="a/b", title="", play=lambda rounds: costs, at_most=1.5))
    assert (ours.cost, ours.ratio, ours.met) == (2.0, 1.0, False)
    assert (peer.cost, peer.ratio, peer.met) == (3.0, 3.0, None)


def test_processor_time_counts_processes_that_were_waited_for():
    import subprocess

    before = contests.processor_time()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert contests.processor_time() - before > 0.005


def test_a_run_writes_a_page_and_json_and_accepts(toy, tmp_path, capsys):
    page, out, stored = tmp_path / "speed.md", tmp_path / "run" / "speed.json", tmp_path / "ratios.json"
    words = [str(page), "--json", str(out), "--stored", str(stored), "--rounds", "2"]
    assert speed.main([*words, "--accept"]) == 0
    text = page.read_text()
    assert "## Toys\n\nHow to read toys." in text
    assert "SLOWER" not in text
    found = json.loads(stored.read_text())
    assert json.loads(out.read_text()) == found
    assert [(r["peer"], r["ratio"], r["goal"]) for r in found["rows"]] == [("reticent", 1.0, None), ("peer", 4.0, 2.0)]
    assert found["rows"][0]["commit"]
    assert found["machine"]["cores"] >= 1
    assert not {"host", "node", "user"} & set(found["machine"])


def test_a_slower_run_is_reported_on_the_page_and_by_the_exit_code(toy, tmp_path, capsys):
    page, stored = tmp_path / "speed.md", tmp_path / "ratios.json"
    words = [str(page), "--stored", str(stored)]
    speed.main([*words, "--accept"])
    before = stored.read_text()
    toy[0] = 3.0
    assert speed.main(words) == 1
    assert "## SLOWER THAN BEFORE" in page.read_text()
    assert "toy/one, peer: 3 today, 4 at" in capsys.readouterr().err
    assert stored.read_text() == before
    toy[0] = 3.3
    assert speed.main(words) == 0


def test_unknown_contests_are_refused_before_anything_is_played(toy):
    with pytest.raises(SystemExit, match="No contest is called noise"):
        speed.main(["--only", "noise"])


def test_a_contest_without_its_peer_is_left_out_and_said_so(monkeypatch, tmp_path, capsys):
    def play(rounds):
        raise ModuleNotFoundError("no", name="opacus")

    monkeypatch.setattr(speed, "families", lambda: [family(play)])
    assert speed.main(["--stored", str(tmp_path / "none.json")]) == 0
    assert "toy/one: left out, opacus is not installed." in capsys.readouterr().err


def test_every_contest_has_a_name_of_its_family_and_no_other_has_it():
    found = [(family.name, contest) for family in speed.families() for contest in family.contests()]
    names = [contest.name for _, contest in found]
    assert len(set(names)) == len(names)
    assert all(contest.name.startswith(f"{name}/") for name, contest in found)
    assert all(family.words.strip() for family in speed.families())


def test_tables_fit_80_columns_with_the_longest_names():
    wide = row(123456.789, peer="a name that goes on " * 5, title="a title that goes on " * 6, goal=1e-3)
    lines = pages.table([replace(wide, ours=True, goal=0.4), wide]).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("123456.79" in line for line in lines)
    assert any("at most 400 ms: MISSED" in line for line in lines)


def test_the_stored_ratios_are_those_of_contests_there_are():
    stored = contests.read(speed.STORED)
    names = {contest.name for family in speed.families() for contest in family.contests()}
    assert stored
    assert {r.contest for r in stored} <= names
