"""One request on its way through the shim, as a handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Final, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from compat.translation import Context
from protocol.api import Api
from protocol.errors import EncodeError, ErrorCode
from protocol.own.state_log import Step
from shim.api.counting import Codes, count_answer
from shim.config import HostPort
from shim.coordinator import Caller, GroupCoordinator, NotServed, Outcome, ReadablePartition
from shim.following import Topics, TransactionFollower
from shim.forwarding import Peer, Peers
from shim.metrics import AnswerCounts
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import Placements
from shim.migration.stores import Stores
from shim.runtime import Runtime
from shim.security.authorizer import AskedElsewhere, Authorizer
from shim.security.rights import Rights
from shim.upstream import ClientPorts, Cluster

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])
Coordinator = TypeVar("Coordinator", bound=ReadablePartition)
Answer = TypeVar("Answer")
P = ParamSpec("P")

# A frame is handed around with its size in front; the header begins behind it.
SIZE_FIELD = 4

_AT_ANY_STEP: Final[Mapping[str, Step | None]] = {}

# A method of the coordinator that decides one request.
GroupOperation = Callable[[GroupCoordinator, int, Caller, int, Any, Any], Outcome]


class Offered(NamedTuple):
    """Of an API, the oldest and the newest version that the shim can do. ``answers_older``: given the oldest and
    the newest that a broker has, whether those that are older than these are answered, too."""

    first: int
    last: int
    answers_older: Callable[[int, int], bool]


class LooksElsewhere(Protocol):
    """See :class:`shim.api.topics_elsewhere.TopicsElsewhere`."""

    async def looked_at(self, ids: Mapping[str, bytes], *, has_ids: bool) -> set[str]: ...

    async def looked_for(self, deleted: Iterable[str]) -> None: ...


class Services(NamedTuple):
    """What handlers work with; one for each listener. ``offered``: by API key. ``peers``: other processes that requests
    are forwarded to; None where none are."""

    runtime: Runtime
    cluster: Cluster
    ports: ClientPorts
    offered: Mapping[int, Offered]
    transactions: TransactionFollower
    topics: Topics
    authorizer: Authorizer | AskedElsewhere
    first_contact: FirstContact
    placements: Placements
    stores: Stores
    peers: Peers | None = None
    others: Sequence[Peer] = ()
    """All other processes that this one is one shim with."""
    elsewhere: LooksElsewhere | None = None
    """Has the others look at topics; None where there are none."""

    def owner_elsewhere(self, group_id: str) -> Peer | None:
        """Another process that owns the group's offsets partition, and can be asked; None for this one, and where no
        such process is known."""
        if self.peers is None:
            return None
        number = self.runtime.partition_of(group_id)
        return self.peers.owner_of(number) if self.runtime.is_owned_elsewhere(number) else None

    @property
    def brokers(self) -> Sequence[int]:
        """The node ids of the brokers that clients can be told of."""
        return [node_id for node_id in self.cluster.brokers if self.ports.has(node_id)]


class Connection(Protocol):
    """The client connection that a request came on."""

    @property
    def client_host(self) -> str:
        """In Kafka's form, ``/127.0.0.1``."""

    @property
    def principal(self) -> str:
        """Who the broker has accepted, `User:alice`, for history and logs; "" where it has asked nobody."""

    @property
    def node_id(self) -> int | None:
        """The broker whose port the client came to; None for bootstrap."""

    @property
    def rights(self) -> Rights:
        """What the cluster has said that this client may do."""

    @property
    def context(self) -> Context:
        """What is remembered of an old client, from one of its requests to the next."""

    @property
    def coordinators(self) -> dict[int, HostPort]:
        """By offsets partition, where it was told to find the coordinator."""

    @property
    def counts(self) -> AnswerCounts:
        """Of what the shim itself answers, on all connections."""

    def is_software(self, name: str, version: str) -> None:
        """So the client has said."""

    def ask(self, frame: bytes, *, prompt: bool = True) -> Awaitable[bytes]:
        """Send a request to the broker behind this connection, as this client; gives the response's frame.
        ``prompt``: the broker has no reason to keep it back.

        Raises :class:`ConnectionError` when the broker goes away; the client's connection is closed then.
        """

    def tell(self, frame: bytes) -> None:
        """Likewise, a request that has no response."""

    def pause_requests(self) -> None:
        """Take no further request of this connection until :meth:`resume_requests`: this one is not decided yet."""

    def resume_requests(self) -> None: ...

    async def taken(self) -> None:
        """Wait until the client has taken all that was answered, but for what its transport may hold (64 KiB). For who
        has paused the requests, and answered."""

    def give_up(self, reason: str) -> None:
        """Close the connection: one of its requests cannot be answered."""

    def misled(self) -> None:
        """The client was told that its group is not here. Where the broker behind this connection stands at another
        shim, it was led here by who did not know that yet, and would stay: most keep a connection for as long as it
        lasts, and know it by the broker's node id."""

    def refuse(self, reason: str) -> None:
        """Take no more requests, and close when those before are answered: the client is at fault."""


