"""Static members (KIP-345): replacement, fencing, coming back without a rebalance, skip assignment (KIP-814)."""

import pytest

from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataValue
from shim.coordinator import Caller, CoordinatorSettings

from .driving import SUBSCRIPTION, Driven, subscription

TWO = (("range", SUBSCRIPTION), ("sticky", SUBSCRIPTION))


def stable(d: Driven, **kwargs: object) -> tuple[str, str]:
    """A Stable group of the static members `a` (leading) and `b`; their member ids."""
    tickets = [d.ask_join(instance=instance, **kwargs) for instance in ("a", "b")]  # type: ignore[arg-type]
    d.advance(6_000)
    a, b = (d.joined(ticket).member_id for ticket in tickets)
    d.ask_sync(a, 1, {a: b"A", b: b"B"}, instance="a")
    d.ask_sync(b, 1, instance="b")
    assert d.state() == "Stable"
    return a, b


def test_a_static_member_joins_at_once_under_its_own_name() -> None:
    d = Driven()
    ticket = d.ask_join(instance="rack-1")
    assert d.state() == "PreparingRebalance"
    d.advance(3_000)
    answer = d.joined(ticket)
    assert answer.member_id == "rack-1-1"
    assert [m.group_instance_id for m in answer.members] == ["rack-1"]


def test_a_follower_comes_back_without_a_rebalance() -> None:
    d = Driven()
    a, b = stable(d)
    recorded = len(d.records)
    answer = d.joined(d.ask_join(instance="b", session=20_000, rebalance=90_000))
    assert answer.member_id == "b-3"
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, a)
    assert (answer.members, answer.skip_assignment) == ((), False)
    assert d.state() == "Stable"
    (_, value), *none = d.records[recorded:]
    assert not none
    assert isinstance(value, GroupMetadataValue)
    assert value.generation == 1
    assert [(m.member_id, m.group_instance_id, m.assignment) for m in value.members] == [
        (a, "a", b"A"),
        ("b-3", "b", b"B"),
    ]
    assert (value.members[1].session_timeout, value.members[1].rebalance_timeout) == (20_000, 90_000)
    assert d.synced(d.ask_sync("b-3", 1, instance="b")).assignment == b"B"
    assert len(d.coordinator._state.deadlines) == 2  # the sessions of two members
    d.restart()
    assert d.synced(d.ask_sync("b-3", 1, instance="b")).assignment == b"B"
    assert d.heartbeat(b, 1, instance="b") == ErrorCode.FENCED_INSTANCE_ID


def test_a_leader_comes_back_and_skips_the_assignment() -> None:
    d = Driven()
    _, b = stable(d)
    answer = d.joined(d.ask_join(instance="a"))
    assert (answer.member_id, answer.leader, answer.skip_assignment) == ("a-3", "a-3", True)
    assert [m.member_id for m in answer.members] == [b, "a-3"]
    assert d.synced(d.ask_sync("a-3", 1, instance="a")).assignment == b"A"


@pytest.mark.parametrize("version", [5, 8])
def test_before_version_9_a_leader_that_comes_back_is_not_told_that_it_leads(version: int) -> None:
    d = Driven()
    a, _ = stable(d)
    answer = d.joined(d.ask_join(instance="a", version=version))
    assert (answer.member_id, answer.leader, answer.skip_assignment, answer.members) == ("a-3", a, False, ())
    assert d.state() == "Stable"


def test_who_it_was_stays_on_record() -> None:
    d = Driven()
    stable(d)
    d.ask_join(instance="b", caller=Caller("elsewhere", "/10.9.9.9"))
    described = d.coordinator.describe_group("g", 5)
    assert {(m.client_id, m.client_host) for m in described.members} == {("client", "/127.0.0.1")}


def test_coming_back_with_another_choice_of_protocol_rebalances() -> None:
    d = Driven()
    a, b = stable(d, protocols=TWO)
    ticket = d.ask_join(instance="b", protocols=TWO[1:])
    assert d.state() == "PreparingRebalance"
    d.ask_join(a, instance="a", protocols=TWO)
    assert d.joined(ticket).protocol_name == "sticky"
    assert d.heartbeat(b, 1, instance="b") == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("instance", ["a", "b"])
