"""A real Prometheus reads `/metrics`: what the dashboard asks for is there, and the alert rules can be judged."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.cimpl import TopicPartition

from protocol.messages import heartbeat
from shim.demo.parts import Broker, ZooKeeper, free_port
from tests.conftest import TopicFactory
from tests.serve.prometheus_server import DEPLOY, Prometheus, prometheus
from tests.serve.scraped import until
from tests.serve.test_connections import commit
from tests.shim_process import Shim
from tests.wire import WireClient

_VARIABLES: Final = {"$instance": ".*", "$group": ".*", "$__rate_interval": "5s"}
"""As Grafana has them with nothing chosen; the interval is at least four scrapes."""

_PAUSE_S: Final = 0.1


class Query(NamedTuple):
    panel: str
    text: str
    now: bool
    """Of this moment, not of a time."""


def dashboard_queries() -> list[Query]:
    dashboard = json.loads((DEPLOY / "grafana" / "offset-shim.json").read_text())
    return [
        Query(panel["title"], _replaced(target["expr"]), bool(target.get("instant")))
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]


def _replaced(query: str) -> str:
    for name, value in _VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


def variables() -> list[tuple[str, str]]:
    """Metric and label of each `label_values` that fills one of the dashboard's lists."""
    dashboard = json.loads((DEPLOY / "grafana" / "offset-shim.json").read_text())
    asked = [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    found = [re.fullmatch(r"label_values\((\w+), (\w+)\)", each) for each in asked]
    return [(match[1], match[2]) for match in found if match]


@contextmanager
def at_work(shim: Shim, group: str) -> Iterator[None]:
    """Somebody commits all the time, is wrong at times, and sends what is no request."""
    stop = threading.Event()

    def work() -> None:
        with WireClient(shim.broker_port(1)) as client:
            offset = 0
            while not stop.wait(_PAUSE_S):
                commit(client, group, offset)
                client.ask(heartbeat.API, 3, heartbeat.HeartbeatRequest(group, 1, "nobody"))
                with WireClient(shim.port) as other:
                    other.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    assert other.ended()
                offset += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def falls_behind(shim: Shim, group: str, topic: str) -> Consumer:
    """A member of a group of today that has read half of what there is. To be closed."""
    producer = Producer({"bootstrap.servers": shim.bootstrap})
    for number in range(20):
        producer.produce(topic, b"x", partition=number % 2)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": shim.bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(20, timeout=30)) == 20
    consumer.commit(offsets=[TopicPartition(topic, each, 5) for each in (0, 1)], asynchronous=False)
    return consumer


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus on the path")
def test_the_dashboard_and_the_alert_rules(
    broker: Broker,
    zookeeper: ZooKeeper,
    tmp_path: Path,
    topic_t: str,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
) -> None:
    admin = f"127.0.0.1:{free_port()}"
    args = ["--admin", admin, "--zookeeper", zookeeper.connect_string]
    settings = {"offsets.topic.num.partitions": 3, "metrics.lag.interval.ms": 1000}
    group = fresh_name()
    with (
        Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings, args=args) as shim,
        prometheus(tmp_path / "prometheus", admin) as server,
    ):
        consumer = falls_behind(shim, group, make_topic(2))
        try:
            with at_work(shim, fresh_name()):
                until(lambda: [each["health"] for each in server.targets()] == ["up"])
                answered_with_data(server)
                assert group in server.ask("label/group/values", **{"match[]": "offset_shim_group_lag"})
        finally:
            consumer.close()
        all_is_well(server)
        shim.stop()
        # Nothing stands there any more, and Prometheus says so; `for` keeps it from being told at once.
        until(lambda: server.rules()["OffsetShimGone"]["state"] == "pending")


def answered_with_data(server: Prometheus) -> None:
    """Each query: this shim has ZooKeeper, members, lag, old clients and errors, so none may be left out."""
    queries, lists = dashboard_queries(), variables()
    assert (len(queries) > 30, len(lists)) == (True, 2)
    for metric, label in lists:
        until(partial(server.ask, f"label/{label}/values", **{"match[]": metric}))
    for query in queries:
        has_data(server, query)


def has_data(server: Prometheus, query: Query) -> None:
    until(partial(server.values, query.text, now=query.now))


def all_is_well(server: Prometheus) -> None:
    """Every rule that is shipped has been judged, and none has anything to tell."""
    shipped = set(re.findall(r"alert: (\w+)", (DEPLOY / "prometheus" / "alerts.yml").read_text()))
    assert len(shipped) > 10
    until(lambda: {name for name, rule in server.rules().items() if rule["health"] == "ok"} == shipped)
    until(lambda: {rule["state"] for rule in server.rules().values()} == {"inactive"})
    assert [rule["lastError"] for rule in server.rules().values() if "lastError" in rule] == []
