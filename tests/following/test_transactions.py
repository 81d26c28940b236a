"""What is read in the cluster's log becomes part of this one, once, whatever the disk and the cluster do."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.own.history_log import HISTORY_TOPIC, decode_history
from protocol.own.position import Position
from protocol.own.state_log import Hands
from shim.coordinator.state.partition_state import PartitionState
from shim.coordinator.upkeep.followed import NOBODY
from shim.following.transactions import taking_over
from shim.log.segments import batching
from shim.log.segments.transactions import transaction_of
from shim.runtime import flight
from shim.upstream import TopicUnknown, UpstreamError
from tests.coordinator.driving import CALLER
from tests.following.cluster_log import (
    UNSTABLE,
    Cluster,
    fetched,
    follows,
    ready,
    until_fetched,
)
from tests.runtime.held_log import WAIT_SECONDS
from tests.runtime.running import Running, running
from tests.waiting import turns_of_the_loop, until


async def delete_group(shim: Running, group: str) -> None:
    ticket = shim.ticket("delete")
    shim.runtime.submit(
        shim.runtime.partition_of(group),
        lambda coordinator, now, asker: coordinator.delete_group(now, CALLER, group, asker),
        ticket,
    )
    assert (await ticket.result()).error_code == ErrorCode.NONE


async def test_a_transaction_is_followed_to_its_end(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        cluster = Cluster()
        following = await follows(shim, cluster)
        cluster.commit("g", 1)  # before anybody here has asked: no concern
        cluster.end("g", committed=True)
        assert following.ready("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await ready(following, "g")
        await shim.commit("g", 4).result()
        cluster.commit("g", 5)
        await until_fetched(shim, "g", UNSTABLE)
        assert await fetched(shim, "g", stable=False) == (0, 4)
        cluster.end("g", committed=True)
        await until_fetched(shim, "g", (0, 5))
        cluster.commit("g", 6)
        cluster.end("g", committed=False)
        cluster.commit("g", 7, transactional=False)  # past the shim: not followed
        cluster.commit("g", 8)
        cluster.end("g", committed=True)
        await until_fetched(shim, "g", (0, 8))
        await following.stop()


async def test_what_is_the_clusters_own_affair_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is passed through commits there, and nothing of it is known here."""
    async with running(tmp_path) as shim:
        cluster, of_g = Cluster(), shim.runtime.partition_of("g")
        names = (f"theirs-{number}" for number in range(1_000))
        theirs = next(
            each
            for each in names
            if cluster.home(each) == cluster.home("g") and shim.runtime.partition_of(each) == of_g
        )
        hands = {theirs: Hands.PASSED_THROUGH}
        monkeypatch.setattr(PartitionState, "hands_of", lambda _, group: hands.get(group, Hands.SERVED))
        following = await follows(shim, cluster)
        await ready(following, "g")
        for group, offset in ((theirs, 1), ("g", 2)):
            cluster.commit(group, offset)
            cluster.end(group, committed=True)
        await until_fetched(shim, "g", (0, 2))
        assert await fetched(shim, theirs, stable=False) == (0, -1)
        await following.stop()


async def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, "g")
        cluster.commit("g", 5)
        await until_fetched(shim, "g", UNSTABLE)
        cluster.commit("other", 1, producer=9)
        await asyncio.sleep(0)
        await following.stop()
    cluster.end("g", committed=True)
    cluster.read_from.clear()
    async with running(tmp_path, admitted=False) as shim:
        following = await follows(shim, cluster)
        assert cluster.read_from == []
        await turns_of_the_loop()
        assert cluster.read_from == [], "the data may be of another cluster, for all that is known"
        shim.runtime.admit()
        await until_fetched(shim, "g", (0, 5))
        assert [partition for partition, _ in cluster.read_from] == [cluster.home("g")]
        await following.stop()


