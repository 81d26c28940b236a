"""Reads a topic of the cluster's as a consumer of its partitions does, but raw: batches, transactions and markers.

Whether the log is still the one that was read up to a position is asked of the leader whenever there may be another
one (KIP-320): under one leader epoch a log only grows, and requests that name the epoch are refused under any other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from protocol.errors import ErrorCode
from protocol.messages import fetch, list_offsets, offset_for_leader_epoch
from protocol.own.position import UNKNOWN_EPOCH, Position
from protocol.records.batches import BatchError, BatchHeader, Record, TruncatedBatch, batches
from protocol.records.fetched import decode_fetched
from protocol.wire import ZERO_UUID
from shim.config import Settings
from shim.upstream.cluster import Cluster
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError, raise_for
from shim.upstream.in_vain import IN_VAIN_TIMES, AskedInVain
from shim.upstream.reading_trouble import Reading, ReadingTrouble
from shim.upstream.topic_leaders import Leader, LedTopic, TopicLeaders

log = logging.getLogger(__name__)

# From 13 on topics are named by id alone; from 16 on new leaders are named by address.
_NEWEST_FETCH: Final = 15
_NEWEST_FETCH_BY_NAME: Final = 12
_NEWEST_LIST_OFFSETS: Final = 8
# The first that a consumer may send, and that is refused under another leader epoch.
_OLDEST_FOR_LEADER_EPOCH: Final = 2

_RETRY_S: Final = 0.2
_GONE_RETRY_S: Final = 5.0
_MAX_WAIT_MS: Final = 2_000
_MAX_BYTES: Final = 1 << 20
_EARLIEST, _LATEST = -2, -1

_PATIENCE_S: Final = 3.0
"""A broker that hangs holds up for so long; a slow one is waited for longer once it was too slow a few times."""
_LONGER_TIMES: Final = 6
"""By then it is longer than any time-out of a request."""


def patience_after(failures: int) -> float:
    """Seconds, however often it has failed."""
    return _PATIENCE_S * 2.0 ** min(failures // IN_VAIN_TIMES, _LONGER_TIMES)


class _OutOfRange(Exception):
    """The log does not have that offset."""


Content = TypeVar("Content")


class Fetched(NamedTuple, Generic[Content]):
    """What one fetch has brought, from ``start`` on; there may be nothing in it.

    ``is_reset``: the log is the one that was read only up to ``start``, which is before where it was read last.
    ``end_offset``: where the log ended when the leader was found; ``high_watermark``: likewise, by this answer.
    ``leader``: who has answered.
    """

    start: Position
    batches: list[tuple[BatchHeader, Content]]
    end_offset: int
    is_reset: bool = False
    high_watermark: int = -1
    leader: Leader = Leader()  # it is immutable

    @property
    def position(self) -> Position:
        """Behind the last batch."""
        position = self.start
        for header, _ in self.batches:
            position = position.behind(header)
        return position


Read: TypeAlias = Fetched[list[Record]]

_Decode: TypeAlias = Callable[[bytes], Iterator[tuple[BatchHeader | None, Content]]]


def _undecoded(buf: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    for at, header in batches(buf):
        yield header, buf[at : at + header.size]


class TopicReader:
    """Of one topic. Each reading has a connection of its own."""

    def __init__(self, cluster: Cluster, settings: Settings, topic: str) -> None:
        self._leaders = TopicLeaders(cluster, settings, topic)
        self._settings = settings
        self._topic = topic
        self._trouble = ReadingTrouble(log, topic)
        self._in_vain = AskedInVain()

    async def partition_count(self) -> int:
        """Raises TopicUnknown, UpstreamError."""
        with self._in_vain.asking(None) as passed_over:
            return len((await self._leaders.look_up(_PATIENCE_S, passed_over=passed_over)).places)

    async def end_of(self, partition: int) -> Position:
        """The high watermark: everything that is written from now on is at or above it. Raises UpstreamError."""
        topic_id, (found,) = await self._offsets(partition, _LATEST)
        return Position(partition, found.offset, found.leader_epoch, found.offset, topic_id)

    async def ends_of(self, partition: int) -> tuple[int, int]:
        """The earliest offset that is there, and the high watermark. Raises UpstreamError."""
        _, (earliest, latest) = await self._offsets(partition, _EARLIEST, _LATEST)
        return earliest.offset, latest.offset

    async def stands(self, position: Position, least_epoch: int = UNKNOWN_EPOCH) -> bool:
        """Whether the log is the one that was read up to there, and still has its beginning, as a leader says whose
        epoch is ``least_epoch`` or newer. False, too, where nobody can say. Raises UpstreamError."""
        with self._in_vain.asking(position.partition) as passed_over:
            topic = await self._led(position, least_epoch, _PATIENCE_S, passed_over)
            connection, leading = await self._to_leader(topic, position.partition, _PATIENCE_S)
            try:
                if not leading.tells_epochs(position) or position.is_of_another_topic(topic.topic_id):
                    return False
                standing = await leading.standing(position)
                return standing == position and (await leading.offset(_EARLIEST)).offset == 0
            finally:
                connection.close()

    async def batch_at(
        self, partition: int, offset: int, least_epoch: int = UNKNOWN_EPOCH
    ) -> tuple[bytes, BatchHeader | None]:
        """The batch with that offset, or the next one that is left, with the topic's id, as a leader says whose epoch
        is ``least_epoch`` or newer; None where none is there yet. CRCs checked. Raises BatchError, UpstreamError."""
        with self._in_vain.asking(partition) as passed_over:
            topic = await self._led(Position(partition, offset), least_epoch, _PATIENCE_S, passed_over)
            connection, leading = await self._to_leader(topic, partition, _PATIENCE_S)
            try:
                found, _ = await leading.fetch(offset, 0, _undecoded)
            except _OutOfRange:
                found = []
            finally:
                connection.close()
        return topic.topic_id, found[0][0] if found else None

    async def _offsets(
        self, partition: int, *timestamps: int
    ) -> tuple[bytes, list[list_offsets.ListOffsetsPartitionResponse]]:
        """With the topic's id."""
        with self._in_vain.asking(partition) as passed_over:
            topic = await self._leaders.look_up(_PATIENCE_S, passed_over=passed_over)
            connection, leading = await self._to_leader(topic, partition, _PATIENCE_S)
            try:
                return topic.topic_id, [await leading.offset(timestamp) for timestamp in timestamps]
            finally:
                connection.close()

    def read(self, position: Position) -> AsyncGenerator[Read, None]:
        """Its partition from there on, up to the high watermark, for ever; whatever keeps it from reading is tried
        again. The first one comes at once, also where there is nothing to be read.

        Where the log is not the one that was read up to there, and where the offset is not there any more, it goes on
        where it still is, or is again, and says so in the log.
        """
        return self._read(position, UNKNOWN_EPOCH, decode_fetched)

    def read_raw(self, position: Position, least_epoch: int = UNKNOWN_EPOCH) -> AsyncGenerator[Fetched[bytes], None]:
        """Likewise, of a topic that nobody writes to in formats before magic 2: each batch as it is, CRCs checked.

        ``least_epoch``: of a leader that is known to have been the last one by now. A broker that is cut off from the
        controllers leads on under an older one, and does not know what another has been told since.
        """
        return self._read(position, least_epoch, _undecoded)

    async def _read(
        self, position: Position, least_epoch: int, decode: _Decode[Content]
    ) -> AsyncGenerator[Fetched[Content], None]:
        reading: Reading = object()
        failures = 0
        named: LedTopic | None = None
        try:
            while True:
                connection, retry_s = None, _RETRY_S
                patience, passed_over = patience_after(failures), self._in_vain.passed_over(position.partition)
                try:
                    topic = named = await self._led(position, least_epoch, patience, passed_over, named)
                    if position.partition not in topic.places and position.is_of_another_topic(topic.topic_id):
                        start = Position(position.partition, 0, topic_id=topic.topic_id)
                        self._tell_of(start, position)
                        yield Fetched(start, [], 0, is_reset=True)
                        position = start
                    if position.partition not in topic.places:
                        retry_s = _GONE_RETRY_S
                    connection, leading = await self._to_leader(topic, position.partition, patience)
                    # Refused by one that has come to lead, until its high watermark is behind the former one's: what is
                    # read to the high watermark is read to an end that was one before.
                    end_offset = (await leading.offset(_LATEST)).offset
                    start = await leading.standing(position)
                    max_wait_ms = 0
                    while True:
                        try:
                            fetched, high_watermark = await leading.fetch(start.next_offset, max_wait_ms, decode)
                        except _OutOfRange:
                            start = await leading.nearer_end(start)
                            continue
                        self._trouble.went_well(reading, start)
                        failures = 0
                        # Before the first answer it is not known whether who has answered is the leader of this topic.
                        is_another = position.is_of_another_topic(start.topic_id)
                        is_reset = is_another or start.next_offset < position.next_offset
                        if is_reset or start.next_offset > position.next_offset:
                            self._tell_of(start, position)
                        read = Fetched(
                            start, fetched, end_offset, is_reset, high_watermark, topic.leader(start.partition)
                        )
                        yield read
                        position = start = read.position
                        max_wait_ms = min(_MAX_WAIT_MS, self._settings.request_timeout_ms // 2)
                except (UpstreamError, BatchError) as error:
                    failures += 1
                    self._in_vain.failed(position.partition)
                    self._trouble.failed(reading, position, error)
                finally:
                    if connection is not None:
                        connection.close()
                await asyncio.sleep(retry_s)
        finally:
            self._trouble.ended(reading)

    async def _led(
        self,
        position: Position,
        least_epoch: int,
        patience: float,
        passed_over: int,
        named: LedTopic | None = None,
    ) -> LedTopic:
        """Who leads. A newer leader is believed of any broker, as epochs have an order; another topic, and one that was
        put back to an earlier time, of most brokers alone. ``named``: what was told last, than which
        whoever is asked next tells nothing older. Raises UpstreamError."""
        partition, least = position.partition, max(least_epoch, position.leader_epoch)

        def is_newer(topic: LedTopic) -> bool:
            return topic.leader_epoch(partition) >= least and not position.is_of_another_topic(topic.topic_id)

        topic = await self._leaders.look_up(patience, passed_over=passed_over)
        if named is not None and named.topic_id == topic.topic_id:
            least = max(least, named.leader_epoch(partition))
        if not position.is_of_another_topic(topic.topic_id):
            if not topic.is_older(partition, least):
                return topic
            newer = await self._leaders.look_up_as(is_newer, patience)
            if newer is not None:
                return newer
        topic = await self._leaders.look_up_at_most_brokers(partition, patience)
        if topic.is_older(partition, least_epoch):
            raise UpstreamError(
                f"{self._topic}-{partition}: nobody names a leader of epoch {least_epoch} yet, and there was one"
            )
        return topic

    def _tell_of(self, start: Position, position: Position) -> None:
        why = (
            "the topic was made anew"
            if position.is_of_another_topic(start.topic_id)
            else (
                "the cluster has lost the end of its log"
                if start.next_offset < position.next_offset
                else "what stood there was deleted, and is not known"
            )
        )
        log.error(
            "the cluster's %s-%d was read up to offset %d, and is read on from %d: %s",
            *(self._topic, position.partition, position.next_offset, start.next_offset, why),
        )

    async def _to_leader(self, topic: LedTopic, partition: int, patience: float) -> tuple[BrokerConnection, _Leading]:
        place = topic.places.get(partition)
        if place is None or place.leader is None:
            raise UpstreamError(f"{self._topic}-{partition} " + ("has no leader" if place else "is not there"))
        connection = BrokerConnection(place.leader, self._settings, patience)
        await connection.open()
        return connection, _Leading(connection, self._topic, topic.topic_id, partition, place.leader_epoch)


class _Leading:
    """A partition, at the broker that is said to lead it: one that does not, or under another epoch, refuses."""

    def __init__(
        self, connection: BrokerConnection, topic: str, topic_id: bytes, partition: int, leader_epoch: int
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._topic_id = topic_id
        self._partition = partition
        self._leader_epoch = leader_epoch
        self._name = f"{topic}-{partition}"

    async def fetch(
        self, offset: int, max_wait_ms: int, decode: _Decode[Content]
    ) -> tuple[list[tuple[BatchHeader, Content]], int]:
        """With the high watermark. Raises _OutOfRange, UpstreamError, BatchError."""
        wanted = fetch.FetchPartition(
            self._partition,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=_MAX_BYTES,
        )
        request = fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=(fetch.FetchTopic(self._topic, self._topic_id, (wanted,)),),
        )
        newest = _NEWEST_FETCH if self._topic_id != ZERO_UUID else _NEWEST_FETCH_BY_NAME
        answer = await self._connection.ask(fetch.API, request, at_most=newest)
        raise_for(answer.error_code, self._name)
        found = next((each for topic in answer.responses for each in topic.partitions), None)
        if found is None:
            raise UpstreamError(f"{self._connection.address}: Fetch of {self._name} was answered with nothing")
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise _OutOfRange
        raise_for(found.error_code, self._name)
        fetched = []
        try:
            for header, content in decode(found.records or b""):
                if header is not None and header.next_offset > offset:
                    fetched.append((header, content))
        except TruncatedBatch:
            pass  # a response may end in the middle of a batch
        return fetched, found.high_watermark

    def tells_epochs(self, position: Position) -> bool:
        """Whether :meth:`standing` can find out anything of that one."""
        return UNKNOWN_EPOCH not in (position.leader_epoch, self._leader_epoch) and self._connection.offers(
            offset_for_leader_epoch.API, _OLDEST_FOR_LEADER_EPOCH
        )

    async def standing(self, position: Position) -> Position:
        """How far this is the log that was read up to ``position``. Raises UpstreamError."""
        if position.is_of_another_topic(self._topic_id):
            earliest = (await self.offset(_EARLIEST)).offset
            return Position(self._partition, earliest, epoch_offset=earliest, topic_id=self._topic_id)
        if self._topic_id != ZERO_UUID:
            position = position._replace(topic_id=self._topic_id)
        if not self.tells_epochs(position):
            return position
        wanted = offset_for_leader_epoch.OffsetForLeaderPartition(
            self._partition, self._leader_epoch, position.leader_epoch
        )
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1, topics=(offset_for_leader_epoch.OffsetForLeaderTopic(self._topic, (wanted,)),)
        )
        answer = await self._connection.ask(offset_for_leader_epoch.API, request, at_least=_OLDEST_FOR_LEADER_EPOCH)
        ((found,),) = (topic.partitions for topic in answer.topics)
        raise_for(found.error_code, self._name)
        if found.leader_epoch != UNKNOWN_EPOCH:
            return position.agreed(found.leader_epoch, found.end_offset)
        # The leader knows of no epoch up to that one, or of none as new as that one.
        return position.agreed(UNKNOWN_EPOCH, (await self.offset(_LATEST)).offset)

    async def nearer_end(self, position: Position) -> Position:
        """Where to go on in place of an offset that is not there. Raises UpstreamError."""
        earliest = (await self.offset(_EARLIEST)).offset
        latest = (await self.offset(_LATEST)).offset
        nearer = min(max(position.next_offset, earliest), latest)
        if nearer == position.next_offset:
            raise UpstreamError(f"{self._name} has offsets {earliest} to {latest}, and yet not {nearer}")
        return position._replace(next_offset=nearer, leader_epoch=UNKNOWN_EPOCH, epoch_offset=nearer)

    async def offset(self, timestamp: int) -> list_offsets.ListOffsetsPartitionResponse:
        """Raises UpstreamError."""
        wanted = list_offsets.ListOffsetsPartition(self._partition, self._leader_epoch, timestamp)
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=(list_offsets.ListOffsetsTopic(self._topic, (wanted,)),)
        )
        answer = await self._connection.ask(list_offsets.API, request, at_most=_NEWEST_LIST_OFFSETS)
        ((found,),) = (topic.partitions for topic in answer.topics)
        raise_for(found.error_code, self._name)
        return found
