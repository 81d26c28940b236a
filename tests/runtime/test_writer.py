"""The writer by itself: who is answered when a write of several partitions fails in part."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from protocol.own.history_log import HISTORY_TOPIC
from shim.log import OFFSETS_TOPIC
from shim.runtime import Clock
from shim.runtime.local_ends import LocalEnds
from shim.runtime.snapshots import Snapshots
from shim.runtime.writer import Writer
from tests.runtime.held_log import HeldLog, Teller


class Moments:
    """In the place of ``time``: a clock that the test moves, and how often the loop has slept."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept += 1


async def test_the_loop_gives_way_to_a_write_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = Moments()
    monkeypatch.setattr("shim.runtime.writer.time", moments)
    log = HeldLog.at(tmp_path, 1)
    for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
        list(log.recover(0, topic=topic))
    snapshots = Snapshots(LocalEnds(log), lambda _: None, lambda: None)
    writer = Writer(log, snapshots, Clock(), 60.0, lambda failed, _: None)
    running = asyncio.create_task(writer.run())
    ticket = Teller("committed", log.history)
    for _ in range(2):
        writer.give_way()
        assert not moments.slept, "nothing is being written"
        writer.append(0, [(b"key", b"value")], [])
        flight = writer.flight_of(0)
        assert flight is not None
        flight.hold(0, ticket, "written")
        await log.write_begun()
        writer.give_way()
        assert not moments.slept, "it takes no longer than it should"
        for turns in range(1, 50):
            moments.now += 0.0002
            writer.give_way()
            assert moments.slept == min(turns, 8), "not for ever: the disk is slow"
        log.release()
        await ticket.result()
        moments.slept, ticket = 0, Teller("committed again", log.history)
    writer.stop()
    await running
    await writer.in_thread(log.close)
    writer.close()
    snapshots.shutdown()
    writer.shutdown()


async def test_only_what_was_written_is_answered(tmp_path: Path) -> None:
    """Whatever is made of what was not."""
    log = HeldLog.at(tmp_path, 2)
    for partition in (0, 1):
        for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
            list(log.recover(partition, topic=topic))
    snapshots = Snapshots(LocalEnds(log), lambda _: None, lambda: None)
    told: list[int] = []
    answered: list[list[bool]] = []

    def all_told() -> None:
        answered.append([ticket.told for ticket in tickets])

    writer = Writer(log, snapshots, Clock(), 60.0, lambda failed, _: told.extend(failed), all_told)
    log.files.fail("pwrite", errno.EIO, f"{OFFSETS_TOPIC}-0")
    tickets = [Teller(f"of partition {partition}", log.history) for partition in (0, 1)]
    for partition, ticket in enumerate(tickets):
        writer.append(partition, [(b"key", b"value")], [])
        flight = writer.flight_of(partition)
        assert flight is not None
        flight.hold(partition, ticket, "written")
    log.release()
    writer.stop()
    await writer.run()
    assert told == [0]
    assert [ticket.told for ticket in tickets] == [False, True]
    assert answered == [[False, True]], "when everybody has been told"
    await writer.in_thread(log.close)
    writer.close()
    snapshots.shutdown()
    writer.shutdown()
