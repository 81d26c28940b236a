"""SIGKILL of the shim under a stream of commits: nothing that was acknowledged is lost, nothing half is served."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer

from protocol.own.history_log import HISTORY_TOPIC, decode_history
from protocol.records.batches import batches, decode_records
from shim.demo.parts import Broker
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.journal.journal import JOURNAL_NAME
from tests.conftest import TopicFactory
from tests.crash.acknowledged import WrongOffsets
from tests.crash.conftest import MOST_MINUTES, OFFSETS_PARTITIONS, TOPIC_PARTITIONS, churning
from tests.crash.consuming import Consuming
from tests.crash.load import Committer, Load, join, served
from tests.log_format.dump import read_by_kafka
from tests.shim_process import Shim

GROUPS, MEMBERS = 40, 10  # so many groups, and so many of them with a member
CONNECTIONS = 6
KILLS = 20
TIME_LIMIT_SECONDS = 400
MOST_COMMITS = 400  # between two kills
RECORDS = 40_000  # for the consumer, more than it can commit one by one


@pytest.fixture
def consuming(
    shim: Shim, broker: Broker, make_topic: TopicFactory, fresh_name: Callable[[], str], tmp_path: Path
) -> Iterator[Consuming]:
    topic = make_topic(3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "queue.buffering.max.messages": RECORDS})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % 3)
    assert producer.flush(30) == 0
    with Consuming(shim.bootstrap, topic, fresh_name(), tmp_path / "consumer.stderr") as running:
        yield running


def committers(topic: str, prefix: str, seed: int) -> list[Committer]:
    return [
        Committer(f"{prefix}-{number}", topic, TOPIC_PARTITIONS, random.Random(seed * 1_000 + number))
        for number in range(GROUPS)
    ]


def check(shim: Shim, groups: Sequence[Committer], topic: str) -> None:
    found = served(shim.port, [committer.history.group for committer in groups], topic)
    for committer in groups:
        committer.history.check(found[committer.history.group])


def check_history(data_dir: Path, groups: Sequence[Committer], kills: int) -> None:
    """Each commit that was acknowledged is in it, none twice, in the order in which they were made."""
    offsets: dict[tuple[str, int], list[int]] = {}
    for segment in sorted(data_dir.glob(f"{HISTORY_TOPIC}-*/*.log")):
        data = segment.read_bytes()
        for position, _ in batches(data):
            for record in decode_records(data, position):
                for key, value in decode_history(record.key or b"", record.value) or ():
                    offsets.setdefault((key.group, key.partition), []).append(value.offset)
    for committer in groups:
        history = committer.history
        for partition in range(TOPIC_PARTITIONS):
            found = offsets.get((history.group, partition), [])
            assert all(earlier < later for earlier, later in pairwise(found))
            expected = {its[partition].offset for its in history.all_acknowledged if partition in its}
            assert expected <= set(found), f"{history.group}: commits that the history lacks"
    assert sum(map(len, offsets.values())) > kills * MOST_COMMITS / 4


async def committed_and_killed(shim: Shim, groups: Sequence[Committer], after: int, seed: int) -> int:
    """Commit to every port of the shim, kill it after so many answers; how many there were in the end."""
    load = Load([shim.port, shim.broker_port(1)], groups, CONNECTIONS, seed)
    await load.until_killed(after, shim.kill)
    assert not shim.running
    return load.acknowledged


async def killed_again_and_again(
    shim: Shim, topic: str, consuming: Consuming, groups: Sequence[Committer], seed: int, kills: int
) -> int:
    """How many commits were acknowledged, beside the consumer's. The shim runs at the end, and so does the consumer."""
    rng = random.Random(seed)
    for committer in groups[:MEMBERS]:
        join(shim.port, committer, topic)
    acknowledged = 0
    for kill in range(kills):
        await asyncio.to_thread(consuming.wait_committed, consuming.committed)  # it takes part again
        after = rng.randint(1, MOST_COMMITS)
        acknowledged += await committed_and_killed(shim, groups, after, seed * KILLS + kill)
        await asyncio.to_thread(shim.start)
        check(shim, groups, topic)
        by_consumer = consuming.acknowledged()
        found = served(shim.port, [consuming.group], consuming.topic)
        consuming.check(by_consumer, found[consuming.group])
    assert acknowledged > kills * MOST_COMMITS / 4
    assert all(committer.history.number for committer in groups), "a group that never committed"
    await asyncio.to_thread(consuming.wait_committed, consuming.committed)  # it goes on after the last kill
    return acknowledged


