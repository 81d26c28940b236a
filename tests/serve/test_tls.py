"""TLS on both sides of the shim, with certificates asked for on both: real clients, a real broker."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer

from protocol.messages import api_versions
from shim.demo.parts import Broker
from shim.demo.parts.tools import java_tool
from tests.certificates import Authority, java, kafka_python, librdkafka
from tests.conftest import TopicFactory
from tests.java_tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER
from tests.shim_process import Shim
from tests.tls_broker import tls_broker, tls_port
from tests.waiting import wait_until
from tests.wire import WireClient

TIMEOUT_S = 30.0
HOST = "127.0.0.1"


class Secured(NamedTuple):
    authority: Authority
    broker: Broker
    own: Path
    """What the shim shows to brokers."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    keystore = authority.keystore("broker.pem")
    with tls_broker(folder / "broker", keystore, authority.truststore, client_auth="required") as running:
        yield Secured(authority, running, authority.keystore("own.pem", "shim"))


def upstream(secured: Secured) -> dict[str, str]:
    return {
        "upstream.security.protocol": "SSL",
        "upstream.ssl.truststore.location": str(secured.authority.truststore),
        "upstream.ssl.keystore.location": str(secured.own),
    }


def listening(secured: Secured, keystore: Path) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.location": str(secured.authority.truststore),
        "ssl.client.auth": "required",
    }


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def shim(request: pytest.FixtureRequest, secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    keystore = secured.authority.keystore(f"shim-{request.param}.pem")
    patch = "import sys; sys.modules['uvloop'] = None" if request.param == "asyncio" else ""
    with Shim(
        f"{HOST}:{tls_port(secured.broker)}",
        tmp_path_factory.mktemp("shim") / "data",
        settings={**upstream(secured), **listening(secured, keystore)},
        patch=patch,
        plaintext_servers=secured.broker.bootstrap_servers,
    ) as running:
        yield running


@pytest.fixture
def client_keystore(secured: Secured) -> Path:
    return secured.authority.keystore("client.pem", "client")


VALUES = [b"%d " % i + b"v" * 2000 for i in range(2000)]


def test_librdkafka(shim: Shim, secured: Secured, client_keystore: Path, make_topic: TopicFactory, group: str) -> None:
    topic = make_topic(on=secured.broker)
    config = {"bootstrap.servers": shim.bootstrap, **librdkafka(secured.authority.truststore, client_keystore)}
    producer = Producer(config)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        got: list[bytes | None] = []
        while len(got) < len(VALUES):
            messages = consumer.consume(500, timeout=TIMEOUT_S)
            assert messages
            assert all(message.error() is None for message in messages)
            got += [message.value() for message in messages]
        assert got == VALUES
        consumer.commit(asynchronous=False)
        (partition,) = consumer.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)
        assert partition.offset == len(VALUES)
    finally:
        consumer.close()


def test_kafka_python(
    shim: Shim, secured: Secured, client_keystore: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(on=secured.broker)
    config = {"bootstrap_servers": shim.bootstrap, **kafka_python(secured.authority.truststore, client_keystore)}
    producer = KafkaProducer(**config)
    for value in VALUES[:200]:
        producer.send(topic, value)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **config)
    try:
        assert [next(consumer).value for _ in range(200)] == VALUES[:200]
        consumer.commit()
    finally:
        consumer.close()


async def test_aiokafka(
    shim: Shim, secured: Secured, client_keystore: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(on=secured.broker)
    context = ssl.create_default_context(cafile=secured.authority.truststore)
    context.load_cert_chain(client_keystore)
    config = {"bootstrap_servers": shim.bootstrap, "security_protocol": "SSL", "ssl_context": context}
    async with AIOKafkaProducer(**config) as producer:
        await asyncio.gather(*[await producer.send(topic, value) for value in VALUES[:200]])
    consumer = AIOKafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **config)
    async with consumer, asyncio.timeout(TIMEOUT_S):
        assert [(await consumer.getone()).value for _ in range(200)] == VALUES[:200]
        await consumer.commit()


def test_the_java_tools(
    shim: Shim, secured: Secured, client_keystore: Path, make_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = make_topic(on=secured.broker)
    properties = tmp_path / "client.properties"
    properties.write_text(java(secured.authority.truststore, client_keystore))
    common = ("--bootstrap-server", shim.bootstrap, "--topic", topic, "--command-config", str(properties))
    java_tool(CONSOLE_PRODUCER, *common, input="one\ntwo\nthree\n")
    read = java_tool(CONSOLE_CONSUMER, *common, "--from-beginning", "--max-messages", "3", "--timeout-ms", "30000")
    assert read.stdout.split() == ["one", "two", "three"]


def tls_client(shim: Shim, secured: Secured, keystore: Path | None, port: int | None = None) -> WireClient:
    client = WireClient(port or shim.port)
    context = ssl.create_default_context(cafile=secured.authority.truststore)
    if keystore is not None:
        context.load_cert_chain(keystore)
    client.socket = context.wrap_socket(client.socket, server_hostname=HOST, suppress_ragged_eofs=False)
    return client


def shown_to(client: WireClient) -> bytes:
    assert isinstance(client.socket, ssl.SSLSocket)
    certificate = client.socket.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def served(client: WireClient) -> bool:
    return client.ask(api_versions.API, 2, api_versions.ApiVersionsRequest()).error_code == 0


def test_certificates_are_renewed_under_load(
    shim: Shim, secured: Secured, client_keystore: Path, make_topic: TopicFactory
) -> None:
    topic = make_topic(on=secured.broker)
    problems: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": shim.bootstrap,
            **librdkafka(secured.authority.truststore, client_keystore),
            "error_cb": problems.append,
        }
    )
    stop = threading.Event()
    delivered = 0

    def count(error: KafkaError | None, message: object) -> None:
        nonlocal delivered
        assert error is None
        delivered += 1

    def produce() -> None:
        while not stop.is_set():
            producer.produce(topic, b"v" * 1000, on_delivery=count)
            producer.poll(0.001)

    load = threading.Thread(target=produce)
    load.start()
    try:
        wait_until(lambda: delivered > 0)
        keystore = Path(shim.settings["ssl.keystore.location"])  # type: ignore[arg-type]
        before = tls_client(shim, secured, client_keystore)
        renewals = shim.log().count("certificate files read again")
        secured.authority.keystore(keystore.name, HOST, "renewed.example.com")
        os.kill(shim.pid, signal.SIGHUP)
        wait_until(lambda: shim.log().count("certificate files read again") > renewals)
        with tls_client(shim, secured, client_keystore) as after:
            assert shown_to(after) != shown_to(before)
            assert served(after)
        assert served(before)
        before.close()

        renewed = keystore.read_bytes()
        keystore.write_bytes(renewed[:500])
        # Without a signal: it is seen by itself.
        shim.wait_logged("the changed certificate files are of no use, the ones before stay")
        with tls_client(shim, secured, client_keystore) as still:
            assert served(still)
        keystore.write_bytes(renewed)
        seen = delivered
        wait_until(lambda: delivered > seen)
    finally:
        stop.set()
        load.join()
    assert producer.flush(TIMEOUT_S) == 0
    assert problems == []


