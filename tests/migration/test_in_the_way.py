"""What is in the way of a hand-over, without a cluster: groups of kinds that are not told, and commits of members."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from protocol.messages.describe_groups import DescribedGroup
from protocol.offsets_log import CommittedOffset
from protocol.own.state_log import Step
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.migration.hands.placements import Placement, Whose
from shim.migration.hindrances import Hindrances
from shim.migration.moving.hand_over import HandOver
from shim.migration.moving.locks import GroupLocks
from shim.migration.reader import GroupReader
from shim.migration.words import Refused
from shim.offsets.cluster.describing import DEAD
from shim.offsets.cluster.groups import Committed
from shim.offsets.store import GroupInUse
from shim.upstream.errors import UpstreamError

_OFFSETS = {TopicPartition("t", 0): CommittedOffset(7, -1, "", 0)}


class Around:
    """What a hand-over goes through; the cluster has ``offsets`` of the group, and describes it so."""

    def __init__(self, offsets: Committed, state: str) -> None:
        described = DescribedGroup(0, None, "g", state, "", "", ())
        self.reader = Mock(**{"coordinator.return_value.has_pending.return_value": False})
        self.reader.coordinator.return_value.step_of.return_value = Step.KAFKA
        self.reader.coordinator.return_value.overruled.return_value = {}
        self.reader.too_early.return_value = ""
        self.reader.in_cluster = AsyncMock(return_value="")
        self.reader.cluster_offsets = AsyncMock(return_value=offsets)
        self.reader.own_offsets = AsyncMock(return_value=_OFFSETS)
        self.locked = Mock(group="g", quiet=AsyncMock(), gathered=AsyncMock(return_value={}))
        self.locked.at_rest = AsyncMock(return_value=described)
        self.locked.decided = AsyncMock(side_effect=AssertionError("adopted"))
        self.cluster = AsyncMock()
        self.cluster.described.return_value = described
        self.mirror = Mock(contested=set(), kept=AsyncMock(return_value=""), fed=AsyncMock())
        self.mirror.alone = Mock(return_value=nullcontext())
        self.mirror.may_arrive_seconds.return_value = 0.0
        self.mirror.nowhere.return_value = set()
        hindrances = Hindrances(Mock(**{"of.return_value": Whose.PASSED_THROUGH}), self.reader)
        self.uncertain = AsyncMock(return_value=[])
        locks = Mock(locked=self._locked)
        self.hand_over = HandOver(
            locks, self.reader, hindrances, self.cluster, self.mirror, AsyncMock(), self.uncertain
        )

    @asynccontextmanager
    async def _locked(self, *_: Any) -> AsyncIterator[Mock]:
        yield self.locked


async def test_offsets_of_a_group_that_there_is_not_are_not_taken_over() -> None:
    around = Around(_OFFSETS, DEAD)
    with pytest.raises(Refused, match="of another kind"):
        await around.hand_over.take_over("g", Step.KAFKA, "")
    with pytest.raises(Refused, match="of another kind"):
        await around.hand_over.take_over_without_offsets("g", "")


@pytest.mark.parametrize(("offsets", "state"), [(_OFFSETS, "Empty"), ({}, DEAD)])
async def test_others_are(offsets: Committed, state: str) -> None:
    around = Around(offsets, state)
    with pytest.raises(AssertionError, match="adopted"):
        await around.hand_over.take_over("g", Step.KAFKA, "")
    with pytest.raises(AssertionError, match="adopted"):
        await around.hand_over.take_over_without_offsets("g", "")


async def test_that_the_cluster_is_away_is_said_of_it() -> None:
    """An address, and what its connection has failed of, is no word about whose it is."""
    placements = Mock(certain=AsyncMock())
    placements.of.return_value = Whose.PASSED_THROUGH
    placements.open.return_value = Placement()
    placements.may_arrive_seconds.return_value = 0.0
    locks = GroupLocks(Mock(), Mock(), placements, GroupReader(Mock(), Mock(), placements), Settings())
    with pytest.raises(Refused, match=r"^group g: the cluster cannot be asked: b:9092: Connection refused$"):
        async with locks.locked("g", (Whose.PASSED_THROUGH,), "is elsewhere"):
            raise UpstreamError("b:9092: Connection refused")


async def test_what_members_have_committed_is_told_before_it_is_given_back() -> None:
    around = Around(_OFFSETS, "Empty")
    around.mirror.contested = {"g"}
    around.mirror.fed.side_effect = GroupInUse("g")
    with pytest.raises(GroupInUse):
        await around.hand_over.give_back("g", "")
    around.cluster.try_commit.assert_not_called()


@pytest.mark.parametrize(
    ("uncertain", "why"),
    [
        ({"return_value": ["t"]}, "do not agree yet which topics these are: t: try again"),
        ({"side_effect": UpstreamError("b:9092: Connection refused")}, "cannot be asked for its topics: b:9092"),
    ],
)
async def test_it_is_not_given_back_while_a_topic_may_be_another_one(uncertain: dict[str, Any], why: str) -> None:
    around = Around(_OFFSETS, "Empty")
    around.uncertain.configure_mock(**uncertain)
    with pytest.raises(Refused, match=why):
        await around.hand_over.give_back("g", "")
    around.uncertain.assert_called_once_with({"t"})
    around.cluster.try_commit.assert_not_called()


async def test_nor_where_it_came_to_be_another_one_while_the_cluster_was_written() -> None:
    """What it has there by then is the mirror's to put right."""
    around = Around(_OFFSETS, "Empty")

    async def written(*_: Any) -> list[str]:
        around.uncertain.return_value = ["t"]
        return []

    around.cluster.try_commit.side_effect = written
    with pytest.raises(Refused, match="which topics these are: t"):
        await around.hand_over.give_back("g", "")
    around.cluster.try_commit.assert_called_once()
    around.locked.take_in_hand.assert_not_called()
    around.mirror.doubt.assert_called_once_with("g")
    around.mirror.forget.assert_not_called()


