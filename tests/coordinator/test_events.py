"""What of a group is told in the log, and how far its rebalance is."""

from protocol.errors import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from shim.coordinator import CoordinatorSettings, Generation, GroupMemory

from .driving import SUBSCRIPTION, Driven

ONE = "client-1 (client at /127.0.0.1)"
TWO = "client-2 (client at /127.0.0.1)"


def told(d: Driven) -> list[str]:
    """Since this was last asked."""
    events, d.events = d.events, []
    return events


def generation(d: Driven, group: str = "g") -> Generation:
    found = d.coordinator.generation(group)
    assert found is not None
    return found


class TestALifeOfAGroup:
    def test_first_member_generation_assignment_and_end(self) -> None:
        d = Driven()
        (member,), _ = d.stable()
        assert told(d) == [
            f"group g: preparing to rebalance after generation 0 (Empty, members: 1): member {ONE} has joined",
            "group g: generation 1 begins, members: 1, leader: client-1, protocol: range",
            "group g: generation 1 has its assignment, and is stable",
        ]
        d.leave(MemberIdentity(member, reason="the consumer is being closed"))
        gone = f"gone, as it has left, saying 'the consumer is being closed': {ONE}"
        assert told(d) == [
            f"group g: {gone}",
            f"group g: preparing to rebalance after generation 1 (Stable, members: 0): {gone}",
            "group g: it has no members any more",
        ]

    def test_what_members_do_all_the_time_is_not_told(self) -> None:
        d = Driven()
        (member,), number = d.stable()
        told(d)
        d.heartbeat(member, number)
        d.commit(member, number)
        d.ask_join(member, group="other", reason="not the same group")
        assert told(d) == ["group other: client-1 (client at /127.0.0.1) may not join: UNKNOWN_MEMBER_ID"]
        assert d.coordinator.generation("other") is None

    def test_a_commit_alone_is_not_told(self) -> None:
        d = Driven()
        d.commit(group="simple")
        assert told(d) == []
        assert generation(d, "simple") == Generation(0, -1, "", [], [], None)


class TestWhyMembersJoinAgain:
    def test_the_leader_says_why(self) -> None:
        d = Driven()
        (leader, _), _ = d.stable(2)
        told(d)
        d.ask_join(leader, reason="cached metadata has changed")
        why = f"the leader {ONE} has joined again, saying 'cached metadata has changed'"
        assert told(d) == [f"group g: preparing to rebalance after generation 1 (Stable, members: 2): {why}"]
        assert generation(d).reason == why

    def test_other_subscriptions(self) -> None:
        d = Driven()
        (_, follower), _ = d.stable(2)
        told(d)
        d.ask_join(follower, protocols=(("range", SUBSCRIPTION + b"more"),))
        assert generation(d).reason == f"member {TWO} has joined again"

    def test_a_silent_member(self) -> None:
        d = Driven()
        (_, follower), number = d.stable(2, session=10_000)
        told(d)
        d.advance(6_000)
        d.heartbeat(follower, number)
        d.advance(4_000)
        gone = f"gone, not heard of for its session timeout, 10000 ms: {ONE}"
        assert told(d) == [
            f"group g: {gone}",
            f"group g: preparing to rebalance after generation 1 (Stable, members: 1): {gone}",
        ]

    def test_a_static_member_comes_back_while_the_leader_assigns(self) -> None:
        d = Driven()
        d.ask_join(instance="a")
        d.advance(3_000)
        told(d)
        d.ask_join(instance="a")
        assert "static member a has come back, as a-2 (client at /127.0.0.1, instance a)" in told(d)[0]

    def test_a_full_group_after_a_start(self) -> None:
        d = Driven(CoordinatorSettings(group_max_size=2))
        d.stable(2)
        d.settings = CoordinatorSettings(group_max_size=1)
        d.restart()
        assert generation(d).reason == "it has 2 members, and group.max.size is 1"

    def test_an_assignment_that_is_too_large(self) -> None:
        d = Driven(CoordinatorSettings(group_metadata_max_bytes=500))
        member, _ = d.member()
        d.advance(3_000)
        told(d)
        d.ask_sync(member, 1, {member: bytes(1_000)})
        assert "its assignment is larger than group.metadata.max.bytes" in told(d)[0]

    def test_a_stranger_leaves(self) -> None:
        d = Driven()
        d.stable()
        pending = d.joined(d.ask_join()).member_id
        assert generation(d).pending == [pending]
        told(d)
        d.leave(pending)
        why = "client-2 has left, before it joined"
        assert told(d) == [f"group g: preparing to rebalance after generation 1 (Stable, members: 1): {why}"]
        assert generation(d).pending == []


