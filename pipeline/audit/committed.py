"""What the groups of a cluster have committed, at the brokers or through the shim, which answers for its own groups and
passes the others' requests on. The shim takes no group up for being read; with a ZooKeeper it notes whose one is
that the cluster has."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from pipeline.audit.brokers import Brokers
from pipeline.audit.patience import BrokerRefused, NotYet, patiently, raise_for
from pipeline.audit.portions import portions
from pipeline.audit.words import NO_LEADER, NO_PARTITION, CannotRead, LogEnds, Reading
from protocol.messages import find_coordinator, list_groups, list_offsets, offset_fetch
from protocol.own.shim_group import PROTOCOL_TYPE
from protocol.partition import partition_for

_OFFSETS_TOPIC: Final = "__consumer_offsets"
_NO_LEADER: Final = f"its partition of {_OFFSETS_TOPIC} has no leader"
_LIST_GROUPS: Final = (0, 5)
_FETCH: Final = (2, 9)
"""Version 2 asks for all topics; 10 names them by id."""
_FETCH_MANY: Final = 8
_FIND: Final = (0, 3)
_ENDS: Final = (1, 8)
_GROUPS_A_REQUEST: Final = 50
_PARTITIONS_A_REQUEST: Final = 5_000
_LATEST, _EARLIEST = -1, -2


class Listed(NamedTuple):
    """``nodes``: every group, with the broker that lists it, but for share groups, whose offsets are others, and for
    those in which shims share their log, which commit none."""

    nodes: dict[str, int]
    share_groups: set[str]


class Wanted(NamedTuple):
    """``node``: the broker that lists the group, or NO_LEADER."""

    group: str
    node: int


def groups_listed(brokers: Brokers) -> Listed:
    """Raises CannotRead."""
    found = Listed({}, set())
    for node in brokers.nodes:
        for listed in _plainly(lambda node=node: _listed(brokers, node)):
            if listed.group_type.lower() == "share":
                found.share_groups.add(listed.group_id)
            elif listed.protocol_type != PROTOCOL_TYPE:
                found.nodes[listed.group_id] = node
    return found


def led_by_nobody(brokers: Brokers, groups: Iterable[str]) -> set[str]:
    """Of these groups those whose partition of `__consumer_offsets` has no leader. Raises CannotRead."""
    (topic,) = brokers.metadata([_OFFSETS_TOPIC]).topics
    led = {each.partition_index for each in topic.partitions if each.leader_id >= 0}
    count = len(topic.partitions)
    return {group for group in groups if count and partition_for(group, count) not in led}


def _listed(brokers: Brokers, node: int) -> tuple[list_groups.ListedGroup, ...]:
    answer = brokers.ask(node, list_groups.API, _LIST_GROUPS, list_groups.ListGroupsRequest())
    raise_for(answer.error_code, "ListGroups")
    return answer.groups


def _plainly(ask: Any) -> Any:
    try:
        return patiently(ask)
    except BrokerRefused as error:
        raise CannotRead(str(error)) from error


def read_committed(place: str, brokers: Brokers, wanted: Sequence[Wanted]) -> Iterator[Reading]:
    """All offsets of these groups. One whose offsets are refused, or that nobody has, has a single reading, with the
    problem.

    Raises :class:`CannotRead`.
    """
    for node, its in groupby(sorted(wanted, key=lambda each: each.node), key=lambda each: each.node):
        if node == NO_LEADER:
            yield from (_problem(place, each.group, f"group {each.group}: {_NO_LEADER}") for each in its)
            continue
        many = brokers.newest(node, offset_fetch.API, _FETCH) >= _FETCH_MANY
        for some in portions((each.group for each in its), _GROUPS_A_REQUEST if many else 1):
            yield from _read_some(place, brokers, node, some, many=many)


def _read_some(place: str, brokers: Brokers, node: int, groups: Sequence[str], *, many: bool) -> Iterator[Reading]:
    for answered in _answers(brokers, node, groups, many=many):
        yield from _readings(place, brokers, answered, many=many)


def _answers(brokers: Brokers, node: int, groups: Sequence[str], *, many: bool) -> Sequence[Any]:
    if many:
        wanted = tuple(offset_fetch.OffsetFetchRequestGroup(each, topics=None) for each in groups)
        return brokers.ask(node, offset_fetch.API, _FETCH, offset_fetch.OffsetFetchRequest(groups=wanted)).groups
    (group,) = groups
    answer = brokers.ask(node, offset_fetch.API, _FETCH, offset_fetch.OffsetFetchRequest(group, topics=None))
    return [offset_fetch.OffsetFetchResponseGroup(group, answer.topics, answer.error_code)]  # type: ignore[arg-type]


def _readings(place: str, brokers: Brokers, answered: Any, *, many: bool) -> Iterator[Reading]:
    group = answered.group_id
    read_ms = time.time_ns() // 1_000_000
    try:
        _raise_for_all(answered)
        settled = answered
    except (NotYet, BrokerRefused):  # its coordinator may be another one by now
        try:
            settled = patiently(lambda: _alone(brokers, group, many=many))
        except BrokerRefused as error:
            yield _problem(place, group, str(error))
            return
    for topic in settled.topics:
        for each in topic.partitions:
            if each.committed_offset >= 0:
                yield Reading(
                    place, group, topic.name, each.partition_index, each.committed_offset, None, None, read_ms
                )


def _problem(place: str, group: str, problem: str) -> Reading:
    return Reading(place, group, "", NO_PARTITION, None, None, None, time.time_ns() // 1_000_000, problem)


def _raise_for_all(answered: Any) -> None:
    raise_for(answered.error_code, f"group {answered.group_id}")
    for topic in answered.topics:
        for each in topic.partitions:
            raise_for(each.error_code, f"group {answered.group_id}, {topic.name}-{each.partition_index}")


def _alone(brokers: Brokers, group: str, *, many: bool) -> Any:
    found = brokers.ask_any(find_coordinator.API, _FIND, find_coordinator.FindCoordinatorRequest(group))
    raise_for(found.error_code, f"the coordinator of group {group}")
    (answered,) = _answers(brokers, found.node_id, [group], many=many)
    _raise_for_all(answered)
    return answered


# --- the logs ---------------------------------------------------------------------------------------------------------


def read_log_ends(brokers: Brokers, topics: Sequence[str]) -> Iterator[LogEnds]:
    """Of all partitions of these topics that have a leader; of a topic that there is not, nothing.

    Raises :class:`CannotRead`.
    """
    by_leader: dict[int, list[tuple[str, int]]] = {}
    for topic in brokers.metadata(topics).topics:
        for each in topic.partitions:
            if each.leader_id >= 0 and topic.name is not None:
                by_leader.setdefault(each.leader_id, []).append((topic.name, each.partition_index))
    for leader, partitions in by_leader.items():
        for some in portions(sorted(partitions), _PARTITIONS_A_REQUEST):
            starts, ends = (_listed_offsets(brokers, leader, some, which) for which in (_EARLIEST, _LATEST))
            for at in some:
                yield LogEnds(*at, starts.get(at), ends.get(at))


def _listed_offsets(
    brokers: Brokers, leader: int, partitions: Sequence[tuple[str, int]], which: int
) -> dict[tuple[str, int], int]:
    """Without those that the broker does not lead any more."""
    topics = tuple(
        list_offsets.ListOffsetsTopic(
            topic, tuple(list_offsets.ListOffsetsPartition(index, timestamp=which) for _, index in its)
        )
        for topic, its in groupby(partitions, key=lambda at: at[0])
    )
    answer = brokers.ask(leader, list_offsets.API, _ENDS, list_offsets.ListOffsetsRequest(-1, topics=topics))
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == 0 and each.offset >= 0
    }
