"""A real broker's cleaner and ours, on the same segments: the same bytes come out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from protocol.records.batches import batches, encode_batch
from shim.demo.parts import Broker
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT
from shim.log.disk.layout import segment_name
from tests.log.cleaner.folder import NOW, Folder, Pair, cleaner
from tests.waiting import wait_until

RETENTION_MS = 3_600_000
TOPICS = {"sparse": 3000, "dense": 100}
"""Topic to how many keys are in it."""


def segments(keys: int) -> dict[str, bytes]:
    """Five segments of batches of different sizes, a seventh of the records tombstones; the last one is active."""
    rng = random.Random(keys)
    found: dict[str, bytes] = {}
    offset = 0
    for segment in range(5):
        base_offset, log = offset, b""
        for i in range(150):
            records = [
                Pair(b"key-%d" % rng.randrange(keys), None if rng.random() < 1 / 7 else b"v" * rng.randrange(30))
                for _ in range(rng.randrange(1, 6))
            ]
            log += encode_batch(offset, records, NOW + 1000 * segment + i)
            offset += len(records)
        found[segment_name(base_offset)] = log
    return found


@pytest.fixture(scope="module")
def cleaned_by_kafka(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """By topic, the first segment after a round of the broker's cleaner, which has put all closed ones into it."""
    broker = Broker(tmp_path_factory.mktemp("broker"), properties={"log.cleaner.backoff.ms": 100})
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(RETENTION_MS),
    }
    folders = {topic: broker.data / f"{topic}-0" for topic in TOPICS}
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        made = admin.create_topics([NewTopic(topic, 1, 1, config=compacted) for topic in TOPICS])
        for topic in TOPICS:
            made[topic].result()
        wait_until(
            lambda: all((folder / "partition.metadata").exists() for folder in folders.values()),
            "the broker has not made the topics",
        )
        broker.stop()
        # As if it had been killed: it looks at what is there, and rebuilds the rest.
        for path in [*broker.data.glob("*-checkpoint"), broker.data / ".kafka_cleanshutdown"]:
            path.unlink(missing_ok=True)
        for topic, folder in folders.items():
            for path in folder.iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            for name, log in segments(TOPICS[topic]).items():
                (folder / name).write_bytes(log)
        broker.start()
        wait_until(
            lambda: all(_was_cleaned(broker.data, topic) for topic in TOPICS), "the broker's cleaner has not come round"
        )
        return {topic: (folder / segment_name(0)).read_bytes() for topic, folder in folders.items()}


def _was_cleaned(data: Path, topic: str) -> bool:
    path = data / CLEANER_OFFSET_CHECKPOINT  # empty at first, which we never write
    return path.exists() and f"{topic} 0 " in path.read_text()


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_bytes_are_left(cleaned_by_kafka: dict[str, bytes], topic: str, tmp_path: Path) -> None:
    theirs = cleaned_by_kafka[topic]
    folder = Folder(tmp_path)
    for name, log in segments(TOPICS[topic]).items():
        (folder.folder / name).write_bytes(log)
    horizons = {header.delete_horizon for _, header in batches(theirs)} - {None}
    (horizon,) = horizons  # one round, at one time
    assert horizon is not None
    settings = CleanerSettings(min_cleanable_ratio=0.0, delete_retention_ms=RETENTION_MS)
    stats = cleaner(folder, settings).step(horizon - RETENTION_MS)
    assert stats is not None
    assert stats.segments_written == 1
    assert 0 < stats.records_written < stats.records_read
    assert (folder.folder / segment_name(0)).read_bytes() == theirs
