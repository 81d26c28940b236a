"""TxnOffsetCommit: what the client is told, and that nothing stays unstable, whoever leaves in between."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.own.position import Position
from protocol.own.state_log import Hands
from shim.api import Call, Context, Served, Services, txn_offset_commit
from shim.api.txn_offset_commit import API
from shim.config import HostPort, Settings
from shim.coordinator.state.partition_state import PartitionState
from shim.metrics import AnswerCounts
from shim.security.rights import Rights
from tests.following.believed import any_topic
from tests.following.cluster_log import UNSTABLE, Cluster, fetched, follows, ready, until_fetched
from tests.migration.placed import EVERYTHING_SERVED, NOWHERE_ELSE
from tests.runtime.held_log import WAIT_SECONDS
from tests.runtime.running import PARTITIONS, TOPIC, Running, running
from tests.security.authorizers import NO_AUTHORIZER
from tests.waiting import until

VERSION = 3
GROUP = "g"


class Client:
    """Its connection; the broker answers when the test says so."""

    client_host = "/127.0.0.1"
    principal = "User:alice"
    rights = Rights(keep_seconds=10)
    node_id = 1
    context = Context()

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.coordinators: dict[int, HostPort] = {}
        self.counts = AnswerCounts()
        self.broker: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def ask(self, frame: bytes, *, prompt: bool = True) -> asyncio.Future[bytes]:
        self.asked.append(frame)
        return self.broker

    def is_software(self, name: str, version: str) -> None:
        raise AssertionError(name)

    def tell(self, frame: bytes) -> None:
        raise AssertionError(frame)

    async def taken(self) -> None:
        raise AssertionError("nothing was fetched")

    paused: bool | None = None

    def pause_requests(self) -> None:
        self.paused = True

    def resume_requests(self) -> None:
        self.paused = False

    def refuse(self, reason: str) -> None:
        raise AssertionError(reason)

    def misled(self) -> None:
        pass

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def broker_says(self, error: ErrorCode) -> None:
        self.broker.set_result(API.response_frame(VERSION, 7, response(error)))

    async def told(self, version: int = VERSION) -> int:
        _, answer = API.parse_response(version, await asyncio.wait_for(self.answer, 10.0), 4)
        return answer.topics[0].partitions[0].error_code


def response(error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        0, (TxnOffsetCommitResponseTopic(TOPIC, (TxnOffsetCommitResponsePartition(0, error),)),)
    )


class At:
    """A shim that follows a cluster, and a client of it."""

    def __init__(self, shim: Running, cluster: Cluster, services: Services) -> None:
        self.shim = shim
        self.cluster = cluster
        self.services = services
        self.client = Client()

    def followed_to(self) -> int:
        coordinator = self.shim.runtime.coordinator_of(GROUP)
        assert coordinator is not None
        return coordinator.followed[self.cluster.home(GROUP)].next_offset

    def wait(self, seconds: int) -> None:
        """So much later by the coordinator's clock."""
        number = self.shim.runtime.partition_of(GROUP)
        self.shim.runtime.decide(number, lambda coordinator, now: coordinator.expire(now + 1_000 * seconds))

    def send(self, offset: int = 5, version: int = VERSION) -> Any:
        """The coroutine that waits for the broker, None where nobody was asked."""
        partition = TxnOffsetCommitRequestPartition(0, offset, -1, "")
        topics = (TxnOffsetCommitRequestTopic(TOPIC, (partition,)),)
        frame = API.request_frame(version, 7, "me", TxnOffsetCommitRequest("tx", GROUP, 1, -1, topics=topics))
        served = Served(API, txn_offset_commit.handle, txn_offset_commit.failure, txn_offset_commit.codes)
        call: Call[Any, Any] = Call(served, version, frame, self.client, self.client.answer.set_result)
        return txn_offset_commit.handle(self.services, call)


@pytest.fixture(autouse=True)
def _every_group_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionState, "hands_of", lambda _state, _group: Hands.SERVED)


@asynccontextmanager
async def at_work(tmp_path: Path, settings: Settings | None = None, *, is_ready: bool = True) -> AsyncIterator[At]:
    async with running(tmp_path, settings) as shim:
        cluster = Cluster()
        following = await follows(shim, cluster)
        if is_ready:
            await ready(following, GROUP)
        unused = cast(Any, None)
        services = Services(
            *(shim.runtime, unused, unused, {}, following, any_topic(), NO_AUTHORIZER),
            *(unused, EVERYTHING_SERVED, NOWHERE_ELSE),
        )
        yield At(shim, cluster, services)
        await following.stop()


async def test_it_is_answered_when_the_broker_has_said_yes_and_it_was_read(tmp_path: Path) -> None:
    async with at_work(tmp_path) as at:
        waiting = asyncio.create_task(at.send())
        assert at.client.paused is None
        (frame,) = at.client.asked
        _, sent_on = API.parse_request(VERSION, frame, 4)
        assert (sent_on.generation_id, sent_on.member_id) == (-1, "")
        assert await fetched(at.shim, GROUP) == UNSTABLE
        at.client.broker_says(ErrorCode.NONE)
        await waiting
        assert not at.client.answer.done()
        at.cluster.commit(GROUP, 5)
        assert await at.client.told() == 0


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_what_the_broker_refuses_is_refused(tmp_path: Path, error: ErrorCode) -> None:
    async with at_work(tmp_path) as at:
        waiting = asyncio.create_task(at.send())
        at.client.broker_says(error)
        await waiting
        assert await at.client.told() == error
        assert await fetched(at.shim, GROUP) == (0, -1)


