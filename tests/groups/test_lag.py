"""How far a group is behind is one number, in the metrics and in what the commands say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest

from protocol.messages.describe_groups import DescribedGroup
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.state_log import GroupHandsKey, GroupHandsValue, Hands
from protocol.topic_partition import Partition
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.following import Lags
from shim.groups import looking
from shim.groups.looking import Looking
from shim.groups.words import Moved
from shim.runtime import Clock
from shim.upstream.errors import UpstreamError
from shim.upstream.log_ends import lag_of
from tests.groups.test_many import runtime_of

COMMITTED: Final = {("behind", 0): 40, ("there", 0): 100, ("newer", 0): 101, ("none", 0): -1, ("untold", 0): 5}
ENDS: Final = {(topic, 0): 100 for topic in ("behind", "there", "newer", "none")}
LAGS: Final = {("behind", 0): 60, ("there", 0): 0, ("newer", 0): 0, ("untold", 0): None}


@pytest.mark.parametrize(
    ("committed", "end", "expected"),
    [
        (40, 100, 60),
        (0, 100, 100),  # the log may begin at 90 by now: as Kafka's tool counts
        (100, 100, 0),
        (101, 100, 0),
        (0, 0, 0),
        (-1, 100, None),
        (-1, None, None),
        (40, None, None),
        (40, -1, None),
    ],
)
def test_what_lag_is(committed: int, end: int | None, expected: int | None) -> None:
    assert lag_of(committed, end) == expected


async def test_metrics_and_commands_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = GroupCoordinator()
    for (topic, partition), offset in COMMITTED.items():
        coordinator.replay(OffsetCommitKey("g", topic, partition), OffsetCommitValue(offset, commit_timestamp=1))
    runtime = runtime_of(coordinator)

    async def kept(wanted: Collection[Partition]) -> Mapping[Partition, int]:
        return {at: ENDS[at] for at in wanted if at in ENDS}

    async def asked(_: Any, wanted: Collection[Partition], **__: Any) -> Mapping[Partition, int | UpstreamError]:
        return {at: ENDS.get(at, UpstreamError("nobody leads it")) for at in wanted}

    monkeypatch.setattr(looking, "log_ends", asked)
    lags = Lags(runtime, SimpleNamespace(of=kept), Settings())  # type: ignore[arg-type]
    nothing: Any = SimpleNamespace()
    look = Looking(runtime, nothing, nothing, nothing, nothing, Clock())
    by_metrics = {at: each.lag for at, each in (await lags.look()).groups["g"].items()}
    by_describe = {
        (each.topic, each.partition): each.lag for each in (await look.details("g", with_last_commit=False)).offsets
    }
    assert by_metrics == by_describe == LAGS
    assert await look.lags(["g"]) == {"g": (None, "nobody leads it")}


@pytest.mark.parametrize("hands", Hands)
async def test_who_committed_last_is_not_known_of_a_group_that_the_cluster_has(hands: Hands) -> None:
    """It was served once, and the history has that: others have committed at the cluster since."""
    coordinator = GroupCoordinator()
    coordinator.replay_state(GroupHandsKey("g"), GroupHandsValue(hands, 7, "rollback"))
    last = Moved(1, "orders", 0, None, 5, "etl", "/10.0.0.4", "User:a", "m", 1, "")

    class Kept:
        async def end(self, _: str) -> int:
            return 1

        async def last_commit(self, *_: Any) -> Moved:
            return last

    class Theirs:
        async def described(self, group: str, within_seconds: float) -> DescribedGroup:
            return DescribedGroup(0, group_id=group, group_state="Empty", protocol_type="consumer")

        async def offsets_of_one(self, group: str, within_seconds: float, **_: Any) -> Mapping[str, Any]:
            return {}

    look = Looking(runtime_of(coordinator), SimpleNamespace(), Theirs(), SimpleNamespace(), Kept(), Clock())  # type: ignore[arg-type]
    assert (await look.details("g")).last_commit == (last if hands is Hands.SERVED else None)
