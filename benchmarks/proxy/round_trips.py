"""Small requests and their answers, one after another: a process of its own.

Each is a ListOffsets of one partition's end: the broker has it in memory, its answer is always the same, and each proxy
passes it on as it is. `python -m benchmarks.proxy.round_trips HOST PORT CONNECTIONS TOPIC` connects, says so,
and then takes loads as `benchmarks.commit.generator` does.
"""

import gc
import json
import socket
import sys
from typing import Final

from benchmarks.commit.generator import Load, Stream, carry
from benchmarks.commit.wire import CLIENT_ID, Frames, exactly
from protocol.messages.list_offsets import (
    API,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_VERSION: Final = 7
_LATEST: Final = -1
_CONSUMER: Final = -1  # as a replica's id
_ANSWER_S: Final = 60.0
_CORRELATION_ID: Final = slice(4, 8)


class Asker:
    """A connection that asks where a partition ends."""

    def __init__(self, host: str, port: int, topic: str) -> None:
        self.sock = socket.create_connection((host, port), timeout=_ANSWER_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        partitions = (ListOffsetsPartition(0, timestamp=_LATEST),)
        self._request = ListOffsetsRequest(_CONSUMER, topics=(ListOffsetsTopic(topic, partitions=partitions),))

    def stream(self, load: Load) -> Stream:
        requests = [API.request_frame(_VERSION, place, CLIENT_ID, self._request) for place in range(load.pipelined)]
        self.sock.sendall(requests[0])
        size = exactly(self.sock, 4)
        answer = size + exactly(self.sock, int.from_bytes(size, "big"))
        (topic,) = API.parse_response(_VERSION, answer, 4)[1].topics
        if topic.partitions[0].error_code:
            raise RuntimeError(f"the broker does not say where the partition ends: {topic}")
        responses = []
        for place in range(load.pipelined):
            due = bytearray(answer)
            due[_CORRELATION_ID] = place.to_bytes(4, "big")
            responses.append(bytes(due))
        return Stream(self.sock, Frames(requests, responses), load.pipelined)


def main(host: str, port: int, connections: int, topic: str) -> None:
    askers = [Asker(host, port, topic) for _ in range(connections)]
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(carry(askers, Load(*json.loads(line)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
