"""Members of a group at a real cluster: who shares out, who hears of it, and what happens when one goes away."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages import join_group
from shim.config import HostPort, Settings, parse_servers
from shim.demo.parts import Cluster as Brokers
from shim.ownership import member
from shim.ownership.member import GroupMember, GroupTimes, InstanceFenced
from shim.upstream import Cluster, UpstreamError
from shim.upstream.coordinators import Coordinators
from tests.hung import hung

SETTINGS: Final = Settings()
PATIENCE_S: Final = 60.0
QUICK: Final = GroupTimes(heartbeat_interval=200)
PATIENT: Final = QUICK._replace(session_timeout=4 * int(PATIENCE_S * 1000))
"""Nobody is missed within a test."""
OUTAGE: Final = "kafka-1:9092: Connection refused"
_names = count()


class Member:
    """Everybody is told the names of all, by who leads."""

    def __init__(self, cluster: Cluster, group: str, instance_id: str, times: GroupTimes) -> None:
        self.instance_id = instance_id
        self.told: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self.says = instance_id
        self.shared = 0
        self.unable = 0
        self.member = GroupMember(
            *(cluster, SETTINGS, group, instance_id),
            metadata=lambda: self.says.encode(),
            assign=self._assign,
            assigned=lambda generation, data: self.told.put_nowait((generation, data.decode())),
            times=times,
        )
        self.running = asyncio.create_task(self.member.run())

    async def _assign(self, members: Mapping[str, bytes]) -> bytes:
        if self.unable:
            self.unable -= 1
            raise UpstreamError("not now")
        self.shared += 1
        return " ".join(f"{name}={members[name].decode()}" for name in sorted(members)).encode()

    async def hears(self, names: str) -> int:
        """Until it is told that; gives the generation."""
        wanted = " ".join(each if "=" in each else f"{each}={each}" for each in names.split())
        async with asyncio.timeout(PATIENCE_S):
            while True:
                generation, told = await self.told.get()
                if told == wanted:
                    return generation

    async def end(self, *, leave: bool = False) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError, InstanceFenced, UpstreamError):
            await self.running
        if leave:
            await self.member.leave()


class Group:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = f"shims-{os.getpid()}-{next(_names)}"
        self.members: list[Member] = []

    def joins(self, instance_id: str, times: GroupTimes = QUICK) -> Member:
        self.members.append(Member(self.cluster, self.name, instance_id, times))
        return self.members[-1]


@pytest.fixture
async def group(cluster: Brokers) -> AsyncIterator[Group]:
    async with at(cluster) as made:
        yield made


@asynccontextmanager
async def at(brokers: Brokers) -> AsyncIterator[Group]:
    cluster = Cluster(parse_servers(brokers.bootstrap_servers), SETTINGS)
    following = asyncio.create_task(cluster.run())
    made = Group(cluster)
    try:
        yield made
    finally:
        for member in made.members:
            await member.end(leave=True)
        following.cancel()
        await asyncio.wait([following])


async def test_all_are_told_the_same(group: Group) -> None:
    a = group.joins("a")
    await a.hears("a")
    b = group.joins("b")
    generations = {await b.hears("a b"), await a.hears("a b")}
    assert len(generations) == 1
    assert (a.member.is_leader, b.member.is_leader) == (True, False)
    assert (a.shared, b.shared) == (2, 0)
    assert await b.member.confirmed(*generations)
    assert not await b.member.confirmed(max(generations) - 1)


async def test_who_leaves_is_not_waited_for(group: Group) -> None:
    a, b = group.joins("a", PATIENT), group.joins("b", PATIENT)
    await asyncio.gather(a.hears("a b"), b.hears("a b"))
    leader, other = (a, b) if a.member.is_leader else (b, a)
    await leader.end(leave=True)
    await other.hears(other.instance_id)
    assert other.member.is_leader


async def test_who_is_gone_is_missed_when_its_session_is_over(group: Group) -> None:
    a, b = group.joins("a"), group.joins("b")
    generation, _ = await asyncio.gather(a.hears("a b"), b.hears("a b"))
    await b.end()
    assert await a.hears("a") > generation


async def test_one_that_is_started_anew_has_its_place_in_the_same_generation(group: Group) -> None:
    a, b = group.joins("a"), group.joins("b")
    generation, _ = await asyncio.gather(a.hears("a b"), b.hears("a b"))
    for each in (a, b):  # one of which leads
        await each.end()
        again = group.joins(each.instance_id)
        assert await again.hears("a b") == generation
        assert again.member.is_leader == each.member.is_leader
        assert again.shared == 0


async def test_one_that_says_something_else_when_it_joins_again_has_all_told(group: Group) -> None:
    a, b = group.joins("a"), group.joins("b")
    await asyncio.gather(a.hears("a b"), b.hears("a b"))
    for each, told in ((a, "a=new b"), (b, "a=new b=new")):
        each.says = "new"
        each.member.rejoin()
        await asyncio.gather(a.hears(told), b.hears(told))


async def test_the_leader_can_have_all_shared_out_anew(group: Group) -> None:
    a, b = group.joins("a"), group.joins("b")
    generation, _ = await asyncio.gather(a.hears("a b"), b.hears("a b"))
    (a if a.member.is_leader else b).member.rejoin()
    assert await a.hears("a b") > generation
    assert await b.hears("a b") > generation


async def test_a_second_one_with_the_same_id_ends_the_first(group: Group) -> None:
    first = group.joins("a")
    generation = await first.hears("a")
    second = group.joins("a")
    await second.hears("a")
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(InstanceFenced, match="another member a"):
            await first.running
    assert not await first.member.confirmed(generation)
    assert await second.member.confirmed(generation)


async def test_who_cannot_share_out_does_so_later(group: Group) -> None:
    a = group.joins("a")
    a.unable = 2
    await a.hears("a")
    assert a.shared == 1


@pytest.mark.parametrize(
    ("error", "ends"), [(ErrorCode.UNKNOWN_SERVER_ERROR, False), (ErrorCode.GROUP_AUTHORIZATION_FAILED, True)]
)
async def test_what_does_not_pass_ends_it_and_nothing_else(
    group: Group, monkeypatch: pytest.MonkeyPatch, error: ErrorCode, ends: bool
) -> None:
    ask, refused = Coordinators.ask, [error]

    async def refusing(self: Coordinators, address: HostPort, api: Any, request: Any, **kwargs: Any) -> Any:
        if api is join_group.API and refused:
            return join_group.JoinGroupResponse(error_code=refused.pop())
        return await ask(self, address, api, request, **kwargs)

    monkeypatch.setattr(Coordinators, "ask", refusing)
    a = group.joins("a")
    if ends:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(UpstreamError, match="GROUP_AUTHORIZATION_FAILED"):
                await a.running
    else:
        await a.hears("a")


async def test_a_coordinator_that_comes_up_is_no_trouble_at_first(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shim.ownership.member")
    ask, refused = Coordinators.ask, [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    async def refusing(self: Coordinators, address: HostPort, api: Any, request: Any, **kwargs: Any) -> Any:
        if api is join_group.API and refused:
            return join_group.JoinGroupResponse(error_code=refused.pop())
        return await ask(self, address, api, request, **kwargs)

    def levels() -> set[int]:
        told = {each.levelno for each in caplog.records if each.getMessage().startswith("what ")}
        caplog.clear()
        return told

    monkeypatch.setattr(Coordinators, "ask", refusing)
    monkeypatch.setattr(member, "_COMES_UP_WITHIN_SECONDS", PATIENCE_S)
    a = group.joins("a")
    generation = await a.hears("a")
    assert levels() == {logging.INFO}
    refused.append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    a.member.rejoin()
    assert await a.hears("a") > generation
    assert levels() == {logging.WARNING}, "once it was there"


async def test_an_outage_is_told_once_whatever_each_broker_says_of_it(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each time another broker is asked first, and one is refused by words, another by an error code."""
    caplog.set_level(logging.INFO, "shim.ownership.member")
    ask = Coordinators.ask
    left: list[UpstreamError | ErrorCode] = []

    async def failing(self: Coordinators, address: HostPort, api: Any, request: Any, **kwargs: Any) -> Any:
        if api is not join_group.API or not left:
            return await ask(self, address, api, request, **kwargs)
        if isinstance(fault := left.pop(), UpstreamError):
            raise fault
        return join_group.JoinGroupResponse(error_code=fault)

    def told() -> list[tuple[int, str]]:
        lines = [(each.levelno, each.getMessage()) for each in caplog.records if "are whose is" in each.getMessage()]
        caplog.clear()
        return lines

    monkeypatch.setattr(Coordinators, "ask", failing)
    monkeypatch.setattr(member, "_AGAIN_SECONDS", 0.01)
    a = group.joins("a")
    generation = await a.hears("a")
    assert told() == [], "there was no trouble"
    for _ in range(2):  # and of the next one it is told again
        left += [
            *(UpstreamError("kafka-2:9092: Connection refused"), UpstreamError("kafka-1:9092: timed out")),
            *(ErrorCode.COORDINATOR_NOT_AVAILABLE, UpstreamError("kafka-1:9092: Connection refused")),
        ] * 3
        a.member.rejoin()
        generation, before = await a.hears("a"), generation
        assert generation > before
        async with asyncio.timeout(PATIENCE_S):
            assert await a.member.confirmed(generation), "it has been told by then"
        what = f"group {group.name}"
        assert told() == [
            (logging.WARNING, f"what partitions are whose is not known from {what} for now: {OUTAGE}"),
            (logging.INFO, f"this is over: what partitions are whose is not known from {what}"),
        ]


