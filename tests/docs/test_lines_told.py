"""The lines of the log that a page tells people to look for are lines that the shim says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.docs.pages import ROOT

SECTIONS: Final = (("docs/log-on-topics.md", "## When it fails"),)
"""Of each page the section that quotes them."""

_HOLE: Final = re.compile(r"%(?:\.\d+)?[sdrgf]")
"""Of a string of the code; those of f-strings part it by themselves."""
_LEFT_OUT: Final = re.compile(r"…|\d[\d,.]*| for now: |: |[()]")
"""What a page leaves out, or has an example of; and what is put between two that are said by different places, as
:class:`shim.logged_once.LoggedOnce` does."""
_FILLED_IN: Final = re.compile(
    r"\b(?:is|are) (?=not )|\b(?:the shim at|worker|partitions|others|topic|in it|on topics|log-places)\b"
    r"|__offset_shim_offsets|__consumer_offsets|\b[A-Z]+(?:_[A-Z]+)+\b"
    r"|offsets\.topic\.replication\.factor is|and (?=there is)"
)
"""What the page says where the code has a hole."""
_AT_ENDS: Final = " :;,-."

_COMMANDS: Final = frozenset({"groups describe", "log move"})
"""Which a page quotes, too."""


def strings_of(code: str) -> Iterator[str]:
    """Fixed words, docstrings left out."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _HOLE.split(node.value)


def lines_of(section: str) -> list[str]:
    """What is quoted in it and is no single word, as names and settings are."""
    quoted = re.findall(r"`([^`]+)`", section)
    return [each for each in quoted if ("…" in each or " " in each) and each not in _COMMANDS]


def not_said(line: str, said: str) -> list[str]:
    """The words of a quoted line that are not in ``said``."""
    missing = []
    for words in _parts(_LEFT_OUT, line):
        if words not in said:
            missing += [part for part in _parts(_FILLED_IN, words) if part not in said]
    return missing


def _parts(between: re.Pattern[str], line: str) -> list[str]:
    return [part for each in between.split(line) if (part := each.strip(_AT_ENDS))]


@pytest.fixture(scope="module")
def said() -> str:
    """All that the shim may say, a string a line."""
    return "\n".join({each for path in (ROOT / "shim").rglob("*.py") for each in strings_of(path.read_text())})


@pytest.mark.parametrize(("page", "heading"), SECTIONS)
def test_the_shim_says_what_it_is_quoted_with(page: str, heading: str, said: str) -> None:
    _, _, section = (ROOT / page).read_text().partition(f"\n{heading}\n")
    lines = lines_of(section.partition("\n## ")[0])
    assert len(lines) > 30, "the section is not there any more"
    assert {line: missing for line in lines if (missing := not_said(line, said))} == {}


def test_what_is_not_said_is_found() -> None:
    code = '''
"""A docstring is gone."""
GONE = "the broker %s cannot be asked"
log.info(f"{where}: read from {offset:,} on", "again")
'''
    said = "\n".join(strings_of(code))
    assert not_said("… the broker … cannot be asked for now: …: read from 70,000 on", said) == []
    assert not_said("the broker kafka … cannot be asked", said) == ["the broker kafka"]
    assert not_said("…: is read again", said) == ["is read again"]
    assert not_said("A docstring is gone", said) == ["A docstring is gone"]
    assert lines_of("- `…-3 is read`: with `log.level=DEBUG`, `read again`") == ["…-3 is read", "read again"]