async def test_a_write_that_fails_is_read_again(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        cluster = Cluster()
        following = await follows(shim, cluster)
        await ready(following, "g")
        cluster.commit("g", 5)
        await until_fetched(shim, "g", UNSTABLE)
        gone = asyncio.Event()
        shim.runtime.watch(lambda _, its: gone.set() if its is None else None)
        shim.log.files.fail("pwrite", errno.EIO)
        cluster.end("g", committed=True)
        async with asyncio.timeout(WAIT_SECONDS):
            await gone.wait()
        shim.log.files.heal()
        await until_fetched(shim, "g", (0, 5))
        assert cluster.read_from[-1][1] <= 1
        await following.stop()


@pytest.mark.parametrize(
    ("trouble", "error"),
    [(TopicUnknown, ErrorCode.COORDINATOR_NOT_AVAILABLE), (UpstreamError, ErrorCode.COORDINATOR_NOT_AVAILABLE)],
)
async def test_until_the_cluster_has_its_topic(tmp_path: Path, trouble: type[UpstreamError], error: ErrorCode) -> None:
    async with running(tmp_path) as shim:
        cluster = Cluster()
        cluster.trouble = trouble
        following = await follows(shim, cluster)
        await until(lambda: following.ready("g") is error)
        cluster.trouble = None
        await ready(following, "g")
        await following.stop()


async def test_a_position_is_noted_where_there_is_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_over, "POSITION_EVERY", 10)
    async with running(tmp_path) as shim:
        cluster = Cluster()
        following = await follows(shim, cluster)
        await ready(following, "g")
        for offset in range(25):
            cluster.commit("g", offset, transactional=False)
        coordinator = shim.runtime.coordinator_of("g")
        assert coordinator is not None
        await until(lambda: coordinator.followed[cluster.home("g")].next_offset >= 10)
        await following.stop()


