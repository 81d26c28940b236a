"""The bench with TLS on both sides: the shim's own, and Python's at the other ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from shim.config import HostPort, Settings
from shim.net.session import ClientSession
from shim.tls import context_for_clients, tls_server
from tests.certificates import Authority
from tests.net.bench import HOST, Bench, Broker, BrokerConnection, Client
from tests.waiting import until


class TlsBench(Bench):
    """`authority` is everybody's CA."""

    def __init__(self, broker: Broker, addresses: list[HostPort], authority: Authority, settings: Settings) -> None:
        super().__init__(broker, addresses)
        self.authority = authority
        self.settings = settings
        self.context = context_for_clients("listener SSL", settings)

    def connection(self) -> asyncio.Protocol:
        return tls_server(self.context, self.session(), self.sessions.complaints.closed)

    def session(self) -> ClientSession:
        session = ClientSession(self.services, self.settings, None, lambda: self.addresses, self.sessions)
        self.made.append(session)
        return session

    async def tls_client(self, context: ssl.SSLContext | None = None, limit: int = 1 << 16) -> Client:
        """One that speaks TLS."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, self.port))
        context = context or trusting(self.authority)
        client = Client(*await asyncio.open_connection(sock=sock, limit=limit, ssl=context, server_hostname=HOST))
        self._clients.append(client)
        return client


def trusting(authority: Authority, keystore: Path | None = None) -> ssl.SSLContext:
    """A client's context."""
    context = ssl.create_default_context(cafile=authority.truststore)
    if keystore is not None:
        context.load_cert_chain(keystore)
    return context


@asynccontextmanager
async def tls_bench(
    authority: Authority,
    settings: Mapping[str, str] | None = None,
    *,
    broker_keystore: Path | None = None,
    broker_asks: bool = False,
) -> AsyncIterator[TlsBench]:
    """`settings` are the shim's; `broker_keystore` is what the broker shows, which wants one itself if it `asks`."""
    loop = asyncio.get_running_loop()
    broker = Broker()
    behind_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    behind_context.load_cert_chain(broker_keystore or authority.keystore("broker.pem"))
    if broker_asks:
        behind_context.load_verify_locations(authority.truststore)
        behind_context.verify_mode = ssl.CERT_REQUIRED
    behind = await loop.create_server(lambda: BrokerConnection(broker), HOST, 0, ssl=behind_context)
    given = {
        "ssl_keystore_location": str(authority.keystore("shim.pem")),
        "upstream_security_protocol": "SSL",
        "upstream_ssl_truststore_location": str(authority.truststore),
        **(settings or {}),
    }
    address = HostPort(HOST, behind.sockets[0].getsockname()[1])
    made = TlsBench(broker, [address], authority, replace(Settings(), **given))  # type: ignore[arg-type]
    front = await loop.create_server(made.connection, HOST, 0)
    made.port = front.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        front.close()
        behind.close()
        made.close()
        await until(lambda: not len(made.sessions) and all(each.lost for each in broker.connections))
