"""The clients that have come, for whoever asks at the admin port."""

from __future__ import annotations

from collections.abc import Mapping

from compat.ages import RELEASES, is_dropped, speaks_as
from shim.admin.live.asked.overview import ClientsOf, VersionUsed
from shim.metrics import ClientKind, ClientsSeen
from shim.serve.words import PROBES, api_name


def clients_of(seen: ClientsSeen) -> list[ClientsOf]:
    """Those first that Kafka 4 does not speak to any more, then the others that tell how old they are, the oldest
    first; of these those with most connections."""
    return sorted(map(_told, seen.kinds()), key=_order)


def lowest_versions(requests: Mapping[int, int]) -> dict[int, int]:
    """By API key, of what is counted by ``api_key << 16 | api_version``; without what comes before a client has said
    what it is."""
    return {kind >> 16: kind & 0xFFFF for kind in sorted(requests, reverse=True) if kind >> 16 not in PROBES}


def _told(kind: ClientKind) -> ClientsOf:
    lowest = sorted(lowest_versions(kind.requests).items())
    return ClientsOf(
        kind.said.software or None,
        kind.said.version or None,
        kind.client_id if kind.said.software else kind.said.client_id,
        kind.host.removeprefix("/"),
        kind.principal,
        kind.open,
        kind.connections,
        kind.last_ms,
        speaks_as(lowest),
        [VersionUsed(api_name(key), version, is_dropped(key, version)) for key, version in lowest],
    )


def _order(row: ClientsOf) -> tuple[bool, int, int, str, str]:
    age = len(RELEASES) if row.speaks_as is None else RELEASES.index(row.speaks_as)
    return not row.dropped, age, -row.open_connections, row.software or "", row.client_id
