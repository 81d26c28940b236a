"""A broker that answers ApiVersions and Metadata, as the test wants it to, on a socket of the test's own loop."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from protocol.errors import ErrorCode
from protocol.messages import api_versions, metadata
from shim.config import HostPort

METADATA_VERSION = 1


class ScriptedBroker:
    """``asked`` gets an item for each Metadata request; ``spoil`` changes the frames that answer them."""

    def __init__(self) -> None:
        self.address = HostPort("127.0.0.1", 0)
        self.brokers: dict[int, HostPort] = {}
        self.asked: asyncio.Queue[int] = asyncio.Queue()
        self.spoil: Callable[[bytes], bytes] = lambda frame: frame

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                key, _, correlation_id = struct.unpack_from(">hhi", await reader.readexactly(size))
                writer.write(self._answer(key, correlation_id))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has had enough
        finally:
            writer.close()

    def _answer(self, key: int, correlation_id: int) -> bytes:
        if key == api_versions.API.key:
            offered = (api_versions.ApiVersion(metadata.API.key, 0, METADATA_VERSION),)
            answer = api_versions.ApiVersionsResponse(ErrorCode.NONE, offered)
            return api_versions.API.response_frame(0, correlation_id, answer)
        self.asked.put_nowait(correlation_id)
        brokers = tuple(metadata.MetadataResponseBroker(node_id, *self.brokers[node_id]) for node_id in self.brokers)
        view = metadata.MetadataResponse(brokers=brokers)
        return self.spoil(metadata.API.response_frame(METADATA_VERSION, correlation_id, view))


@asynccontextmanager
async def scripted_broker() -> AsyncIterator[ScriptedBroker]:
    """Node 1, until the test changes ``brokers``."""
    broker = ScriptedBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = HostPort("127.0.0.1", server.sockets[0].getsockname()[1])
    broker.brokers = {1: broker.address}
    try:
        yield broker
    finally:
        server.close()
