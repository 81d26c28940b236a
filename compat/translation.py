"""How a request of a version that brokers dropped is answered with the help of one that they have."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from protocol.api import Api

MOST_FETCH_BYTES: Final = 16 << 20

Exchange: TypeAlias = Generator[Sequence[Any], Sequence[Any], Any]
"""Yields requests for the broker, of the version that it has, is sent its responses to them in that order (none to what
has none), and returns the response to the old request. All of that is messages of the API's schema: the caller reads
and writes the bytes."""


class Unanswerable(ValueError):
    """The request has no response (acks=0), and failed: a broker ends the connection, as nothing else can tell the
    client. The message says why, in one line."""


class Context:
    """What is remembered of one connection from one request to the next."""

    __slots__ = ("fetch_bytes", "first", "lacking")

    def __init__(self) -> None:
        self.fetch_bytes = MOST_FETCH_BYTES
        """Of records that may be fetched and converted at once, whatever was asked for, unless one batch alone has
        more."""
        self.first: tuple[str, int] | None = None
        """The topic and partition that got nothing the last time, though there was something to fetch."""
        self.lacking: frozenset[int] | None = None
        """The APIs of which the broker does not have the version that is translated to; None: it was not asked yet."""


class Translation(NamedTuple):
    """Of one API: clients' versions ``first`` to ``last`` by way of the broker's version ``to``.

    ``exchange`` is called with the version, the request and the connection's context. ``cost``: what converting a
    message takes, in bytes of records that it carries, or may once they are decompressed. ``answered``: whether a
    response comes.
    """

    api: Api[Any, Any]
    first: int
    last: int
    to: int
    exchange: Callable[[int, Any, Context], Exchange]
    cost: Callable[[Any], int] = lambda _: 0
    answered: Callable[[Any], bool] = lambda _: True

    def fits(self, oldest: int, newest: int) -> bool:
        """Whether a broker with these versions can be asked. One that cannot has the old ones itself."""
        return oldest <= self.to <= newest


def renumbered(_: int, request: Any, __: Context) -> Exchange:
    """For versions that differ in nothing but what the schema leaves out by itself."""
    (response,) = yield (request,)
    return response