# Every seed is a run of its own, so that many of them can be done in parts.
@pytest.mark.local_log("it counts compactions and snapshots, and Kafka's tool reads the files")
@pytest.mark.parametrize(
    ("seed", "kills"), [(0, 10), *(pytest.param(seed, KILLS, marks=pytest.mark.soak) for seed in range(26))]
)
async def test_killed_again_and_again_every_acknowledged_offset_is_served(
    broker: Broker, shim: Shim, committed_topic: str, consuming: Consuming, group: str, seed: int, kills: int
) -> None:
    groups = committers(committed_topic, group, seed)
    async with asyncio.timeout(TIME_LIMIT_SECONDS):
        acknowledged = await killed_again_and_again(shim, committed_topic, consuming, groups, seed, kills)
        shim.stop()
        assert await asyncio.to_thread(read_by_kafka, shim.segments(broker))
    if churning(seed)["offsets.history.retention.minutes"] == MOST_MINUTES:
        check_history(shim.data_dir, groups, kills)
    told = shim.log()
    compactions, snapshots = told.count(": compacted offsets "), len(re.findall(r"\([1-9]\d* from snapshots\)", told))
    assert compactions > kills
    assert snapshots > kills / 4, "starts from a snapshot"
    print(
        f"{kills} kills, {acknowledged} acknowledged commits, {consuming.committed} of the consumer, "
        f"{compactions} compactions, {snapshots} starts from snapshots"
    )


@pytest.mark.parametrize("offsets_log", ["kafka"])
@pytest.mark.parametrize(
    ("seed", "kills"), [(0, 5), *(pytest.param(seed, KILLS, marks=pytest.mark.soak) for seed in range(1, 6))]
)
async def test_killed_with_the_log_on_topics(
    shim: Shim, committed_topic: str, consuming: Consuming, group: str, seed: int, kills: int
) -> None:
    groups = committers(committed_topic, group, seed)
    async with asyncio.timeout(TIME_LIMIT_SECONDS):
        await killed_again_and_again(shim, committed_topic, consuming, groups, seed, kills)
    told = shim.log()
    snapshots, whole = (told.count(f"read {how}") for how in ("behind a snapshot of", "from the beginning"))
    print(f"{kills} kills, {snapshots} partitions read behind a snapshot, {whole} from the beginning")
    assert snapshots > kills


def half_of_the_last_batch(log: bytes) -> bytes:
    position, header = list(batches(log))[-1]
    return log[position : position + header.size // 2]


TAILS: dict[str, Callable[[bytes], bytes]] = {
    "random bytes": lambda log: random.Random(len(log)).randbytes(3_000),
    "zeros": lambda log: bytes(4_096),
    "a few bytes": lambda log: b"\x00\x00\x00",
    "half a batch": half_of_the_last_batch,
}


@pytest.mark.local_log("it damages the files")
async def test_garbage_after_the_last_batch_is_cut_off(
    broker: Broker, shim: Shim, committed_topic: str, group: str
) -> None:
    """Of each kind, at different partitions."""
    groups = committers(committed_topic, group, 0)
    async with asyncio.timeout(TIME_LIMIT_SECONDS):
        await committed_and_killed(shim, groups, MOST_COMMITS, 0)
        await asyncio.to_thread(shim.start)
        check(shim, groups, committed_topic)
        shim.kill()
        written = {segment: segment.read_bytes() for segment in shim.segments(broker)}
        assert len(written) == OFFSETS_PARTITIONS
        # The kill may have torn a write, too.
        before = set(shim.data_dir.glob("*/*.cut-*"))
        tails = {segment: tail(written[segment]) for segment, tail in zip(written, cycle(TAILS.values()), strict=False)}
        for segment, log in written.items():
            segment.write_bytes(log + tails[segment])
        await asyncio.to_thread(shim.start)
        check(shim, groups, committed_topic)
        for segment, log in written.items():
            assert segment.read_bytes() == log
            (copy,) = set(segment.parent.glob("*.cut-*")) - before
            assert copy.read_bytes() == tails[segment], "what was cut off is kept"
        await committed_and_killed(shim, groups, 50, 1)
        await asyncio.to_thread(shim.start)
        check(shim, groups, committed_topic)


@pytest.mark.local_log("it damages the files")
async def test_a_log_that_lost_its_last_batch_would_be_noticed(
    broker: Broker, shim: Shim, committed_topic: str, group: str
) -> None:
    """The load and its checks on a shim that loses one acknowledged batch: what the other tests rely on."""
    groups = committers(committed_topic, group, 0)
    async with asyncio.timeout(TIME_LIMIT_SECONDS):
        await committed_and_killed(shim, groups, MOST_COMMITS, 0)
        await asyncio.to_thread(shim.start)
        check(shim, groups, committed_topic)
        shim.kill()
        lossy = shim.segments(broker)[0]
        log = lossy.read_bytes()
        position, _ = list(batches(log))[-1]
        lossy.write_bytes(log[:position])
        # What would put it right, and what would tell.
        (lossy.parent.parent / JOURNAL_NAME).unlink()
        (lossy.parent.parent / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
        await asyncio.to_thread(shim.start)
        with pytest.raises(WrongOffsets):
            check(shim, groups, committed_topic)