async def test_however_many_groups_ask_the_cluster_is_asked_once_for_each_pair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    groups = [f"g{number}" for number in range(300)]
    async with running(tmp_path) as shim:
        cluster = Cluster()
        following = await follows(shim, cluster)
        cluster.trouble = UpstreamError
        for group in groups:
            following.ready(group)
        await until(lambda: following.ready("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert len([each for each in caplog.records if "cannot be found out" in each.message]) == 1
        cluster.trouble, cluster.counted = None, 0
        cluster.answering.clear()
        for group in groups:
            following.ready(group)
        await until(lambda: cluster.counted == 1)
        cluster.answering.set()
        await ready(following, groups[0])
        assert cluster.counted == 1
        for _ in range(2):
            for group in groups:
                following.ready(group)
        for group in groups:
            await ready(following, group)
        pairs = {(shim.runtime.partition_of(group), cluster.home(group)) for group in groups}
        assert cluster.ends_asked == len(pairs)
        await following.stop()


def transactions_in(shim: Running, number: int) -> list[tuple[int, bool | None]]:
    """Of the batches and markers in the log: producer id, and how it ended; positions left out."""
    read = shim.log.partition_log(number).read()
    found = [(batch.header, transaction_of(batch)) for batch in read]
    return [(its.producer_id, of.committed) for its, of in found if of is not None and its.producer_id != NOBODY]


async def test_a_transaction_whose_group_was_deleted_has_its_end_in_the_log(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        cluster = Cluster()
        following = await follows(shim, cluster)
        await ready(following, "g")
        cluster.commit("g", 5)
        await until_fetched(shim, "g", UNSTABLE)
        await delete_group(shim, "g")
        cluster.end("g", committed=False)
        cluster.commit("g", 6, producer=2)
        await until_fetched(shim, "g", UNSTABLE)
        assert transactions_in(shim, shim.runtime.partition_of("g")) == [(1, None), (1, False), (2, None)]
        await following.stop()


async def test_what_was_left_open_ends_when_its_partition_is_served(tmp_path: Path) -> None:
    """As of a marker that was passed over: in this log, or, for a day, in the cluster's."""
    cluster = Cluster()
    async with running(tmp_path) as shim:
        following = await follows(shim, cluster)
        await ready(following, "g")
        number = shim.runtime.partition_of("g")
        cluster.commit("g", 5)
        cluster.commit("g", 8, producer=2)
        await until_fetched(shim, "g", UNSTABLE)
        await delete_group(shim, "g")
        cluster.commit("g", 9, producer=2)
        await until_fetched(shim, "g", UNSTABLE)
        await following.stop()
        assert transactions_in(shim, number) == [(1, None), (2, None), (2, None)]
    async with running(tmp_path, admitted=False) as shim:
        shim.log.release(1_000)
        assert shim.log.writes == [], "the data may be of another cluster, for all that is known"
        following = await follows(shim, cluster)
        shim.runtime.admit()
        await until_fetched(shim, "g", UNSTABLE)
        assert transactions_in(shim, number) == [(1, None), (2, None), (2, None), (1, False)]
        await shim.commit("g", 1).result()
        assert await fetched(shim, "g") == UNSTABLE
        await following.stop()
    cluster.end("g", committed=True, producer=2)
    async with running(tmp_path, admitted=False) as shim:
        following = await follows(shim, cluster)
        shim.runtime.admit()
        await until_fetched(shim, "g", (0, 1))  # a later commit than that of 9
        assert transactions_in(shim, number)[3:] == [(1, False), (2, True)]
        await following.stop()


async def test_a_transaction_of_much_history_ends_as_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log takes no record set beyond a limit, and there is none on how many offsets a transaction commits."""
    monkeypatch.setattr(batching, "MAX_BATCH_BYTES", 40_000)
    monkeypatch.setattr(batching, "MAX_RECORD_SET_BYTES", 60_000)
    monkeypatch.setattr(flight, "SET_BYTES", 20_000)
    async with running(tmp_path) as shim:
        cluster = Cluster()
        following = await follows(shim, cluster)
        await ready(following, "g")
        number = shim.runtime.partition_of("g")
        coordinator = shim.runtime.coordinator(number)
        for partition in range(100):
            cluster.commit("g", 7, partition=partition, metadata="m" * 1_000)
        cluster.end("g", committed=True)
        await until_fetched(shim, "g", (0, 7))
        assert shim.runtime.coordinator(number) is coordinator, "it was not loaded anew"
        history = shim.log.partition_log(number, topic=HISTORY_TOPIC).read()
        records = [record for batch in history for record in batch.records]
        told = [each for record in records for each in decode_history(record.key or b"", record.value) or ()]
        assert sorted(key.partition for key, _ in told) == list(range(100))
        await following.stop()


async def test_that_it_is_known_again_how_far_the_cluster_was_read_is_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "shim.following")
    monkeypatch.setattr("shim.following.transactions.follower._PASSED_WITHIN_S", 0.05)
    async with running(tmp_path) as shim:
        cluster = Cluster()
        following = await follows(shim, cluster)
        await ready(following, "g")
        whole = cluster.end_of

        async def away(_: int) -> Position:
            raise UpstreamError("it is away")

        async def hangs(_: int) -> Position:
            await asyncio.Event().wait()
            raise AssertionError("nobody ends this")

        for instead in (away, away, hangs):
            monkeypatch.setattr(cluster, "end_of", instead)
            assert not await following.passed_by("g")
        monkeypatch.setattr(cluster, "end_of", away)
        assert await following.end_of("g") is None
        monkeypatch.setattr(cluster, "end_of", whole)
        shim.log.release(1_000)
        async with asyncio.timeout(WAIT_SECONDS):
            assert await following.passed_by("g")
        assert await following.end_of("g") is not None
        what = "how far the cluster's log has been read for group g cannot be found out"
        end = f"where __consumer_offsets-{cluster.home('g')} of the cluster ends cannot be found out"
        assert caplog.messages == [
            f"{what} for now: it is away",
            f"{what} for now: its end of now is not reached in 0.05 s",
            f"{end} for now: it is away",
            f"this is over: {what}",
            f"this is over: {end}",
        ]
        await following.stop()
