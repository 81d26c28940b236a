"""What the shim does with each version of each API. What is not here is not advertised, and refused when it comes.

``FORWARDED`` passes request and response as they are. ``Rewritten`` passes the request and changes the response.
``Served`` answers by itself (or by asking the broker as that client). ``Refused`` answers with an error.

The newest version of a forwarded API is the newest of Kafka 4.3: in one that is newer a broker's address might hide.
Fetch ends at v15 for that reason (v16 names new leaders by address, KIP-951), and so does DescribeQuorum at v1.
Not here: everything that groups do outside this table (KIP-848 consumer groups, share and streams groups), since the
cluster would answer for groups that are not its own; SASL, which the shim does not speak to the brokers yet; and what
only brokers ask each other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from protocol.api import Api
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.produce import produce_acks
from shim.api import (
    api_versions,
    delete_groups,
    describe_cluster,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    produce,
    sync_group,
    txn_offset_commit,
)
from shim.api.call import Call, OrderedConnection, Services


class Forwarded(NamedTuple):
    pass


class Rewritten(NamedTuple):
    rewrite: Callable[[Services, int, bytes], bytes | Coroutine[Any, Any, bytes]]


class Served(NamedTuple):
    api: Api[Any, Any]
    handle: Callable[[Services, Call[Any, Any]], Coroutine[Any, Any, None] | None]
    failure: Callable[[Call[Any, Any], ErrorCode], Any]


class Refused(NamedTuple):
    """``answer`` makes the frame for a correlation id."""

    answer: Callable[[int], bytes]


Disposition: TypeAlias = Forwarded | Rewritten | Served | Refused


class Route(NamedTuple):
    """``answered``, for a forwarded API where it depends on the request: whether a response will come.

    It is called with (data, start, end, version) for a request that begins at ``start``, size included, and is there up
    to ``end``, and gives None when that is too little to say.

    ``several``, for a served API: takes requests at once that have come together. It is called with (services,
    connection, data, position, most) where one begins and gives where those end that it took, at most so many, or
    ``position``.

    ``forwarded``: whether the request is passed on as its bytes come.
    """

    key: ApiKey
    first: int
    last: int
    disposition: Disposition
    answered: Callable[[bytes, int, int, int], bool | None] | None = None
    several: Callable[[Services, OrderedConnection, bytes, int, int], int] | None = None
    forwarded: bool = True


FORWARDED = Forwarded()


def _served(module: ModuleType) -> Route:
    oldest, newest = module.VERSIONS
    served = Served(module.API, module.handle, module.failure)
    return Route(
        ApiKey(module.API.key), oldest, newest, served, several=getattr(module, "several", None), forwarded=False
    )


def _rewritten(module: ModuleType) -> Route:
    oldest, newest = module.VERSIONS
    return Route(ApiKey(module.API.key), oldest, newest, Rewritten(module.rewrite))


def _produce_answered(data: bytes, start: int, end: int, version: int) -> bool | None:
    acks = produce_acks(data, start, end, version)
    return None if acks is None else acks != 0


def _produce(first: int, last: int, disposition: Disposition) -> Route:
    return Route(ApiKey.PRODUCE, first, last, disposition, _produce_answered)


TABLE: tuple[Route, ...] = (
    _produce(0, produce.FIRST_WITH_ENDPOINTS - 1, FORWARDED),
    _produce(produce.FIRST_WITH_ENDPOINTS, produce.VERSIONS[1], Rewritten(produce.rewrite)),
    Route(ApiKey.FETCH, 0, 15, FORWARDED),
    Route(ApiKey.LIST_OFFSETS, 0, 11, FORWARDED),
    _rewritten(metadata),
    _served(offset_commit),
    _served(offset_fetch),
    _served(find_coordinator),
    _served(join_group),
    _served(heartbeat),
    _served(leave_group),
    _served(sync_group),
    _served(describe_groups),
    _served(list_groups),
    _served(delete_groups),
    _served(offset_delete),
    _served(txn_offset_commit),
    _served(api_versions),
    Route(ApiKey.API_VERSIONS, api_versions.VERSIONS[1] + 1, 127, Refused(api_versions.too_new), forwarded=False),
    Route(ApiKey.CREATE_TOPICS, 0, 7, FORWARDED),
    Route(ApiKey.DELETE_TOPICS, 0, 6, FORWARDED),
    Route(ApiKey.DELETE_RECORDS, 0, 2, FORWARDED),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5, FORWARDED),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, FORWARDED),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 3, FORWARDED),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, FORWARDED),
    Route(ApiKey.END_TXN, 0, 5, FORWARDED),
    Route(ApiKey.DESCRIBE_ACLS, 0, 3, FORWARDED),
    Route(ApiKey.CREATE_ACLS, 0, 3, FORWARDED),
    Route(ApiKey.DELETE_ACLS, 0, 3, FORWARDED),
    Route(ApiKey.DESCRIBE_CONFIGS, 0, 4, FORWARDED),
    Route(ApiKey.ALTER_CONFIGS, 0, 2, FORWARDED),
    Route(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, FORWARDED),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 0, 5, FORWARDED),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3, FORWARDED),
    Route(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, FORWARDED),
    Route(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, FORWARDED),
    Route(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, FORWARDED),
    Route(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, FORWARDED),
    Route(ApiKey.ELECT_LEADERS, 0, 2, FORWARDED),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, FORWARDED),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, FORWARDED),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, FORWARDED),
    Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, FORWARDED),
    Route(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, FORWARDED),
    Route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, FORWARDED),
    Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, FORWARDED),
    Route(ApiKey.DESCRIBE_QUORUM, 0, 1, FORWARDED),
    Route(ApiKey.UPDATE_FEATURES, 0, 2, FORWARDED),
    _rewritten(describe_cluster),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0, FORWARDED),
    Route(ApiKey.UNREGISTER_BROKER, 0, 0, FORWARDED),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, FORWARDED),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2, FORWARDED),
    Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, FORWARDED),
    Route(ApiKey.PUSH_TELEMETRY, 0, 0, FORWARDED),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, FORWARDED),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, FORWARDED),
)

ROUTES: Mapping[int, Route] = {
    route.key << 16 | version: route for route in TABLE for version in range(route.first, route.last + 1)
}
"""By ``api_key << 16 | api_version``."""


def _offered() -> dict[int, tuple[int, int]]:
    ranges: dict[int, tuple[int, int]] = {}
    for route in TABLE:
        if not isinstance(route.disposition, Refused):
            first, last = ranges.get(route.key, (route.first, route.last))
            ranges[route.key] = (min(first, route.first), max(last, route.last))
    return ranges


OFFERED: Mapping[int, tuple[int, int]] = _offered()
"""The versions of each API that the shim can do, by API key."""
