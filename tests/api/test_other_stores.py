"""Requests that change offsets which are in another place, too: what is looked at before, and who is told after."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Sequence
from typing import Any, Final, cast

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import delete_groups, offset_commit, offset_delete, txn_offset_commit
from protocol.own.conditional_commit import NONE_COMMITTED, expecting
from protocol.own.state_log import Step
from shim.coordinator import Caller, GroupCoordinator
from shim.migration.hands.placements import Placements, Whose
from shim.migration.stores import Stores
from tests.api.driving import Client, answer, services

GROUP: Final = "group-0"
PARTITION: Final = offset_commit.OffsetCommitRequestPartition(0, 5)


class Placed:
    """All groups have their offsets in another place, too."""

    def of(self, _: str) -> Whose:
        return Whose.SERVED_WITH_STORES

    def steps_of(self, group_ids: Iterable[str]) -> dict[str, Step]:
        return dict.fromkeys(group_ids, Step.KAFKA)


class Place:
    """The other place: what it is asked is in ``asked``, and ``fails`` at being told."""

    has_zookeeper = True

    def __init__(self, *, is_known: bool = True, refuses: ErrorCode | None = None, fails: bool = False) -> None:
        self.asked: list[str] = []
        self.old: list[tuple[str, int]] = []
        self._is_known = is_known
        self._refuses = refuses
        self._fails = fails

    def is_ready(self, _: str) -> bool:
        return self._is_known

    def takes_transactions(self, _: str) -> bool:
        return False

    async def not_ready(self, groups: Sequence[str]) -> dict[str, ErrorCode]:
        return self._looked("ready", groups)

    async def not_deletable(self, groups: Sequence[str]) -> dict[str, ErrorCode]:
        return self._looked("deletable", groups)

    def _looked(self, what: str, groups: Sequence[str]) -> dict[str, ErrorCode]:
        self.asked.append(what)
        return dict.fromkeys(groups, self._refuses) if self._refuses is not None else {}

    def after(self, groups: Sequence[str]) -> Awaitable[list[str]]:
        self.asked.append("told")

        async def told() -> list[str]:
            return list(groups) if self._fails else []

        return told()

    def committed_by_none(self, _: str, partitions: Collection[tuple[str, int]]) -> None:
        self.old.extend(partitions)


def commit(*, member: str = "", partition: Any = PARTITION) -> offset_commit.OffsetCommitRequest:
    topics = (offset_commit.OffsetCommitRequestTopic("t", partitions=(partition,)),)
    return offset_commit.OffsetCommitRequest(GROUP, member_id=member, topics=topics)


DELETION: Final = offset_delete.OffsetDeleteRequest(
    GROUP, (offset_delete.OffsetDeleteRequestTopic("t", (offset_delete.OffsetDeleteRequestPartition(0),)),)
)
GROUPS: Final = delete_groups.DeleteGroupsRequest((GROUP,))


def code_of(response: Any) -> int:
    if isinstance(response, offset_delete.OffsetDeleteResponse):
        return response.error_code
    if isinstance(response, delete_groups.DeleteGroupsResponse):
        return response.results[0].error_code
    return int(response.topics[0].partitions[0].error_code)


async def asked(place: Place, api: Api[Any, Any], version: int, request: Any) -> int:
    """With the group empty, and a commit in it."""
    coordinator = GroupCoordinator()
    to = (await services({0: coordinator}))._replace(placements=cast(Placements, Placed()), stores=cast(Stores, place))
    coordinator.offset_commit(0, Caller("me", "/127.0.0.1"), 8, commit(), object())
    return code_of(await answer(api, version, request, to, Client()))


@pytest.mark.parametrize(
    ("api", "version", "request_", "is_known", "looked"),
    [
        (offset_commit.API, 8, commit(), True, []),
        (offset_commit.API, 8, commit(), False, ["ready"]),
        # A condition would be held against an older offset than is there.
        (offset_commit.API, 8, commit(partition=expecting(PARTITION, 5)), True, ["ready"]),
        # There would be nothing to delete of an offset that the log does not have yet.
        (offset_delete.API, 0, DELETION, True, ["deletable"]),
        (delete_groups.API, 2, GROUPS, True, ["deletable"]),
    ],
)
async def test_what_is_there_is_looked_at_before_and_told_after(
    api: Api[Any, Any], version: int, request_: Any, is_known: bool, looked: list[str]
) -> None:
    place = Place(is_known=is_known)
    assert await asked(place, api, version, request_) == ErrorCode.NONE
    assert place.asked == [*looked, "told"]


ALWAYS_LOOKING: Final = [
    (offset_commit.API, 8, commit(partition=expecting(PARTITION, NONE_COMMITTED))),
    (offset_delete.API, 0, DELETION),
    (delete_groups.API, 2, GROUPS),
]


@pytest.mark.parametrize(("api", "version", "request_"), ALWAYS_LOOKING)
async def test_what_cannot_be_looked_at_is_refused_and_not_decided(
    api: Api[Any, Any], version: int, request_: Any
) -> None:
    place = Place(refuses=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert await asked(place, api, version, request_) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert "told" not in place.asked


@pytest.mark.parametrize(
    ("api", "version", "request_"),
    [(offset_commit.API, 8, commit()), (offset_delete.API, 0, DELETION), (delete_groups.API, 2, GROUPS)],
)
async def test_nobody_is_told_that_it_is_done_where_it_is_not_there(
    api: Api[Any, Any], version: int, request_: Any
) -> None:
    assert await asked(Place(fails=True), api, version, request_) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_transaction_is_refused_where_the_place_takes_none() -> None:
    place = Place()
    partitions = (txn_offset_commit.TxnOffsetCommitRequestPartition(0, 5),)
    topics = (txn_offset_commit.TxnOffsetCommitRequestTopic("t", partitions),)
    request = txn_offset_commit.TxnOffsetCommitRequest("x", GROUP, 1, 0, topics=topics)
    assert await asked(place, txn_offset_commit.API, 3, request) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert place.asked == []


@pytest.mark.parametrize(
    ("version", "member", "fails", "noted"),
    [
        (1, "", False, [("t", 0)]),
        (2, "", False, [("t", 0)]),
        (2, "", True, []),
        (2, "m", False, []),
        (8, "", False, []),
    ],
)
async def test_old_consumers_that_commit_are_noted(
    version: int, member: str, fails: bool, noted: list[tuple[str, int]]
) -> None:
    place = Place(fails=fails)
    await asked(place, offset_commit.API, version, commit(member=member))
    assert place.old == noted
