"""The model card: written from releases and ledger, renewed with each commit, and never in the way."""

import os
import shutil
from collections.abc import Iterable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.labels import LabelSpace, canonical
from reticent.numerics import files
from reticent.privacy import events
from reticent.released import card, store
from reticent.released.account import Account
from reticent.released.contents import refuse_own
from reticent.released.model import Model
from reticent.released.release import Release
from reticent.released.sums import Sums

yaml = pytest.importorskip("yaml", reason="reads the front matter; transformers brings it")
BUDGET = rt.Budget(epsilon=2.0, delta=1e-5)
X, Y = np.repeat(np.eye(2, 4), 50, axis=0), ["a"] * 50 + ["b"] * 50


def new(path, **settings) -> rt.ContinualClassifier:
    return rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=BUDGET, path=path, **settings)


def front_matter(text: str):
    return yaml.safe_load(text.split("---\n")[1])


def test_cards_are_renewed_with_each_commit(tmp_path):
    model = new(tmp_path / "model")
    assert model.statement().spends == ()
    assert "None yet." in (tmp_path / "model" / card.CARD).read_text()
    for task in ("march", "april"):
        model.learn_task(X, Y, name=task)
        with model.directory._one_writer() as ledger:
            head = f"row {ledger.account.rows} of the ledger, `{ledger.account.chain}`"
        text = (tmp_path / "model" / card.CARD).read_text()
        assert head in text
        assert f"| {task} | 0 | " in text
    model.extend_labels(["c"])
    assert "knows 3 label(s)" in (tmp_path / "model" / card.CARD).read_text()


def test_cards_say_what_the_hub_reads(tmp_path):
    text = (new(tmp_path).learn_task(X, Y, name="march"), (tmp_path / card.CARD).read_text())[1]
    about = front_matter(text)
    assert about["library_name"] == "reticent"
    assert about["pipeline_tag"] == "tabular-classification"
    assert "differential-privacy" in about["tags"]
    assert "epsilon 2 at delta 1e-05" in text.replace("**", "")
    assert all(sentence in text for sentence in rt.load(tmp_path).statement().assumptions())


def test_the_library_of_the_hub_reads_a_card(tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="reads cards as the hub does; transformers brings it")
    new(tmp_path).learn_task(X, Y, name="march")
    read = hub.ModelCard.load(tmp_path / card.CARD)
    assert read.data.library_name == "reticent"
    assert read.text.lstrip().startswith("# A classifier")


def test_a_copy_without_its_ledger_is_what_one_publishes(tmp_path):
    """The recipe in docs/deploying.md."""
    new(tmp_path / "model").learn_task(X, Y, name="march")
    left_out = shutil.ignore_patterns("ledger.sqlite*", "writer.lock")
    shutil.copytree(tmp_path / "model", tmp_path / "public", ignore=left_out)
    public = rt.load(tmp_path / "public")
    assert public.predict(np.eye(2, 4)).tolist() == rt.load(tmp_path / "model").predict(np.eye(2, 4)).tolist()
    with pytest.raises(rt.LedgerError, match="can predict, but not learn"):
        public.learn_task(X, Y, name="april")


def test_a_card_of_seeded_noise_says_so(tmp_path):
    from reticent.gate.noise import NoiseSource

    assert "NOT PRIVATE" not in (new(tmp_path / "a").learn_task(X, Y), (tmp_path / "a" / card.CARD).read_text())[1]
    new(tmp_path / "b", noise=NoiseSource.seeded(1)).learn_task(X, Y)
    assert "NOT PRIVATE" in (tmp_path / "b" / card.CARD).read_text().split("## Privacy")[0]


def test_a_text_of_the_users_own_is_kept(tmp_path):
    model = new(tmp_path).learn_task(X, Y, name="march")
    own = (tmp_path / card.CARD).read_text().replace(card.MARK + "\n", "license: mit\n")
    (tmp_path / card.CARD).write_text(own)
    model.learn_task(X, Y, name="april")
    assert (tmp_path / card.CARD).read_text() == own
    (tmp_path / card.CARD).unlink()
    model.learn_task(X, Y, name="may")
    assert "| may |" in (tmp_path / card.CARD).read_text()


