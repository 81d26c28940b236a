"""Looking at very many groups leaves others their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from types import SimpleNamespace
from typing import Any, Final

from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from protocol.own.state_log import GroupHandsKey, GroupHandsValue, Hands
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.following import Lags
from shim.migration.hands.placements import Placements
from shim.migration.migration import Migration
from shim.runtime import Clock

GROUPS: Final = 1_000


def runtime_of(coordinator: GroupCoordinator) -> Any:
    return SimpleNamespace(
        num_partitions=1,
        coordinator=lambda _: coordinator,
        coordinator_of=lambda _: coordinator,
        partition_of=lambda _: 0,
        watch=lambda _: None,
    )


async def turns_beside(looking: Awaitable[Any]) -> int:
    """How often somebody else has come to his turn meanwhile."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(other())
    await looking
    beside.cancel()
    return turns


async def nobody_there(groups: Collection[str], _: float) -> dict[str, Any]:
    assert not groups, "all are served"
    return {}


def migration_of(coordinator: GroupCoordinator) -> Migration:
    runtime, nobody = runtime_of(coordinator), SimpleNamespace(alarm=lambda _: "")
    stores: Any = SimpleNamespace(lag_seconds=lambda _: None, why=lambda _: "", mirror=nobody)
    guard: Any = SimpleNamespace(alarm=lambda _: "")
    settings, there = Settings(), SimpleNamespace(all_described=nobody_there)
    placements = Placements(runtime)
    return Migration(runtime, there, there, placements, stores, there, guard, settings, there, there, Clock())  # type: ignore[arg-type]


async def test_their_status() -> None:
    coordinator = GroupCoordinator()
    for number in range(GROUPS):
        coordinator.replay(OffsetCommitKey(f"g{number}", "orders", 0), OffsetCommitValue(5, commit_timestamp=1))
    migration = migration_of(coordinator)

    async def status() -> None:
        assert len(await migration.status(None)) == GROUPS

    assert await turns_beside(status()) >= GROUPS // 200


async def test_the_status_of_those_that_are_served_takes_no_broker() -> None:
    coordinator = GroupCoordinator()
    for name, hands in (("served", Hands.SERVED), ("passed", Hands.PASSED_THROUGH), ("gone", Hands.SERVED)):
        coordinator.replay_state(GroupHandsKey(name), GroupHandsValue(hands, 1))
    coordinator.replay(OffsetCommitKey("served", "orders", 0), OffsetCommitValue(5, commit_timestamp=1))
    (its,) = await migration_of(coordinator).status_of_served()
    assert (its.group, its.step, its.state) == ("served", "kafka", "Empty")


async def test_lags_of_groups_without_offsets() -> None:
    coordinator = GroupCoordinator()
    for number in range(GROUPS):
        coordinator.replay(GroupMetadataKey(f"g{number}"), GroupMetadataValue("consumer", 1, None, None, 1, ()))

    async def nothing(_: Any) -> dict[Any, int]:
        return {}

    lags = Lags(runtime_of(coordinator), SimpleNamespace(of=nothing), Settings())  # type: ignore[arg-type]
    assert await turns_beside(lags.look()) >= GROUPS // 200
