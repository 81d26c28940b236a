"""The two coordinators side by side: a broker, and a shim in front of it. Only what is not compared passes between."""

from __future__ import annotations

import copy
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from protocol.api import Api
from protocol.messages import (
    api_versions,
    delete_groups,
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
    sync_group,
)
from shim.demo.parts import Broker
from tests.differential.side import Answer, Side, View, errors_in
from tests.differential.steps import OTHER, OWN, PARTITIONS, SHORT_MS, TOPICS, Commit, Step, exists
from tests.differential.wire import Connection
from tests.shim_process import OFFSETS_LOG, Shim
from tests.waiting import wait_until

COMPARED: Final = (
    offset_commit.API,
    offset_fetch.API,
    find_coordinator.API,
    join_group.API,
    heartbeat.API,
    leave_group.API,
    sync_group.API,
    describe_groups.API,
    list_groups.API,
    delete_groups.API,
    offset_delete.API,
)
_IN_ORDER: Final = {
    # One thread each for the network, for requests and for groups: what was sent first is done first (`running.py`).
    "num.network.threads": 1,
    "num.io.threads": 1,
    "group.coordinator.threads": 1,
    # An answer does not wait for other writes.
    "group.coordinator.append.linger.ms": 0,
    # No round of expiry while sequences run.
    "offsets.retention.check.interval.ms": 86_400_000,
    "auto.create.topics.enable": False,
}
SHORT_METADATA: Final = 16
_BOTH: Final = {"group.min.session.timeout.ms": 100}
USUAL: Final[Mapping[str, int]] = {**_BOTH, "group.initial.rebalance.delay.ms": 0}
DELAYED: Final[Mapping[str, int]] = {
    **_BOTH,
    "group.initial.rebalance.delay.ms": SHORT_MS,
    "group.max.size": 3,
    "offset.metadata.max.bytes": SHORT_METADATA,
}
_CLIENT: Final = "pair"
_READY_SECONDS: Final = 120.0
_TIMEOUT_S: Final = 30.0


class Pair:
    """A broker and a shim, both running. `settings` are those of both group coordinators."""

    def __init__(self, broker: Broker, shim: Shim) -> None:
        self.broker = Side("broker", broker.host, broker.port)
        self.shim = Side("shim", "127.0.0.1", shim.broker_port(broker.node_id))
        topic_ids = _make_topics(broker)
        for side in (self.broker, self.shim):
            side.topic_ids = topic_ids
        at_broker, at_shim = _offered(self.broker), _offered(self.shim)
        self.at_broker = at_broker
        self._both = {
            key: (max(first, at_shim[key][0]), min(last, at_shim[key][1]))
            for key, (first, last) in at_broker.items()
            if key in at_shim
        }
        self.answers: Counter[tuple[str, int, int]] = Counter()
        self.expired = 0
        self.transitions: set[tuple[str, str]] = set()
        _wait_for_coordinator(self.broker)

    def apart(self) -> Pair:
        """The same two, with connections and groups of their own; what is counted is counted for both."""
        other = copy.copy(self)
        other.broker, other.shim = self.broker.apart(), self.shim.apart()
        return other

    def wait_for_broker(self) -> None:
        """After a restart: until it has read its log."""
        _wait_for_coordinator(self.broker)

    def met(self, answer: Answer) -> None:
        """Count an answer that both have given: API, version, error codes."""
        for error in errors_in(answer.response):
            self.answers[answer.ask.api.name, answer.ask.version, error] += 1

    def offered(self, key: int, version: int) -> bool:
        """Whether both serve that version of an API."""
        first, last = self._both.get(key, (0, -1))
        return first <= version <= last

    def compared_apis(self) -> list[Api[Any, Any]]:
        """The APIs of sequences that both serve."""
        return [api for api in COMPARED if api.key in self._both]

    def versions_of(self, api: Api[Any, Any]) -> range:
        """Those that both serve."""
        first, last = self._both[api.key]
        return range(first, last + 1)

    def left_out(self, view: View, step: Step) -> bool:
        """Steps whose answers are known to differ (docs/differences.md)."""
        if isinstance(step, Commit) and (step.group != OWN or view.state == "Dead"):
            # Of nothing but over-long metadata: is there a group then?
            there = [each for each in step.offsets if exists(each.topic, each.partition)]
            return bool(there) and all(len(each.metadata or "") > SHORT_METADATA for each in there)
        return False

    def new_group(self) -> str:
        return f"diff-{uuid.uuid4().hex[:12]}"

    def clean(self, side: Side) -> None:
        """Have all members leave: nothing of the group expires while other sequences run."""
        side.ask_group()
        members = tuple(leave_group.MemberIdentity(member.member_id) for member in side.see_group().members)
        if members:
            with_connection(side, leave_group.API, 3, leave_group.LeaveGroupRequest(side.group, members=members))

    def check_sides(self) -> None:
        """The broker knows nothing of what was done at the shim: it was not compared with itself."""
        names = tuple(map(self.shim.group_id, (OWN, OTHER)))
        groups = with_connection(self.broker, describe_groups.API, 5, describe_groups.DescribeGroupsRequest(names))
        assert [group.group_state for group in groups.groups] == ["Dead"] * len(names), groups
        fetched = tuple(offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in names)
        offsets = with_connection(self.broker, offset_fetch.API, 8, offset_fetch.OffsetFetchRequest(groups=fetched))
        assert not any(group.topics for group in offsets.groups), offsets

    def close(self) -> None:
        self.broker.close()
        self.shim.close()


