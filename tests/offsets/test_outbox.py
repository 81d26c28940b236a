"""The outbox on a store that does what the test says: who waits for which turn, and what becomes of one that fails."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import pytest

from shim.offsets.outbox import Outbox
from shim.offsets.store import StoreError, StoreRefused, StoreUnavailable
from tests.waiting import until

WAIT_SECONDS: Final = 60.0


class Store:
    """Each turn waits to be let through, where ``held`` says so, and then fails of what ``failures`` has for it."""

    def __init__(self) -> None:
        self.held = False
        self.failures: list[BaseException] = []
        self.log: Counter[str] = Counter()
        """How often each group has changed."""
        self.has: Counter[str] = Counter()
        self.turns: list[str] = []
        self.under_way: Counter[str] = Counter()
        self.let_through = asyncio.Semaphore(0)
        self._begun = asyncio.Condition()

    async def feed(self, group: str) -> None:
        self.under_way[group] += 1
        assert self.under_way[group] == 1, "two turns of a group at once"
        try:
            read = self.log[group]
            self.turns.append(group)
            async with self._begun:
                self._begun.notify_all()
            if self.held:
                await self.let_through.acquire()
            if self.failures:
                raise self.failures.pop(0)
            self.has[group] = read
        finally:
            try:
                await asyncio.sleep(0)  # a turn that is broken off need not end at once
            finally:
                self.under_way[group] -= 1

    async def begun(self, count: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS), self._begun:
            await self._begun.wait_for(lambda: len(self.turns) >= count)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def outbox(store: Store) -> AsyncIterator[Outbox]:
    made = Outbox("the store", store.feed)
    yield made
    made.close()


async def within(waiting: Awaitable[None]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        await waiting


async def test_many_touches_are_few_turns(store: Store, outbox: Outbox) -> None:
    store.held = True
    for _ in range(100):
        store.log["g"] += 1
        outbox.touch("g")
    await store.begun(1)
    for _ in range(100):
        store.log["g"] += 1
        outbox.touch("g")
    for _ in range(3):
        store.let_through.release()
    await until(lambda: outbox.lagging == 0)
    assert (store.turns, store.has["g"]) == (["g", "g"], 200)


async def test_who_waits_is_told_by_a_turn_that_began_after_he_came(store: Store, outbox: Outbox) -> None:
    store.held = True
    outbox.touch("g")
    await store.begun(1)
    store.log["g"] += 1
    waiting = asyncio.create_task(outbox.fed("g"))
    await asyncio.sleep(0)
    store.let_through.release()
    await store.begun(2)
    assert not waiting.done()
    store.let_through.release()
    await within(waiting)
    assert store.has["g"] == 1


async def test_what_fails_is_told_and_tried_again(store: Store, outbox: Outbox) -> None:
    store.failures = [StoreRefused("not today")]
    store.log["g"] = 1
    with pytest.raises(StoreRefused, match="not today"):
        await within(outbox.fed("g"))
    assert outbox.why("g") == "not today"
    assert (outbox.lag_seconds("g") or 0) > 0
    await until(lambda: store.has["g"] == 1)
    await until(lambda: outbox.lag_seconds("g") is None)
    assert outbox.why("g") == ""


async def test_the_lag_is_that_of_the_oldest_change(store: Store, outbox: Outbox) -> None:
    """Also while its turn is under way, and after that has failed."""
    store.held = True
    store.failures = [StoreUnavailable("away")]
    begun = time.monotonic()
    outbox.touch("g", begun - 100)
    await store.begun(1)
    outbox.touch("g")
    for _ in range(2):
        lag = outbox.lag_seconds("g")
        assert lag is not None
        assert lag >= 100
        store.let_through.release()
        await store.begun(2)
    assert outbox.lagging == 1
    store.let_through.release()
    await until(lambda: outbox.lagging == 0)


async def test_somebody_who_waits_has_a_failed_turn_taken_again_at_once(
    store: Store, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.offsets.lane._AGAIN_SECONDS", 3600.0)
    store.failures = [StoreUnavailable("away")]
    outbox.touch("g")
    await until(lambda: outbox.why("g") == "away")
    await within(outbox.fed("g"))
    assert store.turns == ["g", "g"]


async def test_no_turn_while_somebody_is_alone(store: Store, outbox: Outbox) -> None:
    store.held = True
    outbox.touch("g")
    await store.begun(1)
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with outbox.alone("g"):
            entered.set()
            await leave.wait()

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    assert not entered.is_set()
    store.let_through.release()
    await within(_set(entered))
    outbox.touch("g")
    outbox.touch("other")
    await store.begun(2)
    assert (store.turns, outbox.lag_seconds("g") is None) == (["g", "other"], False)
    leave.set()
    await store.begun(3)
    await holding
    store.let_through.release()
    store.let_through.release()
    await until(lambda: outbox.lagging == 0)


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def test_what_is_forgotten_has_no_turn_and_who_waits_is_told(store: Store, outbox: Outbox) -> None:
    store.held = True
    waiting = [asyncio.create_task(outbox.fed("g"))]
    await store.begun(1)
    waiting.append(asyncio.create_task(outbox.fed("g")))
    await asyncio.sleep(0)
    outbox.forget("g")
    for each in waiting:
        with pytest.raises(StoreUnavailable, match="not kept there any more"):
            await within(each)
    assert outbox.lag_seconds("g") is None
    await until(lambda: not store.under_way["g"])
    assert store.turns == ["g"]


async def test_what_comes_after_it_was_forgotten_waits_for_the_end_of_the_turn(store: Store, outbox: Outbox) -> None:
    store.held = True
    outbox.touch("g")
    await store.begun(1)
    outbox.forget("g")
    store.log["g"] += 1
    waiting = asyncio.create_task(outbox.fed("g"))
    await store.begun(2)
    outbox.touch("g")
    store.let_through.release()
    store.let_through.release()
    await within(waiting)
    await until(lambda: outbox.lagging == 0)
    assert store.has["g"] == 1


async def test_after_the_end_nothing_is_fed(store: Store, outbox: Outbox) -> None:
    store.held = True
    waiting = asyncio.create_task(outbox.fed("g"))
    await store.begun(1)
    outbox.close()
    with pytest.raises(StoreUnavailable):
        await within(waiting)
    with pytest.raises(StoreUnavailable, match="the shim stops"):
        await outbox.fed("g")
    outbox.touch("other")
    assert outbox.lagging == 0


@pytest.mark.parametrize("end", [lambda outbox: outbox.forget("g"), Outbox.close], ids=["forgotten", "closed"])
async def test_what_is_given_up_is_not_kept_up_again(
    store: Store, outbox: Outbox, end: Callable[[Outbox], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The last that was said at a stop was so, of a store that was away."""
    caplog.set_level("INFO")
    store.failures = [StoreUnavailable("away")]
    outbox.touch("g")
    await until(lambda: outbox.lagging == 0)
    told = ["the store cannot be kept up for now: away", "the store are kept up again"]
    assert caplog.messages == told
    store.held = True
    store.failures = [StoreUnavailable("away")]
    outbox.touch("g")
    store.let_through.release()
    await until(lambda: outbox.why("g"))
    end(outbox)
    await until(lambda: not list(outbox))
    assert caplog.messages == [*told, told[0]]


