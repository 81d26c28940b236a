"""What a log of offsets is given to append, and what it is replayed by, wherever it is: on the disk, or on a topic of
the cluster.

Keys and values are bytes by then. Beside them stands what only a log on a topic has use for, as it says in records
(:mod:`protocol.own.topic_log`) what a log on the disk has by transactional batches and their markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from protocol.own.position import Header, Position, Producer
from protocol.own.topic_log import PendingKey, Settled
from protocol.records.record_runs import Run

RecordSet = Sequence[tuple[bytes, bytes | None]]
"""(key, value) pairs that are recovered all together or not at all; value None is a tombstone."""


class Runs(NamedTuple):
    """A record set of records that are framed many at once; ``total``: how many they are."""

    runs: Sequence[Run]
    total: int


class TransactionalSet(NamedTuple):
    """A record set of a producer's transaction: a transactional batch by itself. Each record gets the headers, as
    compaction may leave any of them.

    ``begun``: how far the cluster's log was taken over with the first batch of the transaction, where that was another
    one. On the disk that batch says so itself.
    """

    producer_id: int
    producer_epoch: int
    records: RecordSet
    headers: tuple[Header, ...] = ()
    begun: Position | None = None


class EndOfTransaction(NamedTuple):
    """The marker that ends a producer's transaction in the partition: a control batch by itself.

    ``settled``: what it makes of the records before it. On the disk those stay as long as it does.
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    headers: tuple[Header, ...] = ()
    settled: Sequence[Settled] = ()


class DroppingSet(NamedTuple):
    """A record set with tombstones that take what is pending in transactions, too.

    ``dropped``: that. On the disk a tombstone does so for as long as there is a record before it.
    """

    records: RecordSet
    dropped: Sequence[PendingKey]


Appended: TypeAlias = RecordSet | Runs | TransactionalSet | EndOfTransaction | DroppingSet


class InTransaction(NamedTuple):
    """A record is one of an open transaction (``committed`` None), or the marker that ends it.

    ``position``: see :mod:`protocol.own.position`; of a batch each record says it.
    """

    producer: Producer
    producer_epoch: int
    committed: bool | None
    position: Position | None


class LoggedRecord(NamedTuple):
    """One record of the log. ``timestamp``: milliseconds since the epoch; ``value`` None is a tombstone.

    ``transaction``: of a record that is in one, or ends one; None outside of transactions. Key and value of one that
    ends one are a control record's.
    """

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    transaction: InTransaction | None = None
