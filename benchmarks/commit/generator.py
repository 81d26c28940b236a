"""The load generator, a process of its own: as many members as connections, each of a group of its own.

It does little, so as not to be what is measured: requests are encoded once and patched in place, answers are compared
as they come, and one `recv` and one `send` carry all that is there. `python -m benchmarks.commit.generator HOST PORT
CONNECTIONS` joins the groups, says so, and then takes loads as lines of JSON and answers each with a line of it.
"""

import gc
import json
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

from benchmarks.commit.wire import Frames, ask, commits, exactly, fetches
from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, join_group, sync_group

TOPIC_PARTITIONS: Final = 100

_SESSION_MS: Final = 1_800_000
_JOIN_VERSION: Final = 3  # the last one in which a member need not ask for its id first
_SYNC_VERSION: Final = 3
_FIND_VERSION: Final = 3
_START_S: Final = 60.0
_RETRY_S: Final = 0.1
_ANSWER_S: Final = 60.0
_RECEIVED_AT_ONCE: Final = 1 << 18


class Load(NamedTuple):
    """`work`: commit or fetch. Each connection always has `pipelined` requests unanswered, of `partitions` each."""

    work: str
    connections: int
    pipelined: int
    partitions: int
    seconds: float


class Carried(NamedTuple):
    """What came of a load. `p50_us` and `p99_us`: from the call that sends to the return of the one that receives.
    `generator_cpu_seconds`: processor time of this process."""

    done: int
    seconds: float
    p50_us: float
    p99_us: float
    generator_cpu_seconds: float


class Stream:
    """One connection's frames, sent and answered in a ring."""

    def __init__(self, sock: socket.socket, frames: Frames, places: int) -> None:
        self._sock = sock
        self._frames = frames
        self._places = places
        self._bytes = memoryview(frames.buffer)
        self._next = 0  # place
        self._received = 0  # bytes of the ring of answers
        self._number = 0
        self._sent: deque[tuple[float, int]] = deque()
        self.latencies: list[tuple[float, int]] = []
        """Seconds, and how many answers took them."""

    def send(self, count: int) -> None:
        """Send so many more, at most as many as there are places that wait for no answer."""
        frames, first = self._frames, self._next
        end = first + count
        for place in range(first, end):
            self._number += 1
            frames.number(place % self._places, self._number)
        data: memoryview | bytes
        if end <= self._places:
            data = self._bytes[first * frames.size : end * frames.size]
        else:
            end -= self._places
            data = b"".join((self._bytes[first * frames.size :], self._bytes[: end * frames.size]))
        self._next = end % self._places
        self._sent.append((time.perf_counter(), count))
        self._sock.sendall(data)

    def receive(self) -> int:
        """Take what is there; how many answers came to their end. Raises RuntimeError for one that is not as due."""
        data = self._sock.recv(_RECEIVED_AT_ONCE)
        now = time.perf_counter()
        frames, before = self._frames, self._received
        after = before + len(data)
        if not data or frames.responses[before:after] != data:
            raise RuntimeError(f"{data[:200]!r} where {frames.responses[before : before + 200]!r} is due")
        count = after // frames.response_size - before // frames.response_size
        self._received = after % (self._places * frames.response_size)
        missing = count
        while missing:
            sent, waiting = self._sent.popleft()
            if waiting > missing:
                self._sent.appendleft((sent, waiting - missing))
                waiting = missing
            self.latencies.append((now - sent, waiting))
            missing -= waiting
        return count


class Loaded(Protocol):
    """A connection that can carry a load."""

    sock: socket.socket

    def stream(self, load: Load) -> Stream: ...


