"""Where the whole migration takes place: Kafka 4.3.1 with the registrar, and 3.9.2 in ZooKeeper mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from shim.demo.parts import Broker, free_port, free_port_range
from tests.legacy.parts import KAFKA_3, LegacyBroker
from tests.migration.conftest import REFRESH_MS
from tests.migration.ensemble_view import EnsembleView, looking_at
from tests.migration.test_changing_hands import Administered, administered
from tests.shim_process import Shim
from tests.waiting import wait_until

PARTITIONS: Final = 3
_HOST: Final = "127.0.0.1"
_NODE_ID: Final = 1
_TIMEOUT_S: Final = 30.0


class WholePlace(NamedTuple):
    """``directly``: the brokers, past the shim. ``zookeeper``: where old consumers look."""

    at: Administered
    directly: str
    zookeeper: str
    view: EnsembleView

    def make_topic(self, topic: str) -> str:
        """Of so many partitions; old consumers find it."""
        admin = AdminClient({"bootstrap.servers": self.directly})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(_TIMEOUT_S)
        wait_until(lambda: topic in self.view.topics(), "the topic is not registered")
        wait_until(lambda: all(self.view.has(self._state(topic, number)) for number in range(PARTITIONS)), "no leaders")
        return topic

    def step(self, group: str) -> str:
        """As the group's `offsets.storage` and, after a plus sign, whether it has dual commit."""
        found = self.at.migrate("status", group).json["groups"]
        if not found:  # the shim has not heard of it
            (planned,) = self.at.migrate("plan", group).json["groups"]
            return str(planned["offsets_storage"])
        return f"{found[0]['offsets_storage']}{'+dual' if found[0]['dual_commit_enabled'] else ''}"

    def offsets_in_zookeeper(self, group: str, topic: str) -> dict[int, int]:
        """By partition."""
        found = self.view.values(f"/consumers/{group}/offsets/{topic}")
        return {int(partition): int(offset) for partition, offset in found.items()}

    @staticmethod
    def _state(topic: str, number: int) -> str:
        return f"/brokers/topics/{topic}/partitions/{number}/state"


Opened = Callable[[], AbstractContextManager[WholePlace]]


@contextmanager
def at_kafka_4(broker: Broker, zookeeper: str, data_dir: Path, **settings: Any) -> Iterator[WholePlace]:
    """``zookeeper``: a connect string with a chroot that is nobody's."""
    registering = {"topology.refresh.interval.ms": REFRESH_MS, **settings}
    with (
        looking_at(zookeeper) as view,
        administered(broker, data_dir, "--zookeeper", zookeeper, "--registrar", **registering) as at,
    ):
        yield WholePlace(at, broker.bootstrap_servers, zookeeper, view)


@contextmanager
def at_kafka_3(folder: Path) -> Iterator[WholePlace]:
    """Its brokers register themselves with the shim's address (docs/registrar.md)."""
    shim_port, client_port, internal_port = free_port_range(8, _HOST), free_port(_HOST), free_port(_HOST)
    directly, admin = f"{_HOST}:{internal_port}", f"{_HOST}:{free_port(_HOST)}"
    listeners = {
        "listeners": f"PLAINTEXT://{_HOST}:{client_port},INTERNAL://{directly}",
        "advertised.listeners": f"PLAINTEXT://{_HOST}:{shim_port + 1 + _NODE_ID},INTERNAL://{directly}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with LegacyBroker(folder / "legacy", KAFKA_3, node_id=_NODE_ID, properties=listeners) as legacy:
        zookeeper = legacy.zookeeper.connect_string
        args = ["--admin", admin, "--zookeeper", zookeeper]
        with (
            Shim(directly, folder / "data", listen_port=shim_port, args=args, passes_groups=True) as shim,
            looking_at(zookeeper) as view,
        ):
            yield WholePlace(Administered(shim, admin), directly, zookeeper, view)
