"""A desk with a shim that a documented command has started, and another with its backup."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from protocol.partition import partition_for
from shim.demo.parts import Broker, ZooKeeper, free_port, free_port_range
from tests.docs.desk import Desk
from tests.docs.pages import ROOT
from tests.docs.stories import BACKED_UP, RESTORED, SERVE_THE_DESK
from tests.offsets.conftest import kazoo, put

READY: Final = "offset-shim ready"
PARTITIONS: Final = 2
_LOG_PARTITIONS: Final = 5
_HOST: Final = "127.0.0.1"
_NODE_IDS: Final = 4
_TIMEOUT_S: Final = 30.0


class Surroundings(NamedTuple):
    """`connect`: of ZooKeeper, with a chroot that there is; `old` have the offset 4 there in each partition."""

    broker: Broker
    connect: str
    topic: str
    old: tuple[str, ...]
    group: str
    retired: str


@pytest.fixture(scope="module")
def surroundings(broker: Broker, zookeeper: ZooKeeper) -> Surroundings:
    mark = uuid.uuid4().hex[:8]
    made = Surroundings(
        broker,
        f"{zookeeper.connect_string}/docs-{mark}",
        f"orders-{mark}",
        tuple(f"{name}-{mark}" for name in ("billing", "ledger", "etl-group")),
        f"docs-{mark}",
        f"retired-{mark}",
    )
    with kazoo(zookeeper.connect_string) as client:
        client.ensure_path(f"/docs-{mark}")
    with kazoo(made.connect) as client:
        for group in made.old:
            for partition in range(PARTITIONS):
                put(client, f"/consumers/{group}/offsets/{made.topic}/{partition}", b"4")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(made.topic, PARTITIONS, 1)])[made.topic].result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10 * PARTITIONS):
        producer.produce(made.topic, b"x", partition=number % PARTITIONS)
    assert producer.flush(_TIMEOUT_S) == 0
    return made


def given(around: Surroundings, folder: Path, *, admin: str = "") -> dict[str, str]:
    """What stands for each placeholder."""
    listen = f"{_HOST}:{free_port_range(2 + _NODE_IDS, _HOST)}"
    servers = around.broker.bootstrap_servers
    billing, another, etl = around.old
    rest = (
        f"--bootstrap-servers {servers} --listen {listen} --data-dir {folder / 'data'} --zookeeper {around.connect} "
        f"--set group.initial.rebalance.delay.ms=0 --set offsets.topic.num.partitions={_LOG_PARTITIONS}"
    )
    return {
        "--bootstrap-servers kafka-1:9094 …": rest,
        "…": rest,
        **dict.fromkeys(("kafka-1:9092,kafka-2:9092", "kafka-1:9092"), servers),
        "10.0.0.5:19092": listen,
        "shim.example.org": "localhost",
        "zk-1:2181,zk-2:2181,zk-3:2181/old-consumers": around.connect,
        **dict.fromkeys(("127.0.0.1:9644", "0.0.0.0:9644", "shim:9644"), admin),
        "/etc/offset-shim": str(folder / "etc"),
        "/var/lib/offset-shim": str(folder / "data"),
        "billing": billing,
        "GROUP": another,
        "etl-group": etl,
        "etl-*": f"{etl[:-2]}*",
        "orders": around.topic,
    }


@pytest.fixture(scope="module")
def desk(surroundings: Surroundings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Beside a shim with ZooKeeper; `G` and `retired` have committed 6 of each partition's 10 records."""
    folder = tmp_path_factory.mktemp("desk")
    admin = f"{_HOST}:{free_port()}"
    # Where groups are named the sign for "and so on" is another.
    several = {"[G…]": surroundings.group, "G…": surroundings.retired, "retired": surroundings.retired}
    several["kafka-transactions.sh …"] = (
        f"kafka-transactions.sh --bootstrap-server {surroundings.broker.bootstrap_servers}"
    )
    own = {"G": surroundings.group, "TARGET": str(folder / "backup"), "DIR": str(folder / "data")}
    desk = Desk(folder, {**given(surroundings, folder, admin=admin), **several, **own}, admin)
    with desk.running(SERVE_THE_DESK.command, READY):
        for group in (surroundings.group, surroundings.retired):
            _commit(desk.stands_for["10.0.0.5:19092"], group, surroundings.topic)
        desk.stands_for["TIME"] = str(time.time_ns() // 1_000_000)
        yield desk


def _commit(bootstrap: str, group: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, each, 6) for each in range(PARTITIONS)], asynchronous=False)
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def at_rest(desk: Desk, surroundings: Surroundings, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Beside the backup of that shim's log, `TARGET`, which `DIR` is a copy of."""
    desk.run(BACKED_UP.command)
    folder = tmp_path_factory.mktemp("rest")
    now = time.time()
    moments = {
        "--from TIME": f"--from {_iso(now - 3600)}",
        "--to TIME": f"--to {_iso(now + 60)}",
        "--at TIME": f"--at {_iso(now + 60)}",
    }
    own = {
        "G": surroundings.group,
        "billing": surroundings.group,
        "TARGET": desk.stands_for["TARGET"],
        "DIR": str(folder / "restored"),
        **dict.fromkeys(("OUT", "state"), str(folder / "out")),
        **dict.fromkeys(("NEW", "/var/lib/offset-shim"), str(folder / "new")),
        "ANOTHER": str(folder / "another"),
        "N": str(_LOG_PARTITIONS),
        "__consumer_offsets-17": f"__consumer_offsets-{partition_for(surroundings.group, _LOG_PARTITIONS)}",
    }
    made = Desk(folder, {**moments, **given(surroundings, folder), **own})
    made.run(RESTORED.command)
    return made


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Beside the files of `deploy/`."""
    folder = tmp_path_factory.mktemp("bare")
    desk = Desk(folder, {"FILE": "offset-shim.toml"})
    for file in ("offset-shim.toml", "prometheus/alerts.yml"):
        shutil.copy(ROOT / "deploy" / file, folder)
    return desk


@pytest.fixture
def free_address() -> str:
    """At another loopback address than the tests' own, where a shim asks for nothing more either."""
    return f"127.0.0.2:{free_port('127.0.0.2')}"
