"""What the notebooks of the documentation show is what they print."""

import pytest

pytest.importorskip("ipykernel", reason="notebooks need ipykernel and nbclient: pip install 'reticent[test]'")
import nbformat

from tests import notebooks


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", notebooks.PAGES, ids=lambda page: page.stem)
def test_notebooks_print_what_they_show(page):
    shown = notebooks.printed(nbformat.read(page, as_version=4))
    assert notebooks.printed(notebooks.executed(page)) == shown
    assert any(shown)


def test_there_is_a_notebook_for_each_user():
    assert [page.stem for page in notebooks.PAGES] == ["engineer", "officer", "researcher"]
