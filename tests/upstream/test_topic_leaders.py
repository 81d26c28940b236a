"""Who leads a topic's partitions is what the first broker says that answers; what the others say goes nowhere."""

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
from shim.upstream.topic_leaders import LedTopic, TopicLeaders, TopicUnknown

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
