"""A runtime at work on a held log, and the requests of a client to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from shim.config import Settings
from shim.coordinator import Caller
from shim.disk_log import DiskBackend
from shim.log import LogSettings
from shim.runtime import Clock, Runtime
from tests.coordinator.driving import subscription
from tests.runtime.held_log import WAIT_SECONDS, HeldLog, Teller

PARTITIONS = 3
TOPIC = "orders"
CALLER = Caller("client", "/127.0.0.1")


class Running:
    """One runtime, its log, and one method for each request; each gives the ticket at once."""

    def __init__(self, runtime: Runtime, backend: DiskBackend, log: HeldLog) -> None:
        self.runtime = runtime
        self.backend = backend
        self.log = log
        self._stopped = False

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self.runtime.stop()

    async def read_back(self) -> None:
        """Wait until whatever of the log was to be read back by now has been."""
        await asyncio.get_running_loop().run_in_executor(self.backend._recoverer, lambda: None)

    def ticket(self, name: str) -> Teller:
        return Teller(name, self.log.history)

    def commit(self, group: str, offset: int, *, name: str = "commit") -> Teller:
        request = OffsetCommitRequest(
            group_id=group,
            topics=(OffsetCommitRequestTopic(TOPIC, partitions=(OffsetCommitRequestPartition(0, offset),)),),
        )
        ticket = self.ticket(name)
        self.runtime.submit(
            self.runtime.partition_of(group),
            lambda coordinator, now, asker: coordinator.offset_commit(now, CALLER, 8, request, asker),
            ticket,
        )
        return ticket

    def fetch(self, group: str) -> Teller:
        ticket = self.ticket("fetch")
        request = OffsetFetchRequestGroup(group_id=group, topics=None)
        self.runtime.ask(
            self.runtime.partition_of(group), lambda coordinator: coordinator.offset_fetch(request), ticket
        )
        return ticket

    def heartbeat(self, group: str) -> Teller:
        ticket = self.ticket("heartbeat")
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
        self.runtime.submit(
            self.runtime.partition_of(group),
            lambda coordinator, now, asker: coordinator.heartbeat(now, CALLER, 4, request, asker),
            ticket,
            after_flight=False,
        )
        return ticket

    def join(self, group: str) -> Teller:
        """A JoinGroup; the first member of a group is answered after ``group.initial.rebalance.delay.ms``."""
        ticket = self.ticket("join")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", subscription(TOPIC)),),
        )
        self.runtime.submit(
            self.runtime.partition_of(group),
            lambda coordinator, now, asker: coordinator.join_group(now, CALLER, 3, request, asker),
            ticket,
        )
        return ticket

    def group_in(self, partition: int, number: int = 0) -> str:
        """The id of a group of this offsets partition; another one for each ``number``."""
        found = (name for i in range(1_000) if self.runtime.partition_of(name := f"group-{i}") == partition)
        return [next(found) for _ in range(number + 1)][-1]


@asynccontextmanager
async def running(data_dir: Path, settings: Settings | None = None, *, admitted: bool = True) -> AsyncIterator[Running]:
    """A runtime that has loaded its log and writes; at the end it is stopped, and every write let through."""
    settings = settings or Settings(offsets_topic_num_partitions=PARTITIONS)
    log = HeldLog.at(data_dir, settings.offsets_topic_num_partitions, log_settings=LogSettings.of(settings))
    backend = DiskBackend(log, settings, Clock(), files=log.files)
    runtime = Runtime(backend, settings, Clock())
    if admitted:
        runtime.admit()
    await runtime.load()
    log.history.clear()
    writing = asyncio.create_task(runtime.run())
    shim = Running(runtime, backend, log)
    try:
        yield shim
    finally:
        shim.stop()
        log.release(1_000)
        async with asyncio.timeout(WAIT_SECONDS):
            await writing
        await runtime.close(WAIT_SECONDS)


def offset_in(fetched: OffsetFetchResponseGroup) -> int | None:
    """The one offset in the answer to :meth:`Running.fetch`, None when there is none."""
    offsets = [partition.committed_offset for topic in fetched.topics for partition in topic.partitions]
    return offsets[0] if offsets else None