def test_a_client_without_a_certificate_has_one_line(shim: Shim, secured: Secured) -> None:
    for _ in range(5):
        # With TLS 1.3 it learns of it at its first read.
        with pytest.raises((ConnectionError, ssl.SSLError)), tls_client(shim, secured, None) as client:
            served(client)
    assert shim.log().count("TLS handshake: it has shown no certificate") == 1


def test_a_plaintext_client_has_one_line(shim: Shim, secured: Secured) -> None:
    for _ in range(5):
        with WireClient(shim.broker_port(secured.broker.node_id)) as client, pytest.raises(ConnectionError):
            served(client)
    assert shim.log().count("a plaintext request on a TLS port") == 1
    assert "Traceback" not in shim.log()


def test_what_does_not_pass_is_said_at_start(shim: Shim) -> None:
    log = shim.log()
    assert "clients' certificates at SSL do not reach the brokers: they let clients in, and no more" in log
    assert (
        "brokers are shown the shim's certificate for all clients: a principal from a certificate is the shim's" in log
    )
    assert "brokers see the shim's address for all clients: ACLs for a host mean the shim" in log


UPSTREAM_FAILURES: Mapping[str, tuple[str, str]] = {
    "another CA": (HOST, "its certificate is refused: unable to get local issuer certificate"),
    "another host": ("localhost", "Hostname mismatch, certificate is not valid for 'localhost'"),
    "no certificate": (HOST, "it refuses the shim's certificate, or that there is none"),
    "plaintext there": (HOST, "closed in the TLS handshake: does it speak TLS there?"),
    "TLS there": (HOST, "it speaks TLS there, see upstream.security.protocol"),
}


@pytest.mark.parametrize("kind", UPSTREAM_FAILURES)
def test_a_broker_that_cannot_be_spoken_with_is_said_in_one_line(secured: Secured, tmp_path: Path, kind: str) -> None:
    host, words = UPSTREAM_FAILURES[kind]
    settings = upstream(secured)
    port = tls_port(secured.broker)
    if kind == "another CA":
        settings["upstream.ssl.truststore.location"] = str(Authority(tmp_path).truststore)
    elif kind == "no certificate":
        del settings["upstream.ssl.keystore.location"]
    elif kind == "plaintext there":
        port = secured.broker.port
    elif kind == "TLS there":
        settings = {}
    shim = Shim(f"{host}:{port}", tmp_path / "data", settings=settings)
    shim.launch()
    try:
        shim.wait_logged("no broker can be reached")
    finally:
        shim.stop()
    (line,) = (line for line in shim.log().splitlines() if "no broker can be reached" in line)
    assert words in line
    assert "Traceback" not in shim.log()


def test_a_keystore_that_is_none_stops_the_start(secured: Secured, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    shim = Shim(
        f"{HOST}:{tls_port(secured.broker)}",
        tmp_path / "data",
        settings={**upstream(secured), **listening(secured, missing)},
    )
    shim.launch()
    assert shim.wait_ended() == 1
    (line,) = shim.log().splitlines()
    assert line == f"Error: listener SSL: ssl.keystore.location: {missing}: No such file or directory"


def test_the_standard_tls_client_sees_an_end(shim: Shim, secured: Secured, client_keystore: Path) -> None:
    """What a real client's own TLS says at the end of a connection that the shim closes: an end, and no error."""
    with tls_client(shim, secured, client_keystore) as client:
        assert served(client)
        client.socket.sendall(b"\x7f\xff\xff\xff" + bytes(20))
        assert client.socket.recv(1) == b""


def test_the_socket_is_gone_with_the_client(shim: Shim, secured: Secured, client_keystore: Path) -> None:
    before = len(os.listdir(f"/proc/{shim.pid}/fd"))  # noqa: PTH208
    clients = [tls_client(shim, secured, client_keystore) for _ in range(20)]
    assert all(map(served, clients))
    for client in clients[:10]:
        client.close()
    for client in clients[10:]:
        client.socket.shutdown(socket.SHUT_WR)  # no end of TLS is said
    wait_until(lambda: len(os.listdir(f"/proc/{shim.pid}/fd")) <= before)  # noqa: PTH208
    for client in clients[10:]:
        client.close()