class OrderedConnection(Connection, Protocol):
    """One on which several requests can be answered at once."""

    def place(self, count: int) -> Callable[[bytes], None]:
        """The next place in the order of responses, of that many; gives what their frames are to be handed to."""

    def follow(self, work: Coroutine[Any, Any, None]) -> None:
        """Have this done, as what a handler gives; it ends with the connection."""


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """How requests of an API are answered. ``failure``: the response that says an error. ``codes``: see
    :data:`shim.api.counting.Codes`."""

    api: Api[Any, Any]
    handle: Callable[[Services, Call[Any, Any]], Coroutine[Any, Any, None] | None]
    failure: Callable[[Call[Any, Any], ErrorCode], Any]
    codes: Codes


class Call(Generic[Request, Response]):
    """A request that the shim answers. It is the ticket that the runtime answers or fails, once."""

    __slots__ = (
        "_amend", "_api", "_counted", "_header", "_held", "_respond", "_served", "_steps", "connection", "request",
        "version",
    )  # fmt: skip

    def __init__(
        self, served: Served, version: int, frame: bytes, connection: Connection, respond: Callable[[bytes], None]
    ) -> None:
        """Raises :class:`protocol.errors.DecodeError` for a malformed request."""
        # The frame is not kept: a request may be parked for minutes, and its decoded form says all.
        self._api: Api[Request, Response] = served.api
        self._header, self.request = self._api.parse_request(version, frame, SIZE_FIELD)
        self.version = version
        self.connection = connection
        self._served = served
        self._respond = respond
        self._amend: Callable[[Response], Response] | None = None
        self._held: Callable[[Response], None] | None = None
        self._counted: tuple[Response, ...] = ()
        self._steps = _AT_ANY_STEP

    @property
    def correlation_id(self) -> int:
        return self._header.correlation_id

    @property
    def caller(self) -> Caller:
        return Caller(self._header.client_id or "", self.connection.client_host, self.connection.principal)

    def decide(
        self, services: Services, group_id: str, operation: GroupOperation, *, after_flight: bool = True
    ) -> None:
        """Have the group's coordinator decide this request."""
        caller = self.caller
        services.runtime.submit(
            services.runtime.partition_of(group_id),
            self.at_its_step(
                group_id,
                lambda coordinator, now, ticket: operation(
                    coordinator, now, caller, self.version, self.request, ticket
                ),
            ),
            self,
            after_flight=after_flight,
        )

    def decided_at(self, steps: Mapping[str, Step | None]) -> None:
        """What there is of these groups in other places, and who waits for what is to be there, goes by their steps:
        one that has gone on to another by the time that this is decided is refused for now. What was said before
        stays."""
        self._steps = {**steps, **self._steps}

    def at_its_step(
        self, group_id: str, asked: Callable[Concatenate[Coordinator, P], Answer]
    ) -> Callable[Concatenate[Coordinator, P], Answer]:
        """What is asked of the group's coordinator, which raises NotServed where the group is at another step."""
        if group_id not in self._steps:
            return asked
        step = self._steps[group_id]

        def at_that_step(coordinator: Coordinator, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
            if coordinator.step_of(group_id) is not step:
                raise NotServed(group_id)
            return asked(coordinator, *args, **kwargs)

        return at_that_step

    def ask_broker(self, version: int | None = None, request: Request | None = None) -> Awaitable[bytes]:
        """The frame that the broker answers to this request, in ``version`` if that is given; or to ``request`` in its
        place.

        Awaiting it raises :class:`ConnectionError`.

        To be called before the handler returns: the broker must get this request before what the client sent behind it,
        or its answer would be stuck behind a response that waits for this one.
        """
        return self.ask_as_client(
            self._api, self.version if version is None else version, self.request if request is None else request
        )

    def ask_as_client(self, api: Api[Any, Any], version: int, request: Any) -> Awaitable[bytes]:
        """The frame that the broker answers to another request, sent as this client.

        Like :meth:`ask_broker`, or while the connection's requests are paused.
        """
        correlation_id, client_id = self._header.correlation_id, self._header.client_id
        return self.connection.ask(api.request_frame(version, correlation_id, client_id, request))

    def broker_frame(self, version: int, request: Any) -> bytes:
        """Another request of this API, as this client, for the broker."""
        return self._api.request_frame(version, self._header.correlation_id, self._header.client_id, request)

    def parse_response(self, version: int, frame: bytes) -> Response:
        """What a broker has answered to a request of this API. Raises DecodeError."""
        return self._api.parse_response(version, frame, SIZE_FIELD)[1]

    def amend(self, amended: Callable[[Response], Response]) -> None:
        """Have the response changed before it is sent: a part of the request was answered elsewhere. Where that was
        said before, it is changed by this first: the request was divided once more."""
        before = self._amend
        self._amend = amended if before is None else lambda response: before(amended(response))

    @property
    def is_amended(self) -> bool:
        return self._amend is not None

    def counted_elsewhere(self, response: Response) -> None:
        """What the response is made of: another shim or worker has decided it, and counted it."""
        self._counted = (*self._counted, response)

    def hold(self, held: Callable[[Response], None]) -> None:
        """Have the next response handed over instead of sent, for whoever takes it to answer with in time."""
        self._held = held

    def answer(self, response: Response) -> None:
        """Never raises: whoever answers has others to answer too."""
        if self._held is not None:
            held, self._held = self._held, None
            held(response)
            return
        if self._amend is not None:
            response = self._amend(response)
        try:
            frame = self._api.response_frame(self.version, self.correlation_id, response)
        except EncodeError as error:
            self.connection.give_up(f"a response of {self._api.name} cannot be encoded: {error}")
        else:
            count_answer(self.connection.counts, self._api.key, self._served.codes, response, elsewhere=self._counted)
            self._respond(frame)

    def answer_frame(self, frame: bytes) -> None:
        """Answer with a whole frame, as it is."""
        self._respond(frame)

    def fail(self, error: ErrorCode) -> None:
        self.answer(self._served.failure(self, error))
        if error is ErrorCode.NOT_COORDINATOR:
            self.connection.misled()


class Part:
    """The ticket of one part of a request that is decided in several places (groups, partitions)."""

    __slots__ = ("_done", "_failure")

    def __init__(self, done: Callable[[Any], None], failure: Callable[[ErrorCode], Any]) -> None:
        self._done = done
        self._failure = failure

    def answer(self, response: Any) -> None:
        self._done(response)

    def fail(self, error: ErrorCode) -> None:
        self._done(self._failure(error))


class Gather:
    """Collects the answers of ``count`` parts, by position, and hands them over when all are there."""

    __slots__ = ("_answers", "_finish", "_missing")

    def __init__(self, count: int, finish: Callable[[list[Any]], None]) -> None:
        self._answers: list[Any] = [None] * count
        self._missing = count
        self._finish = finish
        if not count:
            finish([])

    def part(self, position: int, failure: Callable[[ErrorCode], Any]) -> Part:
        def done(answer: Any) -> None:
            self._answers[position] = answer
            self._missing -= 1
            if not self._missing:
                self._finish(self._answers)

        return Part(done, failure)
