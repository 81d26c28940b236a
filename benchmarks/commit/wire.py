"""One request and its answer over a blocking socket, and requests that are encoded once and patched in place."""

import socket
from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeVar

from protocol.api import Api
from protocol.messages import offset_commit, offset_fetch

Request = TypeVar("Request")
Response = TypeVar("Response")

CLIENT_ID: Final = "consumer-billing-7"
TOPIC: Final = "orders-by-customer"
COMMIT_VERSION: Final = 9
FETCH_VERSION: Final = 9

_LEADER_EPOCH: Final = 3
_SIZE: Final = Struct(">i")
_MARKED_OFFSET: Final = 0x5AFE_0FF5_E700_0000
_OFFSET_SIZE: Final = 8


def ask(sock: socket.socket, api: Api[Request, Response], version: int, request: Request) -> Response:
    """Send a request and wait for its response. Raises OSError, ConnectionError and DecodeError."""
    sock.sendall(api.request_frame(version, 0, CLIENT_ID, request))
    size = _SIZE.unpack(exactly(sock, _SIZE.size))[0]
    return api.parse_response(version, exactly(sock, size))[1]


def exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes. Raises OSError, ConnectionError."""
    data = sock.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionError("the server has closed the connection")
    return data


class Frames:
    """The frames that one connection sends over and over, in one buffer, and the answers that are due.

    Each has its place as its correlation id. So the answers are the same bytes each time round, and are compared whole:
    an error, another offset or another order would not go unnoticed.
    """

    def __init__(self, requests: list[bytes], responses: list[bytes]) -> None:
        self.buffer = bytearray().join(requests)
        self.size = len(requests[0])
        self.response_size = len(responses[0])
        self.responses = b"".join(responses) * 2  # whatever place they begin at
        offsets = [at for at in range(self.size) if self.buffer.startswith(_MARKED_OFFSET.to_bytes(8, "big"), at)]
        self._last = [at + _OFFSET_SIZE - 1 for at in offsets]
        self._stride = offsets[1] - offsets[0] if len(offsets) > 1 else self.size

    def number(self, place: int, number: int) -> None:
        """Have the frame at that place commit other offsets, all of the same two last bytes."""
        count = len(self._last)
        if not count:
            return
        low = place * self.size + self._last[0]
        stop = low + (count - 1) * self._stride + 1
        self.buffer[low : stop : self._stride] = bytes((number & 0xFF,)) * count
        self.buffer[low - 1 : stop - 1 : self._stride] = bytes((number >> 8 & 0xFF,)) * count


def commits(group: str, generation: int, member_id: str, partitions: list[int], places: int) -> Frames:
    """Commits of a member, each of all these partitions."""
    request = offset_commit.OffsetCommitRequest(
        group,
        generation,
        member_id,
        topics=(
            offset_commit.OffsetCommitRequestTopic(
                TOPIC,
                partitions=tuple(
                    offset_commit.OffsetCommitRequestPartition(partition, _MARKED_OFFSET, _LEADER_EPOCH)
                    for partition in partitions
                ),
            ),
        ),
    )
    response = offset_commit.OffsetCommitResponse(
        topics=(
            offset_commit.OffsetCommitResponseTopic(
                TOPIC,
                partitions=tuple(offset_commit.OffsetCommitResponsePartition(partition, 0) for partition in partitions),
            ),
        )
    )
    return Frames(
        [offset_commit.API.request_frame(COMMIT_VERSION, place, CLIENT_ID, request) for place in range(places)],
        [offset_commit.API.response_frame(COMMIT_VERSION, place, response) for place in range(places)],
    )


def fetches(group: str, places: Sequence[Sequence[int]]) -> Frames:
    """Fetches of the offsets that the first commit of :func:`commits` leaves, in each place of these partitions."""
    asked = [_fetch(group, partitions) for partitions in places]
    api, version = offset_fetch.API, FETCH_VERSION
    return Frames(
        [api.request_frame(version, place, CLIENT_ID, request) for place, (request, _) in enumerate(asked)],
        [api.response_frame(version, place, response) for place, (_, response) in enumerate(asked)],
    )


def _fetch(
    group: str, partitions: Sequence[int]
) -> tuple[offset_fetch.OffsetFetchRequest, offset_fetch.OffsetFetchResponse]:
    topic = offset_fetch.OffsetFetchRequestTopics(TOPIC, partition_indexes=tuple(partitions))
    request = offset_fetch.OffsetFetchRequest(
        groups=(offset_fetch.OffsetFetchRequestGroup(group, topics=(topic,)),),
    )
    found = tuple(
        offset_fetch.OffsetFetchResponsePartitions(partition, _MARKED_OFFSET, _LEADER_EPOCH) for partition in partitions
    )
    answer = offset_fetch.OffsetFetchResponseTopics(TOPIC, partitions=found)
    response = offset_fetch.OffsetFetchResponse(groups=(offset_fetch.OffsetFetchResponseGroup(group, (answer,)),))
    return request, response