class Member:
    """A connection, and the member of a group that it belongs to."""

    def __init__(self, host: str, port: int, number: int) -> None:
        self.sock = socket.create_connection((host, port), timeout=_ANSWER_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Of this port: the shim serves no group that the broker behind it has.
        self.group = f"billing-invoices-{port}-{number}"
        self._number = number
        self._generation = -1
        self._member_id = ""

    def join(self) -> None:
        """Raises RuntimeError when it is not let in for a minute."""
        request = join_group.JoinGroupRequest(
            self.group,
            _SESSION_MS,
            _SESSION_MS,
            protocol_type="consumer",
            protocols=(join_group.JoinGroupRequestProtocol("range", b""),),
        )
        until = time.monotonic() + _START_S
        while (joined := self._try_join(request)).error_code:
            if time.monotonic() > until:
                raise RuntimeError(f"{self.group} cannot be joined: {ErrorCode(joined.error_code).name}")
            time.sleep(_RETRY_S)
        self._generation, self._member_id = joined.generation_id, joined.member_id
        assignment = sync_group.SyncGroupRequestAssignment(self._member_id, b"")
        synced = ask(
            self.sock,
            sync_group.API,
            _SYNC_VERSION,
            sync_group.SyncGroupRequest(self.group, self._generation, self._member_id, assignments=(assignment,)),
        )
        if synced.error_code:
            raise RuntimeError(f"{self.group} cannot be synced: {ErrorCode(synced.error_code).name}")

    def _try_join(self, request: join_group.JoinGroupRequest) -> join_group.JoinGroupResponse:
        # Asking where the coordinator is makes a broker create its offsets topic.
        found = ask(self.sock, find_coordinator.API, _FIND_VERSION, find_coordinator.FindCoordinatorRequest(self.group))
        if found.error_code:
            return join_group.JoinGroupResponse(error_code=found.error_code)
        return ask(self.sock, join_group.API, _JOIN_VERSION, request)

    def stream(self, load: Load) -> Stream:
        """Fetches are of offsets that are committed here; those that follow one another are of other partitions."""
        first = self._number % TOPIC_PARTITIONS if load.partitions == 1 else 0
        if load.work == "fetch":
            places = [_partitions(first + place, load.partitions) for place in range(load.pipelined)]
            self._commit(sorted({partition for partitions in places for partition in partitions}))
            frames = fetches(self.group, places)
        else:
            partitions = _partitions(first, load.partitions)
            frames = commits(self.group, self._generation, self._member_id, partitions, load.pipelined)
        return Stream(self.sock, frames, load.pipelined)

    def _commit(self, partitions: list[int]) -> None:
        frames = commits(self.group, self._generation, self._member_id, partitions, 1)
        self.sock.sendall(frames.buffer)
        if exactly(self.sock, frames.response_size) != frames.responses[: frames.response_size]:
            raise RuntimeError(f"{self.group}: offsets could not be committed")


def _partitions(first: int, count: int) -> list[int]:
    return [partition % TOPIC_PARTITIONS for partition in range(first, first + count)]


def carry(members: Sequence[Loaded], load: Load) -> Carried:
    """For so many seconds every answer is followed by the next request; the last ones are waited for."""
    streams = {member.sock.fileno(): member.stream(load) for member in members[: load.connections]}
    done, unanswered = 0, len(streams) * load.pipelined
    with select.epoll() as poll:
        for fd in streams:
            poll.register(fd, select.EPOLLIN)
        begun, cpu_before = time.perf_counter(), time.process_time()
        end = begun + load.seconds
        for stream in streams.values():
            stream.send(load.pipelined)
        while unanswered:
            ready = poll.poll(_ANSWER_S)
            if not ready:
                raise RuntimeError(f"{unanswered} requests are not answered")
            goes_on = time.perf_counter() < end
            for fd, _ in ready:
                count = streams[fd].receive()
                done += count
                if not goes_on:
                    unanswered -= count
                elif count:
                    streams[fd].send(count)
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu_before
    latencies = sorted(latency for stream in streams.values() for latency in stream.latencies)
    return Carried(done, took, _percentile(latencies, done, 0.5), _percentile(latencies, done, 0.99), cpu)


def _percentile(latencies: list[tuple[float, int]], done: int, part: float) -> float:
    """In microseconds."""
    below = 0
    for latency, count in latencies:
        below += count
        if below >= done * part:
            return latency * 1e6
    raise ValueError("no latencies")


def main(host: str, port: int, connections: int) -> None:
    members = [Member(host, port, number) for number in range(connections)]
    with ThreadPoolExecutor(connections) as threads:
        list(threads.map(Member.join, members))
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(carry(members, Load(*json.loads(line)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
