"""One Produce request to a leader, and what its answer says of each batch."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import produce
from shim.config import HostPort, Settings
from shim.kafka_log.producing.calls import Batch
from shim.kafka_log.producing.produced import Produced, Verdict, verdict_of
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnections

_ALL_IN_SYNC: Final = -1
_OLDEST, _NEWEST = 3, 12
"""Of Produce: with batches of magic 2, and with topics by name."""
_REPLICATED_WITHIN_S: Final = 1.5
"""Then the leader says that its followers do not keep up, before the connection passes for lost. It knows the batch
when it comes again."""
_ANSWERED_WITHIN_S: Final = 3.0
"""Of the first attempt: then somebody else may lead."""


class Answer(NamedTuple):
    """``produced``: of each batch. ``failure``: why nothing was said of any of them; None where something was."""

    produced: dict[int, Produced]
    failure: str | None


class ProduceRequests:
    """Of one topic, on a connection to each leader."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._topic = topic
        self._connections = KeptConnections(settings)

    async def send(self, leader: HostPort, batches: Mapping[int, Batch]) -> Answer:
        """One of each partition."""
        attempt = max(batch.attempt for batch in batches.values())
        seconds = _ANSWERED_WITHIN_S * 2.0 ** min(attempt, 10)  # a large batch takes its time on a slow link
        why = f"{leader}: Produce: not answered within {seconds:g} s"
        answers: Mapping[int, produce.PartitionProduceResponse | None] = {}
        try:
            async with asyncio.timeout(seconds):
                answers = await self._ask(leader, batches)
        except UpstreamError as error:
            why = str(error)
        except TimeoutError:
            pass
        produced = {}
        for number, batch in batches.items():
            answer = answers.get(number)
            produced[number] = batch.unknown._replace(why=why) if answer is None else _of(leader, answer, batch)
        return Answer(produced, None if answers else why)

    async def _ask(
        self, leader: HostPort, batches: Mapping[int, Batch]
    ) -> dict[int, produce.PartitionProduceResponse | None]:
        """None of a partition of which it is not clear what was said. Raises UpstreamError."""
        data = tuple(produce.PartitionProduceData(number, batch.data) for number, batch in batches.items())
        request = produce.ProduceRequest(
            acks=_ALL_IN_SYNC,
            timeout_ms=int(_REPLICATED_WITHIN_S * 1000),
            topic_data=(produce.TopicProduceData(self._topic, partition_data=data),),
        )
        answer = await self._connections.to(leader).ask(produce.API, request, at_least=_OLDEST, at_most=_NEWEST)
        found: dict[int, produce.PartitionProduceResponse | None] = {}
        for topic in answer.responses:
            for each in topic.partition_responses:
                clear = topic.name == self._topic and each.index in batches and each.index not in found
                found[each.index] = each if clear else None
        return found

    def close_others(self, leaders: Collection[HostPort]) -> None:
        """Connections to brokers that are none of these."""
        self._connections.close_others(leaders)

    def close(self) -> None:
        self._connections.close()


def _of(leader: HostPort, answer: produce.PartitionProduceResponse, batch: Batch) -> Produced:
    sent_at = batch.sent_at
    verdict = verdict_of(answer.error_code)
    if verdict is Verdict.WRITTEN:
        if answer.base_offset < 0:
            return Produced(Verdict.UNKNOWN, sent_at, why=f"{leader}: Produce: written, and nowhere")
        return Produced(verdict, sent_at, answer.base_offset, answer.log_append_time_ms, batch.leader_epoch)
    error = ErrorCode.for_code(answer.error_code)
    why = f"{leader}: Produce: {error.name}" + (f": {answer.error_message}" if answer.error_message else "")
    return Produced(verdict, sent_at, why=why)
