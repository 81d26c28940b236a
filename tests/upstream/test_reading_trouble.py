"""A broker that holds up many partitions makes few lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from protocol.own.position import Position
from shim.upstream.errors import UpstreamError
from shim.upstream.reading_trouble import ReadingTrouble

HANGS, GONE = "10.0.0.1:9092: Fetch: timed out", "10.0.0.1:9092: connection refused"
MEANWHILE = "nothing is served here from there on"
PARTITIONS = range(17)

Told = Callable[[], list[str]]


@pytest.fixture
def trouble() -> ReadingTrouble:
    return ReadingTrouble(logging.getLogger("reading"), "t")


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    """What was said since it was asked last, and is no DEBUG."""
    caplog.set_level(logging.DEBUG, "reading")

    def since() -> list[str]:
        lines = [f"{each.levelname} {each.getMessage()}" for each in caplog.records if each.levelno > logging.DEBUG]
        caplog.clear()
        return lines

    return since


def fail(trouble: ReadingTrouble, number: int, why: str) -> None:
    trouble.failed(number, Position(number, 5), UpstreamError(why))


def go_on(trouble: ReadingTrouble, number: int) -> None:
    trouble.went_well(number, Position(number, 7))


def test_of_one_it_is_told_when_it_fails_otherwise_and_when_it_is_over(trouble: ReadingTrouble, told: Told) -> None:
    for why in (HANGS, HANGS, GONE, GONE, HANGS):
        fail(trouble, 3, why)
    go_on(trouble, 3)
    go_on(trouble, 3)
    assert told() == [
        *(f"WARNING the cluster's t-3 at offset 5 ({MEANWHILE}), trying again: {why}" for why in (HANGS, GONE, HANGS)),
        "INFO the cluster's t-3 is read again from offset 7 on",
    ]


def test_of_many_it_is_told_how_many_there_are(
    trouble: ReadingTrouble, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        for number in PARTITIONS:
            fail(trouble, number, HANGS)
    assert len(caplog.records) == len(PARTITIONS) + 1, "at DEBUG there is a line of each"
    assert told() == [
        f"WARNING the cluster's t-0 at offset 5 ({MEANWHILE}), trying again: {HANGS}",
        f"WARNING the cluster's t, 17 partitions ({MEANWHILE}), trying again: {HANGS}",
    ]
    for number in PARTITIONS[:-1]:
        go_on(trouble, number)
    assert told() == []
    fail(trouble, 0, HANGS)
    go_on(trouble, 0)
    go_on(trouble, PARTITIONS[-1])
    assert told() == ["INFO the cluster's t is read again, all of 17 partitions"]
    fail(trouble, 0, HANGS)
    assert told() == [f"WARNING the cluster's t-0 at offset 5 ({MEANWHILE}), trying again: {HANGS}"], "and so anew"


def test_who_speaks_may_be_read_again_before_the_others(trouble: ReadingTrouble, told: Told) -> None:
    fail(trouble, 0, HANGS)
    fail(trouble, 1, HANGS)
    fail(trouble, 2, HANGS)
    go_on(trouble, 0)
    fail(trouble, 2, HANGS)
    assert told()[1:] == [f"WARNING the cluster's t, 2 partitions ({MEANWHILE}), trying again: {HANGS}"]


def test_what_brokers_say_of_each_is_one_kind(trouble: ReadingTrouble, told: Told) -> None:
    for _ in range(2):
        for number in (1, 12):
            fail(trouble, number, f"t-{number}: NOT_LEADER_OR_FOLLOWER")
    assert told() == [
        f"WARNING the cluster's t-1 at offset 5 ({MEANWHILE}), trying again: t-1: NOT_LEADER_OR_FOLLOWER",
        f"WARNING the cluster's t, 2 partitions ({MEANWHILE}), trying again: t: NOT_LEADER_OR_FOLLOWER",
    ]


def test_each_kind_is_told_of(trouble: ReadingTrouble, told: Told) -> None:
    for number in PARTITIONS:
        fail(trouble, number, HANGS if number % 2 else GONE)
    assert len(told()) == 2
    for number in PARTITIONS:
        fail(trouble, number, GONE)
    assert told() == [f"WARNING the cluster's t, 9 partitions ({MEANWHILE}), trying again: {GONE}"], (
        "as many as there are by then"
    )
    for number in PARTITIONS:
        fail(trouble, number, HANGS)
    assert told() == [f"WARNING the cluster's t-0 at offset 5 ({MEANWHILE}), trying again: {HANGS}"], (
        "it was over in between"
    )


def test_what_is_read_no_more_is_not_waited_for(trouble: ReadingTrouble, told: Told) -> None:
    for number in range(3):
        fail(trouble, number, HANGS)
    told()
    trouble.ended(2)
    go_on(trouble, 0)
    go_on(trouble, 1)
    assert told() == ["INFO the cluster's t is read again, all of 3 partitions"]
    fail(trouble, 0, HANGS)
    trouble.ended(0)
    fail(trouble, 1, HANGS)
    go_on(trouble, 1)
    assert told()[-1] == "INFO the cluster's t-1 is read again from offset 7 on"
