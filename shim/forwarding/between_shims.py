"""Between shims that share a log on topics: at `shims.listener`, over TCP."""

from __future__ import annotations

import asyncio

from shim.config import Settings
from shim.forwarding.between import Between, Way
from shim.forwarding.over_tcp import TcpPort, dial_over_tcp, named_by_certificate
from shim.forwarding.peers import OwnerOf
from shim.forwarding.serving import ANYBODY
from shim.listener_config import ShimsListener
from shim.tls import TlsContext
from shim.upstream import Cluster


def between_shims(
    owner_of: OwnerOf,
    cluster: Cluster,
    settings: Settings,
    listener: ShimsListener,
    tls: TlsContext | None,
    tls_to_others: TlsContext | None,
) -> Between:
    """``owner_of`` names each by the address of its listener. ``tls``: at this shim's own."""
    named = named_by_certificate(listener.principals) if listener.principals else ANYBODY

    def log() -> str:
        # A topic of one cluster, which is not known before that has said who it is.
        return f"{cluster.cluster_id or '?'}/{settings.offsets_log_topics_prefix}"

    def admits(transport: asyncio.Transport) -> str | None:
        if cluster.cluster_id is None:
            return "it is not known yet which cluster's log is here"
        return named(transport)

    address = listener.address
    way = Way(
        owner_of,
        dial_over_tcp(tls_to_others),
        log,
        str(address),
        f"{address} (shims.listener)",
        lambda server: TcpPort(server, address, tls),
        admits,
    )
    return Between(way, settings)
