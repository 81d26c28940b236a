"""JoinGroup: ids, checks, the initial rebalance delay, the vote, the leader, rejoining, limits."""

import pytest

from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue
from shim.coordinator import Caller, CoordinatorSettings

from .driving import START, SUBSCRIPTION, Driven, subscription

OTHER = subscription("payments")


def test_a_dynamic_member_is_given_an_id_first() -> None:
    d = Driven()
    answer = d.joined(d.ask_join(caller=Caller("consumer-7", "/10.0.0.1")))
    assert (answer.error_code, answer.member_id, answer.generation_id) == (
        ErrorCode.MEMBER_ID_REQUIRED,
        "consumer-7-1",
        -1,
    )
    assert d.state() == "Empty"
    ticket = d.ask_join("consumer-7-1", caller=Caller("consumer-7", "/10.0.0.1"))
    assert d.state() == "PreparingRebalance"
    d.advance(2_999)
    assert ticket not in d.answers
    d.advance(1)
    answer = d.joined(ticket)
    assert (answer.error_code, answer.member_id, answer.generation_id) == (ErrorCode.NONE, "consumer-7-1", 1)
    assert (answer.protocol_type, answer.protocol_name, answer.leader) == ("consumer", "range", "consumer-7-1")
    assert [(m.member_id, m.group_instance_id, m.metadata) for m in answer.members] == [
        ("consumer-7-1", None, SUBSCRIPTION)
    ]
    assert not answer.skip_assignment
    assert d.state() == "CompletingRebalance"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_version_4_a_member_joins_without_an_id(version: int) -> None:
    d = Driven()
    ticket = d.ask_join(version=version)
    d.advance(3_000)
    answer = d.joined(ticket)
    assert (answer.error_code, answer.member_id, answer.generation_id) == (ErrorCode.NONE, "client-1", 1)


def test_a_group_that_is_made_is_recorded_as_empty() -> None:
    d = Driven()
    d.ask_join()
    assert d.records == [
        (
            GroupMetadataKey("g"),
            GroupMetadataValue(
                protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=START, members=()
            ),
        )
    ]
    d.ask_join()
    assert len(d.records) == 1
    assert len(d.coordinator.group_ids()) == 1


def test_an_unknown_member_of_an_unknown_group_makes_no_group() -> None:
    d = Driven()
    answer = d.joined(d.ask_join("somebody"))
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "somebody")
    assert len(d.coordinator.group_ids()) == 0
    assert not d.records


def test_an_unknown_member_of_a_group() -> None:
    d = Driven()
    d.stable()
    assert d.joined(d.ask_join("somebody")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert d.state() == "Stable"


def test_a_client_id_too_long_for_a_member_id() -> None:
    d = Driven()
    answer = d.joined(d.ask_join(caller=Caller("c" * 32_766, "/127.0.0.1")))
    assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_REQUEST, "")
    assert d.joined(d.ask_join(caller=Caller("c" * 32_765, "/127.0.0.1"))).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_empty_group_id() -> None:
    d = Driven()
    answer = d.joined(d.ask_join("m", group=""))
    assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_GROUP_ID, "m")
    assert len(d.coordinator.group_ids()) == 0


