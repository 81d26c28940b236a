"""What happens to topics, done at a broker or through the shim."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from shim.demo.parts import Broker
from shim.demo.parts.metadata import cluster_view
from tests.waiting import wait_until

_TIMEOUT_SECONDS = 30.0
_AT_ONCE = 250


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_TIMEOUT_SECONDS)


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(_TIMEOUT_SECONDS)


def make_many(broker: Broker, names: Sequence[str], partitions: int) -> None:
    """It knows the leaders of all on return."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for first in range(0, len(names), _AT_ONCE):
        some = [NewTopic(name, partitions, 1) for name in names[first : first + _AT_ONCE]]
        for made in admin.create_topics(some, request_timeout=_TIMEOUT_SECONDS).values():
            made.result(_TIMEOUT_SECONDS)

    def all_led() -> bool:
        return len(cluster_view(broker.host, broker.port, tuple(names)).leaders) == partitions * len(names)

    wait_until(all_led, "the broker does not lead all partitions", 180.0)
