"""`/v1/clients` of a real shim, with clients of today and old ones."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from protocol.messages import api_versions, metadata
from shim.demo.parts import Broker, free_port
from shim.metrics.clients import MOST_KINDS
from tests.conftest import TopicFactory
from tests.serve.scraped import AdminPort, until
from tests.shim_process import Shim
from tests.wire import WireClient

METADATA_V0 = metadata.MetadataRequest(topics=())


@pytest.fixture(scope="module")
def admin() -> AdminPort:
    return AdminPort(f"127.0.0.1:{free_port()}")


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory, admin: AdminPort) -> Iterator[Shim]:
    data_dir = tmp_path_factory.mktemp("clients") / "data"
    settings = {"offsets.topic.num.partitions": 1}
    with Shim(broker.bootstrap_servers, data_dir, settings=settings, args=["--admin", admin.address]) as shim:
        yield shim


def clients(admin: AdminPort) -> list[dict[str, Any]]:
    status, document = admin.document("/v1/clients")
    assert status == 200, document
    found: list[dict[str, Any]] = document["clients"]
    return found


def of_id(admin: AdminPort, client_id: str) -> dict[str, Any]:
    (found,) = [each for each in clients(admin) if each["client_id"] == client_id]
    return found


def test_a_client_that_says_what_it_is(shim: Shim, admin: AdminPort) -> None:
    client_id = f"today-{uuid.uuid4().hex}"
    client = AdminClient({"bootstrap.servers": shim.bootstrap, "client.id": client_id})
    client.list_topics(timeout=30)
    found = of_id(admin, client_id)
    assert found["software"] == "confluent-kafka-python"
    assert found["software_version"]
    assert found["connections"] >= 1  # the client may have left its bootstrap connection by now
    assert (found["client_host"], found["principal"]) == ("127.0.0.1", "")
    assert (found["speaks_as"], found["dropped"]) == (None, False)
    assert "ApiVersions" not in {each["api"] for each in found["lowest_versions"]}


def test_a_client_as_of_0_8(shim: Shim, admin: AdminPort, make_topic: TopicFactory) -> None:
    client_id = f"old-{uuid.uuid4().hex}"
    producer = KafkaProducer(
        bootstrap_servers=shim.bootstrap, client_id=client_id, api_version=(0, 8, 2), enable_idempotence=False
    )
    producer.send(make_topic(), b"x").get(30)
    found = of_id(admin, client_id)
    assert (found["software"], found["software_version"]) == (None, None)
    assert (found["speaks_as"], found["dropped"]) == ("0.8.2", True)
    assert {"api": "Produce", "version": 0, "dropped": True} in found["lowest_versions"]
    assert {"api": "Metadata", "version": 0, "dropped": False} in found["lowest_versions"]
    assert clients(admin)[0]["client_id"] == client_id, "the oldest is the first"
    producer.close()
    until(lambda: of_id(admin, client_id)["open_connections"] == 0)
    assert of_id(admin, client_id)["connections"] >= 1


def test_a_client_that_says_late_what_it_is(shim: Shim, admin: AdminPort) -> None:
    client_id, version = f"late-{uuid.uuid4().hex}", uuid.uuid4().hex
    with WireClient(shim.port, client_id=client_id) as client:
        client.ask(api_versions.API, 0, api_versions.ApiVersionsRequest())
        before = of_id(admin, client_id)
        assert (before["software"], before["lowest_versions"]) == (None, [])
        client.ask(api_versions.API, 3, api_versions.ApiVersionsRequest("late", version))
        client.ask(metadata.API, 0, METADATA_V0)
        after = of_id(admin, client_id)
    assert (after["software"], after["software_version"], after["connections"]) == ("late", version, 1)
    assert after["lowest_versions"] == [{"api": "Metadata", "version": 0, "dropped": False}]


def test_what_is_no_client_is_not_among_them(shim: Shim, admin: AdminPort) -> None:
    before = len(clients(admin))
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00\x00\x00\x20\x7f\xff\x00\x00\x00\x00\x00\x01\x00\x02ab"):
        with WireClient(shim.port) as client:
            client.socket.sendall(data)
            assert client.ended()
    assert len(clients(admin)) == before


def test_names_that_clients_make_up(shim: Shim, admin: AdminPort) -> None:
    mark = '<b>"\u202e\0'
    for number in range(MOST_KINDS + 10):
        with WireClient(shim.port, client_id=f"{mark}{number}") as client:
            client.ask(metadata.API, 0, METADATA_V0)
    found = clients(admin)
    assert len(found) <= MOST_KINDS + 2
    assert any(each["client_id"].startswith(mark) for each in found)
    assert len(json.dumps(found)) < 1_000_000
