"""In whose hands a group is, and what it has with it when that changes."""

from typing import Any

import pytest

from protocol.errors import ErrorCode as E
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.own.position import Producer
from protocol.own.state_log import GroupChangeKey, GroupHandsKey, GroupHandsValue, Hands, Step
from shim.coordinator import CoordinatorSettings, NotServed, Outcome
from shim.coordinator.outcome import HandsTaken

from .driving import CALLER, RANGE, START, SUBSCRIPTION, Driven
from .durable import assert_same, reloaded
from .transacting import Transacting

OFFSETS = [
    (OffsetCommitKey("g", "orders", 0), OffsetCommitValue(5, 2, "m", START)),
    (OffsetCommitKey("g", "payments", 3), OffsetCommitValue(7, -1, "", START)),
]
MEMBERS = GroupMetadataValue(
    "consumer",
    4,
    "range",
    "a-1",
    members=tuple(
        MemberMetadata(f"{name}-1", None, name, "/127.0.0.1", 60_000, 10_000, SUBSCRIPTION, b"assigned")
        for name in ("a", "b")
    ),
)


def take(d: Driven, hands: Hands, group: str = "g", *, step: Step = Step.KAFKA) -> tuple[bool, Outcome]:
    ticket = d.ticket()
    outcome = d.coordinator.take_in_hand(d.now, group, hands, "why", ticket, step)
    d.take(outcome)
    return d.answer(ticket, HandsTaken).done, outcome


def adopt(d: Driven, members: GroupMetadataValue | None = None) -> bool:
    ticket = d.ticket()
    d.take(d.coordinator.adopt(d.now, "g", OFFSETS, members, ticket))
    return d.answer(ticket, HandsTaken).done


def test_nobody_has_asked_whose_a_group_is() -> None:
    d = Driven()
    assert d.coordinator.hands_of("g") is None
    assert d.coordinator.hands() == {}


def test_a_group_from_before_there_were_such_records_is_served() -> None:
    d = Driven()
    d.commit()
    assert d.coordinator.hands_of("g") is Hands.SERVED
    assert reloaded(d.records).hands_of("g") is Hands.SERVED


@pytest.mark.parametrize("hands", Hands)
def test_it_is_written_once(hands: Hands) -> None:
    d = Driven()
    done, outcome = take(d, hands)
    value = GroupHandsValue(hands, START, "why")
    assert done
    assert outcome.records == []
    assert outcome.state == [(GroupHandsKey("g"), value)]
    assert d.coordinator.hands() == {"g": value}
    assert d.coordinator.hands_of("g") is hands
    done, outcome = take(d, hands)
    assert (done, outcome.state) == (False, ())
    d.now += 5
    other = Hands(1 - hands)
    done, outcome = take(d, other)
    value = GroupHandsValue(other, START + 5, "why")
    assert done
    assert outcome.state == [(GroupHandsKey("g"), value), (GroupChangeKey("g", START + 5), value)]


def test_it_outlives_the_group() -> None:
    d = Driven()
    take(d, Hands.SERVED)
    d.commit()
    d.delete_group()
    assert d.coordinator.hands_of("g") is Hands.SERVED


def test_a_group_is_adopted_with_its_offsets_and_nothing_else() -> None:
    d = Driven()
    take(d, Hands.PASSED_THROUGH)
    # What a take-over that broke off has left.
    d.coordinator.replay(OffsetCommitKey("g", "old", 0), OffsetCommitValue(1))
    d.records.append((OffsetCommitKey("g", "old", 0), OffsetCommitValue(1)))
    assert adopt(d)
    assert d.coordinator.hands_of("g") is Hands.PASSED_THROUGH
    take(d, Hands.SERVED)
    assert d.offsets() == {("orders", 0): 5, ("payments", 3): 7}
    assert d.fetch("orders", 0)[1:4] == (5, 2, "m")
    assert d.state() == "Empty"
    assert_same(d.coordinator, reloaded(d.records))


