"""Many things, some at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def portions(items: Iterable[Item], size: int) -> Iterator[Sequence[Item]]:
    """Of ``size`` each, but for the last."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
