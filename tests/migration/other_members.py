"""Members of groups of each other kind than the classic one, of nothing but the heartbeats that make them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from protocol.group_kinds import CONSUMER, STREAMS, Kind
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from tests.waiting import wait_until
from tests.wire import WireClient


def _of_consumer(group: str, topic: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group, str(uuid.uuid4()), 0, rebalance_timeout_ms=10_000, subscribed_topic_names=(topic,), topic_partitions=()
    )


def _of_streams(group: str, topic: str) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        *(group, str(uuid.uuid4()), 0),
        rebalance_timeout_ms=10_000,
        topology=Topology(1, (Subtopology("0", (topic,), (), (), (), (), ()),)),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="a process",
    )


_JOINS: Final[Mapping[Kind, Callable[[str, str], Any]]] = {CONSUMER: _of_consumer, STREAMS: _of_streams}


@contextmanager
def member_of(kind: Kind, port: int, group: str, topic: str, client_id: str) -> Iterator[None]:
    """In the group, at the broker with this port, and gone in the end."""
    joining, api = _JOINS[kind](group, topic), kind.heartbeat
    with WireClient(port, client_id=client_id) as client:
        # A broker answers with errors of its own, now and then, right after the topic was made.
        wait_until(lambda: client.ask(api, api.versions[1], joining).error_code == 0)
        yield
        leaving = api.request(group, joining.member_id, -1)
        assert client.ask(api, api.versions[1], leaving).error_code == 0
