"""Whether a cluster has an authorizer, as its brokers say: where they differ, or one says nothing, it has one."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress

import pytest

from protocol.errors import ErrorCode
from protocol.messages import api_versions, describe_acls, offset_delete
from shim.config import HostPort, Settings
from shim.security.authorizer import Authorizer
from shim.upstream import Cluster
from tests.waiting import until

DISABLED = ErrorCode.SECURITY_DISABLED
WITH_ACLS = {describe_acls.API.key: (1, 3), offset_delete.API.key: (0, 0)}


class Broker:
    """Answers ApiVersions and DescribeAcls; with no ``says`` it hangs."""

    def __init__(self, says: int | None, has: Mapping[int, tuple[int, int]] = WITH_ACLS) -> None:
        self.says = says
        self.has = has
        self.address = HostPort("127.0.0.1", 0)
        self.asked: asyncio.Queue[None] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.address.port)
        self.address = HostPort("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                key, version, correlation_id = struct.unpack_from(">hhi", await reader.readexactly(size))
                if key == api_versions.API.key:
                    offered = tuple(api_versions.ApiVersion(api, *of_api) for api, of_api in self.has.items())
                    answer = api_versions.ApiVersionsResponse(ErrorCode.NONE, offered)
                    writer.write(api_versions.API.response_frame(0, correlation_id, answer))
                elif self.says is not None:
                    assert key == describe_acls.API.key
                    self.asked.put_nowait(None)
                    said = describe_acls.DescribeAclsResponse(0, self.says, None, ())
                    writer.write(describe_acls.API.response_frame(version, correlation_id, said))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has had enough
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


class Looking(Authorizer):
    """It counts its rounds."""

    rounds = 0

    async def _ask_all(self, addresses: Collection[HostPort]) -> None:
        await super()._ask_all(addresses)
        self.rounds += 1

    async def goes_on(self) -> None:
        """A round that had not begun has ended."""
        enough = self.rounds + 2
        await until(lambda: self.rounds >= enough)


@asynccontextmanager
async def looking(*brokers: Broker) -> AsyncIterator[tuple[Looking, Cluster]]:
    cluster = Cluster([HostPort("127.0.0.1", 1)], Settings())
    authorizer = Looking(cluster, Settings(topology_refresh_interval_ms=20))
    for broker in brokers:
        await broker.open()
    task = asyncio.create_task(authorizer.run())
    await cluster.take({number: broker.address for number, broker in enumerate(brokers)})
    try:
        yield authorizer, cluster
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for broker in brokers:
            await broker.close()


def absent(authorizer: Authorizer) -> bool:
    return authorizer.absent


async def asked_again(broker: Broker) -> None:
    """Until what it says now has been used: it is asked once more after that."""
    while not broker.asked.empty():
        broker.asked.get_nowait()
    async with asyncio.timeout(20):
        for _ in range(3):  # the first one may have been answered before
            await broker.asked.get()


async def test_there_is_none_when_all_brokers_say_so() -> None:
    async with looking(Broker(DISABLED), Broker(DISABLED)) as (authorizer, _):
        assert not absent(authorizer)
        await authorizer.known.wait()
        assert absent(authorizer)


@pytest.mark.parametrize(
    "says", [ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR, 9999]
)
async def test_any_other_answer_of_any_broker_means_that_there_is_one(says: int) -> None:
    async with looking(Broker(DISABLED), Broker(says)) as (authorizer, _):
        await authorizer.known.wait()
        assert not absent(authorizer)
        assert authorizer.can_be_asked


async def test_a_broker_that_says_nothing_counts_as_having_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.security.authorizer.PATIENCE_SECONDS", 0.05)
    async with looking(Broker(DISABLED), Broker(None)) as (authorizer, _):
        await authorizer.known.wait()
        assert not absent(authorizer)


async def test_while_no_broker_is_known_there_may_be_one() -> None:
    async with looking() as (authorizer, _):
        await authorizer.goes_on()
        assert not absent(authorizer)
        assert not authorizer.known.is_set()


async def test_while_no_broker_has_said_anything_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.security.authorizer.PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr("shim.security.authorizer.RETRY_SECONDS", 0.01)
    silent = Broker(None)
    async with looking(silent) as (authorizer, _):
        await authorizer.goes_on()
        assert not authorizer.known.is_set()
        silent.says = DISABLED
        await asyncio.wait_for(authorizer.known.wait(), 20)
        assert absent(authorizer)


async def test_what_a_broker_says_later_counts_and_that_it_is_down_changes_nothing() -> None:
    broker = Broker(DISABLED)
    async with looking(broker) as (authorizer, _):
        await authorizer.known.wait()
        broker.says = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await asked_again(broker)
        assert not absent(authorizer)
        broker.says = DISABLED
        await asked_again(broker)
        assert absent(authorizer)
        await broker.close()
        await authorizer.goes_on()
        assert absent(authorizer)


async def test_a_new_broker_counts_as_having_one_until_it_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first, second = Broker(DISABLED), Broker(DISABLED)
    async with looking(first) as (authorizer, cluster):
        await authorizer.known.wait()
        assert absent(authorizer)
        await second.open()
        await cluster.take({**cluster.brokers, 7: second.address})
        assert not absent(authorizer)
        await asked_again(second)
        assert absent(authorizer)
        await second.close()
    assert "the cluster has no authorizer" in caplog.messages
    assert not any(line.startswith("the cluster has an authorizer") for line in caplog.messages), "nobody said so"


@pytest.mark.parametrize("has", [{}, {offset_delete.API.key: (0, 0)}, {describe_acls.API.key: (0, 1)}])
async def test_one_that_cannot_be_asked_about_rights_refuses_everybody(
    has: Mapping[int, tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    async with looking(Broker(DISABLED), Broker(ErrorCode.NONE, has)) as (authorizer, _):
        await authorizer.known.wait()
        assert (authorizer.absent, authorizer.can_be_asked) == (False, False)
    assert [record.levelno for record in caplog.records if "no group is served" in record.message] == [logging.ERROR]


async def test_an_old_one_without_an_authorizer_is_as_good_as_a_new_one() -> None:
    async with looking(Broker(DISABLED, {describe_acls.API.key: (0, 1)})) as (authorizer, _):
        await authorizer.known.wait()
        assert (authorizer.absent, authorizer.can_be_asked) == (True, True)
