"""The other shims, as this one asks them: one connection to each owner, for the requests of all clients."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeAlias, cast

from protocol.errors import EncodeError, ErrorCode
from protocol.own.between_shims import Hello
from shim.boottime import boottime
from shim.forwarding.broken import Broken
from shim.forwarding.home import MOST_UNSENT_BYTES, Asked, Failed, HomeSide, Request
from shim.logged_once import LoggedOnce
from shim.metrics import ForwardingCounts, NotForwarded

log = logging.getLogger(__name__)

SILENCE_SECONDS: Final = 2.0
"""How often the owner is asked whether it is there; where nothing has come from it by the next time it is not."""
CONNECTS_WITHIN_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.5
"""After a connection that could not be made, until another is tried."""
_LATE_SECONDS: Final = 0.5

Peer: TypeAlias = Hashable
"""Where an owner is found, whatever ``dial`` makes of that."""
OwnerOf: TypeAlias = Callable[[int], Peer | None]
"""Of an offsets partition; None: this process, or nobody that can be asked."""
Dial: TypeAlias = Callable[[Peer, Callable[[], "Link"]], Awaitable[Any]]
"""Connects to a peer. Raises OSError, or ValueError for what is no address. The time that it takes is bounded here."""


class Forwarded:
    """A request that is with its owner."""

    __slots__ = ("_number", "_side")

    def __init__(self, side: HomeSide, number: int) -> None:
        self._side = side
        self._number = number

    def tell(self, question: int, frame: bytes | None) -> None:
        """What the client's broker has said; None: it cannot be had."""
        self._side.tell(self._number, question, frame)

    def withdraw(self) -> None:
        """Nobody waits for the answer any more; nothing where it has come."""
        self._side.withdraw(self._number)


class Peers:
    """For the event loop."""

    def __init__(
        self,
        owner_of: OwnerOf,
        dial: Dial,
        hello: Callable[[], Hello],
        clock: Callable[[], float] = boottime,
        called: Callable[[Peer], str] | None = None,
    ) -> None:
        """``hello``: what this process says of itself, on a connection that is made now. ``called``: what a peer is to
        people; a shim at its address, if that is not given."""
        self._called = called or shim_at
        self.owner_of = owner_of
        self.counts = ForwardingCounts()
        self._dial = dial
        self._hello = hello
        self._clock = clock
        self._links: dict[Peer, Link] = {}
        self._refused_until: dict[Peer, float] = {}
        self._dialing: set[asyncio.Task[None]] = set()
        self._trouble = LoggedOnce(log)
        self._leaving = False
        self._closed = False

    def leave(self) -> None:
        """This process ends, and others may end with it: connections that they close are no trouble."""
        self._leaving = True

    def forward(self, peer: Peer, request: Request, asked: Asked) -> Forwarded | None:
        """``asked`` is told what comes of it, before this returns where it gives None."""
        link = self._links.get(peer) or self._connect(peer)
        if link is None:
            self._failed(asked, "unreachable", ErrorCode.NOT_COORDINATOR)
            return None
        if link.unsent_bytes > MOST_UNSENT_BYTES:
            self._failed(asked, "congested", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        try:
            return Forwarded(link.side, link.side.forward(request, asked))
        except Failed as failed:
            self._failed(asked, "unsendable", failed.error)
            return None
        except EncodeError:  # of a principal that is no string
            self._failed(asked, "unsendable", ErrorCode.UNKNOWN_SERVER_ERROR)
            return None

    def _failed(self, asked: Asked, why: NotForwarded, error: ErrorCode) -> None:
        self.counts.failed[why] += not self._closed
        asked.failed(error)

    def misanswered(self, peer: Peer) -> None:
        """What it has answered is not the answer to what it was asked."""
        self.counts.failed["misanswered"] += 1
        log.warning("%s answers something else than it was asked: its answer is thrown away", self._called(peer))

    def _connect(self, peer: Peer) -> Link | None:
        now = time.monotonic()
        if self._closed or self._refused_until.get(peer, now) > now:
            return None
        self._refused_until = {each: until for each, until in self._refused_until.items() if until > now}
        what = self._trouble_with(peer)
        link = self._links[peer] = Link(
            self._hello(),
            self._clock,
            self.counts,
            known=lambda: self._trouble.went_well(what),
            lost=lambda reason: self._lost(peer, link, reason),
        )
        task = asyncio.get_running_loop().create_task(self._make(peer, link))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)
        return link

    async def _make(self, peer: Peer, link: Link) -> None:
        try:
            async with asyncio.timeout(CONNECTS_WITHIN_SECONDS):
                await self._dial(peer, lambda: link)
        except TimeoutError:
            link.end("it does not connect in time", "unreachable")
        except (OSError, ValueError, OverflowError) as error:
            link.end(str(error) or type(error).__name__, "unreachable")
        except BaseException:  # a bug, or the end
            link.end("given up", None if self._closed else "unreachable")
            raise

    def _lost(self, peer: Peer, link: Link, reason: str) -> None:
        if self._links.get(peer) is link:
            del self._links[peer]
            self._refused_until[peer] = time.monotonic() + AGAIN_SECONDS
        if not self._closed and not self._leaving:
            self._trouble.failed(self._trouble_with(peer), Exception(reason))

    def _trouble_with(self, peer: Peer) -> str:
        return f"requests cannot be forwarded to {self._called(peer)}"

    def close(self) -> None:
        """Whoever waits gets NOT_COORDINATOR, and so does who comes later."""
        self._closed = True
        for task in self._dialing:
            task.cancel()
        for link in list(self._links.values()):
            link.end("closed", None)


