"""The checks themselves, on histories made by hand: a right one passes, and each thing that must not be is seen."""

from __future__ import annotations

import random

import pytest

from tests.rebalancing.history import Event, Holdings, overlaps, parse, violations
from tests.rebalancing.rebalance_times import exchanging, percentile, settling, table
from tests.rebalancing.timetable import KINDS, Group, Member, timetable

PRODUCED = [(0, 0, 10), (0, 1, 12), (0, 2, 14), (1, 0, 11), (1, 1, 13)]


def event(member: str, what: str, generation: int = -1, *partitions: int) -> Event:
    return Event(0, member, what, generation, frozenset(partitions))


def records(member: str, generation: int, *numbers: tuple[int, int, int]) -> Event:
    return Event(0, member, "records", generation, records=numbers)


def committed(member: str, generation: int, **offsets: int) -> Event:
    return Event(0, member, "committed", generation, committed={int(p[1:]): o for p, o in offsets.items()})


def at_times(*events: Event) -> list[Event]:
    """A second between one and the next."""
    return [event._replace(at=second * 1_000_000_000) for second, event in enumerate(events)]


# `a` is there alone, `b` joins and takes partition 1, `a` is killed, `b` has both.
RIGHT = at_times(
    event("a", "joining"),
    event("a", "assigned", 1, 0, 1),
    records("a", 1, (0, 0, 10), (1, 0, 11)),
    committed("a", 1, p0=1, p1=1),
    event("b", "joining"),
    event("a", "revoked", 1, 0, 1),
    event("a", "assigned", 2, 0),
    event("b", "assigned", 2, 1),
    records("a", 2, (0, 1, 12)),
    records("b", 2, (1, 1, 13)),
    committed("b", 2, p1=2),
    event("a", "killed"),
    event("b", "revoked", 2, 1),
    event("b", "assigned", 3, 0, 1),
    records("b", 3, (0, 1, 12), (0, 2, 14)),
    committed("b", 3, p0=3),
    event("b", "leaving", 3),
    event("b", "revoked", 3, 0, 1),
    event("b", "left"),
)


def test_a_right_history_passes() -> None:
    assert violations(RIGHT, PRODUCED) == []
    assert overlaps(RIGHT) == []


@pytest.mark.parametrize(
    ("number", "instead", "found"),
    [
        (14, [records("b", 3, (0, 1, 12))], "partition 0, offset 2: 14 was not processed"),
        (9, [records("b", 2, (1, 1, 15))], "partition 1, offset 1: 13 was not processed"),
        (7, [event("b", "assigned", 2, 0, 1)], "generation 2, partition 0: a, b"),
        (7, [event("b", "assigned", 2, 0, 1)], "earlier='a', earlier_generation=2, later='b', later_generation=2"),
        (10, [committed("b", 2, p0=1)], "generation 2, partition 0: a, b"),
        (9, [records("b", 2, (0, 1, 12), (1, 1, 13))], "b processed records of partition 0 in generation 2"),
        (3, [committed("a", 1, p0=2, p1=1)], "partition 0: a committed 2, processed until 1"),
        (14, [records("b", 3, (0, 0, 10), (0, 1, 12), (0, 2, 14))], "partition 0: b began at 0, 1 had been committed"),
        (13, [event("b", "assigned", 1, 0, 1)], "b: generation 1 after 2"),
    ],
)
def test_what_must_not_be_is_found(number: int, instead: list[Event], found: str) -> None:
    wrong = at_times(*RIGHT[:number], *instead, *RIGHT[number + 1 :])
    assert any(found in violation for violation in violations(wrong, PRODUCED)), violations(wrong, PRODUCED)


def test_a_member_that_was_thrown_out_may_not_know_yet() -> None:
    history = at_times(
        event("a", "joining"),
        event("a", "assigned", 1, 0),
        event("a", "frozen"),
        event("b", "joining"),
        event("b", "assigned", 2, 0),
        event("a", "thawed"),
        records("a", 1, (0, 0, 10)),
        event("a", "lost", -1, 0),
    )
    assert list(overlaps(history)) == [(0, "a", 1, "b", 2, True)]
    assert violations(history, [(0, 0, 10)]) == []


def test_lines_of_the_programs() -> None:
    assert parse('{"t": 7, "m": "a", "e": "assigned", "g": 2, "p": [0, 1]}') == event(
        "a", "assigned", 2, 0, 1
    )._replace(at=7)
    assert parse('{"t": 0, "m": "a", "e": "records", "g": 2, "r": [[0, 1, 12]]}') == records("a", 2, (0, 1, 12))
    assert parse('{"t": 0, "m": "a", "e": "committed", "g": 2, "c": {"1": 4}}') == committed("a", 2, p1=4)


def test_settled_is_when_nobody_waits_and_each_partition_is_with_one() -> None:
    holdings = Holdings(2)
    settled = []
    for what in RIGHT:
        holdings.apply(what)
        settled.append(holdings.settled)
    assert "".join(".#"[held] for held in settled) == ".###...####..###..."
    assert holdings.of == {}, "a member that has closed does not wait"
    for what in (
        event("a", "joining"),
        event("b", "joining"),
        event("a", "assigned", 4),
        event("b", "assigned", 4, 0, 1),
    ):
        assert not holdings.settled
        holdings.apply(what)
    assert holdings.settled


def test_times_from_a_change_to_its_end() -> None:
    assert list(settling(RIGHT, 2, ())) == [("member joins", 1.0), ("member joins", 3.0), ("member is killed", 2.0)]
    assert list(exchanging(RIGHT)) == [2.0, 1.0]
    back = at_times(
        event("a", "joining"),
        event("a", "assigned", 1, 0, 1),
        event("a", "killed"),
        event("a", "joining"),
        event("a", "assigned", 1, 0, 1),
    )
    within = [("static member joins", 1.0), ("static member is back within its session", 1.0)]
    assert list(settling(back, 2, {"a"})) == within
    two = at_times(*back[:3], event("b", "joining"), event("a", "joining"), *RIGHT[6:8])
    assert list(settling(two, 2, {"a"}))[1:] == [("several changes", 2.0)]


def test_the_table() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.95) == 3.0
    assert percentile([float(number) for number in range(1, 101)], 0.95) == 95.0
    lines = table({"shim": {"joins": [1.0, 2.0, 4.0]}, "Kafka": {"leaves": [0.5]}}).splitlines()
    assert lines[2:] == ["| joins | 3 | 2.00 | 4.00 | 0 | - | - |", "| leaves | 0 | - | - | 1 | 0.50 | 0.50 |"]


MEMBERS = (Member("a", "aiokafka"), Member("b", "aiokafka", instance=True), Member("c", "java", host="jvm"))


def test_a_timetable() -> None:
    group = Group("group", "range", 6, MEMBERS)
    actions = timetable(group, random.Random(1), 4.0, 300.0, (1.0, 2.0))
    assert actions == timetable(group, random.Random(1), 4.0, 300.0, (1.0, 2.0))
    assert {action.why for action in actions} == KINDS.keys()
    assert [action.at for action in actions] == sorted(action.at for action in actions)
    assert actions[-1].at <= 300.0
    present, frozen = {"a", "b", "c"}, set[str]()
    for _, member, what, _ in actions:
        assert (member.name in present) == (what != "start")
        assert (member.name in frozen) == (what == "thaw")
        assert not (what in ("kill", "freeze") and member.host)
        {"start": present.add, "thaw": frozen.remove, "freeze": frozen.add}.get(what, present.remove)(member.name)
    assert (present, frozen) == ({"a", "b", "c"}, set())
