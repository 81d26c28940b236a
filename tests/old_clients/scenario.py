"""What each old client goes through, at whichever cluster: it writes, and a group of it comes back to its offset.

Of a client that only writes or only reads, a modern one does the other half; and of every client it looks at what is in
the topic and what the group has committed, so that a fault that undoes itself on the way back is seen too.

What has to come out is known beforehand, but for times. So clusters that all pass have given the same.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from protocol.messages import fetch
from protocol.records.batches import read_header
from protocol.records.compression import Compression
from shim.demo.parts.metadata import ClusterView, cluster_view
from shim.demo.parts.process import spawn
from tests.old_clients.client import OldClient
from tests.waiting import wait_until
from tests.wire import WireClient

WRITTEN = 20
FIRST = 12
"""So many of them are read by the first start of a group's consumer."""

_TIMEOUT_S = 75.0  # the programs themselves give up within a minute
_TOPIC_TIMEOUT_S = 30.0
_CLOCKS_MS = 60_000
_ENOUGH_BYTES = 1 << 20
_FETCH_VERSION = 4  # the oldest that brokers still have, and with topics' names


class Failed(AssertionError):
    """A client failed: with its standard error, or what it was given that it should not have been."""


class Target(NamedTuple):
    """A cluster, or what stands in front of it. ``zookeeper``: where clients find it, and the topic of this name."""

    name: str
    bootstrap: str
    zookeeper: Callable[[str], str]


def no_zookeeper(topic: str) -> str:
    """For clients that need none."""
    raise Failed(f"nobody registers {topic}")


class Read(NamedTuple):
    offset: int
    key: str | None
    value: str | None
    timestamp: int | None


def run(client: OldClient, target: Target, codec: str, name: str) -> None:
    """All of it, once, in a topic and a group that are called ``name``. Raises Failed."""
    make_topic(target, name)
    begin = _now_ms()
    if client.produces:
        (told,) = _told(client, "produce", target.bootstrap, name, codec, name, str(WRITTEN))
        expected = list(range(WRITTEN)) if client.tells_offsets else [None] * WRITTEN
        _same("the offsets that it was told", told["offsets"] or [None] * WRITTEN, expected)
    else:
        _write(target, name, codec)
    end = _now_ms()

    wanted = _records(name, 0)
    _check(
        "in the topic", _written(target, name), wanted, begin, end, timed=client.has_timestamps or not client.produces
    )
    _same("codecs in the topic", _codecs(target, name), {codec})
    if not client.consumes:
        return
    zookeeper = target.zookeeper(name) if client.needs_zookeeper else "-"
    for which, part in (("at first", wanted[:FIRST]), ("coming back", wanted[FIRST:])):
        lines = _told(client, "consume", target.bootstrap, name, name, str(len(part)), zookeeper)
        _check(which, [Read(**line) for line in lines], part, begin, end, timed=client.has_timestamps)
        _same(f"committed, {which}", _committed(target, name), part[-1].offset + 1)


def mixed(writers: Sequence[tuple[OldClient, str]], readers: Sequence[OldClient], target: Target, name: str) -> None:
    """All of them write into one topic, each with a codec, and a modern one too; then each reads all of it. What a
    modern client finds there is what they have to find, as far as they know of it. Raises Failed."""
    make_topic(target, name)
    wanted: list[Read] = []
    for number, (client, codec) in enumerate(writers):
        prefix = f"{name}-{number}"
        _told(client, "produce", target.bootstrap, name, codec, prefix, str(WRITTEN))
        wanted += _records(prefix, len(wanted))
    _write(target, name, "gzip")
    wanted += _records(name, len(wanted))
    found = _written(target, name, len(wanted))
    _same("in the topic", [each._replace(timestamp=None) for each in found], wanted)
    for client in readers:
        zookeeper = target.zookeeper(name) if client.needs_zookeeper else "-"
        group = f"{name}-{client.name.replace(' ', '-')}"
        lines = _told(client, "consume", target.bootstrap, name, group, str(len(found)), zookeeper)
        expected = found if client.has_timestamps else wanted
        _same(f"read by {client.name}", [_known(Read(**line)) for line in lines], expected)


def _records(prefix: str, first: int) -> list[Read]:
    """Of one writer, whose first one has that offset."""
    return [Read(first + i, f"{prefix}-key-{i}", f"{prefix}-value-{i}-{'x' * 200}", None) for i in range(WRITTEN)]


