"""Which commands of a text are there in those that are known. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile


def covers(known: str, command: str) -> bool:
    """Whether it is that command, or one whose mention in passing the other is: the same words before all options, or
    fewer of them, and no option that it does not have."""
    ours, theirs = _words(known), _words(command)
    named = list(takewhile(lambda word: not word.startswith("-"), theirs))
    return ours[: len(named)] == named and set(theirs) <= set(ours)


def not_covered(commands: Iterable[str], known: Iterable[str]) -> list[str]:
    known = list(known)
    return [command for command in commands if not any(covers(each, command) for each in known)]


def options(command: str) -> list[str]:
    """`--long` ones, of each program that is in it."""
    return [word.partition("=")[0] for word in _words(command) if word.startswith("--") and len(word) > 2]


def _words(command: str) -> list[str]:
    return [word.strip("[],") for word in command.split()]
