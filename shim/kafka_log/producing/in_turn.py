"""Batches of a partition one after the other: none is sent behind one that is not known to be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from shim.kafka_log.producing.produced import Produced
from shim.kafka_log.producing.producer import TopicProducer
from shim.upstream.errors import UpstreamError

OnCompletion: TypeAlias = Callable[[Mapping[int, UpstreamError | None]], None]
"""Told of partitions: None where all is in all in-sync replicas, else why that is not known, or that it is not so."""


class Stamping(Protocol):
    """Whoever numbers the batches of a partition."""

    def stamp(self, batch: bytes) -> bytes:
        """To be sent at once."""

    def conclude(self, produced: Produced) -> UpstreamError | None:
        """What came of the batch that was stamped last; None where it is in the log, and another may be stamped."""

    def give_up(self) -> None:
        """Nobody knows what came of the batch that was stamped last."""


async def send_in_turn(
    producer: TopicProducer,
    writes: Mapping[int, tuple[Stamping, Sequence[bytes]]],
    seconds: float,
    on_completion: OnCompletion,
) -> None:
    """Of each partition at least one batch, each stamped when its turn has come, and with so many seconds.
    ``on_completion`` is told of a partition once. Raises what it raises, and what those raise who stamp; those of which
    it was not told by then are given up.
    """
    left = {number: iter(batches) for number, (_, batches) in writes.items()}

    def known(sent: Mapping[int, Produced]) -> Mapping[int, bytes]:
        over: dict[int, UpstreamError | None] = {}
        more: dict[int, bytes] = {}
        for number, produced in sent.items():
            its, _ = writes[number]
            trouble = its.conclude(produced)
            batch = next(left[number], None) if trouble is None else None
            if batch is not None:
                more[number] = its.stamp(batch)
                continue
            del left[number]
            over[number] = trouble
        if over:
            on_completion(over)
        return more

    try:
        first = {number: its.stamp(next(left[number])) for number, (its, _) in writes.items()}
        await producer.send_each(first, seconds, known)
    finally:
        for number in left:
            writes[number][0].give_up()
