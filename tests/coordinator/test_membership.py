"""Heartbeat, LeaveGroup and the end of sessions."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue

from .driving import Driven


def empty_record(d: Driven, generation: int) -> tuple[GroupMetadataKey, GroupMetadataValue]:
    return (
        GroupMetadataKey("g"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol=None,
            leader=None,
            current_state_timestamp=d.now,
            members=(),
        ),
    )


class TestHeartbeat:
    def test_checks(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        assert d.heartbeat(member_id, generation) == ErrorCode.NONE
        assert d.heartbeat(member_id, generation - 1) == ErrorCode.ILLEGAL_GENERATION
        assert d.heartbeat(member_id, generation + 1) == ErrorCode.ILLEGAL_GENERATION
        assert d.heartbeat("nobody", generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert d.heartbeat(member_id, generation, group="h") == ErrorCode.UNKNOWN_MEMBER_ID
        assert d.heartbeat(member_id, generation, group="") == ErrorCode.INVALID_GROUP_ID
        assert d.heartbeat(member_id, generation, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_empty_group_knows_nobody(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        d.leave(member_id)
        assert d.heartbeat(member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_between_join_and_sync_it_is_fine(self) -> None:
        d = Driven()
        member_id, _ = d.member()
        d.advance(3_000)
        assert d.heartbeat(member_id, 1) == ErrorCode.NONE

    def test_it_keeps_the_member_in_the_group(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable(session=10_000)
        for _ in range(20):
            d.advance(9_999)
            assert d.heartbeat(member_id, generation) == ErrorCode.NONE
        d.advance(9_999)
        assert d.state() == "Stable"
        d.advance(1)
        assert d.state() == "Empty"
        assert d.records[-1] == empty_record(d, generation + 1)


class TestSessions:
    def test_a_silent_member_makes_the_others_rebalance(self) -> None:
        d = Driven()
        (leader, follower), generation = d.stable(2, session=10_000)
        d.advance(6_000)
        d.heartbeat(follower, generation)
        d.advance(4_000)
        assert d.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert d.heartbeat(leader, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        answer = d.joined(d.ask_join(follower))
        assert (answer.generation_id, answer.leader) == (generation + 1, follower)

    def test_who_waits_in_a_join_is_alive(self) -> None:
        d = Driven()
        (leader, follower), generation = d.stable(2, session=10_000, rebalance=60_000)
        ticket = d.ask_join(leader)
        for _ in range(5):
            d.advance(9_000)
            assert d.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        d.ask_join(follower)
        assert [m.member_id for m in d.joined(ticket).members] == [leader, follower]

    def test_the_last_one_missing_ends_the_join_by_its_silence(self) -> None:
        d = Driven()
        (leader, _), generation = d.stable(2, session=10_000, rebalance=60_000)
        ticket = d.ask_join(leader)
        d.advance(10_000)
        assert d.joined(ticket).generation_id == generation + 1

    def test_nobody_rejoins(self) -> None:
        d = Driven()
        d.stable(2, session=30_000, rebalance=10_000)
        d.member(session=10_000, rebalance=10_000)
        d.leave("client-3")
        assert d.state() == "PreparingRebalance"
        d.advance(10_000)
        assert d.state() == "Empty"


class TestLeave:
    def test_the_others_rebalance(self) -> None:
        d = Driven()
        (leader, follower), generation = d.stable(2)
        answer = d.leave(leader)
        assert answer.error_code == ErrorCode.NONE
        assert [(m.member_id, m.error_code) for m in answer.members] == [(leader, ErrorCode.NONE)]
        assert d.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert d.joined(d.ask_join(follower)).leader == follower

    def test_the_last_one_leaves_an_empty_group_that_is_recorded(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        d.leave(member_id)
        assert d.state() == "Empty"
        assert d.records[-1] == empty_record(d, generation + 1)
        assert d.coordinator.next_deadline() is None
        assert d.stable()[1] == generation + 2

    def test_many_at_once_are_one_rebalance(self) -> None:
        d = Driven()
        (first, second, third), generation = d.stable(3)
        answer = d.leave(first, second, "nobody")
        assert [m.error_code for m in answer.members] == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ]
        assert d.joined(d.ask_join(third)).generation_id == generation + 1

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_one_member_before_version_3(self, version: int) -> None:
        d = Driven()
        (member_id,), _ = d.stable()
        unknown = d.leave("nobody", version=version)
        assert (unknown.error_code, unknown.members) == (ErrorCode.UNKNOWN_MEMBER_ID, ())
        answer = d.leave(member_id, version=version)
        assert (answer.error_code, answer.members) == (ErrorCode.NONE, ())
        assert d.state() == "Empty"

    def test_unknown_and_empty_group_ids(self) -> None:
        d = Driven()
        answer = d.leave("m", group="h")
        assert answer.error_code == ErrorCode.NONE
        assert [m.error_code for m in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert d.leave("m", group="h", version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert d.leave("m", group="").error_code == ErrorCode.INVALID_GROUP_ID

    def test_nothing_happens_when_nobody_left(self) -> None:
        d = Driven()
        d.stable()
        d.leave("nobody")
        assert d.state() == "Stable"

    def test_a_pending_member_that_leaves_starts_a_rebalance(self) -> None:
        d = Driven()
        d.stable()
        pending = d.joined(d.ask_join()).member_id
        assert [m.error_code for m in d.leave(pending).members] == [ErrorCode.NONE]
        assert d.state() == "PreparingRebalance"
        assert (
            len(d.coordinator._state.deadlines) == 3
        )  # the member's session, the end of the join phase, and when it is told
        assert [m.error_code for m in d.leave(pending).members] == [ErrorCode.UNKNOWN_MEMBER_ID]

    def test_a_pending_member_that_leaves_no_longer_holds_up_the_join(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        pending = d.joined(d.ask_join()).member_id
        ticket = d.ask_join(member_id)
        assert ticket not in d.answers
        d.leave(pending)
        assert d.joined(ticket).generation_id == generation + 1

    def test_requests_that_are_parked_are_answered(self) -> None:
        d = Driven()
        (leader, follower), _ = d.stable(2)
        join = d.ask_join(leader)
        d.leave(leader)
        answer = d.joined(join)
        assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
        d.joined(d.ask_join(follower))
        other, ticket = d.member()
        d.ask_join(follower)
        sync = d.ask_sync(other, d.joined(ticket).generation_id)
        assert sync not in d.answers
        d.leave(other)
        assert d.synced(sync).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_leaving_during_the_initial_delay_does_not_cut_it_short(self) -> None:
        d = Driven()
        leaver, _ = d.member()
        _, ticket = d.member()
        d.leave(leaver)
        assert ticket not in d.answers
        d.advance(6_000)
        assert d.joined(ticket).generation_id == 1

    def test_an_instance_id_alone_removes_a_static_member(self) -> None:
        d = Driven()
        d.ask_join(instance="i")
        d.advance(3_000)
        unknown = d.leave(MemberIdentity(member_id="", group_instance_id="j"))
        assert unknown.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        fenced = d.leave(MemberIdentity(member_id="somebody", group_instance_id="i"))
        assert fenced.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
        gone = d.leave(MemberIdentity(member_id="", group_instance_id="i"))
        assert (gone.members[0].member_id, gone.members[0].group_instance_id) == ("", "i")
        assert gone.members[0].error_code == ErrorCode.NONE
        assert d.state() == "Empty"
