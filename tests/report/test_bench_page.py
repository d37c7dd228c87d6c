import copy
import re
from html.parser import HTMLParser

import pytest

from reticent.report import bench_page, groups, page
from reticent.report.bench_page import results_page
from tests.report import made_up


class Reader(HTMLParser):
    """Collects tags, and complains where they do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text(results) -> str:
    return str(results.read_text(encoding="utf-8"))


def headings(text: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", text)


def test_page_has_every_section(text):
    assert headings(text) == [
        "How it was made",
        "At a glance",
        "Accuracy after each task",
        "Accuracy against epsilon",
        "Accuracy against the share of the budget for labels",
        "Accuracy against the blurry ratio",
        "Forgetting",
        "Released labels by class size",
        "Membership attack on labels",
        "Probability that a label is dropped",
        "Tables",
        "Accuracy matrix",
        "Accuracy by aggregation rule",
        "Cost in epsilon and seconds",
        "Privacy statement of one run",
        "Failed runs",
    ]


def test_sections_without_data_are_left_out():
    assert headings(results_page("Empty", [], [])) == []
    assert headings(results_page("Tables", [], made_up.tables())) == ["Tables"]
    assert headings(results_page("Attack", [], [], attack=made_up.attack())) == ["Membership attack on labels"]
    empty: dict[str, list[object]] = {"points": [], "bounds": []}
    assert headings(results_page("Nothing", [], [], attack=empty, drop={"delta": 1e-7, "curves": []})) == []
    one = [run for run in made_up.runs() if run["status"] == "done"][:1]
    assert "Accuracy against epsilon" not in headings(results_page("One", one, []))


def test_page_is_well_formed_and_asks_for_nothing(text):
    reader = Reader(text)
    for tag, attributes in reader.tags:
        assert not {"src", "srcset", "action", "onclick", "onload"} & set(attributes), tag
        assert (attributes.get("href") or "#").startswith("#")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_all_text_is_escaped(text):
    assert made_up.EVIL not in text
    assert text.count("<script") == 1
    assert text.count("&lt;script&gt;") >= 5  # title, note, table, statement, error


def test_names_from_the_data_are_escaped():
    runs = made_up.runs()[:40]
    for run in runs:
        run["run"]["data"] = f'"{made_up.EVIL}.csv'
        run["run"]["learner"] += "<b>"
    page_text = results_page("Results", runs, [])
    Reader(page_text)
    assert page_text.count("<script") == 1
    assert "<b>" not in page_text


def test_plots_are_labelled_and_never_crowded(text):
    figures = re.findall(r'<figure class="plot".*?</figure>', text, flags=re.DOTALL)
    assert len(figures) > 20
    for figure in figures:
        assert re.search(r'<svg class="chart" role="img" viewBox="[^"]*" aria-label="[^"]+"', figure)
        assert 1 <= figure.count("<button") <= 7
        assert figure.count("<g ") == figure.count("<button")
        assert "nan" not in re.sub(r"<title>.*?</title>", "", figure)


def test_many_series_are_spread_over_plots():
    runs = [
        {"status": "done", "accuracy": 0.5, "curve": [0.6, 0.5], "run": {"data": "d", "learner": f"l{k}", "seed": 0}}
        for k in range(16)
    ]
    found = list(groups.facets(groups.groups(runs), along=None, by=["epsilon"]))
    assert [len(facet.series) for facet in found[0]] == [6, 6, 4]
    assert [facet.title for facet in found[0]][2] == "d · no privacy · part 3"


def test_a_field_gets_plots_of_its_own_where_one_is_too_full():
    cells = [{"data": "d", "learner": f"l{k}", "labels": kind} for k in range(5) for kind in ("oracle", "released")]
    runs = [{"status": "done", "curve": [0.5], "run": cell} for cell in cells]
    (found,) = groups.facets(groups.groups(runs), along=None, by=["epsilon"])
    assert [facet.title for facet in found] == ["d · no privacy · oracle", "d · no privacy · released"]
    assert [s[:2] for s in found[0].series] == [s[:2] for s in found[1].series] == [(f"l{k}", k) for k in range(5)]


def test_legends_name_only_what_differs():
    def run(**cell: object) -> dict[str, object]:
        return {"status": "done", "run": {"data": "d", "labels": "base", **cell}}

    runs = [run(learner="peft", adapter="film", tasks=10), run(learner="noncl", adapter="film", tasks=1)]
    (found,) = groups.facets(groups.groups(runs), along=None, by=["epsilon"])
    assert [words for words, _, _ in found[0].series] == ["noncl · base", "peft · base"]
    again = run(learner="peft", adapter="last_layer", tasks=10)
    (found,) = groups.facets(groups.groups([*runs, again]), along=None, by=["epsilon"])
    assert [words for words, _, _ in found[0].series][1:] == ["peft · base · film", "peft · base · last_layer"]


def test_private_curves_stand_beside_the_best_without_privacy(text):
    section = text[text.index('<section id="accuracy-after-each-task">') :]
    section = section[: section.index("</section>")]
    figures = re.findall(r"<figure.*?</figure>", section, flags=re.DOTALL)
    by_caption = {found[1]: figure for figure in figures if (found := re.search("<figcaption>(.*?)</", figure))}
    beside = by_caption["clinc150 · epsilon 1 · oracle"]
    assert set(re.findall(r"no privacy: (\w+)", beside)) == {"noncl"}  # the most skilled of the made-up learners
    assert beside.count('class="guide"') == 2  # the line, and its sample in the legend
    assert all("no privacy: " not in figure for words, figure in by_caption.items() if "no privacy" in words)
    elsewhere = [figure for words, figure in by_caption.items() if words.startswith("icd10cm")]
    assert elsewhere
    assert all("no privacy: " not in figure for figure in elsewhere)  # none was run there


def test_best_share_is_marked_and_printed(text):
    section = text[text.index("Accuracy against the share of the budget for labels</h2>") :]
    section = section[: section.index("</section>")]
    assert section.count('class="best"') == 2
    assert "labels known" in section
    assert re.search(r"clinc150 · cosine-paper · epsilon 1</td><td class=\"number\">10 %", section)


def test_the_page_says_the_rule_for_seeds_and_follows_it():
    assert "of three or fewer the worst and the best" in bench_page.SEEDS
    cell = {"data": "d", "learner": "cosine", "labels": "oracle", "epsilon": 1}
    runs = [{"status": "done", "forgetting": v / 100, "run": {**cell, "seed": v}} for v in (1, 2, 3, 4)]
    text = results_page("Four seeds", runs, [])
    assert bench_page.SEEDS in text
    assert "2.5 (2.0, 3.0)" in text


def test_seeds_without_a_measurement_do_not_count():
    assert groups.over_seeds([]) is None
    assert groups.over_seeds([None, float("nan")]) is None
    assert str(groups.over_seeds([1, None, 3])) == "2.0 (1.0, 3.0)"


def test_missing_measurements_are_not_zeros():
    runs = [run for run in made_up.runs() if run["status"] == "done"][:5]
    for run in copy.deepcopy(runs):
        run["matrix"] = [[None] * 10 for _ in range(9)] + [run["matrix"][-1]]
        run["curve"] = [None] * 9 + [run["curve"][-1]]
        run["forgetting"] = None
        runs.append(run)
    text = results_page("Results", runs[5:], [])
    assert "Forgetting" not in headings(text)
    assert text.count('<th scope="row">') == 1
    assert ">0</td>" not in text


def test_runs_without_privacy_cost_infinity(text):
    section = text[text.index("Cost in epsilon and seconds</h2>") :]
    assert re.search(r"cosine · oracle · no privacy[^<]*</td><td[^>]*>5</td><td[^>]*>infinity", section)


def test_drop_curves_of_one_mechanism_share_a_plot():
    curves = [{"epsilon": e, "sizes": [1, 9], "probability": [1, 0.2]} for e in (1, 2)]
    drop = {**made_up.drop(), "curves": curves}
    text = results_page("Drop", [], [], drop=drop)
    assert text.count("<figure") == 1
    assert text.count("<button") == 2
    assert results_page("Drop", [], [], drop=made_up.drop()).count("<figure") == 3


def test_seeded_runs_say_so(text):
    assert "NOT PRIVATE" in text
    assert "labels and sums, noise 4.2" in text


def test_two_thousand_runs_make_a_page_of_reasonable_size():
    runs = [
        {**run, "run": {**run["run"], "data": f"{run['run']['data']} {k}"}} for k in range(7) for run in made_up.runs()
    ]
    assert len(runs) > 1900
    assert len(results_page("Many", runs, [])) < 6_000_000


def test_stars_emphasise_and_numbers_stand_to_the_right():
    shown = page.table(["a", "b"], [["1.5 (1.0, 2.0)", "x"], ["*failed*", "<y>"]])
    assert '<th scope="col" class="number">a</th><th scope="col">b</th>' in shown
    assert "<em>failed</em>" in shown
    assert "&lt;y&gt;" in shown
    missing = page.table(["a"], [["54.6"], ["-"]], caption="*Public*: <b> a * b *")
    assert '<td class="number">-</td>' in missing
    assert "<span><em>Public</em>: &lt;b&gt; a * b *</span></caption>" in missing


def test_first_tables_and_how_they_were_made_come_before_the_rest():
    first = [table("Short", MIXED[1:2]), table("Claims", MIXED[:1])]
    shown = results_page("Results", made_up.runs(), made_up.tables(), first=first, made=["By <code> 0123."])
    assert headings(shown)[:4] == ["Short", "Claims", "How it was made", "At a glance"]
    assert "<p>By &lt;code&gt; 0123.</p>" in shown
    assert shown.index("How it was made</h2>") < shown.index('class="filters"') < shown.index("At a glance</h2>")


def test_attack_and_drop_say_what_measured_them(text):
    for kind, title in (("attack", "Membership attack on labels"), ("drop", "Probability that a label is dropped")):
        section = text[text.index(f"{title}</h2>") :].split("</section>")[0]
        assert f"Measured by reticent bench {kind}, version 7. Python 3.12" in section


def test_tables_of_sentences_are_blocks_on_a_phone_and_wide_ones_are_dense():
    words = table("Words", [["x" * 41, "y" * 41, "z", "1", "2"]])
    assert '<table class="stacked"' in results_page("Results", [], [words])
    assert '<table class="stacked"' not in results_page("Results", [], [table("One", MIXED[1:2])])
    assert '<table class="dense">' in page.table(list("abcdefgh"), [])


def table(title: str, rows: list[list[str]], **more: object) -> dict[str, object]:
    columns = ["epsilon", "classifier", "source", "ratio 0", "ratio 50"]
    return {"title": title, "caption": "", "columns": columns, "rows": rows, "notes": [], **more}


LATER = "*not run here* (about 4 min)"
MIXED = [
    ["1", "Cosine Classifier", "paper, cifar100", "80.1", ""],
    ["1", "Cosine Classifier", "ours here, d", "84.1", LATER],
    ["1", "PEFT Ensemble", "paper, cifar100", "70.1", ""],
    ["1", "PEFT Ensemble", "ours here, d", LATER, LATER],
]


def unfolded(text: str) -> str:
    """A page without what is folded away; parts that are folded inside of others go first."""
    before = ""
    while before != text:
        before, text = text, re.sub(r"<details>(?:(?!<details).)*?</details>", "", text, flags=re.DOTALL)
    return text


def test_rows_that_were_not_run_are_folded_away():
    tables = [table("Half", MIXED), table("Nothing", [MIXED[2], MIXED[3]], spec="blurry")]
    text = results_page("Results", [], tables)
    Reader(text)
    shown = unfolded(text)
    assert "84.1" in shown
    assert "<em>not run</em>" in shown  # beside what was run
    assert "not run here" not in re.sub("<summary>.*?</summary>", "", shown)
    assert "1 row(s) of this table were not run here" in text
    assert "<td>PEFT Ensemble</td>" not in shown  # nor the paper's number, with nothing beside it
    assert "1 table(s) of which nothing was run here" in text
    assert '<td>Nothing</td><td class="number">2</td><td>reticent bench blurry</td>' in text


def test_a_table_of_several_specs_is_shown_once():
    rows = [["1", "Cosine", "ours here, d", "50.0", "40.0"]]
    several = [table("Same", rows, spec="blurry"), table("Same", rows, spec="quick"), table("Same", rows * 2)]
    assert results_page("Results", [], several).count("<summary>Same</summary>") == 2


def test_a_table_of_blocks_is_still_a_table_to_who_hears_it():
    shown = page.table(["a"], [["x"]], stacked=True)
    for role in ("table", "rowgroup", "row", "columnheader", "cell"):
        assert f'role="{role}"' in shown
    assert "role=" not in page.table(["a"], [["x"]])


def test_a_row_that_was_run_in_part_stays():
    text = unfolded(
        results_page("Results", [], [table("One", [["1", "Cosine", "ours here, d", LATER, "3.0 (2.0, 4.0)"]])])
    )
    assert "3.0 (2.0, 4.0)" in text


def test_many_tables_are_folded_but_the_first():
    rows = [["1", f"Learner {k}", "ours here, d", "50.0", "40.0"] for k in range(41)]
    text = results_page("Results", [], [table("First", rows[:1]), table("Second", rows)])
    assert "<details open><summary>First</summary>" in text
    assert "<details><summary>Second</summary>" in text


def test_the_page_begins_with_a_takeaway_and_the_best_numbers(text):
    assert '<p class="takeaway">3 of 4</p>' in results_page("Results", [], [], takeaways=["3 of 4"])
    section = text[text.index("At a glance</h2>") :]
    section = section[: section.index("</section>")]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", section)]
    best = {tuple(row[:3]): row[3:] for row in rows if row}
    assert best["icd10cm", "1", "oracle"][1] == "noncl · last_layer"  # the most skilled of the made-up learners
    assert ("clinc150", "no privacy", "released") in best


def test_counts_have_an_axis_from_zero():
    runs = [
        {
            "status": "done",
            "accuracy": 0.5,
            "known": 150,
            "run": {"data": "d", "learner": "l", "share": s, "epsilon": 1},
        }
        for s in (5, 10, 20)
    ]
    text = results_page("Known", runs, [])
    figure = next(f for f in re.findall(r"<figure.*?</figure>", text, flags=re.DOTALL) if "labels known against" in f)
    assert re.findall(r'text-anchor="end">(.*?)<', figure)[0] == "0"