@pytest.mark.parametrize("hands", [Hands.SERVED, None])
def test_a_group_that_is_not_passed_through_is_not_adopted(hands: Hands | None) -> None:
    d = Driven()
    if hands is not None:
        take(d, hands)
    assert not adopt(d)
    assert d.offsets() == {}


def test_its_members_go_on_as_those_that_they_are() -> None:
    d = Driven()
    take(d, Hands.PASSED_THROUGH)
    assert adopt(d, MEMBERS)
    take(d, Hands.SERVED)
    assert d.state() == "Stable"
    assert_same(d.coordinator, reloaded(d.records))
    assert d.heartbeat("a-1", 4) == E.NONE
    first, second = d.ask_join("a-1"), d.ask_join("b-1")
    generations = {d.answers[ticket].generation_id for ticket in (first, second)}  # type: ignore[union-attr]
    assert generations == {5}


def test_a_member_that_does_not_come_is_forgotten_as_any() -> None:
    d = Driven()
    take(d, Hands.PASSED_THROUGH)
    adopt(d, MEMBERS)
    take(d, Hands.SERVED)
    d.advance(10_001)
    assert d.state() in ("Empty", "PreparingRebalance")


def test_many_offsets_are_more_than_one_batch() -> None:
    d = Driven(CoordinatorSettings(commit_max_bytes=2_000))
    take(d, Hands.PASSED_THROUGH)
    offsets = [(OffsetCommitKey("g", "orders", n), OffsetCommitValue(n)) for n in range(100)]
    outcome = d.coordinator.adopt(d.now, "g", offsets, None, d.ticket())
    assert len(outcome.records) == 100
    assert len(outcome.cuts) > 2


def test_a_group_that_was_handed_back_leaves_nothing() -> None:
    d = Driven()
    take(d, Hands.SERVED)
    d.commit(offsets=[("orders", 0, 5)])
    ticket = d.ticket()
    d.take(d.coordinator.abandon(d.now, "g", ticket))
    assert not d.answer(ticket, HandsTaken).done, "it is served"
    assert d.offsets() == {("orders", 0): 5}
    take(d, Hands.PASSED_THROUGH)
    ticket = d.ticket()
    d.take(d.coordinator.abandon(d.now, "g", ticket))
    assert d.answer(ticket, HandsTaken).done
    assert d.coordinator.own_offsets("g").topics == ()
    assert d.records[-1] == (GroupMetadataKey("g"), None)
    assert_same(d.coordinator, reloaded(d.records))
    assert d.coordinator.next_deadline() is None


def test_with_members_too() -> None:
    d = Driven()
    take(d, Hands.PASSED_THROUGH)
    adopt(d, MEMBERS)
    ticket = d.ticket()
    d.take(d.coordinator.abandon(d.now, "g", ticket))
    assert d.answer(ticket, HandsTaken).done
    assert d.coordinator.next_deadline() is None
    assert d.coordinator.list_groups() == ()


def test_who_waits_for_an_answer_then_is_sent_there() -> None:
    d = Driven()
    take(d, Hands.SERVED)
    joining = d.ticket()
    d.take(d.coordinator.join_group(d.now, CALLER, 3, _join(), joining))
    take(d, Hands.PASSED_THROUGH)
    d.take(d.coordinator.abandon(d.now, "g", d.ticket()))
    assert d.joined(joining).error_code == E.NOT_COORDINATOR
    assert d.coordinator.next_deadline() is None


def test_a_group_in_a_transaction_is_not_given_away() -> None:
    d = Driven()
    take(d, Hands.SERVED)
    producer, key = Producer(0, 7), OffsetCommitKey("g", "orders", 0)
    d.coordinator.replay_pending(producer, None, key, OffsetCommitValue(5))
    assert take(d, Hands.PASSED_THROUGH)[0] is False
    assert d.coordinator.hands_of("g") is Hands.SERVED
    assert d.coordinator.producers_in_transaction() == {7}
    d.coordinator.replay_end(producer, None, committed=True)
    assert take(d, Hands.PASSED_THROUGH)[0] is True


