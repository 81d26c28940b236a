"""A worker's end of the socket between it and its parent, and what is said on it.

Messages are JSON objects of one name, each in one packet. To the parent: ``open`` (an address to listen on, and what
getaddrinfo says of it, null at first), ``closed`` (an address, where it listens no more; that, too, where the sockets
came when nobody waited for them), ``ready`` (the line that is to be printed), ``drains`` (ms: how long it waits for
requests in flight when it is told to stop, of settings that were read again), ``failed`` (why it ends, in one line),
``left`` (whether all of its share was closed in good order; the last one). From it: ``opened``, with the listening
sockets, ``refused`` (errno, and in words), or ``unknown`` (nobody has opened that address yet: it is to be looked up,
for which the parent does not wait), in the order of the questions. That it is closed is the end of the other one.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from shim.config import HostPort, Settings
from shim.log import Share
from shim.net.listening import found_for

MOST_BYTES: Final = 64 << 10
MOST_SOCKETS: Final = 64
_OPENED_WITHIN_SECONDS: Final = 10.0


class AtParent:
    """For the event loop, after :meth:`begin`. See :class:`shim.net.listening.ListeningSockets`, too: all workers
    accept from the same sockets, so each takes one connection at a time, and who has nothing to do takes the next."""

    at_once = 1

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._asked: deque[tuple[HostPort, asyncio.Future[Sequence[socket.socket] | None]]] = deque()
        self._is_gone = False

    def begin(self, gone: Callable[[], None]) -> None:
        """``gone`` is called when the parent is."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._channel, self._read, loop, gone)

    def _read(self, loop: asyncio.AbstractEventLoop, gone: Callable[[], None]) -> None:
        data, fds = b"", list[int]()
        with suppress(OSError):  # as when there is nothing any more
            data, fds, _, _ = socket.recv_fds(self._channel, MOST_BYTES, MOST_SOCKETS)
        if data:
            self._told(json.loads(data), [socket.socket(fileno=fd) for fd in fds])
            return
        loop.remove_reader(self._channel)
        self._is_gone = True
        for _, future in self._asked:
            if not future.done():
                future.set_exception(_gone())
        self._asked.clear()
        gone()

    def _told(self, message: dict[str, Any], sockets: Sequence[socket.socket]) -> None:
        address, future = self._asked.popleft()
        if future.done():
            self._give_back(address, sockets)
        elif "refused" in message:
            number, words = message["refused"]
            future.set_exception(OSError(number, words))
        elif "unknown" in message:
            future.set_result(None)
        else:
            future.set_result(sockets)

    def _give_back(self, address: HostPort, sockets: Sequence[socket.socket]) -> None:
        """Nobody waits for them any more."""
        for each in sockets:
            each.close()
        # Where they are asked for again the parent has heard that by now, and is told of the address after that.
        if sockets and all(again != address for again, _ in self._asked):
            self.closed(address)

    async def open(self, address: HostPort) -> Sequence[socket.socket]:
        """See :class:`shim.net.listening.ListeningSockets`."""
        sockets = await self._opened(address, None)
        if sockets is None:
            sockets = await self._opened(address, await found_for(address))
        assert sockets is not None, "it is said what is to be opened"
        return sockets

    async def _opened(self, address: HostPort, found: list[tuple[Any, ...]] | None) -> Sequence[socket.socket] | None:
        """None where it has to be looked up. Raises OSError."""
        if self._is_gone:
            raise _gone()
        future: asyncio.Future[Sequence[socket.socket] | None] = asyncio.get_running_loop().create_future()
        self._asked.append((address, future))
        self._say({"open": [address, found]})
        try:
            async with asyncio.timeout(_OPENED_WITHIN_SECONDS):
                return await future
        except (TimeoutError, asyncio.CancelledError) as error:
            if future.done() and not future.cancelled() and future.exception() is None:  # they came just now
                self._give_back(address, future.result() or ())
            if isinstance(error, asyncio.CancelledError):
                raise
            raise OSError(errno.ETIMEDOUT, "the parent of the workers does not open it") from None

    def closed(self, address: HostPort) -> None:
        """See :class:`shim.net.listening.ListeningSockets`."""
        self._say({"closed": address})

    def ready(self, line: str) -> None:
        self._say({"ready": line})

    def take_settings(self, settings: Settings) -> None:
        """The parent is to know how long to wait for this worker."""
        self._say({"drains": settings.shutdown_drain_timeout_ms})

    def failed(self, why: str) -> None:
        self._say({"failed": why})

    def left(self, *, clean: bool) -> None:
        self._say({"left": clean})

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send(json.dumps(message).encode())
        except OSError:  # it is gone, which is told where this is read
            self._is_gone = True


def _gone() -> OSError:
    return OSError(errno.EPIPE, os.strerror(errno.EPIPE))


class Worker(NamedTuple):
    """What one worker is given, beside what all are. ``clean``: whether its share was left in good order."""

    share: Share
    clean: bool
    parent: AtParent
