"""Recovery: replayed records make the coordinator that was, deadlines and all that records hold."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

from .driving import START, SUBSCRIPTION, Driven, new_coordinator, parked
from .durable import assert_same, reloaded


def value(generation: int = 4, **changes: object) -> GroupMetadataValue:
    member = MemberMetadata(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=60_000,
        session_timeout=10_000,
        subscription=SUBSCRIPTION,
        assignment=b"A",
    )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader="m",
        current_state_timestamp=START,
        members=(member._replace(**changes),),  # type: ignore[arg-type]
    )


def test_a_restart_is_not_noticed() -> None:
    d = Driven()
    (leader, follower), generation = d.stable(2, session=10_000)
    d.commit(leader, generation, [("orders", 0, 7)], metadata="m", leader_epoch=2)
    before = d.coordinator.describe_group("g", 5)
    d.restart()
    assert d.coordinator.describe_group("g", 5) == before
    assert d.heartbeat(leader, generation) == ErrorCode.NONE
    assert d.commit_error(follower, generation, [("orders", 1, 8)]) == ErrorCode.NONE
    assert (d.fetch("orders", 0).committed_offset, d.fetch("orders", 1).committed_offset) == (7, 8)
    assert d.synced(d.ask_sync(follower, generation)).assignment == b"for " + follower.encode()


def test_restored_sessions_begin_at_the_restart() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=10_000)
    d.now += 1_000_000  # the outage
    d.restart()
    assert d.coordinator.next_deadline() == d.now + 10_000
    d.advance(9_999)
    assert d.heartbeat(member_id, generation) == ErrorCode.NONE
    d.advance(10_000)
    assert d.state() == "Empty"


def test_a_restart_amid_a_rebalance_goes_back_to_the_last_generation() -> None:
    d = Driven()
    (leader, follower), generation = d.stable(2)
    d.ask_join(leader)
    d.restart()
    assert d.state() == "Stable"
    assert d.heartbeat(follower, generation) == ErrorCode.NONE
    assert parked(d.coordinator) == []


def test_parked_requests_are_known() -> None:
    d = Driven()
    (leader, follower), _ = d.stable(2)
    join = d.ask_join(leader)
    assert parked(d.coordinator) == [join]
    d.ask_join(follower)
    sync = d.ask_sync(follower, 2)
    assert parked(d.coordinator) == [sync]


def test_a_restored_group_can_rebalance() -> None:
    d = Driven()
    (leader,), generation = d.stable()
    d.restart()
    _, ticket = d.member()
    again = d.ask_join(leader)
    assert d.joined(ticket).generation_id == d.joined(again).generation_id == generation + 1
    assert len(d.joined(again).members) == 2


@pytest.mark.parametrize("with_offsets", [False, True])
def test_a_tombstone_deletes_the_group_but_no_offset(with_offsets: bool) -> None:
    coordinator = new_coordinator()
    coordinator.replay(GroupMetadataKey("g"), value())
    if with_offsets:
        coordinator.replay(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=5, metadata=""))
    coordinator.loaded(START)
    coordinator.replay(GroupMetadataKey("g"), None)
    assert coordinator.next_deadline() is None
    described = coordinator.describe_group("g", 5)
    assert described.group_state == ("Empty" if with_offsets else "Dead")
    assert described.protocol_type == ""
    fetched = coordinator.offset_fetch(OffsetFetchRequestGroup(group_id="g", topics=None))
    assert [p.committed_offset for t in fetched.topics for p in t.partitions] == [5] * with_offsets


def test_a_tombstone_deletes_an_offset() -> None:
    d = Driven()
    d.commit(offsets=[("a", 0, 1), ("a", 1, 2)])
    d.coordinator.replay(OffsetCommitKey("g", "a", 0), None)
    d.coordinator.replay(OffsetCommitKey("g", "b", 0), None)
    d.coordinator.replay(OffsetCommitKey("h", "a", 0), None)
    assert (d.fetch("a", 0).committed_offset, d.fetch("a", 1).committed_offset) == (-1, 2)
    d.coordinator.replay(GroupMetadataKey("never was"), None)
    assert len(d.coordinator.group_ids()) == 1


def test_later_records_replace_earlier_ones() -> None:
    coordinator = new_coordinator()
    coordinator.replay(GroupMetadataKey("g"), value(4, group_instance_id="i"))
    coordinator.replay(GroupMetadataKey("g"), value(5, member_id="n", group_instance_id="i", assignment=b"N"))
    group = coordinator._state.groups["g"]
    assert list(group.members) == ["n"]
    assert group.static_members == {"i": "n"}
    assert (group.generation_id, group.leader) == (5, "n")  # the recorded leader is no member
    coordinator.replay(GroupMetadataKey("g"), value(6)._replace(protocol=None, leader=None, members=()))
    assert (group.members, group.static_members, group.leader) == ({}, {}, None)
    assert coordinator.describe_group("g", 5).group_state == "Empty"


def test_members_are_in_the_records_order() -> None:
    coordinator = new_coordinator()
    (m,) = value().members
    for order in (["a", "b"], ["b", "c", "a"]):
        members = tuple(m._replace(member_id=member_id) for member_id in order)
        coordinator.replay(GroupMetadataKey("g"), value()._replace(members=members))
    assert list(coordinator._state.groups["g"].members) == ["b", "c", "a"]


def test_a_member_without_a_rebalance_timeout_that_does_not_rejoin_is_no_busy_loop() -> None:
    d = Driven()
    d.records.append((GroupMetadataKey("g"), value(group_instance_id="i", rebalance_timeout=0)))
    d.restart()
    newcomer, _ = d.member(rebalance=0)
    d.leave(newcomer)
    d.advance(0)
    assert d.state() == "PreparingRebalance"
    assert d.coordinator.next_deadline() == d.now + 1_000
    d.advance(10_000)
    assert d.state() == "Empty"


def test_a_record_without_a_rebalance_timeout() -> None:
    coordinator = new_coordinator()
    coordinator.replay(GroupMetadataKey("g"), value(rebalance_timeout=-1))
    assert coordinator._state.groups["g"].members["m"].rebalance_timeout_ms == 10_000


def test_a_subscription_that_cannot_be_read_is_restored_all_the_same() -> None:
    d = Driven()
    d.records.append((GroupMetadataKey("g"), value(subscription=b"\x00")))
    d.restart()
    assert d.heartbeat("m", 4) == ErrorCode.NONE


def test_a_value_must_be_of_its_keys_kind() -> None:
    coordinator = new_coordinator()
    with pytest.raises(TypeError, match="no value for"):
        coordinator.replay(GroupMetadataKey("g"), OffsetCommitValue(offset=1))
    with pytest.raises(TypeError, match="no value for"):
        coordinator.replay(OffsetCommitKey("g", "t", 0), value())


def test_the_generation_starts_again_at_its_end() -> None:
    d = Driven()
    d.records.append((GroupMetadataKey("g"), value(2**31 - 1)))
    d.restart()
    ticket = d.ask_join("m")
    assert d.joined(ticket).generation_id == 0


def test_running_and_replayed_are_the_same_through_the_bytes() -> None:
    d = Driven()
    (leader, follower), generation = d.stable(2)
    d.commit(leader, generation, [("orders", 0, 7)], metadata="\N{GRINNING FACE}", leader_epoch=2)
    d.commit(group="simple", version=4, retention_time_ms=5)
    static = d.ask_join(instance="i", group="h")
    d.advance(3_000)
    d.ask_sync(d.joined(static).member_id, 1, {}, instance="i", group="h")
    d.ask_join(instance="i", group="h")
    d.leave(follower)
    d.leave(leader)
    assert_same(d.coordinator, reloaded(d.records))
