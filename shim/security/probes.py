"""Questions to a broker that change nothing, and are answered by what the asker may do. Pure.

A broker authorizes a request before anything else. So a request that can have no effect tells by its error whether the
right is there: the error of the authorizer, or one that only comes later. Each right has the request that asks for
exactly this one, in a version that every broker has from 2.4 (OffsetDelete) to 4.3. Partition -1 is of no topic, and
the question about a transactional id names a topic that cannot be.

READ on topics is asked for with OffsetCommit, where there is a group to name: a broker looks for the partition before
it comes to the group. A Fetch needs no group, but counts against the quota of bytes, and who is over a quota gets a
Fetch answered with nothing (KIP-219). All other answers are whole then.

What a broker answers to them was measured: tests/authorization. An answer that is not listed here grants nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import (
    describe_acls,
    describe_groups,
    fetch,
    heartbeat,
    list_offsets,
    offset_commit,
    offset_delete,
    txn_offset_commit,
)
from shim.security.rights import Need, Right
from shim.upstream import NO_ACLS

NAMES_AT_ONCE: Final = 500
"""Of one question that can be about many."""

_LONGEST_NAME: Final = 32_767
"""Bytes that a name can have in the old versions that are asked: none that is longer is granted to anybody."""

_NO_PARTITION: Final = -1
_NO_TOPIC: Final = "?"
_NO_PRODUCER: Final = -1
_NO_GENERATION: Final = -1

# Of OffsetCommit: with generation -1 an empty group would take it.
_GENERATION_OF_NONE: Final = 0
_NO_MEMBER: Final = "?"

# A broker comes to these when it has authorized the request.
_OF_GROUPS: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_OF_TOPICS: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
# The transactional id is authorized first, the group and its topics after it.
_OF_TRANSACTIONAL_IDS: Final = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_OF_THE_CLUSTER: Final = frozenset({ErrorCode.NONE, ErrorCode.SECURITY_DISABLED})

REFUSALS: Final[Mapping[Right, ErrorCode]] = {
    Right.READ_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Right.DESCRIBE_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Right.DELETE_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Right.READ_TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Right.DESCRIBE_TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Right.WRITE_TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Right.DESCRIBE_CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""What an authorizer's refusal is."""


class Probe(NamedTuple):
    """A request. ``errors`` gives the error of each name in its response; ``later``: those that come only after the
    authorizer has let it through."""

    needs: tuple[Need, ...]
    api: Api[Any, Any]
    version: int
    request: Any
    errors: Callable[[Any], Iterable[tuple[str, int]]]
    later: frozenset[ErrorCode]
    before: frozenset[ErrorCode] = frozenset()
    """Those that refuse the whole request for another right, that it needs first."""


class Answers(NamedTuple):
    """``unclear``: of the needs that are not granted, those of which that was not said; each with the error, None where
    the response does not name it. ``throttled``: those that it does not name as the client is over a quota: of these
    nothing was said at all. ``moot``: of the needs that are not granted, those that were not come to, as another one is
    not.
    """

    granted: Mapping[Need, bool]
    unclear: Mapping[Need, int | None]
    throttled: Collection[Need] = ()
    moot: Collection[Need] = ()


def probes_for(needs: Iterable[Need], group_id: str | None = None) -> Iterator[Probe]:
    """The requests that tell of all these; of a name that cannot be asked for there is none.

    ``group_id``: of a group of which READ is needed, too. Where that is not granted, nothing is said of topics.
    """
    can_be_asked = {need for need in needs if _fits(need.name)}
    for right, of_right in groupby(sorted(can_be_asked), key=attrgetter("right")):
        question = _QUESTIONS[right]
        if right is Right.READ_TOPIC and group_id is not None and _fits(group_id):
            question = _through_group(group_id)
        names = (need.name for need in of_right)
        while some := tuple(islice(names, question.at_once)):
            yield question.about(right, some)


def read(probe: Probe, response: Any) -> Answers:
    """What the response says of each of the needs. One that it does not name, or names twice with different errors, is
    not granted."""
    errors: dict[str, set[int]] = {need.name: set() for need in probe.needs}
    for name, error in probe.errors(response):
        if name in errors:
            errors[name].add(error)
    over_quota = getattr(response, "throttle_time_ms", 0) > 0
    granted, unclear, throttled, moot = {}, {}, [], []
    for need in probe.needs:
        said = errors[need.name]
        if not said and over_quota:
            throttled.append(need)
            continue
        granted[need] = bool(said) and said <= probe.later
        if said and said <= probe.before:
            moot.append(need)
        elif not granted[need] and said != {REFUSALS[need.right]}:
            unclear[need] = next(iter(said), None)
    return Answers(granted, unclear, throttled, moot)


def _fits(name: str) -> bool:
    return len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME


