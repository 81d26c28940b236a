"""How long a partition takes to load: from a snapshot and the log behind it, by plain replay, and in a real broker.

One partition holds all: groups with offsets for 160 topics of 100 partitions each, without metadata, one commit a
topic; after the snapshot, a hundredth of them is committed once more. The broker is given the same segments as its
`__consumer_offsets-0`, and its own word is taken for how long it loads them.
"""

import argparse
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.disk_log import open_log
from shim.disk_log.loading import Loader
from shim.log import OffsetsLog, PartitionWrite

TOPICS: Final = 160
PARTITIONS: Final = 100
COMMITS_A_WRITE: Final = 20
SETTINGS: Final = Settings(offsets_topic_num_partitions=1, offsets_history_retention_minutes=0)
BROKER_HEAP_MB: Final = 4096
BROKER_TIMEOUT_S: Final = 300.0
FINISHED: Final = re.compile(r"Finished loading of metadata from __consumer_offsets-0 .*? in (\d+) ?ms.* Loaded (\d+)")

RecordSet = list[tuple[bytes, bytes | None]]


class Took(NamedTuple):
    seconds: float
    replayed: int
    entries: int


def commits(groups: int) -> Iterator[RecordSet]:
    now = time.time_ns() // 1_000_000
    value = 0
    for group in range(groups):
        for topic in range(TOPICS):
            records: RecordSet = []
            for partition in range(PARTITIONS):
                value += 1
                key = OffsetCommitKey(f"billing-invoices-{group}", f"orders-by-customer-{topic}", partition)
                records.append((encode_key(key), encode_value(OffsetCommitValue(10_000_000 + value, 12, "", now))))
            yield records


def append(log: OffsetsLog, record_sets: Iterator[RecordSet], most: int) -> int:
    now = time.time_ns() // 1_000_000
    written = 0
    waiting: list[RecordSet] = []
    for record_set in record_sets:
        waiting.append(record_set)
        written += len(record_set)
        if len(waiting) == COMMITS_A_WRITE or written >= most:
            assert log.write([PartitionWrite(0, waiting, now)]) == {}
            waiting = []
        if written >= most:
            return written
    if waiting:
        assert log.write([PartitionWrite(0, waiting, now)]) == {}
    return written


def loaded(data_dir: Path) -> tuple[Took, GroupCoordinator, OffsetsLog]:
    log = open_log(data_dir, SETTINGS)
    loader = Loader(log, CoordinatorSettings.of(SETTINGS), lambda: False)
    begun = time.perf_counter()
    coordinator, replayed, *_ = loader.load(0)
    took = Took(time.perf_counter() - begun, replayed, coordinator.offset_count)
    return took, coordinator, log


def timed(data_dir: Path, then: Callable[[GroupCoordinator, OffsetsLog], None] = lambda *_: None) -> Took:
    took, coordinator, log = loaded(data_dir)
    then(coordinator, log)
    log.close()
    return took


def broker_seconds(folder: Path, segments: list[Path]) -> float | None:
    """None where there is no Java runtime to run a broker."""
    from shim.demo.parts import Broker, PartsUnavailable

    try:
        with Broker(folder, heap_mb=BROKER_HEAP_MB, properties={"offsets.topic.num.partitions": 1}) as broker:
            _have_offsets_topic(broker.bootstrap_servers)
    except PartsUnavailable as error:
        print(f"no broker: {error}")
        return None
    place = folder / "data" / "__consumer_offsets-0"
    for path in place.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot", ".checkpoint") or "leader-epoch" in path.name:
            path.unlink()
    for segment in segments:
        shutil.copyfile(segment, place / segment.name)
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
        (folder / "data" / name).unlink(missing_ok=True)
    broker.start()
    try:
        until = time.monotonic() + BROKER_TIMEOUT_S
        told = ""
        while time.monotonic() < until:
            told = broker.log.read_text(errors="replace")
            found = [(int(ms), int(records)) for ms, records in FINISHED.findall(told)]
            if found and found[-1][1] > 1000:
                return found[-1][0] / 1000
            time.sleep(0.2)
        raise TimeoutError(f"the broker has not said that it is done:\n{told[-3000:]}")
    finally:
        broker.stop()


def _have_offsets_topic(bootstrap: str) -> None:
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("t", 1, 1)]).values():
        made.result()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()


def measure(directory: Path | None, entries: int, with_broker: bool) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        data_dir = Path(folder) / "data"
        log = open_log(data_dir, SETTINGS)
        list(log.recover(0))
        groups = max(1, entries // TOPICS // PARTITIONS)
        append(log, commits(groups), entries)
        log.close()

        def snapshot(coordinator: GroupCoordinator, log: OffsetsLog) -> None:
            place = log.partition_log(0)
            assert place.last_batch is not None
            place.snapshots.take(place.last_batch, [coordinator.dump()])
            append(log, commits(groups), entries // 100)

        plain = timed(data_dir, snapshot)
        (path,) = (data_dir / "__consumer_offsets-0").glob("*.snapshot")
        snapshot_bytes = path.stat().st_size
        from_snapshot = timed(data_dir)
        assert (plain.entries, from_snapshot.entries) == (groups * TOPICS * PARTITIONS,) * 2
        segments = sorted((data_dir / "__consumer_offsets-0").glob("*.log"))
        size = sum(segment.stat().st_size for segment in segments)
        broker = broker_seconds(Path(folder) / "broker", segments) if with_broker else None
        print(
            f"{plain.entries:,} entries: {plain.replayed:,} records, {size / 1e6:,.0f} MB in {len(segments)} segments"
        )
        beside = "" if broker is None else f", {from_snapshot.seconds / broker:.2f} of the broker's time"
        tail = f"{snapshot_bytes / 1e6:,.0f} MB and {from_snapshot.replayed:,} records behind it"
        print(f"  from a snapshot  {from_snapshot.seconds:8.2f} s{beside} ({tail})")
        beside = "" if broker is None else f", {plain.seconds / broker:.2f} of the broker's time"
        rate = f"{plain.replayed / plain.seconds:,.0f} records a second"
        print(f"  plain replay     {plain.seconds:8.2f} s{beside} ({rate})")
        if broker is not None:
            print(f"  broker           {broker:8.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000_000, 16_000_000])
    parser.add_argument("--no-broker", action="store_true")
    args = parser.parse_args()
    for entries in args.entries:
        measure(args.directory, entries, not args.no_broker)
