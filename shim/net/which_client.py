"""Which kind of client a connection is of, for the list of clients: what it says of itself, at first and later on."""

from __future__ import annotations

from collections.abc import Container

from shim.metrics import ClientKind, Said
from shim.metrics.clients import ClientsSeen, software_of
from shim.net.first_request import MOST_BYTES, FirstRequest, first_request


class WhichClient:
    """Of one connection. Its host and principal are told each time: nobody is authenticated from the beginning."""

    __slots__ = ("_beginning", "_client_id", "_clients", "_kind", "is_beginning", "requests")

    def __init__(self, clients: ClientsSeen) -> None:
        self._clients = clients
        self._kind: ClientKind | None = None
        self._client_id = ""
        self._beginning = b""
        self.is_beginning = True
        """Whether :meth:`begins` is to have what comes next."""
        self.requests = clients.arriving
        """Where the connection's requests are counted now: by ``api_key << 16 | api_version``."""

    def begins(self, data: bytes | memoryview, known: Container[int], host: str, principal: str) -> FirstRequest | None:
        """With the connection's first bytes, which may come one by one. Who asks for ApiVersions in a version that has
        room for it is about to say what software it is. ``known``: requests that there are. Gives the first request,
        once that is there."""
        self._beginning += bytes(data[: MOST_BYTES - len(self._beginning)])
        first = first_request(self._beginning)
        if first is None:
            return None
        self._beginning = b""
        self.is_beginning = False
        self._client_id = first.client_id
        if first.kind in known and not first.may_name_software:
            self._is(Said("", "", first.client_id), host, principal)
        return first

    def is_software(self, name: str, version: str, host: str, principal: str) -> bool:
        """So it says, and whether that counts: it cannot be another one after that."""
        if self._kind is not None:
            if self._kind.said.software:
                return False
            self._clients.was_another(self._kind)
        self._is(Said(*software_of(name, version), ""), host, principal)
        return True

    def _is(self, said: Said, host: str, principal: str) -> None:
        self._kind = self._clients.came(said, self._client_id, host, principal)
        self.requests = self._kind.requests

    def authenticated(self, principal: str) -> None:
        if self._kind is not None:
            self._kind.authenticated(principal)

    def left(self) -> None:
        if self._kind is not None:
            self._clients.left(self._kind)
