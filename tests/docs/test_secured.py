"""docs/security.md: in front of a secured cluster, step by step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from shim.demo.parts import free_port_range
from tests.certificates import Authority
from tests.docs.conftest import READY
from tests.docs.desk import Desk
from tests.docs.pages import ROOT
from tests.docs.stories import OF_AN_ADMINISTRATOR, SERVE_SECURED
from tests.protocol_live.place import Place
from tests.secured.broker import SecuredBroker, secured_broker
from tests.secured.conftest import OF_ALICE
from tests.secured.users import MECHANISMS
from tests.secured.way import Way, way_to

_PAGE = (ROOT / "docs" / "security.md").read_text().partition("## In front of a secured cluster")[2]
_PASSWORD = "of-this-test-alone"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The shim has neither a user nor a right there."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    with secured_broker(tmp_path_factory.mktemp("secured"), authority=authority, mechanisms=MECHANISMS) as running:
        running.allow(*OF_ALICE)
        yield running


def test_step_by_step(secured: SecuredBroker, tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port_range(4)}"
    etc = tmp_path / "etc"
    desk = Desk(
        tmp_path / "desk",
        {
            "kafka-1:9093": secured.bootstrap_servers,
            "0.0.0.0:19092": listen,
            "shim.example.org": "127.0.0.1",
            "/var/lib/offset-shim": str(tmp_path / "data"),
            "/etc/offset-shim": str(etc),
            "/etc/offset-shim.toml": str(etc / "offset-shim.toml"),
            "password=...": f"password={_PASSWORD}",
            '"..."': f'"{_PASSWORD}"',
        },
    )
    assert secured.authority is not None
    way_to(secured.bootstrap_servers, secured).java_file(desk.folder / "admin.properties", "SCRAM-SHA-512", "admin")
    for step in OF_AN_ADMINISTRATOR:
        assert step.says in desk.run(step.command).stdout, step
    etc.mkdir()
    (etc / "shim.pem").write_bytes(secured.authority.keystore("shim.pem", common_name="shim").read_bytes())
    (etc / "ca.pem").write_bytes(secured.authority.truststore.read_bytes())
    (settings,) = re.findall(r"```toml\n(.*?)```", _PAGE, re.DOTALL)
    (etc / "offset-shim.toml").write_text(desk.typed(settings))
    with Place(secured.broker.port, secured.broker.release) as place:
        topic = place.new_topic("alice-orders")
    with desk.running(SERVE_SECURED.command, READY):
        assert "the cluster has an authorizer: it is asked what each client may do" in desk.log()
        of_alice = way_to(listen, secured)
        commit(of_alice, "alice-billing", topic)
        admin = AdminClient(of_alice.librdkafka("SCRAM-SHA-512", "alice"))
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("billing")])["billing"]
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            asked.result(30.0)
    assert "may not" not in desk.log()
    assert _PASSWORD not in desk.log()


def commit(way: Way, group: str, topic: str) -> None:
    consumer = Consumer({**way.librdkafka("SCRAM-SHA-512", "alice"), "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
        (found,) = consumer.committed([TopicPartition(topic, 0)], 30.0)
        assert found.offset == 5
    finally:
        consumer.close()
