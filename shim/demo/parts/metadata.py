"""What one broker says of its cluster: one Metadata request, written by hand so that no client takes part in it."""

import io
import socket
import struct
from typing import NamedTuple

_METADATA, _VERSION = 3, 4  # the last version before cluster-authorized operations and flexible fields
_NONE = 0
_TIMEOUT_S = 5.0


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class ClusterView(NamedTuple):
    """Brokers by node id, and the leader's node id of every partition asked for that has one."""

    brokers: dict[int, tuple[str, int]]
    leaders: dict[TopicPartition, int]


class _Reader(io.BytesIO):
    def number(self, layout: str) -> int:
        (value,) = struct.unpack(f">{layout}", self._exactly(struct.calcsize(f">{layout}")))
        return int(value)

    def string(self) -> str:
        length = self.number("h")
        return self._exactly(length).decode() if length >= 0 else ""

    def array(self, layout: str) -> list[int]:
        return [self.number(layout) for _ in range(self.number("i"))]

    def _exactly(self, length: int) -> bytes:
        data = self.read(length)
        if len(data) != length:
            raise ConnectionError("a broker's Metadata response is cut short")
        return data


def cluster_view(host: str, port: int, topics: tuple[str, ...] = ()) -> ClusterView:
    """Ask the broker at `host`:`port`; a topic that it does not know is left out, and is not created.

    Metadata v4 (Kafka 0.11 and later, 4.3 among them). Raises OSError (TimeoutError after five seconds of silence)
    when the broker does not answer.
    """
    names = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    body = struct.pack(">hhih", _METADATA, _VERSION, 1, -1) + struct.pack(">i", len(topics)) + names + b"\x00"
    with socket.create_connection((host, port), _TIMEOUT_S) as connection, connection.makefile("rb") as stream:
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _Reader(stream.read(4))._exactly(4))
        return _decode(_Reader(stream.read(size)))


def _decode(response: _Reader) -> ClusterView:
    response.number("i")  # correlation id
    response.number("i")  # throttle time
    brokers = {}
    for _ in range(response.number("i")):
        node_id = response.number("i")
        brokers[node_id] = (response.string(), response.number("i"))
        response.string()  # rack
    response.string()  # cluster id
    response.number("i")  # controller id
    leaders = {}
    for _ in range(response.number("i")):
        response.number("h")  # topic error: an unknown topic has no partitions
        topic = response.string()
        response.number("b")  # internal
        for _ in range(response.number("i")):
            error = response.number("h")
            partition = TopicPartition(topic, response.number("i"))
            leader = response.number("i")
            response.array("i")  # replicas
            response.array("i")  # in-sync replicas
            if error == _NONE and leader >= 0:
                leaders[partition] = leader
    return ClusterView(brokers, leaders)
