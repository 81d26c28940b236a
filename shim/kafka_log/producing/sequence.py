"""The batches of one partition, numbered as brokers want them (KIP-98)."""

from __future__ import annotations

from typing import Final

from protocol.records.batches import of_producer, read_header

_LARGEST: Final = 2**31 - 1


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
