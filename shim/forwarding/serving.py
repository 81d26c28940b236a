"""The other shims, as they ask this one."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from protocol.own.between_shims import Hello
from shim.forwarding.broken import Broken
from shim.forwarding.owner import Entrusted, OwnerSide, Room
from shim.forwarding.strangers import MOST_BYTES, named
from shim.logged_once import LoggedOnce

log = logging.getLogger(__name__)

SILENCE_SECONDS: Final = 8.0
"""After so long without a word the other one is gone: it speaks every two seconds. It says who it is at once."""
MOST_CONNECTIONS: Final = 256
"""Of other shims, each of which has one."""
MOST_STRANGERS: Final = 128
"""Connections on which nobody has said yet who they are: more than are accepted in one turn of the loop (100), after
which others have said so. They take none of these others' places, and where there are more of them one goes for each
that comes: the oldest of the address that has most."""

Accept: TypeAlias = Callable[[Entrusted], None]
Admits: TypeAlias = Callable[[asyncio.Transport], str | None]
"""Why nothing is to be believed that comes on a connection, in a few words; None: it is. Asked when the first bytes of
it are there."""

_COMPLAINTS: Final = 100
"""So many different lines are told once each, and then again: whoever connects can cause them at will."""
_STRANGERS: Final = "connections on which nobody has said who it is are closed"

ANYBODY: Final[Admits] = lambda transport: None  # noqa: E731  # it is a default


class PeerServer:
    """For the event loop. :attr:`connection` makes the protocol of each connection, whatever accepts them."""

    def __init__(
        self,
        hello: Callable[[], Hello],
        accept: Accept,
        room: Room,
        admits: Admits = ANYBODY,
    ) -> None:
        """``hello``: what this process says of itself. ``accept`` is called with each request. ``room``: for what is
        not answered."""
        self._hello = hello
        self._accept = accept
        self._room = room
        self._admits = admits
        self._links: set[_OwnerLink] = set()
        self._strangers: dict[_OwnerLink, str] = {}
        """By when they came; and where from."""
        self._trouble = LoggedOnce(log)
        self._complaints: set[str] = set()
        self._closed = False

    def connection(self) -> asyncio.Protocol:
        return _OwnerLink(self)

    def close(self) -> None:
        """What has been answered is still sent."""
        self._closed = True
        for link in [*self._strangers, *self._links]:
            link.end()

    # For the links.

    def side(self, write: Callable[[bytes], None], met: Callable[[], None]) -> OwnerSide:
        return OwnerSide(self._hello(), write, self._accept, self._room, met)

    def came(self, link: _OwnerLink, peer: str) -> bool:
        """Whether it may stay for now. ``peer``: the address that it is from."""
        if self._closed:
            return False
        self._strangers[link] = peer
        if len(self._strangers) > MOST_STRANGERS:
            self._trouble.failed(_STRANGERS, Exception(f"there are more than {MOST_STRANGERS}"))
            self._oldest_of_most().end()
        return True

    def _oldest_of_most(self) -> _OwnerLink:
        """Who comes from elsewhere has its time, however many one address makes."""
        counts = Counter(self._strangers.values())
        most = max(counts.values())
        return next(link for link, peer in self._strangers.items() if counts[peer] == most)

    def met(self, link: _OwnerLink) -> None:
        """It has said who it is. Raises :class:`Broken` where there is no place for it."""
        if len(self._links) >= MOST_CONNECTIONS:
            raise Broken(f"there are {MOST_CONNECTIONS} others")
        self._left_the_strangers(link)
        self._links.add(link)

    def left(self, link: _OwnerLink) -> None:
        self._left_the_strangers(link)
        self._links.discard(link)

    def _left_the_strangers(self, link: _OwnerLink) -> None:
        if self._strangers.pop(link, None) is not None and not self._strangers:
            self._trouble.went_well(_STRANGERS)

    def why_not(self, transport: asyncio.Transport) -> str | None:
        return self._admits(transport)

    def complain(self, peer: str, reason: str) -> None:
        """``peer``: which connection it was."""
        line = f"{peer} was closed: {reason}"
        if line not in self._complaints:
            if len(self._complaints) >= _COMPLAINTS:
                self._complaints.clear()
            self._complaints.add(line)
            log.warning("%s", line)


class _OwnerLink(asyncio.Protocol):
    def __init__(self, server: PeerServer) -> None:
        self._server = server
        self._side = server.side(self._write, lambda: server.met(self))
        self._transport: asyncio.Transport | None = None
        self._named = "a connection"
        self._first = b""
        self._is_admitted = False
        self._ended = False
        self._heard = False
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if peer else "this machine"
        self._named = f"a connection to shims.listener from {host}" if peer else "a connection of another worker"
        if self._server.came(self, host):
            self._watch()
        else:
            self._ended = True
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._heard = True
        if not self._is_admitted:
            assert self._transport is not None
            if (reason := self._server.why_not(self._transport)) is not None:
                self._break(reason)
                return
            self._is_admitted = True
        if not self._side.is_known and len(self._first) < MOST_BYTES:
            self._first += data[: MOST_BYTES - len(self._first)]
        try:
            self._side.feed(data)
        except Broken as error:
            self._break(str(error))

    # The other side reads whatever comes, so this one may wait until it has.

    def pause_writing(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _watch(self) -> None:
        self._look = asyncio.get_running_loop().call_later(SILENCE_SECONDS, self._look_whether_silent)

    def _look_whether_silent(self) -> None:
        # Where it is this side that does not read it is not the other one that is silent.
        if not self._side.is_known:
            self._break("it does not say who it is")
            return
        if not self._heard and self._transport is not None and not self._transport.get_write_buffer_size():
            self._break("it says nothing")
            return
        self._heard = False
        self._watch()

    def _break(self, reason: str) -> None:
        stranger = "" if self._side.is_known else named(self._first)
        self._server.complain(self._named, stranger or reason)
        self.end()

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        if self._look is not None:
            self._look.cancel()
        if self._transport is not None:
            self._transport.close()
        self._server.left(self)
        self._side.lost()
