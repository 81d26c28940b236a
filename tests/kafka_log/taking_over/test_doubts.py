"""How often it is asked whether what was gone on with got too old, without a broker."""

from __future__ import annotations

from typing import cast

import pytest

from shim.coordinator import CoordinatorSettings
from shim.kafka_log.copies.partition_copy import NewCopies
from shim.kafka_log.copies.tombstones import AgeNotKnown, Tombstones
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.taking_over.doubts import Doubts

QUESTIONS = 5
PAUSE_SECONDS = 1.0


class Retention:
    """It is not told that many times, and then it is."""

    def __init__(self, in_vain: int, is_too_old: bool = False) -> None:
        self.in_vain = in_vain
        self.is_too_old = is_too_old
        self.asked: list[float] = []
        """Of what was up to date then."""

    async def may_be_gone(self, since: float, _at: float) -> bool:
        self.asked.append(since)
        if len(self.asked) <= self.in_vain:
            raise AgeNotKnown("no broker has answered")
        return self.is_too_old


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of each, none of which is waited."""
    made: list[float] = []

    async def pause(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr("shim.kafka_log.taking_over.doubts.asyncio.sleep", pause)
    return made


async def got_too_old(retention: Retention) -> bool:
    copy = NewCopies("t", 1, CoordinatorSettings).of(0)
    copy.up_to_date_at = 100.0
    doubts = Doubts(cast(OwnedTopic, None), cast(Tombstones, retention))
    return await doubts.got_too_old(copy)


@pytest.mark.parametrize("is_too_old", [False, True])
@pytest.mark.parametrize("in_vain", range(QUESTIONS))
async def test_it_is_asked_until_it_is_told(pauses: list[float], in_vain: int, is_too_old: bool) -> None:
    retention = Retention(in_vain, is_too_old)
    assert await got_too_old(retention) is is_too_old
    assert retention.asked == [100.0] * (in_vain + 1)
    assert pauses == [PAUSE_SECONDS] * in_vain


async def test_it_is_not_asked_for_ever(pauses: list[float]) -> None:
    retention = Retention(QUESTIONS)
    with pytest.raises(AgeNotKnown, match="no broker has answered"):
        await got_too_old(retention)
    assert len(retention.asked) == QUESTIONS
    assert len(pauses) == QUESTIONS - 1, "whoever waits is told at once"
