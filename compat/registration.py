"""Where consumers of Kafka 0.8 to 1.1 (`ZookeeperConsumerConnector`) find a cluster: its znodes, as brokers write them.

| znode | value, JSON |
|---|---|
| ``/brokers/ids/<node id>``, ephemeral | version, host, port, jmx_port, timestamp |
| ``/brokers/topics/<topic>`` | version, partitions: replicas by partition |
| ``/brokers/topics/<topic>/partitions/<partition>/state`` | version, leader, leader_epoch, isr, controller_epoch |

A broker's entry is of version 1. 0.8 reads ``host`` and ``port`` and nothing else; 0.9 to 1.1 read these in version 1,
and take them for the listener PLAINTEXT, which is the one that such consumers speak; from version 2 on they read
``endpoints`` in their place (`kafka.cluster.Broker.createBroker` of 0.8.2.2, 0.10.2.2 and 1.1.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"

OF_BROKERS: Final = ("/brokers", "/controller", "/cluster/id")
"""What a cluster that keeps its own metadata in ZooKeeper has there."""

MARKER_VERSION: Final = 1

_CHANGE_BYTES: Final = 128
"""What a change takes at most beside its path and its data: numbers, lengths, an ACL, a chroot of some length."""


class Partition(NamedTuple):
    """``leader``: a node id, -1 where there is none; ``replicas`` and ``isr``: node ids."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


Partitions = Mapping[int, Partition]
"""Of a topic, by number."""


class TopicZnodes(NamedTuple):
    """What there is of a topic. ``value``: the topic's own, None where it has no znode. ``has_partitions``: whether the
    znode above its partitions is there. ``states``: by the name of a partition's znode; None where it has no state.
    """

    value: bytes | None = None
    has_partitions: bool = False
    states: Mapping[str, bytes | None] = MappingProxyType({})


NO_TOPIC: Final = TopicZnodes()


class Registration(NamedTuple):
    """What there is, or is to be: values by node id, znodes by topic."""

    brokers: Mapping[int, bytes]
    topics: Mapping[str, TopicZnodes]


class Kind(Enum):
    CREATE = "create"
    CREATE_EPHEMERAL = "create ephemeral"
    SET = "set"
    DELETE = "delete"


class Change(NamedTuple):
    kind: Kind
    path: str
    data: bytes = b""


Step = tuple[Change, ...]
"""Changes that belong together: nobody may see only some of them."""


def broker_value(host: str, port: int, since_ms: int) -> bytes:
    """``since_ms``: when it was registered, in milliseconds since 1970."""
    return _json({"jmx_port": -1, "timestamp": str(since_ms), "host": host, "version": 1, "port": port})


def topic_znodes(partitions: Partitions) -> TopicZnodes:
    ordered = sorted(partitions.items())
    states = {str(number): _state_value(each) for number, each in ordered}
    return TopicZnodes(_topic_value({str(number): each.replicas for number, each in ordered}), True, states)


def partitions_of(znodes: TopicZnodes) -> Partitions | None:
    """What :func:`topic_znodes` has made them of; None of znodes that it has not."""
    try:
        replicas = json.loads(znodes.value or b"")["partitions"]
        states = {number: json.loads(znodes.states[number] or b"") for number in replicas}
        found = {
            int(number): Partition(state["leader"], state["leader_epoch"], tuple(replicas[number]), tuple(state["isr"]))
            for number, state in states.items()
        }
    except (ValueError, TypeError, LookupError):
        return None
    return found if topic_znodes(found) == znodes else None


