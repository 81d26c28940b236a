"""Who is over a quota is slowed down, and may do what he may do all the same."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from confluent_kafka.cimpl import NewTopic

from protocol.errors import ErrorCode
from protocol.messages import metadata, offset_delete
from tests.authorization.test_rights import commit
from tests.secured.broker import Door, SecuredBroker
from tests.secured.dialogue import logged_in
from tests.wire import WireClient

TOPIC: Final = "alice-of-quotas"
GROUP: Final = "alice-of-quotas"
NOT_ALICES: Final = "bobs-of-quotas"
TIMEOUT_S: Final = 30.0

_ALTER_CLIENT_QUOTAS: Final = struct.Struct(">hhi")


def _set_quota(port: int, name: str, value: float | None) -> None:
    """Of all that alice does; None takes it away. AlterClientQuotas 0 (KIP-546)."""

    def string(text: str) -> bytes:
        return struct.pack(">h", len(text)) + text.encode()

    entity = struct.pack(">ii", 1, 1) + string("user") + string("alice")
    change = struct.pack(">i", 1) + string(name) + struct.pack(">d?", value or 0.0, value is None)
    frame = _ALTER_CLIENT_QUOTAS.pack(49, 0, 7) + string("test") + entity + change + b"\0"
    with WireClient(port) as client:
        client.socket.sendall(struct.pack(">i", len(frame)) + frame)
        _, _, entries, error = struct.unpack_from(">iiih", client.receive_frame())
    assert (entries, error) == (1, ErrorCode.NONE)


@contextmanager
def quota(secured: SecuredBroker, name: str, value: float) -> Iterator[None]:
    _set_quota(secured.broker.port, name, value)
    try:
        yield
    finally:
        _set_quota(secured.broker.port, name, None)


@pytest.fixture(scope="module")
def topics(secured: SecuredBroker) -> None:
    admin = secured.admin
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in (TOPIC, NOT_ALICES)]).values():
        future.result(TIMEOUT_S)


def _until_throttled(client: WireClient) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while client.ask(metadata.API, 7, metadata.MetadataRequest(None)).throttle_time_ms <= 100:
        assert time.monotonic() < deadline


def _delete(client: WireClient) -> int:
    topics = (offset_delete.OffsetDeleteRequestTopic(TOPIC, (offset_delete.OffsetDeleteRequestPartition(0),)),)
    answer = client.ask(offset_delete.API, 0, offset_delete.OffsetDeleteRequest(GROUP, topics))
    return answer.error_code or answer.topics[0].partitions[0].error_code


def test_who_is_over_a_quota_commits(secured: SecuredBroker, shim_door: Door, topics: None) -> None:
    """Each time on a connection of which nothing is known yet, and what is not his stays so."""
    with quota(secured, "request_percentage", 0.02), logged_in(shim_door, "alice") as busy:
        _until_throttled(busy)
        with logged_in(shim_door, "alice") as client:
            assert commit(client, GROUP, 1, TOPIC) == ErrorCode.NONE
        with logged_in(shim_door, "alice") as client:
            assert commit(client, GROUP, 1, NOT_ALICES) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with logged_in(shim_door, "alice") as client:
            # Asked for with a Fetch, which is answered with nothing now.
            assert _delete(client) in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE)
