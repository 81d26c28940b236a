"""Commands in a text: those of its code blocks, and those within a line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

PROGRAMS: Final = frozenset(
    {
        *("offset-shim", "offset-pipeline", "spark-submit", "kubectl", "systemctl", "journalctl"),
        *("useradd", "promtool", "curl"),
    }
)
"""The first word of what is a command; Kafka's own tools besides, which are known by their ending."""

WORDS_TOO: Final = frozenset(
    {"make", "python", "pip", "pytest", "java", "docker", "install", "head", "cp", "ssh", "eval", "mvn", "seq"}
)
"""Likewise, where something is behind it; alone it is a word of the text."""

ABBREVIATED: Final = frozenset({"groups", "migrate", "log"})
"""Commands of `offset-shim` that the text names without it where it has been named before."""

_FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_SHELL: Final = frozenset(("", "sh", "bash", "console"))
_SPAN: Final = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_CONTINUED: Final = re.compile(r"\\\n\s*")
_COMMENT: Final = re.compile(r"\s+#\s.*$")
_COMMENT_LINE: Final = re.compile(r"^# ?(.*)$", re.MULTILINE)
_TOOL: Final = re.compile(r"kafka-[a-z-]+\.sh")


def commands_of_page(text: str) -> list[str]:
    """Of Markdown, each in one line, without comments and with single spaces, in the order of their appearance."""
    return list(_of_page(text))


def commands_of_comments(text: str) -> list[str]:
    """Of a file whose comments begin with `#`: indented lines, and what stands between backticks."""
    comments = "\n".join(_COMMENT_LINE.findall(text))
    indented = [line for line in comments.splitlines() if line.startswith("  ")]
    rest = "\n".join(line for line in comments.splitlines() if not line.startswith("  "))
    return [*(command for line in indented if (command := as_command(line))), *_of_lines(rest)]


def as_command(text: str) -> str | None:
    """None where it is none."""
    words = text.split()
    if not words:
        return None
    program = words[0].removeprefix(".venv/bin/")
    if program in ABBREVIATED and len(words) > 1:
        return " ".join(["offset-shim", *words])
    known = program in PROGRAMS or (program in WORDS_TOO and len(words) > 1)
    return " ".join([program, *words[1:]]) if known or _TOOL.fullmatch(program) else None


def _of_page(text: str) -> Iterator[str]:
    at = 0
    for fence in _FENCE.finditer(text):
        yield from _of_lines(text[at : fence.start()])
        at = fence.end()
        if fence[2] in _SHELL:
            for line in _CONTINUED.sub("", fence[3]).splitlines():
                command = as_command(_COMMENT.sub("", line))
                if command:
                    yield command
    yield from _of_lines(text[at:])


def _of_lines(text: str) -> Iterator[str]:
    for ticks, span in _SPAN.findall(text):
        command = as_command(span)
        if command and len(ticks) == 1:
            yield command
