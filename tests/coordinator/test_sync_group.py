"""SyncGroup: the assignment, its record, who waits for it and who comes too late."""

import pytest

from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, MemberMetadata, encode_value
from shim.coordinator import Caller, CoordinatorSettings

from .driving import SUBSCRIPTION, Driven


def completing(d: Driven, size: int = 2, **kwargs: object) -> list[str]:
    members = [d.member(**kwargs) for _ in range(size)]
    d.advance(6_000)
    assert d.state() == "CompletingRebalance"
    return [member_id for member_id, _ in members]


def test_the_leaders_assignment_is_recorded_and_given_to_all() -> None:
    d = Driven()
    leader, follower = completing(d)
    recorded = len(d.records)
    waiting = d.ask_sync(follower, 1)
    assert waiting not in d.answers
    assert len(d.records) == recorded
    ticket = d.ask_sync(leader, 1, {leader: b"L", follower: b"F", "nobody": b"N"})
    assert d.records[recorded:] == [
        (
            GroupMetadataKey("g"),
            GroupMetadataValue(
                protocol_type="consumer",
                generation=1,
                protocol="range",
                leader=leader,
                current_state_timestamp=d.now,
                members=tuple(
                    MemberMetadata(
                        member_id=member_id,
                        group_instance_id=None,
                        client_id="client",
                        client_host="/127.0.0.1",
                        rebalance_timeout=60_000,
                        session_timeout=10_000,
                        subscription=SUBSCRIPTION,
                        assignment=assignment,
                    )
                    for member_id, assignment in ((leader, b"L"), (follower, b"F"))
                ),
            ),
        )
    ]
    assert d.state() == "Stable"
    for sync, assignment in ((ticket, b"L"), (waiting, b"F")):
        answer = d.synced(sync)
        assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, assignment)
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_who_syncs_after_the_leader_is_answered_at_once() -> None:
    d = Driven()
    leader, follower = completing(d)
    d.ask_sync(leader, 1, {follower: b"F"})
    assert d.synced(d.ask_sync(follower, 1)).assignment == b"F"
    assert d.synced(d.ask_sync(follower, 1)).assignment == b"F"
    assert d.synced(d.ask_sync(leader, 1)).assignment == b""


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": "h"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None, "group": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_checks(change: dict[str, object], error: ErrorCode) -> None:
    d = Driven()
    (leader,) = completing(d, 1)
    answer = d.synced(d.ask_sync(**({"member_id": leader, "generation": 1} | change)))  # type: ignore[arg-type]
    assert (answer.error_code, answer.assignment) == (error, b"")
    assert d.state() == "CompletingRebalance"


def test_before_version_5_there_is_no_protocol_to_check() -> None:
    d = Driven()
    (leader,) = completing(d, 1)
    assert d.synced(d.ask_sync(leader, 1, {leader: b"L"}, version=4)).assignment == b"L"


