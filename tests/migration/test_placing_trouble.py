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
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import Placements
from shim.migration.words import Refused
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
def first_contact(places: _Places, caplog: pytest.LogCaptureFixture) -> FirstContact:
    caplog.set_level(logging.INFO, "shim.migration.hands.first_contact")
    runtime, its = runtime_of(GroupCoordinator()), Settings()
    cluster, lookup = cast(ClusterGroups, places), cast(Lookup, places)
    return FirstContact(runtime, Placements(runtime), cluster, its, passed_by, lookup)


def _cluster(group: str) -> str:
    return f"whether the cluster knows group {group} cannot be found out"


def _zookeeper(group: str) -> str:
    return f"whether ZooKeeper has offsets of group {group} cannot be found out"


async def _found(first_contact: FirstContact, *groups: str) -> list[ErrorCode]:
    return [await first_contact.find_out(group, None) for group in groups]


async def test_a_group_is_not_taken_for_another_one(
    places: _Places, first_contact: FirstContact, caplog: pytest.LogCaptureFixture
) -> None:
    places.cluster_away = {"g", "h"}
    assert await _found(first_contact, "g", "h", "g", "well") == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3 + [0]
    assert caplog.messages == [f"{_cluster(group)} for now: it is away" for group in "gh"]
    caplog.clear()
    places.cluster_away = {"h"}
    await _found(first_contact, "g", "h")
    places.cluster_away = set()
    await _found(first_contact, "h", "g")
    assert caplog.messages == [f"this is over: {_cluster(group)}" for group in "gh"]


async def test_zookeeper_that_was_away_is_over(
    places: _Places, first_contact: FirstContact, caplog: pytest.LogCaptureFixture
) -> None:
    places.zookeeper_away = {"g", "h"}
    await _found(first_contact, "g", "h", "g")
    places.zookeeper_away = {"h"}
    await _found(first_contact, "g", "h", "g")
    assert caplog.messages == [
        f"{_zookeeper('g')} for now: it is away",
        f"{_zookeeper('h')} for now: it is away",
        f"this is over: {_zookeeper('g')}",
    ]


async def test_the_cluster_was_asked_where_zookeeper_was_not(
    places: _Places, first_contact: FirstContact, caplog: pytest.LogCaptureFixture
) -> None:
    places.cluster_away = places.zookeeper_away = {"g"}
    await _found(first_contact, "g")
    places.cluster_away = set()
    await _found(first_contact, "g")
    assert caplog.messages == [
        f"{_cluster('g')} for now: it is away",
        f"this is over: {_cluster('g')}",
        f"{_zookeeper('g')} for now: it is away",
    ]


async def test_what_is_told_is_whose_fault_it_is(places: _Places, first_contact: FirstContact) -> None:
    places.cluster_away, places.zookeeper_away = {"g"}, {"h"}
    for group, what in (("g", _cluster("g")), ("h", _zookeeper("h"))):
        with pytest.raises(Refused, match=f"^{what} for now: it is away$"):
            await first_contact.whose(group)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        # Of more kinds of trouble than are remembered.
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "^the cluster, or ZooKeeper, cannot be asked about group g now"),
        # As of a disk that is full.
        (ErrorCode.NOT_COORDINATOR, "^group g: the log answers NOT_COORDINATOR$"),
    ],
)
async def test_what_is_told_where_that_is_not_known(
    first_contact: FirstContact, monkeypatch: pytest.MonkeyPatch, error: ErrorCode, told: str
) -> None:
    async def find_out(*_: object) -> ErrorCode:
        return error

    monkeypatch.setattr(first_contact, "find_out", find_out)
    with pytest.raises(Refused, match=told):
        await first_contact.whose("g")