def with_connection(side: Side, api: Any, version: int, request: Any) -> Any:
    connection = Connection(side.host, side.port)
    try:
        connection.send(api, version, _CLIENT, request)
        return connection.receive(api, version)
    finally:
        connection.close()


def in_order_broker(folder: Path, settings: Mapping[str, int]) -> Broker:
    """A broker that can be compared with; it is not started yet."""
    return Broker(folder / "broker", properties={**_IN_ORDER, **settings})


@contextmanager
def pair_with(
    broker: Broker, folder: Path, settings: Mapping[str, int], *, patch: str = "", offsets_log: str = OFFSETS_LOG
) -> Iterator[Pair]:
    """Put a shim in front of the running broker. `patch` is a late one, `offsets_log`: see `Shim`."""
    apart: dict[str, str | int] = {
        **settings,
        "offsets.mirror.upstream": "false",
    }  # the broker is asked whether it knows of anything
    with Shim(
        broker.bootstrap_servers, folder / "data", settings=apart, late_patch=patch, offsets_log=offsets_log
    ) as shim:
        both = Pair(broker, shim)
        try:
            yield both
        finally:
            both.close()


def _make_topics(broker: Broker) -> dict[str, bytes]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    there = admin.list_topics(timeout=_TIMEOUT_S).topics
    missing = [NewTopic(name, PARTITIONS, 1) for name in TOPICS if name not in there]
    for made in admin.create_topics(missing).values() if missing else ():
        made.result(_TIMEOUT_S)
    request = metadata.MetadataRequest(tuple(metadata.MetadataRequestTopic(name=name) for name in TOPICS))
    side = Side("broker", broker.host, broker.port)
    answer = with_connection(side, metadata.API, 12, request)
    side.close()
    return {topic.name: topic.topic_id for topic in answer.topics}


def _offered(side: Side) -> dict[int, tuple[int, int]]:
    answer = with_connection(side, api_versions.API, 3, api_versions.ApiVersionsRequest("tests", "1"))
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def _wait_for_coordinator(side: Side) -> None:
    """The first to ask for a coordinator has the broker make the offsets topic."""
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=("any",))
    groups = tuple(f"group-{number}" for number in range(100))  # in all offsets partitions

    def has_one() -> bool:
        (found,) = with_connection(side, find_coordinator.API, 4, request).coordinators
        if found.error_code:
            return False
        described = with_connection(side, describe_groups.API, 5, describe_groups.DescribeGroupsRequest(groups))
        return all(group.error_code == 0 for group in described.groups)

    wait_until(has_one, "the broker has no group coordinator", _READY_SECONDS)
