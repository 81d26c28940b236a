"""The writer by itself: who is answered when a write of several partitions fails in part."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.disk_log.ends import DiskEnds
from shim.disk_log.writer import Writer
from shim.disk_log.writing_thread import WritingThread
from shim.runtime import Clock
from shim.runtime.snapshots import Snapshots
from tests.runtime.held_log import HeldLog, Teller
from tests.waiting import wait_until


class Moments:
    """In the place of ``time``: a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@asynccontextmanager
async def writing(log: HeldLog) -> AsyncIterator[Writer]:
    """Of its one partition, which is read."""
    for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
        list(log.recover(0, topic=topic))
    snapshots = Snapshots(DiskEnds(log), lambda _: None, lambda: None)
    writer = Writer(log, snapshots, Clock(), 60.0, lambda failed, _: None)
    running = asyncio.create_task(writer.run())
    yield writer
    writer.stop()
    await running
    await writer.in_thread(log.close)
    writer.close()
    snapshots.shutdown()
    writer.shutdown()


def held(writer: Writer, log: HeldLog) -> Teller:
    """Who waits for a write that begins when the loop has come round."""
    ticket = Teller("committed", log.history)
    writer.append(0, [(b"key", b"value")], [])
    flight = writer.flight_of(0)
    assert flight is not None
    flight.hold(0, ticket, "written")
    return ticket


async def test_the_loop_gives_way_to_a_write_that_takes_longer_than_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = Moments()
    monkeypatch.setattr("shim.disk_log.writer.time", moments)
    waits: list[tuple[float, float]] = []

    def waits_in_vain(thread: WritingThread, seconds: float) -> None:
        waits.append((moments.now, seconds))
        moments.now += seconds

    monkeypatch.setattr(WritingThread, "tell_within", waits_in_vain)
    log = HeldLog.at(tmp_path, 1)

    async with writing(log) as writer:

        async def waits_for_a_write(seconds: float) -> list[tuple[float, float]]:
            """How long it had taken by then each time, and how long was waited at most."""
            waits.clear()
            writer.give_way()
            assert not waits, "nothing is being written"
            ticket = held(writer, log)
            await log.write_begun()
            begun = moments.now
            while moments.now < begun + seconds:
                writer.give_way()
                moments.now += 0.00001
            log.release()
            await ticket.result()
            return [(at - begun, most) for at, most in waits]

        first = await waits_for_a_write(0.1)
        assert 0.0001 <= first[0][0] < 0.00012
        assert all(most == pytest.approx(0.0002) for _, most in first)
        assert all(after >= (before + most) * 1.3 for (before, most), (after, _) in itertools.pairwise(first))
        assert 3 < len(first) < 30, "less and less often"
        for _ in range(1000):  # a slow disk
            await waits_for_a_write(0.005)
        assert await waits_for_a_write(0.004) == []
        assert [most for _, most in await waits_for_a_write(0.006)] == [0.001], "however slow it is"
        for _ in range(200):  # a quick one
            await waits_for_a_write(0.0)
        ((at, most),) = await waits_for_a_write(0.00012)
        assert at == pytest.approx(0.0001, abs=0.00002)
        assert most == pytest.approx(0.0002)


async def test_what_has_landed_when_the_loop_gives_way_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once; what has not is told when it has."""
    moments = Moments()
    monkeypatch.setattr("shim.disk_log.writer.time", moments)
    log = HeldLog.at(tmp_path, 1)
    async with writing(log) as writer:

        def told_when_it_gives_way() -> bool:
            moments.now += moments.now
            writer.give_way()
            return ticket.told

        ticket = held(writer, log)
        await log.write_begun()
        assert not told_when_it_gives_way()
        log.release()
        wait_until(told_when_it_gives_way, "the loop has not come round meanwhile")
        assert await ticket.result() == "written"
        ticket = held(writer, log)
        await log.write_begun()
        assert not told_when_it_gives_way()
        log.release()
        assert await ticket.result() == "written", "by the loop"


async def test_only_what_was_written_is_answered(tmp_path: Path) -> None:
    """Whatever is made of what was not."""
    log = HeldLog.at(tmp_path, 2)
    for partition in (0, 1):
        for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
            list(log.recover(partition, topic=topic))
    snapshots = Snapshots(DiskEnds(log), lambda _: None, lambda: None)
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
