"""Real Kafka brokers in KRaft mode: one process each, alone or as a cluster."""

import base64
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from shim.demo.parts.formatting import FEATURES, features
from shim.demo.parts.jars import KAFKA, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.metadata import cluster_view
from shim.demo.parts.ports import free_port_range
from shim.demo.parts.process import Child, StartFailed
from shim.demo.parts.server import Server

Properties = Mapping[str, str | int | bool]

_STARTED = "Kafka Server started"
_POLL_S = 0.05
_LONE_HEAP_MB, _MEMBER_HEAP_MB = 128, 96

# Small and quick, for a few topics: Kafka's defaults are sized for servers.
_SMALL: Properties = {
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    # Nothing is too old: age is told by the records' timestamps, tests write some of years ago, and what is too old is
    # deleted 30 s after the start.
    "log.retention.ms": -1,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 4,
    # A broker that comes back is refused until the session of the one that it was has run out (9 s by default).
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    # A record twice a second says that the controller is there: a quarter of what a broker without work does.
    "metadata.max.idle.interval.ms": 0,
}
_INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
_INTERNAL_MIN_ISR = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")


class Quorum(NamedTuple):
    """What the nodes of one cluster agree on: its id, the one controller's node id and address, how many brokers."""

    cluster_id: str
    controller_id: int
    controller: str
    brokers: int


class Broker(Server):
    """One Kafka broker. Without `quorum` it is its own controller, a whole cluster of one.

    `folder` keeps everything of it: `server.properties`, `server.log` and `data/`. `properties` are server.properties
    of its own, before all others; `jvm_options` likewise.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node_id: int = 1,
        host: str = "127.0.0.1",
        properties: Properties | None = None,
        quorum: Quorum | None = None,
        heap_mb: int = _LONE_HEAP_MB,
        start_timeout: float = 60.0,
        stop_timeout: float = 15.0,
        release: str = KAFKA,
        jvm_options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, host, free_port_range(2, host), heap_mb, start_timeout, stop_timeout, release)
        self.title = f"broker {node_id}"
        self.node_id = node_id
        # A lone broker, or the one that its cluster made the controller, listens for the quorum at the next port.
        self.quorum = quorum or Quorum(_new_id(), node_id, f"{host}:{self.port + 1}", 1)
        self._properties = dict(properties or {})
        self._jvm_options = tuple(jvm_options)

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    @property
    def data(self) -> Path:
        """The broker's `log.dirs`: one folder per partition."""
        return self.folder / "data"

    @property
    def is_controller(self) -> bool:
        return self.quorum.controller_id == self.node_id

    def segments(self, topic: str) -> list[Path]:
        """The log segments that this broker keeps of a topic, by partition and base offset."""
        partition = re.compile(re.escape(topic) + r"-(\d+)")
        found = [
            (int(match[1]), segment)
            for segment in self.data.glob("*/*.log")
            if (match := partition.fullmatch(segment.parent.name))
        ]
        return [segment for _, segment in sorted(found)]

    def _launched(self) -> Child:
        jars = jar_set(self.release)
        self._make_archive(jars, lambda folder: Broker(folder, release=self.release, stop_timeout=60.0))
        self._write_properties()
        if not (identity := self.data / "meta.properties").exists():
            self.data.mkdir(exist_ok=True)
            if self.is_controller:
                (self.data / FEATURES).write_bytes(features(jars))
            self._write_identity(identity)
        command = java_command(
            jars,
            "kafka.Kafka",
            str(self._server_properties),
            heap_mb=self.heap_mb,
            log_level="INFO",
            record_archive=self._record_archive,
            jvm_options=self._jvm_options,
        )
        return Child(command, ready=_STARTED, log=self.log, cwd=self.folder)

    @property
    def _server_properties(self) -> Path:
        return self.folder / "server.properties"

    def _write_properties(self) -> None:
        listeners = f"PLAINTEXT://{self.bootstrap_servers}"
        if self.is_controller:
            listeners += f",CONTROLLER://{self.quorum.controller}"
        replication = min(3, self.quorum.brokers)
        settings: dict[str, str | int | bool] = {
            "process.roles": "broker,controller" if self.is_controller else "broker",
            "node.id": self.node_id,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            # Named here, and not in the log: so what a controller begins with is the same in every cluster.
            "controller.quorum.voters": f"{self.quorum.controller_id}@{self.quorum.controller}",
            "log.dirs": str(self.data),
            **_SMALL,
            **{f"{topic}.replication.factor": replication for topic in _INTERNAL_TOPICS},
            **dict.fromkeys(_INTERNAL_MIN_ISR, max(1, replication - 1)),
            **self._properties,
        }
        lines = (f"{name}={_property_text(value)}\n" for name, value in settings.items())
        self._server_properties.write_text("".join(lines), encoding="ascii")

    def _write_identity(self, path: Path) -> None:
        """Whose data it is. It costs a Java process less than `kafka-storage format`, which does the same."""
        properties: dict[str, str | int] = {
            "version": 1,
            "cluster.id": self.quorum.cluster_id,
            "node.id": self.node_id,
            "directory.id": _new_id(),
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="ascii")


