"""Three shims as the examples have them, without containers: with the very arguments of docker-compose.yml and of the
Kubernetes example, where each name and address is one of the loopback addresses of this machine. Each has some of the
groups, and another one has them when it is stopped."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from shim.config import HostPort
from shim.demo.parts import Cluster
from shim.demo.parts.process import Child
from tests.cluster.asking import cluster_metadata
from tests.cluster.rolling_load import committed
from tests.conftest import TopicFactory
from tests.packaging.files import DEPLOY, compose, yaml_documents
from tests.waiting import wait_until

GROUPS: Final = tuple(f"group-{number}" for number in range(12))
SHIMS: Final = 3
_WITHIN_S: Final = 60.0
_ADMIN_PORT: Final = 9644
_NETWORK: Final = f"127.{64 + os.getpid() % 128}.{os.getpid() // 128 % 256}"
"""Nobody else's, as long as their process ids differ: the examples say at which ports the shims are."""


class Example(NamedTuple):
    """``commands``: as each of them is started, without what the image sets. ``ports``: theirs, of bootstrap.
    ``brokers``: how it calls them, ``host:port``, in the order of the node ids of those that are here."""

    commands: list[list[str]]
    ports: list[int]
    brokers: list[str]


def in_compose(_: Path) -> Example:
    commands = [compose()["services"][f"shim-{number}"]["command"] for number in (1, 2, 3)]
    return Example(commands, [19292, 19392, 19492], [f"kafka-{number}:9092" for number in (1, 2, 3)])


def in_kubernetes(folder: Path) -> Example:
    documents = yaml_documents(DEPLOY / "kubernetes" / "three-shims.yaml")
    (settings,) = (each["data"]["offset-shim.toml"] for each in documents if each["kind"] == "ConfigMap")
    (pod,) = (each["spec"]["template"]["spec"] for each in documents if each["kind"] == "StatefulSet")
    (folder / "offset-shim.toml").write_text(settings)
    arguments = [
        each.replace("/etc/offset-shim/offset-shim.toml", "offset-shim.toml") for each in pod["containers"][0]["args"]
    ]
    commands = [[each.replace("$(POD_NAME)", f"offset-shim-{number}") for each in arguments] for number in range(SHIMS)]
    return Example(commands, [19092] * SHIMS, [f"kafka-{number}.kafka:9092" for number in range(SHIMS)])


class Deployed:
    """The shims, as processes here."""

    def __init__(self, example: Example, cluster: Cluster, folder: Path) -> None:
        self._example = example
        self._cluster = cluster
        self._folder = folder
        self._running: dict[int, Child] = {}

    def address(self, place: int) -> HostPort:
        return HostPort(f"{_NETWORK}.{place + 1}", self._example.ports[place])

    def start(self, place: int) -> None:
        data, log = self._folder / f"data-{place}", self._folder / f"log-{place}"
        host = f"{_NETWORK}.{place + 1}"
        command = [self._here(each, host) for each in self._example.commands[place]]
        for number, each in enumerate(command):
            if each == "offset-shim.toml":  # the file that is mounted there
                command[number] = str(self._folder / f"settings-{place}.toml")
                Path(command[number]).write_text(self._here((self._folder / each).read_text(), host))
        # What the image sets.
        command += ["--data-dir", str(data), "--admin", f"{host}:{_ADMIN_PORT}"]
        with log.open("ab") as stderr:
            started = Child([sys.executable, "-m", "shim.main", *command], ready="offset-shim ready", stderr=stderr)
        self._running[place] = started

    def wait_ready(self) -> None:
        for child in self._running.values():
            child.wait_ready(_WITHIN_S)

    def _here(self, text: str, host: str) -> str:
        """With addresses that are here."""
        for broker, name in zip(self._cluster.brokers, self._example.brokers, strict=True):
            text = text.replace(name, broker.bootstrap_servers)
        for name in ("0.0.0.0", "localhost", *(f"offset-shim-{place}.offset-shims" for place in range(SHIMS))):
            text = text.replace(name, host)
        return text

    def stop(self, place: int) -> int | None:
        child = self._running.pop(place)
        child.send_signal(signal.SIGTERM)
        assert child.wait(_WITHIN_S)
        return child.returncode

    def kill(self) -> None:
        for child in self._running.values():
            child.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(str(self.address(place)) for place in range(SHIMS))

    def told_by(self, place: int, topic: str) -> set[HostPort]:
        """Where brokers are, as it says."""
        address = self.address(place)
        return {HostPort(each.host, each.port) for each in cluster_metadata(address.port, topic, address.host).brokers}

    def wait_for(self, places: set[int], topic: str) -> None:
        """Until these have the brokers among them, as each of them says."""
        wanted = {self.address(place).host for place in places}

        def said() -> dict[int, set[str]]:
            return {place: {each.host for each in self.told_by(place, topic)} for place in places}

        wait_until(lambda: all(hosts == wanted for hosts in said().values()), said, _WITHIN_S)


def commit(bootstrap: str, topic: str, offset: int) -> None:
    """Of each group."""
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 2})
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With as many partitions of `__consumer_offsets` as any other cluster has."""
    properties = {"offsets.topic.num.partitions": 50}
    with Cluster(tmp_path_factory.mktemp("brokers"), brokers=SHIMS, properties=properties) as running:
        yield running


@pytest.mark.soak
@pytest.mark.parametrize("example", [in_compose, in_kubernetes])
def test_three_shims_as_deployed(
    brokers: Cluster, make_topic: TopicFactory, tmp_path: Path, example: Callable[[Path], Example]
) -> None:
    topic = make_topic(on=brokers)
    deployed = Deployed(example(tmp_path), brokers, tmp_path)
    with ExitStack() as ending:
        ending.callback(deployed.kill)
        for place in range(SHIMS):
            deployed.start(place)
        deployed.wait_ready()
        deployed.wait_for({0, 1, 2}, topic)
        commit(deployed.bootstrap, topic, 5)
        assert deployed.stop(1) == 0
        deployed.wait_for({0, 2}, topic)
        commit(deployed.bootstrap, topic, 6)
        deployed.start(1)
        deployed.wait_ready()
        deployed.wait_for({0, 1, 2}, topic)
        for place in range(SHIMS):
            found = [committed(str(deployed.address(place)), group, topic, 1) for group in GROUPS]
            assert found == [[6]] * len(GROUPS)
