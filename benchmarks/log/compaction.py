"""Compaction: MB and records a second, and what it costs the thread that serves.

`python -m benchmarks.log compaction` from the root of the repository: about two minutes. `--directory`: on which disk.

Each log holds `--records` commits to `--keys` keys, evenly spread, so nearly all of them are superseded. In the first
lines each record of a batch is of any group, in the next ones all of a batch are of one group and topic, as a commit of
several partitions is; the last line is a log that was compacted before, of which as much again is dirty. A record is
read for the offset map, and again to be cleaned where anything is left near it, and counts once; MB are those of the
closed segments. Seconds include the syncs and the waits in which the cleaner gives way to other threads; those of CPU
do not.

The second table is of a thread that sleeps for a millisecond, over and over, as one that waits for requests and disk
does: how much later than that it runs on, without a cleaner and with one at work.
"""

import argparse
import random
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final

from protocol.commit_rows import CommitRows
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, commit_runs, encode_key, encode_value
from protocol.own.record_sets import Runs
from shim.log import OffsetsLog, PartitionWrite
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats
from shim.log.settings import LogSettings

ROW: Final = Struct(">iqi")
NOW_MS: Final = 1_760_000_000_000
ALWAYS: Final = CleanerSettings(min_cleanable_ratio=0.0)
PER_BATCH: Final = (1, 10, 100, 1000)
PER_COMMIT: Final = (8, 100)
PARTITIONS: Final = 100  # of a topic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--directory", type=Path)
    args = parser.parse_args()
    columns = f"{'MB':>8}{'seconds':>9}{'of CPU':>8}{'MB/s':>8}{'records/s':>12}{'MB left':>9}{'map MB':>8}"
    print(f"{'records a batch':<18}{columns}")
    for per_batch in PER_BATCH:
        with _log(args.directory, args.records, args.keys, per_batch) as log:
            _show(str(per_batch), *_cleaned(log))
    for per_commit in PER_COMMIT:
        with _log(args.directory, args.records, args.keys, per_commit, of_one_group=True) as log:
            _show(f"{per_commit}, of one group", *_cleaned(log))
    with _log(args.directory, args.records, args.records // 2, 10) as log:
        _cleaned(log)
        _fill(log, args.records, args.records // 2, 10)
        _show("10, half is clean", *_cleaned(log))
    print(f"\nresident memory at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB\n")
    print(f"{'late by, ms':<18}{'median':>8}{'95 %':>8}{'99 %':>8}{'at most':>9}")
    _show_lateness("no cleaner", _lateness(lambda: time.sleep(3)))
    with _log(args.directory, args.records, args.keys, 1) as log:
        _show_lateness("a cleaner at work", _lateness(lambda: _cleaned(log)))


@contextmanager
def _log(
    directory: Path | None, records: int, keys: int, per_batch: int, *, of_one_group: bool = False
) -> Iterator[OffsetsLog]:
    with tempfile.TemporaryDirectory(dir=directory) as data_dir:
        # Not flushed on each write: it is not the writing that is measured.
        settings = LogSettings(segment_bytes=records * 10, flush_interval_messages=1 << 30)
        log = OffsetsLog.open(Path(data_dir), 1, settings=settings)
        try:
            assert not list(log.recover(0))
            (_fill_by_group if of_one_group else _fill)(log, records, keys, per_batch)
            yield log
        finally:
            log.close()


def _fill(log: OffsetsLog, records: int, keys: int, per_batch: int) -> None:
    rng = random.Random(1)
    names = [encode_key(OffsetCommitKey(f"group-{i // 100}", f"topic-{i % 10}", i % 100)) for i in range(keys)]
    for start in range(0, records, per_batch):
        value = encode_value(OffsetCommitValue(start, 3, "", NOW_MS))
        record_set = [(rng.choice(names), value) for _ in range(per_batch)]
        assert not log.write([PartitionWrite(0, [record_set], NOW_MS)])


def _fill_by_group(log: OffsetsLog, records: int, keys: int, per_batch: int) -> None:
    rng = random.Random(1)
    for start in range(0, records, per_batch):
        group = f"group-{rng.randrange(keys // PARTITIONS)}"
        first = rng.randrange(PARTITIONS - per_batch + 1)
        rows = b"".join(ROW.pack(partition, start, 3) for partition in range(first, first + per_batch))
        runs = commit_runs(group, "topic-1", CommitRows(rows, ROW.size, per_batch, ""), NOW_MS)
        assert not log.write([PartitionWrite(0, [Runs(runs, per_batch)], NOW_MS)])


def _cleaned(log: OffsetsLog) -> tuple[int, float, CleanerStats]:
    """Bytes of the closed segments before, seconds of CPU, and what the round did."""
    partition = log.partition_log(0)
    size = sum(segment.size for segment in partition.closed_segments())
    begun = time.thread_time()
    stats = Cleaner(partition.folder.parent, [partition], ALWAYS).step(NOW_MS)
    assert stats is not None
    return size, time.thread_time() - begun, stats


def _show(name: str, size: int, cpu: float, stats: CleanerStats) -> None:
    print(
        f"{name:<18}{size / 1e6:>8.1f}{stats.seconds:>9.2f}{cpu:>8.2f}{size / 1e6 / stats.seconds:>8.1f}"
        f"{stats.records_read / stats.seconds:>12,.0f}{stats.bytes_written / 1e6:>9.1f}{stats.map_bytes / 1e6:>8.1f}"
    )


def _lateness(work: Callable[[], object]) -> list[float]:
    """Seconds by which each sleep of a millisecond was longer, rising, while another thread does this work."""
    worker = threading.Thread(target=work)
    late = []
    worker.start()
    while worker.is_alive():
        begun = time.perf_counter()
        time.sleep(0.001)
        late.append(time.perf_counter() - begun - 0.001)
    return sorted(late)


def _show_lateness(name: str, late: list[float]) -> None:
    shown = "".join(f"{late[int(len(late) * part)] * 1e3:>8.2f}" for part in (0.5, 0.95, 0.99))
    print(f"{name:<18}{shown}{late[-1] * 1e3:>9.2f}")


if __name__ == "__main__":
    main()
