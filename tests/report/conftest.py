import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reticent.report.bench_page import results_page
from tests.report import made_up
from tests.report.chromium import Chromium


@pytest.fixture(scope="session")
def results(tmp_path_factory) -> Path:
    """A page with everything on it."""
    file: Path = tmp_path_factory.mktemp("results") / "report.html"
    text = results_page(
        f"Results {made_up.EVIL}",
        made_up.runs(),
        made_up.tables(),
        attack=made_up.attack(),
        drop=made_up.drop(),
        notes=[f"A note. {made_up.EVIL}"],
    )
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[Chromium]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium found")
    chromium = Chromium(program, tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture
def tab(browser) -> Iterator[Chromium]:
    browser.screen()
    browser.scripts(allowed=True)
    yield browser
    browser.scripts(allowed=True)
