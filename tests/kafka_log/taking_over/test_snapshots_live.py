"""A shim with its log on topics of a real broker is stopped and started again: with a snapshot it reads the tail alone,
and where there is any doubt about it, everything."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from shim.boottime import boottime
from shim.config import Settings, parse_servers
from shim.demo.parts import Broker
from shim.kafka_log.backend import KafkaBackend
from shim.kafka_log.copies import snapshot_format, tombstones
from shim.kafka_log.copies import snapshots as snapshots_of_topics
from shim.kafka_log.copies.snapshot_format import _ANCHOR, _HEAD, Anchor
from shim.kafka_log.copies.snapshots import SNAPSHOTS_NAME
from shim.kafka_log.reading.read_part import ReadPart
from shim.kafka_log.taking_over import doubts
from shim.kafka_log.taking_over.taking_over import TakingOver
from shim.kafka_log.topics import watch
from shim.kafka_log.topics.wanted import TopicsUnfit
from shim.log.disk.files import Files
from shim.log.partition.snapshot import SnapshotFolder
from shim.log.segments.active import LastBatch
from shim.runtime import Runtime
from shim.runtime import snapshots as snapshots_module
from shim.serve import logs as logs_module
from shim.upstream import Cluster, UpstreamError
from shim.upstream.topic_leaders import Leader
from shim.upstream.topic_reader import TopicReader
from tests.kafka_log.deciding import known
from tests.kafka_log.topics.test_watch import alter
from tests.log.faulty_files import FaultyFiles
from tests.relocation.rig import PARTITIONS, Rig, running, settings_of
from tests.waiting import until

WAIT_S = 30.0
COMMITS = 30
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS_AT_STOP", 5)


@pytest.fixture
def settings() -> Settings:
    return settings_of(f"__snapshots_{uuid.uuid4().hex[:12]}", "kafka")


def files_of(data_dir: Path) -> list[Path]:
    return sorted((data_dir / SNAPSHOTS_NAME).glob("*/*.snapshot"))


def partitions_with_one(data_dir: Path) -> int:
    """One that is taken stands beside the one before it for a moment."""
    return len({each.parent for each in files_of(data_dir)})


def unsaved(rig: Rig, data_dir: Path) -> int:
    """How many records a start would read behind those that there are."""
    assert isinstance(rig.backend, KafkaBackend)
    saved = dict.fromkeys(range(PARTITIONS), 0) | {
        int(each.parent.name.rpartition("-")[2]): int(each.stem) for each in files_of(data_dir)
    }
    return sum(rig.backend._offsets.end(number) - offset for number, offset in saved.items())


def read_of(rig: Rig) -> dict[str, int]:
    """How many records the start has read, by what there was before."""
    assert isinstance(rig.backend, KafkaBackend)
    counts = rig.backend.standbys
    assert sum(counts.taken_over.values()) == PARTITIONS
    return {before: counts.records[before] for before, count in counts.taken_over.items() if count}


async def fill(rig: Rig) -> list[dict[str, Any]]:
    for number in range(PARTITIONS):
        await rig.fill(number)
        await asyncio.gather(*(rig.commit(rig.group_in(number), offset, 5) for offset in range(COMMITS)))
    return [rig.state(number) for number in range(PARTITIONS)]


async def filled(broker: Broker, data_dir: Path, settings: Settings) -> list[dict[str, Any]]:
    """A shim's life. What each partition has then."""
    async with running(broker.bootstrap_servers, data_dir, settings) as rig:
        return await fill(rig)


async def test_a_start_reads_the_tail_alone(broker: Broker, tmp_path: Path, settings: Settings) -> None:
    before = await filled(broker, tmp_path, settings)
    assert len(files_of(tmp_path)) == PARTITIONS
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        # That the first one let go, and its own fence.
        assert read_of(rig) == {"snapshot": 2 * PARTITIONS}
        assert [rig.state(number) for number in range(PARTITIONS)] == before
        await rig.commit(rig.group_in(0), 77, 5)
        before = [rig.state(number) for number in range(PARTITIONS)]
    # There was too little for new ones: the older ones are gone on with.
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert read_of(rig) == {"snapshot": 4 * PARTITIONS + 1}
        assert [rig.state(number) for number in range(PARTITIONS)] == before
        assert rig.offset(rig.group_in(0), 5) == 77


