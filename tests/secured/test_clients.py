"""Unmodified clients that authenticate through the shim, by every mechanism: they produce, consume and commit."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.structs import TopicPartition as KafkaPythonPartition

from protocol.own.history_log import HISTORY_TOPIC
from shim.demo.parts.tools import java_tool
from tests.conftest import TopicFactory
from tests.java_tools import CONSUMER_GROUPS, console_consumer, console_producer
from tests.secured.broker import SecuredBroker
from tests.secured.conftest import shim_settings
from tests.secured.users import MECHANISMS, PASSWORDS, WITH_PASSWORDS, unsecured_jwt
from tests.secured.way import Way, way_to
from tests.shim_process import Shim

USER: Final = "alice"
TIMEOUT_S: Final = 30.0


class KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]
    def token(self) -> str:
        return unsecured_jwt(USER)


class AiokafkaTokens(AiokafkaTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return unsecured_jwt(USER)


def with_confluent_kafka(way: Way, mechanism: str, topic: str, group: str) -> int:
    settings = way.librdkafka(mechanism, USER)
    producer = Producer(settings)
    producer.produce(topic, b"record")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"record")
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    finally:
        consumer.close()
    return int(committed.offset)


def with_kafka_python(way: Way, mechanism: str, topic: str, group: str) -> int:
    tokens = KafkaPythonTokens() if mechanism == "OAUTHBEARER" else None
    settings = {**way.kafka_python(mechanism, USER), "sasl_oauth_token_provider": tokens}
    producer = KafkaProducer(**settings)
    producer.send(topic, b"record").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **settings)
    try:
        found = consumer.poll(timeout_ms=int(TIMEOUT_S * 1000))
        assert [record.value for records in found.values() for record in records] == [b"record"]
        consumer.commit()
        offset = consumer.committed(KafkaPythonPartition(topic, 0))
    finally:
        consumer.close()
    return int(offset)


def with_aiokafka(way: Way, mechanism: str, topic: str, group: str) -> int:
    tokens = AiokafkaTokens() if mechanism == "OAUTHBEARER" else None
    settings = {**way.aiokafka(mechanism, USER), "sasl_oauth_token_provider": tokens}

    async def there_and_back() -> int:
        async with asyncio.timeout(TIMEOUT_S):
            async with AIOKafkaProducer(**settings) as producer:
                await producer.send_and_wait(topic, b"record")
            async with AIOKafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **settings) as consumer:
                record = await consumer.getone()
                assert record.value == b"record"
                await consumer.commit()
                (partition,) = consumer.assignment()
                return int(await consumer.committed(partition))

    return asyncio.run(there_and_back())


def with_java(way: Way, mechanism: str, topic: str, group: str) -> int:
    properties = way.java(mechanism, USER)
    idempotence = {"enable.idempotence": "false"}  # a right of its own
    console_producer(way.bootstrap, topic, ["record"], properties={**properties, **idempotence})
    assert console_consumer(way.bootstrap, topic, max_messages=1, group=group, properties=properties) == ["record"]
    consumer = Consumer({**way.librdkafka("PLAIN", USER), "group.id": group})
    try:
        (committed,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    finally:
        consumer.close()
    return int(committed.offset)


CLIENTS: Final[dict[str, Callable[[Way, str, str, str], int]]] = {
    "confluent-kafka": with_confluent_kafka,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "Java": with_java,
}


# In the short form Java's begin for two of the mechanisms, one with a password and one without: each is two JVMs.
_CASES: Final = [
    pytest.param(
        *(client, mechanism),
        id=f"{name}-{mechanism}",
        marks=[pytest.mark.soak] if name == "Java" and mechanism in ("PLAIN", "SCRAM-SHA-256") else [],
    )
    for name, client in CLIENTS.items()
    for mechanism in MECHANISMS
]


@pytest.mark.parametrize(("client", "mechanism"), _CASES)
def test_a_client_is_served_as_who_it_is(
    secured: SecuredBroker,
    secured_shim: Shim,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    client: Callable[[Way, str, str, str], int],
    mechanism: str,
) -> None:
    topic, group = make_topic(name=f"alice-{fresh_name()}", on=secured.broker), f"alice-{fresh_name()}"
    assert client(way_to(secured_shim.bootstrap, secured), mechanism, topic, group) == 1


@pytest.mark.parametrize("mechanism", WITH_PASSWORDS)
def test_a_wrong_password_is_the_brokers_to_refuse(secured: SecuredBroker, secured_shim: Shim, mechanism: str) -> None:
    told: list[KafkaError] = []
    settings: dict[str, Any] = way_to(secured_shim.bootstrap, secured).librdkafka(mechanism, USER, "wrong")
    settings["error_cb"] = told.append
    client = AdminClient(settings)
    deadline = time.monotonic() + TIMEOUT_S
    while not any(error.code() == KafkaError._AUTHENTICATION for error in told):
        assert time.monotonic() < deadline, told
        client.poll(0.1)
    assert "the broker has refused its credentials" in secured_shim.log()


def test_a_wrong_password_from_java(secured: SecuredBroker, secured_shim: Shim, tmp_path: Path) -> None:
    config = way_to(secured_shim.bootstrap, secured).java_file(tmp_path / "client.properties", "PLAIN", USER, "wrong")
    options = ("--bootstrap-server", secured_shim.bootstrap, "--list", "--command-config", config)
    shown = java_tool(CONSUMER_GROUPS, *options, check=False)
    assert "Authentication failed: Invalid username or password" in shown.stdout + shown.stderr


def test_the_history_says_who_has_committed(
    secured: SecuredBroker,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    tmp_path: Path,
) -> None:
    topic = make_topic(name=f"alice-{fresh_name()}", on=secured.broker)
    with Shim(secured.bootstrap_servers, tmp_path / "data", settings=shim_settings(secured)) as shim:
        for mechanism in MECHANISMS:
            with_confluent_kafka(way_to(shim.bootstrap, secured), mechanism, topic, f"alice-{mechanism}")
    dump = (sys.executable, "-m", "shim.main", "log", "dump", "--data-dir", str(tmp_path / "data"))
    lines = subprocess.run((*dump, "--topic", HISTORY_TOPIC, "--json"), check=True, capture_output=True, text=True)
    found = {
        (record["key"]["group"], record["value"]["principal"]) for record in map(json.loads, lines.stdout.splitlines())
    }
    assert found == {(f"alice-{mechanism}", "User:alice") for mechanism in MECHANISMS}
    text = subprocess.run((*dump, "--topic", HISTORY_TOPIC), check=True, capture_output=True, text=True).stdout
    assert text.count('principal="User:alice"') == len(text.splitlines())
    log = shim.log()
    assert not [password for password in PASSWORDS.values() if password in log]
