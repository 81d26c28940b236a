"""Commits and rebalances at full rate, on connections that come and go; it knows what has to be served in the end."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import Iterator, Sequence

from protocol.errors import ErrorCode
from protocol.messages import join_group, leave_group, offset_commit
from tests.wire import WireClient

VERSION = 8
OFFSETS_PER_COMMIT = 10
WINDOW = 64  # commits under way on one connection
COMMITS_PER_CONNECTION = 2_000
_SESSION_TIMEOUT_MS = 10_000


class Connection:
    """Commits for groups of its own, one after the other, and connects anew again and again."""

    def __init__(self, port: int, groups: Sequence[str], topic: str, partitions: int, seed: int) -> None:
        self.expected: dict[str, dict[int, int]] = {group: {} for group in groups}
        self.acknowledged = 0
        self._port = port
        self._groups = groups
        self._topic = topic
        self._partitions = range(partitions)
        self._rng = random.Random(seed)
        self._number = 0

    async def run(self, until: float) -> None:
        """Until this time of `time.monotonic`, and then until everything is acknowledged."""
        while time.monotonic() < until:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            room = asyncio.Semaphore(WINDOW)
            requests = list(self._requests())
            receiving = asyncio.create_task(self._receive(reader, len(requests), room))
            try:
                for request in requests:
                    await room.acquire()
                    writer.write(offset_commit.API.request_frame(VERSION, 0, "endurance", request))
                    await writer.drain()
                await receiving
            finally:
                receiving.cancel()
                writer.close()
            await writer.wait_closed()

    def _requests(self) -> Iterator[offset_commit.OffsetCommitRequest]:
        for _ in range(COMMITS_PER_CONNECTION):
            group = self._rng.choice(self._groups)
            self._number += 1
            chosen = self._rng.sample(self._partitions, OFFSETS_PER_COMMIT)
            self.expected[group].update(dict.fromkeys(chosen, self._number))
            offsets = tuple(
                offset_commit.OffsetCommitRequestPartition(partition, self._number, committed_metadata="")
                for partition in chosen
            )
            yield offset_commit.OffsetCommitRequest(
                group_id=group, topics=(offset_commit.OffsetCommitRequestTopic(self._topic, partitions=offsets),)
            )

    async def _receive(self, reader: asyncio.StreamReader, count: int, room: asyncio.Semaphore) -> None:
        accepted: bytes | None = None
        for _ in range(count):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            frame = await reader.readexactly(size)
            # Parsing each answer would keep the load below the full rate; most are equal but for their partitions.
            if accepted is None or self._rng.random() < 0.01 or len(frame) != len(accepted):
                _assert_accepted(frame)
                accepted = frame
            self.acknowledged += 1
            room.release()


def _assert_accepted(frame: bytes) -> None:
    _, response = offset_commit.API.parse_response(VERSION, frame)
    for topic in response.topics:
        assert {partition.error_code for partition in topic.partitions} == {ErrorCode.NONE}


def join_and_leave(port: int, group: str) -> None:
    """One generation of a group of one member."""
    protocol = join_group.JoinGroupRequestProtocol("range", b"")
    with WireClient(port) as client:
        joined = client.ask(
            join_group.API,
            3,
            join_group.JoinGroupRequest(
                *(group, _SESSION_TIMEOUT_MS, _SESSION_TIMEOUT_MS), protocol_type="endurance", protocols=(protocol,)
            ),
        )
        assert joined.error_code == ErrorCode.NONE
        left = client.ask(leave_group.API, 1, leave_group.LeaveGroupRequest(group, joined.member_id))
        assert left.error_code == ErrorCode.NONE
