"""Conditional commits through a running shim: of those who race exactly one wins; a plain broker is never sent one."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, offset_commit, offset_fetch
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.own.conditional_commit import expecting
from shim.client import (
    CommitRefused,
    ConditionalCommits,
    ConditionFailed,
    NotAnnounced,
    OffsetSwap,
    OutcomeUnknown,
)
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

HOW_TO = Path(__file__).parents[2] / "docs" / "conditional-commits.md"
HOST = "127.0.0.1"
ROUNDS = 2_000
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data") as running:
        yield running


@pytest.fixture
def t(make_topic: TopicFactory) -> str:
    return make_topic(8)


def commits(shim: Shim, group: str) -> ConditionalCommits:
    return ConditionalCommits((HOST, shim.port), group)


def committed(shim: Shim, group: str, topic: str, count: int) -> list[int]:
    with WireClient(shim.port) as client:
        topics = (offset_fetch.OffsetFetchRequestTopic(topic, tuple(range(count))),)
        response = client.ask(offset_fetch.API, 6, offset_fetch.OffsetFetchRequest(group, topics))
    return [partition.committed_offset for partition in response.topics[0].partitions]


def test_what_the_docs_show_is_what_happens(shim: Shim, group: str, t: str) -> None:
    text = HOW_TO.read_text(encoding="utf-8")
    for shown, here in (("127.0.0.1:19092", f"{HOST}:{shim.port}"), ("billing", group), ("orders", t)):
        assert shown in text
        text = text.replace(shown, here)
    ((source, output),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(source, {})
    assert printed.getvalue() == output
    assert committed(shim, group, t, 1) == [250]


@pytest.mark.parametrize("racers", [2, 4])
def test_of_those_who_race_exactly_one_wins(shim: Shim, group: str, t: str, racers: int) -> None:
    """Whoever has won a round has set the offset that the next round expects."""
    rounds = ROUNDS // racers * 2
    ready = threading.Barrier(racers)

    def race(racer: int) -> list[int]:
        won = []
        try:
            with commits(shim, group) as mine:
                for n in range(rounds):
                    ready.wait(WAIT_SECONDS)
                    try:
                        mine.commit({(t, 0): OffsetSwap(n - 1, n, metadata=str(racer))})
                    except ConditionFailed:
                        continue
                    won.append(n)
        except BaseException:
            ready.abort()
            raise
        return won

    with ThreadPoolExecutor(racers) as pool:
        won = list(pool.map(race, range(racers)))
    assert sorted(n for each in won for n in each) == list(range(rounds))
    assert all(won), "nobody raced"
    assert committed(shim, group, t, 1) == [rounds - 1]


def test_commits_that_share_a_flush(shim: Shim, group: str, t: str) -> None:
    """Sent in one piece, they are decided before any of them is on disk."""

    def swap(expected: int, offset: int) -> OffsetCommitRequest:
        partition = expecting(OffsetCommitRequestPartition(0, offset), expected)
        return OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(t, partitions=(partition,)),))

    with WireClient(shim.port) as client:
        for n in range(20):
            # One of the same five may win, and then a chain in which each expects what the one before has set.
            swaps = [swap(3 * n - 1, 3 * n) for _ in range(5)] + [swap(3 * n, 3 * n + 1), swap(3 * n + 1, 3 * n + 2)]
            frames = [offset_commit.API.request_frame(8, number, "me", each) for number, each in enumerate(swaps)]
            client.socket.sendall(b"".join(frames))
            errors = []
            for number in range(len(swaps)):
                answered, response = client.receive(offset_commit.API, 8)
                assert answered == number
                errors.append(response.topics[0].partitions[0].error_code)
            assert errors == [0] + [ErrorCode.INVALID_UPDATE_VERSION] * 4 + [0, 0]
    assert committed(shim, group, t, 1) == [59]


def test_all_or_nothing_and_which(shim: Shim, group: str, t: str) -> None:
    with commits(shim, group) as mine:
        mine.commit({(t, p): OffsetSwap(-1, p) for p in range(4)})
        with pytest.raises(ConditionFailed) as refused:
            mine.commit({(t, p): OffsetSwap(p % 3, 10 + p) for p in range(4)} | {(t, 4): OffsetSwap(None, 14)})
        assert refused.value.failed == [(t, 3)]
        assert refused.value.errors[t, 4] == ErrorCode.OPERATION_NOT_ATTEMPTED
        assert committed(shim, group, t, 5) == [0, 1, 2, 3, -1]
        mine.commit({(t, p): OffsetSwap(p, 10 + p, leader_epoch=0) for p in range(4)})
    assert committed(shim, group, t, 5) == [10, 11, 12, 13, -1]


def test_what_a_restart_finds(shim: Shim, group: str, t: str) -> None:
    with commits(shim, group) as mine:
        mine.commit({(t, 0): OffsetSwap(-1, 5)})
        shim.kill()
        shim.start()
        with pytest.raises(OutcomeUnknown):
            mine.commit({(t, 0): OffsetSwap(5, 6)})
        # It has connected again.
        mine.commit({(t, 0): OffsetSwap(5, 7)})
        with pytest.raises(ConditionFailed):
            mine.commit({(t, 0): OffsetSwap(5, 6)})
    assert committed(shim, group, t, 1) == [7]


def test_who_may_not_commit(shim: Shim, group: str, t: str) -> None:
    with commits(shim, group) as mine, pytest.raises(CommitRefused) as refused:
        mine.commit({(t, 0): OffsetSwap(-1, 5)}, generation_id=3, member_id="nobody")
    assert not isinstance(refused.value, ConditionFailed)
    assert refused.value.errors == {(t, 0): ErrorCode.GROUP_ID_NOT_FOUND}


@pytest.fixture
def plain(broker: Broker, group: str) -> Broker:
    """The broker, when it has a coordinator for the group: the first to ask makes it make its offsets topic."""
    request = find_coordinator.FindCoordinatorRequest(group)
    with WireClient(broker.port, broker.host) as client:
        wait_until(
            lambda: client.ask(find_coordinator.API, 1, request).error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
    return broker


def test_a_plain_broker_is_not_sent_one(plain: Broker, group: str, t: str) -> None:
    """It would pass over the condition: nothing but what finds that out goes to it."""
    sent: list[int] = []

    class Watched(socket.socket):
        def sendall(self, data: bytes, flags: int = 0) -> None:  # type: ignore[override]
            sent.append(int.from_bytes(data[4:6], "big"))
            super().sendall(data, flags)

    def connect(address: tuple[str, int]) -> socket.socket:
        connected = Watched()
        connected.settimeout(WAIT_SECONDS)
        connected.connect(address)
        return connected

    with ConditionalCommits((plain.host, plain.port), group, connect=connect) as mine:
        for _ in range(2):
            with pytest.raises(NotAnnounced):
                mine.commit({(t, 0): OffsetSwap(41, 42)})
    assert sent == [10, 18] * 2


def test_why_the_helper_refuses(plain: Broker, group: str, t: str) -> None:
    """What a plain broker makes of a condition that does not hold."""
    partition = expecting(OffsetCommitRequestPartition(0, 42), 41)
    request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(t, partitions=(partition,)),))
    with WireClient(plain.port, plain.host) as client:
        response = client.ask(offset_commit.API, 9, request)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
