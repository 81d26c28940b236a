"""The table: what it must hold for clients to work, and what it must never let through."""

from __future__ import annotations

from protocol.apis import APIS, ApiKey
from shim.api import OFFERED, ROUTES, AsIs, Rewritten, Served
from shim.api.table import TABLE

# Of share groups, Kafka 4.3: the shim serves none, and the cluster refuses them for a group that is none.
OF_SHARE_GROUPS = {
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS,
}  # fmt: skip
# The first version whose response holds a broker's address, and how many APIs can carry one at all.
FIRST_WITH_ADDRESS = {
    ApiKey.PRODUCE: 10, ApiKey.FETCH: 16, ApiKey.METADATA: 0, ApiKey.FIND_COORDINATOR: 0, ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.DESCRIBE_CLUSTER: 0, ApiKey.SHARE_FETCH: 0, ApiKey.SHARE_ACKNOWLEDGE: 0,
}  # fmt: skip


def test_no_version_is_routed_twice() -> None:
    routed = [(route.key, version) for route in TABLE for version in range(route.first, route.last + 1)]
    assert len(routed) == len(set(routed)) == len(ROUTES)


def test_a_response_that_can_hold_an_address_is_never_passed_on_as_it_is() -> None:
    for key, first in FIRST_WITH_ADDRESS.items():
        for version in range(first, 64):
            route = ROUTES.get(key << 16 | version)
            assert route is None or not isinstance(route.disposition, AsIs), (key, version)


def test_requests_about_a_group_are_looked_at() -> None:
    for route in TABLE:
        if route.key is ApiKey.ADD_OFFSETS_TO_TXN:
            continue  # it is the transaction coordinator's, which asks nobody for the group
        if route.key in OF_SHARE_GROUPS:
            continue
        if "GROUP" in route.key.name or "OFFSET_" in route.key.name.removeprefix("OFFSET_FOR_LEADER"):
            assert isinstance(route.disposition, Served), route.key


def test_every_decoded_version_has_a_schema() -> None:
    for route in TABLE:
        if isinstance(route.disposition, Served | Rewritten):
            api = route.disposition.api if isinstance(route.disposition, Served) else APIS[route.key]
            first, last = api.versions
            assert first <= route.first <= route.last <= last, route.key


def test_offered_ranges_are_those_of_the_routes() -> None:
    for key, offered in OFFERED.items():
        assert all(key << 16 | version in ROUTES for version in range(offered.first, offered.last + 1))
    assert OFFERED[ApiKey.FETCH][:2] == (0, 15)
    assert OFFERED[ApiKey.PRODUCE][:2] == (0, 13)
    assert OFFERED[ApiKey.API_VERSIONS][:2] == (0, 4)
    assert OFFERED[ApiKey.SASL_HANDSHAKE][:2] == (0, 1)
    assert OFFERED[ApiKey.SASL_AUTHENTICATE][:2] == (0, 2)