class TestWhoIsAwaited:
    def test_members_that_have_not_joined_again(self) -> None:
        d = Driven()
        (one, two, three), number = d.stable(3, session=10_000, rebalance=20_000)
        began = d.now
        d.ask_join(one, rebalance=20_000)  # the leader's
        d.ask_join(two, rebalance=20_000)
        assert generation(d).awaited == [three]
        assert generation(d)[1] == began
        assert generation(d).until_ms == began + 20_000
        told(d)
        for _ in range(4):
            d.heartbeat(three, number)
            d.advance(5_000)
        assert told(d)[0] == (
            "group g: gone, not joined again within the rebalance timeout, 20000 ms: client-3 (client at /127.0.0.1)"
        )
        assert d.coordinator.describe_group("g", 5).group_state == "CompletingRebalance"

    def test_the_leader_that_has_not_assigned(self) -> None:
        d = Driven()
        (one, ask), (two, _) = d.member(), d.member()
        d.advance(6_000)
        number = d.joined(ask).generation_id
        began = d.now
        d.ask_sync(two, number)
        found = generation(d)
        assert (found.awaited, found.until_ms, found.since_ms) == ([one], began + 60_000, began)
        told(d)
        for _ in range(12):
            d.heartbeat(one, number)
            d.heartbeat(two, number)
            d.advance(5_000)
        events = told(d)
        assert events[0] == f"group g: gone, without a SyncGroup within the rebalance timeout, 60000 ms: {ONE}"
        assert "preparing to rebalance after generation 1 (CompletingRebalance, members: 1)" in events[1]

    def test_how_long_the_longest_rebalance_lasts(self) -> None:
        d = Driven()
        assert d.coordinator.rebalancing_since() is None
        _, ask = d.member()
        began = d.now
        d.advance(3_000)
        assert d.joined(ask).generation_id == 1
        assert d.coordinator.rebalancing_since() == began, "CompletingRebalance is a part of it"
        d.member()
        d.member(group="another")
        assert d.state() == "PreparingRebalance"
        assert d.coordinator.rebalancing_since() == began
        d.coordinator.close_group("g", closed=True)
        assert d.coordinator.rebalancing_since() == d.now > began
        d.coordinator.close_group("g", closed=False)
        d.restart()
        assert d.coordinator.rebalancing_since() is None

    def test_nobody_in_a_stable_group(self) -> None:
        d = Driven()
        d.stable(2)
        found = generation(d)
        assert (found.generation_id, found.awaited, found.pending, found.until_ms) == (1, [], [], None)

    def test_after_a_restart_nobody_knows_why(self) -> None:
        d = Driven()
        d.stable(2)
        since = generation(d).since_ms
        d.restart()
        assert generation(d) == Generation(1, since, "", [], [], None)


class TestWhatIsRefused:
    def test_a_commit_of_an_older_generation(self) -> None:
        d = Driven()
        (member,), number = d.stable()
        told(d)
        assert d.commit_error(member, number - 1) == ErrorCode.ILLEGAL_GENERATION
        assert told(d) == [
            f"group g: a commit of {ONE}, of generation 0, is refused: ILLEGAL_GENERATION "
            "(it is in generation 1, Stable)"
        ]

    def test_a_commit_of_no_group(self) -> None:
        d = Driven()
        d.commit("m", 3)
        assert told(d) == [
            "group g: a commit of m (client at /127.0.0.1), of generation 3, is refused: ILLEGAL_GENERATION "
            "(there is none)"
        ]

    def test_a_sync_of_somebody_else(self) -> None:
        d = Driven()
        _, number = d.stable()
        told(d)
        d.ask_sync("m", number)
        assert "a SyncGroup of m (client at /127.0.0.1), of generation 1, is refused: UNKNOWN_MEMBER_ID" in told(d)[0]

    def test_protocols_that_not_all_have(self) -> None:
        d = Driven()
        d.stable()
        told(d)
        d.ask_join(protocols=(("cooperative-sticky", SUBSCRIPTION),))
        assert told(d) == [
            "group g: no member id (client at /127.0.0.1) may not join: INCONSISTENT_GROUP_PROTOCOL (it offers "
            "cooperative-sticky of type 'consumer'; all members of the group offer range of type 'consumer')"
        ]

    def test_a_session_timeout_that_is_too_short(self) -> None:
        d = Driven()
        d.ask_join(session=10)
        assert "INVALID_SESSION_TIMEOUT (session.timeout.ms is 10, and has to be within 6000 and" in told(d)[0]

    def test_whoever_finds_the_group_full(self) -> None:
        d = Driven(CoordinatorSettings(group_max_size=1))
        d.stable()
        told(d)
        d.ask_join()
        assert "GROUP_MAX_SIZE_REACHED" in told(d)[0]


class TestWordsOfClients:
    def test_they_are_cut(self) -> None:
        d = Driven()
        (leader, _), _ = d.stable(2)
        told(d)
        d.ask_join(leader, reason="x" * 30_000)
        assert len(told(d)[0]) < 500

    def test_a_name_is_cut(self) -> None:
        d = Driven()
        d.commit("m" * 30_000, 3, group="g" * 30_000)
        assert len(told(d)[0]) < 700

    def test_of_many_a_few_are_named(self) -> None:
        d = Driven()
        members, number = d.stable(9, session=30_000, rebalance=10_000)
        told(d)
        d.ask_join(members[0], rebalance=10_000)
        for _ in range(2):
            for member in members:
                d.heartbeat(member, number)
            d.advance(5_000)
        event = next(each for each in told(d) if ": gone, " in each)
        assert "client-6" in event
        assert "client-7" not in event
        assert event.endswith(", and 3 more")

    def test_a_reason_that_there_is_no_room_for_is_not_kept(self) -> None:
        d = Driven()
        (leader, _), _ = d.stable(2)
        d.coordinator._state.memory.move_to(GroupMemory(1))
        told(d)
        before = d.coordinator.group_bytes
        d.ask_join(leader)
        assert "has joined again" in told(d)[0]
        assert generation(d).reason == ""
        assert d.coordinator.group_bytes < before
