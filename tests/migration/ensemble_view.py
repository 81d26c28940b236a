"""What stands in a ZooKeeper, read by a client that is not the shim's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.02


class EnsembleView:
    def __init__(self, client: KazooClient) -> None:
        self.client = client

    def ids(self) -> dict[int, tuple[str, int]]:
        """Brokers' addresses by node id."""
        brokers = {node_id: json.loads(data) for node_id, data in self.values("/brokers/ids").items()}
        return {int(node_id): (each["host"], each["port"]) for node_id, each in brokers.items()}

    def owners(self) -> set[int]:
        """Sessions that brokers' entries go with."""
        return {stat.ephemeralOwner for _, stat in self._below("/brokers/ids").values()}

    def topics(self) -> set[str]:
        return set(self._below("/brokers/topics"))

    def values(self, path: str) -> dict[str, bytes]:
        """Of what is below it, by name; without what goes while it is read."""
        return {name: data for name, (data, _) in self._below(path).items()}

    def leaders(self, topic: str) -> dict[int, int]:
        """By partition: of those that the topic's own znode names."""
        path = f"/brokers/topics/{topic}"
        numbers = self._json(path)["partitions"]
        return {int(each): self._json(f"{path}/partitions/{each}/state")["leader"] for each in numbers}

    def has(self, path: str) -> bool:
        return self.client.exists(path) is not None

    def _below(self, path: str) -> dict[str, tuple[bytes, Any]]:
        found = {}
        with suppress(NoNodeError):
            for name in self.client.get_children(path):
                with suppress(NoNodeError):
                    found[name] = self.client.get(f"{path}/{name}")
        return found

    def _json(self, path: str) -> Any:
        return json.loads(self.client.get(path)[0])


@contextmanager
def looking_at(zookeeper: str) -> Iterator[EnsembleView]:
    """``zookeeper``: a connect string; its chroot is made where it is not there."""
    servers, _, chroot = zookeeper.partition("/")
    with _connected(servers) as client:
        client.ensure_path(f"/{chroot}")
    with _connected(zookeeper) as client:
        yield EnsembleView(client)


@contextmanager
def _connected(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect, timeout=10)
    client.start(timeout=TIMEOUT_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def until(is_so: Callable[[], bool], what: str, seconds: float = TIMEOUT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(_POLL_SECONDS)  # what the test looks at is in another process
