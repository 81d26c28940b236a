"""A session's requests and answers, between the event loop and kazoo's thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any, Final, NamedTuple

from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState, WatchedEvent

from shim.offsets.zookeeper.into_loop import IntoLoop, in_loop
from shim.offsets.zookeeper.kazoo_client import MOST_UNDER_WAY, Client, in_our_words
from shim.offsets.zookeeper.znodes import EnsembleUnavailable, SessionEvent, Watch

log = logging.getLogger(__name__)

Call = Callable[[Client], Any]
"""Makes a request; gives kazoo's AsyncResult."""

_EVENTS: Final = {
    KazooState.CONNECTED: SessionEvent.CONNECTED,
    KazooState.SUSPENDED: SessionEvent.SUSPENDED,
    KazooState.LOST: SessionEvent.LOST,
}


_SAID: Final = {
    SessionEvent.CONNECTED: (logging.INFO, "%s: connected"),
    SessionEvent.SUSPENDED: (logging.WARNING, "%s: the connection is gone (suspended), and is opened again by itself"),
    SessionEvent.LOST: (logging.WARNING, "%s: the session has ended (lost), and another one is begun by itself"),
}
"""Level and template."""


class Watcher(NamedTuple):
    """``watch`` as kazoo has it: called in kazoo's thread. Two of the same are equal, and kazoo keeps one at a znode,
    however often that is read. ``chroot``: of so many characters."""

    session: Session
    client: Client
    chroot: int
    watch: Watch

    def __call__(self, event: WatchedEvent) -> None:
        self.session.fired(self, event.path)


class Session:
    """One at a time. ``title`` names the ensemble in messages."""

    def __init__(self, title: str, new_client: Callable[[], Client], request_timeout: float) -> None:
        self.listeners: list[Callable[[SessionEvent], None]] = []
        self._title = title
        self._new_client = new_client
        self._request_timeout = request_timeout  # seconds
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connected = False
        self._said: SessionEvent | None = None
        self._open = asyncio.Event()  # whether requests are sent
        self._room = asyncio.Semaphore(MOST_UNDER_WAY)
        self._under_way: set[asyncio.Future[Any]] = set()
        self._landed = IntoLoop(self._deliver)
        self._fired = IntoLoop(self._tell)
        # While one has had no answer in its time no more are sent: kazoo finds out whether the server lives when it
        # has nothing to send. All of them are answered, or lost with the connection.
        self._overdue: set[asyncio.Future[Any]] = set()

    @property
    def client(self) -> Client | None:
        return self._client

    async def start(self) -> None:
        """Returns once there is a session. It does so of itself never where no server answers."""
        if self._client is not None:
            raise RuntimeError("the session has begun already")
        self._loop = asyncio.get_running_loop()
        client = self._client = self._new_client()
        client.add_listener(partial(self._changed, client))
        client.start_async()
        await self._open.wait()

    def let_go(self) -> asyncio.Future[None] | None:
        """End the session; the future is done when it has ended. None where there is none."""
        client, self._client = self._client, None
        if client is None or self._loop is None:
            return None
        self._connected = False
        self._said = None
        self._open.clear()
        self._overdue.clear()  # they say nothing about the server of the next session
        loop, gone = self._loop, self._loop.create_future()

        def told() -> None:
            if not gone.done():
                gone.set_result(None)

        def end() -> None:
            client.let_go()
            in_loop(loop, told)

        # A daemon, and none of the executor's: whoever stops does not wait for a server that hangs.
        Thread(target=end, name="zookeeper-close", daemon=True).start()
        return gone

    async def ask(self, call: Call, what: str) -> Any:
        """``what``: the path, for messages."""
        return await self.answer(await self.send(call, what), what)

    async def send(self, call: Call, what: str) -> asyncio.Future[Any]:
        """Waits for a connection and for room. The future is for :meth:`answer`."""
        if self._client is None:
            raise EnsembleUnavailable(f"there is no session with {self._title}")
        try:
            async with asyncio.timeout(self._request_timeout):
                await self._turn()
        except TimeoutError:
            why = "does not answer" if self._connected else "cannot be reached"
            raise EnsembleUnavailable(f"{self._title} {why}") from None
        client, loop = self._client, self._loop
        if client is None or loop is None:
            self._room.release()
            raise EnsembleUnavailable(f"the session with {self._title} has been closed")
        future = loop.create_future()
        try:
            result = call(client)
        except BaseException:
            self._room.release()
            raise
        self._under_way.add(future)
        result.rawlink(lambda landed: self._landed.put(loop, (future, landed)))
        return future

    async def _turn(self) -> None:
        """Takes a place in ``_room``."""
        while True:
            await self._open.wait()
            await self._room.acquire()
            if self._open.is_set():
                return
            self._room.release()

    async def answer(self, future: asyncio.Future[Any], what: str) -> Any:
        try:
            if not future.done():
                async with asyncio.timeout(self._request_timeout):
                    return await future
            return future.result()
        except TimeoutError:
            if future.cancelled():
                self._overdue.add(future)
                self._open.clear()
            raise EnsembleUnavailable(f"{self._title} does not answer") from None
        except KazooException as error:
            raise in_our_words(error, what) from error

    def fired(self, watcher: Watcher, path: str) -> None:
        """Called in kazoo's thread. ``path``: the whole one."""
        if self._loop is not None:
            self._fired.put(self._loop, (watcher, path))

    def _tell(self, fired: tuple[Watcher, str]) -> None:
        watcher, path = fired
        if watcher.client is self._client:  # not of a session that was let go
            asyncio.get_running_loop().call_soon(watcher.watch, path[watcher.chroot :] or "/")

    def _deliver(self, landed: tuple[asyncio.Future[Any], Any]) -> None:
        future, result = landed
        if future not in self._under_way:
            return  # kazoo can say twice that a request has failed, where it is closed
        self._under_way.remove(future)
        self._room.release()
        if future in self._overdue:
            self._overdue.remove(future)
            self._open_or_not()
        if future.done():
            return  # nobody waits for it any more
        if result.exception is None:
            future.set_result(result.value)
        else:
            future.set_exception(result.exception)

    def _changed(self, client: Client, state: str) -> None:
        """Called in kazoo's thread."""
        if self._loop is not None:
            in_loop(self._loop, partial(self._heard, client, _EVENTS[state]))

    def _heard(self, client: Client, event: SessionEvent) -> None:
        if client is not self._client:
            return  # of a session that was let go
        self._connected = event is SessionEvent.CONNECTED
        self._open_or_not()
        if event is not self._said:  # a client may say twice that it is connected
            self._said = event
            log.log(*_SAID[event], self._title)
        for listener in self.listeners:
            asyncio.get_running_loop().call_soon(listener, event)

    def _open_or_not(self) -> None:
        if self._connected and not self._overdue:
            self._open.set()
        else:
            self._open.clear()