def test_an_empty_group_knows_nobody() -> None:
    d = Driven()
    d.joined(d.ask_join())
    assert d.synced(d.ask_sync("client-1", 0)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_while_a_rebalance_is_prepared() -> None:
    d = Driven()
    (leader, follower), generation = d.stable(2)
    d.ask_join(leader)
    assert d.synced(d.ask_sync(follower, generation)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_sends_those_who_wait_back() -> None:
    d = Driven()
    leader, follower = completing(d)
    waiting = d.ask_sync(follower, 1)
    newcomer, ticket = d.member()
    assert d.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    for member_id in (leader, follower):
        d.ask_join(member_id)
    assert d.joined(ticket).generation_id == 2
    assert newcomer != leader


def test_syncing_again_while_parked_leaves_no_request_without_an_answer() -> None:
    d = Driven()
    leader, follower = completing(d)
    first, second = d.ask_sync(follower, 1), d.ask_sync(follower, 1)
    assert d.synced(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    d.ask_sync(leader, 1, {follower: b"F"})
    assert d.synced(second).assignment == b"F"


def test_a_leader_that_does_not_sync_is_removed_after_the_rebalance_timeout() -> None:
    d = Driven()
    leader, follower = completing(d, session=60_000, rebalance=20_000)
    waiting = d.ask_sync(follower, 1)
    d.advance(19_999)
    assert waiting not in d.answers
    d.advance(1)
    assert d.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert d.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    answer = d.joined(d.ask_join(follower))
    assert (answer.generation_id, answer.leader) == (2, follower)


def test_a_follower_that_does_not_sync_is_removed_from_the_stable_group() -> None:
    d = Driven()
    leader, follower = completing(d, session=60_000, rebalance=20_000)
    d.ask_sync(leader, 1, {follower: b"F"})
    assert d.state() == "Stable"
    d.advance(20_000)
    assert d.state() == "PreparingRebalance"
    assert d.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_nobody_is_removed_when_all_have_synced() -> None:
    d = Driven()
    (leader, follower), generation = d.stable(2, session=100_000, rebalance=20_000)
    assert d.coordinator.next_deadline() == d.now + 100_000  # a session
    d.advance(50_000)
    assert d.heartbeat(leader, generation) == d.heartbeat(follower, generation) == ErrorCode.NONE
    assert d.state() == "Stable"


def wait_beyond_the_session(d: Driven) -> tuple[str, str, int]:
    leader, follower = completing(d, session=10_000)
    waiting = d.ask_sync(follower, 1)
    for _ in range(3):
        d.advance(9_000)
        assert d.heartbeat(leader, 1) == ErrorCode.NONE
    return leader, follower, waiting


def test_the_session_starts_anew_when_the_assignment_is_given() -> None:
    d = Driven()
    leader, follower, waiting = wait_beyond_the_session(d)
    d.ask_sync(leader, 1, {follower: b"F"})
    assert d.synced(waiting).assignment == b"F"
    d.advance(9_999)
    assert d.heartbeat(leader, 1) == ErrorCode.NONE
    d.advance(1)
    assert d.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_session_starts_anew_when_a_rebalance_sends_back_who_waits() -> None:
    d = Driven()
    leader, _, waiting = wait_beyond_the_session(d)
    _, ticket = d.member()
    assert d.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    d.ask_join(leader)
    d.advance(9_999)
    assert ticket not in d.answers
    d.advance(1)
    assert d.joined(ticket).generation_id == 2


def test_a_rebalance_before_the_assignment_takes_the_old_one_away() -> None:
    d = Driven()
    (leader, follower), _ = d.stable(2)
    for member_id in (leader, follower):
        d.ask_join(member_id)
    assert d.state() == "CompletingRebalance"
    d.member()
    described = d.coordinator.describe_group("g", 5)
    assert (described.group_state, {m.member_assignment for m in described.members}) == ("PreparingRebalance", {b""})


def test_an_assignment_that_is_too_large_is_not_recorded_and_the_group_goes_on() -> None:
    """What a broker answers when its log refuses the record as too large."""
    d = Driven(CoordinatorSettings(group_metadata_max_bytes=1_000))
    leader, follower = completing(d)
    recorded = len(d.records)
    waiting = d.ask_sync(follower, 1)
    ticket = d.ask_sync(leader, 1, {leader: b"L" * 500, follower: b"F" * 500})
    for sync in (ticket, waiting):
        answer = d.synced(sync)
        assert (answer.error_code, answer.assignment) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    assert len(d.records) == recorded
    assert d.state() == "PreparingRebalance"
    assert d.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joins = [d.ask_join(member_id) for member_id in (leader, follower)]
    assert [d.joined(join).generation_id for join in joins] == [2, 2]
    assert d.synced(d.ask_sync(leader, 2, {leader: b"L" * 500})).error_code == ErrorCode.NONE
    assert d.state() == "Stable"


def ids_of_32_kib(settings: CoordinatorSettings | None = None) -> tuple[Driven, int]:
    """A group of two members who bring long names and little else, and the error that their leader's SyncGroup gets."""
    d = Driven(settings)
    joins = [
        d.ask_join(instance=f"{number}" + "i" * 32_000, version=5, caller=Caller("c" * 32_000, "/127.0.0.1"))
        for number in range(2)
    ]
    d.advance(6_000)
    joined = d.joined(joins[0])
    sync = d.ask_sync(joined.member_id, 1, instance="0" + "i" * 32_000, version=3)
    return d, d.synced(sync).error_code


def test_the_limit_is_on_the_record_as_it_is_written_ids_and_all() -> None:
    d, error = ids_of_32_kib()
    _, value = d.records[-1]
    assert isinstance(value, GroupMetadataValue)
    size = len(encode_value(value))
    assert (error, size > 2 * 96_000) == (ErrorCode.NONE, True)
    assert ids_of_32_kib(CoordinatorSettings(group_metadata_max_bytes=size))[1] == ErrorCode.NONE
    d, error = ids_of_32_kib(CoordinatorSettings(group_metadata_max_bytes=size - 1))
    assert (error, d.state()) == (ErrorCode.UNKNOWN_SERVER_ERROR, "PreparingRebalance")
