"""Where nobody knows whether the word on a group is on disk, the group is nobody's until it is certain."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any, cast

from protocol.errors import ErrorCode
from protocol.group_kinds import CLASSIC
from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.disk_log import DiskBackend
from shim.migration.dual.lookup import Lookup
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import Placements, Whose
from shim.migration.migration import Migration
from shim.migration.mirror.guard import Guard
from shim.migration.mirror.mirror import Mirror
from shim.migration.stores import Stores
from shim.migration.words import Refused
from shim.offsets.cluster.groups import ClusterGroups
from shim.runtime import Clock, Runtime
from tests.migration.no_groups import NoGroups, none_blocked, none_uncertain, passed_by
from tests.runtime.held_log import HeldLog

SETTINGS = Settings(offsets_topic_num_partitions=1, offsets_commit_timeout_ms=1_000)
WAIT_SECONDS = 30


async def test_a_word_that_may_be_lost(tmp_path: Path) -> None:
    log = HeldLog.at(tmp_path, 1, topics=(OFFSETS_TOPIC, HISTORY_TOPIC, STATE_TOPIC))
    runtime = Runtime(DiskBackend(log, SETTINGS, Clock(), files=log.files), SETTINGS, Clock())
    runtime.admit()
    await runtime.load()
    writing = asyncio.create_task(runtime.run())
    cluster = cast(ClusterGroups, NoGroups())
    mirror = Mirror(runtime, cluster, SETTINGS, none_blocked)
    stores, guard = Stores(runtime, mirror, None), Guard(runtime, cluster, mirror)
    lookup = Lookup(None)
    placements = Placements(runtime)
    first_contact = FirstContact(runtime, placements, cluster, SETTINGS, passed_by, lookup)
    migration = Migration(
        *(runtime, cluster, first_contact, placements, stores, lookup, guard, SETTINGS),
        *(passed_by, none_uncertain, Clock()),
    )
    log.release()
    assert await first_contact.find_out("g", CLASSIC) is ErrorCode.NONE
    assert placements.of("g") is Whose.SERVED
    lost, read_back = asyncio.Event(), asyncio.Event()
    runtime.watch(lambda _, coordinator: (lost if coordinator is None else read_back).set())
    refused = None
    try:
        await migration.rollback("g", "why")
    except Refused as error:
        refused = str(error)
    assert refused == "group g: the log answers COORDINATOR_NOT_AVAILABLE"
    assert placements.of("g") is Whose.CHANGING

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "the disk")

    log.files.faults["pwrite"] = fails
    log.release()
    async with asyncio.timeout(WAIT_SECONDS):
        await lost.wait()
        log.files.faults.clear()
        log.release(50)
        await read_back.wait()
        await placements.certain("g")
        await asyncio.sleep(0)  # as whoever waits for that has been told
    assert placements.of("g") is Whose.SERVED
    runtime.stop()
    log.release(1000)
    async with asyncio.timeout(WAIT_SECONDS):
        await writing
    await runtime.close(WAIT_SECONDS)
