"""The batches of one partition, numbered as brokers want them (KIP-98), and what an answer to one of them means."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from protocol.errors import ErrorCode
from protocol.records.batches import of_producer, read_header

_LARGEST: Final = 2**31 - 1


class Verdict(Enum):
    """Of a batch that was sent. ``WRITTEN``: it is in all in-sync replicas. ``FENCED``: somebody else owns the
    partition (of a batch that was sent before, too, this says nothing of whether that was written). ``LOST``: the
    cluster has lost batches that it had acknowledged. ``REFUSED``: now and later. ``UNKNOWN``: the very same bytes are
    to be sent again, to whoever leads then, as brokers know what they have; once they are not, nobody knows what came
    of them.
    """

    WRITTEN = auto()
    FENCED = auto()
    LOST = auto()
    REFUSED = auto()
    UNKNOWN = auto()


_VERDICTS: Final = {
    ErrorCode.NONE: Verdict.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
    ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.LOST,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.LOST,
    # Of one batch at a time the broker knows more than the number only where others have written under it.
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.LOST,
}


def verdict_of(error_code: int) -> Verdict:
    """What a broker's answer to a batch means, one at a time being under way."""
    error = ErrorCode.for_code(error_code)
    return _VERDICTS.get(error, Verdict.UNKNOWN if error.retriable else Verdict.REFUSED)


class ProducerSequence:
    """Of one partition, under one producer id and epoch; a batch at a time."""

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self._next = 0
        self._end = 0
        self._under_way: bytes | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether one is stamped of which it is not known that it is written."""
        return self._under_way is not None

    @property
    def end(self) -> int:
        """The offset behind the last one that is known to be written; 0 before."""
        return self._end

    def stamp(self, batch: bytes) -> bytes:
        """The batch as the next one. Raises RuntimeError while there is another: a broker would take the second for the
        first, sent again, and say that it is written."""
        if self._under_way is not None:
            raise RuntimeError("two batches of one partition at a time")
        self._under_way = of_producer(batch, self.producer_id, self.epoch, self._next)
        return self._under_way

    def written(self, base_offset: int) -> bool:
        """The batch under way is in the log, and begins there. False where that is before the end of the one before it:
        then the log has lost that one, and the broker knows nothing of the producer any more."""
        assert self._under_way is not None
        count = read_header(self._under_way).record_count
        self._under_way = None
        if base_offset < self._end:
            return False
        self._end = base_offset + count
        left = _LARGEST - self._next
        # As Kafka counts: behind 2^31 - 1 comes 0 (DefaultRecordBatch.incrementSequence).
        self._next = count - left - 1 if count > left else self._next + count
        return True
