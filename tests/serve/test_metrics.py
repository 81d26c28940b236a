"""`/metrics`, `/livez` and `/readyz` of a real shim before a real broker, with real clients."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.cimpl import TopicPartition

from protocol.messages import heartbeat, metadata, offset_commit, offset_fetch
from shim.demo.parts import Broker, free_port
from shim.metrics import families
from tests.conftest import TopicFactory
from tests.serve.scraped import AdminPort, until
from tests.serve.test_connections import commit, commit_request, committed
from tests.shim_process import Shim
from tests.wire import WireClient

SECRETS = {
    "upstream.sasl.username": "the-shim",
    "upstream.sasl.password": "geheim-1f2e",
    "ssl.key.password": "geheim-3d4c",
    "upstream.ssl.key.password": "geheim-5b6a",
    "zookeeper.username": "the-shim",
    "zookeeper.password": "geheim-7988",
}


@pytest.fixture
def admin() -> AdminPort:
    return AdminPort(f"127.0.0.1:{free_port()}")


@pytest.fixture
def shim(broker: Broker, tmp_path: Path, admin: AdminPort, topic_t: str) -> Iterator[Shim]:
    settings: dict[str, str | int]
    settings = {"metrics.lag.interval.ms": 1000, "offsets.topic.num.partitions": 3, **SECRETS}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings, args=["--admin", admin.address]) as shim:
        yield shim


def test_commits_are_counted_one_by_one(shim: Shim, admin: AdminPort, fresh_name: Callable[[], str]) -> None:
    group = fresh_name()
    with WireClient(shim.broker_port(1)) as client:
        for offset in range(7):
            commit(client, group, offset)
        assert committed(client, group) == 6
        found = admin.scrape()
        assert found.value("connections") == 1
    assert found.value("requests_total", api="OffsetCommit", version="8", treatment="served") == 7
    assert found.value("requests_total", api="OffsetFetch", version="6", treatment="served") == 1
    assert found.value("offsets_committed_total") == 7
    assert found.value("request_latency_seconds_count", api="OffsetCommit") == 7
    assert found.value("request_latency_seconds_sum", api="OffsetCommit") > 0
    assert found.value("log_flush_records_sum") == 7  # a simple group has no record of its own
    assert found.value("log_flush_records_bucket", le="1.0") >= 7
    assert found.value("log_flush_latency_seconds_count") == found.value("log_flush_records_count")
    assert found.value("offsets") == 1
    assert found.value("groups", state="Empty") == 1
    assert found.value("migration_groups", hands="served", step="kafka") == 1
    assert found.value("partitions", state="loaded") == 3
    assert found.value("connections_created_total") == 1
    assert found.value("client_bytes_total", direction="in") > 0
    assert found.value("client_bytes_total", direction="out") > 0
    assert found.value("log_size_bytes") > 0
    assert found.value("unnamed_client_oldest_version", api="OffsetCommit") == 8
    assert found.labels("request_errors_total") == []


def test_commits_that_come_together(shim: Shim, admin: AdminPort, fresh_name: Callable[[], str]) -> None:
    """They are one to the log, and as many as there are to whoever counts."""
    group = fresh_name()
    with WireClient(shim.broker_port(1)) as client:
        commit(client, group, 1)
        before = admin.scrape()
        frames = [offset_commit.API.request_frame(8, n, "wire", commit_request(group, n)) for n in range(30)]
        client.socket.sendall(b"".join(frames))
        for _ in frames:
            client.receive_frame()
        fetches = [
            offset_fetch.API.request_frame(6, n, "wire", offset_fetch.OffsetFetchRequest(group, ())) for n in range(9)
        ]
        client.socket.sendall(b"".join(fetches))
        for _ in fetches:
            client.receive_frame()
    after = admin.scrape()
    assert after.value("offsets_committed_total") - before.value("offsets_committed_total") == 30
    commits = {"api": "OffsetCommit", "version": "8", "treatment": "served"}
    assert after.value("requests_total", **commits) - before.value("requests_total", **commits) == 30
    assert after.value("requests_total", **commits | {"api": "OffsetFetch", "version": "6"}) == 9
    assert after.value("request_latency_seconds_count", api="OffsetCommit") == 31
    assert after.value("request_latency_seconds_count", api="OffsetFetch") == 9
    flushes = after.value("log_flush_records_count") - before.value("log_flush_records_count")
    assert 1 <= flushes <= 30


def test_errors_old_clients_and_what_is_forwarded(shim: Shim, admin: AdminPort, group: str) -> None:
    with WireClient(shim.broker_port(1)) as client:
        commit(client, group, 1)
        client.ask(heartbeat.API, 3, heartbeat.HeartbeatRequest(group, 1, "nobody"))
        client.ask(metadata.API, 1, metadata.MetadataRequest(topics=()))
        client.ask(metadata.API, 7, metadata.MetadataRequest(topics=()))
    with WireClient(shim.port) as client:
        client.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.ended()
    found = admin.scrape()
    assert found.value("request_errors_total", api="Heartbeat", error="UNKNOWN_MEMBER_ID") == 1
    assert found.value("requests_total", api="Metadata", version="1", treatment="rewritten") == 1
    assert found.value("unnamed_client_oldest_version", api="Metadata") == 1
    assert found.value("unnamed_client_newest_version", api="Metadata") == 7
    assert found.value("malformed_requests_total") == 1
    assert found.value("broker_bytes_total", direction="in") > 0
    assert found.value("broker_bytes_total", direction="out") > 0


def test_a_group_with_members_and_its_lag(
    shim: Shim, admin: AdminPort, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(2), fresh_name()
    producer = Producer({"bootstrap.servers": shim.bootstrap})
    for number in range(20):
        producer.produce(topic, b"x", partition=number % 2)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": shim.bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        assert len(consumer.consume(20, timeout=30)) == 20
        consumer.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 10)], asynchronous=False)
        found = admin.scrape()
        producer.produce(topic, b"x", partition=1)
        assert producer.flush(30) == 0
        # The brokers are asked again when what they have said is a second old.
        until(lambda: admin.scrape().value("group_lag", group=group, topic=topic, partition="1") == 1)
    finally:
        consumer.close()
    assert found.value("group_lag", group=group, topic=topic, partition="0") == 6
    assert found.value("group_lag", group=group, topic=topic, partition="1") == 0
    assert found.value("group_lag_left_out") == found.value("group_lag_unknown") == 0
    assert found.value("group_lag_age_seconds") >= 0
    assert found.value("groups", state="Stable") == 1
    assert found.value("group_members") == 1
    assert found.value("rebalances_total") >= 1
    assert found.value("offsets_committed_total") == 2
    assert {each["software"] for each in found.labels("client_software_connections_total")} == {
        "confluent-kafka-python"
    }
    assert found.value("store_lagging_groups", store="upstream") >= 0
    assert [found.value("alarmed_groups", alarm=kind) for kind in ("members", "commits", "kept")] == [0, 0, 0]
    assert {each["treatment"] for each in found.labels("requests_total")} >= {"served", "forwarded", "rewritten"}
    assert found.labels("forwarding_failures_total") == [], "there is nobody else"


def test_no_more_series_of_lag_than_asked_for(
    broker: Broker, tmp_path: Path, admin: AdminPort, topic_t: str, fresh_name: Callable[[], str]
) -> None:
    settings = {"metrics.lag.max.series": 2, "offsets.topic.num.partitions": 2}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings, args=["--admin", admin.address]) as shim:
        with WireClient(shim.broker_port(1)) as client:
            for _ in range(5):
                commit(client, fresh_name(), 0)
        found, again = admin.scrape(), admin.scrape()
    assert len(found.labels("group_lag")) == 2
    assert found.labels("group_lag") == again.labels("group_lag")
    assert found.value("group_lag_left_out") == 3


def test_all_metrics_and_no_secrets(shim: Shim, admin: AdminPort) -> None:
    found = admin.scrape()
    assert list(found.families) == [
        metric.full_name.removesuffix("_total") if metric.kind == "counter" else metric.full_name
        for metric in families.ALL
    ]
    assert found.value("ready") == found.value("upstream_reachable") == found.value("upstream_brokers") == 1
    told = found.text + admin.get("/readyz")[1] + admin.get("/livez")[1]
    assert not [name for name, value in SECRETS.items() if name.endswith("password") and value in told]
    assert "geheim" not in shim.log()
    assert admin.document("/readyz") == (200, {"ready": True, "missing": []})
    _read_by_promtool(found.text)


def _read_by_promtool(text: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is not None:
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_asked_while_it_starts(tmp_path: Path, admin: AdminPort) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    starting = Shim(nobody, tmp_path / "data", args=["--admin", admin.address])
    starting.launch()
    try:
        until(lambda: admin.get("/livez")[0] == 200)
        unreached = "no broker of the cluster can be reached yet"
        missing = until(lambda: unreached in (told := admin.document("/readyz")[1]["missing"]) and told)
        assert "the start is not over yet" in missing
        assert admin.get("/readyz")[0] == 503
        assert admin.scrape().value("ready") == 0
        assert admin.scrape().value("upstream_reachable") == 0
        status, document = admin.document("/v1/groups")
        assert status == 503
        assert document["error"].startswith(f"the shim starts: no broker of the cluster can be reached: {nobody}: ")
    finally:
        assert starting.stop() == 0
    assert "Traceback" not in starting.log()
