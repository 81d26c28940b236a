"""When offsets expire, and when they never do. A week is a matter of adding to a number."""

import pytest

from protocol.errors import ErrorCode as E
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Producer
from protocol.own.state_log import ZOOKEEPER_IS_RIGHT, Hands, Step
from shim.coordinator import CoordinatorSettings, RetentionStep
from shim.coordinator.outcome import HandsTaken

from .driving import Driven, subscription
from .durable import assert_same, reloaded

MINUTE = 60_000
WEEK = 7 * 24 * 60 * MINUTE
NOTHING = RetentionStep(0, 0, more=False)
ONE_OF_ONE = RetentionStep(1, 1, more=False)


def left(d: Driven, member_id: str) -> None:
    """The member leaves; the group is Empty from then on."""
    d.leave(member_id)
    assert d.state() == "Empty"


def test_an_empty_group_keeps_its_offsets_for_as_long_as_the_setting_says_from_then_on() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=1_800_000)
    d.commit(member_id, generation)
    d.advance(1_000_000)
    left(d, member_id)
    d.now += WEEK - 1
    assert d.check_retention() == NOTHING
    assert d.offsets() == {("orders", 0): 5}
    d.now += 1
    assert d.check_retention() == ONE_OF_ONE
    assert d.records[-2:] == [(OffsetCommitKey("g", "orders", 0), None), (GroupMetadataKey("g"), None)]
    assert (d.offsets(), d.state()) == ({}, "Dead")
    assert_same(d.coordinator, reloaded(d.records))


def test_a_restart_does_not_begin_the_time_anew() -> None:
    d = Driven(CoordinatorSettings(offsets_retention_minutes=10))
    (member_id,), generation = d.stable()
    d.commit(member_id, generation)
    left(d, member_id)
    d.now += 5 * MINUTE
    d.restart()
    d.now += 5 * MINUTE - 1
    assert d.check_retention() == NOTHING
    d.now += 1
    assert d.check_retention() == ONE_OF_ONE


def test_a_live_group_that_commits_nothing_keeps_what_it_reads() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=1_800_000, protocols=[("range", subscription("orders", "payments"))])
    d.commit(member_id, generation, [("orders", 0, 5), ("payments", 0, 6), ("refunds", 0, 7)])
    day = 24 * 60 * MINUTE
    d.now += WEEK - 1
    assert d.heartbeat(member_id, generation) == E.NONE
    assert d.check_retention() == NOTHING
    d.now += 1
    # Nobody reads refunds any more, and its last commit is a week old.
    assert d.check_retention() == RetentionStep(1, 0, more=False)
    for _ in range(30):
        d.now += day
        assert d.heartbeat(member_id, generation) == E.NONE
        assert d.check_retention() == NOTHING
    assert d.offsets() == {("orders", 0): 5, ("payments", 0): 6}


def test_a_group_that_was_alive_for_a_month_has_its_time_when_its_last_member_is_gone() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=1_800_000)
    d.commit(member_id, generation)
    d.now += 4 * WEEK
    d.heartbeat(member_id, generation)
    d.restart()  # members are restored, and their sessions begin anew
    assert d.check_retention() == NOTHING
    d.advance(1_800_000)
    assert d.state() == "Empty"
    d.now += WEEK - 1
    assert d.check_retention() == NOTHING
    d.now += 1
    assert d.check_retention() == ONE_OF_ONE


def test_nothing_expires_while_consumers_rebalance() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=1_800_000)
    d.commit(member_id, generation, [("orders", 0, 5), ("others", 0, 6)])
    d.now += WEEK
    d.member(session=1_800_000)
    assert d.state() == "PreparingRebalance"
    assert d.check_retention() == NOTHING
    d.ask_join(member_id, session=1_800_000)
    assert d.state() == "CompletingRebalance"
    assert d.check_retention() == NOTHING


@pytest.mark.parametrize(
    ("protocol_type", "metadata"), [("connect", b"x"), ("consumer", b"\0\0")], ids=["connect", "not understood"]
)
def test_members_whose_topics_are_not_known_keep_everything(protocol_type: str, metadata: bytes) -> None:
    d = Driven()
    (member_id,), generation = d.stable(
        session=1_800_000, protocol_type=protocol_type, protocols=[("default", metadata)]
    )
    d.commit(member_id, generation)
    d.now += 10 * WEEK
    d.heartbeat(member_id, generation)
    assert d.check_retention() == NOTHING
    left(d, member_id)
    d.now += WEEK
    assert d.check_retention() == ONE_OF_ONE


def test_each_offset_of_a_simple_group_has_its_own_time() -> None:
    d = Driven()
    d.commit(offsets=[("orders", 0, 5), ("payments", 0, 6)])
    d.now += WEEK // 2
    d.commit(offsets=[("orders", 0, 7)])
    d.now += WEEK // 2
    assert d.check_retention() == RetentionStep(1, 0, more=False)
    assert d.offsets() == {("orders", 0): 7}
    d.now += WEEK // 2
    assert d.check_retention() == ONE_OF_ONE
    assert d.state() == "Dead"


