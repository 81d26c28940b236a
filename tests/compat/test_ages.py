"""How old clients are, by the versions that they use."""

from __future__ import annotations

import pytest

from compat.ages import FIRST_IN_KAFKA_4, LAST_RELEASES, RELEASES, is_dropped, speaks_as
from protocol.apis import ApiKey
from protocol.messages import api_versions
from shim.api import ROUTES
from shim.demo.parts import Broker
from tests.wire import WireClient

APIS = (
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA),
    *(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP),
)


@pytest.mark.parametrize(
    ("newest", "release"),
    [
        # What these releases of Kafka's own client library say that they know (ApiKeys, ProtoUtils).
        ((1, 1, 0, 0, 2, 1, 0), "0.9"),
        ((2, 3, 1, 2, 2, 2, 1), "0.10.2"),
        ((3, 5, 2, 4, 3, 3, 2), "0.11"),
        ((5, 7, 2, 5, 3, 3, 2), "1.1"),
        ((9, 12, 6, 11, 8, 7, 7), None),
    ],
)
def test_kafkas_own_clients(newest: tuple[int, ...], release: str | None) -> None:
    assert speaks_as(zip(APIS, newest, strict=True)) == release


def test_each_version_tells_no_less_than_the_one_before() -> None:
    for releases in LAST_RELEASES.values():
        ages = [RELEASES.index(each) for each in releases]
        assert ages == sorted(ages)


def test_who_has_used_too_little_to_tell() -> None:
    assert speaks_as([]) is None
    assert speaks_as([(ApiKey.HEARTBEAT, 0)]) is None
    assert speaks_as([(ApiKey.HEARTBEAT, 0), (ApiKey.PRODUCE, 0)]) == "0.8.2"


def test_what_a_broker_of_today_has_dropped(broker: Broker) -> None:
    with WireClient(broker.port) as client:
        answer = client.ask(api_versions.API, 4, api_versions.ApiVersionsRequest("test", "1"))
    first = {each.api_key: each.min_version for each in answer.api_keys}
    first[ApiKey.PRODUCE] = 3  # it says 0, for librdkafka's sake, and answers no version below
    ours = {kind >> 16 for kind in ROUTES if not kind & 0xFFFF}  # from version 0 on
    assert {key: version for key, version in first.items() if version and key in ours} == FIRST_IN_KAFKA_4
    assert is_dropped(ApiKey.FETCH, 3)
    assert not is_dropped(ApiKey.FETCH, 4)
    assert not is_dropped(ApiKey.METADATA, 0)
