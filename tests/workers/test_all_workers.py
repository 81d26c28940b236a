"""What workers answer, put together as if one shim had."""

from __future__ import annotations

from typing import Any

from protocol.partition import partition_for
from shim.admin.live.asked.migration import Candidates, GroupStatus
from shim.log import Share
from shim.workers.all_workers import AllMigrations

GROUPS = [f"g{number}" for number in range(8)]


class Worker:
    """It takes all groups for its own, as one does that has heard of them before they went to another."""

    async def __call__(self, part: str, name: str, *arguments: Any, **named: Any) -> Candidates:
        assert (part, name) == ("migration", "candidates")
        return Candidates(GROUPS, ["broker 2 has not answered"], dict.fromkeys(GROUPS[::3], "another protocol"))


async def test_candidates_are_those_of_each_once() -> None:
    assert {Share(0, 2).holder(partition_for(group, 50)) for group in GROUPS} == {0, 1}
    found = await AllMigrations([Worker(), Worker()], 50).candidates()
    assert found == Candidates(GROUPS, ["broker 2 has not answered"], dict.fromkeys(GROUPS[::3], "another protocol"))


async def test_the_status_of_those_that_are_served_is_told_by_each() -> None:
    def of(*groups: str) -> Any:
        async def asked(part: str, name: str) -> list[GroupStatus]:
            assert (part, name) == ("migration", "status_of_served")
            return [GroupStatus(group, "kafka", "Empty", 0, None, "") for group in groups]

        return asked

    found = await AllMigrations([of("a", "c"), of("b")], 50).status_of_served()
    assert [each.group for each in found] == ["a", "b", "c"]
