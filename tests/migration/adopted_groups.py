"""Many groups with offsets in the cluster or in ZooKeeper, and what each place has of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from kazoo.client import KazooClient

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, offset_commit, offset_fetch
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.waiting import wait_until
from tests.wire import WireClient

_GROUPS_A_REQUEST: Final = 50
_FIND: Final = 4
_COMMIT, _FETCH = 8, 8

Offsets = Mapping[str, Mapping[int, int]]
"""By group and partition, of one topic."""


@contextmanager
def coordinators(bootstrap: str, group: str) -> Iterator[WireClient]:
    """A connection to where groups are coordinated, which is the same for all: there is one broker."""
    host, _, port = bootstrap.partition(":")
    found: list[int] = []

    def known() -> bool:
        with WireClient(int(port), host) as client:
            request = find_coordinator.FindCoordinatorRequest(coordinator_keys=(group,))
            (answer,) = client.ask(find_coordinator.API, _FIND, request).coordinators
        found[:] = [answer.port]
        return answer.error_code == ErrorCode.NONE

    wait_until(known, "no coordinator")  # the first of a cluster makes its topic
    with WireClient(found[0], host) as client:
        yield client


def commit_all(bootstrap: str, offsets: Offsets, topic: str) -> None:
    """As one who is no member."""
    with coordinators(bootstrap, next(iter(offsets))) as client:
        for group, its in offsets.items():
            partitions = tuple(OffsetCommitRequestPartition(*each) for each in its.items())
            request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=partitions),))
            wait_until(partial(_is_committed, client, request), f"{group}: not committed")


def _is_committed(client: WireClient, request: OffsetCommitRequest) -> bool:
    codes = {each.error_code for t in client.ask(offset_commit.API, _COMMIT, request).topics for each in t.partitions}
    assert codes <= {ErrorCode.NONE, *_AGAIN}, codes
    return codes == {ErrorCode.NONE}


_AGAIN: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


def committed_of(bootstrap: str, groups: Sequence[str], topic: str) -> Offsets:
    found: dict[str, Mapping[int, int]] = {}
    with coordinators(bootstrap, groups[0]) as client:
        for first in range(0, len(groups), _GROUPS_A_REQUEST):
            names = groups[first : first + _GROUPS_A_REQUEST]
            wait_until(partial(_fetched, client, names, topic, found), f"{names[0]}: not told")
    return found


def _fetched(client: WireClient, names: Sequence[str], topic: str, found: dict[str, Mapping[int, int]]) -> bool:
    wanted = tuple(offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in names)
    answer = client.ask(offset_fetch.API, _FETCH, offset_fetch.OffsetFetchRequest(groups=wanted))
    for each in answer.groups:
        if each.error_code in _AGAIN:
            return False
        assert each.error_code == ErrorCode.NONE
        assert {its.name for its in each.topics} <= {topic}
        found[each.group_id] = {p.partition_index: p.committed_offset for t in each.topics for p in t.partitions}
    return True


def in_zookeeper(others: KazooClient, groups: Sequence[str], topic: str) -> Offsets:
    return {
        group: {
            int(name): int(others.get(f"/consumers/{group}/offsets/{topic}/{name}")[0])
            for name in others.get_children(f"/consumers/{group}/offsets/{topic}")
        }
        for group in groups
    }