async def test_before_the_cluster_is_followed(tmp_path: Path) -> None:
    async with at_work(tmp_path, is_ready=False) as at:
        assert at.send() is None
        assert await at.client.told() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert at.client.asked == []


@pytest.mark.parametrize("version", [0, 1])
async def test_producers_before_2_0_are_not_told_that_it_is_loading(tmp_path: Path, version: int) -> None:
    async with at_work(tmp_path, is_ready=False) as at:
        assert at.send(version=version) is None
        assert await at.client.told(version) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_the_broker_goes_away(tmp_path: Path) -> None:
    async with at_work(tmp_path) as at:
        waiting = asyncio.create_task(at.send())
        at.client.broker.set_exception(ConnectionError("gone"))
        with pytest.raises(ConnectionError):
            await waiting
        assert await fetched(at.shim, GROUP) == (0, -1)


async def test_the_client_goes_away(tmp_path: Path) -> None:
    async with at_work(tmp_path) as at:
        waiting = asyncio.create_task(at.send())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await fetched(at.shim, GROUP) == (0, -1)


async def test_the_client_goes_away_before_anybody_waits(tmp_path: Path) -> None:
    async with at_work(tmp_path) as at:
        at.send().close()
        assert await fetched(at.shim, GROUP) == UNSTABLE
        at.wait(10)
        assert await fetched(at.shim, GROUP) == (0, -1)


async def test_it_is_not_read_in_time(tmp_path: Path) -> None:
    async with at_work(tmp_path) as at:
        waiting = asyncio.create_task(at.send())
        at.client.broker_says(ErrorCode.NONE)
        await waiting
        assert not at.client.answer.done()
        at.wait(6)
        assert await at.client.told() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        at.cluster.commit(GROUP, 5)
        await ready(at.services.transactions, GROUP)
        await until_fetched(at.shim, GROUP, UNSTABLE)


async def test_the_batch_of_one_that_was_given_up_does_not_answer_the_next(tmp_path: Path) -> None:
    async with at_work(tmp_path) as at:
        at.cluster.readable.clear()
        waiting = asyncio.create_task(at.send())
        at.client.broker_says(ErrorCode.NONE)
        await waiting
        at.wait(6)
        assert await at.client.told() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        at.cluster.commit(GROUP, 5)
        at.cluster.end(GROUP, committed=False)
        await ready(at.services.transactions, GROUP)
        at.client = Client()
        waiting = asyncio.create_task(at.send())
        async with asyncio.timeout(WAIT_SECONDS):
            while not at.client.asked:
                assert at.client.paused, "what the client sends behind it comes behind it"
                await asyncio.sleep(0)
        assert at.client.paused is False
        at.client.broker_says(ErrorCode.NONE)
        await waiting
        at.cluster.readable.set()
        await until(lambda: at.followed_to() == 2)
        assert not at.client.answer.done()
        assert await fetched(at.shim, GROUP) == UNSTABLE
        at.cluster.commit(GROUP, 5)
        assert await at.client.told() == 0


async def test_a_topic_that_is_in_doubt_when_the_end_of_the_clusters_log_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_work(tmp_path) as at:
        await not_read_in_time(at)
        await ready(at.services.transactions, GROUP)
        doubts = vars(at.services.topics)["_doubts"]
        end_of = at.cluster.end_of

        async def begins(partition: int) -> Position:
            doubts.begin(TOPIC, 3, blocks=True)
            return await end_of(partition)

        monkeypatch.setattr(at.cluster, "end_of", begins)
        at.client = Client()
        await at.send()
        assert await at.client.told() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert at.client.asked == []


async def test_a_deadline_wakes_the_runtime_by_itself(tmp_path: Path) -> None:
    settings = Settings(offsets_topic_num_partitions=PARTITIONS, offsets_commit_timeout_ms=50)
    async with at_work(tmp_path, settings) as at:
        at.send().close()
        assert await at.client.told() == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def not_read_in_time(at: At) -> None:
    at.client = Client()
    waiting = asyncio.create_task(at.send())
    at.client.broker_says(ErrorCode.NONE)
    await waiting
    at.wait(6)
    assert await at.client.told() == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_when_one_was_not_read_in_time_it_is_asked_again_how_many_partitions_there_are(tmp_path: Path) -> None:
    async with at_work(tmp_path) as at:
        transactions = at.services.transactions
        for times in (2, 3):
            await not_read_in_time(at)
            assert transactions.ready(GROUP) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await ready(transactions, GROUP)
            for _ in range(3):
                assert transactions.ready(GROUP) is ErrorCode.NONE
            assert at.cluster.counted == times


async def test_also_when_the_partition_was_read_back_between(tmp_path: Path) -> None:
    async with at_work(tmp_path) as at:
        transactions, runtime = at.services.transactions, at.shim.runtime
        await not_read_in_time(at)
        transactions.ready(GROUP)
        await ready(transactions, GROUP)
        before = runtime.coordinator_of(GROUP)
        at.shim.log.files.fail("pwrite", errno.EIO)
        await at.shim.commit(GROUP, 1).result()
        at.shim.log.files.heal()
        await until(lambda: runtime.coordinator_of(GROUP) not in (None, before))
        await until_fetched(at.shim, GROUP, (0, -1))
        await ready(transactions, GROUP)
        assert at.cluster.counted == 2, "nothing new was overdue"
        await not_read_in_time(at)
        assert transactions.ready(GROUP) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await until(lambda: at.cluster.counted == 3)
