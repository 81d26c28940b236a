"""One of the two coordinators, and what the clients of a sequence know from its answers."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, NamedTuple

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import describe_groups, join_group, offset_fetch, sync_group
from tests.differential.steps import ABSENT, NONE, OTHER, OWN, Actor, Sequence
from tests.differential.wire import Connection, NoAnswer, Response, ready

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID_SIZE = 36
_TAG = re.compile(rb"actor:(\d)")
_LOOKING = "looking"

GROUP = "<group>"
"""What every side's group is called where the two are compared."""

FORGETS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class Phase(Enum):
    """What an honest client does next: join, sync, or heartbeat."""

    OUT = "out"
    JOINED = "joined"
    IN = "in"


class Client:
    """What one actor's client knows at this side. `number` is the one in its names; see `Side.label_of`."""

    def __init__(self, number: int, plan: Actor) -> None:
        self.number = number
        self.plan = plan
        self.client_id = {"own": f"client-{number}", "shared": "client", "empty": "", "null": None}[plan.client]
        self.instance_id = f"instance-{number}" if plan.static else None
        self.phase = Phase.OUT
        self.member_id = ""
        self.old_member_ids: list[str] = []
        self.generation = -1
        self.members: tuple[str, ...] = ()  # as a leader is told of them
        self.revision = 0  # of its metadata
        self.session_timeout_ms = plan.session_timeout_ms
        self.rebalance_timeout_ms = plan.rebalance_timeout_ms
        self.joined_with_ms = (0, 0)  # these two of its last successful join
        self.protocols = plan.protocols
        self.offered: tuple[str, ...] = ()  # with its last successful join
        self.protocol_name: str | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """What makes a difference to a coordinator: clients of one kind differ in their names alone."""
        plan = self.plan._replace(client="")
        return plan, self.session_timeout_ms, self.rebalance_timeout_ms, self.joined_with_ms, self.offered

    def knows(self, member_id: str) -> None:
        """This is its member id from now on."""
        if member_id != self.member_id:
            self.forget()
            self.member_id = member_id

    def forget(self) -> None:
        if self.member_id:
            self.old_member_ids.append(self.member_id)
        self.member_id, self.phase, self.members = "", Phase.OUT, ()


class Ask(NamedTuple):
    """One request. `client`: whose member id it has."""

    api: Api[Any, Any]
    version: int
    request: Any
    client_id: str | None
    client: Client | None = None


class Pending(NamedTuple):
    """A request without an answer yet; `number` is that of its step."""

    number: int
    ask: Ask
    connection: Connection
    label: int | None


class Answer(NamedTuple):
    """`label`: of the actor whose member id the request had."""

    number: int
    ask: Ask
    label: int | None
    response: Any


class View(NamedTuple):
    """The visible state: the group as DescribeGroups shows it, all offsets of both groups. Names are normalised."""

    group: Any
    offsets: Any

    @property
    def state(self) -> str:
        return str(self.group["group_state"])

    @property
    def members(self) -> frozenset[str]:
        return frozenset(member["member_id"] for member in self.group["members"])

    @property
    def subscriptions(self) -> frozenset[str]:
        """What the members of a Stable group have told of themselves for its protocol."""
        return frozenset(repr(member["member_metadata"]) for member in self.group["members"])


