"""Memory of groups: what they take, that it is what is counted, and that it stays within the limit."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.sync_group import SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from shim.coordinator import CoordinatorSettings, GroupCoordinator, GroupMemory
from shim.coordinator.state.deadlines import ENTRIES_FOR_EACH, Deadlines
from shim.coordinator.state.group_memory import GROUP_BYTES

from .driving import START, Driven
from .transacting import Transacting, replayed

KIB = 1 << 10
MIB = 1 << 20
UUID = "5c3c6e6e-3a4b-4d0e-9d3f-"


class Long(Driven):
    """Member ids as long as real ones. `answers` are not kept: what is measured is the coordinator."""

    def __init__(self, settings: CoordinatorSettings | None = None) -> None:
        super().__init__(settings)
        numbers = self.numbers
        self.coordinator = GroupCoordinator(settings, lambda: f"{UUID}{next(numbers):012d}")

    def forget(self) -> None:
        self.answers.clear()
        self.records.clear()
        self.history.clear()
        self.events.clear()


def limited(limit: int = MIB, **settings: int) -> Long:
    return Long(CoordinatorSettings(group_memory_max_bytes=limit, group_initial_rebalance_delay_ms=0, **settings))


def join_error(d: Driven, member_id: str = "", **join: object) -> int:
    ticket = d.ask_join(member_id, **join)  # type: ignore[arg-type]
    answer = d.answers.get(ticket)
    if answer is None:
        return ErrorCode.NONE  # parked
    assert isinstance(answer, JoinGroupResponse)
    return answer.error_code


def name(number: int) -> str:
    return f"a-group-with-a-usual-name-{number:08d}"


# -- what there is to count


def an_empty_group(d: Driven, number: int) -> None:
    ticket = d.ask_join(group=name(number), version=3)
    d.advance(1)
    member_id = d.joined(ticket).member_id
    d.ask_sync(member_id, 1, {member_id: b"x" * 30}, group=name(number), version=3)
    d.leave(member_id, group=name(number))


def a_simple_group(d: Driven, number: int) -> None:
    d.commit(group=name(number))


def a_live_group(d: Driven, number: int) -> None:
    ticket = d.ask_join(group=name(number), version=3, session=1_000_000)
    d.advance(1)
    member_id = d.joined(ticket).member_id
    d.ask_sync(member_id, 1, {member_id: b"x" * 30}, group=name(number), version=3)


def a_group_of_which_clients_have_much_to_say(d: Driven, number: int) -> None:
    """One has joined, for whom the other has made room."""
    a_live_group(d, number)
    (old,) = d.coordinator._state.groups[name(number)].members
    words = "\U0001f600" * 1_000
    new = d.joined(d.ask_join(group=name(number), session=1_000_000)).member_id
    d.ask_join(new, group=name(number), session=1_000_000, reason=words)
    d.leave(MemberIdentity(old, reason=words), group=name(number))
    found = d.coordinator._state.groups[name(number)]
    assert len(found.rebalance_reason) > 300
    assert len(found.rebalance_waited_for) > 300


def a_pending_member(d: Driven, number: int) -> None:
    assert join_error(d, group="g", session=1_000_000) == ErrorCode.MEMBER_ID_REQUIRED


def a_parked_member_with_many_protocols(d: Driven, number: int) -> None:
    d.ask_join(
        group=name(number),
        version=3,
        session=1_000_000,
        protocol_type="connect",
        protocols=[(f"p{n}", b"m" * 10) for n in range(20)],
    )


def cancelled(deadlines: Deadlines[Any]) -> None:
    """As many as it keeps beside those that there are."""
    deadlines._sweep()
    for number in range(int(ENTRIES_FOR_EACH * len(deadlines)) - len(deadlines)):
        deadlines.set(number, 10**15)
        deadlines.cancel(number)
    assert len(deadlines._heap) == int(ENTRIES_FOR_EACH * len(deadlines))


@pytest.mark.parametrize(
    ("make", "at_most", "count"),
    [
        (an_empty_group, KIB, 2_000),  # of fewer, tables that have just doubled are a good part
        (a_simple_group, KIB, 500),
        (a_live_group, 4 * KIB, 500),
        (a_group_of_which_clients_have_much_to_say, 5 * KIB, 500),
        (a_pending_member, KIB, 500),
        (a_parked_member_with_many_protocols, 9 * KIB, 500),
    ],
)
def test_what_it_takes_is_no_more_than_is_counted(
    make: Callable[[Driven, int], None], at_most: int, count: int
) -> None:
    """Of a group without members it is under 1 KiB, its offset included."""
    d = Long(CoordinatorSettings(group_initial_rebalance_delay_ms=0, group_max_session_timeout_ms=1_000_000))
    make(d, count)
    d.forget()
    gc.collect()
    tracemalloc.start()
    try:
        before, counted = tracemalloc.get_traced_memory()[0], d.coordinator.group_bytes
        for number in range(count):
            make(d, number)
            d.forget()
        cancelled(d.coordinator._state.deadlines)
        gc.collect()
        taken = (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()
    counted = (d.coordinator.group_bytes - counted) // count
    assert taken < at_most
    assert taken < counted < 3 * taken


def test_a_deleted_group_takes_nothing() -> None:
    d = Long(CoordinatorSettings(group_initial_rebalance_delay_ms=0))
    for number in range(5):
        an_empty_group(d, number)
        assert d.coordinator.group_bytes > GROUP_BYTES
        assert d.delete_group(name(number)) == ErrorCode.NONE
        assert d.coordinator.group_bytes == 0


# -- the limit


def test_groups_without_end() -> None:
    d = limited()
    made = 0
    while (error := d.commit_error(group=name(made))) == ErrorCode.NONE:
        made += 1
    assert error == ErrorCode.POLICY_VIOLATION
    assert 500 < made < MIB // GROUP_BYTES
    assert len(d.coordinator.group_ids()) == made
    # What is there is served, and what would make another group is not.
    assert d.commit_error(group=name(0)) == ErrorCode.NONE
    assert d.commit_error(group=name(0), offsets=[("another", 7, 1)]) == ErrorCode.NONE
    assert join_error(d, group=name(made), version=3) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join_error(d, "nobody", group=name(made)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(d.coordinator.group_ids()) == made
    for number in range(5):
        assert d.delete_group(name(number)) == ErrorCode.NONE
    assert d.commit_error(group=name(made)) == ErrorCode.NONE


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
def test_groups_of_transactions_without_end(committed: bool) -> None:
    d = Transacting(CoordinatorSettings(group_memory_max_bytes=MIB))
    made = at = 0
    while made < MIB // GROUP_BYTES:
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 1)], group=name(made))
        if sent_on is None:
            break
        at += 2
        d.read(at - 1, sent_on)
        d.tell(ticket, sent_on)
        d.read(at, (1, 0, committed))
        made += 1
    assert d.errors(ticket) == {ErrorCode.POLICY_VIOLATION}
    assert 500 < made < MIB // GROUP_BYTES
    assert d.coordinator.group_bytes <= MIB
    # Of what is there nothing is refused.
    assert d.ask_txn_commit([("orders", 0, 2)], group=name(0), producer=2)[1] is not None
    assert d.commit_error(group=name(0), offsets=[("orders", 1, 1)]) == ErrorCode.NONE
    assert d.commit_error(group="another") == ErrorCode.POLICY_VIOLATION
    if not committed:  # groups without an offset go with the next look for what has expired
        d.check_retention()
        assert d.commit_error(group="another") == ErrorCode.NONE


def test_room_is_kept_for_the_groups_of_commits_on_their_way() -> None:
    d = Transacting(CoordinatorSettings(group_memory_max_bytes=MIB))
    on_their_way: list[tuple[int, TxnOffsetCommitRequest | None]] = []
    while (asked := d.ask_txn_commit([("orders", 0, 1)], group=name(len(on_their_way))))[1] is not None:
        on_their_way.append(asked)
        assert len(on_their_way) < MIB // GROUP_BYTES
    assert d.errors(asked[0]) == {ErrorCode.POLICY_VIOLATION}
    assert len(on_their_way) > 500
    assert len(d.coordinator.group_ids()) == 0
    assert d.commit_error(group="another") == ErrorCode.POLICY_VIOLATION
    for at, (ticket, sent_on) in enumerate(on_their_way, 1):
        assert sent_on is not None
        match at % 3:
            case 0:
                d.tell(ticket, sent_on, ErrorCode.INVALID_PRODUCER_EPOCH)
            case 1:
                d.give_up(ticket)
            case _:
                d.read(at, sent_on)
                d.tell(ticket, sent_on)
    again = Transacting()
    again.coordinator = replayed(d.written)
    assert d.coordinator.group_bytes == again.coordinator.group_bytes > 0
    assert d.commit_error(group="another") == ErrorCode.NONE


def test_names_as_long_as_they_can_be() -> None:
    d = limited()
    errors = [d.commit_error(group=f"{number}" + "n" * 32_000) for number in range(40)]
    assert errors.count(ErrorCode.NONE) == 31


@pytest.mark.parametrize("limit", [MIB, 2 * MIB])
def test_pending_members_without_end(limit: int) -> None:
    d = limited(limit)
    made = 0
    while (error := join_error(d, group="g")) == ErrorCode.MEMBER_ID_REQUIRED:
        made += 1
    assert error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert limit // 4_096 < made < limit // 512
    assert d.coordinator.group_bytes <= limit
    d.advance(10_001)
    assert d.coordinator.group_bytes == GROUP_BYTES + d.coordinator.group_bytes % GROUP_BYTES
    assert join_error(d, group="g") == ErrorCode.MEMBER_ID_REQUIRED


def test_members_without_end() -> None:
    d = limited()
    made = 0
    while (error := join_error(d, group="g", version=3)) == ErrorCode.NONE:
        made += 1
    assert error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert 300 < made < 700
    assert join_error(d, group="h", instance="static") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert d.coordinator.group_bytes <= MIB


def test_a_member_that_offers_much() -> None:
    d = limited()
    big = (("range", bytes(MIB)),)
    assert join_error(d, protocol_type="connect", protocols=big, version=3) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(d.coordinator.group_ids()) == 0
    many = [(f"{number}", b"") for number in range(10_000)]
    assert join_error(d, protocol_type="connect", protocols=many, version=3) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert d.coordinator.group_bytes == 0


def test_a_member_that_comes_to_offer_much_stays_what_it_was() -> None:
    d = limited()
    ticket = d.ask_join(version=3, protocol_type="connect", protocols=(("range", b"x"),))
    d.advance(1)
    member_id = d.joined(ticket).member_id
    d.ask_sync(member_id, 1, {member_id: b"all"}, version=3)
    big = (("range", bytes(MIB)),)
    error = join_error(d, member_id, version=3, protocol_type="connect", protocols=big)
    assert error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert d.state() == "Stable"
    assert d.heartbeat(member_id, 1) == ErrorCode.NONE
    # What takes no more than before is taken even beyond the limit.
    assert join_error(d, member_id, version=3, protocol_type="connect", protocols=(("range", b"y"),)) == ErrorCode.NONE


def test_a_static_member_that_comes_back_with_much() -> None:
    d = limited()
    ticket = d.ask_join(instance="i", protocol_type="connect", protocols=(("range", b"x"),))
    d.advance(1)
    member_id = d.joined(ticket).member_id
    d.ask_sync(member_id, 1, {member_id: b"all"}, instance="i", protocol_type="connect")
    big = (("range", bytes(MIB)),)
    assert join_error(d, instance="i", protocol_type="connect", protocols=big) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert d.heartbeat(member_id, 1, instance="i") == ErrorCode.NONE


def test_a_static_member_that_comes_back_with_what_fits_once() -> None:
    """The group's record has it a second time."""
    d = limited()
    join: dict[str, Any] = {"instance": "i", "protocol_type": "connect"}
    ticket = d.ask_join(**join, protocols=(("range", b"x"),))
    d.advance(1)
    member_id = d.joined(ticket).member_id
    d.ask_sync(member_id, 1, {member_id: b"all"}, **join)
    again = d.ask_join(**join, protocols=(("range", bytes(600 * KIB)),))
    assert d.coordinator.group_bytes <= MIB
    assert d.joined(again).generation_id == 2, "it is brought with the assignment, or refused then"


