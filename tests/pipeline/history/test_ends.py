"""Where partitions of a real broker ended, by the timestamps of their records."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition

from pipeline.history.ends import EndAt, ends_at, newest_ends
from shim.demo.parts import Broker
from tests.conftest import TopicFactory

HOUR_MS = 3_600_000


@pytest.fixture
def topic(broker: Broker, make_topic: TopicFactory) -> str:
    """A record an hour, for six hours, in partition 0; the first two are deleted."""
    name = make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for hour in range(6):
        producer.produce(name, b"x", partition=0, timestamp=BEGIN + hour * HOUR_MS)
        producer.flush(30)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(name, 0, 2)]).values():
        deleted.result(30)
    return name


BEGIN = time.time_ns() // 1_000_000 - 12 * HOUR_MS


def test_ends_at_earlier_times(broker: Broker, topic: str) -> None:
    times = [BEGIN + HOUR_MS, BEGIN + 2 * HOUR_MS, BEGIN + 4 * HOUR_MS - 1, BEGIN + 9 * HOUR_MS]
    asked = [(topic, 0), (topic, 1), (topic, 7), ("no-such-topic", 0)]
    found = ends_at(broker.bootstrap_servers, {}, asked, times)
    # At the first one the record that comes next is the first that is still there: what was before it is not known.
    assert [end for end in found if end.partition == 0] == [
        EndAt(topic, 0, times[1], 3),
        EndAt(topic, 0, times[2], 4),
        EndAt(topic, 0, times[3], 6),
    ]
    assert [end for end in found if end.partition == 1] == [EndAt(topic, 1, at, 0) for at in times]
    assert newest_ends(broker.bootstrap_servers, {}, asked) == {(topic, 0): 6, (topic, 1): 0}


@pytest.mark.soak
def test_no_broker_is_told_in_one_line() -> None:
    """In a process of its own: kafka-python leaves refused sockets open."""
    program = "from pipeline.history.ends import newest_ends; newest_ends('127.0.0.1:1', {}, [('t', 0)])"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    told = [line for line in done.stderr.splitlines() if line.startswith("pipeline.errors.NotDone: ")]
    assert len(told) == 1, done.stderr
    assert told[0].startswith("pipeline.errors.NotDone: looking up end offsets at 127.0.0.1:1: ")