def test_what_is_committed_for_an_empty_group_has_its_time_from_the_commit_on() -> None:
    """By a tool, or by a consumer that assigns its partitions itself now. A broker lets it go with the group."""
    d = Driven()
    (member_id,), generation = d.stable(session=1_800_000)
    d.commit(member_id, generation, [("orders", 0, 5), ("orders", 1, 6)])
    left(d, member_id)
    d.now += WEEK - MINUTE
    d.commit(offsets=[("orders", 0, 7)])
    d.now += MINUTE
    assert d.check_retention() == RetentionStep(1, 0, more=False)
    d.restart()
    d.now += WEEK - MINUTE - 1
    assert d.check_retention() == NOTHING
    assert d.offsets() == {("orders", 0): 7}
    d.now += 1
    assert d.check_retention() == ONE_OF_ONE


@pytest.mark.parametrize("had_members", [True, False])
def test_what_says_itself_when_it_was_committed_goes_by_that(had_members: bool) -> None:
    """OffsetCommit v1. A broker lets what is committed to come go with the group, where that had members."""
    d = Driven()
    if had_members:
        (member_id,), generation = d.stable(session=1_800_000)
        d.commit(member_id, generation, [("orders", 1, 6)])
        left(d, member_id)
    d.commit(version=1, commit_timestamp=d.now + WEEK)
    d.now += 2 * WEEK - 1
    assert d.check_retention() == RetentionStep(int(had_members), 0, more=False)
    assert d.offsets() == {("orders", 0): 5}
    d.now += 1
    assert d.check_retention() == ONE_OF_ONE


def test_an_offset_that_says_itself_how_long_it_stays() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=1_800_000)
    d.commit(member_id, generation, [("orders", 0, 1)], version=4, retention_time_ms=MINUTE)
    d.commit(member_id, generation, [("orders", 1, 2), ("others", 1, 3)], version=4, retention_time_ms=3 * WEEK)
    d.commit(member_id, generation, [("orders", 2, 4), ("others", 2, 5)], version=4, retention_time_ms=MINUTE)
    d.now += MINUTE - 1
    assert d.check_retention() == NOTHING
    d.now += 1
    d.heartbeat(member_id, generation)
    assert d.check_retention() == RetentionStep(1, 0, more=False)  # others-2: the group does not read it
    left(d, member_id)
    assert d.check_retention() == RetentionStep(2, 0, more=False)
    assert d.offsets() == {("orders", 1): 2, ("others", 1): 3}
    d.now += 2 * WEEK
    assert d.check_retention() == NOTHING
    d.now += WEEK
    assert d.check_retention() == RetentionStep(2, 1, more=False)


def test_beside_one_that_says_itself_how_long_it_stays_the_others_have_theirs() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=1_800_000)
    d.commit(member_id, generation, [("orders", 0, 5)], version=4, retention_time_ms=MINUTE)
    d.commit(member_id, generation, [("orders", 1, 6)])
    d.advance(1_000_000)
    left(d, member_id)
    d.now += WEEK - 1
    assert d.check_retention() == RetentionStep(1, 0, more=False)
    assert d.offsets() == {("orders", 1): 6}
    d.now += 1
    assert d.check_retention() == ONE_OF_ONE


def at_step(d: Driven, step: Step) -> None:
    """Its offsets were in ZooKeeper at first."""
    ticket = d.ticket()
    d.take(d.coordinator.take_in_hand(d.now, "g", Hands.SERVED, "why", ticket, step, from_zookeeper=True))
    assert d.answer(ticket, HandsTaken).done


@pytest.mark.parametrize("step", sorted(ZOOKEEPER_IS_RIGHT))
def test_in_zookeeper_none_expires(step: Step) -> None:
    d = Driven()
    d.commit()
    at_step(d, step)
    d.now += 10 * WEEK
    assert d.check_retention() == NOTHING


def test_in_dual_commit_it_has_its_time_from_when_no_consumer_is_left_in_zookeeper() -> None:
    d = Driven()
    d.commit()
    at_step(d, Step.KAFKA_DUAL)
    d.now += 10 * WEEK
    assert d.check_retention() == NOTHING
    d.coordinator.is_used_in_zookeeper(d.now, "g", used=False)
    d.now += WEEK - 1
    assert d.check_retention() == NOTHING
    d.coordinator.is_used_in_zookeeper(d.now, "g", used=True)
    d.now += WEEK
    assert d.check_retention() == NOTHING
    d.coordinator.is_used_in_zookeeper(d.now, "g", used=False)
    d.now += WEEK
    assert d.check_retention() == ONE_OF_ONE


