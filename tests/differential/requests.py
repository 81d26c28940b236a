"""The request that a step is at one side, at the moment when its turn comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.consumer import ConsumerProtocolSubscription, encode_subscription
from protocol.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from protocol.wire import ZERO_UUID
from tests.differential.side import Ask, Client, Phase, Side
from tests.differential.steps import (
    NEXT,
    NONE,
    OF,
    OLD,
    OWN,
    SHORT_MS,
    TOPICS,
    WRONG,
    ZERO,
    Advance,
    Commit,
    Delete,
    DeleteOffsets,
    Describe,
    Fetch,
    Find,
    Heartbeat,
    Join,
    Leave,
    ListAll,
    Sequence,
    Step,
    Sync,
    Timing,
)

_CONSUMER = "consumer"
_LIBRARIES = "tests"
_INSTANCES_FROM = {join_group.API.key: 5, sync_group.API.key: 3, heartbeat.API.key: 3, offset_commit.API.key: 7}
_MANY_FROM = 3  # LeaveGroup
_GROUPS_FROM = 8  # OffsetFetch
_KEYS_FROM = 4  # FindCoordinator
_IDS_FROM = 10  # OffsetCommit, OffsetFetch
_NO_SUCH_ID = bytes(range(16))
_INT32_MAX = 2**31 - 1

# A broker fails on some subscriptions (see docs/differences.md), so all of these are sound.
_SHORTEST_S, _TOO_LONG_MS = 1, 1_800_001


def request_of(side: Side, sequence: Sequence, step: Step) -> Ask | None:
    """None when the step means nothing now."""
    return _MAKERS[type(step)](side, sequence, step)


def _advance(side: Side, sequence: Sequence, step: Advance) -> Ask | None:
    client = side.by_label[step.actor]
    versions = client.plan.versions
    if side.waits(client):
        return None
    match client.phase:
        case Phase.OUT:
            return _join(side, sequence, Join(step.actor, versions.join))
        case Phase.JOINED:
            return _sync(side, sequence, Sync(step.actor, versions.sync))
        case Phase.IN:
            return _heartbeat(side, sequence, Heartbeat(step.actor, versions.heartbeat))


def _join(side: Side, sequence: Sequence, step: Join) -> Ask | None:
    client = side.by_label[step.actor]
    member_id = _member_id(side, client, step.member)
    if not member_id and any(
        pending.ask.client is client and not pending.ask.request.member_id for pending in side.pending
    ):
        return None  # two of one actor could not be told apart
    if sequence.timing is Timing.SESSION and step.actor == 0 and not member_id and client.member_id:
        return None  # nothing would show when the member id that it had expires
    if sequence.timing is Timing.REBALANCE and step.version == 0:
        return None  # it has no rebalance time-out
    if step.change == "shorter":
        if sequence.timing is Timing.SESSION and step.actor == 0:
            client.session_timeout_ms = SHORT_MS
        elif sequence.timing is Timing.REBALANCE:
            client.rebalance_timeout_ms = SHORT_MS
    session_timeout_ms, group_id = client.session_timeout_ms, side.group
    protocol_type, protocols = sequence.protocol_type, client.protocols
    match step.change:
        case "metadata":
            client.revision += 1
        case "protocols":
            protocols = client.protocols = protocols[1:] + protocols[:1]
        case "other protocols":
            protocols = ("unheard-of",)
        case "no protocols":
            protocols = ()
        case "type":
            protocol_type = "another"
        case "no type":
            protocol_type = ""
        case "short session":
            session_timeout_ms = _SHORTEST_S
        case "long session":
            session_timeout_ms = _TOO_LONG_MS
        case "no group":
            group_id = ""
    request = join_group.JoinGroupRequest(
        group_id,
        session_timeout_ms,
        client.rebalance_timeout_ms,
        member_id,
        _instance_id(side, client, step.instance, join_group.API.key, step.version),
        protocol_type,
        tuple(join_group.JoinGroupRequestProtocol(name, _metadata(protocol_type, name, client)) for name in protocols),
        "a reason",
    )
    owner = side.owner_of(member_id) if member_id else client
    return Ask(join_group.API, step.version, request, client.client_id, owner)


def _metadata(protocol_type: str, protocol: str, client: Client) -> bytes:
    tag = b"%s of actor:%d, revision %d" % (protocol.encode(), client.number, client.revision)
    if protocol_type != _CONSUMER:
        return tag
    topics = TOPICS[: 1 + client.revision % 2]
    return encode_subscription(ConsumerProtocolSubscription(topics, tag), client.revision % 4)


def _sync(side: Side, sequence: Sequence, step: Sync) -> Ask | None:
    client = side.by_label[step.actor]
    member_id = _member_id(side, client, step.member)
    members = tuple(sorted(client.members, key=side.plain))
    match step.assign:
        case "some":
            members = members[: len(members) // 2]
        case "more":
            members = (*members, "nobody")
        case "none":
            members = ()
    protocol_name: str | None = client.protocol_name
    protocol_type: str | None = sequence.protocol_type
    match step.protocol:
        case "none":
            protocol_name = protocol_type = None
        case "wrong":
            protocol_name = "unheard-of"
        case "type":
            protocol_type = "another"
    request = sync_group.SyncGroupRequest(
        side.group_id(step.group),
        _generation(client, step.generation),
        member_id,
        _instance_id(side, client, step.instance, sync_group.API.key, step.version),
        protocol_type,
        protocol_name,
        tuple(sync_group.SyncGroupRequestAssignment(member, _assignment(side, member)) for member in members),
    )
    return Ask(sync_group.API, step.version, request, client.client_id, side.owner_of(member_id))


def _assignment(side: Side, member_id: str) -> bytes:
    owner = side.owner_of(member_id)
    return b"for actor:%d" % owner.number if owner is not None else b"for nobody"


def _heartbeat(side: Side, sequence: Sequence, step: Heartbeat) -> Ask:
    client = side.by_label[step.actor]
    member_id = _member_id(side, client, step.member)
    request = heartbeat.HeartbeatRequest(
        side.group_id(step.group),
        _generation(client, step.generation),
        member_id,
        _instance_id(side, client, step.instance, heartbeat.API.key, step.version),
    )
    return Ask(heartbeat.API, step.version, request, client.client_id, side.owner_of(member_id))


def _leave(side: Side, sequence: Sequence, step: Leave) -> Ask:
    identities = []
    for actor, member, instance in step.who:
        client = side.by_label[actor]
        member_id = _member_id(side, client, member)
        instance_id = _instance_id(side, client, instance, leave_group.API.key, step.version)
        identities.append(leave_group.MemberIdentity(member_id, instance_id, "a reason"))
    if step.version < _MANY_FROM:
        request = leave_group.LeaveGroupRequest(side.group_id(step.group), identities[0].member_id)
    else:
        request = leave_group.LeaveGroupRequest(side.group_id(step.group), members=tuple(identities))
    return Ask(leave_group.API, step.version, request, _LIBRARIES)


def _commit(side: Side, sequence: Sequence, step: Commit) -> Ask:
    client = side.by_label[step.actor]
    member_id = _member_id(side, client, step.member)
    topics = []
    for name in sorted({offset.topic for offset in step.offsets}):
        partitions = tuple(
            offset_commit.OffsetCommitRequestPartition(
                each.partition, each.offset, each.leader_epoch, committed_metadata=each.metadata
            )
            for each in step.offsets
            if each.topic == name
        )
        topics.append(offset_commit.OffsetCommitRequestTopic(*_named(side, name, step.version), partitions=partitions))
    request = offset_commit.OffsetCommitRequest(
        side.group_id(step.group),
        _generation(client, step.generation),
        member_id,
        _instance_id(side, client, step.instance, offset_commit.API.key, step.version),
        step.retention_ms,
        tuple(topics),
    )
    return Ask(offset_commit.API, step.version, request, client.client_id, side.owner_of(member_id))


def _fetch(side: Side, sequence: Sequence, step: Fetch) -> Ask:
    if step.version < _GROUPS_FROM:
        old = (
            None
            if step.topics is None and step.version >= 2
            else tuple(offset_fetch.OffsetFetchRequestTopic(name, indexes) for name, indexes in step.topics or ())
        )
        stable = step.require_stable and step.version >= 7
        request = offset_fetch.OffsetFetchRequest(side.group_id(step.groups[0]), old, require_stable=stable)
    else:
        new = (
            None
            if step.topics is None
            else tuple(
                offset_fetch.OffsetFetchRequestTopics(*_named(side, name, step.version), partition_indexes=indexes)
                for name, indexes in step.topics
            )
        )
        groups = tuple(offset_fetch.OffsetFetchRequestGroup(side.group_id(which), topics=new) for which in step.groups)
        request = offset_fetch.OffsetFetchRequest(groups=groups, require_stable=step.require_stable)
    return Ask(offset_fetch.API, step.version, request, _LIBRARIES)


def _describe(side: Side, sequence: Sequence, step: Describe) -> Ask:
    groups = tuple(side.group_id(which) for which in step.groups)
    request = describe_groups.DescribeGroupsRequest(groups, step.operations and step.version >= 3)
    return Ask(describe_groups.API, step.version, request, _LIBRARIES)


def _list(side: Side, sequence: Sequence, step: ListAll) -> Ask:
    request = list_groups.ListGroupsRequest(
        step.states if step.version >= 4 else (), step.types if step.version >= 5 else ()
    )
    return Ask(list_groups.API, step.version, request, _LIBRARIES)


def _find(side: Side, sequence: Sequence, step: Find) -> Ask:
    keys = tuple(side.group_id(which) for which in step.groups)
    request = (
        find_coordinator.FindCoordinatorRequest(keys[0])
        if step.version < _KEYS_FROM
        else find_coordinator.FindCoordinatorRequest(coordinator_keys=keys)
    )
    return Ask(find_coordinator.API, step.version, request, _LIBRARIES)


def _delete(side: Side, sequence: Sequence, step: Delete) -> Ask:
    request = delete_groups.DeleteGroupsRequest(tuple(side.group_id(which) for which in step.groups))
    return Ask(delete_groups.API, step.version, request, _LIBRARIES)


def _delete_offsets(side: Side, sequence: Sequence, step: DeleteOffsets) -> Ask:
    topics = tuple(
        offset_delete.OffsetDeleteRequestTopic(
            name, tuple(offset_delete.OffsetDeleteRequestPartition(index) for index in indexes)
        )
        for name, indexes in step.topics
    )
    request = offset_delete.OffsetDeleteRequest(side.group_id(step.group), topics)
    return Ask(offset_delete.API, step.version, request, _LIBRARIES)


_MAKERS: dict[type, Callable[[Side, Sequence, Any], Ask | None]] = {
    Advance: _advance,
    Join: _join,
    Sync: _sync,
    Heartbeat: _heartbeat,
    Leave: _leave,
    Commit: _commit,
    Fetch: _fetch,
    Describe: _describe,
    ListAll: _list,
    Find: _find,
    Delete: _delete,
    DeleteOffsets: _delete_offsets,
}


def _member_id(side: Side, client: Client, whose: str) -> str:
    if whose.startswith(OF):
        return side.by_label[int(whose.removeprefix(OF))].member_id
    return {
        OWN: client.member_id,
        NONE: "",
        WRONG: "nobody",
        OLD: client.old_member_ids[-1] if client.old_member_ids else "nobody",
    }[whose]


def _instance_id(side: Side, client: Client, whose: str, api_key: int, version: int) -> str | None:
    if version < _INSTANCES_FROM.get(api_key, 0):
        return None
    if whose.startswith(OF):
        return f"instance-{side.by_label[int(whose.removeprefix(OF))].number}"
    return {OWN: client.instance_id, NONE: None, WRONG: "instance-unknown"}[whose]


def _generation(client: Client, which: str) -> int:
    generation = client.generation
    return {OWN: generation, OLD: generation - 1, NEXT: min(generation + 1, _INT32_MAX), NONE: -1, ZERO: 0}[which]


def _named(side: Side, topic: str, version: int) -> tuple[str, bytes]:
    return ("", side.topic_ids.get(topic, _NO_SUCH_ID)) if version >= _IDS_FROM else (topic, ZERO_UUID)
