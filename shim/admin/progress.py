"""What the work tells whoever waits for it, by whatever shows it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Advancing(Protocol):
    """One stretch of work, while it is under way."""

    def advance(self, done: int) -> None: ...


class Progress(Protocol):
    """A stretch of work begins, under this name; it is over when ``total`` has been advanced, or it broke off."""

    def __call__(self, what: str, total: int) -> AbstractContextManager[Advancing]: ...