def differences(old: Registration, new: Registration) -> Iterator[Step]:
    """How to get from one to the other, such that whoever looks at any moment between two steps finds brokers before
    the partitions that they lead, and no topic that has a partition without its state."""
    for node_id in sorted(new.brokers):
        path, value = f"{IDS}/{node_id}", new.brokers[node_id]
        if node_id not in old.brokers:
            yield (Change(Kind.CREATE_EPHEMERAL, path, value),)
        elif old.brokers[node_id] != value:
            yield (Change(Kind.SET, path, value),)
    for topic in sorted(old.topics.keys() | new.topics.keys()):
        yield from _topic_steps(topic, old.topics.get(topic, NO_TOPIC), new.topics.get(topic, NO_TOPIC))
    for node_id in sorted(old.brokers.keys() - new.brokers.keys()):
        yield (Change(Kind.DELETE, f"{IDS}/{node_id}"),)


def portions(steps: Iterable[Step], most_bytes: int) -> Iterator[list[Change]]:
    """As many whole steps as may be in a request of so many bytes, and at least one, each time."""
    portion: list[Change] = []
    size = 0
    for step in steps:
        step_size = sum(_CHANGE_BYTES + len(change.path.encode()) + len(change.data) for change in step)
        if portion and size + step_size > most_bytes:
            yield portion
            portion, size = [], 0
        portion.extend(step)
        size += step_size
    if portion:
        yield portion


def _topic_steps(topic: str, old: TopicZnodes, new: TopicZnodes) -> Iterator[Step]:
    if old is new or old == new:
        return
    path = f"{TOPICS}/{topic}"
    below = f"{path}/partitions"
    shown = old.value
    if new.value is not None:
        parents = []
        if old.value is None:
            shown = _NO_PARTITIONS
            parents.append(Change(Kind.CREATE, path, shown))
        if not old.has_partitions:
            parents.append(Change(Kind.CREATE, below))
        if parents:
            yield tuple(parents)
        for name, state in new.states.items():
            if step := _state_step(f"{below}/{name}", name in old.states, old.states.get(name), state):
                yield step
    wanted = _NO_PARTITIONS if new.value is None else new.value
    if shown is not None and shown != wanted:
        yield (Change(Kind.SET, path, wanted),)
    for name in sorted(old.states.keys() - new.states.keys()):
        state_too = (Change(Kind.DELETE, f"{below}/{name}/state"),) if old.states[name] is not None else ()
        yield (*state_too, Change(Kind.DELETE, f"{below}/{name}"))
    if new.value is None:
        partitions_too = (Change(Kind.DELETE, below),) if old.has_partitions else ()
        yield (*partitions_too, Change(Kind.DELETE, path))


def _state_step(path: str, there: bool, old: bytes | None, new: bytes | None) -> Step:
    if new is None or old == new:
        return ()
    if old is not None:
        return (Change(Kind.SET, f"{path}/state", new),)
    parent = () if there else (Change(Kind.CREATE, path),)
    return (*parent, Change(Kind.CREATE, f"{path}/state", new))


def marker_value(cluster_id: str) -> bytes:
    """Of the znode that says whose registrations these are."""
    return _json({"version": MARKER_VERSION, "cluster_id": cluster_id})


def marked_cluster(marker: bytes) -> str:
    """The cluster id in it. Raises :class:`ValueError` for one that is of no known version."""
    try:
        value: Any = json.loads(marker)
        version, cluster_id = value["version"], value["cluster_id"]
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(f"{marker[:100]!r} is not a registrar's") from error
    if version != MARKER_VERSION or not isinstance(cluster_id, str):
        raise ValueError(f"{marker[:100]!r} is of another version than {MARKER_VERSION}")
    return cluster_id


def _topic_value(replicas: Mapping[str, tuple[int, ...]]) -> bytes:
    return _json({"version": 1, "partitions": replicas})


def _state_value(partition: Partition) -> bytes:
    return _json(
        {
            "controller_epoch": 1,  # consumers do not look at it, and brokers do not tell it
            "leader": partition.leader,
            "version": 1,
            "leader_epoch": partition.leader_epoch,
            "isr": partition.isr,
        }
    )


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_NO_PARTITIONS: Final = _topic_value({})
"""A topic's value while its partitions are being made, or taken away."""
