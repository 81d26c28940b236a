"""No offset is served or taken before all is read that the cluster has committed while nobody read."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.own.position import Position
from shim.coordinator import Asker, GroupCoordinator, Outcome
from shim.runtime import OffsetsOfTopics
from shim.upstream import Read
from tests.following.cluster_log import Cluster, fetched, follows, ready, until_fetched
from tests.runtime.held_log import WAIT_SECONDS
from tests.runtime.running import CALLER, TOPIC, Running, running
from tests.waiting import until_told

GROUP = "g"
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def commit_error(shim: Running, group: str, offset: int) -> int:
    answer = await shim.commit(group, offset).result()
    (partition,) = answer.topics[0].partitions
    return int(partition.error_code)


async def deletion_errors(shim: Running, group: str) -> tuple[int, int]:
    """Of OffsetDelete and DeleteGroups."""
    number = shim.runtime.partition_of(group)
    topics = (OffsetDeleteRequestTopic(TOPIC, (OffsetDeleteRequestPartition(0),)),)

    def offset_delete(its: GroupCoordinator, now: int, asker: Asker) -> Outcome:
        return its.offset_delete(now, CALLER, 0, OffsetDeleteRequest(group, topics), asker)

    offsets, whole = shim.ticket("OffsetDelete"), shim.ticket("DeleteGroups")
    shim.runtime.submit(number, offset_delete, offsets)
    shim.runtime.submit(number, lambda its, now, asker: its.delete_group(now, CALLER, group, asker), whole)
    return (await offsets.result()).error_code, (await whole.result()).error_code


async def test_a_restored_backup_serves_what_was_committed_since(tmp_path: Path) -> None:
    cluster = Cluster()
    async with running(tmp_path / "data") as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        cluster.commit(GROUP, 1)
        cluster.end(GROUP, committed=True)
        await until_fetched(shim, GROUP, (0, 1))
        await following.stop()
    shutil.copytree(tmp_path / "data", tmp_path / "backup")
    for offset in range(2, 30):
        cluster.commit(GROUP, offset)
        cluster.end(GROUP, committed=True)
    cluster.readable.clear()
    async with running(tmp_path / "backup", admitted=False) as shim:
        following = await follows(shim, cluster)
        shim.runtime.admit()
        for stable in (True, False):
            assert await fetched(shim, GROUP, stable=stable) == (LOADING, -1)
        assert await commit_error(shim, GROUP, 3) == LOADING
        assert await deletion_errors(shim, GROUP) == (LOADING, LOADING)
        another = next(
            name for n in range(99) if shim.runtime.partition_of(name := f"n{n}") != shim.runtime.partition_of(GROUP)
        )
        assert await commit_error(shim, another, 3) == 0, "nothing is followed there"
        cluster.readable.set()

        async def served() -> tuple[int, int] | None:
            found = await fetched(shim, GROUP)
            return None if found == (LOADING, -1) else found

        assert await until_told(served, again_seconds=0) == (0, 29), "the first one that is served is the right one"
        assert await commit_error(shim, GROUP, 3) == 0
        cluster.end(GROUP, committed=True)
        assert await fetched(shim, GROUP) == (0, 3)
        assert await deletion_errors(shim, GROUP) == (0, 0)
        await following.stop()


class InParts(Cluster):
    """Of what is read a batch comes first, and the rest with ``go_on``."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def read(self, position: Position) -> AsyncGenerator[Read, None]:
        async for read in super().read(position):
            yield read._replace(batches=read.batches[:1])
            self.has_begun.set()
            await self.go_on.wait()
            if rest := read.batches[1:]:
                yield read._replace(start=read.start.behind(read.batches[0][0]), batches=rest, is_reset=False)


async def test_a_part_of_it_is_not_enough(tmp_path: Path) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        cluster.commit(GROUP, 1)
        cluster.end(GROUP, committed=True)
        await until_fetched(shim, GROUP, (0, 1))
        await following.stop()
    in_parts = InParts()
    in_parts.logs = cluster.logs
    for offset in (2, 3):
        cluster.commit(GROUP, offset)
        cluster.end(GROUP, committed=True)
    async with running(tmp_path) as shim:
        following = await follows(shim, in_parts)
        assert following.ready(GROUP) is LOADING
        await in_parts.has_begun.wait()
        assert await fetched(shim, GROUP) == (LOADING, -1)
        assert await commit_error(shim, GROUP, 4) == LOADING
        in_parts.go_on.set()
        await until_fetched(shim, GROUP, (0, 3))
        await following.stop()


async def test_what_is_new_has_nothing_to_catch_up_with(tmp_path: Path) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        assert await commit_error(shim, GROUP, 1) == 0
        await ready(following, GROUP)
        assert await commit_error(shim, GROUP, 2) == 0
        await following.stop()


async def test_the_offsets_for_a_topic_that_is_gone_are_deleted_once_all_are_known(tmp_path: Path) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        await following.stop()
    cluster.commit(GROUP, 5)
    cluster.end(GROUP, committed=True)
    cluster.readable.clear()
    async with running(tmp_path, admitted=False) as shim:
        following = await follows(shim, cluster)
        shim.runtime.admit()
        deleting = asyncio.create_task(OffsetsOfTopics(shim.runtime).delete(TOPIC))
        await asyncio.wait([deleting], timeout=0.2)
        assert not deleting.done()
        cluster.readable.set()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await deleting == 1
        assert await fetched(shim, GROUP) == (0, -1)
        await following.stop()