@pytest.mark.parametrize("broken", [ZeroDivisionError("a bug"), asyncio.CancelledError()])
async def test_a_turn_that_breaks_off_is_taken_again(
    store: Store, outbox: Outbox, broken: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures = [broken]
    store.log["g"] = 1
    with pytest.raises(StoreUnavailable, match="broke off"):
        await within(outbox.fed("g"))
    await until(lambda: store.has["g"] == 1)
    assert any(record.exc_info for record in caplog.records)


async def test_one_who_waits_no_longer_holds_up_nobody(store: Store, outbox: Outbox) -> None:
    store.held = True
    given_up, waiting = (asyncio.create_task(outbox.fed("g")) for _ in range(2))
    await store.begun(1)
    given_up.cancel()
    store.let_through.release()
    await within(waiting)
    assert given_up.cancelled()


async def test_trouble_that_many_groups_have_is_one_line(
    store: Store, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures = [StoreUnavailable("away") for _ in range(5)]
    for number in range(3):
        outbox.touch(f"g{number}")
    await until(lambda: outbox.lagging == 0)
    outbox.touch("g")
    await until(lambda: outbox.lagging == 0)
    assert caplog.messages == ["the store cannot be kept up for now: away"]
    store.failures = [StoreUnavailable("away")]
    outbox.touch("g")
    await until(lambda: outbox.lagging == 0)
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("seed", range(5))
async def test_in_whatever_order_things_come_the_store_has_it_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.offsets.lane._AGAIN_SECONDS", 0.001)
    monkeypatch.setattr("shim.offsets.lane._AGAIN_MOST_SECONDS", 0.002)
    rng = random.Random(seed)
    store = Store()
    groups = [f"g{number}" for number in range(4)]

    async def feed(group: str) -> None:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        if rng.random() < 0.2:
            store.failures = [rng.choice([StoreUnavailable("away"), ZeroDivisionError("a bug")])]
        await store.feed(group)

    outbox = Outbox("the store", feed)

    async def wait_for(group: str) -> None:
        store.log[group] += 1
        wanted = store.log[group]
        try:
            await outbox.fed(group)
        except StoreError:
            return
        assert store.has[group] >= wanted

    async def hold(group: str) -> None:
        async with outbox.alone(group):
            turns = store.turns.count(group)
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            assert (store.under_way[group], store.turns.count(group)) == (0, turns)

    def touch(group: str) -> None:
        store.log[group] += 1
        outbox.touch(group)

    tasks: list[asyncio.Task[None]] = []
    for _ in range(1000):
        group = rng.choice(groups)
        match rng.randrange(6):
            case 0 | 1:
                touch(group)
            case 2:
                tasks.append(asyncio.create_task(wait_for(group)))
            case 3:
                tasks.append(asyncio.create_task(hold(group)))
            case 4 if tasks:
                rng.choice(tasks).cancel()
            case 5 if rng.random() < 0.2:
                outbox.forget(group)
        if rng.random() < 0.7:
            await asyncio.sleep(0)
    ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_SECONDS)
    assert not [each for each in ended if isinstance(each, Exception)]
    for group in groups:
        touch(group)
    await until(lambda: outbox.lagging == 0)
    assert [store.has[group] for group in groups] == [store.log[group] for group in groups]
    outbox.close()
