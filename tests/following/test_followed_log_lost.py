"""The cluster loses what was read of its log: nothing that it commits is forgotten, and nothing committed that it does
not commit, wherever its log goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.partition import partition_for
from tests.following.cluster_log import UNSTABLE, Cluster, fetched, follows, ready, until_fetched
from tests.runtime.running import PARTITIONS, Running, running
from tests.waiting import until

GROUP = "g"


def neighbour(cluster: Cluster) -> str:
    """A group of the same partition, here and there."""
    return next(
        name
        for number in range(1_000)
        if cluster.home(name := f"n{number}") == cluster.home(GROUP)
        and partition_for(name, PARTITIONS) == partition_for(GROUP, PARTITIONS)
    )


def followed_to(shim: Running, cluster: Cluster) -> int:
    coordinator = shim.runtime.coordinator_of(GROUP)
    assert coordinator is not None
    return coordinator.followed[cluster.home(GROUP)].next_offset


async def one_transaction_pending(shim: Running, cluster: Cluster) -> None:
    """Offset 1 is committed; 50 is pending, by a batch at 2, and 3 and 4 are taken over, too."""
    cluster.commit(GROUP, 1)
    cluster.end(GROUP, committed=True)
    cluster.commit(GROUP, 50)
    for number in range(2):
        cluster.commit(neighbour(cluster), number, producer=77)
    await until(lambda: followed_to(shim, cluster) == 5)
    assert await fetched(shim, GROUP) == UNSTABLE


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_marker_that_is_written_again_before_the_position_counts(tmp_path: Path, restarts: bool) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        await one_transaction_pending(shim, cluster)
        if restarts:
            await following.stop()
        cluster.lose(GROUP, 3)
        if not restarts:
            await until(lambda: followed_to(shim, cluster) == 3)
            cluster.end(GROUP, committed=True)
            await until_fetched(shim, GROUP, (0, 50))
            cluster.commit(GROUP, 60)
            cluster.end(GROUP, committed=False)
            await until_fetched(shim, GROUP, (0, 50))
            await following.stop()
            return
    cluster.end(GROUP, committed=True)
    async with running(tmp_path, admitted=False) as shim:
        following = await follows(shim, cluster)
        shim.runtime.admit()
        await until_fetched(shim, GROUP, (0, 50))
        await following.stop()
    async with running(tmp_path, admitted=False) as shim:
        following = await follows(shim, cluster)
        shim.runtime.admit()
        assert followed_to(shim, cluster) == 4, "the last position counts, not the highest"
        await following.stop()


async def test_offsets_that_are_lost_are_not_committed_with_the_next_transaction(tmp_path: Path) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        await one_transaction_pending(shim, cluster)
        cluster.lose(GROUP, 2)
        await until_fetched(shim, GROUP, (0, 1))
        cluster.commit(GROUP, 7, topic="another")
        cluster.end(GROUP, committed=True)
        await until(lambda: followed_to(shim, cluster) == 4)
        assert await fetched(shim, GROUP) == (0, 1)
        cluster.commit(GROUP, 51)
        cluster.end(GROUP, committed=True)
        await until_fetched(shim, GROUP, (0, 51))
        await following.stop()


async def test_a_log_that_has_grown_again_before_anybody_looks_is_read_from_where_it_was_lost(tmp_path: Path) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        await one_transaction_pending(shim, cluster)
        cluster.readable.clear()
        cluster.lose(GROUP, 3)
        cluster.end(GROUP, committed=True)
        for number in range(9):
            cluster.commit(neighbour(cluster), number, producer=77)
        cluster.readable.set()
        await until_fetched(shim, GROUP, (0, 50))
        await following.stop()


async def test_what_a_former_leader_had_alone_is_read_when_it_leads_again(tmp_path: Path) -> None:
    """Read up to 3 under one leader, on to 5 under the next, which dies; the first one has 3 and 4 of its own."""
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        cluster.commit(GROUP, 1)
        cluster.end(GROUP, committed=True)
        cluster.commit(neighbour(cluster), 0, producer=77)
        await until(lambda: followed_to(shim, cluster) == 3)
        cluster.lose(GROUP, 3)
        cluster.commit(GROUP, 50)
        cluster.commit(neighbour(cluster), 1, producer=77)
        await until(lambda: followed_to(shim, cluster) == 5)
        cluster.readable.clear()
        cluster.lose(GROUP, 3)
        cluster.leader_epoch = 0
        cluster.commit(GROUP, 50)
        cluster.commit(neighbour(cluster), 1, producer=77)
        cluster.leader_epoch = 2
        cluster.end(GROUP, committed=True)
        cluster.readable.set()
        await until_fetched(shim, GROUP, (0, 50))
        await following.stop()


@pytest.mark.parametrize("grown", [False, True])
async def test_a_topic_that_is_made_anew_is_read_from_its_start(tmp_path: Path, grown: bool) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        await one_transaction_pending(shim, cluster)
        cluster.readable.clear()
        cluster.make_anew()
        if grown:
            cluster.end(neighbour(cluster), committed=True)
            for number in range(9):
                cluster.commit(neighbour(cluster), number, producer=77)
        cluster.readable.set()
        await until_fetched(shim, GROUP, (0, 1))
        cluster.commit(GROUP, 5)
        cluster.end(GROUP, committed=True)
        await until_fetched(shim, GROUP, (0, 5))
        await following.stop()


async def test_a_commit_without_transaction_is_not_taken_back_by_what_was_read_before(tmp_path: Path) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, GROUP)
        await one_transaction_pending(shim, cluster)
        cluster.end(GROUP, committed=True)
        await until_fetched(shim, GROUP, (0, 50))
        await shim.commit(GROUP, 3).result()
        cluster.lose(GROUP, 3)
        cluster.end(GROUP, committed=True)
        cluster.commit(neighbour(cluster), 9, producer=78)
        await until(lambda: followed_to(shim, cluster) == 5 and cluster.leader_epoch == 1)
        await until_fetched(shim, neighbour(cluster), UNSTABLE)
        assert await fetched(shim, GROUP) == (0, 3)
        await following.stop()