def test_assignments_that_are_too_much() -> None:
    d = limited()
    ticket = d.ask_join(version=3)
    d.advance(1)
    member_id = d.joined(ticket).member_id
    synced = d.ask_sync(member_id, 1, {member_id: bytes(MIB)}, version=3)
    assert d.answer(synced, SyncGroupResponse).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert d.state() == "PreparingRebalance"
    assert d.coordinator.group_bytes < 16 * KIB


# -- partitions that have the limit in common


def test_what_one_partition_takes_others_cannot() -> None:
    memory = GroupMemory(100 * KIB)
    ones = [limited() for _ in range(3)]
    for d in ones:
        d.coordinator.loaded(START, memory)
    while ones[0].commit_error(group=name(len(ones[0].coordinator.group_ids()))) == ErrorCode.NONE:
        pass
    assert ones[1].commit_error(group="g") == ErrorCode.POLICY_VIOLATION
    assert memory.used == ones[0].coordinator.group_bytes
    ones[0].coordinator.released()
    assert memory.used == 0
    assert ones[1].commit_error(group="g") == ErrorCode.NONE
    assert memory.used == ones[1].coordinator.group_bytes


def test_what_is_loaded_counts_and_is_never_refused() -> None:
    d = limited()
    for number in range(100):
        d.commit(group=name(number))
    memory = GroupMemory(KIB)
    again = GroupCoordinator(d.settings)
    for key, value in d.records:
        again.replay(key, value)
    assert memory.used == 0
    again.loaded(START, memory)
    assert memory.used == again.group_bytes == d.coordinator.group_bytes > KIB
    d.coordinator = again
    assert d.commit_error(group=name(5)) == ErrorCode.NONE
    assert d.commit_error(group="new") == ErrorCode.POLICY_VIOLATION


def test_a_restored_dump_counts_as_the_state_did() -> None:
    d = limited()
    for number in range(3):
        a_live_group(d, number)
        a_simple_group(d, 10 + number)
    again = GroupCoordinator(d.settings)
    again.restore(d.coordinator.dump())
    assert again.group_bytes == d.coordinator.group_bytes


def test_a_group_that_takes_no_more_goes_on_where_the_limit_was_lowered() -> None:
    """By a setting, or there is less for each since a start: it would rebalance for ever."""
    d = limited()
    (member,), generation = d.stable()
    d.coordinator._state.memory.move_to(GroupMemory(1))
    assert join_error(d, member, session=10_000) == ErrorCode.NONE
    d.advance(1)
    plan = {member: b"for " + member.encode()}
    assert d.synced(d.ask_sync(member, generation + 1, plan)).error_code == ErrorCode.NONE
    assert d.heartbeat(member, generation + 1) == ErrorCode.NONE
    assert join_error(d, group="another") == ErrorCode.GROUP_MAX_SIZE_REACHED
