"""The other shims, as they ask this one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from protocol.own.between_shims import Hello
from shim.forwarding.broken import Broken
from shim.forwarding.owner import Entrusted, OwnerSide, Room
from shim.logged_once import LoggedOnce

log = logging.getLogger(__name__)

SILENCE_SECONDS: Final = 8.0
"""After so long without a word the other one is gone: it speaks every two seconds."""
MOST_CONNECTIONS: Final = 256
"""Of other shims, each of which has one."""

Accept: TypeAlias = Callable[[Entrusted], None]
Admits: TypeAlias = Callable[[asyncio.Transport], str | None]
"""Why nothing is to be believed that comes on a connection, in a few words; None: it is. Asked when the first bytes of
it are there."""

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
        self._trouble = LoggedOnce(log)
        self._closed = False

    def connection(self) -> asyncio.Protocol:
        return _OwnerLink(self)

    def close(self) -> None:
        """What has been answered is still sent."""
        self._closed = True
        for link in list(self._links):
            link.end()

    # For the links.

    def side(self, write: Callable[[bytes], None]) -> OwnerSide:
        return OwnerSide(self._hello(), write, self._accept, self._room)

    def came(self, link: _OwnerLink) -> bool:
        """Whether it may stay."""
        if self._closed or len(self._links) >= MOST_CONNECTIONS:
            return False
        self._links.add(link)
        return True

    def left(self, link: _OwnerLink) -> None:
        self._links.discard(link)

    def why_not(self, transport: asyncio.Transport) -> str | None:
        return self._admits(transport)

    def complain(self, peer: str, reason: str) -> None:
        self._trouble.failed("a connection that requests are forwarded on is closed", Exception(f"{peer}: {reason}"))


class _OwnerLink(asyncio.Protocol):
    def __init__(self, server: PeerServer) -> None:
        self._server = server
        self._side = server.side(self._write)
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._is_admitted = False
        self._ended = False
        self._heard = False
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else "this machine"
        if self._server.came(self):
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
        self._server.complain(self._peer, reason)
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
