"""Many groups with many znodes: how long a first import takes, how soon a change is seen, and what ZooKeeper bears."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from kazoo.client import KazooClient

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from shim.demo.parts import Broker, ZooKeeper
from shim.demo.parts.process import spawn
from tests.conftest import TopicFactory
from tests.migration.many_znodes import make_offsets, transactions
from tests.migration.test_changing_hands import Administered, administered
from tests.offsets.conftest import kazoo
from tests.waiting import wait_until
from tests.wire import WireClient

HEAP_MB: Final = 256
FIRST: Final = 1_000  # the offset of partition 0


class Size(NamedTuple):
    """``commits``: in each of the two ways that are set side by side."""

    groups: int
    partitions: int
    commits: int


SHORT: Final = Size(24, 5, 48)
FULL: Final = Size(2_000, 50, 4_000)


class Used(NamedTuple):
    """By the shim's process: MiB of memory, and seconds of a core."""

    resident: float
    cpu: float


def used(at: Administered) -> Used:
    fields = Path(f"/proc/{at.shim.pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Used(int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20), cpu)


@contextmanager
def timed(what: str, at: Administered) -> Iterator[None]:
    """Tells how long it took."""
    begun, before = time.monotonic(), used(at)
    yield
    after = used(at)
    print(
        f"{what}: {time.monotonic() - begun:.1f} s, the shim's CPU {after.cpu - before.cpu:.1f} s,"
        f" {after.resident:.0f} MiB resident ({after.resident - before.resident:+.0f})"
    )


def at_a_terminal(*args: str) -> tuple[int, str]:
    """Exit status, and what it has told there."""
    ours, theirs = os.openpty()
    told: list[bytes] = []

    def read() -> None:
        while True:
            try:
                told.append(os.read(ours, 65_536))
            except OSError:  # EIO: nobody is at the other end any more
                return

    try:
        child = spawn([sys.executable, "-m", "shim.main", *args], stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        reading = threading.Thread(target=read)
        reading.start()
        status = child.wait()
        reading.join()
    finally:
        os.close(ours)
    return status, b"".join(told).decode()


def commit(client: WireClient, group: str, topic: str, partition: int, offset: int) -> None:
    topics = (OffsetCommitRequestTopic(topic, partitions=(OffsetCommitRequestPartition(partition, offset),)),)
    answer = client.ask(offset_commit.API, 8, OffsetCommitRequest(group, topics=topics))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.fixture
def large(tmp_path: Path) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path / "zookeeper", heap_mb=HEAP_MB) as running:
        yield running


@pytest.mark.parametrize(
    "size", [pytest.param(SHORT, id="short"), pytest.param(FULL, id="100,000 znodes", marks=pytest.mark.soak)]
)
def test_a_first_import(
    broker: Broker,
    large: ZooKeeper,
    tmp_path: Path,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    size: Size,
) -> None:
    topic, prefix = make_topic(size.partitions), fresh_name()
    groups = [f"{prefix}-{number:05d}" for number in range(size.groups)]
    with kazoo(large.connect_string) as others:
        make_offsets(others, groups, topic, size.partitions, FIRST)
        with administered(broker, tmp_path / "data", "--zookeeper", large.connect_string) as at:
            whole = ["--pattern", f"{prefix}-*"]
            with timed("plan", at):
                planned = at.migrate("plan", *whole).json["groups"]
            assert [(each["group"], each["offsets"], each["hindrance"]) for each in planned] == [
                (group, size.partitions, "") for group in groups
            ]
            with timed("start", at):
                status, told = at_a_terminal("migrate", "start", *whole, "--yes", "--admin", at.address)
            assert status == 0, told
            assert "start" in told
            with timed("the mirror", at):
                wait_until(lambda: _lagging(at) == 0, "the cluster does not have it", 300)
            _verified(at, whole, groups, size)
            _change_is_seen(at, others, groups, topic)
            with timed("advance", at):
                assert at.migrate("advance", *whole, "--yes").status == 0
            _verified(at, whole, groups, size)
            _change_is_seen(at, others, groups, topic)
            with timed("nothing to do", at):
                threading.Event().wait(size.groups / 200)
            _side_by_side(at, others, large, groups, topic, size)
            _side_by_side(at, others, large, groups[: size.groups // 20], topic, size)
            _verified(at, whole, groups, size)


def _lagging(at: Administered) -> int:
    return sum(each["lag_seconds"] is not None for each in at.migrate("status").json["groups"])


def _verified(at: Administered, whole: list[str], groups: list[str], size: Size) -> None:
    with timed("verify", at):
        verified = at.migrate("verify", *whole)
    assert verified.status == 0, verified.json["not_done"]
    assert [(each["group"], each["offsets"], each["differing"]) for each in verified.json["groups"]] == [
        (group, size.partitions, 0) for group in groups
    ]


def _change_is_seen(at: Administered, others: KazooClient, groups: list[str], topic: str) -> None:
    """What an old consumer writes comes into the log by itself: nobody asks for it here but by looking at the log."""
    longest = 0.0
    for group in groups[:: max(1, len(groups) // 10)]:
        path = f"/consumers/{group}/offsets/{topic}/3"
        offset = int(others.get(path)[0]) + 7
        begun = time.monotonic()
        others.set(path, b"%d" % offset)
        _comes_to(partial(at.offsets, group), {(topic, 3): offset})
        longest = max(longest, time.monotonic() - begun)
    print(f"a change is in the log after {longest * 1000:.0f} ms, the longest")


def _side_by_side(
    at: Administered, others: KazooClient, zookeeper: ZooKeeper, groups: list[str], topic: str, size: Size
) -> None:
    """As many commits of old consumers and of those of today, of one partition each, to the same groups."""
    wanted = [(groups[number % len(groups)], number // len(groups) % size.partitions) for number in range(size.commits)]
    before, begun = transactions(zookeeper), time.monotonic()
    for number, (group, partition) in enumerate(wanted):
        others.set(_path(group, topic, partition), b"%d" % (10_000 + number))
    old, old_seconds = transactions(zookeeper) - before, time.monotonic() - begun
    for group, offsets in _last(wanted, topic, 10_000).items():
        _comes_to(partial(at.offsets, group), offsets)
    before, begun = transactions(zookeeper), time.monotonic()
    with timed("commits", at), WireClient(at.shim.port) as client:
        for number, (group, partition) in enumerate(wanted):
            commit(client, group, topic, partition, 20_000 + number)
        new_seconds = time.monotonic() - begun
        for group, offsets in _last(wanted, topic, 20_000).items():
            _comes_to(partial(_in_zookeeper, others, group, offsets), offsets)
    new = transactions(zookeeper) - before
    print(
        f"{size.commits} commits of {len(groups)} groups: {old} transactions of ZooKeeper by old consumers in"
        f" {old_seconds:.1f} s, {new} of the shim, whose clients took {new_seconds:.1f} s"
    )
    assert size.commits <= old
    assert 0 < new <= size.commits


def _last(wanted: Sequence[tuple[str, int]], topic: str, base: int) -> dict[str, dict[tuple[str, int], int]]:
    """By group."""
    last: dict[str, dict[tuple[str, int], int]] = {}
    for number, (group, partition) in enumerate(wanted):
        last.setdefault(group, {})[topic, partition] = base + number
    return last


def _comes_to(look: Callable[[], Mapping[tuple[str, int], int]], offsets: Mapping[tuple[str, int], int]) -> None:
    wait_until(lambda: offsets.items() <= look().items(), f"{offsets} are not there")


def _in_zookeeper(others: KazooClient, group: str, where: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
    return {at: int(others.get(_path(group, *at))[0]) for at in where}


def _path(group: str, topic: str, partition: int) -> str:
    return f"/consumers/{group}/offsets/{topic}/{partition}"
