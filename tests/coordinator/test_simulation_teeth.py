"""The witness finds what it is there to find: a coordinator with one rule broken does not get through a few worlds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.offsets_log import OffsetCommitKey
from shim.coordinator import GroupCoordinator, coordinator
from shim.coordinator.decision import Decision
from shim.coordinator.state.group import Group
from shim.coordinator.state.partition_state import PartitionState
from shim.coordinator.state.transactions import Transactions
from shim.coordinator.upkeep import retention_check

from .simulation.witness import Broken
from .simulation.world import MINUTE_MS, run

WORLDS = 6

Patch = Callable[[pytest.MonkeyPatch], None]


def generations_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "next_generation_id", lambda group: max(group.generation_id, 1))


def sessions_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator, "session_due", lambda decision, group, member_id: None)


def sessions_are_not_renewed(patch: pytest.MonkeyPatch) -> None:
    renew = Decision.renew_session

    def renews(decision: Decision, member: Any, at_least_ms: int = 0) -> None:
        if member.session_deadline not in decision.state.deadlines:
            renew(decision, member, at_least_ms)

    patch.setattr(Decision, "renew_session", renews)


def members_that_read_lose_their_offsets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retention_check, "_may_expire", lambda group, topic: True)


def what_aborts_is_committed(patch: pytest.MonkeyPatch) -> None:
    end = Transactions.end
    patch.setattr(Transactions, "end", lambda self, producer, *, committed: end(self, producer, committed=True))


def what_is_pending_outlives_its_deletion(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "forget", lambda self, key: None)


def a_static_member_comes_back_to_nothing(patch: pytest.MonkeyPatch) -> None:
    replace = Group.replace_static_member

    def replaces(group: Group, member: Any, member_id: str) -> Any:
        new = replace(group, member, member_id)
        new.assignment = b""
        return new

    patch.setattr(Group, "replace_static_member", replaces)


def records_are_replayed_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """Of two offsets one after the other the second first."""
    replay, loaded = GroupCoordinator.replay, GroupCoordinator.loaded
    held: dict[int, Any] = {}

    def swapping(self: GroupCoordinator, key: Any, value: Any) -> None:
        first = held.pop(id(self), None)
        if first is None and isinstance(key, OffsetCommitKey):
            held[id(self)] = key, value
            return
        replay(self, key, value)
        if first is not None:
            replay(self, *first)

    def loads(self: GroupCoordinator, *args: Any) -> None:
        if id(self) in held:
            replay(self, *held.pop(id(self)))
        loaded(self, *args)

    patch.setattr(GroupCoordinator, "replay", swapping)
    patch.setattr(GroupCoordinator, "loaded", loads)


def pending_offsets_are_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionState, "is_unstable", lambda state, key: key in state.commits)


def found_in(seed: int) -> str | None:
    """The name of what does not hold in that world."""
    try:
        run(seed, 4 * MINUTE_MS)
    except Broken as broken:
        return broken.name
    return None


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        (generations_stay, {"GENERATIONS"}),
        (sessions_never_end, {"FENCED", "EXPIRY"}),
        (sessions_are_not_renewed, {"LIVE", "FENCED"}),
        (members_that_read_lose_their_offsets, {"EXPIRY"}),
        (what_aborts_is_committed, {"LOG"}),
        (what_is_pending_outlives_its_deletion, {"ANSWERS", "RECOVERY", "LOG"}),
        (a_static_member_comes_back_to_nothing, {"OWNERS"}),
        (records_are_replayed_out_of_order, {"RECOVERY"}),
        (pending_offsets_are_stable, {"LOG"}),
    ],
)
def test_a_broken_rule_is_found(broken: Patch, names: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    assert any(found_in(seed) in names for seed in range(WORLDS))