@pytest.mark.posix
def test_a_link_is_neither_followed_nor_replaced(tmp_path):
    (tmp_path / "other").write_text(f"---\n{card.MARK}\n")
    new(tmp_path / "model").learn_task(X, Y, name="march")
    (tmp_path / "model" / card.CARD).unlink()
    os.symlink(tmp_path / "other", tmp_path / "model" / card.CARD)
    rt.load(tmp_path / "model").learn_task(X, Y, name="april")
    assert (tmp_path / "other").read_text() == f"---\n{card.MARK}\n"


@pytest.mark.parametrize("broken", [OSError(28, "No space left on device"), RuntimeError("anything"), MemoryError()])
def test_a_card_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch, broken):
    def fail(*_):
        raise broken

    model = new(tmp_path).learn_task(X, Y, name="march")
    before = (tmp_path / card.CARD).read_text()
    monkeypatch.setattr(card, "text", fail)
    model.learn_task(X, Y, name="april")
    assert [release.task for release in rt.load(tmp_path).releases] == ["march", "april"]
    assert (tmp_path / card.CARD).read_text() == before


def test_folders_without_a_card_are_models_too(tmp_path):
    new(tmp_path).learn_task(X, Y, name="march")
    (tmp_path / card.CARD).unlink()
    assert rt.load(tmp_path).predict(np.eye(2, 4)).shape == (2,)


def test_copies_have_a_card(tmp_path):
    new(tmp_path / "model").learn_task(X, Y, name="march").save(tmp_path / "copy")
    assert "| march |" in (tmp_path / "copy" / card.CARD).read_text()


def test_no_command_writes_over_a_card(tmp_path):
    new(tmp_path).learn_task(X, Y, name="march")
    with pytest.raises(errors.InvalidValue, match="belongs to a model"):
        refuse_own(tmp_path / card.CARD)


def made(labels: Iterable[Any], task: str = "march") -> str:
    """The card of a model that has released these labels, as a stranger's folder may have them."""
    budget = BUDGET.to_json()
    space = LabelSpace(tuple(labels), events.Public())
    release = Release(task=task, labels=space, parameters={}, event=events.Public(), private=True)
    settings = {
        "budget": budget,
        "policy": {"kind": "released"},
        "encoder": {"name": task, "digest": None},
        "rule": {"kind": "sums"},
    }
    return card.text(Model(LabelSpace(()), Sums(), (release,)), settings, Account(first=budget))


ANY = st.one_of(st.text(max_size=120), st.integers(), st.floats(allow_nan=False), st.tuples(st.text(max_size=9)))


@hypothesis.given(st.lists(ANY, max_size=120), st.text(min_size=1, max_size=300))
def test_cards_show_any_label_as_text(labels, task):
    usable = dict.fromkeys(label for label in map(canonical, labels) if label is not None)
    text = made(usable, task)
    text.encode()
    assert text.isprintable() or {c for c in text if not c.isprintable()} == {"\n"}
    assert yaml.safe_load(text.split("---\n")[1])["library_name"] == "reticent"
    lines = text.splitlines()
    assert len(lines) == len(made(["a"], "t").splitlines())  # no label begins a line of its own


def test_markup_in_labels_is_no_markup():
    text = made(['<img src=x onerror="alert(1)">', "a\n# heading", "[x](http://evil)", "`code`", "| cell |", "---"])
    shown = text.split("## Labels")[1].split("## Tasks")[0]
    assert "\\<img" in shown
    assert not any(mark in shown.replace("\\<", "").replace("\\[", "") for mark in ("<img", "[x]("))
    assert "\n# heading" not in shown


def test_long_lists_are_cut(tmp_path):
    text = made(range(5000))
    assert "and 4,900 more" in text
    assert len(text) < 6000


def test_a_card_is_whole_or_not_there(tmp_path, monkeypatch):
    """It is written as every other file of a model, so a kill leaves the old one."""
    written = []
    monkeypatch.setattr(files, "write_whole", lambda file, _: written.append(file.name))
    card.write(tmp_path, Model(LabelSpace(("a",)), Sums()), _settings(), None)
    assert written == [card.CARD]
    assert files.names_in(tmp_path) == []
    assert store.MANIFEST != card.CARD


def _settings() -> dict[str, Any]:
    return {"budget": BUDGET.to_json(), "policy": {"kind": "public"}, "encoder": None, "rule": {"kind": "sums"}}