async def test_one_is_taken_while_it_serves_and_counts_when_it_is_killed(
    broker: Broker, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS", 10)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        await fill(rig)
        await until(lambda: partitions_with_one(tmp_path) == PARTITIONS and unsaved(rig, tmp_path) < COMMITS - 5)
        await rig.commit(rig.group_in(1), 78, 5)
        before = [rig.state(number) for number in range(PARTITIONS)]
        rig.was_killed = True
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS", 10_000)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        read = read_of(rig)
        assert list(read) == ["snapshot"]
        assert read["snapshot"] < COMMITS
        assert [rig.state(number) for number in range(PARTITIONS)] == before


async def test_of_a_partition_that_nobody_writes_to_one_is_taken_too(
    broker: Broker, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read from the beginning, since the files were lost, and a claim is what it is anchored to."""
    before = await filled(broker, tmp_path, settings)
    for each in files_of(tmp_path):
        each.unlink()
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS", 10)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["beginning"]
        await until(lambda: partitions_with_one(tmp_path) == PARTITIONS)
        rig.was_killed = True
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["snapshot"]
        assert [rig.state(number) for number in range(PARTITIONS)] == before


async def test_what_somebody_else_has_written_since_is_read(broker: Broker, tmp_path: Path, settings: Settings) -> None:
    """And its fence stands there, behind which the first one goes on."""
    await filled(broker, tmp_path / "one", settings)
    async with running(broker.bootstrap_servers, tmp_path / "another", settings) as rig:
        assert list(read_of(rig)) == ["beginning"]
        await rig.commit(rig.group_in(0), 79, 5)
        before = [rig.state(number) for number in range(PARTITIONS)]
        rig.was_killed = True
    async with running(broker.bootstrap_servers, tmp_path / "one", settings) as rig:
        assert list(read_of(rig)) == ["snapshot"]
        assert [rig.state(number) for number in range(PARTITIONS)] == before


async def test_those_of_a_stop_are_taken_when_others_have_the_partitions(
    broker: Broker, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    close, take = Runtime.close, SnapshotFolder.take

    async def given_up() -> None:
        order.append("given up")

    def noted(folder: SnapshotFolder, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
        order.append("taken")
        return take(folder, anchor, payload)

    monkeypatch.setattr(Runtime, "close", lambda its, seconds: close(its, seconds, given_up))
    monkeypatch.setattr(SnapshotFolder, "take", noted)
    await filled(broker, tmp_path, settings)
    assert order == ["given up", *["taken"] * PARTITIONS]


# -- where there is doubt


def _damage(data_dir: Path, _monkeypatch: pytest.MonkeyPatch) -> str:
    for each in files_of(data_dir):
        raw = bytearray(each.read_bytes())
        raw[-1] ^= 1
        each.write_bytes(raw)
    return "is not used: its checksum is wrong"


def _age(data_dir: Path, _monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the 7 days that the topic is made with."""
    _anchor_elsewhere(data_dir, lambda anchor: anchor._replace(append_time_ms=anchor.append_time_ms - 84 * HOUR_MS))
    return "is not used: it is older than half of delete.retention.ms of the topic"


def _age_by_one_clock_alone(data_dir: Path, _monkeypatch: pytest.MonkeyPatch) -> str:
    """The broker's was ahead as it was taken, and is right by now."""
    for each in files_of(data_dir):
        its = each.stat()
        os.utime(each, (its.st_atime, its.st_mtime - 84 * 3600))
    return "is not used: it is older than half of delete.retention.ms of the topic"


def _clocks(data_dir: Path, _monkeypatch: pytest.MonkeyPatch) -> str:
    _anchor_elsewhere(data_dir, lambda anchor: anchor._replace(append_time_ms=anchor.append_time_ms + HOUR_MS))
    return "is not used: it is younger than the end of the log: the brokers' clocks tell nothing"


def _another_batch(data_dir: Path, _monkeypatch: pytest.MonkeyPatch) -> str:
    """It is another one that stands there, under the same epoch: a cluster was put back to an earlier time."""
    _anchor_elsewhere(data_dir, lambda anchor: anchor._replace(append_time_ms=anchor.append_time_ms - 1))
    return "is not used: it is not what stands there any more"


def _a_lost_end(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """It was written under a leader of whom nobody knows any more. That tells, where compaction has left nothing."""

    async def gone(*_: object) -> bool:
        return True

    monkeypatch.setattr(snapshots_of_topics.TopicSnapshots, "has", gone)
    _anchor_elsewhere(data_dir, lambda anchor: anchor._replace(leader_epoch=anchor.leader_epoch + 1))
    return "is not used: it is not what stands there any more"


def _unknown_retention(_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tombstones, "UNASKED_SECONDS", 0.0)

    async def refused(*_: object) -> int:
        raise TopicsUnfit("the shim's principal needs DescribeConfigs on topic t")

    monkeypatch.setattr(tombstones, "look_up_retention", refused)
    return "is not used: delete.retention.ms is not known: the shim's principal needs DescribeConfigs on topic t"


def _no_answer(_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    _brokers_do_not_tell(monkeypatch)
    return "is not used: no answer"


def _brokers_do_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_answer(*_: object) -> int:
        raise UpstreamError("no answer")

    monkeypatch.setattr(tombstones, "look_up_retention", no_answer)
    monkeypatch.setattr(tombstones, "UNASKED_SECONDS", 0.0)


def _hanging_disk(_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(snapshots_of_topics, "DISK_SECONDS", 0.05)
    monkeypatch.setattr(snapshots_of_topics.TopicSnapshots, "newest", lambda *_: Event().wait())
    return "the disk with the snapshots has not answered within 0.05 s: none is used"


def _mistake_of_ours(_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    def mistaken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(snapshot_format.Kept, "restore", mistaken)
    return "is not used: ZeroDivisionError()"


def _anchor_elsewhere(data_dir: Path, change: Callable[[Anchor], Anchor]) -> None:
    for each in files_of(data_dir):
        folder = SnapshotFolder(Files(), each.parent)
        found = folder.newest()
        assert found is not None
        payload = bytearray(found.payload)
        anchor = Anchor(*_ANCHOR.unpack_from(payload, _HEAD.size))
        _ANCHOR.pack_into(payload, _HEAD.size, *change(anchor))
        assert folder.take(found.anchor, [bytes(payload)]) == each


@pytest.mark.parametrize(
    "doubt",
    [
        _damage,
        _age,
        _age_by_one_clock_alone,
        _clocks,
        _another_batch,
        _a_lost_end,
        _unknown_retention,
        _no_answer,
        _hanging_disk,
        _mistake_of_ours,
    ],
)
async def test_everything_is_read_in_doubt(
    broker: Broker,
    tmp_path: Path,
    settings: Settings,
    doubt: Callable[[Path, pytest.MonkeyPatch], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = await filled(broker, tmp_path, settings)
    why = doubt(tmp_path, monkeypatch)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        read = read_of(rig)
        assert list(read) == ["beginning"]
        assert read["beginning"] > COMMITS * PARTITIONS
        assert [rig.state(number) for number in range(PARTITIONS)] == before
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [why in line for line in told] == [True] * PARTITIONS, told
    monkeypatch.undo()
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["snapshot"], "a new one was taken, or it was not that one's fault"


@pytest.mark.parametrize("to", [3_600_000, 30 * 86_400_000])
async def test_one_of_before_tombstones_stayed_for_another_time_is_of_no_use(
    broker: Broker, tmp_path: Path, settings: Settings, to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it serves, and has been told, though it is as before when it is started again. One was taken anew."""
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    topic = f"{settings.offsets_log_topics_prefix}_offsets"
    before = await filled(broker, tmp_path, settings)
    older = {each: each.read_bytes() for each in files_of(tmp_path)}
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["snapshot"]
        await alter(broker, topic, delete_retention_ms=str(to))
        await until(lambda: len(files_of(tmp_path)) == PARTITIONS and not set(older) & set(files_of(tmp_path)))
        await alter(broker, topic, delete_retention_ms=str(7 * 86_400_000))
        newer = files_of(tmp_path)
        await until(lambda: len(files_of(tmp_path)) == PARTITIONS and not set(newer) & set(files_of(tmp_path)))
        rig.was_killed = True
    for each in files_of(tmp_path):
        each.unlink()
    for each, content in older.items():  # as if it had not been written anew
        each.write_bytes(content)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["beginning"]
        assert [rig.state(number) for number in range(PARTITIONS)] == before


async def test_a_topic_that_was_made_anew_is_another_one(broker: Broker, tmp_path: Path, settings: Settings) -> None:
    await filled(broker, tmp_path, settings)
    before = files_of(tmp_path)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    prefix = settings.offsets_log_topics_prefix
    for gone in admin.delete_topics([f"{prefix}_offsets", f"{prefix}_history"]).values():
        await asyncio.to_thread(gone.result, WAIT_S)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert read_of(rig) == {"beginning": PARTITIONS}
        assert not any(rig.state(number)["offsets"] for number in range(PARTITIONS))
        assert files_of(tmp_path) == [], "those of the old one are removed"
        await fill(rig)
    assert len(files_of(tmp_path)) == PARTITIONS
    assert not set(before) & set(files_of(tmp_path))


async def test_one_that_gets_too_old_while_it_is_gone_on_with_is_given_up(
    broker: Broker,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A machine that was suspended: its own clock says so, and with the next fence the brokers' do."""
    before = await filled(broker, tmp_path, settings)
    monkeypatch.setattr(KafkaBackend, "loads_at_once", 1)
    suspended = [False, True]
    monkeypatch.setattr(doubts, "boottime", lambda: boottime() + (10 * 86_400 if suspended and suspended.pop(0) else 0))
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert [rig.state(number) for number in range(PARTITIONS)] == before
    assert caplog.text.count("what it had got too old while it was gone on with") == 1
    assert not suspended


async def test_one_is_renewed_before_it_is_too_old(
    broker: Broker, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nothing is written any more."""
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    before = await filled(broker, tmp_path, settings)
    older = files_of(tmp_path)
    monkeypatch.setattr(snapshots_of_topics, "_RENEWED_AT", 1e-12)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["snapshot"]
        await until(lambda: len(files_of(tmp_path)) == PARTITIONS and not set(older) & set(files_of(tmp_path)))
        rig.was_killed = True
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["snapshot"]
        assert [rig.state(number) for number in range(PARTITIONS)] == before


async def test_a_disk_that_is_full_is_told_of_once_and_nothing_else_happens(
    broker: Broker,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS", 10)
    monkeypatch.setattr(snapshots_module, "RETRY_S", 0.01)
    files = FaultyFiles()
    monkeypatch.setattr(logs_module, "Files", lambda: files)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        files.fail("pwrite", errno.ENOSPC, SNAPSHOTS_NAME)
        await fill(rig)
        tries = [path for method, path in files.calls if method == "create"]
        await until(lambda: [method for method, _ in files.calls].count("create") > len(tries) + 5)
        assert caplog.text.count("-0: a snapshot could not be written for now") == 1
        assert files_of(tmp_path) == []
        files.heal()
        await until(lambda: partitions_with_one(tmp_path) == PARTITIONS)
        rig.was_killed = True
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["snapshot"]


async def test_where_it_cannot_be_noted_how_long_tombstones_stay_there_is_none(
    broker: Broker,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    before = await filled(broker, tmp_path, settings)
    (tmp_path / SNAPSHOTS_NAME / "retention").unlink()
    files = FaultyFiles()
    monkeypatch.setattr(logs_module, "Files", lambda: files)
    files.fail("pwrite", errno.ENOSPC, SNAPSHOTS_NAME)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["beginning"]
        assert [rig.state(number) for number in range(PARTITIONS)] == before
        assert "no snapshots are used or taken" in caplog.text
        files.heal()
        await until((tmp_path / SNAPSHOTS_NAME / "retention").exists)
    assert len(files_of(tmp_path)) == PARTITIONS
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        assert list(read_of(rig)) == ["snapshot"]


async def test_one_from_before_the_cluster_was_put_back_is_not_believed_when_its_batch_is_gone(
    tmp_path: Path, settings: Settings
) -> None:
    """The disks are as they were, so are the topic's id and its leader's epoch; another shim has had the partition
    since, and compaction has taken what stood where the snapshot ends."""
    topic = f"{settings.offsets_log_topics_prefix}_offsets"
    with Broker(tmp_path / "broker", properties={"log.cleaner.backoff.ms": 200}) as broker:
        bootstrap = broker.bootstrap_servers
        async with running(bootstrap, tmp_path / "a", settings) as rig:
            group = rig.group_in(0)
            await rig.commit(group, 1_000, 40)
        for each in files_of(tmp_path / "a"):
            each.unlink()
        await asyncio.to_thread(broker.stop)
        shutil.copytree(broker.data, tmp_path / "copy")
        await asyncio.to_thread(broker.start)
        async with running(bootstrap, tmp_path / "a", settings) as rig:
            for offset in range(60):
                await rig.commit(group, offset, 5)
        (kept,) = [each for each in files_of(tmp_path / "a") if each.parent.name.endswith("-0")]
        end = int(kept.stem)
        await asyncio.to_thread(broker.stop)
        shutil.rmtree(broker.data)
        shutil.copytree(tmp_path / "copy", broker.data)
        await asyncio.to_thread(broker.start)
        async with running(bootstrap, tmp_path / "b", settings) as rig:
            soon = {"segment_ms": "500", "min_cleanable_dirty_ratio": "0.0", "min_compaction_lag_ms": "0"}
            await alter(broker, topic, **soon)
            await rig.commit(group, 7_777, 40)
            for offset in range(100):
                await rig.commit(group, offset, 5)
            async with asyncio.timeout(WAIT_S):
                while await next_batch(broker, settings, end - 1) < end:
                    await asyncio.sleep(0.3)  # for as long as compaction takes
                    await rig.commit(group, 100, 5)  # so that a segment is closed
        await alter(broker, topic, segment_ms="604800000", min_compaction_lag_ms="60000")
        async with running(bootstrap, tmp_path / "a", settings) as rig:
            assert rig.offset(group, 40) == 7_777
            assert read_of(rig)["beginning"] > 0


async def next_batch(broker: Broker, settings: Settings, offset: int) -> int:
    """Where the batch begins that has it, or the next one."""
    cluster = Cluster(parse_servers(broker.bootstrap_servers), settings)
    following = asyncio.create_task(cluster.run())
    try:
        topic = f"{settings.offsets_log_topics_prefix}_offsets"
        _, header = await TopicReader(cluster, settings, topic).batch_at(0, offset)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert header is not None
    return header.base_offset


# -- what was followed


async def _followed(rig: Rig) -> TakingOver:
    """Partition 0, which is somebody else's for now."""
    rig.runtime.own(range(1, PARTITIONS))
    await until(lambda: rig.runtime.coordinator(0) is None)
    assert isinstance(rig.backend, KafkaBackend)
    its = rig.backend._taking_over
    assert its is not None
    its.follow([0])
    await until(lambda: its.counts.at_end == 1)
    return its


def _as_ever(_monkeypatch: pytest.MonkeyPatch) -> str:
    return "standby"


def _too_old(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tombstones, "SHARE_OF_RETENTION", 1e-12)
    monkeypatch.setattr(tombstones, "UNASKED_SECONDS", 0.0)
    return "beginning"


def _not_told(monkeypatch: pytest.MonkeyPatch) -> str:
    _unknown_retention(Path(), monkeypatch)
    return "beginning"


@pytest.mark.parametrize("how", [_as_ever, _too_old, _not_told])
async def test_what_was_followed_is_gone_on_with_where_it_is_not_too_old(
    broker: Broker,
    tmp_path: Path,
    settings: Settings,
    how: Callable[[pytest.MonkeyPatch], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        (before, *_) = await fill(rig)
        its = await _followed(rig)
        counted = its.counts.taken_over.copy()
        from_where = how(monkeypatch)
        found = await its.read_back(0)
        assert Counter(its.counts.taken_over) - Counter(counted) == {from_where: 1}
        assert known(found.coordinator) == before


@pytest.mark.parametrize("is_compacted", [False, True])
async def test_what_was_followed_at_a_leader_that_is_none_any_more_is_gone_on_with_where_nothing_was_compacted(
    broker: Broker, tmp_path: Path, settings: Settings, is_compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been deposed long ago, and said all the time that what it knows is the end."""
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        (before, *_) = await fill(rig)
        its = await _followed(rig)
        its._standbys._standbys[0].copy.part.told_by(Leader(1_000, 0))
        if is_compacted:
            monkeypatch.setattr(ReadPart, "_is_whole", lambda *_: False)
            with pytest.raises(UpstreamError, match=r"^what stands behind offset \d+ was compacted"):
                await its.read_back(0)
            monkeypatch.undo()
        counted = its.counts.taken_over.copy()
        found = await its.read_back(0)
        from_where = "beginning" if is_compacted else "standby"
        assert Counter(its.counts.taken_over) - Counter(counted) == {from_where: 1}
        assert known(found.coordinator) == before


async def test_what_was_followed_is_there_when_it_is_known_how_old_it_may_be(
    broker: Broker, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        (before, *_) = await fill(rig)
        its = await _followed(rig)

        with monkeypatch.context() as while_they_do_not_answer:
            _brokers_do_not_tell(while_they_do_not_answer)
            with pytest.raises(UpstreamError, match="no answer"):
                await its.read_back(0)
        found = await its.read_back(0)
        assert its.counts.taken_over["standby"] == 1
        assert known(found.coordinator) == before


async def test_what_was_followed_and_got_too_old_while_the_rest_was_read_is_given_up(
    broker: Broker, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was known to be too old before: it is a machine that was suspended."""
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        (before, *_) = await fill(rig)
        its = await _followed(rig)
        suspended = [False, True]
        monkeypatch.setattr(
            doubts, "boottime", lambda: boottime() + (10 * 86_400 if suspended and suspended.pop(0) else 0)
        )
        with pytest.raises(UpstreamError, match="got too old while it was gone on with"):
            await its.read_back(0)
        found = await its.read_back(0)
        assert its.counts.taken_over["standby"] == 0
        assert known(found.coordinator) == before
