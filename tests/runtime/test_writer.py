"""The writer by itself: who is answered when a write of several partitions fails in part."""

from __future__ import annotations

import errno
from pathlib import Path

from protocol.own.history_log import HISTORY_TOPIC
from shim.log import OFFSETS_TOPIC
from shim.runtime import Clock
from shim.runtime.local_ends import LocalEnds
from shim.runtime.snapshots import Snapshots
from shim.runtime.writer import Writer
from tests.runtime.held_log import HeldLog, Teller


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
