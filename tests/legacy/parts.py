"""Real Kafka brokers from before KRaft, each with a ZooKeeper of its own, and the releases there are jar sets for."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from shim.demo.parts import StartFailed, ZooKeeper, free_port, jar_set
from shim.demo.parts.jars import POM_FOLDERS
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child
from shim.demo.parts.server import Server

KAFKA_0_8: Final = "kafka-0.8.2.2"
KAFKA_0_10: Final = "kafka-0.10.2.2"
KAFKA_1: Final = "kafka-1.1.1"
KAFKA_2: Final = "kafka-2.8.2"
KAFKA_3: Final = "kafka-3.9.2"  # the last with ZooKeeper mode

POM_FOLDERS.append(Path(__file__).with_name("poms"))

_LOG4J: Final = Path(__file__).with_name("log4j.properties").absolute()
_STARTED = " started (kafka.server.KafkaServer)"
_POLL_S = 0.05

# Settings that a release does not have yet, or not any more, it warns of and leaves alone.
_SMALL: Mapping[str, str | int] = {
    "controlled.shutdown.enable": "false",
    "delete.topic.enable": "true",
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    # Nothing is too old: from 0.10.1 on age is told by the records' timestamps, tests write some of years ago, and 30 s
    # after the start what is too old is deleted. (0.8 does not take -1.)
    "log.retention.hours": 1_000_000,
    "num.io.threads": 4,
    "num.network.threads": 2,
    "offsets.topic.num.partitions": 5,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
    "zookeeper.session.timeout.ms": 3_000,
}


class LegacyBroker(Server):
    """One Kafka broker of `release` (one of the five above), its ZooKeeper included.

    `folder` keeps everything of it: `server.properties`, `server.log`, `data/` and `zookeeper/`. `properties` are
    server.properties of its own, before all others; `jvm_options` come last on its command line. `stop` and `kill` go
    to its ZooKeeper too.
    """

    def __init__(
        self,
        folder: Path,
        release: str,
        *,
        node_id: int = 1,
        host: str = "127.0.0.1",
        properties: Mapping[str, str | int] | None = None,
        jvm_options: Sequence[str] = (),
        heap_mb: int = 128,
        start_timeout: float = 60.0,
        stop_timeout: float = 15.0,
    ) -> None:
        super().__init__(folder, host, free_port(host), heap_mb, start_timeout, stop_timeout, release)
        self.title = f"the {release} broker"
        self.node_id = node_id
        self.zookeeper = ZooKeeper(folder / "zookeeper", host=host)
        self._properties = dict(properties or {})
        self._jvm_options = tuple(jvm_options)

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    @property
    def data(self) -> Path:
        """The broker's `log.dirs`: one folder per partition."""
        return self.folder / "data"

    def _launched(self) -> Child:
        jars = jar_set(self.release)
        self._make_archive(jars, lambda folder: LegacyBroker(folder, self.release, stop_timeout=60.0))
        self.zookeeper.start()
        try:
            self._wait_forgotten()
            command = java_command(
                *(jars, "kafka.Kafka", str(self._write_properties())),
                heap_mb=self.heap_mb,
                record_archive=self._record_archive,
                # log4j 1.2 would look for it on the class path, and no archive fits one with a folder.
                jvm_options=(f"-Dlog4j.configuration={_LOG4J.as_uri()}", *self._jvm_options),
            )
            return Child(command, ready=_STARTED, log=self.log, cwd=self.folder)
        except BaseException:
            self.zookeeper.kill()
            raise

    def _wait_forgotten(self) -> None:
        """Wait until ZooKeeper has dropped what the broker registered before a kill: it would not start beside it."""
        deadline = time.monotonic() + self.start_timeout
        while "zk_ephemerals_count\t0\n" not in (answer := self.zookeeper.four_letter_word("mntr")):
            if time.monotonic() > deadline:
                raise StartFailed(f"{self.title}: it is still registered:\n{answer}")
            time.sleep(_POLL_S)  # nothing here watches znodes

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self.zookeeper.stop()

    def kill(self) -> None:
        try:
            super().kill()
        finally:
            self.zookeeper.kill()

    def _write_properties(self) -> Path:
        path = self.folder / "server.properties"
        settings: dict[str, str | int] = {
            "broker.id": self.node_id,
            # Up to 0.8 an address is two settings, from 0.9 on it is a listener.
            "host.name": self.host,
            "port": self.port,
            "listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": str(self.data),
            "zookeeper.connect": self.zookeeper.connect_string,
            **_SMALL,
            **self._properties,
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="ascii")
        return path
