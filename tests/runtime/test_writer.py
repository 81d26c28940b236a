"""The writer by itself: who is answered when a write of several partitions fails in part."""

from __future__ import annotations

import asyncio
import errno
import itertools
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
    """In the place of ``time``: a clock that the test moves, and when the loop has slept."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds < 0.0001, "the loop is held up for as long"
        self.slept.append(self.now)


async def test_the_loop_gives_way_to_a_write_that_takes_longer_than_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = Moments()
    monkeypatch.setattr("shim.runtime.writer.time", moments)
    log = HeldLog.at(tmp_path, 1)
    for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
        list(log.recover(0, topic=topic))
    snapshots = Snapshots(LocalEnds(log), lambda _: None, lambda: None)
    writer = Writer(log, snapshots, Clock(), 60.0, lambda failed, _: None)
    running = asyncio.create_task(writer.run())

    async def moments_of_a_write(seconds: float) -> list[float]:
        """How long it had taken by then each time."""
        moments.slept.clear()
        writer.give_way()
        assert not moments.slept, "nothing is being written"
        ticket = Teller("committed", log.history)
        writer.append(0, [(b"key", b"value")], [])
        flight = writer.flight_of(0)
        assert flight is not None
        flight.hold(0, ticket, "written")
        await log.write_begun()
        begun = moments.now
        while moments.now < begun + seconds:
            writer.give_way()
            moments.now += 0.00001
        log.release()
        await ticket.result()
        return [at - begun for at in moments.slept]

    first = await moments_of_a_write(0.1)
    assert 0.0001 <= first[0] < 0.00012
    assert all(1.3 <= after / before < 1.5 for before, after in itertools.pairwise(first)), "less and less often"
    assert len(first) < 30
    for _ in range(300):  # a slow disk
        await moments_of_a_write(0.001)
    assert await moments_of_a_write(0.0004) == []
    for _ in range(50):  # it is the core that is waited for
        await moments_of_a_write(0.004)
    for _ in range(3):
        await moments_of_a_write(0.001)
    assert len(await moments_of_a_write(0.001)) == 3
    for _ in range(200):  # a quick one
        await moments_of_a_write(0.0)
    assert await moments_of_a_write(0.00012) == [pytest.approx(0.0001, abs=0.00002)]

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
