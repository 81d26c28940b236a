"""Groups at a running shim, and what the commands say of them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from shim.demo.parts import Broker
from tests.admin.live.running import offset_shim
from tests.admin.running import Result
from tests.migration.test_changing_hands import Administered

TIMEOUT_S: Final = 30.0
PARTITIONS, RECORDS = 2, 10
HOUR_MS: Final = 3_600_000


class Hours(NamedTuple):
    """A topic, and the time of its first records."""

    topic: str
    first_ms: int

    def at(self, hours: int) -> str:
        """A second after a record, in ISO 8601."""
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime((self.first_ms + hours * HOUR_MS) / 1000 + 1))


class Place:
    def __init__(self, at: Administered, broker: Broker) -> None:
        self.at = at
        self.shim = at.shim
        self.bootstrap = at.shim.bootstrap
        self.broker = broker

    def groups(self, command: str, *args: str) -> Result:
        return offset_shim("groups", command, *args, "--admin", self.at.address)

    def done(self, command: str, *args: str) -> Any:
        """What a command that goes well tells in JSON."""
        result = self.groups(command, *args, "--json")
        assert result.status == 0, result
        return result.json

    def refused(self, command: str, *args: str, status: int = 1) -> str:
        result = self.groups(command, *args)
        assert result.status == status, result
        assert len(result.stderr.splitlines()) == 1, result.stderr
        return result.stderr

    def commit(self, group: str, topic: str, *offsets: int, bootstrap: str | None = None) -> None:
        """From partition 0 on."""
        consumer = Consumer({"bootstrap.servers": bootstrap or self.bootstrap, "group.id": group, "client.id": "etl"})
        try:
            wanted = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
            consumer.commit(offsets=wanted, asynchronous=False)
        finally:
            consumer.close()

    def committed(
        self, group: str, topic: str, partitions: int = PARTITIONS, bootstrap: str | None = None
    ) -> list[int]:
        """As a client is told; -1001 for none."""
        consumer = Consumer({"bootstrap.servers": bootstrap or self.bootstrap, "group.id": group})
        try:
            found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], TIMEOUT_S)
        finally:
            consumer.close()
        return [each.offset for each in found]


def post(place: Place, path: str, **question: Any) -> tuple[int, Any]:
    """Status and document."""
    asked = urllib.request.Request(
        f"http://{place.at.address}{path}", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
