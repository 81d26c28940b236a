"""What a partition has to have where it is read back, and who is fenced and asked then; without a broker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import cast

import pytest

from protocol.own.position import Position
from protocol.own.topic_log import Owner
from protocol.records.batches import Record, encode_records, read_header
from shim.kafka_log.lease import Lease
from shim.kafka_log.owning.claiming import LAST_EPOCH, Claiming
from shim.kafka_log.owning.reading_back import ReadingBack
from shim.kafka_log.owning.tenure import Tenure
from shim.kafka_log.producing.produced import Produced, Verdict
from shim.kafka_log.producing.sequence import ProducerSequence
from shim.kafka_log.reading.read_part import ReadPart
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import Leader
from shim.upstream.topic_reader import Fetched, TopicReader

OWN = (7, 1)
"""Producer id and epoch, of the fence at offset 0."""
FENCE_LEADER_EPOCH = 5


class Reader:
    """One fetch: batches of these producers, a record each, from offset 0 on."""

    def __init__(self, *producers: tuple[int, int]) -> None:
        self.producers = producers
        self.least_epochs: list[int] = []

    async def read_raw(self, position: Position, least_epoch: int) -> AsyncGenerator[Fetched[bytes], None]:
        self.least_epochs.append(least_epoch)
        batches = []
        for offset, (producer_id, epoch) in enumerate(self.producers):
            raw = encode_records(
                [Record(b"k", b"v", (), 0, 0)], producer_id=producer_id, producer_epoch=epoch, base_sequence=0
            )
            batches.append((read_header(raw)._replace(base_offset=offset), raw))
        yield Fetched(position, batches, len(batches), leader=Leader(1, FENCE_LEADER_EPOCH))
        raise AssertionError("that was all")


class Claims:
    """Nobody can be fenced, but it is known who was to be."""

    owner = Owner(bytes(16), "a test", 0)

    def __init__(self) -> None:
        self.fenced: list[int] = []

    async def fence_others(self, _tenure: Tenure, producer_ids: Sequence[int]) -> None:
        self.fenced += producer_ids
        raise UpstreamError("no broker has answered")


async def read_back(reader: Reader, claims: Claims) -> Tenure:
    fence = Produced(Verdict.WRITTEN, 0.0, 0, 0, FENCE_LEADER_EPOCH)
    tenure = Tenure(0, "t-0", ProducerSequence(*OWN), Lease(0.0), fence, served_last_claim=False)
    its = ReadingBack(
        cast(TopicReader, reader),
        cast(Claiming, claims),
        tenure,
        ReadPart("t", 0),
        patience_seconds=60.0,
        silent_seconds=lambda: 60.0,
    )
    async for _ in its.run(len, None):
        pass
    return tenure


@pytest.mark.parametrize("there", [(7, 0), (8, 1), (7, 2)])
async def test_the_fence_has_to_stand_where_it_was_written(there: tuple[int, int]) -> None:
    with pytest.raises(UpstreamError, match=r"^t-0: what was written at 0 is not there$"):
        await read_back(Reader(there), Claims())


async def test_who_led_before_the_fence_was_written_is_not_asked() -> None:
    reader = Reader(OWN)
    assert (await read_back(reader, Claims())).end == 1
    assert reader.least_epochs == [FENCE_LEADER_EPOCH]


async def test_who_was_fenced_for_good_is_not_fenced_again() -> None:
    claims = Claims()
    assert (await read_back(Reader(OWN, (3, LAST_EPOCH)), claims)).end == 2
    assert claims.fenced == []
    with pytest.raises(UpstreamError, match="no broker has answered"):
        await read_back(Reader(OWN, (3, LAST_EPOCH - 1)), claims)
    assert claims.fenced == [3]
