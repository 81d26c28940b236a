"""Lags over time, as the shim keeps them, and the page of groups that is made of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import pytest

from shim.admin.live.asked.groups import GroupLag
from shim.admin.live.asked.migration import STEPS, NotKnown, Refused
from shim.admin.live.port.serving import serve_admin
from shim.admin.live.sampled.lag_series import MOST_SAMPLES, MOST_SERIES, LagSeries
from shim.admin.live.sampled.sampling import Pace, Sampler
from shim.config import HostPort
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.watching import Watching

QUICK: Final = Pace(asked=0.0, idle=0.0, rest=0.0)
SLOW: Final = Pace(asked=3600.0, idle=3600.0, rest=0.0)


# --- the series ------------------------------------------------------------------------------------------------------


def test_samples_are_kept_by_group() -> None:
    series = LagSeries()
    series.add(1, {"a": 5, "b": None})
    series.add(2, {"a": 6, "b": 0})
    series.add(3, {"b": 1})
    assert series.of("a") == [(1, 5), (2, 6), (3, None)]
    assert series.of("b") == [(2, 0), (3, 1)]
    assert series.of("c") == []


def test_the_oldest_samples_are_forgotten() -> None:
    series = LagSeries(most_samples=3)
    for number in range(10):
        series.add(number, {"a": number, **({"late": number} if number >= 8 else {})})
    assert series.of("a") == [(7, 7), (8, 8), (9, 9)]
    assert series.of("late") == [(8, 8), (9, 9)]


def test_a_group_of_which_nothing_is_known_any_more_is_forgotten() -> None:
    series = LagSeries(most_samples=2)
    series.add(1, {"a": 5})
    series.add(2, {})
    assert len(series) == 1
    series.add(3, {})
    assert len(series) == 0


def test_there_are_no_more_series_than_that() -> None:
    series = LagSeries()
    for time in range(MOST_SAMPLES + 1):
        series.add(time, {f"g{number}": time for number in range(MOST_SERIES + 1)})
    assert len(series) == MOST_SERIES
    assert len(series.of("g0")) == MOST_SAMPLES
    assert series.of(f"g{MOST_SERIES}") == []


# --- the sampler -----------------------------------------------------------------------------------------------------


@dataclass
class Lagging(Grouped):
    """Tells when it was asked. ``broken``: groups that have a whole question refused."""

    asked: list[Sequence[str]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    again: asyncio.Event = field(default_factory=asyncio.Event)

    async def lags(self, groups: Sequence[str]) -> Mapping[str, GroupLag]:
        self.asked.append(groups)
        self.again.set()
        if self.broken & set(groups):
            raise Refused("it cannot be told") if len(groups) % 2 else NotKnown("there is none")
        return await super().lags(groups)


async def looked(sampler: Sampler, lagging: Lagging, times: int = 1) -> None:
    """Until it has looked so often."""
    async with asyncio.timeout(20):
        running = asyncio.create_task(sampler.run())
        while len(lagging.asked) <= times:
            lagging.again.clear()
            await lagging.again.wait()
        running.cancel()
        await asyncio.wait({running})


async def test_served_groups_alone_while_nobody_asks(moved: Moved) -> None:
    moved.add("served", step="kafka")
    moved.add("passed")
    lagging = Lagging(moved)
    sampler = Sampler(Watching(moved, lagging), QUICK, clock=lambda: 7.0)
    await looked(sampler, lagging)
    assert {name for names in lagging.asked for name in names} == {"served"}
    assert moved.looks == [], "the cluster is not asked"
    assert (sampler.lag("served"), sampler.lag("passed")) == (12, None)
    assert sampler.recent("served")[0] == (7000, 12)


async def test_all_groups_while_somebody_asks(moved: Moved) -> None:
    moved.add("served", step="kafka")
    moved.add("passed")
    lagging = Lagging(moved)
    sampler = Sampler(Watching(moved, lagging), SLOW)
    assert {each.group for each in await sampler.statuses()} == {"served", "passed"}
    await looked(sampler, lagging, times=0)
    assert sorted(lagging.asked[0]) == ["passed", "served"]


async def test_one_group_that_cannot_be_asked_for_leaves_the_others(moved: Moved) -> None:
    names = [f"g{number}" for number in range(30)]
    moved.add(*names, step="kafka")
    lagging = Lagging(moved, broken={"g3"})
    sampler = Sampler(Watching(moved, lagging), QUICK)
    await looked(sampler, lagging, times=60)
    assert sampler.lag("g3") is None
    assert all(sampler.lag(name) == 12 for name in names if name != "g3")


async def test_a_status_is_asked_for_once_by_many(moved: Moved) -> None:
    moved.add("g")
    sampler = Sampler(Watching(moved, Grouped(moved)), SLOW)
    await asyncio.gather(*(sampler.statuses() for _ in range(50)))
    assert moved.looks == [None]
    sampler.changed()
    await sampler.statuses()
    assert moved.looks == [None, None]


async def test_it_goes_on_after_a_fault(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.admin.live.sampled.sampling._AGAIN_SECONDS", 0.0)
    moved.add("g", step="kafka")
    moved.broken.add("g")
    lagging = Lagging(moved)
    sampler = Sampler(Watching(moved, lagging), QUICK)
    failed = asyncio.Event()
    monkeypatch.setattr("shim.admin.live.sampled.sampling.log.exception", lambda *_: failed.set())
    running = asyncio.create_task(sampler.run())
    async with asyncio.timeout(20):
        await failed.wait()
    moved.broken.clear()
    running.cancel()
    await asyncio.wait({running})
    await looked(sampler, lagging)
    assert sampler.lag("g") == 12


@pytest.mark.parametrize(
    ("took", "asked", "pause"), [(0.0, True, 10), (0.0, False, 30), (2.0, True, 40), (2.0, False, 40)]
)
def test_a_look_that_takes_long_comes_seldom(took: float, asked: bool, pause: float) -> None:
    assert Pace().pause(took, asked=asked) == pause


# --- the page of groups ----------------------------------------------------------------------------------------------


@pytest.fixture
async def client(moved: Moved) -> AsyncIterator[aiohttp.ClientSession]:
    for number in range(12):
        moved.add(f"Group-{number:02}", step=STEPS[number % 6])
    moved.tell("Group-03", 5.0, "it is amiss")
    async with (
        serve_admin(HostPort("127.0.0.1", 0), Watching(moved, Grouped(moved)), pace=SLOW) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=aiohttp.ClientTimeout(20)) as session,
    ):
        yield session


async def page(client: aiohttp.ClientSession, **query: str | int) -> dict[str, Any]:
    async with client.get("/v1/groups/summary", params=query) as response:
        assert response.status == 200, await response.text()
        document: dict[str, Any] = await response.json()
        return document


async def test_a_broker_that_does_not_answer_is_one_alarm(moved: Moved, client: aiohttp.ClientSession) -> None:
    for number in range(4, 12):
        moved.silent(f"Group-{number:02}", f"broker {number % 2} has not answered in 3 s")
    told = await page(client, limit=2)
    assert (told["alarms"], told["states"]) == (3, {"Stable": 4, "Unknown": 8})


async def test_what_is_told_of_all_groups(client: aiohttp.ClientSession) -> None:
    told = await page(client, limit=2)
    assert (told["total"], told["matching"], told["alarms"], told["states"]) == (12, 12, 1, {"Stable": 12})
    assert set(told["steps"].values()) == {2}
    first, second = told["groups"]
    assert (first["group"], first["step"], second["step"]) == ("Group-00", "zookeeper", "zookeeper+dual")


async def test_searched_sorted_and_paged(client: aiohttp.ClientSession) -> None:
    def names(told: dict[str, Any]) -> list[str]:
        return [each["group"][-2:] for each in told["groups"]]

    assert names(await page(client, search="GROUP-1")) == ["10", "11"]
    assert names(await page(client, step="kafka")) == ["03", "09"]
    assert names(await page(client, state="Dead")) == []
    assert names(await page(client, sort="group", order="desc", limit=2, offset=1)) == ["10", "09"]
    assert names(await page(client, sort="step", limit=3)) == ["00", "06", "01"]
    assert names(await page(client, offset=100)) == []


async def test_who_has_members_that_nobody_knows_of_is_the_last(client: aiohttp.ClientSession, moved: Moved) -> None:
    moved.silent("Group-05", "its broker does not answer")
    last = (await page(client, sort="members", order="desc"))["groups"][-1]
    assert (last["group"], last["members"]) == ("Group-05", None)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("limit=201", "limit is not a whole number from 0 to 200"),
        ("offset=-1", "offset is not a whole number"),
        ("offset=x", "offset is not a whole number"),
        ("offset=%D9%A3", "offset is not a whole number"),  # an Arabic digit
        ("sort=name", "sort has to be one of group, state, step, members, lag"),
        ("step=here", "step has to be one of zookeeper, zookeeper+dual"),
        ("order=up", "order has to be one of asc, desc"),
        ("search=a&search=b", "search stands once"),
        ("serach=a", '"serach" is not known: search, step'),
        (f"search={'a' * 1001}", "search is longer than 1000 bytes"),
        ("search=%ff", "the query is not name=value"),
    ],
)
async def test_a_query_that_is_not_understood(client: aiohttp.ClientSession, query: str, why: str) -> None:
    async with client.get(f"/v1/groups/summary?{query}") as response:
        assert response.status == 400
        assert why in (await response.json())["error"]


async def test_the_lag_of_one_group_over_time(moved: Moved) -> None:
    moved.add("g", step="kafka")
    lagging = Lagging(moved)
    async with (
        asyncio.timeout(20),
        serve_admin(HostPort("127.0.0.1", 0), Watching(moved, lagging)) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        await lagging.again.wait()
        async with client.get("/v1/groups/lag/recent?group=g") as response:
            document = await response.json()
        assert [lag for _, lag in document["samples"]] == [12]
        async with client.get("/v1/groups/lag/recent") as response:
            assert response.status == 400
