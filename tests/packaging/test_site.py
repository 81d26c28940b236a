"""The documentation as a web site, read from a folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.admin.console.browser import chromium
from tests.packaging.files import ROOT

pytest.importorskip("material")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_search_works_from_a_folder(site: Path, tmp_path: Path) -> None:
    """A browser refuses a page of a folder all that the search has from a server: the index, and a worker."""
    if any(shutil.which(name) is None for name in ("chromium", "chromedriver")):
        pytest.skip("no chromium, or no chromedriver, on the path")
    with chromium(tmp_path / "profile") as browser:
        browser.open((site / "index.html").as_uri())
        browser.run("document.querySelector('.md-search__input').focus()")
        browser.type(".md-search__input", "registrar.enable")
        browser.until("document.querySelector('.md-search-result__link')?.href.includes('.html')")
        assert browser.complaints() == []


def test_nothing_is_asked_for_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        found = re.findall(
            r"<(?:script|img|link rel=.stylesheet.)[^>]*(?:src|href)=.(?:https?:)?//[^>]*>", page.read_text()
        )
        assert found == [], page


def test_the_first_page_says_how_to_begin(site: Path) -> None:
    first = (site / "index.html").read_text()
    assert 'id="quick-start"' in first
    assert "README.md" not in first


def misread(page: str) -> list[str]:
    """Lines that Python-Markdown takes for something else: code that is indented, and lists nested by fewer than four
    spaces, which go on with the outer list's numbers."""
    outside = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^(?: +```| {1,3}(?:[-*]|\d+\.) ).*$", outside, re.MULTILINE)


def test_pages_are_read_as_they_were_meant() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert pages
    found = {str(page.relative_to(ROOT)): misread(page.read_text()) for page in pages}
    assert {page: lines for page, lines in found.items() if lines} == {}


def test_what_would_be_misread_is_found() -> None:
    assert misread("1. First:\n   - nested\n   ```\n   code\n") == ["   - nested", "   ```"]
    assert misread("1. First:\n    - nested\n\n```\n - code\n```\n") == []
