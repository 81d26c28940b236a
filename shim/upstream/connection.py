"""A conversation of the shim's own with one broker: one request, one response, in turn."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, TypeVar

from protocol.api import Api
from protocol.messages import api_versions
from shim.config import HostPort, Settings
from shim.upstream.errors import UpstreamError, reason_of

CLIENT_ID = "offset-shim"
# A Metadata response of a hundred thousand partitions is some tens of megabytes.
MAX_RESPONSE_BYTES = 256 * 1024 * 1024

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class BrokerConnection:
    """Versions are negotiated when it opens (KIP-35); every wait is bounded by ``request.timeout.ms``."""

    def __init__(self, address: HostPort, settings: Settings, patience_seconds: float | None = None) -> None:
        """``patience_seconds``: for the connection, and for the beginning of each answer, where that is less."""
        self.address = address
        self._patience_seconds = patience_seconds
        self._settings = settings
        self._correlation_id = 0
        self._ranges: dict[int, tuple[int, int]] = {}
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Raises :class:`UpstreamError`; nothing is left open then."""
        try:
            async with self._timeout(self._settings.socket_connection_setup_timeout_ms):
                self._reader, self._writer = await asyncio.open_connection(*self.address)
        except (OSError, ValueError, OverflowError) as error:  # the last two: an address that cannot be one
            raise UpstreamError(f"{self.address}: {reason_of(error)}") from error
        try:
            # v0 is what every broker since 0.10 answers, whatever else it has.
            answer = await self.ask(api_versions.API, api_versions.ApiVersionsRequest(), version=0)
        except BaseException:  # given up, too
            self.close()
            raise
        self._ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}

    async def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        *,
        version: int | None = None,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> Response:
        """Send ``request`` at the highest version both sides have (between ``at_least`` and ``at_most``). Raises
        :class:`UpstreamError`.

        After an error the connection is in an unknown place of the stream: close it.
        """
        if self._reader is None or self._writer is None:
            raise UpstreamError(f"{self.address}: not connected")
        if version is None:
            version = self._newest(api, at_least, api.versions[1] if at_most is None else at_most)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                async with self._timeout(self._settings.request_timeout_ms):
                    self._writer.write(api.request_frame(version, self._correlation_id, CLIENT_ID, request))
                    await self._writer.drain()
                    (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                if not 4 <= size <= MAX_RESPONSE_BYTES:
                    raise UpstreamError(f"{self.address}: a response of {size} bytes to {api.name}")
                body = await self._reader.readexactly(size)
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

    def offers(self, api: Api[Any, Any], version: int) -> bool:
        low, high = self._ranges.get(api.key, (0, -1))
        return low <= version <= high

    def _timeout(self, milliseconds: int) -> asyncio.Timeout:
        seconds = milliseconds / 1000
        return asyncio.timeout(seconds if self._patience_seconds is None else min(seconds, self._patience_seconds))

    def _newest(self, api: Api[Any, Any], at_least: int, at_most: int) -> int:
        low, high = self._ranges.get(api.key, (0, -1))
        version = min(high, api.versions[1], at_most)
        if version < max(low, api.versions[0], at_least):
            raise UpstreamError(f"{self.address}: no common version of {api.name}")
        return version

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None