class Cluster:
    """Several brokers; the first is also the controller. `brokers[i]` has node id i + 1.

    `hosts`: the address that each broker listens on, one a broker, by default 127.0.0.1 for all. On Linux every address
    in 127.0.0.0/8 will do: with addresses of their own, a connection to a broker shows itself by its remote address.
    """

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 3,
        hosts: Sequence[str] | None = None,
        properties: Properties | None = None,
        heap_mb: int = _MEMBER_HEAP_MB,
        start_timeout: float = 90.0,
        stop_timeout: float = 15.0,
        release: str = KAFKA,
    ) -> None:
        hosts = hosts or ["127.0.0.1"] * brokers
        if len(hosts) != brokers:
            raise ValueError(f"{len(hosts)} hosts for {brokers} brokers")
        self.start_timeout = start_timeout
        self.brokers: list[Broker] = []
        quorum: Quorum | None = None
        for node_id, host in enumerate(hosts, start=1):
            broker = Broker(
                folder / f"broker-{node_id}",
                node_id=node_id,
                host=host,
                properties=properties,
                quorum=quorum,
                heap_mb=heap_mb,
                start_timeout=start_timeout,
                stop_timeout=stop_timeout,
                release=release,
            )
            if quorum is None:
                broker.quorum = quorum = broker.quorum._replace(brokers=brokers)
            self.brokers.append(broker)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def running(self) -> bool:
        """Whether every broker runs."""
        return all(broker.running for broker in self.brokers)

    def start(self) -> Self:
        """Start every broker that does not run; returns when each of them knows all the others.

        Raises PartsUnavailable and StartFailed; no broker is left running then.
        """
        if self.running:
            return self
        try:
            with ThreadPoolExecutor(len(self.brokers)) as together:
                list(together.map(Broker.launch, self.brokers))
            for broker in self.brokers:
                broker.wait_started()
            self._wait_joined()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stop every broker, the controller last: the others leave the cluster through it."""
        controller, *others = self.brokers
        # Without a controller a controlled shutdown waits for its return.
        stop = Broker.stop if controller.running else Broker.kill
        try:
            with ThreadPoolExecutor(len(self.brokers)) as together:
                list(together.map(stop, others))
            controller.stop()
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to every broker."""
        for broker in self.brokers:
            broker.kill()

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

    def _wait_joined(self) -> None:
        deadline = time.monotonic() + self.start_timeout
        everyone = {broker.node_id for broker in self.brokers}
        for broker in self.brokers:
            while (known := cluster_view(broker.host, broker.port).brokers.keys()) != everyone:
                if time.monotonic() > deadline:
                    raise StartFailed(
                        f"broker {broker.node_id} knows of brokers {sorted(known)}, not of {sorted(everyone)}"
                    )
                time.sleep(_POLL_S)  # a broker tells nobody when its picture of the cluster changes


def _new_id() -> str:
    """An id as Kafka makes them: 16 random bytes, URL-safe base64 without padding, never a dash in front, which its own
    tools take for an option.
    """
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")).startswith("-"):
        pass
    return made


def _property_text(value: str | int | bool) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("\\", "\\\\").encode("ascii", "backslashreplace").decode("ascii").replace("\n", "\\n")