class _Question(NamedTuple):
    """``asks``: the request about these names, ``at_once`` at most; ``says``: of them and its response, the error of
    each. The others are those of :class:`Probe`."""

    api: Api[Any, Any]
    version: int
    asks: Callable[[Sequence[str]], Any]
    says: Callable[[Sequence[str], Any], Iterable[tuple[str, int]]]
    later: frozenset[ErrorCode]
    at_once: int = 1
    before: frozenset[ErrorCode] = frozenset()

    def about(self, right: Right, names: Sequence[str]) -> Probe:
        needs, errors = tuple(Need(right, name) for name in names), partial(self.says, names)
        return Probe(needs, self.api, self.version, self.asks(names), errors, self.later, self.before)


def _as_a_whole(names: Sequence[str], response: Any) -> Iterable[tuple[str, int]]:
    return [(names[0], response.error_code)]


def _by_topic(_names: Sequence[str], response: Any) -> Iterable[tuple[str, int]]:
    return [(topic.name, each.error_code) for topic in response.topics for each in topic.partitions]


def _fetched(_names: Sequence[str], response: Any) -> Iterable[tuple[str, int]]:
    return [(each.topic, partition.error_code) for each in response.responses for partition in each.partitions]


def _fetch(names: Sequence[str]) -> fetch.FetchRequest:
    partitions = (fetch.FetchPartition(_NO_PARTITION),)
    return fetch.FetchRequest(topics=tuple(fetch.FetchTopic(name, partitions=partitions) for name in names))


def _offset_commit(group_id: str, names: Sequence[str]) -> offset_commit.OffsetCommitRequest:
    """Of no partition, and of no member, at a generation that no group has: nothing is committed."""
    partitions = (offset_commit.OffsetCommitRequestPartition(_NO_PARTITION, 0),)
    topics = tuple(offset_commit.OffsetCommitRequestTopic(name, partitions=partitions) for name in names)
    return offset_commit.OffsetCommitRequest(group_id, _GENERATION_OF_NONE, _NO_MEMBER, topics=topics)


def _list_offsets(names: Sequence[str]) -> list_offsets.ListOffsetsRequest:
    partitions = (list_offsets.ListOffsetsPartition(_NO_PARTITION, timestamp=-1),)
    topics = tuple(list_offsets.ListOffsetsTopic(name, partitions) for name in names)
    return list_offsets.ListOffsetsRequest(-1, topics=topics)


def _txn_offset_commit(names: Sequence[str]) -> txn_offset_commit.TxnOffsetCommitRequest:
    """For a topic that cannot exist: no group is reached."""
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(_NO_PARTITION, 0, committed_metadata="")
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(_NO_TOPIC, (partition,))
    return txn_offset_commit.TxnOffsetCommitRequest(names[0], "", _NO_PRODUCER, -1, topics=(topic,))


def _through_group(group_id: str) -> _Question:
    """READ on topics, by who has it on the group."""
    before = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED})
    asks = partial(_offset_commit, group_id)
    return _Question(offset_commit.API, 5, asks, _by_topic, _OF_TOPICS, NAMES_AT_ONCE, before)


_QUESTIONS: Final[Mapping[Right, _Question]] = {
    Right.READ_GROUP: _Question(
        heartbeat.API,
        0,
        lambda names: heartbeat.HeartbeatRequest(names[0], _NO_GENERATION, ""),  # of no member: none is heard from
        _as_a_whole,
        _OF_GROUPS,
    ),
    Right.DESCRIBE_GROUP: _Question(
        describe_groups.API,
        0,
        lambda names: describe_groups.DescribeGroupsRequest(tuple(names)),
        lambda _names, response: [(group.group_id, group.error_code) for group in response.groups],
        _OF_GROUPS,
        NAMES_AT_ONCE,
    ),
    Right.DELETE_GROUP: _Question(
        offset_delete.API,
        0,
        lambda names: offset_delete.OffsetDeleteRequest(names[0], ()),  # of no topics: nothing is deleted
        _as_a_whole,
        _OF_GROUPS,
    ),
    Right.READ_TOPIC: _Question(fetch.API, 4, _fetch, _fetched, _OF_TOPICS, NAMES_AT_ONCE),
    Right.DESCRIBE_TOPIC: _Question(list_offsets.API, 1, _list_offsets, _by_topic, _OF_TOPICS, NAMES_AT_ONCE),
    Right.WRITE_TRANSACTIONAL_ID: _Question(
        txn_offset_commit.API,
        0,
        _txn_offset_commit,
        lambda names, response: [(names[0], p.error_code) for t in response.topics for p in t.partitions],
        _OF_TRANSACTIONAL_IDS,
    ),
    Right.DESCRIBE_CLUSTER: _Question(describe_acls.API, 1, lambda _names: NO_ACLS, _as_a_whole, _OF_THE_CLUSTER),
}