def test_the_replaced_member_is_fenced_everywhere(instance: str) -> None:
    d = Driven()
    a, b = stable(d)
    old = {"a": a, "b": b}[instance]
    d.ask_join(instance=instance)
    assert d.heartbeat(old, 1, instance=instance) == ErrorCode.FENCED_INSTANCE_ID
    assert d.commit_error(old, 1, instance=instance) == ErrorCode.FENCED_INSTANCE_ID
    assert d.synced(d.ask_sync(old, 1, instance=instance)).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert d.joined(d.ask_join(old, instance=instance)).error_code == ErrorCode.FENCED_INSTANCE_ID
    # Without the instance id the old member id says nothing any more.
    assert d.heartbeat(old, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_parked_join_of_the_replaced_member_is_fenced() -> None:
    d = Driven()
    first = d.ask_join(instance="a")
    second = d.ask_join(instance="a")
    answer = d.joined(first)
    assert (answer.error_code, answer.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "a-1")
    d.advance(6_000)
    answer = d.joined(second)
    assert (answer.error_code, answer.leader) == (ErrorCode.NONE, "a-2")
    assert len(answer.members) == 1


def test_the_parked_sync_of_the_replaced_member_is_fenced_and_the_group_rebalances() -> None:
    d = Driven()
    tickets = [d.ask_join(instance=instance) for instance in ("a", "b")]
    d.advance(6_000)
    a, b = (d.joined(ticket).member_id for ticket in tickets)
    sync = d.ask_sync(b, 1, instance="b")
    ticket = d.ask_join(instance="b")
    assert d.synced(sync).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert d.state() == "PreparingRebalance"
    d.ask_join(a, instance="a")
    assert d.joined(ticket).generation_id == 2


def test_a_static_member_survives_a_rebalance_that_it_misses() -> None:
    d = Driven()
    a, _ = stable(d, session=100_000, rebalance=20_000)
    ticket = d.ask_join(a, instance="a", session=100_000, rebalance=20_000)
    d.advance(20_000)
    assert [m.group_instance_id for m in d.joined(ticket).members] == ["a", "b"]


def test_when_only_absent_static_members_are_left_their_sessions_decide() -> None:
    d = Driven()
    a, b = stable(d, session=30_000, rebalance=10_000)
    _, ticket = d.member(session=30_000)
    d.leave("client-3")
    assert d.joined(ticket).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert d.state() == "PreparingRebalance"
    d.advance(29_999)
    assert d.state() == "PreparingRebalance"
    d.advance(1)
    assert d.state() == "Empty"
    assert a != b


def test_a_static_member_that_is_silent_for_its_session_is_removed() -> None:
    d = Driven()
    a, b = stable(d, session=10_000)
    d.advance(9_000)
    d.heartbeat(a, 1, instance="a")
    d.advance(1_000)
    assert d.heartbeat(b, 1, instance="b") == ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat(a, 1, instance="a") == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_known_member_id_needs_its_own_instance_id() -> None:
    d = Driven()
    a, b = stable(d)
    assert d.joined(d.ask_join(a, instance="b")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert d.joined(d.ask_join(a, instance="c")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert d.joined(d.ask_join(b, instance="b")).error_code == ErrorCode.NONE


@pytest.mark.parametrize("syncs", [False, True])
def test_the_replacement_of_a_member_that_had_not_synced_must_sync_in_its_place(syncs: bool) -> None:
    d = Driven()
    tickets = [d.ask_join(instance=i, session=100_000, rebalance=20_000) for i in ("a", "b")]
    d.advance(6_000)
    a, b = (d.joined(ticket).member_id for ticket in tickets)
    d.ask_sync(a, 1, {a: b"A", b: b"B"}, instance="a")
    d.ask_join(instance="b", session=100_000, rebalance=20_000)
    if syncs:
        assert d.synced(d.ask_sync("b-3", 1, instance="b")).assignment == b"B"
    d.advance(30_000)
    assert d.state() == ("Stable" if syncs else "PreparingRebalance")


def test_the_topics_may_change_with_the_replacement() -> None:
    d = Driven()
    stable(d)
    changed = subscription("orders", "payments")
    d.ask_join(instance="b", protocols=(("range", changed),))
    assert d.state() == "Stable"
    d.restart()
    assert changed in {m.member_metadata for m in d.coordinator.describe_group("g", 5).members}


def test_the_first_session_of_a_member_that_comes_back_is_as_long_as_it_asks_for() -> None:
    """And no shorter than its predecessor's, as in Kafka."""
    d = Driven()
    _, b = stable(d, session=10_000)
    longer = d.joined(d.ask_join(instance="b", session=30_000)).member_id
    d.advance(9_000)
    d.heartbeat("a-1", 1, instance="a")
    d.advance(9_000)
    d.heartbeat("a-1", 1, instance="a")
    assert d.heartbeat(longer, 1, instance="b") == ErrorCode.NONE
    assert d.heartbeat(b, 1, instance="b") == ErrorCode.FENCED_INSTANCE_ID
    shorter = d.joined(d.ask_join(instance="b", session=6_000)).member_id
    d.advance(5_000)
    d.heartbeat("a-1", 1, instance="a")
    d.advance(9_000)
    d.heartbeat("a-1", 1, instance="a")
    assert d.heartbeat(shorter, 1, instance="b") == ErrorCode.NONE
    d.advance(6_000)
    assert d.heartbeat(shorter, 1, instance="b") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("limit", "state"), [(1_800, "PreparingRebalance"), (2_200, "Stable")])
def test_a_replacement_whose_record_would_be_too_large_is_a_rebalance(limit: int, state: str) -> None:
    """The record holds the instance id twice, and the subscription with which the member comes back."""
    d = Driven(CoordinatorSettings(group_metadata_max_bytes=limit))
    long = "b" * 600
    tickets = [d.ask_join(instance=instance) for instance in ("a", long)]
    d.advance(6_000)
    a, b = (d.joined(ticket).member_id for ticket in tickets)
    d.ask_sync(a, 1, instance="a")
    d.ask_sync(b, 1, instance=long)
    assert d.state() == "Stable"
    d.ask_join(instance=long, protocols=(("range", subscription("orders", "t" * 500)),))
    assert d.state() == state
