"""Of several brokers: who is asked, and who is waited for."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

import pytest

from shim.config import HostPort
from shim.upstream.errors import UpstreamError
from shim.upstream.first_answer import NoneAnswers, first_answer
from tests.waiting import until

HANGING, FAILING, OTHER = (HostPort(name, 9092) for name in ("hanging", "failing", "other"))
SOON: Final = 0.001
LATE: Final = 3600.0


class Brokers:
    def __init__(self) -> None:
        self.asked = Counter[HostPort]()
        self.given_up = Counter[HostPort]()
        self.time_is_over = asyncio.Event()
        self.answering = {HANGING}
        """And those, in their own time."""

    async def ask(self, address: HostPort) -> HostPort:
        self.asked[address] += 1
        if address not in self.answering:
            raise UpstreamError(f"{address}: failure {self.asked[address]}")
        if address != OTHER:
            try:
                await self.time_is_over.wait()
            except asyncio.CancelledError:
                self.given_up[address] += 1
                raise
            raise UpstreamError(f"{address}: hangs")
        return address


async def test_who_has_failed_is_asked_again_while_another_one_hangs() -> None:
    brokers = Brokers()
    asking = asyncio.create_task(first_answer([HANGING, FAILING, OTHER], brokers.ask, SOON))
    await until(lambda: brokers.asked[OTHER] >= 3)
    brokers.answering.add(OTHER)
    assert await asking == OTHER
    assert brokers.asked[FAILING] > 1
    assert brokers.asked[HANGING] == brokers.given_up[HANGING] == 1


async def test_when_all_have_had_their_time_none_has_answered() -> None:
    """What each has said last; and who hangs that was asked again is not waited for."""
    brokers = Brokers()
    asking = asyncio.create_task(first_answer([HANGING, FAILING, OTHER], brokers.ask, SOON))
    await until(lambda: brokers.asked[OTHER] >= 3)
    never = brokers.time_is_over
    brokers.time_is_over = asyncio.Event()
    brokers.answering.add(FAILING)
    before = brokers.asked[FAILING]
    await until(lambda: brokers.asked[FAILING] > before)
    never.set()
    with pytest.raises(NoneAnswers, match="failure") as told:
        await asking
    said = str(told.value).split("; ")
    assert len(said) == 3
    assert f"{FAILING}: failure {before}" in said
    assert f"{HANGING}: hangs" in said
    assert brokers.given_up[FAILING] == 1


async def test_where_all_fail_at_once_each_is_asked_once() -> None:
    brokers = Brokers()
    with pytest.raises(NoneAnswers, match=f"{FAILING}: failure 1; {OTHER}: failure 1"):
        await first_answer([OTHER, FAILING, OTHER], brokers.ask, LATE)
    assert brokers.asked == {OTHER: 1, FAILING: 1}


async def test_where_nobody_is_known_nobody_answers() -> None:
    with pytest.raises(NoneAnswers, match="no broker is known"):
        await first_answer([], Brokers().ask, LATE)
