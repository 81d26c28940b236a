"""Real Kafka brokers from before KRaft, each with a ZooKeeper of its own, and the releases there are jar sets for."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from shim.demo.parts import StartFailed, ZooKeeper, free_port, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child

KAFKA_0_8: Final = "kafka-0.8.2.2"
KAFKA_0_10: Final = "kafka-0.10.2.2"
KAFKA_1: Final = "kafka-1.1.1"
KAFKA_3: Final = "kafka-3.9.2"  # the last with ZooKeeper mode

_STARTED = " started (kafka.server.KafkaServer)"

# Settings that a release does not have yet, or not any more, it warns of and leaves alone.
_SMALL: Mapping[str, str | int] = {
    "controlled.shutdown.enable": "false",
    "delete.topic.enable": "true",
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "num.io.threads": 4,
    "num.network.threads": 2,
    "offsets.topic.num.partitions": 5,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
}


class LegacyBroker:
    """One Kafka broker of `release` (one of the four above) on a loopback address, its ZooKeeper included.

    `folder` keeps everything of it: `server.properties`, `server.log` (its output, appended over restarts), `data/` and
    `zookeeper/`. Ports and data stay the same over `stop`, `kill` and `start`. As a context manager it is started, and
    stopped however the block ends. `properties` are server.properties of its own, before all others.

    Starting raises PartsUnavailable (no Java, no jars) and StartFailed (with the tail of the log); nothing is left
    running then.
    """

    def __init__(
        self,
        folder: Path,
        release: str,
        *,
        node_id: int = 1,
        host: str = "127.0.0.1",
        properties: Mapping[str, str | int] | None = None,
        heap_mb: int = 128,
        start_timeout: float = 60.0,
        stop_timeout: float = 15.0,
    ) -> None:
        self.folder = folder
        self.release = release
        self.node_id = node_id
        self.host = host
        self.port = free_port(host)
        self.zookeeper = ZooKeeper(folder / "zookeeper", host=host)
        self.heap_mb = heap_mb
        self.start_timeout = start_timeout
        self.stop_timeout = stop_timeout
        self._properties = dict(properties or {})
        self._child: Child | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def data(self) -> Path:
        """The broker's `log.dirs`: one folder per partition."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the broker printed."""
        return self.folder / "server.log"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when the broker does not run."""
        if self._child is None or not self._child.running:
            raise RuntimeError(f"the {self.release} broker is not running")
        return self._child.pid

    def start(self) -> Self:
        """Start it, with the data it has; returns when it takes requests. Nothing happens when it runs already."""
        if self.running:
            return self
        jars = jar_set(self.release)
        # log4j 1.2 looks for its configuration on the class path.
        jars = dataclasses.replace(jars, jars=(Path(__file__).parent, *jars.jars))
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.zookeeper.start()
            command = java_command(jars, "kafka.Kafka", str(self._write_properties()), heap_mb=self.heap_mb)
            self._child = Child(command, ready=_STARTED, log=self.log, cwd=self.folder)
            self._child.wait_ready(self.start_timeout)
        except StartFailed as error:
            self.kill()
            raise StartFailed(f"the {self.release} broker at {self.bootstrap_servers}: {error}") from None
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """SIGTERM, SIGKILL after `stop_timeout` seconds; then its ZooKeeper's. Nothing when it does not run."""
        try:
            if self._child is not None:
                self._child.stop(self.stop_timeout)
        finally:
            self.zookeeper.stop()

    def kill(self) -> None:
        """SIGKILL, to its ZooKeeper too. Nothing happens when it does not run."""
        try:
            if self._child is not None:
                self._child.kill()
        finally:
            self.zookeeper.kill()

    def restart(self) -> None:
        """`stop`, then `start`: same ports, same data."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

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
