"""What keeps a group from being placed is told of each group, and that it is over."""

from __future__ import annotations

import logging
from typing import cast

import pytest

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.migration.dual.lookup import Lookup
from shim.migration.hands.placements import Placements
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreUnavailable
from shim.upstream.errors import UpstreamError
from tests.groups.test_many import runtime_of
from tests.migration.no_groups import NoGroups, passed_by


class _Places(NoGroups):
    """The cluster and ZooKeeper, of which each may be asked for some groups only."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster_away: set[str] = set()
        self.zookeeper_away: set[str] = set()
        self.live: set[str] = set()

    async def described(self, group: str, within_seconds: float | None = None) -> DescribedGroup:
        if group in self.cluster_away:
            raise UpstreamError("it is away")
        return DescribedGroup(0, group_id=group, group_state="Stable" if group in self.live else "Empty")

    async def knows(self, group: str) -> bool:
        if group in self.zookeeper_away:
            raise StoreUnavailable("it is away")
        return False


@pytest.fixture
def places() -> _Places:
    return _Places()


@pytest.fixture
def placements(places: _Places, caplog: pytest.LogCaptureFixture) -> Placements:
    caplog.set_level(logging.INFO, "shim.migration.hands.first_contact")
    runtime, its = runtime_of(GroupCoordinator()), Settings()
    return Placements(runtime, cast(ClusterGroups, places), its, passed_by, cast(Lookup, places))


def _cluster(group: str) -> str:
    return f"whether the cluster knows group {group} cannot be found out"


def _zookeeper(group: str) -> str:
    return f"whether ZooKeeper has offsets of group {group} cannot be found out"


async def _found(placements: Placements, *groups: str) -> list[ErrorCode]:
    return [await placements.first_contact.find_out(group, None) for group in groups]


async def test_a_group_is_not_taken_for_another_one(
    places: _Places, placements: Placements, caplog: pytest.LogCaptureFixture
) -> None:
    places.cluster_away = {"g", "h"}
    assert await _found(placements, "g", "h", "g", "well") == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3 + [0]
    assert caplog.messages == [f"{_cluster(group)} for now: it is away" for group in "gh"]
    caplog.clear()
    places.cluster_away = {"h"}
    await _found(placements, "g", "h")
    places.cluster_away = set()
    await _found(placements, "h", "g")
    assert caplog.messages == [f"this is over: {_cluster(group)}" for group in "gh"]


async def test_zookeeper_that_was_away_is_over(
    places: _Places, placements: Placements, caplog: pytest.LogCaptureFixture
) -> None:
    places.zookeeper_away = {"g", "h"}
    await _found(placements, "g", "h", "g")
    places.zookeeper_away = {"h"}
    await _found(placements, "g", "h", "g")
    assert caplog.messages == [
        f"{_zookeeper('g')} for now: it is away",
        f"{_zookeeper('h')} for now: it is away",
        f"this is over: {_zookeeper('g')}",
    ]


async def test_the_cluster_was_asked_where_zookeeper_was_not(
    places: _Places, placements: Placements, caplog: pytest.LogCaptureFixture
) -> None:
    places.cluster_away = places.zookeeper_away = {"g"}
    await _found(placements, "g")
    places.cluster_away = set()
    await _found(placements, "g")
    assert caplog.messages == [
        f"{_cluster('g')} for now: it is away",
        f"this is over: {_cluster('g')}",
        f"{_zookeeper('g')} for now: it is away",
    ]


async def test_what_is_told_is_whose_fault_it_is(places: _Places, placements: Placements) -> None:
    places.cluster_away, places.zookeeper_away = {"g"}, {"h"}
    for group, what in (("g", _cluster("g")), ("h", _zookeeper("h"))):
        (error,) = await _found(placements, group)
        assert placements.first_contact.not_found_out(group, error) == f"{what} for now: it is away"
    # Of more kinds of trouble than are remembered.
    told = placements.first_contact.not_found_out("i", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert told.startswith("the cluster, or ZooKeeper, cannot be asked about group i now")
    # As of a disk that is full.
    told = placements.first_contact.not_found_out("g", ErrorCode.NOT_COORDINATOR)
    assert told == "group g: the log answers NOT_COORDINATOR"