@pytest.mark.parametrize("session", [5_999, 1_800_001, -1])
def test_session_timeout_bounds(session: int) -> None:
    d = Driven()
    assert d.joined(d.ask_join(session=session)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert len(d.coordinator.group_ids()) == 0


@pytest.mark.parametrize("session", [6_000, 1_800_000])
def test_session_timeout_bounds_are_inclusive(session: int) -> None:
    d = Driven()
    assert d.joined(d.ask_join(session=session)).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_answers_before_version_7_have_no_null_protocol_name() -> None:
    d = Driven()
    assert d.joined(d.ask_join("x", version=6)).protocol_name == ""
    assert d.joined(d.ask_join("x", version=7)).protocol_name is None


def test_protocols_are_needed() -> None:
    d = Driven()
    for kwargs in ({"protocols": ()}, {"protocol_type": ""}):
        assert d.joined(d.ask_join(**kwargs)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert d.state() == "Empty"


def test_protocol_type_and_protocols_must_fit_the_group() -> None:
    d = Driven()
    (member_id,), generation = d.stable()
    connect = d.joined(d.ask_join(protocol_type="connect"))
    assert (connect.error_code, connect.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    other = d.joined(d.ask_join(protocols=(("sticky", SUBSCRIPTION),)))
    assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    changed = d.joined(d.ask_join(member_id, protocol_type="connect"))
    assert (changed.error_code, changed.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    assert d.heartbeat(member_id, generation) == ErrorCode.NONE


def test_an_empty_group_takes_another_protocol_type() -> None:
    d = Driven()
    (member_id,), _ = d.stable()
    d.leave(member_id)
    assert d.state() == "Empty"
    d.stable(protocol_type="connect", protocols=(("default", b"\x00"),))
    assert d.coordinator.describe_group("g", 5).protocol_type == "connect"


class TestMalformedSubscription:
    """A subscription that a broker fails on never gets into a group; one that it only finds odd does."""

    malformed = (
        b"\x00\x00\xff\xff\xff\xff",  # a negative number of topics
        b"\x00\x01\x7f\xff\xff\xff",  # a huge one
        b"\x00\x00\x00\x00\x00\x01\x00\x09order",  # a topic cut short
        b"\x00\x00\x00\x00\x00\x01\xff\xff",  # null for a topic
        SUBSCRIPTION[:-4] + b"\x00\x00\x00\x05abc",  # less user data than it says
    )
    odd = (
        b"",
        b"\x00",
        b"\x00\x00",
        b"\x00\x00\x00\x00",  # the number of topics cut short
        SUBSCRIPTION[:-4],  # no user data
        SUBSCRIPTION[:-4] + b"\xff\xff\xff\xfe",  # user data of length -2
        b"\xff\xff" + SUBSCRIPTION[2:],  # a negative version
        b"\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe\xff\xff\xff\xff",  # a topic that is not UTF-8
    )

    @pytest.mark.parametrize("metadata", odd)
    def test_what_a_broker_takes_is_taken(self, metadata: bytes) -> None:
        d = Driven()
        _, ticket = d.member(protocols=(("range", metadata),))
        d.advance(3_000)
        assert d.joined(ticket).error_code == ErrorCode.NONE

    @pytest.mark.parametrize("metadata", malformed)
    def test_it_is_refused_and_the_group_is_unharmed(self, metadata: bytes) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        answer = d.joined(d.ask_join(protocols=(("range", metadata),)))
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert d.heartbeat(member_id, generation) == ErrorCode.NONE
        d.restart()
        assert d.heartbeat(member_id, generation) == ErrorCode.NONE

    @pytest.mark.parametrize("metadata", malformed)
    def test_a_member_that_comes_back_with_one_is_refused_and_stays(self, metadata: bytes) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        answer = d.joined(d.ask_join(member_id, protocols=(("range", metadata),)))
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert d.heartbeat(member_id, generation) == ErrorCode.NONE

    def test_only_the_protocols_that_can_be_read_are_voted_for(self) -> None:
        d = Driven()
        _, ticket = d.member(protocols=(("broken", self.malformed[0]), ("range", SUBSCRIPTION)))
        d.advance(3_000)
        assert d.joined(ticket).protocol_name == "range"

    def test_newer_versions_and_what_follows_the_first_version_are_not_looked_at(self) -> None:
        d = Driven()
        _, ticket = d.member(protocols=(("range", b"\x00\x63" + SUBSCRIPTION[2:] + b"from the future"),))
        d.advance(3_000)
        assert d.joined(ticket).error_code == ErrorCode.NONE

    def test_other_protocol_types_are_opaque(self) -> None:
        d = Driven()
        _, ticket = d.member(protocol_type="connect", protocols=(("default", b""),))
        d.advance(3_000)
        assert d.joined(ticket).error_code == ErrorCode.NONE


def test_a_protocol_offered_twice_counts_once() -> None:
    d = Driven()
    _, ticket = d.member(protocols=(("range", SUBSCRIPTION), ("range", OTHER)))
    d.advance(3_000)
    answer = d.joined(ticket)
    assert answer.error_code == ErrorCode.NONE
    assert answer.members[0].metadata == SUBSCRIPTION


def test_the_initial_delay_is_extended_while_members_arrive() -> None:
    d = Driven()
    _, first = d.member()
    d.advance(2_000)
    _, second = d.member()
    d.advance(1_000)
    assert first not in d.answers  # a member came within the first stretch
    d.advance(2_999)
    assert first not in d.answers
    d.advance(1)
    assert d.joined(first).generation_id == d.joined(second).generation_id == 1
    assert d.now == START + 6_000


def test_the_initial_delay_is_bounded_by_the_rebalance_timeout() -> None:
    d = Driven()
    _, first = d.member(rebalance=7_000)
    for _ in range(20):
        d.advance(500)
        if first in d.answers:
            break
        d.member(rebalance=7_000)
    # Stretches of 3000, then min(3000, 7000 - 3000), then min(3000, 4000 - 3000).
    assert d.now == START + 7_000


def test_members_that_came_to_an_earlier_generation_do_not_extend_the_delay() -> None:
    d = Driven()
    members = [d.member(rebalance=3_000) for _ in range(2)]
    d.advance(3_000)  # as long as their rebalance timeout: not extended
    d.leave(*(member_id for member_id, _ in members))
    assert d.state() == "Empty"
    _, ticket = d.member()
    d.advance(3_000)
    assert d.joined(ticket).error_code == ErrorCode.NONE


def test_no_initial_delay() -> None:
    d = Driven(CoordinatorSettings(group_initial_rebalance_delay_ms=0))
    _, ticket = d.member()
    assert d.coordinator.next_deadline() == d.now
    d.advance(0)
    assert d.joined(ticket).generation_id == 1


def test_everybody_votes_and_the_first_common_protocol_counts() -> None:
    d = Driven()
    a, b, c = (("a", b"\x01"), ("b", b"\x02"), ("c", b"\x03"))
    tickets = [
        d.member(protocol_type="t", protocols=protocols)[1] for protocols in ((a, b, c), (c, b), (b, c), (a, b, c))
    ]
    d.advance(6_000)
    # Common are b and c: b has three votes, c has one.
    assert {d.joined(ticket).protocol_name for ticket in tickets} == {"b"}
    assert [m.metadata for m in d.joined(tickets[0]).members] == [b"\x02"] * 4


def test_only_the_leader_is_told_of_the_members() -> None:
    d = Driven()
    (leader, first), (follower, second) = d.member(), d.member()
    d.advance(6_000)
    assert [m.member_id for m in d.joined(first).members] == [leader, follower]
    assert d.joined(second).members == ()
    assert d.joined(second).leader == leader


def test_a_newcomer_makes_a_stable_group_rebalance() -> None:
    d = Driven()
    (member_id,), generation = d.stable()
    _, ticket = d.member()
    assert d.state() == "PreparingRebalance"
    assert d.heartbeat(member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert ticket not in d.answers
    again = d.ask_join(member_id)
    assert d.joined(again).generation_id == d.joined(ticket).generation_id == generation + 1
    assert d.joined(ticket).leader == member_id


def test_the_leaders_rejoin_rebalances_a_stable_group() -> None:
    d = Driven()
    (leader, follower), generation = d.stable(2)
    ticket = d.ask_join(leader)
    assert d.state() == "PreparingRebalance"
    d.ask_join(follower)
    assert d.joined(ticket).generation_id == generation + 1


def test_a_followers_rejoin_rebalances_only_when_its_metadata_changed() -> None:
    d = Driven()
    (leader, follower), generation = d.stable(2)
    same = d.joined(d.ask_join(follower))
    assert (same.generation_id, same.leader, same.members) == (generation, leader, ())
    assert d.state() == "Stable"
    changed = d.ask_join(follower, protocols=(("range", OTHER),))
    assert changed not in d.answers
    assert d.state() == "PreparingRebalance"


def test_joining_again_before_the_sync_gets_the_same_generation() -> None:
    d = Driven()
    leader, first = d.member()
    follower, _ = d.member()
    d.advance(6_000)
    assert d.joined(d.ask_join(leader)) == d.joined(first)
    assert d.joined(d.ask_join(follower)).members == ()
    assert d.state() == "CompletingRebalance"
    d.ask_join(follower, protocols=(("range", OTHER),))
    assert d.state() == "PreparingRebalance"


def test_asking_again_while_parked_leaves_no_request_without_an_answer() -> None:
    d = Driven()
    member_id, first = d.member()
    second = d.ask_join(member_id)
    assert d.joined(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    d.advance(3_000)
    assert d.joined(second).generation_id == 1


def test_members_that_do_not_rejoin_in_time_are_removed() -> None:
    d = Driven()
    (leader, follower), generation = d.stable(2, session=60_000, rebalance=20_000)
    ticket = d.ask_join(follower, protocols=(("range", OTHER),), session=60_000, rebalance=20_000)
    d.advance(19_999)
    assert ticket not in d.answers
    d.advance(1)
    answer = d.joined(ticket)
    assert (answer.generation_id, answer.leader) == (generation + 1, follower)
    assert [m.member_id for m in answer.members] == [follower]
    assert d.heartbeat(leader, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_in_version_0_the_session_timeout_is_the_rebalance_timeout() -> None:
    d = Driven()
    ticket = d.ask_join(version=0, session=20_000, rebalance=1)
    d.advance(3_000)
    member_id = d.joined(ticket).member_id
    d.ask_sync(member_id, 1, {}, version=0)
    d.member(session=10_000, rebalance=10_000)
    d.advance(8_000)
    d.heartbeat(member_id, 1)
    d.advance(11_999)
    assert d.heartbeat(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    d.advance(1)
    assert d.heartbeat(member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_no_newcomer_but_keeps_its_members() -> None:
    d = Driven(CoordinatorSettings(group_max_size=2))
    (leader, follower), _ = d.stable(2)
    answer = d.joined(d.ask_join())
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert d.state() == "Stable"
    ticket = d.ask_join(leader)
    d.ask_join(follower)
    assert d.joined(ticket).error_code == ErrorCode.NONE


def test_a_group_above_a_lowered_limit_rebalances_after_a_restart_and_the_last_to_rejoin_goes() -> None:
    d = Driven()
    (first, second), generation = d.stable(2)
    d.settings = CoordinatorSettings(group_max_size=1)
    d.restart()
    assert d.state() == "PreparingRebalance"
    assert d.commit_error(second, generation) == ErrorCode.NONE
    ticket = d.ask_join(first)
    assert d.joined(d.ask_join(second)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert d.heartbeat(second, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    d.advance(60_000)
    assert [m.member_id for m in d.joined(ticket).members] == [first]


def test_a_pending_member_holds_up_the_join_until_its_session_ends() -> None:
    d = Driven()
    (member_id,), generation = d.stable()
    d.joined(d.ask_join(session=8_000))
    ticket = d.ask_join(member_id)
    assert ticket not in d.answers
    d.advance(8_000)
    assert d.joined(ticket).generation_id == generation + 1


def test_a_pending_member_is_not_static() -> None:
    d = Driven()
    member_id = d.joined(d.ask_join()).member_id
    assert d.joined(d.ask_join(member_id, instance="i")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_new_member_that_waits_for_five_minutes_is_given_up() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=1_800_000, rebalance=1_800_000)
    _, ticket = d.member(session=10_000)
    d.advance(299_999)
    assert ticket not in d.answers
    d.advance(1)
    assert d.joined(ticket).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat(member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_timeout_of_nothing_is_no_busy_loop() -> None:
    d = Driven()
    ticket = d.ask_join(instance="i", rebalance=0)
    d.advance(3_000)  # the sync timeout is over at once, too
    assert d.joined(ticket).error_code == ErrorCode.NONE
    assert d.state() == "Empty"
