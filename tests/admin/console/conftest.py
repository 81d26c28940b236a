"""One browser for all tests of the console, and where the pictures for docs/console.md go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.admin.console.browser import Browser, chromium

Picture = Callable[[str], None]


@pytest.fixture(scope="package")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on the path")
    with chromium(tmp_path_factory.mktemp("chromium") / "profile") as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """At no page; nothing is left of the test before. What a page complained of fails the test."""
    one_browser.resize(1280)
    one_browser.prefer("light")
    yield one_browser
    complaints = one_browser.complaints()
    one_browser.open("about:blank")
    assert complaints == []


@pytest.fixture
def picture(browser: Browser, tmp_path: Path) -> Picture:
    """Takes one of the page; into the folder that CONSOLE_PICTURES names, where it does."""
    folder = Path(os.environ.get("CONSOLE_PICTURES", tmp_path))

    def take(name: str) -> None:
        file = folder / f"console-{name}.png"
        browser.picture(file)
        assert file.stat().st_size > 10_000

    return take
