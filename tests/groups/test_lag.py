"""How far a group is behind is one number, in the metrics and in what the commands say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.following import Lags
from shim.groups import looking
from shim.groups.looking import Looking
from shim.upstream.errors import UpstreamError
from shim.upstream.log_ends import Partition, lag_of
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

    async def asked(_: Any, wanted: Collection[Partition]) -> Mapping[Partition, int | UpstreamError]:
        return {at: ENDS.get(at, UpstreamError("nobody leads it")) for at in wanted}

    monkeypatch.setattr(looking, "log_ends", asked)
    lags = Lags(runtime, SimpleNamespace(of=kept), Settings())  # type: ignore[arg-type]
    look = Looking(runtime, SimpleNamespace(), SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    by_metrics = {at: each.lag for at, each in (await lags.look()).groups["g"].items()}
    by_describe = {
        (each.topic, each.partition): each.lag for each in (await look.details("g", with_last_commit=False)).offsets
    }
    assert by_metrics == by_describe == LAGS
    assert await look.lags(["g"]) == {"g": None}
