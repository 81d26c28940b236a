"""Forwarding between shims that share a log on topics: their listener, and the connections to others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from protocol.own.between_shims import Hello
from shim.api import EntrustedRequests, Services
from shim.config import Settings
from shim.forwarding import Peer, Peers, PeerServer, Room
from shim.forwarding.over_tcp import TcpPort, dial_over_tcp, named_by_certificate
from shim.forwarding.serving import ANYBODY
from shim.listener_config import SHIMS, ShimsListener
from shim.metrics import AnswerCounts
from shim.net import CannotListen
from shim.ownership.sharing import Sharing
from shim.security.authorizer import AskedElsewhere, Authorizer
from shim.serve.tls_files import TO_SHIMS
from shim.tls import TlsContext
from shim.upstream import Cluster, reason_of

_WITHOUT_PRINCIPALS: Final = (
    "there is an authorizer, or a broker that has not said that there is none, and shims.principals names nobody who "
    "can be believed to have asked it"
)
_NOT_SAID_YET: Final = "no broker has said whether there is an authorizer, and shims.principals names nobody"


def doubt_without_principals(authorizer: Authorizer | AskedElsewhere) -> str | None:
    """Where there are rights to be asked for, nobody can be believed to have asked who does not say who it is."""
    if authorizer.absent:
        return None
    return _WITHOUT_PRINCIPALS if authorizer.is_known else _NOT_SAID_YET


class BetweenShims:
    """For the event loop. ``peers``: those that requests are forwarded to. ``others``: none, as each is a shim of its
    own for who asks a broker."""

    others: Sequence[Peer] = ()

    def __init__(
        self,
        sharing: Sharing,
        cluster: Cluster,
        settings: Settings,
        listener: ShimsListener,
        contexts: Mapping[str, TlsContext],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._listener = listener
        self._tls = contexts.get(SHIMS)
        dial = dial_over_tcp(contexts.get(TO_SHIMS))
        self.peers = Peers(lambda partition: sharing.peer_of(partition, SHIMS), dial, self._hello)
        self._port: TcpPort | None = None

    def _hello(self) -> Hello:
        """The log is a topic of one cluster, which is not known before that has said who it is."""
        log = f"{self._cluster.cluster_id or '?'}/{self._settings.offsets_log_topics_prefix}"
        return Hello(log, str(self._listener.address), self._settings.socket_request_max_bytes)

    def serve(self, services: Services, counts: AnswerCounts) -> None:
        """What others forward is answered with these."""
        authorizer, are_known = services.authorizer, bool(self._listener.principals)

        here = services._replace(authorizer=AskedElsewhere(), peers=None)
        requests = EntrustedRequests(here, counts, lambda: None if are_known else doubt_without_principals(authorizer))
        named = named_by_certificate(self._listener.principals) if are_known else ANYBODY

        def admits(transport: asyncio.Transport) -> str | None:
            if self._cluster.cluster_id is None:
                return "it is not known yet which cluster's log is here"
            return named(transport)

        room = Room(self._settings.queued_max_request_bytes)
        server = PeerServer(self._hello, requests.accept, room, admits)
        self._port = TcpPort(server, self._listener.address, self._tls)

    def take_settings(self, settings: Settings) -> None:
        """Of connections to come."""
        self._settings = settings

    async def open(self) -> None:
        """Raises :class:`CannotListen`."""
        assert self._port is not None, "it is known what is served"
        try:
            await self._port.open()
        except OSError as error:
            raise CannotListen(f"cannot listen on {self._listener.address}: {reason_of(error)}") from error

    def give_up(self) -> None:
        """What is forwarded and not answered by now is answered NOT_COORDINATOR."""
        self.peers.close()

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
        self.peers.close()
