"""Groups of the consumer protocol (KIP-848), which the shim does not offer: they stay with the cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from shim.demo.parts import Broker
from tests.admin.live.running import offset_shim
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import administered
from tests.migration.test_first_contact import committed


def came(at: str, group: str, topic: str, protocol: str) -> None:
    """Its one member came, committed 7, and has left."""
    assigned: list[TopicPartition] = []
    consumer = Consumer(
        {"bootstrap.servers": at, "group.id": group, "group.protocol": protocol, "enable.auto.commit": "false"}
    )
    try:
        consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
        while not assigned:
            consumer.poll(0.1)
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    finally:
        consumer.close()


def test_one_that_is_empty_stays_until_its_clients_have_changed(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(), fresh_name()
    came(broker.bootstrap_servers, group, topic, "consumer")
    with administered(broker, tmp_path / "data") as at:
        (planned,) = (each for each in at.migrate("plan").json["groups"] if each["group"] == group)
        assert (planned["state"], planned["offsets"]) == ("Empty", 1)
        assert "group.protocol=classic" in planned["hindrance"]
        (refused,) = at.migrate("start", group, "--yes").json["not_done"]
        assert refused["error"] == f"group {group}: {planned['hindrance']}"
        (told,) = (each for each in at.migrate("status").json["groups"] if each["group"] == group)
        assert (told["offsets_storage"], told["state"], told["type"]) == ("upstream", "Empty", "Consumer")
        described = offset_shim("groups", "describe", group, "--admin", at.address).stdout
        assert "state: Empty, Consumer, 0 members" in described
        assert committed(at.shim.bootstrap, group, topic) == 7

        came(at.shim.bootstrap, group, topic, "classic")
        (planned,) = at.migrate("plan", group).json["groups"]
        assert (planned["state"], planned["hindrance"]) == ("Empty", "")
        (started,) = at.migrate("start", group, "--yes").json["groups"]
        assert (started["offsets_storage"], started["type"]) == ("kafka", "Classic")
        assert committed(at.shim.bootstrap, group, topic) == 7


def test_one_with_members_is_told_as_the_cluster_has_it(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(), fresh_name()
    came(broker.bootstrap_servers, group, topic, "consumer")
    assigned: list[TopicPartition] = []
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
        while not assigned:
            consumer.poll(0.1)
        with administered(broker, tmp_path / "data") as at:
            (planned,) = at.migrate("plan", group).json["groups"]
            assert "group.protocol=classic" in planned["hindrance"]
            (refused,) = at.migrate("start", group, "--yes").json["not_done"]
            assert refused["error"] == f"group {group}: {planned['hindrance']}"
            told = at.status(group)
            assert (told["state"], told["type"], told["members"]) == ("Stable", "Consumer", 1)
    finally:
        consumer.close()
        # A plan of all has a hindrance for it, in other tests, too.
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_consumer_groups([group])[group].result(30)
