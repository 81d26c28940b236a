"""Whether a Produce request will be answered: what the shim says of its bytes before it passes them on, and what a
broker does with the same bytes. Where the two differ, each later response is taken for another request's.
"""

from __future__ import annotations

import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator

import pytest

from protocol.messages import api_versions
from shim.api import ROUTES, Route
from shim.demo.parts import Broker
from shim.net.requests import BadRequest, Head, RequestReader
from tests.wire import WireClient

REQUEST, PROBE = 1, 2
ANSWER, NO_ANSWER, CLOSED = "answer", "no answer", "closed"
MAX_BYTES = 1_000_000

# As they stand on the wire: what is usual, what is at the edge of an int32 and of a string, and what is beyond.
VARINTS = [
    *(bytes([n]) for n in (0, 1, 2, 3, 16, 17, 0x7F)),
    *(bytes.fromhex(n) for n in ("8000", "8100", "808000", "8080808000", "8180808000", "8280808000")),
    *(bytes.fromhex(n) for n in ("ffff01", "808002", "818002", "ffffffff07", "8080808008", "8080808010", "8180808010")),
    *(
        bytes.fromhex(n)
        for n in ("ffffffff0f", "ffffffff7f", "feffffff0f", "8080808078", "ffffffffff00", "808080808001")
    ),
]
OLD_STRINGS = [struct.pack(">h", -1), struct.pack(">h", 0), b"\x00\x03app", b"\xff\xfe", b"\x80\x00", b"\x00\x40"]


class Said:
    """What the shim says of a request, from what its reader tells."""

    stopped = False

    def __init__(self) -> None:
        self.says = CLOSED

    def admit(self, size: int) -> bool:
        return True

    def passing_begins(self, head: Head, route: Route, *, answered: bool) -> None:
        self.says = ANSWER if answered else NO_ANSWER

    def pass_on(self, data: bytes | memoryview) -> None:
        pass

    def request(self, head: Head, route: Route, frame: bytes) -> None:
        raise AssertionError("not a Produce request")

    def several(self, route: Route, data: bytes, position: int) -> int:
        raise AssertionError("not a Produce request")

    def token(self, frame: bytes) -> None:
        raise AssertionError("not a Produce request")


def shim_says(frame: bytes) -> str:
    said = Said()
    try:
        RequestReader(ROUTES, MAX_BYTES).feed(frame, said)
    except BadRequest:
        assert said.says == CLOSED
    return said.says


def broker_does(broker: Broker, frame: bytes) -> str:
    """Behind the request stands another one, which is always answered."""
    probe = api_versions.API.request_frame(0, PROBE, None, api_versions.ApiVersionsRequest())
    with WireClient(broker.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            client.socket.sendall(frame + probe)
            (correlation_id,) = struct.unpack_from(">i", client.receive_frame())
        except ConnectionError:
            return CLOSED
    return {REQUEST: ANSWER, PROBE: NO_ANSWER}[correlation_id]


def request(version: int, beginning: bytes, acks: int) -> bytes:
    """Of no topics: a broker has no reason to close."""
    body = struct.pack(">hhi", 0, version, REQUEST) + beginning + struct.pack(">hi", acks, 1_000)
    body += b"\x01\x00" if version >= 9 else bytes(4)
    return struct.pack(">i", len(body)) + body


def boundaries() -> Iterator[bytes]:
    """Each at its edges, while the others are as usual."""
    null = OLD_STRINGS[0]
    for acks in (0, 1):
        for version in (3, 8):
            yield from (request(version, text + null, acks) for text in OLD_STRINGS)
            yield from (request(version, null + text, acks) for text in OLD_STRINGS)
        for varint in VARINTS:
            yield request(9, null + varint + b"\x00", acks)
            yield request(10, null + varint + b"\x05\x01x" + b"\x00", acks)
            yield request(11, null + b"\x01" + varint + b"\x00" + b"\x00", acks)
            yield request(12, null + b"\x01\x05" + varint + b"\x00\x00", acks)
            yield request(13, null + b"\x00" + varint, acks)
            yield request(13, null + b"\x00" + varint + b"ab", acks)
        for length in (32_766, 32_767, 32_768):
            packed = bytes([(length + 1) & 0x7F | 0x80, (length + 1) >> 7 & 0x7F | 0x80, (length + 1) >> 14])
            yield request(9, null + b"\x00" + packed + bytes(length), acks)


def at_random(rng: random.Random) -> bytes:
    version = rng.choice([*range(3, 14), 9, 11, 13])  # older ones are translated
    beginning = rng.choice(OLD_STRINGS[:3] * 3 + OLD_STRINGS)
    if version >= 9:
        usual = VARINTS[:3] * 6 + VARINTS
        for _ in range(rng.choice([1, 2, 2, 2, 3, 4, 5, 6])):
            beginning += rng.choice(usual) + rng.randbytes(rng.choice([0, 0, 0, 1, 2]))
    else:
        beginning += rng.choice(OLD_STRINGS)
    frame = bytearray(request(version, beginning, rng.choice([0, 0, 0, 1, -1, 2, 256, -256])))
    if rng.random() < 0.2:
        frame[rng.randrange(12, len(frame))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    if rng.random() < 0.1:
        del frame[rng.randrange(12, len(frame)) :]
        frame[:4] = struct.pack(">i", len(frame) - 4)
    return bytes(frame)


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.soak)])
def test_the_shim_and_a_broker_agree_on_whether_an_answer_comes(broker: Broker, count: int) -> None:
    rng = random.Random(count)
    seen: Counter[tuple[str, str]] = Counter()
    for frame in [*boundaries(), *(at_random(rng) for _ in range(count))]:
        says, does = shim_says(frame), broker_does(broker, frame)
        assert says == CLOSED or does in (says, CLOSED), f"{says} and {does}: {frame[:80].hex()}"
        seen[says, does] += 1
    assert min(seen[ANSWER, ANSWER], seen[NO_ANSWER, NO_ANSWER]) >= 40, seen
    # What the shim is strict about: a broker would have gone on with it.
    assert seen[CLOSED, ANSWER] > 0, seen
    assert seen[CLOSED, NO_ANSWER] > 0, seen
