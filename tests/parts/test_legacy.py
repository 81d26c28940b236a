"""Brokers from before KRaft, over their ends and returns."""

import re
import time
from pathlib import Path

import psutil
import pytest

from protocol.messages import fetch
from protocol.records.message_sets import decode_message_set, encode_message_set
from shim.demo.parts import StartFailed
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, LegacyBroker
from tests.protocol_live.place import Place, some_records


def _consume(broker: LegacyBroker, topic: str) -> list[bytes | None]:
    partition = fetch.FetchPartition(0, partition_max_bytes=10_000)
    # A broker that has started may not have its high watermark again yet: this waits for it.
    topics = (fetch.FetchTopic(topic, partitions=(partition,)),)
    request = fetch.FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=topics)

    def error_of(answer: fetch.FetchResponse) -> int:
        return answer.responses[0].partitions[0].error_code

    with Place(broker.port, broker.release) as place:
        # A broker that has started need not lead its partitions yet.
        (found,) = place.ask_until(fetch.API, 0, request, error_of).responses[0].partitions
    return [record.value for record in decode_message_set(found.records or b"").records]


@pytest.mark.parametrize("release", [KAFKA_0_8, pytest.param(KAFKA_0_10, marks=pytest.mark.soak)])
def test_killed_and_started_again_it_has_its_ports_and_its_records(tmp_path: Path, release: str) -> None:
    records = some_records(0)
    with LegacyBroker(tmp_path, release) as broker:
        with Place(broker.port, release) as place:
            topic = place.new_topic()
            assert place.send(topic, 0, encode_message_set(records, 0)) == 0
        first, addresses = {broker.pid, broker.zookeeper.pid}, (broker.address, broker.zookeeper.address)
        broker.kill()
        assert not any(psutil.pid_exists(pid) for pid in first)
        broker.start()
        assert first.isdisjoint({broker.pid, broker.zookeeper.pid})
        assert (broker.address, broker.zookeeper.address) == addresses
        assert _consume(broker, topic) == [record.value for record in records]
        broker.restart()
        assert _consume(broker, topic) == [record.value for record in records]
    assert not broker.running
    assert not broker.zookeeper.running


def test_records_are_never_too_old(tmp_path: Path) -> None:
    """The log says what a topic gets; the first round of deletion would be 30 s away."""
    with LegacyBroker(tmp_path, KAFKA_0_10) as broker, Place(broker.port, broker.release) as place:
        topic = place.new_topic()
    created = rf"Created log for partition \[{topic},0\].* retention\.ms -> (-?\d+)"
    (retention_ms,) = re.findall(created, broker.log.read_text())
    assert int(retention_ms) > time.time_ns() // 1_000_000, "what is of 1970 is too old"


def test_a_failed_start_shows_the_log_and_leaves_nothing_running(tmp_path: Path) -> None:
    broker = LegacyBroker(tmp_path, KAFKA_0_10, properties={"num.io.threads": "several"})
    with pytest.raises(StartFailed, match=rf"(?s)the kafka-0\.10\.2\.2 broker at {broker.address}: ended.*several"):
        broker.start()
    assert not broker.running
    assert not broker.zookeeper.running