async def test_nobody_has_written_past_the_shim_where_the_cluster_has_deleted_a_topics_offsets() -> None:
    """Of one that is deleted amid it, at upstream+dual."""
    around = Around({}, "Empty")
    around.reader.coordinator.return_value.step_of.return_value = Step.UPSTREAM_DUAL
    around.uncertain.side_effect = [[], ["t"]]
    with pytest.raises(Refused, match="which topics these are: t"):
        await around.hand_over.give_back("g", "")
    around.cluster.try_commit.assert_not_called()
    around.uncertain.side_effect = [[], []]
    with pytest.raises(Refused, match="the cluster was written past the shim: t-0"):
        await around.hand_over.give_back("g", "")


async def test_what_was_another_topics_is_not_given_back() -> None:
    """Its offsets have gone by when it is certain."""
    around = Around({}, "Empty")
    around.cluster.try_commit.return_value = []
    around.locked.take_in_hand = AsyncMock()
    around.locked.decided = AsyncMock()

    async def gone(_: Any) -> list[str]:
        around.reader.own_offsets.return_value = {}
        return []

    around.uncertain.side_effect = gone
    assert await around.hand_over.give_back("g", "") == 0
    assert around.cluster.try_commit.call_args.args[1] == {}


async def test_that_it_is_given_back_stands_where_what_it_had_here_cannot_be_forgotten_for_now(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As when the log fails between the two: nobody is told then that it stays where it is."""
    around = Around(_OFFSETS, "Empty")
    around.cluster.try_commit.return_value = []
    around.reader.cluster_offsets.side_effect = [{}, _OFFSETS]
    around.locked.take_in_hand = AsyncMock()
    around.locked.decided.side_effect = Refused("group g: the log answers NOT_COORDINATOR")
    assert await around.hand_over.give_back("g", "") == 0
    around.locked.take_in_hand.assert_called_once()
    (warning,) = (each.message for each in caplog.records if each.levelname == "WARNING")
    assert warning == "group g: the log answers NOT_COORDINATOR: what it had here is kept, though it is passed through"


async def test_nothing_is_taken_over_while_a_topic_may_be_another_one() -> None:
    around = Around(_OFFSETS, "Empty")
    around.uncertain.return_value = ["t"]
    with pytest.raises(Refused, match="which topics these are: t"):
        await around.hand_over.take_over("g", Step.KAFKA, "")
