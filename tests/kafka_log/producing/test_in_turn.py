"""Of each partition one batch after the other, and none behind one of which it is not known that it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from shim.kafka_log.producing.calls import Known
from shim.kafka_log.producing.in_turn import send_in_turn
from shim.kafka_log.producing.produced import Produced, Verdict
from shim.kafka_log.producing.producer import TopicProducer
from shim.upstream.errors import UpstreamError

SECONDS = 1.0


class Topic:
    """It takes batches as long as ``rounds`` of them are left; ``refused`` it does not."""

    def __init__(self, refused: bytes = b"", rounds: int = 100) -> None:
        self.refused = refused
        self.rounds = rounds
        self.sent: list[Mapping[int, bytes]] = []

    async def send_each(self, batches: Mapping[int, bytes], _seconds: float, known: Known) -> None:
        while batches:
            self.sent.append(batches)
            if len(self.sent) > self.rounds:
                raise ZeroDivisionError
            batches = known(
                {
                    number: Produced(Verdict.REFUSED if batch == self.refused else Verdict.WRITTEN, 0.0, why="no")
                    for number, batch in batches.items()
                }
            )


class Numbered:
    """Batches have a number before them."""

    def __init__(self) -> None:
        self.stamped = 0
        self.is_given_up = False

    def stamp(self, batch: bytes) -> bytes:
        self.stamped += 1
        return b"%d%s" % (self.stamped, batch)

    def conclude(self, produced: Produced) -> UpstreamError | None:
        return None if produced.verdict is Verdict.WRITTEN else UpstreamError(produced.why)

    def give_up(self) -> None:
        self.is_given_up = True


class Written:
    """What came of three partitions with one batch, two and three."""

    def __init__(self) -> None:
        self.its = [Numbered() for _ in range(3)]
        self.told: list[Mapping[int, UpstreamError | None]] = []

    async def send(self, topic: Topic) -> None:
        writes = {number: (its, [b"a", b"b", b"c"][: number + 1]) for number, its in enumerate(self.its)}
        await send_in_turn(cast(TopicProducer, topic), writes, SECONDS, self.told.append)

    @property
    def given_up(self) -> list[int]:
        return [number for number, its in enumerate(self.its) if its.is_given_up]


async def test_the_next_is_stamped_and_sent_when_the_one_before_is_written() -> None:
    topic, written = Topic(), Written()
    await written.send(topic)
    assert topic.sent == [{0: b"1a", 1: b"1a", 2: b"1a"}, {1: b"2b", 2: b"2b"}, {2: b"3c"}]
    assert written.told == [{0: None}, {1: None}, {2: None}]
    assert written.given_up == []


async def test_nothing_is_sent_behind_one_that_is_not_written() -> None:
    topic, written = Topic(refused=b"2b"), Written()
    await written.send(topic)
    assert topic.sent == [{0: b"1a", 1: b"1a", 2: b"1a"}, {1: b"2b", 2: b"2b"}]
    assert [{number: str(why) for number, why in told.items()} for told in written.told] == [
        {0: "None"},
        {1: "no", 2: "no"},
    ]
    assert written.given_up == []


async def test_those_of_which_nothing_was_told_are_given_up() -> None:
    written = Written()
    with pytest.raises(ZeroDivisionError):
        await written.send(Topic(rounds=1))
    assert (written.told, written.given_up) == ([{0: None}], [1, 2])
