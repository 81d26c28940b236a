"""What the shim does with each version of each API, whole: what is said of an API elsewhere is read from its row here.

An API has one row, or several where its versions are treated differently, as Produce's are. A row names the API's
module, which has its versions, answers it, and says what errors there are in a response. Of one
that is about groups it says, too, what its client needs to be allowed (``policies``), and what becomes of it in
whosever hands the groups are (``hands``). What is not here is not advertised, and refused when it comes.

The newest version of an API that is passed on is the newest of Kafka 4.3: in one that is newer a broker's address might
hide. Fetch ends at v15 for that reason (v16 names new leaders by address, KIP-951), and so does DescribeQuorum at v1.
Not here: what only brokers ask each other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import ModuleType
from typing import Any, Final, Protocol

from compat.table import TRANSLATIONS
from protocol.api import Api
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.group_kinds import CLASSIC, OTHER_KINDS
from shim.api import (
    api_versions,
    commits_in_a_row,
    create_topics,
    delete_groups,
    delete_topics,
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
from shim.api.authorization import Handle, Policy
from shim.api.call import Call, Offered, Served, Services
from shim.api.counting import of_the_broker
from shim.api.descriptions import Describes
from shim.api.hands import ManyGroups, OneGroup, of_all_groups, of_many_groups, of_one_group
from shim.api.hands.divided import DELETIONS, FETCHES, descriptions
from shim.api.hands.gathering import held, leaving, told_to_join
from shim.api.hands.one import by_either, by_epoch, by_generation
from shim.api.hands.other_stores import COMMIT, DELETION, TXN_COMMIT, all_but_the_failed, not_deletable, not_ready
from shim.api.hands.passing import Newer
from shim.api.heartbeat_of_another_kind import HeartbeatOfAnotherKind
from shim.api.none_of_a_kind import NONE_OF_OTHER_KINDS
from shim.api.policies import commits, fetches, groups, membership
from shim.api.route import Answered, AsIs, Authenticates, Decides, Refused, Rewritten, Route, Several, Translated


class _Handler(Protocol):
    """The module of an API that is served."""

    @property
    def API(self) -> Api[Any, Any]: ...  # noqa: N802

    @property
    def VERSIONS(self) -> tuple[int, int]: ...  # noqa: N802

    def handle(self, services: Services, call: Call[Any, Any], /) -> Coroutine[Any, Any, None] | None: ...

    def failure(self, call: Call[Any, Any], error: ErrorCode, /) -> Any: ...

    def codes(self, response: Any, /) -> Iterable[int]: ...


class _Describer(_Handler, Protocol):
    @property
    def DESCRIBES(self) -> Describes: ...  # noqa: N802


def _as_is(key: ApiKey, oldest: int, newest: int, answered: Answered | None = None) -> Route:
    return Route(key, oldest, newest, AsIs(), answered)


def _rewritten(module: ModuleType, answered: Answered | None = None) -> Route:
    oldest, newest = module.VERSIONS
    return Route(ApiKey(module.API.key), oldest, newest, Rewritten(module.rewrite), answered)


_BEFORE_ANSWERED: Final[Mapping[ApiKey, translated.BeforeAnswered]] = {
    ApiKey.CREATE_TOPICS: create_topics.before_answered,
    ApiKey.DELETE_TOPICS: delete_topics.before_answered,
}


def _translated(key: ApiKey) -> Route:
    """For clients older than the broker: it is asked in a version that it has."""
    its = TRANSLATIONS[key]
    handle = translated.handler(its, _BEFORE_ANSWERED.get(key))
    disposition = Translated(its.api, handle, translated.failure, of_the_broker)
    return Route(key, its.first, its.last, disposition, answers_older=its.fits)


def _answered(module: _Handler, handle: Handle | None = None, **more: Any) -> Route:
    """For everybody, unless ``handle`` looks who it is."""
    oldest, newest = module.VERSIONS
    served = Served(module.API, handle or module.handle, module.failure, module.codes)
    return Route(ApiKey(module.API.key), oldest, newest, served, **more)


def _asked_in(newer: Mapping[int, Newer]) -> Callable[[int, int], bool]:
    """Where there are some, versions that the broker has dropped are answered whatever it has: by the shim itself, or
    by the broker, which is asked in the newer one."""
    return lambda _oldest, _newest: bool(newer)


def _about_one(module: _Handler, policy: Policy, its: OneGroup, several: Several | None = None) -> Route:
    return _answered(
        module,
        of_one_group(its, policy, module.handle),
        several=several,
        parks=its.kept is not None,
        decides=Decides.OWNER,
        answers_older=_asked_in(its.newer),
    )


def _about_many(module: _Handler, policy: Policy, its: ManyGroups, several: Several | None = None) -> Route:
    return _answered(
        module,
        of_many_groups(its, policy, module.handle),
        several=several,
        decides=Decides.OWNER,
        answers_older=_asked_in(its.newer),
    )


def _about_all(module: _Handler, policy: Policy) -> Route:
    return _answered(module, of_all_groups(policy, module.handle), decides=Decides.EACH)


def _describes(module: _Describer) -> Route:
    its = module.DESCRIBES
    return _about_many(module, groups.describing(its), ManyGroups(descriptions(its)))


TABLE: Final[tuple[Route, ...]] = (
    *map(_translated, map(ApiKey, TRANSLATIONS)),
    _as_is(ApiKey.PRODUCE, 3, produce.VERSIONS[0] - 1, produce.answered),
    _rewritten(produce, produce.answered),
    _as_is(ApiKey.FETCH, 4, 15),
    _as_is(ApiKey.LIST_OFFSETS, 1, 11),
    _rewritten(metadata),
    _about_one(
        offset_commit,
        commits.OFFSET_COMMIT,
        OneGroup(opens=CLASSIC, change=COMMIT, seen=by_either, newer={0: Newer(2), 1: Newer(2)}),
        commits_in_a_row.several,
    ),
    _about_many(
        offset_fetch,
        fetches.OFFSET_FETCH,
        ManyGroups(FETCHES, look=not_ready, newer={0: Newer(1, response=offset_fetch.with_errors_for_missing)}),
        fetches_in_a_row.several,
    ),
    _answered(find_coordinator),  # the cluster's own answer to this client
    _about_one(
        join_group,
        membership.JOIN_GROUP,
        OneGroup(
            opens=CLASSIC,
            gathers=held,
            kept=join_group.kept,
            newer={0: Newer(2, join_group.with_rebalance_timeout), 1: Newer(2)},
        ),
    ),
    _about_one(heartbeat, membership.OF_A_MEMBER, OneGroup(gathers=told_to_join, seen=by_generation, is_harmless=True)),
    _about_one(leave_group, membership.OF_A_MEMBER, OneGroup(gathers=leaving, is_harmless=True)),
    _about_one(sync_group, membership.SYNC_GROUP, OneGroup(seen=by_generation, kept=sync_group.kept)),
    _describes(describe_groups),
    _about_all(list_groups, groups.LIST_GROUPS),
    _about_many(
        delete_groups,
        groups.DELETE_GROUPS,
        ManyGroups(DELETIONS, look=not_deletable, answer=all_but_the_failed),
    ),
    _about_one(offset_delete, commits.OFFSET_DELETE, OneGroup(change=DELETION)),
    _about_one(txn_offset_commit, commits.TXN_OFFSET_COMMIT, OneGroup(opens=CLASSIC, change=TXN_COMMIT)),
    *(
        _about_one(HeartbeatOfAnotherKind(kind), membership.OF_A_MEMBER, OneGroup(opens=kind, seen=by_epoch))
        for kind in OTHER_KINDS
    ),
    *map(_describes, NONE_OF_OTHER_KINDS),
    _answered(share_fetch),
    _rewritten(share_acknowledge),
    _as_is(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1),
    _as_is(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0),
    _as_is(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0),
    _answered(api_versions),
    Route(ApiKey.API_VERSIONS, api_versions.VERSIONS[1] + 1, 127, Refused(api_versions.too_new)),
    Route(ApiKey.SASL_HANDSHAKE, 0, 1, Authenticates()),
    Route(ApiKey.SASL_AUTHENTICATE, 0, 2, Authenticates()),
    _rewritten(create_topics),
    _rewritten(delete_topics),
    _as_is(ApiKey.DELETE_RECORDS, 0, 2),
    _as_is(ApiKey.INIT_PRODUCER_ID, 0, 5),
    _as_is(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    _as_is(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 3),
    _as_is(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
    _as_is(ApiKey.END_TXN, 0, 5),
    _as_is(ApiKey.DESCRIBE_ACLS, 1, 3),
    _as_is(ApiKey.CREATE_ACLS, 1, 3),
    _as_is(ApiKey.DELETE_ACLS, 1, 3),
    _as_is(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    _as_is(ApiKey.ALTER_CONFIGS, 0, 2),
    _as_is(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2),
    _as_is(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
    _as_is(ApiKey.CREATE_PARTITIONS, 0, 3),
    _as_is(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3),
    _as_is(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2),
    _as_is(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2),
    _as_is(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3),
    _as_is(ApiKey.ELECT_LEADERS, 0, 2),
    _as_is(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    _as_is(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
    _as_is(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    _as_is(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
    _as_is(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
    _as_is(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
    _as_is(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
    _as_is(ApiKey.DESCRIBE_QUORUM, 0, 1),
    _as_is(ApiKey.UPDATE_FEATURES, 0, 2),
    _rewritten(describe_cluster),
    _as_is(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
    _as_is(ApiKey.UNREGISTER_BROKER, 0, 0),
    _as_is(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    _as_is(ApiKey.LIST_TRANSACTIONS, 0, 2),
    _as_is(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0),
    _as_is(ApiKey.PUSH_TELEMETRY, 0, 0),
    _as_is(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    _as_is(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
)

ROUTES: Final[Mapping[int, Route]] = {
    route.key << 16 | version: route for route in TABLE for version in range(route.first, route.last + 1)
}
"""By ``api_key << 16 | api_version``."""

TO_OWNERS: Final[Mapping[int, Route]] = {
    number: route for number, route in ROUTES.items() if route.decides is Decides.OWNER
}
"""What shims forward to each other."""

TO_WORKERS: Final[Mapping[int, Route]] = {
    number: route for number, route in ROUTES.items() if route.decides is not None
}
"""What workers do, who are one shim to whoever asks a broker."""


def _offered() -> dict[int, Offered]:
    of_api: dict[int, list[Route]] = {}
    for route in TABLE:
        if not isinstance(route.disposition, Refused):
            of_api.setdefault(route.key, []).append(route)
    return {
        key: Offered(routes[0].first, routes[-1].last, routes[0].answers_older)
        for key, unsorted in of_api.items()
        if (routes := sorted(unsorted, key=lambda route: route.first))
    }


OFFERED: Final[Mapping[int, Offered]] = _offered()
"""The versions of each API that the shim can do, by API key."""