async def test_what_brokers_refuse_otherwise_is_told_in_an_outage_too(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left: list[ErrorCode] = [
        *(ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.GROUP_MAX_SIZE_REACHED),
        *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
    ask = Coordinators.ask

    async def refusing(self: Coordinators, address: HostPort, api: Any, request: Any, **kwargs: Any) -> Any:
        if api is join_group.API and left:
            return join_group.JoinGroupResponse(error_code=left.pop())
        return await ask(self, address, api, request, **kwargs)

    monkeypatch.setattr(Coordinators, "ask", refusing)
    monkeypatch.setattr(member, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(member, "_COMES_UP_WITHIN_SECONDS", 0.0)
    a = group.joins("a")
    await a.hears("a")
    lines = [each.getMessage() for each in caplog.records if "are whose is not known" in each.getMessage()]
    assert [line.rpartition(": ")[2] for line in lines] == ["COORDINATOR_NOT_AVAILABLE", "GROUP_MAX_SIZE_REACHED"]


async def test_the_coordinator_hangs(cluster: Brokers) -> None:
    while True:
        async with at(cluster) as group:
            a = group.joins("a")
            await a.hears("a")
            assert a.member.coordinator is not None
            port = a.member.coordinator.port
            (held,) = (each for each in cluster.brokers if each.bootstrap_servers.endswith(f":{port}"))
            if held.is_controller:
                continue  # nobody would take over: another group
            b = group.joins("b")
            generation, _ = await asyncio.gather(a.hears("a b"), b.hears("a b"))
            with hung(held.pid):
                async with asyncio.timeout(PATIENCE_S):
                    # They are told either way.
                    await asyncio.gather(a.member.confirmed(generation), b.member.confirmed(generation))
                a.says = "new"
                a.member.rejoin()
                assert await a.hears("a=new b") > generation
            return