def test_where_dual_commit_has_ended_it_has_its_time_from_then_on() -> None:
    d = Driven()
    d.commit()
    at_step(d, Step.KAFKA_DUAL)
    d.now += 10 * WEEK
    at_step(d, Step.KAFKA)
    d.now += WEEK - 1
    assert d.check_retention() == NOTHING
    d.now += 1
    assert d.check_retention() == ONE_OF_ONE


def test_of_a_group_that_became_empty_nobody_knows_when_each_commit_counts() -> None:
    d = Driven()
    d.commit(offsets=[("orders", 0, 5)])
    d.now += WEEK // 2
    d.commit(offsets=[("orders", 1, 6)])
    unknown = GroupMetadataValue("consumer", 3, None, None, -1, ())
    d.records.append((GroupMetadataKey("g"), unknown))
    d.restart()
    d.now += WEEK // 2
    assert d.check_retention() == RetentionStep(1, 0, more=False)
    assert d.offsets() == {("orders", 1): 6}


def test_an_empty_group_without_offsets_goes_at_once() -> None:
    d = Driven()
    (member_id,), _ = d.stable()
    assert d.check_retention() == NOTHING
    left(d, member_id)
    assert d.check_retention() == RetentionStep(0, 1, more=False)
    d.commit(group="h")
    d.delete_offsets(("orders", [0]), group="h")
    assert d.state("h") == "Empty"
    assert d.check_retention() == RetentionStep(0, 1, more=False)
    assert len(d.coordinator.group_ids()) == 0
    assert_same(d.coordinator, reloaded(d.records))


PRODUCER = Producer(7, 0)


def pending(d: Driven, topic: str) -> None:
    value = OffsetCommitValue(9, -1, "", d.now, -1)
    d.coordinator._state.replay_pending(PRODUCER, None, OffsetCommitKey("g", topic, 0), value)


def test_an_offset_that_a_transaction_is_about_to_replace_stays_and_so_does_its_group() -> None:
    d = Driven()
    d.commit(offsets=[("orders", 0, 5), ("payments", 0, 6)])
    pending(d, "orders")
    d.now += WEEK
    assert d.check_retention() == RetentionStep(1, 0, more=False)
    assert d.offsets() == {("orders", 0): 5}
    d.coordinator._state.replay_end(PRODUCER, None, committed=False)
    assert d.check_retention() == ONE_OF_ONE

    pending(d, "orders")  # and no other offset
    assert d.check_retention() == NOTHING
    assert d.state() == "Empty"
    d.coordinator._state.replay_end(PRODUCER, None, committed=True)
    assert d.offsets() == {("orders", 0): 9}


def test_deletions_take_what_transactions_have_pending() -> None:
    d = Driven()
    d.commit(offsets=[("orders", 0, 5)])
    pending(d, "orders")
    pending(d, "payments")
    written = len(d.records)
    assert d.delete_offset_errors(("payments", [0, 1])) == [[0, 0]]
    assert d.delete_group() == E.NONE
    keys = [OffsetCommitKey("g", "payments", 0), OffsetCommitKey("g", "orders", 0), GroupMetadataKey("g")]
    assert d.records[written:] == [(key, None) for key in keys]
    d.coordinator._state.replay_end(PRODUCER, None, committed=True)
    assert (d.offsets(), d.state()) == ({}, "Dead")


def test_a_look_at_many_offsets_takes_many_steps_between_which_groups_live() -> None:
    d = Driven()
    for n in range(40):
        d.commit(offsets=[(f"topic-{n}", partition, n) for partition in range(250)], group=f"g{n}")
    d.now += WEEK
    first = d.retention_step()
    assert first.more
    assert 0 < first.offsets < 1_000
    # Groups that are used, deleted and made meanwhile.
    d.commit(offsets=[("topic-39", 0, 100)], group="g39")
    d.stable(group="g38", session=30 * MINUTE, protocols=[("range", subscription("topic-38"))])
    assert d.delete_group("g37") == E.NONE
    d.commit(group="new")
    steps = [first]
    while steps[-1].more:
        steps.append(d.retention_step())
        assert steps[-1].offsets < 1_000
    assert len(steps) > 10
    assert d.offsets("g39") == {("topic-39", 0): 100}
    assert len(d.offsets("g38")) == 250
    assert d.offsets("new") == {("orders", 0): 5}
    assert sum(step.offsets for step in steps) == 37 * 250 + 249
    assert {group.group_id for group in d.coordinator.list_groups()} == {"g38", "g39", "new"}
    assert_same(d.coordinator, reloaded(d.records))


def test_a_group_that_is_joined_between_two_steps_keeps_what_is_left() -> None:
    d = Driven()
    (member_id,), generation = d.stable()
    d.commit(member_id, generation, [("orders", partition, 5) for partition in range(5_000)])
    left(d, member_id)
    d.now += WEEK
    deleted = d.retention_step()
    assert deleted.more
    d.stable()
    while d.retention_step().more:
        pass
    assert len(d.offsets()) == 5_000 - deleted.offsets
    assert_same(d.coordinator, reloaded(d.records))
