"""What a process holds, and a client whose commits are served whatever others do."""

from __future__ import annotations

import resource
import threading
from types import TracebackType
from typing import NamedTuple, Self

import psutil

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient


class Held(NamedTuple):
    """`connections`: of clients and to brokers, as the system sees them."""

    descriptors: int
    connections: int
    memory_kib: int


def held(shim: Shim) -> Held:
    process = psutil.Process(shim.pid)
    return Held(
        process.num_fds(),
        sum(each.status != psutil.CONN_LISTEN for each in process.net_connections("tcp")),
        process.memory_info().rss >> 10,
    )


def wait_settled(shim: Shim, before: Held) -> Held:
    """Until it has no more descriptors and connections than before; what it holds then. The shim tells nobody when."""

    def look() -> Held | None:
        now = held(shim)
        return now if now.descriptors <= before.descriptors and now.connections <= before.connections else None

    return wait_until(look, lambda: f"left behind: {held(shim)}, before: {before}\n{shim.log()[-4000:]}")


def most_open_files() -> None:
    """As many for this process as it may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def commit(client: WireClient, group: str, topic: str, offset: int) -> None:
    partition = offset_commit.OffsetCommitRequestPartition(0, offset)
    request = offset_commit.OffsetCommitRequest(
        group, topics=(offset_commit.OffsetCommitRequestTopic(topic, partitions=(partition,)),)
    )
    answer = client.ask(offset_commit.API, 8, request)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


class Served:
    """In a `with` block: one client commits again and again, on one connection; each commit must succeed."""

    def __init__(self, port: int, group: str, topic: str) -> None:
        self.commits = 0
        self._client = WireClient(port)
        self._names = group, topic
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                commit(self._client, *self._names, self.commits)
                self.commits += 1
        except Exception as failure:
            self._failure = failure

    def __enter__(self) -> Self:
        commit(self._client, *self._names, 0)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()
        if self._failure is not None and error is None:
            raise AssertionError(f"not served any more after {self.commits} commits") from self._failure