class Side:
    """A coordinator at an address.

    Members are told apart by what they are called in a sequence: an actor's label. The number in an actor's names
    (client id, instance id, metadata) is its label, until the two coordinators choose different leaders, where neither
    is wrong: then two actors that are otherwise alike change labels on one side.

    Its groups are called otherwise than those of the other side, as a shim serves no group that the broker has.
    """

    def __init__(self, name: str, host: str, port: int) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.topic_ids: dict[str, bytes] = {}
        self._idle: list[Connection] = []
        self._looking = Connection(host, port)
        self.group = ""
        self.clients: list[Client] = []
        self.by_label: list[Client] = []
        self.pending: list[Pending] = []
        self._sent: list[tuple[int, Ask]] = []

    def apart(self) -> Side:
        """The same coordinator, with nothing in common but that."""
        other = Side(self.name, self.host, self.port)
        other.topic_ids = self.topic_ids
        return other

    def begin(self, sequence: Sequence, group: str) -> None:
        self.group = f"{group}-{self.name}"
        self.clients = [Client(number, plan) for number, plan in enumerate(sequence.actors)]
        self.by_label = list(self.clients)
        self.pending = []
        self._sent = []

    def group_id(self, which: str) -> str:
        return {
            OWN: self.group,
            OTHER: f"{self.group}-other",
            ABSENT: f"{self.group}-absent",
            NONE: "",
        }[which]

    # -- asking

    def send(self, number: int, ask: Ask) -> Pending:
        connection = self._idle.pop() if self._idle else Connection(self.host, self.port)
        connection.send(ask.api, ask.version, ask.client_id, ask.request)
        self._sent.append((number, ask))
        return Pending(number, ask, connection, self.label_of(ask.client))

    def receive(self, pending: Pending) -> Answer:
        """Wait for the answer. Raises NoAnswer."""
        ask = pending.ask
        try:
            response = pending.connection.receive(ask.api, ask.version)
        except NoAnswer:
            pending.connection.close()
            raise
        self._idle.append(pending.connection)
        answer = Answer(pending.number, ask, pending.label, response)
        learn(ask, response)
        return answer

    def collect(self, timeout_s: float = 0.0) -> list[Answer]:
        """The answers to pending requests that are there."""
        there = ready([pending.connection for pending in self.pending], timeout_s) if self.pending else set()
        answered = [pending for pending in self.pending if pending.connection in there]
        self.pending = [pending for pending in self.pending if pending.connection not in there]
        return [self.receive(pending) for pending in answered]

    def replaced(self, answer: Answer) -> bool:
        """Whether the member has sent another such request while this one was pending."""
        member_id = answer.ask.request.member_id
        return bool(member_id) and any(
            number > answer.number and ask.api is answer.ask.api and ask.request.member_id == member_id
            for number, ask in self._sent
        )

    def drop(self, numbers: set[int]) -> None:
        """Nobody waits for the answers of these steps any more."""
        for pending in self.pending:
            if pending.number in numbers:
                pending.connection.close()
        self.pending = [pending for pending in self.pending if pending.number not in numbers]

    def waits(self, client: Client) -> bool:
        """Whether a request with this client's member id, or of one that joins, is pending."""
        return any(pending.ask.client is client for pending in self.pending)

    # -- looking: three requests one after the other, see `running.py`

    def ask_group(self) -> None:
        self._looking.send(describe_groups.API, 5, _LOOKING, describe_groups.DescribeGroupsRequest((self.group,)))

    def see_group(self) -> describe_groups.DescribedGroup:
        """Raises NoAnswer."""
        (group,) = self._look(describe_groups.API, 5).groups
        return group

    def ask_offsets(self) -> None:
        groups = tuple(
            offset_fetch.OffsetFetchRequestGroup(self.group_id(which), topics=None) for which in (OWN, OTHER)
        )
        self._looking.send(offset_fetch.API, 8, _LOOKING, offset_fetch.OffsetFetchRequest(groups=groups))

    def see_offsets(self) -> offset_fetch.OffsetFetchResponse:
        """Raises NoAnswer."""
        return self._look(offset_fetch.API, 8)

    def _look(self, api: Api[Any, Response], version: int) -> Response:
        try:
            return self._looking.receive(api, version)
        except NoAnswer:
            self._looking.close()
            self._looking = Connection(self.host, self.port)
            raise

    # -- names

    def label_of(self, client: Client | None) -> int | None:
        return None if client is None else self.by_label.index(client)

    def owner_of(self, member_id: str) -> Client | None:
        return next((client for client in self.clients if member_id and client.member_id == member_id), None)

    def swap(self, one: int, other: int) -> None:
        self.by_label[one], self.by_label[other] = self.by_label[other], self.by_label[one]

    def plain(self, value: Any) -> Any:
        """The value in dicts and lists, with labels for names that this side alone has."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes):
            return _TAG.sub(lambda match: b"actor:%d" % self._label(int(match[1])), value)
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", None)
            if fields is None:
                return [self.plain(item) for item in value]
            return {field: self.plain(item) for field, item in zip(fields, value, strict=True)}
        return value

    def _label(self, number: int) -> int:
        return self.by_label.index(self.clients[number]) if number < len(self.clients) else number

    def _text(self, text: str) -> str:
        if self.group and self.group in text:  # a name, or a message with one in it
            return text.replace(self.group, GROUP)
        kind, dash, number = text.partition("-")
        if not dash or kind not in ("client", "instance", ""):
            prefix, made = text[: -_UUID_SIZE - 1], text[-_UUID_SIZE:]
            if prefix == "null" and _UUID.fullmatch(made):
                return f"null-{self._which(text)}"
            return text
        if number.isdigit():
            return f"{kind}-{self._label(int(number))}"
        prefix, made = text[: -_UUID_SIZE - 1], text[-_UUID_SIZE:]
        if _UUID.fullmatch(made) and text[-_UUID_SIZE - 1] == "-":
            return f"{self._text(prefix)}-{self._which(text)}"
        return text

    def _which(self, member_id: str) -> str:
        """A member id's second part: whose it is, and which of its ids; "?" while nobody has been told of it."""
        for label, client in enumerate(self.by_label):
            for position, known in enumerate([*client.old_member_ids, client.member_id]):
                if known == member_id:
                    return f"<{label}.{position}>"
        return "<?>"

    def connect(self) -> None:
        """After :meth:`close`."""
        self._idle, self._looking = [], Connection(self.host, self.port)

    def close(self) -> None:
        for connection in (*self._idle, *(pending.connection for pending in self.pending), self._looking):
            connection.close()


def learn(ask: Ask, response: Any) -> None:
    """What the client whose request it was does with the answer."""
    client = ask.client
    if client is None:
        return
    if ask.api is join_group.API:
        _joined(client, ask.request, response)
        return
    errors = errors_in(response)
    if ask.api is sync_group.API and errors == {ErrorCode.NONE}:
        client.phase = Phase.IN
    elif errors & FORGETS:
        client.forget()
    elif errors & {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}:
        # It joins again. A commit in CompletingRebalance is refused with the same error, and then it has joined.
        client.phase = Phase.OUT


def _joined(client: Client, request: join_group.JoinGroupRequest, response: join_group.JoinGroupResponse) -> None:
    error = response.error_code
    if error == ErrorCode.NONE:
        client.knows(response.member_id)
        client.phase = Phase.JOINED
        client.generation = response.generation_id
        client.protocol_name = response.protocol_name
        client.joined_with_ms = request.session_timeout_ms, request.rebalance_timeout_ms
        client.offered = tuple(protocol.name for protocol in request.protocols)
        client.members = tuple(member.member_id for member in response.members)
    elif error == ErrorCode.MEMBER_ID_REQUIRED:
        client.knows(response.member_id)
    elif error in FORGETS and request.member_id and request.member_id == client.member_id:
        client.forget()


def errors_in(response: Any) -> set[int]:
    """All error codes in a response, wherever they stand."""
    if isinstance(response, tuple):
        own = {response.error_code} if hasattr(response, "error_code") else set()
        return own.union(*(errors_in(part) for part in response))
    return set()
