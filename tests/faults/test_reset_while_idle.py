"""A connection of the shim's own that is reset while nothing is asked on it: on both event loops."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from protocol.messages import api_versions, metadata
from shim.config import HostPort, Settings
from shim.upstream import UpstreamError
from shim.upstream.connection import BrokerConnection
from shim.upstream.kept_connection import KeptConnection
from tests.waiting import until

HOST = "127.0.0.1"
NO_LINGER = struct.pack("ii", 1, 0)


class Resetting:
    """A broker that answers whatever is asked, and resets its connections when it is told to."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                key, version, correlation_id = struct.unpack_from(">hhi", await reader.readexactly(size))
                if key == api_versions.API.key:
                    offered = (api_versions.ApiVersion(3, 0, 12),)
                    answer = api_versions.API.response_frame(
                        version, correlation_id, api_versions.ApiVersionsResponse(0, offered)
                    )
                else:
                    answer = metadata.API.response_frame(version, correlation_id, metadata.MetadataResponse())
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def reset(self) -> None:
        for writer in self.writers:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            writer.transport.abort()
        self.writers.clear()


async def test_the_next_question_fails_as_any_other() -> None:
    broker = Resetting()
    server = await asyncio.start_server(broker.serve, HOST, 0)
    address = HostPort(HOST, server.sockets[0].getsockname()[1])
    connection, kept = BrokerConnection(address, Settings()), KeptConnection(address, Settings())
    await connection.open()
    await kept.ask(metadata.API, metadata.MetadataRequest(topics=()))
    broker.reset()
    await until(connection._writer.is_closing)  # type: ignore[union-attr]
    with pytest.raises(UpstreamError):
        await connection.ask(metadata.API, metadata.MetadataRequest(topics=()))
    connection.close()
    assert await kept.ask(metadata.API, metadata.MetadataRequest(topics=())) == metadata.MetadataResponse()
    kept.close()
    broker.reset()
    server.close()
    await server.wait_closed()
