"""A stream of commits over plain sockets, several connections, pipelined; it knows what was acknowledged."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages import join_group, offset_commit, offset_fetch, sync_group
from tests.crash.acknowledged import Committed, GroupHistory, Offsets
from tests.wire import WireClient

VERSIONS = range(2, 10)  # of OffsetCommit
WITH_RETENTION = range(2, 5)
FIRST_WITH_LEADER_EPOCH = 6
WINDOW = 24  # commits under way on one connection
RETENTION_MS = 24 * 3600 * 1000
SESSION_TIMEOUT_MS = 300_000  # a member commits or is between two starts of the shim, and never heartbeats


class Membership(NamedTuple):
    """What a commit carries: of a simple group, or of a member in its generation."""

    generation_id: int = -1
    member_id: str = ""


class Committer:
    """One group that commits: each commit a number, in all its partitions at once, in any version."""

    def __init__(self, group: str, topic: str, partitions: int, rng: random.Random) -> None:
        self.history = GroupHistory(group)
        self.membership = Membership()
        self._topic = topic
        self._partitions = partitions
        self._rng = rng

    def next_commit(self) -> tuple[int, offset_commit.OffsetCommitRequest]:
        """Version and request of the next commit, on record in `history` as sent."""
        rng, history = self._rng, self.history
        history.number += 1
        version = rng.choice(VERSIONS)
        epoch = history.number % 1000 if version >= FIRST_WITH_LEADER_EPOCH else -1
        several = rng.random() < 0.5
        chosen = rng.sample(range(self._partitions), rng.randint(2, self._partitions) if several else 1)
        offsets = {
            partition: Committed(
                history.number, epoch, f"{history.group}/{history.number}/{partition} " + "é" * rng.randint(0, 90)
            )
            for partition in chosen
        }
        history.sending(offsets)
        partitions = tuple(
            offset_commit.OffsetCommitRequestPartition(
                partition, committed.offset, committed.leader_epoch, committed_metadata=committed.metadata
            )
            for partition, committed in offsets.items()
        )
        return version, offset_commit.OffsetCommitRequest(
            group_id=history.group,
            generation_id_or_member_epoch=self.membership.generation_id,
            member_id=self.membership.member_id,
            retention_time_ms=RETENTION_MS if version in WITH_RETENTION and rng.random() < 0.5 else -1,
            topics=(offset_commit.OffsetCommitRequestTopic(self._topic, partitions=partitions),),
        )


def join(port: int, committer: Committer, topic: str) -> None:
    """Make the group one of the `consumer` protocol with one member, in whose name it commits from now on."""
    group = committer.history.group
    protocol = join_group.JoinGroupRequestProtocol("range", encode_subscription(ConsumerProtocolSubscription((topic,))))
    assignment = encode_assignment(ConsumerProtocolAssignment((TopicPartition(topic, (0,)),)))
    with WireClient(port) as client:
        joined = client.ask(
            join_group.API,
            3,
            join_group.JoinGroupRequest(
                group, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, protocol_type="consumer", protocols=(protocol,)
            ),
        )
        assert joined.error_code == ErrorCode.NONE
        synced = client.ask(
            sync_group.API,
            3,
            sync_group.SyncGroupRequest(
                group,
                joined.generation_id,
                joined.member_id,
                assignments=(sync_group.SyncGroupRequestAssignment(joined.member_id, assignment),),
            ),
        )
        assert synced.error_code == ErrorCode.NONE
    committer.membership = Membership(joined.generation_id, joined.member_id)


def served(port: int, groups: Sequence[str], topic: str) -> Mapping[str, Offsets]:
    """What the shim serves for these groups; asserts that it serves them, and no other topic."""
    asked = tuple(offset_fetch.OffsetFetchRequestGroup(group, topics=None) for group in groups)
    with WireClient(port) as client:
        response = client.ask(offset_fetch.API, 8, offset_fetch.OffsetFetchRequest(groups=asked))
    assert [found.group_id for found in response.groups] == list(groups)
    for found in response.groups:
        assert found.error_code == ErrorCode.NONE, f"{found.group_id}: {ErrorCode.for_code(found.error_code).name}"
        assert {t.name for t in found.topics} <= {topic}
    return {
        found.group_id: {
            p.partition_index: Committed(p.committed_offset, p.committed_leader_epoch, p.metadata or "")
            for t in found.topics
            for p in t.partitions
        }
        for found in response.groups
    }


class Load:
    """All committers, shared out among connections to these ports, at work until the shim is killed."""

    def __init__(self, ports: Sequence[int], committers: Sequence[Committer], connections: int, seed: int) -> None:
        self.acknowledged = 0
        self._ports = ports
        self._shares = [committers[i::connections] for i in range(connections)]
        self._rng = random.Random(seed)

    async def until_killed(self, after: int, kill: Callable[[], object]) -> None:
        """Commit; call `kill` at the answer that is number `after`, and return when every connection has ended.

        Answers that were on their way at that moment count as acknowledged: their clients would have read them, too.
        """
        self._left, self._kill, self._killed = after, kill, False
        async with asyncio.TaskGroup() as tasks:
            for number, share in enumerate(self._shares):
                port = self._ports[number % len(self._ports)]
                tasks.create_task(self._one_connection(port, share, random.Random(self._rng.random())))

    async def _one_connection(self, port: int, share: Sequence[Committer], rng: random.Random) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        under_way: deque[tuple[int, Committer]] = deque()
        room = asyncio.Semaphore(WINDOW)
        sending = asyncio.create_task(self._send(writer, share, rng, under_way, room))
        try:
            await self._receive(reader, under_way, room)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        share: Sequence[Committer],
        rng: random.Random,
        under_way: deque[tuple[int, Committer]],
        room: asyncio.Semaphore,
    ) -> None:
        correlation_id = 0
        while not self._killed:
            await room.acquire()
            committer = rng.choice(share)
            version, request = committer.next_commit()
            under_way.append((version, committer))
            correlation_id += 1
            try:
                writer.write(offset_commit.API.request_frame(version, correlation_id, "load", request))
                await writer.drain()
            except ConnectionError:
                return

    async def _receive(
        self, reader: asyncio.StreamReader, under_way: deque[tuple[int, Committer]], room: asyncio.Semaphore
    ) -> None:
        correlation_id = 0
        while True:
            try:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                assert self._killed, "the shim ended a connection by itself"
                return
            version, committer = under_way.popleft()
            answered, response = offset_commit.API.parse_response(version, frame)
            correlation_id += 1
            assert answered == correlation_id
            _assert_accepted(response.topics)
            committer.history.acknowledge()
            self.acknowledged += 1
            self._left -= 1
            if not self._left:
                self._killed = True
                self._kill()
            room.release()


def _assert_accepted(topics: Iterable[offset_commit.OffsetCommitResponseTopic]) -> None:
    for topic in topics:
        for partition in topic.partitions:
            assert partition.error_code == ErrorCode.NONE, ErrorCode.for_code(partition.error_code).name
