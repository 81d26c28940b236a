"""A conversation of the shim's own with one broker: one request, one response, in turn."""

from __future__ import annotations

import asyncio
import secrets
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar, cast

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import api_versions, metadata, sasl_authenticate, sasl_handshake
from shim.config import HostPort, Settings
from shim.tls import context_for_brokers, dial
from shim.upstream.credentials import present
from shim.upstream.errors import AuthenticationFailed, Unanswered, UpstreamError, reason_of

CLIENT_ID = "offset-shim"
_FIRST_VERSION: Final = 0
"""Of ApiVersions: every broker since 0.10 answers it, whatever else it has."""
# A Metadata response of a hundred thousand partitions is some tens of megabytes.
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
# Of the time that a broker gives to a session: then the shim authenticates again, before its next question.
SHARE_OF_SESSION = 0.8
_NOT_AT_ALL = struct.pack("ii", 1, 0)
"""Of SO_LINGER: how long the system goes on with what was written, once the socket is closed."""
_TLS_ALERT = 0x1503
"""How a record with an alert begins, which is what a server that expects TLS answers to anything else."""
_HTTP: Final = int.from_bytes(b"HTTP")
"""How the answer of an HTTP server to anything else begins."""

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


@cache
def _begins_with() -> int:
    """The correlation id of each connection's first request: one of this process, so that it knows its own connections
    where they come back to it. Not chosen before it is asked for, as a process may be a copy of another."""
    return secrets.randbelow(1 << 31)


def is_own(api_key: int, api_version: int, correlation_id: int, client_id: str) -> bool:
    """Whether a connection that begins so is one of this process to a broker: somebody has led it back here, by a name,
    or an address that is translated, of which no look at this machine's own addresses could tell."""
    asked = (api_key, api_version, correlation_id, client_id)
    return asked == (api_versions.API.key, _FIRST_VERSION, _begins_with(), CLIENT_ID)


class _Stream(asyncio.StreamReaderProtocol):
    """What a stream is read and written through: it remembers the transport, which TLS may have put there."""

    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        super().connection_made(transport)


