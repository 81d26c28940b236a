"""Handlers without the rooms around them: a connection whose broker is the test, and partitions that answer or fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, cast

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import list_groups
from shim.api import OFFERED, ROUTES, Call, Context, Served, Services
from shim.config import HostPort, Settings
from shim.coordinator import GroupCoordinator, NotServed
from shim.following import Topics, TransactionFollower
from shim.metrics import AnswerCounts
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import Placements
from shim.runtime import Runtime, Ticket
from shim.security.authorizer import Authorizer
from shim.security.rights import Rights
from shim.upstream import Cluster, PortMap
from tests.following.believed import any_topic
from tests.migration.placed import EVERYTHING_SERVED, NOWHERE_ELSE
from tests.security.authorizers import NO_AUTHORIZER

BOOTSTRAP = 19092
HOST = "shim.example.org"
BROKERS = {node_id: HostPort(f"kafka-{node_id}", 9092) for node_id in (1, 2, 3)}
# Its port would be 19092 + 1 + 60000.
WITHOUT_PORT = 60_000
UNREACHABLE = {WITHOUT_PORT: HostPort("kafka-60000", 9092)}


class Partitions:
    """Stands for the runtime: ``states`` holds what answers for each partition, a coordinator or an error.

    A group belongs to the partition that its name ends with.
    """

    def __init__(self, states: Mapping[int, Any]) -> None:
        self._states = states
        self.num_partitions = len(states)
        self.owned = range(len(states))
        self.held: list[bool] = []
        self.in_flight = False

    def partition_of(self, group_id: str) -> int:
        return int(group_id[-1])

    def submit(
        self,
        partition: int,
        operation: Callable[[GroupCoordinator, int, Ticket], Any],
        ticket: Ticket,
        *,
        after_flight: bool = True,
    ) -> None:
        self.held.append(after_flight)
        state = self._states[partition]
        if isinstance(state, ErrorCode):
            ticket.fail(state)
            return
        try:
            answers = operation(state, 0, ticket).answers
        except NotServed:
            ticket.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        for asker, response in answers:
            asker.answer(response)

    def ask(self, partition: int, question: Callable[[GroupCoordinator], Any], ticket: Ticket) -> None:
        state = self._states[partition]
        if isinstance(state, ErrorCode):
            ticket.fail(state)
        else:
            ticket.answer(question(state))

    def durable(self, partition: int) -> GroupCoordinator | None:
        state = self._states[partition]
        return None if self.in_flight or isinstance(state, ErrorCode) else state


def _key_of(frame: bytes) -> int:
    return int.from_bytes(frame[4:6], "big")


def _no_groups(frame: bytes) -> bytes:
    version, correlation_id = int.from_bytes(frame[6:8], "big"), int.from_bytes(frame[8:12], "big")
    return list_groups.API.response_frame(version, correlation_id, list_groups.ListGroupsResponse())


class Client:
    """Stands for the client's connection. ``broker`` gives the frame that the broker answers to a frame."""

    def __init__(self, node_id: int | None = None, broker: Callable[[bytes], bytes] | None = None) -> None:
        self.client_host = "/127.0.0.1"
        self.principal = "User:alice"
        self.rights = Rights(keep_seconds=10)
        self.node_id = node_id
        self.context = Context()
        self.coordinators: dict[int, HostPort] = {}
        self.counts = AnswerCounts()
        self.software: list[tuple[str, str]] = []
        self.asked: list[bytes] = []
        self.told: list[bytes] = []
        self.given_up: list[str] = []
        self.refused: list[str] = []
        self.paused = False
        self.places: list[int] = []
        self.answered: list[bytes] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self._broker = broker

    def ask(self, frame: bytes, *, prompt: bool = True) -> Awaitable[bytes]:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._broker is None and _key_of(frame) == list_groups.API.key:  # it has none
            answer.set_result(_no_groups(frame))
            return answer
        assert self._broker is not None, "nobody expected the broker to be asked"
        self.asked.append(frame)
        answer.set_result(self._broker(frame))
        return answer

    def is_software(self, name: str, version: str) -> None:
        self.software.append((name, version))

    def place(self, count: int) -> Callable[[bytes], None]:
        self.places.append(count)
        return self.answered.append

    def follow(self, work: Coroutine[Any, Any, None]) -> None:
        self.followed = asyncio.get_running_loop().create_task(work)

    def pause_requests(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_requests(self) -> None:
        assert self.paused
        self.paused = False

    async def taken(self) -> None:
        assert self.paused
        await self.reads.wait()

    def tell(self, frame: bytes) -> None:
        self.told.append(frame)

    def misled(self) -> None:
        pass

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)

    def refuse(self, reason: str) -> None:
        self.refused.append(reason)


async def services(
    states: Mapping[int, Any] | None = None,
    brokers: Mapping[int, HostPort] = BROKERS,
    topics: Topics | None = None,
    authorizer: Authorizer = NO_AUTHORIZER,
    placements: Placements | None = None,
) -> Services:
    """Services that know ``brokers``, with ``states`` behind them. ``placements``: stand for the first contact, too."""
    cluster = Cluster([HostPort("kafka-1", 9092)], Settings(), patience_seconds=0.0)
    await cluster.take(brokers)
    runtime = cast(Runtime, Partitions(states or {}))
    return Services(
        runtime,
        cluster,
        PortMap(HOST, BOOTSTRAP),
        OFFERED,
        cast(TransactionFollower, None),
        topics or any_topic(),
        authorizer,
        cast(FirstContact, placements),
        placements or EVERYTHING_SERVED,
        NOWHERE_ELSE,
    )


def call(
    api: Api[Any, Any], version: int, frame: bytes, client: Client, respond: Callable[[bytes], None]
) -> tuple[Served, Call[Any, Any]]:
    """The request in ``frame`` as the session hands it to its handler, by way of the table."""
    served = ROUTES[api.key << 16 | version].disposition
    assert isinstance(served, Served)
    assert served.api.key == api.key
    return served, Call(served, version, frame, client, respond)


async def answer(api: Api[Any, Any], version: int, request: Any, to: Services, client: Client | None = None) -> Any:
    """What the client is answered, as it went over the wire."""
    frames: list[bytes] = []
    client = client or Client()
    served, made = call(api, version, api.request_frame(version, 7, "me", request), client, frames.append)
    pending = served.handle(to, made)
    if pending is not None:
        await pending
    assert client.given_up == []
    assert not client.paused
    (frame,) = frames
    correlation_id, response = api.parse_response(version, frame, 4)
    assert correlation_id == 7
    return response