def shim_at(peer: Peer) -> str:
    """For people."""
    return f"the shim at {peer}"


class Link(asyncio.Protocol):
    """The connection, from before it is made to when it is lost."""

    def __init__(
        self,
        hello: Hello,
        clock: Callable[[], float],
        counts: ForwardingCounts,
        *,
        known: Callable[[], object],
        lost: Callable[[str], None],
    ) -> None:
        """``known`` is called when the other side has said who it is; ``lost`` once, with why."""
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._known = known
        self._lost: Callable[[str], None] | None = lost
        self._look: asyncio.TimerHandle | None = None
        self._look_at = 0.0
        self._heard = True
        self.side = HomeSide(hello, self._write, clock, counts)

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def _write(self, data: bytes) -> None:
        if self._transport is None:
            self._unsent.append(data)
            self._unsent_bytes += len(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        if self._lost is None:
            transport.abort()
            return
        self._transport = transport
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        transport.write(b"".join(unsent))
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._lost is None:
            return
        was_known = self.side.is_known
        try:
            self.side.feed(data)
        except Broken as error:
            self.end(str(error), "lost")
            return
        if self.side.is_known and not was_known:
            self._known()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(str(exc) if exc else "it has closed the connection", "lost")

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._look_at = loop.time() + SILENCE_SECONDS
        self._look = loop.call_at(self._look_at, self._look_whether_silent)

    def _look_whether_silent(self) -> None:
        # What has come while this process was held up has not been read yet.
        was_held_up = asyncio.get_running_loop().time() - self._look_at > _LATE_SECONDS
        if not self._heard and not was_held_up:
            self.end("it does not answer", "silent")
            return
        self._heard = False
        self.side.ping()
        self._watch()

    def end(self, reason: str, why: NotForwarded | None) -> None:
        """All that are under way get NOT_COORDINATOR. ``why``: see :meth:`HomeSide.lost`."""
        lost, self._lost = self._lost, None
        if lost is None:
            return
        if self._look is not None:
            self._look.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._unsent, self._unsent_bytes = [], 0
        lost(reason)  # first: who is told may ask again at once
        self.side.lost(why)