class BrokerConnection:
    """Versions are negotiated when it opens (KIP-35), and where the brokers want SASL it authenticates then, and again
    before the session ends (KIP-368). Every wait is bounded by ``request.timeout.ms``.
    """

    def __init__(self, address: HostPort, settings: Settings, patience_seconds: float | None = None) -> None:
        self.address = address
        self.patience_seconds = patience_seconds
        """For the connection, and for the beginning of each answer, where that is less."""
        self._settings = settings
        self._authenticates = settings.brokers_authenticate
        self._session_ends_at: float | None = None
        self._correlation_id = _begins_with() - 1
        self._ranges: dict[int, tuple[int, int]] = {}
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Raises :class:`UpstreamError`, :class:`AuthenticationFailed` among them; nothing is left open then."""
        try:
            async with self._timeout(self._settings.socket_connection_setup_timeout_ms):
                await self._connect()
        except (OSError, ValueError, OverflowError) as error:  # the last two: an address that cannot be one
            raise UpstreamError(f"{self.address}: {reason_of(error)}") from error
        try:
            answer = await self._ask(api_versions.API, api_versions.ApiVersionsRequest(), _FIRST_VERSION)
            self._ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
            if self._authenticates:
                await self._authenticate()
        except BaseException:  # given up, too
            self.close()
            raise

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = _Stream(reader, loop=loop)
        await dial(lambda: protocol, self.address, context_for_brokers(self._settings))
        assert protocol.transport is not None
        self._reader = reader
        self._writer = asyncio.StreamWriter(protocol.transport, protocol, reader, loop)

    async def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        *,
        version: int | None = None,
        at_least: int = 0,
        at_most: int | None = None,
        may_send: Callable[[], None] = lambda: None,
    ) -> Response:
        """Send ``request`` at the highest version both sides have (between ``at_least`` and ``at_most``). ``may_send``:
        called when nothing is waited for any more, and raises what this is to raise where it is not to be sent by then.
        Raises :class:`UpstreamError`.

        After an error the connection is in an unknown place of the stream: close it.
        """
        self._connected()
        if version is None:
            version = self._newest(api, at_least, api.versions[1] if at_most is None else at_most)
        if self._session_ends_at is not None and time.monotonic() >= self._session_ends_at:
            await self._authenticate()
        may_send()
        return await self._ask(api, request, version)

    async def _authenticate(self) -> None:
        """Raises :class:`AuthenticationFailed` where it is the credentials' fault."""
        mechanism = self._settings.upstream_sasl_mechanism
        handshake = await self._ask(sasl_handshake.API, sasl_handshake.SaslHandshakeRequest(mechanism), 1)
        if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationFailed(f"{self.address}: has no mechanism {mechanism}, but {offered}")
        if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(f"{self.address}: does not want SASL, upstream.security.protocol says it does")
        if handshake.error_code != ErrorCode.NONE:
            raise UpstreamError(f"{self.address}: SaslHandshake: {ErrorCode.for_code(handshake.error_code).name}")
        version = self._newest(sasl_authenticate.API, 0, sasl_authenticate.API.versions[1])
        begun, lifetime_ms = time.monotonic(), 0

        async def exchange(token: bytes) -> bytes:
            nonlocal begun, lifetime_ms
            begun = time.monotonic()
            request = sasl_authenticate.SaslAuthenticateRequest(token)
            answer = await self._ask(sasl_authenticate.API, request, version)
            if answer.error_code != ErrorCode.NONE:
                reason = answer.error_message or ErrorCode.for_code(answer.error_code).name
                raise AuthenticationFailed(f"{self.address}: {self._credentials}: {reason}")
            lifetime_ms = answer.session_lifetime_ms
            return answer.auth_bytes

        await present(self._settings, exchange)
        self._session_ends_at = begun + SHARE_OF_SESSION * lifetime_ms / 1000 if lifetime_ms else None

    @property
    def _credentials(self) -> str:
        mechanism, user = self._settings.upstream_sasl_mechanism, self._settings.upstream_sasl_username
        return mechanism if mechanism == "OAUTHBEARER" else f"{mechanism} as {user}"

    async def _ask(self, api: Api[Request, Response], request: Request, version: int) -> Response:
        reader, writer = self._connected()
        if writer.is_closing():  # to write to it is an error of another kind in uvloop
            raise UpstreamError(f"{self.address}: {api.name}: the connection was lost")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                async with self._timeout(self._settings.request_timeout_ms):
                    writer.write(api.request_frame(version, self._correlation_id, CLIENT_ID, request))
                    await writer.drain()
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                if size >> 16 == _TLS_ALERT:
                    raise UpstreamError(f"{self.address}: it speaks TLS there, see upstream.security.protocol")
                if size == _HTTP:
                    raise UpstreamError(f"{self.address}: it speaks HTTP there, so it is no broker's port")
                if not 4 <= size <= MAX_RESPONSE_BYTES:
                    raise UpstreamError(f"{self.address}: a response of {size} bytes to {api.name}")
                body = await reader.readexactly(size)
        except TimeoutError as error:
            raise Unanswered(f"{self.address}: {api.name}: {reason_of(error)}") from error
        except OSError as error:
            raise UpstreamError(f"{self.address}: {api.name}: {reason_of(error)}") from error
        except asyncio.IncompleteReadError as error:
            raise UpstreamError(f"{self.address}: {api.name}: closed the connection") from error
        try:
            correlation_id, response = api.parse_response(version, body)
        except ValueError as error:
            raise UpstreamError(f"{self.address}: {api.name} response: {error}") from error
        if correlation_id != self._correlation_id:
            raise UpstreamError(f"{self.address}: answered {correlation_id} instead of {self._correlation_id}")
        return response

    def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            raise UpstreamError(f"{self.address}: not connected")
        return self._reader, self._writer

    @property
    def is_lost(self) -> bool:
        """Whether the other side is known to have closed it, or it is not open."""
        return self._reader is None or self._writer is None or self._reader.at_eof() or self._writer.is_closing()

    def offers(self, api: Api[Any, Any], version: int) -> bool:
        low, high = self._ranges.get(api.key, (0, -1))
        return low <= version <= high

    def versions(self, api: Api[Any, Any]) -> tuple[int, int] | None:
        """The oldest and the newest that the broker has; None where it has none."""
        return self._ranges.get(api.key)

    def _timeout(self, milliseconds: int) -> asyncio.Timeout:
        seconds = milliseconds / 1000
        return asyncio.timeout(seconds if self.patience_seconds is None else min(seconds, self.patience_seconds))

    def _newest(self, api: Api[Any, Any], at_least: int, at_most: int) -> int:
        low, high = self._ranges.get(api.key, (0, -1))
        version = min(high, api.versions[1], at_most)
        if version < max(low, api.versions[0], at_least):
            controller = api.key == metadata.API.key and api.key not in self._ranges  # which every broker has
            guess = ": it may be a KRaft controller's port, and not a broker's" if controller else ""
            raise UpstreamError(f"{self.address}: no common version of {api.name}{guess}")
        return version

    def break_off(self) -> None:
        """As :meth:`close`, and nothing is sent any more of what the network has not taken yet: it would be done late,
        when nobody counts on it."""
        if self._writer is not None:
            made = self._writer.get_extra_info("socket")
            if made is not None:
                with suppress(OSError):  # the broker has closed it, and so has the loop
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOT_AT_ALL)
            self._writer.transport.abort()
            self._reader = self._writer = None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None
