"""The timers of 100,000 live members: what they cost is counted, not timed."""

from __future__ import annotations

import heapq
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from shim.coordinator import GroupCoordinator
from shim.coordinator.state import deadlines

from .driving import CALLER, START, SUBSCRIPTION

GROUPS = 1_000
MEMBERS = 100  # of each
EVERYBODY = GROUPS * MEMBERS
SESSION_MS = 45_000
HEARTBEAT_MS = 3_000
GENERATION = 7


@pytest.fixture
def heap_work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what was done to a heap."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> Any:
        function = getattr(heapq, name)

        def call(*args: Any) -> Any:
            counted[name] += 1
            return function(*args)

        return call

    names = ("heappush", "heappop", "heapreplace", "heapify")
    monkeypatch.setattr(deadlines, "heapq", SimpleNamespace(**{name: counting(name) for name in names}))
    return counted


def coordinator_with_everybody() -> GroupCoordinator:
    coordinator = GroupCoordinator()
    for group in range(GROUPS):
        members = tuple(
            MemberMetadata(
                member_id=f"{group}-{number}",
                group_instance_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=SESSION_MS,
                subscription=SUBSCRIPTION,
                assignment=b"",
            )
            for number in range(MEMBERS)
        )
        value = GroupMetadataValue("consumer", GENERATION, "range", f"{group}-0", START, members)
        coordinator.replay(GroupMetadataKey(f"g{group}"), value)
    return coordinator


def beat(coordinator: GroupCoordinator, now: int, group: int, number: int) -> None:
    """As a session does it, with the look at the next deadline that follows every decision."""
    request = HeartbeatRequest(f"g{group}", GENERATION, f"{group}-{number}", None)
    ((_, response),) = coordinator.heartbeat(now, CALLER, 4, request, 1).answers
    assert isinstance(response, HeartbeatResponse)
    assert response.error_code == ErrorCode.NONE
    coordinator.next_deadline()


def test_a_heartbeat_costs_no_work_on_the_timers_and_a_session_one_piece(heap_work: Counter[str]) -> None:
    coordinator = coordinator_with_everybody()
    coordinator.loaded(START)
    assert heap_work == {"heappush": EVERYBODY}
    heap_work.clear()

    now = START + HEARTBEAT_MS
    for group in range(GROUPS):
        for number in range(MEMBERS):
            beat(coordinator, now, group, number)
    # To know the next deadline a few that were put off are sorted out with each look, and no member's twice.
    assert heap_work.total() <= EVERYBODY

    heap_work.clear()
    first = START + SESSION_MS
    looks = 0
    while (due := coordinator.next_deadline()) is not None and due <= first:
        assert not coordinator.expire(first).records
        looks += 1
    assert heap_work.total() <= EVERYBODY
    assert looks <= EVERYBODY // 200, "one by one"
    assert due == now + SESSION_MS


def test_those_who_fall_silent_together_go_in_steps_and_the_others_stay(heap_work: Counter[str]) -> None:
    coordinator = coordinator_with_everybody()
    coordinator.loaded(START)
    now = START + SESSION_MS - 1
    for group in range(GROUPS // 2):
        for number in range(MEMBERS):
            beat(coordinator, now, group, number)
    heap_work.clear()
    end = START + SESSION_MS
    steps = 0
    while (due := coordinator.next_deadline()) is not None and due <= end:
        before = heap_work.total()
        coordinator.expire(end)
        assert heap_work.total() - before < 2_000
        steps += 1
    assert steps > 100
    states = Counter(group.group_state for group in coordinator.list_groups())
    assert states == {"Stable": GROUPS // 2, "Empty": GROUPS // 2}
    assert heap_work.total() < 3 * EVERYBODY
