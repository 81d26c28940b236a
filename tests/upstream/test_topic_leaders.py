"""Who leads a topic's partitions is what the first broker says that answers; what the others say goes nowhere, unless
they are asked, too, as one alone may say what was."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest

from protocol.wire import ZERO_UUID
from shim.config import HostPort, Settings
from shim.upstream import topic_leaders
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import LedTopic, Place, TopicLeaders, TopicUnknown

BROKERS = [HostPort("10.0.0.1", 9092 + number) for number in range(4)]
PATIENCE = 1.0
LED = LedTopic(ZERO_UUID, {})
Answer = LedTopic | UpstreamError


class Asked(TopicLeaders):
    """When all brokers are asked each answers, or fails, in one turn of the loop."""

    def __init__(self, answers: Mapping[HostPort, Answer]) -> None:
        super().__init__(Cluster(list(answers), Settings()), Settings(), "t")
        self._answers = answers
        self._waiting = len(answers)
        self._all_are_asked = asyncio.Event()

    async def _ask_for_leaders(self, address: HostPort, patience: float) -> LedTopic:
        self._waiting -= 1
        if not self._waiting:
            self._all_are_asked.set()
        await self._all_are_asked.wait()
        answer = self._answers[address]
        if isinstance(answer, UpstreamError):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _all_are_asked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_leaders, "_NEXT_BROKER_S", 0.001)


def failing(*brokers: HostPort) -> dict[HostPort, Answer]:
    return {each: UpstreamError(f"{each}: Connection refused") for each in brokers}


@pytest.mark.parametrize("answer", [LED, TopicUnknown("there is no topic t")])
async def test_nobody_misses_the_failures_of_the_others(answer: Answer) -> None:
    """Whichever of those that have ended is looked at first: of a set, which has no order."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    gc.freeze()  # what thousands of tests are made of is not looked through forty times
    try:
        for _ in range(20):
            looking = Asked({BROKERS[0]: answer} | failing(*BROKERS[1:])).look_up(PATIENCE)
            (looked_up,) = await asyncio.gather(looking, return_exceptions=True)
            assert looked_up is answer
            if isinstance(looked_up, BaseException):
                looked_up.__traceback__ = None  # it has the others
            del looked_up, looking
            gc.collect()
    finally:
        gc.unfreeze()
    assert complaints == []


@pytest.mark.parametrize("order", list(permutations(BROKERS[:3])))
async def test_why_nobody_answers_is_the_same_line_in_whatever_order_they_fail(order: Sequence[HostPort]) -> None:
    with pytest.raises(UpstreamError) as failed:
        await Asked(failing(*order)).look_up(PATIENCE)
    assert str(failed.value) == "; ".join(f"{each}: Connection refused" for each in BROKERS[:3])


def led(*epochs: int, topic: int = 1) -> LedTopic:
    """Partitions from 0 on, each led under that epoch by the broker of which the port says which epoch it is."""
    places = {number: Place(HostPort("10.0.0.1", 9092 + epoch), epoch, epoch) for number, epoch in enumerate(epochs)}
    return LedTopic(bytes([topic]) * 16, places)


@pytest.mark.parametrize(
    ("named", "epoch", "is_older"),
    [
        (led(4), 5, True),
        (led(5), 5, False),
        (led(6), 5, False),
        (led(-1), 5, False),  # a broker before 2.1, which does not say
        (led(4), -1, False),
        (led(), 5, False),  # it knows of no such partition
    ],
)
def test_whether_a_leader_is_from_before_an_epoch(named: LedTopic, epoch: int, is_older: bool) -> None:
    assert named.is_older(0, epoch) is is_older


@pytest.mark.parametrize(
    ("before", "named", "expected"),
    [
        (None, led(4), led(4)),
        (led(5, 2), led(4, 3), led(5, 3)),  # each partition by itself
        (led(5), led(5), led(5)),
        (led(5), led(-1), led(5)),
        (led(-1), led(-1), led(-1)),
        (led(1, 5), led(1), led(1, 5)),
        (led(5), led(0, topic=2), led(0, topic=2)),  # there is no order between the epochs of two topics
    ],
)
def test_who_was_known_to_lead_since_an_older_leader(
    before: LedTopic | None, named: LedTopic, expected: LedTopic
) -> None:
    assert named.newer(before) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((led(4), led(6), led(5)), led(6)),
        ((led(4), UpstreamError("hangs"), led(5)), led(5)),
        ((led(9, topic=2), led(4), led(5)), led(5)),
        ((led(5), led(0, topic=2), led(0, topic=2)), led(0, topic=2)),
    ],
)
async def test_what_most_brokers_say_is_what_the_one_of_them_says_that_knows_of_the_newest_leader(
    answers: Sequence[Answer], expected: LedTopic
) -> None:
    for order in permutations(answers):
        asked = Asked(dict(zip(BROKERS, order, strict=False)))
        assert await asked.look_up_at_most_brokers(0, PATIENCE) == expected


@pytest.mark.parametrize(
    "answers",
    [
        (led(4), UpstreamError("hangs"), UpstreamError("hangs")),
        (led(4), led(5, topic=2), UpstreamError("hangs")),
        (led(4), led(5, topic=2)),
    ],
)
async def test_where_no_more_than_half_of_the_brokers_say_the_same_nobody_knows(answers: Sequence[Answer]) -> None:
    for order in permutations(answers):
        with pytest.raises(UpstreamError, match="2 brokers must say of one topic who leads it"):
            await Asked(dict(zip(BROKERS, order, strict=False))).look_up_at_most_brokers(0, PATIENCE)
