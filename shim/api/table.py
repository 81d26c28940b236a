"""What the shim does with each version of each API. What is not here is not advertised, and refused when it comes.

``Forwarded`` passes request and response as they are. ``Rewritten`` passes the request and changes the response.
``Served`` answers by itself, or by asking the broker as that client: so are versions that brokers dropped (``compat``).
``Refused`` answers with an error. ``Authenticates`` is between client and broker, and the connection reads along.

The newest version of a forwarded API is the newest of Kafka 4.3: in one that is newer a broker's address might hide.
Fetch ends at v15 for that reason (v16 names new leaders by address, KIP-951), and so does DescribeQuorum at v1.
Not here: what only brokers ask each other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from compat.table import TRANSLATIONS
from protocol.api import Api
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS
from protocol.messages.produce import produce_acks
from shim.api import (
    api_versions,
    delete_groups,
    describe_cluster,
    describe_groups,
    fetches_in_a_row,
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
    share_acknowledge,
    share_fetch,
    sync_group,
    translated,
    txn_offset_commit,
)
from shim.api.authorization import Handle
from shim.api.call import Call, OrderedConnection, Services
from shim.api.hands import by_hands
from shim.api.heartbeat_of_another_kind import HeartbeatOfAnotherKind
from shim.api.none_of_a_kind import NONE_OF_OTHER_KINDS, NoneOfAKind
from shim.api.policies import POLICIES


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


class Authenticates(NamedTuple):
    """Whole requests of a client that tells the broker who it is; no other one is decided meanwhile."""


Answered: TypeAlias = Callable[[bytes | memoryview, int, int, int], tuple[bool | None, int]]
Several: TypeAlias = Callable[[Services, OrderedConnection, bytes, int, int], int]
Disposition: TypeAlias = Forwarded | Rewritten | Served | Refused | Authenticates


class Route(NamedTuple):
    """``answered``, for a forwarded API where it depends on the request: whether a response will come.

    It is called with (data, start, end, version) for a request that begins at ``start``, size included, and is there up
    to ``end``. When that is too little to say it gives None, and up to where the request has to be there. It raises
    DecodeError where the broker might find another answer than it does. It says the same of the same version and the
    same bytes between the correlation id and where it has read to: what it has said of them is said again.

    ``several``, for a served API: takes requests at once that have come together. It is called with (services,
    connection, data, position, most) where one begins and gives where those end that it took, at most so many, or
    ``position``.

    ``parks``: an answer may take minutes, as others have to join first, or the leader to assign; what is kept of the
    request counts for `group.memory.max.bytes`.
    """

    key: ApiKey
    first: int
    last: int
    disposition: Disposition
    answered: Answered | None = None
    several: Several | None = None
    parks: bool = False
    forwarded: bool = False
    """Whether the request is passed on as its bytes come: nothing that the disposition does not say, beside it because
    each request is looked at."""


AUTHENTICATES = Authenticates()

_Handler: TypeAlias = ModuleType | HeartbeatOfAnotherKind | NoneOfAKind


def _forwarded(key: ApiKey, oldest: int, newest: int, answered: Answered | None = None) -> Route:
    return Route(key, oldest, newest, Forwarded(), answered, forwarded=True)


def _rewritten(module: ModuleType, answered: Answered | None = None) -> Route:
    oldest, newest = module.VERSIONS
    return Route(ApiKey(module.API.key), oldest, newest, Rewritten(module.rewrite), answered, forwarded=True)


def _served(module: _Handler, *, several: Several | None = None, parks: bool = False) -> Route:
    """For groups in the shim's hands, and what the client may do, as the API's policy says: there is none without."""
    key = ApiKey(module.API.key)
    return _answered(module, by_hands(key, POLICIES[key], module.handle), several=several, parks=parks)


def _answered(module: _Handler, handle: Handle | None = None, **more: Any) -> Route:
    """For everybody, unless ``handle`` looks who it is."""
    oldest, newest = module.VERSIONS
    served = Served(module.API, handle or module.handle, module.failure)
    return Route(ApiKey(module.API.key), oldest, newest, served, **more)


def _translated(key: ApiKey) -> Route:
    """For clients older than the broker: it is asked in a version that it has."""
    translation = TRANSLATIONS[key]
    served = Served(translation.api, translated.handler(translation), translated.failure)
    return Route(key, translation.first, translation.last, served)


def _produce_answered(data: bytes | memoryview, start: int, end: int, version: int) -> tuple[bool | None, int]:
    acks, said = produce_acks(data, start, end, version)
    return None if acks is None else acks != 0, said


TABLE: tuple[Route, ...] = (
    *map(_translated, map(ApiKey, TRANSLATIONS)),
    _forwarded(ApiKey.PRODUCE, 3, produce.VERSIONS[0] - 1, _produce_answered),
    _rewritten(produce, _produce_answered),
    _forwarded(ApiKey.FETCH, 4, 15),
    _forwarded(ApiKey.LIST_OFFSETS, 1, 11),
    _rewritten(metadata),
    _served(offset_commit, several=offset_commit.several),
    _served(offset_fetch, several=fetches_in_a_row.several),
    _answered(find_coordinator),  # the cluster's own answer to this client
    _served(join_group, parks=True),
    _served(heartbeat),
    _served(leave_group),
    _served(sync_group, parks=True),
    _served(describe_groups),
    _served(list_groups),
    _served(delete_groups),
    _served(offset_delete),
    _served(txn_offset_commit),
    *(_served(HeartbeatOfAnotherKind(kind)) for kind in OTHER_KINDS),
    *map(_served, NONE_OF_OTHER_KINDS),
    _answered(share_fetch),
    _rewritten(share_acknowledge),
    _forwarded(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1),
    _forwarded(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0),
    _forwarded(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0),
    _answered(api_versions),
    Route(ApiKey.API_VERSIONS, api_versions.VERSIONS[1] + 1, 127, Refused(api_versions.too_new)),
    Route(ApiKey.SASL_HANDSHAKE, 0, 1, AUTHENTICATES),
    Route(ApiKey.SASL_AUTHENTICATE, 0, 2, AUTHENTICATES),
    _forwarded(ApiKey.CREATE_TOPICS, 2, 7),
    _forwarded(ApiKey.DELETE_TOPICS, 1, 6),
    _forwarded(ApiKey.DELETE_RECORDS, 0, 2),
    _forwarded(ApiKey.INIT_PRODUCER_ID, 0, 5),
    _forwarded(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    _forwarded(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 3),
    _forwarded(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
    _forwarded(ApiKey.END_TXN, 0, 5),
    _forwarded(ApiKey.DESCRIBE_ACLS, 1, 3),
    _forwarded(ApiKey.CREATE_ACLS, 1, 3),
    _forwarded(ApiKey.DELETE_ACLS, 1, 3),
    _forwarded(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    _forwarded(ApiKey.ALTER_CONFIGS, 0, 2),
    _forwarded(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2),
    _forwarded(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
    _forwarded(ApiKey.CREATE_PARTITIONS, 0, 3),
    _forwarded(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3),
    _forwarded(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2),
    _forwarded(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2),
    _forwarded(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3),
    _forwarded(ApiKey.ELECT_LEADERS, 0, 2),
    _forwarded(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    _forwarded(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
    _forwarded(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    _forwarded(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
    _forwarded(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
    _forwarded(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
    _forwarded(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
    _forwarded(ApiKey.DESCRIBE_QUORUM, 0, 1),
    _forwarded(ApiKey.UPDATE_FEATURES, 0, 2),
    _rewritten(describe_cluster),
    _forwarded(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
    _forwarded(ApiKey.UNREGISTER_BROKER, 0, 0),
    _forwarded(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    _forwarded(ApiKey.LIST_TRANSACTIONS, 0, 2),
    _forwarded(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0),
    _forwarded(ApiKey.PUSH_TELEMETRY, 0, 0),
    _forwarded(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    _forwarded(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
)

ROUTES: Mapping[int, Route] = {
    route.key << 16 | version: route for route in TABLE for version in range(route.first, route.last + 1)
}
"""By ``api_key << 16 | api_version``."""


_TREATMENTS: Mapping[type, str] = {
    Forwarded: "forwarded",
    Rewritten: "rewritten",
    Served: "served",
    Refused: "refused",
    Authenticates: "authenticates",
}


def treatment(route: Route) -> str:
    """What is done with such requests, in a word."""
    translation = TRANSLATIONS.get(route.key)
    if translation is not None and translation.first <= route.first <= translation.last:
        return "translated"
    return _TREATMENTS[type(route.disposition)]


def _offered() -> dict[int, tuple[int, int]]:
    ranges: dict[int, tuple[int, int]] = {}
    for route in TABLE:
        if not isinstance(route.disposition, Refused):
            first, last = ranges.get(route.key, (route.first, route.last))
            ranges[route.key] = (min(first, route.first), max(last, route.last))
    return ranges


OFFERED: Mapping[int, tuple[int, int]] = _offered()
"""The versions of each API that the shim can do, by API key."""
