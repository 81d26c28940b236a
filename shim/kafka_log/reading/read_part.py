"""What was read of an offsets partition on a topic, from its beginning on: up to where, and what it says of owners.

Each replica of a partition is compacted by itself, and a broker that is cut off from the controllers leads on without
knowing what another one has been told since. So of what was read under one leader it is not known whether it had the
end, nor what another leader's log had behind it, once there is another one: what stands there may be what compaction
has left of records that delete what was read. Where nothing is missing nothing was compacted; otherwise the partition
has to be read from its beginning.

A reading takes a while, and compaction goes on: a record that was read may be removed together with the tombstone that
deletes it before that one is come to. So what is read from the beginning is told first what is deleted (deletions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

from protocol.errors import DecodeError
from protocol.own.position import UNKNOWN_EPOCH, Position
from protocol.own.record_sets import LoggedRecord
from protocol.own.topic_log import Owner, decode_own, is_own
from protocol.records.batches import MAX_DECOMPRESSED_SIZE, BatchError, BatchHeader, Record, records_of
from protocol.topic_partition import TopicPartition
from shim.boottime import boottime
from shim.kafka_log.lease import LONGEST_SECONDS, Claim
from shim.log import LogError
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import Leader

LEFT_ALONE_SECONDS: Final = 60.0
"""Claims that are younger compaction leaves (``min.compaction.lag.ms`` is no less), and the one before them."""


class NotWhole(UpstreamError):
    """Behind what was read under one leader something is missing at another one."""


class _Said:
    """Claims in a row that are the same. ``since``: when the first of them was read, of CLOCK_BOOTTIME."""

    __slots__ = ("owner", "since")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.since = boottime()


class ReadPart:
    """``position``: behind the last batch. ``records``: how many were read. ``epochs``: by producer id, the newest
    epoch that has written."""

    def __init__(self, topic: str, number: int) -> None:
        self.position = Position(number, 0)
        self.records = 0
        self.epochs: dict[int, int] = {}
        self._leader: Leader | None = None
        self._has_to_be_whole = False
        self._deleted: Mapping[bytes, int] | None = None
        self._name = str(TopicPartition(topic, number))
        self._claims: list[_Said] = []

    @classmethod
    def behind(cls, topic: str, position: Position, owner: Owner, epochs: Mapping[int, int]) -> Self:
        """Of which that was read by somebody before, as far as it matters from there on."""
        part = cls(topic, position.partition)
        part.position = position
        part.epochs |= epochs
        part._claim(owner)
        return part

    def know_deleted(self, offsets: Mapping[bytes, int], leader: Leader, topic_id: bytes) -> None:
        """Before anything is taken: which keys that leader's log of that topic deletes, and at which offset last."""
        self._deleted = offsets
        self._leader = leader
        self.position = self.position._replace(topic_id=topic_id)

    def told_by(self, leader: Leader) -> None:
        """What is taken from now on; where somebody else may have led since, nothing of it may be missing: then what is
        deleted further on is there, too."""
        before, self._leader = self._leader, leader
        is_begun = self.position.next_offset > 0
        if before is None or leader == before or (is_begun and leader.has_led_since(before)):
            return
        # Nobody has asked whether the log is the one of which it is known what is deleted, so it has to be the very
        # same leader before anything is taken: another log may have lost that, and have the key anew.
        if is_begun or self._deleted is not None:
            self._has_to_be_whole, self._deleted = True, None

    def fetched(self, start: Position, leader: Leader) -> None:
        """What is taken next stands there, as that leader tells. Raises LogError where what is before it is gone."""
        reached = self.position.next_offset
        if start.next_offset > reached:
            raise LogError(f"{self._name}: offsets {reached} to {start.next_offset} are gone")
        self.told_by(leader)
        self.position = start

    @property
    def leader_epoch(self) -> int:
        """Of who was asked last."""
        return UNKNOWN_EPOCH if self._leader is None else self._leader.epoch

    def at_end(self) -> None:
        """Who was asked last says that nothing stands behind what was taken."""
        self._has_to_be_whole = False
        self._deleted = None

    def take_all(
        self,
        batches: Iterable[tuple[BatchHeader, bytes]],
        replay: Callable[[list[LoggedRecord]], object],
        fence: int | None = None,
    ) -> None:
        """Batches as they were fetched, of which the first is the next one, and CRCs are checked; ``replay`` is given
        the records of each. Raises as :meth:`take`, LogError also for what cannot be decoded, and what ``replay``
        raises."""
        for header, raw in batches:
            try:
                records = records_of(raw, 0, header, MAX_DECOMPRESSED_SIZE)
            except BatchError as error:
                raise LogError(f"{self._name} offset {header.base_offset}: {error}") from error
            replay(self.take(header, records, fence))

    def take(self, header: BatchHeader, records: Sequence[Record], fence: int | None = None) -> list[LoggedRecord]:
        """The next batch, as records to replay; of what is known to be deleted none. ``fence``: the offset of this
        process's own, which is none of a former owner's, nor is what stands behind it. Raises LogError for what no shim
        has written, NotWhole."""
        if header.is_transactional or header.is_control or header.producer_id < 0:
            raise LogError(f"{self._name} offset {header.base_offset}: a batch that no shim has written")
        if self._has_to_be_whole and not self._is_whole(header):
            raise NotWhole(
                f"what stands behind offset {self.position.next_offset} was compacted, at another leader than the one "
                "that told what is before it"
            )
        for owner, at in self._owners(records):
            if fence is None or at < fence:
                self._claim(owner)
        self.epochs[header.producer_id] = max(header.producer_epoch, self.epochs.get(header.producer_id, -1))
        self.position = self.position.behind(header)
        self.records += len(records)
        logged = [self._logged(each) for each in records]
        if deleted := self._deleted:
            return [each for each in logged if deleted.get(each.key, each.offset) <= each.offset]
        return logged

    def _is_whole(self, header: BatchHeader) -> bool:
        """Whether nothing is missing between what was read and the end of the batch. Compaction leaves offsets as they
        were."""
        return header.base_offset == self.position.next_offset and header.record_count == header.last_offset_delta + 1

    def _claim(self, owner: Owner) -> None:
        if not 0 <= owner.lease_ms <= LONGEST_SECONDS * 1000:
            raise LogError(f"{self._name}: {owner.name} has a lease of {owner.lease_ms} ms")
        if not self._claims or self._claims[-1].owner != owner:
            self._claims.append(_Said(owner))

    def _owners(self, records: Sequence[Record]) -> Iterator[tuple[Owner, int]]:
        """With their offsets."""
        for each in records:
            if each.key is not None and is_own(each.key):
                try:
                    _, value = decode_own(each.key, each.value)
                except DecodeError as error:
                    where = f"{self._name} offset {each.offset}"
                    raise LogError(f"{where}: the record cannot be decoded: {error}") from error
                if isinstance(value, Owner):
                    yield value, each.offset

    def _logged(self, record: Record) -> LoggedRecord:
        if record.key is None:
            raise LogError(f"{self._name} offset {record.offset}: a record without a key")
        return LoggedRecord(record.offset, record.timestamp, record.key, record.value)

    @property
    def last_owner(self) -> Owner | None:
        return self._claims[-1].owner if self._claims else None

    def claims(self, incarnation: bytes) -> list[Claim]:
        """In the order of the log; those of that incarnation are own ones."""
        return [
            Claim(its.owner.lease_ms / 1000, bool(its.owner.released), its.owner.incarnation == incarnation)
            for its in self._claims
        ]

    def forget_claims(self) -> None:
        """Those that whoever reads the partition from now on need not find: compaction may have removed them. Not while
        it is read by its owner, for whom time has stood still since its fence."""
        old = boottime() - LEFT_ALONE_SECONDS
        while len(self._claims) > 1 and self._claims[1].since < old:
            del self._claims[0]
