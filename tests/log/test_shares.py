"""A data directory that several processes have together, each with a journal of its own."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.data_dir import data_dir_at_rest, data_dir_to_read
from shim.admin.at_rest.journal import ends_in_journal
from shim.log import LogError, OffsetsLog, PartitionWrite, Share
from shim.log.directory.data_dir import DataDir
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.directory.shares import end_in_good_order
from shim.log.disk.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    read_checkpoint,
    write_checkpoint,
)
from shim.log.disk.files import Files
from shim.log.journal.journal import JOURNAL_NAME
from shim.workers_folder import SHARES_NAME, share_folder
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.sync_sites import CallPath, Site, sites, watching
from tests.log.test_log import NOW, one, recovered, segment, write

PARTITIONS = 6
_SEEDS: Final = 120  # one in some dozens of these lives ends just where a sync is missed


def dealt_out(data_dir: Path, count: int, files: Files | None = None) -> tuple[OffsetsLog, list[OffsetsLog]]:
    """Who has the directory, and those that work in it, all that they have read back."""
    whole = OffsetsLog.open(data_dir, PARTITIONS, files=files)
    clean = whole.deal_out(count)
    return whole, [share_of(data_dir, Share(number, count), files, clean=clean) for number in range(count)]


def share_of(data_dir: Path, share: Share, files: Files | None = None, *, clean: bool = False) -> OffsetsLog:
    log = OffsetsLog.open_share(data_dir, PARTITIONS, share, clean=clean, files=files)
    for partition in filter(share.has, range(PARTITIONS)):
        recovered(log, partition)
    return log


def keys(logs: Sequence[OffsetsLog]) -> list[list[bytes]]:
    """Of each partition, as who has it reads it."""
    return [
        [record.key for record in recovered(logs[partition % len(logs)], partition)] for partition in range(PARTITIONS)
    ]


def closed(whole: OffsetsLog, logs: Sequence[OffsetsLog], files: Files | None = None) -> None:
    """In good order."""
    for log in logs:
        log.close()
        assert log.ended_clean
    end_in_good_order(files or Files(), whole.data_dir.path)
    whole.data_dir.close()


def after_a_power_failure(data_dir: Path, target: Path) -> Path:
    """At worst: of the segments nothing that was not synced."""
    shutil.copytree(data_dir, target)
    for partition in range(PARTITIONS):
        segment(target, partition).write_bytes(b"")
    return target


def test_each_has_its_partitions_and_no_others(tmp_path: Path) -> None:
    whole, logs = dealt_out(tmp_path / "data", 2)
    assert [log.num_partitions for log in logs] == [PARTITIONS, PARTITIONS]
    assert logs[1].write([write(1, one("a")), write(5, one("b"))]) == {}
    with pytest.raises(ValueError, match="no partition"):
        logs[1].write([write(2, one("c"))])
    with pytest.raises(LogError, match="in use by another process"):
        OffsetsLog.open(tmp_path / "data", PARTITIONS)
    closed(whole, logs)
    alone = OffsetsLog.open(tmp_path / "data", PARTITIONS)
    assert keys([alone]) == [[], [b"a"], [], [], [], [b"b"]]
    alone.close()


def test_an_end_in_good_order_leaves_a_directory_as_one_process_does(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    whole, logs = dealt_out(data_dir, 3)
    for partition in range(PARTITIONS):
        assert logs[partition % 3].write([write(partition, one("a"))]) == {}
    closed(whole, logs)
    assert (data_dir / CLEAN_SHUTDOWN).exists()
    assert not (data_dir / SHARES_NAME).exists()
    assert not (data_dir / JOURNAL_NAME).exists()
    assert read_checkpoint(Files(), data_dir / RECOVERY_POINT_CHECKPOINT) == {
        TopicPartition("__consumer_offsets", partition): 1 for partition in range(PARTITIONS)
    }


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_what_the_segments_have_lost_is_put_back_whoever_comes_next(tmp_path: Path, before: int, after: int) -> None:
    whole, logs = dealt_out(tmp_path / "data", before)
    for number in range(3):
        for partition in range(PARTITIONS):
            assert logs[partition % before].write([write(partition, one(f"{number}"))]) == {}
    lost = after_a_power_failure(tmp_path / "data", tmp_path / "lost")
    assert not any(segment(lost, partition).read_bytes() for partition in range(PARTITIONS))
    expected = [[b"0", b"1", b"2"]] * PARTITIONS
    if after == 1:
        alone = OffsetsLog.open(lost, PARTITIONS)
        assert keys([alone]) == expected
        alone.close()
    else:
        again, theirs = dealt_out(lost, after)
        assert keys(theirs) == expected
        closed(again, theirs)
    closed(whole, logs)


def test_the_successor_of_one_that_is_gone_has_what_was_acknowledged(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    whole, logs = dealt_out(data_dir, 2)
    assert logs[0].write([write(0, one("a"))]) == {}
    assert logs[1].write([write(1, one("b"))]) == {}
    segment(data_dir, 1).write_bytes(b"")  # as a power failure behind the kill would leave it
    successor = share_of(data_dir, Share(1, 2))
    assert keys([logs[0], successor])[:2] == [[b"a"], [b"b"]]
    assert logs[0].write([write(0, one("c"))]) == {}
    assert successor.write([write(1, one("d"))]) == {}
    assert keys([logs[0], successor])[:2] == [[b"a", b"c"], [b"b", b"d"]]
    closed(whole, [logs[0], successor])


def test_one_share_that_was_not_closed_makes_the_next_start_one_after_a_crash(tmp_path: Path) -> None:
    whole, logs = dealt_out(tmp_path / "data", 2)
    assert logs[0].write([write(0, one("a"))]) == {}
    assert logs[1].write([write(1, one("b"))]) == {}
    logs[0].close()
    whole.data_dir.close()
    assert not (tmp_path / "data" / CLEAN_SHUTDOWN).exists()
    again, theirs = dealt_out(tmp_path / "data", 3)
    assert keys(theirs)[:2] == [[b"a"], [b"b"]]
    closed(again, theirs)


def lives_of_a_directory(seed: int, kind: type[LostFiles] = LostFiles) -> None:
    """One process has it, or several, another number each time; what ends them is a power failure, a kill or nothing.
    Whatever was acknowledged is there."""
    rng = random.Random(seed)
    files = kind(rng=rng)
    files.mkdir(Path("/disk"))
    files.sync_directory(Path("/"))
    data_dir = Path("/disk/data")
    expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for life in range(5):
        count = rng.choice((1, 2, 3))
        if count == 1:
            whole = OffsetsLog.open(data_dir, PARTITIONS, files=files)
            logs = [whole]
        else:
            whole, logs = dealt_out(data_dir, count, files)
        assert keys(logs) == expected
        for number in range(rng.randrange(8)):
            key = b"%d/%d" % (life, number)
            partition = rng.randrange(PARTITIONS)
            together = [each for each in range(PARTITIONS) if each % count == partition % count]
            chosen = rng.sample(together, rng.randrange(1, len(together) + 1))
            log = logs[partition % count]
            assert log.write([PartitionWrite(each, [[(key, bytes(rng.randrange(300)))]], NOW) for each in chosen]) == {}
            for each in chosen:
                expected[each].append(key)
            if rng.random() < 0.2:
                log.maintain(NOW * life + 100_000 * number)
            if count > 1 and rng.random() < 0.2:  # one is killed, and another takes its place
                files_after = files
                logs[partition % count] = share_of(data_dir, Share(partition % count, count), files_after)
        if count > 1 and rng.random() < 0.3:
            closed(whole, logs, files)
            files = files.after_power_failure() if rng.random() < 0.5 else files.after_kill()
        else:
            files = files.after_power_failure() if rng.random() < 0.8 else files.after_kill()
    log = OffsetsLog.open(data_dir, PARTITIONS, files=files)
    assert keys([log]) == expected


@pytest.mark.parametrize("seed", range(12))
def test_power_failures_and_kills_while_the_number_of_processes_changes_lose_nothing(seed: int) -> None:
    lives_of_a_directory(seed)


OF_SHARES: Final = [
    each
    for each in sites(frozenset())
    if (each.module == "shares" and each.function != "remove_shares")
    or (each.module, each.function) == ("offsets_log", "open_share")
]
"""That of `remove_shares` is not missed: whoever finds again what was removed knows more by then than it tells."""


@pytest.fixture(scope="module")
def paths() -> set[CallPath]:
    """Every way that led to a sync in some lives."""
    watched = watching()
    for seed in range(12):
        lives_of_a_directory(seed, watched)
    return watched.seen


@pytest.mark.parametrize("site", OF_SHARES, ids=str)
def test_no_sync_can_be_left_out(site: Site, paths: set[CallPath]) -> None:
    through = sorted(path for path in paths if (path.module, path.line) == (site.module, site.line))
    assert through, "nothing that is tested here comes by this sync"
    for path in through:
        assert any(loses(path, seed) for seed in range(_SEEDS)), f"not missed: {path}"


def loses(path: CallPath, seed: int) -> bool:
    try:
        lives_of_a_directory(seed, watching(path))
    except (AssertionError, LogError, OSError):
        return True
    return False


@pytest.mark.parametrize("seed", range(12))
def test_a_start_that_breaks_off_anywhere_is_begun_again(seed: int) -> None:
    rng = random.Random(seed)
    files = LostFiles(rng=rng)
    files.mkdir(Path("/disk"))
    files.sync_directory(Path("/"))
    data_dir = Path("/disk/data")
    _, logs = dealt_out(data_dir, 2, files)
    for partition in range(PARTITIONS):
        assert logs[partition % 2].write([write(partition, one("a"))]) == {}
    files = files.after_power_failure()
    broken_off = 0
    for _ in range(6):
        before = files.calls
        files.crash_at = before + rng.randrange(60)
        try:
            dealt_out(data_dir, rng.choice((2, 3)), files)
        except PowerFailure:
            broken_off += 1
        files = files.after_power_failure()
    assert broken_off
    again, theirs = dealt_out(data_dir, 2, files)
    assert keys(theirs) == [[b"a"]] * PARTITIONS
    closed(again, theirs, files)


def test_what_is_clean_is_known_to_each_and_afterwards_to_all(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    OffsetsLog.open(data_dir, PARTITIONS).close()
    cleaned = {TopicPartition("__consumer_offsets", partition): partition for partition in range(PARTITIONS)}
    write_checkpoint(Files(), data_dir / CLEANER_OFFSET_CHECKPOINT, cleaned)
    whole, logs = dealt_out(data_dir, 2)
    path = logs[1].notes_folder / CLEANER_OFFSET_CHECKPOINT
    assert read_checkpoint(Files(), path) == {at: offset for at, offset in cleaned.items() if offset % 2}
    further = {TopicPartition("__consumer_offsets", 1): 7}
    write_checkpoint(Files(), path, {**read_checkpoint(Files(), path), **further})
    closed(whole, logs)
    assert read_checkpoint(Files(), data_dir / CLEANER_OFFSET_CHECKPOINT) == cleaned | further


def test_a_note_that_is_damaged_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    whole, logs = dealt_out(tmp_path / "data", 2)
    assert logs[1].write([write(1, one("a"))]) == {}
    path = logs[1].notes_folder / RECOVERY_POINT_CHECKPOINT
    path.write_text("no checkpoint")
    whole.data_dir.close()
    with pytest.raises(LogError, match=str(path)):
        OffsetsLog.open(tmp_path / "data", PARTITIONS)
    assert (logs[1].notes_folder / JOURNAL_NAME).exists()


def test_only_one_notes_whose_the_directory_is(tmp_path: Path) -> None:
    whole, logs = dealt_out(tmp_path / "data", 2)
    for log in logs:
        log.data_dir.claim("a cluster")
    with pytest.raises(LogError, match="belongs to cluster a cluster"):
        DataDir(Files(), tmp_path / "data", None, None).claim("another")
    closed(whole, logs)


def test_commands_find_what_all_had(tmp_path: Path) -> None:
    whole, logs = dealt_out(tmp_path / "data", 2)
    for partition in range(PARTITIONS):
        assert logs[partition % 2].write([write(partition, one("a"))]) == {}
    ends = {TopicPartition("__consumer_offsets", partition): 1 for partition in range(PARTITIONS)}
    assert ends_in_journal(Files(), tmp_path / "data") == ends
    lost = after_a_power_failure(tmp_path / "data", tmp_path / "lost")
    noted = TopicPartition("__consumer_offsets", 1)
    write_checkpoint(Files(), share_folder(lost, 1) / RECOVERY_POINT_CHECKPOINT, {noted: 1})
    before = {path: path.read_bytes() for path in lost.rglob("*") if path.is_file()}
    with data_dir_to_read(lost) as (files, held):
        assert [bool(files.read_file(segment(lost, partition))) for partition in range(PARTITIONS)] == [
            partition != noted.partition for partition in range(PARTITIONS)
        ]
        assert held.recovery_points == ends
    assert {path: path.read_bytes() for path in lost.rglob("*") if path.is_file()} == before
    write_checkpoint(Files(), share_folder(lost, 1) / RECOVERY_POINT_CHECKPOINT, {})
    with data_dir_at_rest(Files(), lost) as held:
        assert all(segment(lost, partition).read_bytes() for partition in range(PARTITIONS))
        assert held.recovery_points == ends
    assert not (lost / SHARES_NAME).exists()
    closed(whole, logs)
