"""A relay between two sides of connections, with faults that are switched while it runs."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

_HOST: Final = "127.0.0.1"
_HEAD: Final = struct.Struct(">ihhih")
_READ_BYTES: Final = 1 << 16
_QUEUED: Final = 64  # reads on their way in one direction, before no more is taken
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_TIMEOUT_S: Final = 60.0


class Way(Enum):
    """Where bytes go."""

    TO_SERVER = auto()
    TO_CLIENT = auto()


class Ending(Enum):
    """``CLOSED``: both sides are told, as when the other one has closed. ``RESET``: both get a RST. ``LOST``:
    half-open, nothing passes any more, in either direction, and nobody is told.
    """

    CLOSED = auto()
    RESET = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of the bytes that go one way, on connections whose first request names ``client_id`` (None: any).

    ``delay_seconds``: they come so much later. ``piece_bytes``: they come so many at a time, ``pause_seconds`` apart.
    ``end``: what happens behind ``after_bytes`` of them, counted from the connection's beginning; ``times``: on so many
    connections.
    """

    way: Way
    client_id: str | None = None
    delay_seconds: float = 0.0
    piece_bytes: int = 0
    pause_seconds: float = 0.0
    end: Ending | None = None
    after_bytes: int = 0
    times: int = 1 << 31


class _Connection:
    """One, from a client to the server behind. ``passed``: bytes, by way."""

    def __init__(self, relay: Relay, client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._relay = relay
        self._client_reader, self._client_writer = client
        self._server_writer: asyncio.StreamWriter | None = None
        self._first = b""
        self._ended = asyncio.Event()
        self._lost = False
        self.client_id: str | None = None
        self.passed = {Way.TO_SERVER: 0, Way.TO_CLIENT: 0}

    async def run(self, port: int) -> None:
        """Until it has ended; one that is lost has not."""
        try:
            server_reader, self._server_writer = await asyncio.open_connection(_HOST, port)
        except OSError:
            self.end(Ending.RESET)
            return
        carrying = [
            asyncio.create_task(self._carry(Way.TO_SERVER, self._client_reader, self._server_writer)),
            asyncio.create_task(self._carry(Way.TO_CLIENT, server_reader, self._client_writer)),
        ]
        try:
            await self._ended.wait()
        finally:
            for task in carrying:
                task.cancel()
            await asyncio.gather(*carrying, return_exceptions=True)
            for writer in (self._client_writer, self._server_writer):
                writer.close()

    def end(self, ending: Ending) -> None:
        self._lost = self._lost or ending is Ending.LOST
        if self._lost:
            return
        if ending is Ending.RESET:
            for writer in (self._client_writer, self._server_writer):
                if writer is not None and not writer.is_closing():  # a socket that is closed takes no option
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                    writer.transport.abort()
        self._ended.set()

    async def _carry(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUED)
        delivering = asyncio.create_task(self._deliver(way, queue, writer))
        now = asyncio.get_running_loop().time
        try:
            data = b" "
            while data:
                data = await reader.read(_READ_BYTES)
                if way is Way.TO_SERVER:
                    self._look_who(data)
                fault = self._relay.find(way, self.client_id)
                await queue.put((now() + (fault.delay_seconds if fault else 0.0), data))
            await delivering
        except ConnectionError:
            self.end(Ending.RESET)
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)

    async def _deliver(self, way: Way, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        now = asyncio.get_running_loop().time
        while True:
            due, data = await queue.get()
            if due > now():
                await asyncio.sleep(due - now())
            if not data:
                self.end(Ending.CLOSED)
                return
            while data and not self._lost and not self._ended.is_set():
                fault = self._relay.find(way, self.client_id)
                size = len(data)
                if fault is not None and fault.piece_bytes:
                    size = min(size, fault.piece_bytes)
                ending = None
                if fault is not None and fault.end is not None and self.passed[way] + size >= fault.after_bytes:
                    size = max(0, fault.after_bytes - self.passed[way])
                    ending = fault.end
                piece, data = data[:size], data[size:]
                self.passed[way] += size
                writer.write(piece)
                await writer.drain()
                if fault is not None and fault.pause_seconds:
                    await asyncio.sleep(fault.pause_seconds)
                if ending is not None and fault is not None and self._relay.hit(fault):
                    self.end(ending)

    def _look_who(self, data: bytes) -> None:
        if self.client_id is None and len(self._first) < _READ_BYTES:
            self._first += data
            if len(self._first) >= _HEAD.size:
                size = max(0, _HEAD.unpack_from(self._first)[4])
                if len(self._first) >= _HEAD.size + size:
                    self.client_id = self._first[_HEAD.size : _HEAD.size + size].decode(errors="replace")


class Relay:
    """In a `with` block: what connects to a port of ``ports`` has a connection to the port of the other side.

    Its connections are in a thread of their own; methods may be called from any other.
    """

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = dict(ports)
        self._faults: tuple[Fault, ...] = ()
        self._hits: dict[Fault, int] = {}
        self._changed = threading.Condition()
        self._open: dict[asyncio.Task[None], _Connection] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay")
        self._servers: list[asyncio.Server] = []

    # From the tests.

    def put(self, *faults: Fault) -> None:
        """These from now on, the first that fits; none: everything passes. What is lost stays lost."""
        self._call(lambda: self._put(faults))

    def end_all(self, ending: Ending, client_id: str | None = None) -> int:
        """End the connections of this client, or all there are; how many that were."""
        return self._call(lambda: self._end_all(ending, client_id))

    def wait_hits(self, count: int) -> None:
        """Until the endings of the faults that were put last have come on so many connections."""
        with self._changed:
            assert self._changed.wait_for(lambda: sum(self._hits.values()) >= count, _TIMEOUT_S), self._hits

    def passed(self, way: Way, client_id: str) -> int:
        """Bytes, on the connections of this client that there are."""
        return self._call(lambda: sum(each.passed[way] for each in self._open.values() if each.client_id == client_id))

    def _call(self, function: Callable[[], T]) -> T:
        async def called() -> T:
            return function()

        return self._run(called())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()

    # In the thread.

    def find(self, way: Way, client_id: str | None) -> Fault | None:
        for fault in self._faults:
            due = fault.end is None or self._hits[fault] < fault.times
            if fault.way is way and fault.client_id in (None, client_id) and due:
                return fault
        return None

    def hit(self, fault: Fault) -> bool:
        """Whether it still stands, and was not used up meanwhile."""
        if self._hits.get(fault, fault.times) >= fault.times:
            return False
        with self._changed:
            self._hits[fault] += 1
            self._changed.notify_all()
        return True

    def _put(self, faults: tuple[Fault, ...]) -> None:
        self._faults = faults
        self._hits = dict.fromkeys(faults, 0)

    def _end_all(self, ending: Ending, client_id: str | None) -> int:
        chosen = [each for each in self._open.values() if client_id in (None, each.client_id)]
        for each in chosen:
            each.end(ending)
        return len(chosen)

    async def _listen(self) -> None:
        for port, behind in self._ports.items():
            self._servers.append(await asyncio.start_server(self._accepter(behind), _HOST, port))

    def _accepter(self, behind: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = _Connection(self, (reader, writer))
            task = self._loop.create_task(connection.run(behind))
            self._open[task] = connection
            task.add_done_callback(self._open.pop)

        return accept

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports' last call