def _known(read: Read) -> Read:
    """Some give -1 for a timestamp that there is not."""
    return read._replace(timestamp=None) if read.timestamp == -1 else read


def make_topic(target: Target, name: str) -> None:
    """With one partition; it has a leader on return."""
    # librdkafka asks once who the controller is: a broker that has only just started may not know.
    _wait(target, "a broker", lambda view: bool(view.brokers))
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(_TOPIC_TIMEOUT_S)
    _wait(target, f"a leader of {name}", lambda view: bool(view.leaders), name)


def _wait(target: Target, what: str, known: Callable[[ClusterView], bool], *topics: str) -> None:
    host, port = target.bootstrap.rsplit(":", 1)
    wait_until(lambda: known(cluster_view(host, int(port), topics)), f"{target.name} does not know {what}")


def _told(client: OldClient, *args: str) -> list[dict[str, Any]]:
    """What the program has printed."""
    with spawn([*client.command(), *args], stderr=subprocess.PIPE) as process:
        try:
            output, errors = process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"{client.name} {args[0]}: not done within {_TIMEOUT_S:g} s") from None
        finally:
            process.kill()
    if process.returncode:
        raise Failed(f"{client.name} {' '.join(args)}: exit status {process.returncode}\n{output}{errors}")
    return [json.loads(line) for line in output.splitlines()]


def _check(what: str, read: list[Read], wanted: list[Read], begin: int, end: int, *, timed: bool) -> None:
    _same(what, [each._replace(timestamp=None) for each in read], wanted)
    for each in read:
        if (each.timestamp is not None) != timed:
            raise Failed(f"{what}: timestamp {each.timestamp} at offset {each.offset}")
        if each.timestamp is not None and not begin - _CLOCKS_MS <= each.timestamp <= end + _CLOCKS_MS:
            raise Failed(f"{what}: timestamp {each.timestamp} at offset {each.offset}, written {begin} to {end}")


def _same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise Failed(f"{what}: {got!r}\nnot {wanted!r}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _codecs(target: Target, name: str) -> set[str]:
    """Those of its batches: a codec that a client was not told in its own way, it leaves out without a word."""
    host, port = target.bootstrap.rsplit(":", 1)
    view = cluster_view(host, int(port), (name,))
    (leader,) = view.leaders.values()
    partition = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=_ENOUGH_BYTES)
    request = fetch.FetchRequest(topics=(fetch.FetchTopic(name, partitions=(partition,)),))
    host, port_of_leader = view.brokers[leader]
    with WireClient(port_of_leader, host) as wire:
        ((_, _, (found,), _),) = wire.ask(fetch.API, _FETCH_VERSION, request).responses
    batches: bytes = found.records or b""
    codecs, position = set(), 0
    while position < len(batches):
        header = read_header(batches, position)
        codecs.add(Compression(header.compression).name.lower())
        position += header.size
    return codecs


# --- the modern client ------------------------------------------------------------------------------------------------


def _write(target: Target, name: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": target.bootstrap, "compression.type": codec, "linger.ms": 50})
    for i in range(WRITTEN):
        producer.produce(name, key=f"{name}-key-{i}", value=f"{name}-value-{i}-{'x' * 200}", partition=0)
    _same("records that a modern producer could not write", producer.flush(_TOPIC_TIMEOUT_S), 0)


def _written(target: Target, name: str, count: int = WRITTEN) -> list[Read]:
    consumer = _consumer(target, f"{name}-looks-on")
    found: list[Read] = []
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        deadline = time.monotonic() + _TOPIC_TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline:
            for record in consumer.consume(count - len(found), 0.2):
                if record.error() is not None:
                    raise Failed(f"a modern consumer: {record.error()}")
                kind, timestamp = record.timestamp()
                has = kind != TIMESTAMP_NOT_AVAILABLE and timestamp >= 0
                key, value = (record.key() or b"").decode(), (record.value() or b"").decode()
                found.append(Read(record.offset() or 0, key, value, timestamp if has else None))
    finally:
        consumer.close()
    return found


def _committed(target: Target, name: str) -> int | None:
    consumer = _consumer(target, name)
    try:
        (found,) = consumer.committed([TopicPartition(name, 0)], _TOPIC_TIMEOUT_S)
        return found.offset
    finally:
        consumer.close()


def _consumer(target: Target, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": target.bootstrap, "group.id": group, "enable.auto.commit": False})
