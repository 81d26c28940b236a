"""Members, as people read of them: who keeps a group from being reset or deleted, and whom a rebalance waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from protocol.group_kinds import CLASSIC, CONSUMER, STREAMS, Kind
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from shim.coordinator import Presence
from shim.groups.beforehand import Beforehand
from shim.groups.in_use import in_use, in_use_in_cluster, in_use_in_zookeeper
from shim.groups.words import Refused, awaited
from shim.migration.hands.placements import Whose
from shim.offsets.store import StoreUnavailable

NOW: Final = 1_700_000_000_000
GOES: Final = "Stop them first; one that is dead is gone when its session ends"


def described(count: int, state: str = "Stable") -> DescribedGroup:
    members = tuple(
        DescribedGroupMember(f"m-{number}", None, f"etl-{number}", "/10.0.0.4", b"", b"") for number in range(count)
    )
    return DescribedGroup(0, None, "g", state, "consumer", "range", members)


def presence(number: int, silent_ms: int | None, session_ms: int = 45_000, *, waits: bool = False) -> Presence:
    heard = None if silent_ms is None else NOW - silent_ms
    removed = None if waits else (heard or NOW) + session_ms
    return Presence(f"m-{number}", f"etl-{number}", "/10.0.0.4", False, heard, session_ms, removed)


@pytest.mark.parametrize("state", ["Empty", "Dead"])
def test_nobody_is(state: str) -> None:
    assert in_use(described(0, state), [], NOW) == ""


def test_the_silent_ones_come_first() -> None:
    told = in_use(described(3), [presence(0, 1_000), presence(1, 31_000), presence(2, None)], NOW)
    assert told == (
        "it has 3 members (it is Stable): "
        "etl-2 at /10.0.0.4 (not heard of since the shim began, its session ends in 45 s), "
        "etl-1 at /10.0.0.4 (last heard of 31 s ago, its session ends in 14 s), "
        f"etl-0 at /10.0.0.4 (last heard of 1 s ago, its session ends in 44 s). {GOES}"
    )


def test_one_that_waits_has_no_end() -> None:
    told = in_use(described(1, "PreparingRebalance"), [presence(0, 31_000, waits=True)], NOW)
    assert told.startswith("it has 1 member (it is PreparingRebalance): etl-0 at /10.0.0.4 (last heard of 31 s ago). ")


def test_of_many_some_are_named() -> None:
    told = in_use(described(1_005), [presence(number, number) for number in range(1_005)], NOW)
    assert told.count(" at /10.0.0.4") == 5
    assert told.endswith(f") and 1,000 more. {GOES}")


@pytest.mark.parametrize(
    ("kind", "session"),
    [
        (CLASSIC, "its session.timeout.ms"),
        (CONSUMER, "the brokers' group.consumer.session.timeout.ms"),
        (STREAMS, "the brokers' group.streams.session.timeout.ms"),
    ],
)
def test_of_those_at_the_brokers_it_is_told_when_they_came_through_the_shim(kind: Kind, session: str) -> None:
    there = kind.group(*described(3))
    goes = f"Stop them first; one that is dead is gone 45 s after it was last heard of, unless {session} says otherwise"
    assert in_use_in_cluster(there, lambda member_id: {"m-0": 1.9, "m-2": 31.0}.get(member_id)) == (
        "it has 3 members (it is Stable): etl-2 at /10.0.0.4 (last heard of 31 s ago), "
        f"etl-0 at /10.0.0.4 (last heard of 1 s ago), etl-1 at /10.0.0.4. {goes}"
    )
    assert in_use_in_cluster(kind.group(*described(0, "Unknown")), lambda _: None) == (
        f"it has members, who are not told, as the shim's principal may not describe their topics. {goes}"
    )
    assert in_use_in_cluster(kind.group(*described(0, "Empty")), lambda _: None) == ""


def test_who_was_given_an_id_may_be_in_it_soon() -> None:
    assert in_use(described(0, "PreparingRebalance"), [], NOW) == (
        "it has members, or is about to (it is PreparingRebalance); stop them first"
    )


def test_who_is_awaited() -> None:
    assert awaited(presence(0, 31_000)._replace(leads=True), NOW) == (
        "m-0 (etl-0 at /10.0.0.4, the leader, last heard of 31 s ago, removed in 14 s unless it is heard of again)"
    )
    told = "m-1 (etl-1 at /10.0.0.4, not heard of since the shim began)"
    assert awaited(presence(1, None, waits=True), NOW) == told


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (["g_old-1"], "in ZooKeeper: g_old-1. Stop"),
        (StoreUnavailable("it is away"), "who is in group g in ZooKeeper is not known: it is away$"),
        ([], "what group g has in ZooKeeper is not known: it does not answer$"),
    ],
    ids=["there", "not told", "none"],
)
async def test_consumers_in_zookeeper(there: list[str] | StoreUnavailable, told: str) -> None:
    """Without any, it is the log that has to be ready."""

    async def consumers(_: str) -> list[str]:
        if isinstance(there, StoreUnavailable):
            raise there
        return there

    async def ready(_: str) -> None:
        raise StoreUnavailable("it does not answer")

    its: Any = SimpleNamespace(of=lambda _: Whose.SERVED_WITH_STORES)
    stores: Any = SimpleNamespace(consumers=consumers, ready=ready)
    with pytest.raises(Refused, match=told):
        await Beforehand(its, its, stores).ready("g")


@pytest.mark.parametrize("whose", [Whose.SERVED, Whose.SERVED_WITH_STORES])
@pytest.mark.parametrize("away", ["", "at once", "asked"])
async def test_who_only_looks_is_told_of_consumers_in_zookeeper_or_that_they_are_not_known(
    whose: Whose, away: str
) -> None:
    def in_sight() -> None:
        if away == "at once":
            raise StoreUnavailable("there is no connection")

    async def consumers(_: str) -> list[str]:
        if away:
            raise StoreUnavailable("it does not answer")
        return ["g_old-1"]

    its: Any = SimpleNamespace(of=lambda _: whose)
    stores: Any = SimpleNamespace(consumers=consumers, in_sight=in_sight)
    told = await Beforehand(its, its, stores).consumers_in_zookeeper("g")
    assert told == (() if whose is Whose.SERVED else None if away else ["g_old-1"])


def test_of_many_consumers_in_zookeeper_some_are_named() -> None:
    assert ": 0, 1, 2, 3, 4 and 3 more. " in in_use_in_zookeeper([str(number) for number in range(8)])
