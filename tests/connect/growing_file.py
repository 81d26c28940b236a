"""Text files as Connect's file connectors have them: one that grows, and what is in one."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

# ASCII: Kafka's file source (4.3.1) counts characters, and when it comes back it skips as many bytes.
_ALPHABET = "abcdefghijklmnopqrstuvwxyz  \t,;\"'\\"
_AT_ONCE = 20
_PAUSE_S = 0.02


def _lines(seed: int) -> Iterator[str]:
    """Lines with their number in front, and behind it whatever text."""
    rng = random.Random(seed)
    number = 0
    while True:
        yield f"{number} {''.join(rng.choices(_ALPHABET, k=rng.randrange(40)))}"
        number += 1


class GrowingFile:
    """A file to which numbered lines are added, by `add`, and all the time in a `with` block. `lines`: those so far."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.lines: list[str] = []
        self._more = _lines(seed)
        self._enough = threading.Event()
        self._writer: threading.Thread | None = None

    def add(self, count: int) -> None:
        more = [next(self._more) for _ in range(count)]
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.writelines(f"{line}\n" for line in more)
        self.lines += more

    def _grow(self) -> None:
        while not self._enough.wait(_PAUSE_S):
            self.add(_AT_ONCE)

    def __enter__(self) -> Self:
        self._enough.clear()
        self._writer = threading.Thread(target=self._grow, name="growing-file", daemon=True)
        self._writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writer is not None
        self._enough.set()
        self._writer.join()


def whole_lines(path: Path) -> list[str]:
    """The file's lines, but for one whose end is still to come."""
    return path.read_bytes().decode().rpartition("\n")[0].split("\n") if path.exists() else []


def gone_back(came: Sequence[str], given: Sequence[str]) -> tuple[int, int] | None:
    """(i, j) where `came` is the first i of `given`, and then those from j on, j <= i; None where it is not."""
    twice = len(came) - len(given)
    if twice < 0:
        return None
    same = next((at for at, (one, other) in enumerate(zip(came, given, strict=False)) if one != other), len(given))
    until = next((at for at in range(same, twice - 1, -1) if came[at:] == given[at - twice :]), None)
    return None if until is None else (until, until - twice)


def first_left_out(lines: Sequence[str]) -> int | None:
    """The first number that is passed over, however often the lines go back; None where there is none."""
    due = 0
    for line in lines:
        number = int(line.split(" ")[0])
        if number > due:
            return due
        due = max(due, number + 1)
    return None
