"""What of a group is told in the log, and how far its rebalance is."""

from collections import Counter
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from shim.coordinator import Caller, CoordinatorSettings, Generation, Presence

from .driving import SUBSCRIPTION, Driven

ONE = "client-1 (client at /127.0.0.1)"
TWO = "client-2 (client at /127.0.0.1)"
WHO = ("client", "/127.0.0.1")


def told(d: Driven) -> list[str]:
    """Since this was last asked."""
    events, d.events = d.events, []
    return events


def generation(d: Driven, group: str = "g") -> Generation:
    found = d.coordinator.generation(group)
    assert found is not None
    return found


def _assigned(d: Driven, instance: str) -> int:
    """A group of one static member; its JoinGroup."""
    ticket = d.ask_join(instance=instance, session=1_000_000)
    d.advance(3_000)
    d.ask_sync(d.joined(ticket).member_id, 1, {}, instance=instance)
    return ticket


class TestALifeOfAGroup:
    def test_first_member_generation_assignment_and_end(self) -> None:
        d = Driven()
        (member,), _ = d.stable()
        assert told(d) == [
            f"group g: preparing to rebalance after generation 0 (Empty, members: 1): member {ONE} has joined",
            "group g: generation 1 begins after 3000 ms, members: 1, leader: client-1, protocol: range",
            "group g: generation 1 has its assignment, and is stable",
        ]
        d.leave(MemberIdentity(member, reason="the consumer is being closed"))
        gone = f"gone, as it has left, saying 'the consumer is being closed': {ONE}"
        assert told(d) == [
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
        assert generation(d, "simple") == Generation(0, "Empty", -1, "", "", [], [], None)


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
        assert told(d) == [f"group g: preparing to rebalance after generation 1 (Stable, members: 1): {gone}"]

    def test_a_static_member_comes_back_while_the_leader_assigns(self) -> None:
        d = Driven()
        d.ask_join(instance="a")
        d.advance(3_000)
        told(d)
        d.ask_join(instance="a")
        place, rebalance, _ = told(d)
        assert place == "group g: static member a: a-2 (client at /127.0.0.1) takes the place of a-1"
        assert rebalance.endswith(": static member a has come back, as a-2 (client at /127.0.0.1, instance a)")

    def test_a_static_member_comes_back_and_nothing_else_happens(self) -> None:
        d = Driven()
        first = d.ask_join(instance="a", caller=Caller("one", "/10.0.0.1"))
        d.advance(3_000)
        member = d.joined(first).member_id
        d.ask_sync(member, 1, {member: b"all"}, instance="a")
        told(d)
        d.ask_join(instance="a", caller=Caller("two", "/10.0.0.2"))
        assert told(d) == ["group g: static member a: a-2 (two at /10.0.0.2) takes the place of a-1"]
        assert d.heartbeat(member, 1, instance="a") == ErrorCode.FENCED_INSTANCE_ID
        assert told(d) == [
            "group g: a heartbeat of a-1 (client at /127.0.0.1), of generation 1, is refused: FENCED_INSTANCE_ID "
            "(it is in generation 1, Stable)"
        ]

    def test_a_full_group_after_a_start(self) -> None:
        d = Driven(CoordinatorSettings(group_max_size=2))
        d.stable(2)
        d.settings = CoordinatorSettings(group_max_size=1)
        told(d)
        d.restart()
        why = "it has 2 members, and group.max.size is 1"
        assert told(d) == [f"group g: preparing to rebalance after generation 1 (Stable, members: 2): {why}"]
        assert generation(d).reason == why

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
        found = generation(d)
        assert found.awaited == [
            Presence(three, *WHO, leads=False, heard_ms=began, session_timeout_ms=10_000, removed_ms=began + 10_000)
        ]
        assert (found.state, found.since_ms, found.until_ms) == ("PreparingRebalance", began, began + 20_000)
        told(d)
        for _ in range(4):
            d.heartbeat(three, number)
            d.advance(5_000)
        waits, gone, begins = told(d)
        assert waits == (
            "group g: generation 1, PreparingRebalance, still waits for 10000 ms at most, for: "
            "client-3 (client at /127.0.0.1)"
        )
        assert gone == (
            "group g: gone, not joined again within the rebalance timeout, 20000 ms: client-3 (client at /127.0.0.1)"
        )
        assert begins.startswith("group g: generation 2 begins after 20000 ms, members: 2, ")
        assert d.coordinator.describe_group("g", 5).group_state == "CompletingRebalance"

    def test_the_leader_that_has_not_assigned(self) -> None:
        d = Driven()
        (one, ask), (two, _) = d.member(), d.member()
        d.advance(6_000)
        number = d.joined(ask).generation_id
        began = d.now
        d.ask_sync(two, number)
        found = generation(d)
        assert found.awaited == [
            Presence(
                *(one, *WHO),
                leads=True,
                heard_ms=began - 6_000,
                session_timeout_ms=10_000,
                removed_ms=began + 10_000,
            )
        ]
        assert (found.state, found.until_ms, found.since_ms) == ("CompletingRebalance", began + 60_000, began)
        told(d)
        for _ in range(12):
            d.heartbeat(one, number)
            d.heartbeat(two, number)
            d.advance(5_000)
        waits, rebalance = told(d)
        assert waits == f"group g: generation 1, CompletingRebalance, still waits for 50000 ms at most, for: {ONE}"
        gone = f"gone, without a SyncGroup within the rebalance timeout, 60000 ms: {ONE}"
        before = "after generation 1 (CompletingRebalance, members: 1)"
        assert rebalance == f"group g: preparing to rebalance {before}: {gone}"

    def test_static_members_that_do_not_come_back(self) -> None:
        d = Driven()
        tickets = [d.ask_join(instance=each, session=600_000) for each in "ab"]
        d.advance(6_000)
        one, two = (d.joined(ticket).member_id for ticket in tickets)
        d.ask_sync(two, 1, instance="b")
        d.ask_sync(one, 1, {one: b"1", two: b"2"}, instance="a")
        told(d)
        d.ask_join(one, instance="a", session=600_000)
        d.advance(60_000)
        _, waits, begins, without = told(d)
        names = "b-2 (client at /127.0.0.1, instance b)"
        assert waits.endswith(f"still waits for 50000 ms at most, for: {names}")
        assert begins.startswith("group g: generation 2 begins after 60000 ms, members: 2, ")
        rest = "begins without static members that have not joined again, and keep their place"
        assert without == f"group g: generation 2 {rest}: {names}"
        d.ask_sync(one, 2, {one: b"1", two: b"2"}, instance="a")
        found = generation(d)
        assert (found.state, [each.member_id for each in found.awaited]) == ("Stable", [two])
        assert found.until_ms == d.now + 60_000
        told(d)
        d.advance(60_000)
        waits, rebalance = told(d)
        assert waits.startswith("group g: generation 2, Stable, still waits for ")
        assert "gone, without a SyncGroup within the rebalance timeout, 60000 ms: b-2" in rebalance

    def test_when_it_was_heard_of(self) -> None:
        """A member lives whose requests come; that the coordinator has given it time says nothing of it."""
        d = Driven()
        (leader, follower), number = d.stable(2, session=60_000)
        d.advance(20_000)
        d.heartbeat(follower, number)
        heard = d.now
        d.advance(20_000)
        d.ask_join(leader)
        assert [each.heard_ms for each in generation(d).awaited] == [heard]
        d.restart()
        d.ask_join(leader)
        assert [each.heard_ms for each in generation(d).awaited] == [None]
        d.commit(follower, number)
        assert [each.heard_ms for each in generation(d).awaited] == [d.now]

    def test_the_time_for_a_leader_to_assign_is_no_word_of_it(self) -> None:
        d = Driven()
        (one, _), _ = d.member(), d.member()
        joined = d.now
        d.advance(6_000)
        assert [each.heard_ms for each in generation(d).awaited] == [joined, joined]
        assert generation(d).awaited[0].member_id == one

    def test_it_is_told_again(self) -> None:
        d = Driven()
        (leader, follower), number = d.stable(2, session=60_000, rebalance=300_000)
        d.ask_join(leader, rebalance=300_000)
        told(d)
        for _ in range(29):
            d.advance(10_000)
            d.heartbeat(follower, number)
        assert [each.split("waits for ")[1].split(" ms")[0] for each in told(d)] == [
            *("290000", "230000", "170000", "110000", "50000")
        ]

    def test_members_of_whom_none_comes_are_told_of_for_as_long(self) -> None:
        d = Driven()
        member = d.joined(_assigned(d, "a")).member_id
        d.leave(d.member(session=600_000)[0])  # so that a rebalance is under way, in which nobody joins
        told(d)
        d.advance(400_000)
        waits = [each for each in told(d) if "still waits" in each]
        assert len(waits) >= 6
        assert all(member in each for each in waits)

    def test_of_many_that_have_ids_a_few_are_named(self) -> None:
        d = Driven()
        (leader,), _ = d.stable()
        for _ in range(8):
            d.ask_join(session=60_000)
        told(d)
        d.ask_join(leader)
        d.advance(10_000)
        assert told(d)[1].endswith("client-6, which has not joined yet; and 3 more of these")

    def test_whoever_was_given_an_id_and_does_not_join(self) -> None:
        d = Driven()
        (leader,), _ = d.stable()
        pending = d.joined(d.ask_join(session=15_000)).member_id
        told(d)
        d.ask_join(leader)
        d.advance(10_000)
        assert told(d)[1] == (
            "group g: generation 1, PreparingRebalance, still waits for 50000 ms at most, for: "
            f"{pending}, which has not joined yet"
        )
        d.advance(5_000)
        assert told(d)[0] == f"group g: gone, not joined within its session timeout: {pending}"

    def test_a_rebalance_that_is_over_waits_for_nobody(self) -> None:
        d = Driven()
        (leader, follower), number = d.stable(2, session=30_000)
        told(d)
        d.ask_join(leader)
        d.ask_join(follower)
        d.ask_sync(follower, number + 1)
        d.ask_sync(leader, number + 1, {})
        d.advance(20_000)
        assert not [each for each in told(d) if "waits" in each]

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

    def test_a_stable_group_rebalances_until_all_have_their_assignments(self) -> None:
        d = Driven()
        (one, ask), (two, _) = d.member(), d.member()
        began = d.now
        d.advance(6_000)
        d.ask_sync(one, d.joined(ask).generation_id, {one: b"1", two: b"2"})
        assert d.state() == "Stable"
        assert [each.member_id for each in generation(d).awaited] == [two]
        assert d.coordinator.rebalancing_since() == began
        d.ask_sync(two, 1)
        assert d.coordinator.rebalancing_since() is None

    def test_nobody_in_a_stable_group(self) -> None:
        d = Driven()
        d.stable(2)
        found = generation(d)
        assert (found.generation_id, found.awaited, found.pending, found.until_ms) == (1, [], [], None)

    def test_since_when_a_group_is_in_its_state(self) -> None:
        d = Driven()
        d.stable(2)
        since = d.now
        d.commit(group="simple")
        d.advance(2_000)
        d.restart()
        assert [d.coordinator.in_state_since(group) for group in ("g", "simple", "none")] == [since, None, None]

    def test_after_a_restart_nobody_knows_why(self) -> None:
        d = Driven()
        d.stable(2)
        since = generation(d).since_ms
        d.restart()
        assert generation(d) == Generation(1, "Stable", since, "", "", [], [], None)


class TestWhomItHadToWaitFor:
    """As it is told when the rebalance is over, and the newcomer alone is to be seen."""

    THREE = "client-3 (client at /127.0.0.1)"

    def test_who_was_removed_at_its_end(self) -> None:
        d = Driven()
        (one, two, three), number = d.stable(3, rebalance=20_000)
        d.ask_join(one, rebalance=20_000)
        d.ask_join(two, rebalance=20_000)
        for _ in range(4):
            d.heartbeat(three, number)
            d.advance(5_000)
        gone = f"{self.THREE}, gone, not joined again within the rebalance timeout, 20000 ms"
        assert generation(d).waited_for == gone
        d.ask_sync(two, number + 1)
        d.ask_sync(one, number + 1, {})
        found = generation(d)
        assert (found.state, found.waited_for) == ("Stable", gone)
        assert found.reason == f"the leader {ONE} has joined again"
        d.ask_join(one)
        assert generation(d).waited_for == "", "that is another rebalance"

    def test_whose_session_ended(self) -> None:
        d = Driven()
        (one, two, _), number = d.stable(3, session=10_000)
        d.ask_join(one)
        d.ask_join(two)
        assert generation(d).waited_for == ""
        d.advance(10_000)
        found = generation(d)
        assert (found.generation_id, found.state) == (number + 1, "CompletingRebalance")
        assert found.waited_for == f"{self.THREE}, gone, not heard of for its session timeout, 10000 ms"

    def test_who_left(self) -> None:
        """One that had joined already was not waited for."""
        d = Driven()
        (one, two, three), _ = d.stable(3)
        d.ask_join(one)
        d.ask_join(two)
        d.leave(MemberIdentity(two, reason="closed"))
        assert generation(d).waited_for == ""
        d.leave(MemberIdentity(three, reason="closed"))
        assert generation(d).waited_for == f"{self.THREE}, gone, as it has left, saying 'closed'"

    def test_who_joined_last(self) -> None:
        """Not a newcomer, nor when it was heard of: it may commit meanwhile, and ask again on another connection."""
        d = Driven()
        (one, two, three), number = d.stable(3, session=30_000)
        d.ask_join(one)
        d.advance(9_000)
        d.ask_join(three)
        newcomer = d.joined(d.ask_join()).member_id
        d.advance(3_000)
        d.ask_join(two)
        d.advance(4_000)
        assert d.commit_error(three, number) == ErrorCode.NONE
        d.ask_join(three)
        d.ask_join(newcomer)
        found = generation(d)
        assert (found.generation_id, found.waited_for) == (number + 1, f"{TWO}, joined again after 12000 ms")

    def test_who_joins_as_soon_as_it_is_told_to_was_not_waited_for(self) -> None:
        d = Driven()
        (one, two), number = d.stable(2, session=30_000)
        d.ask_join(one)
        d.advance(9_999)
        d.ask_join(two)
        found = generation(d)
        assert (found.generation_id, found.waited_for) == (number + 1, "")

    def test_who_was_given_an_id(self) -> None:
        d = Driven()
        (leader,), number = d.stable()
        pending = d.joined(d.ask_join(session=15_000)).member_id
        d.ask_join(leader)
        d.advance(15_000)
        found = generation(d)
        assert (found.generation_id, found.waited_for) == (number + 1, f"{pending}, given an id, and not joined")

    def test_static_members_that_keep_their_place(self) -> None:
        d = Driven()
        tickets = [d.ask_join(instance=each, session=600_000) for each in "ab"]
        d.advance(6_000)
        one, two = (d.joined(ticket).member_id for ticket in tickets)
        d.ask_sync(two, 1, instance="b")
        d.ask_sync(one, 1, {one: b"1", two: b"2"}, instance="a")
        d.ask_join(one, instance="a", session=600_000)
        d.advance(60_000)
        assert generation(d).waited_for == "b-2 (client at /127.0.0.1, instance b), static, not joined again"

    def test_of_many_only_so_much_is_kept(self) -> None:
        d = Driven()
        caller = Caller("c" * 100, "/127.0.0.1")
        tickets = [d.ask_join(version=3, session=10_000, caller=caller) for _ in range(20)]
        d.advance(6_000)
        members = [d.joined(ticket).member_id for ticket in tickets]
        for each in members:
            d.ask_sync(each, 1, {} if each == members[0] else None, version=3)
        d.ask_join(members[0])
        for each in members[1:]:
            d.leave(each)
        found = generation(d)
        assert found.generation_id == 2
        assert found.waited_for.startswith(f"{'c' * 100}-2 (")
        assert len(found.waited_for) == 353


class TestWhoIsThere:
    def test_a_member_of_a_stable_group_that_was_killed(self) -> None:
        d = Driven()
        (one, two), number = d.stable(2, session=10_000)
        d.advance(4_000)
        d.heartbeat(two, number)
        began = d.now - 4_000
        assert d.coordinator.presences("g") == [
            Presence(one, *WHO, leads=True, heard_ms=began, session_timeout_ms=10_000, removed_ms=began + 10_000),
            Presence(two, *WHO, leads=False, heard_ms=d.now, session_timeout_ms=10_000, removed_ms=d.now + 10_000),
        ]
        d.advance(6_000)
        assert [each.member_id for each in d.coordinator.presences("g")] == [two], "as it was said"

    def test_one_that_waits_to_be_answered_is_not_removed(self) -> None:
        d = Driven()
        (leader, follower), _ = d.stable(2, session=10_000, rebalance=60_000)
        d.ask_join(leader, rebalance=60_000, session=10_000)
        removed = {each.member_id: each.removed_ms for each in d.coordinator.presences("g")}
        assert removed == {leader: None, follower: d.now + 10_000}

    def test_a_new_member_is_removed_when_its_client_must_be_gone(self) -> None:
        d = Driven()
        d.ask_join(version=3, session=10_000)
        (found,) = d.coordinator.presences("g")
        assert found.removed_ms == d.now + CoordinatorSettings().new_member_join_timeout_ms

    def test_after_a_restart_it_is_not_known_when_it_was_heard_of(self) -> None:
        d = Driven()
        d.stable(session=10_000)
        d.restart()
        (found,) = d.coordinator.presences("g")
        assert (found.heard_ms, found.removed_ms) == (None, d.now + 10_000)

    def test_who_asks_again_what_it_was_answered_is_heard_of(self) -> None:
        d = Driven()
        (_, follower), _ = d.stable(2, session=10_000)
        d.advance(4_000)
        d.ask_join(follower, session=10_000)
        assert [each.heard_ms for each in d.coordinator.presences("g")] == [d.now - 4_000, d.now]

    def test_one_that_has_missed_heartbeats_is_silent(self) -> None:
        d = Driven()
        (one, two), number = d.stable(2, session=10_000)

        def silent() -> list[str]:
            return [each.member_id for each in d.coordinator.presences("g") if each.is_silent(d.now)]

        d.advance(5_000)
        d.heartbeat(two, number)
        assert silent() == []
        d.advance(1)
        assert silent() == [one]
        d.heartbeat(one, number)
        d.advance(4_000)
        d.ask_join(one, session=10_000, rebalance=60_000)
        d.advance(5_900)
        assert silent() == [two], "who waits for an answer has nothing to say"

    def test_nobody_is_in_a_group_that_there_is_not(self) -> None:
        assert Driven().coordinator.presences("g") == []


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
            "group g: a client without a member id (client at /127.0.0.1) may not join: INCONSISTENT_GROUP_PROTOCOL "
            "(it offers cooperative-sticky of type 'consumer'; all members of the group offer range of type 'consumer')"
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
        assert told(d)[0].endswith(" may not join: GROUP_MAX_SIZE_REACHED (group.max.size is 1)")

    def test_whoever_finds_no_memory(self) -> None:
        d = Driven(CoordinatorSettings(group_memory_max_bytes=1))
        d.ask_join()
        assert told(d)[0].endswith(" may not join: GROUP_MAX_SIZE_REACHED (group.memory.max.bytes is used up)")

    def test_a_group_without_members_and_a_member_without_protocols(self) -> None:
        d = Driven()
        d.ask_join(protocols=())
        assert told(d)[0].endswith("(it offers nothing of type 'consumer', and there has to be one)")

    def test_while_all_are_told_to_join_again_nobody_is_told_of(self) -> None:
        d = Driven()
        member, _ = d.member()
        d.advance(3_000)
        told(d)
        assert d.commit_error(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert told(d) == []


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
        assert event.endswith(" and 3 more")

    def test_what_is_kept_is_short_and_plain(self) -> None:
        d = Driven()
        (leader, _), _ = d.stable(2)
        d.ask_join(leader, reason="\U0001f600" * 30_000)
        assert len(generation(d).reason) < 400
        assert generation(d).reason.isascii()

    def test_javas_words_for_the_second_half_of_a_join_are_left_out(self) -> None:
        d = Driven()
        member = d.joined(d.ask_join()).member_id
        d.ask_join(member, reason=f"need to re-join with the given member-id: {member}")
        assert told(d)[0].endswith(": member client-1 (client at /127.0.0.1) has joined")


class TestLeaving:
    def test_each_has_its_own_reason(self) -> None:
        d = Driven()
        (one, two, three), _ = d.stable(3)
        told(d)
        d.leave(MemberIdentity(one, reason="rolling restart"), MemberIdentity(two, reason="too slow"))
        assert "gone, as it has left: client-1" in told(d)[0]
        d.leave(MemberIdentity(three, reason="rolling restart"))
        assert "gone, as it has left, saying 'rolling restart': client-3" in told(d)[0]


class TestMany:
    """A request may be about thousands, and has to be decided in the time of its size."""

    def test_one_request_by_which_many_leave_is_one_event(self) -> None:
        d = Driven()
        members, _ = d.stable(300)
        told(d)
        d.leave(*members[1:])
        (event,) = told(d)
        assert event.endswith("client-6 (client at /127.0.0.1) and 294 more")

    def test_what_many_offer_is_not_gone_through(self) -> None:
        d = Driven()
        d.stable(protocols=[(f"p{number}", b"") for number in range(50_000)])
        group = d.coordinator._state.groups["g"]
        looked_at = Counter[str]()

        class Counted(dict[str, int]):
            def items(self) -> Any:
                for name, count in super().items():
                    looked_at[name] += 1
                    yield name, count

        group._offered = Counted(group._offered)
        told(d)
        d.ask_join(protocols=(("other", b""),))
        assert "all members of the group offer p0, p1, p2, p3, p4 of type" in told(d)[0]
        assert looked_at.total() < 10
