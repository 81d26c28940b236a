"""What is written to claim a partition, without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from protocol.own.topic_log import Owner
from protocol.records.batches import read_header
from shim.kafka_log.owning.claiming import LAST_EPOCH, Claiming
from shim.kafka_log.owning.outcomes import Fenced
from shim.kafka_log.owning.producer_ids import ProducerEpoch, ProducerIds
from shim.kafka_log.producing.produced import Produced, Verdict
from shim.kafka_log.producing.producer import TopicProducer
from shim.log import LogError
from shim.upstream.errors import UpstreamError


class Ids:
    """A coordinator that gives out the epoch behind ``last``."""

    def __init__(self) -> None:
        self.last = ProducerEpoch(7, -1)
        self.count = 0

    def asked(self, _transactional_id: str) -> int:
        return self.count

    async def next_epoch(self, _transactional_id: str, _seconds: float) -> ProducerEpoch:
        self.count += 1
        self.last = self.last._replace(epoch=self.last.epoch + 1)
        return self.last


class Topic:
    """It takes every batch, one an offset."""

    def __init__(self) -> None:
        self.written: list[tuple[int, int]] = []
        """Producer ids and epochs."""
        self.append_time_ms = 1
        self.verdict = Verdict.WRITTEN

    async def send(self, batches: Mapping[int, bytes], _seconds: float) -> dict[int, Produced]:
        ((number, batch),) = batches.items()
        header = read_header(batch)
        self.written.append((header.producer_id, header.producer_epoch))
        return {number: Produced(self.verdict, 0.0, len(self.written) - 1, self.append_time_ms)}


class Made:
    def __init__(self) -> None:
        self.ids, self.topic = Ids(), Topic()
        self.its = Claiming(
            "t",
            Owner(bytes(16), "a test", 0),
            cast(ProducerIds, self.ids),
            cast(TopicProducer, self.topic),
            patience_seconds=1.0,
        )


async def test_whose_id_is_out_of_date_fences_nobody() -> None:
    """The others' is the newer one: they have taken it over since."""
    made = Made()
    tenure = await made.its.begin(0, served_last_claim=False)
    made.ids.last = ProducerEpoch(9, -1)
    with pytest.raises(UpstreamError, match=r"^t-0: producer id 7 is out of date$"):
        await made.its.fence_others(tenure, [9])
    assert made.topic.written == [(7, 0)]
    assert not tenure.has_fenced_others


async def test_others_are_fenced_by_the_last_epoch_and_the_claim_is_behind_them() -> None:
    made = Made()
    tenure = await made.its.begin(0, served_last_claim=False)
    await made.its.fence_others(tenure, [3, 4])
    assert made.topic.written == [(7, 0), (3, LAST_EPOCH), (4, LAST_EPOCH), (7, 0)]
    assert (tenure.fence.base_offset, tenure.claim.base_offset) == (0, 3)
    assert tenure.has_fenced_others


async def test_a_claim_is_sent_as_any_batch_of_its_tenure(monkeypatch: pytest.MonkeyPatch) -> None:
    """When that was is known of it, too."""
    made = Made()
    tenure = await made.its.begin(0, served_last_claim=False)
    monkeypatch.setattr("shim.kafka_log.owning.tenure.boottime", lambda: 10**9)
    await made.its.again(tenure)
    assert (tenure.sent_at, tenure.heard_at, tenure.claim.base_offset) == (10**9, 10**9, 1)


@pytest.mark.parametrize("why", [Verdict.UNKNOWN, Verdict.FENCED])
async def test_where_a_claim_fails_the_tenure_is_over(why: Verdict) -> None:
    """Nobody knows what came of its last batch."""
    made = Made()
    tenure = await made.its.begin(0, served_last_claim=False)
    made.topic.verdict = why
    with pytest.raises(UpstreamError, match=f"^t-0: {why.name.lower()}: "):
        await made.its.again(tenure)
    assert tenure.is_over


@pytest.mark.parametrize(
    "last",
    [
        ProducerEpoch(7, 1),
        ProducerEpoch(9, -1),  # the transactional id was forgotten meanwhile
    ],
)
async def test_who_has_come_meanwhile_is_not_fenced_but_once(last: ProducerEpoch) -> None:
    made = Made()
    await made.its.begin(0, served_last_claim=False)
    made.ids.last = last
    with pytest.raises(Fenced, match=r"^t-0: somebody else has got an epoch$"):
        await made.its.begin(0, served_last_claim=False)
    assert made.topic.written == [(7, 0)]
    made.ids.last = ProducerEpoch(11, 4)  # and others since, of whom whoever says so again knows
    await made.its.begin(0, served_last_claim=False)
    assert made.topic.written == [(7, 0), (11, 5)]


async def test_a_topic_without_the_brokers_times_is_not_owned() -> None:
    made = Made()
    made.topic.append_time_ms = -1
    with pytest.raises(LogError, match=r"^t: message\.timestamp\.type is not LogAppendTime$"):
        await made.its.begin(0, served_last_claim=False)