@pytest.mark.parametrize(
    ("hands", "step"), [(Hands.PASSED_THROUGH, Step.KAFKA), (Hands.SERVED, Step.ZOOKEEPER_DUAL)], ids=["given", "moved"]
)
def test_nor_one_with_offsets_on_their_way_into_a_transaction(hands: Hands, step: Step) -> None:
    """They may be acknowledged yet."""
    d = Transacting()
    take(d, Hands.SERVED)
    ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)])
    assert sent_on is not None
    assert d.coordinator.has_pending("g")
    assert take(d, hands, step=step)[0] is False
    assert take(d, hands, "another", step=step)[0] is True
    d.tell(ticket, sent_on, E.COORDINATOR_NOT_AVAILABLE)
    assert d.errors(ticket) == {E.COORDINATOR_NOT_AVAILABLE}
    assert take(d, hands, step=step)[0] is True


@pytest.mark.parametrize("closed_by", ["its hands", "a change of hands"])
def test_nothing_is_decided_about_a_group_that_is_not_the_shims(closed_by: str) -> None:
    d = Driven()
    take(d, Hands.SERVED)
    d.commit(offsets=[("orders", 0, 5)])
    if closed_by == "its hands":
        take(d, Hands.PASSED_THROUGH)
    else:
        d.coordinator.close_group("g", closed=True)
    for ask in (
        d.commit,
        d.ask_join,
        d.offsets,
        d.state,
        d.delete_group,
        lambda: d.heartbeat("m", 1),
        lambda: d.leave("m"),
        lambda: d.delete_offsets(("orders", [0])),
    ):
        with pytest.raises(NotServed):
            ask()
    d.commit(group="another")
    d.coordinator.close_group("g", closed=False)
    if closed_by == "its hands":
        with pytest.raises(NotServed):
            d.offsets()
    else:
        assert d.offsets() == {("orders", 0): 5}


def _join() -> JoinGroupRequest:
    protocols = tuple(JoinGroupRequestProtocol(name, metadata) for name, metadata in RANGE)
    return JoinGroupRequest("g", 10_000, 60_000, "", None, "consumer", protocols)


def test_one_from_before_there_were_such_records_leaves_one_when_it_goes() -> None:
    """The cluster may have a copy of its offsets."""
    d = Driven()
    d.commit()
    d.delete_group()
    assert d.coordinator.hands_of("g") is Hands.SERVED
    assert d.coordinator.hands()["g"].cause == "it was served"


@pytest.mark.parametrize(("from_zookeeper", "step"), [(False, "migrate rollback"), (True, "migrate advance")])
def test_who_comes_with_another_protocol_is_told_the_step_that_leads_to_the_cluster(
    from_zookeeper: bool, step: str
) -> None:
    d = Driven()
    ticket = d.ticket()
    outcome = d.coordinator.take_in_hand(
        d.now, "g", Hands.SERVED, "why", ticket, Step.KAFKA, from_zookeeper=from_zookeeper
    )
    d.take(outcome)
    for request, what_to_do in (
        (ConsumerGroupHeartbeatRequest("g", "m", 0), f"(offset-shim {step}, "),
        (StreamsGroupHeartbeatRequest("g", "m", 0), f"(offset-shim {step}, "),
        (ShareGroupHeartbeatRequest("g", "m", 0), "use another group.id"),
    ):
        ticket = d.ticket()
        d.take(d.coordinator.heartbeat_of_another_kind(d.now, CALLER, 1, request, ticket))
        refused: Any = d.answers[ticket]
        assert refused.error_code == E.GROUP_ID_NOT_FOUND
        assert what_to_do in refused.error_message
    assert len(d.events) == 3
    assert all("is refused: the shim serves the group" in event for event in d.events)
