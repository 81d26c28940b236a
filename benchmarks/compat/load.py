"""What an old client sends and gets, over and over: message sets of 1 MB."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import fetch, produce
from protocol.records.batches import Compression, Record, encode_records
from protocol.records.message_sets import decode_message_set, encode_message_set

HOST: Final = "127.0.0.1"
VERSION: Final = 2
"""Of Produce and Fetch: the last with message sets whose clients are not told of record batches (0.10)."""
RECORDS: Final = 1000
BYTES: Final = 1000
SETS: Final = 8
"""Different ones, so that nobody finds the same bytes twice in a row."""
_NOW: Final = 1_795_000_000_000
_MAX_BYTES: Final = 1_300_000


class Carried(NamedTuple):
    """``bytes``: of the records' values."""

    bytes: int
    seconds: float


def values(seed: int) -> list[bytes]:
    """Half of each is noise, half the words of a log line."""
    rng = random.Random(seed)
    words = b" level=INFO thread=main message=request handled in time status=200" * 10
    return [rng.randbytes(BYTES // 2) + words[: BYTES - BYTES // 2] for _ in range(RECORDS)]


def records(seed: int) -> list[Record]:
    return [Record(b"%08d" % n, value, (), _NOW + n, n) for n, value in enumerate(values(seed))]


def old_sets(codec: Compression) -> list[bytes]:
    return [encode_message_set(records(seed), 1, compression=codec) for seed in range(SETS)]


def batches(codec: Compression) -> list[bytes]:
    """The same in the newer format."""
    return [encode_records(records(seed), compression=codec) for seed in range(SETS)]


def produce_frame(version: int, topic: str, data: bytes) -> bytes:
    partition = produce.PartitionProduceData(0, data)
    asked = produce.ProduceRequest(None, 1, 30_000, (produce.TopicProduceData(topic, partition_data=(partition,)),))
    return produce.API.request_frame(version, 1, "old", asked)


def produced(version: int, frame: bytes) -> None:
    """Raises RuntimeError where the response is an error."""
    for topic in produce.API.parse_response(version, frame)[1].responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise RuntimeError(f"not taken: {ErrorCode(partition.error_code).name}")


def fetch_frame(topic: str, number: int) -> bytes:
    """For the set with that number."""
    partition = fetch.FetchPartition(0, fetch_offset=number * RECORDS, partition_max_bytes=_MAX_BYTES)
    asked = fetch.FetchRequest(
        max_wait_ms=1000, min_bytes=1, topics=(fetch.FetchTopic(topic, partitions=(partition,)),)
    )
    return fetch.API.request_frame(VERSION, 1, "old", asked)


class Producing:
    """Each set in turn; all of it counts when it is acknowledged."""

    def __init__(self, topic: str, codec: Compression) -> None:
        self.frames = [produce_frame(VERSION, topic, data) for data in old_sets(codec)]

    def carried(self, frame: bytes) -> int:
        produced(VERSION, frame)
        return RECORDS * BYTES


class Fetching:
    """Each set in turn; as many records count as come."""

    def __init__(self, topic: str) -> None:
        self.frames = [fetch_frame(topic, number) for number in range(SETS)]
        self._counts: dict[int, int] = {}

    def carried(self, frame: bytes) -> int:
        """Answers of one size are of as many records: one of each is looked into."""
        count = self._counts.get(len(frame))
        if count is None:
            (topic,) = fetch.API.parse_response(VERSION, frame)[1].responses
            count = len(decode_message_set(topic.partitions[0].records or b"").records)
            if not count:
                raise RuntimeError("nothing was fetched")
            self._counts[len(frame)] = count
        return count * BYTES


def carry(port: int, work: Producing | Fetching, connections: int, seconds: float) -> Carried:
    """On so many connections, one request unanswered on each. Raises what a connection raises."""
    total = 0
    errors: list[BaseException] = []
    lock = threading.Lock()
    end = time.perf_counter() + seconds

    def run(first: int) -> None:
        nonlocal total
        done, number = 0, first
        try:
            with socket.create_connection((HOST, port), timeout=60) as sock:
                while time.perf_counter() < end:
                    done += work.carried(ask(sock, work.frames[number % SETS]))
                    number += 1
        except BaseException as error:
            errors.append(error)
        with lock:
            total += done

    begun = time.perf_counter()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(connections)]
    _each(threads, threading.Thread.start)
    _each(threads, threading.Thread.join)
    if errors:
        raise errors[0]
    return Carried(total, time.perf_counter() - begun)


def _each(threads: list[threading.Thread], do: Callable[[threading.Thread], None]) -> None:
    for thread in threads:
        do(thread)


def ask(sock: socket.socket, frame: bytes) -> bytes:
    """The response's frame, without its size."""
    sock.sendall(frame)
    (size,) = struct.unpack(">i", _read(sock, 4))
    return bytes(_read(sock, size))


def _read(sock: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = sock.recv_into(view)
        if not count:
            raise ConnectionError("the server has ended the connection")
        view = view[count:]
    return data
