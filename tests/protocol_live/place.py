"""Where the scenarios play: one broker, asked over a plain socket, and what has to stand there before."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from protocol.api import Api
from protocol.apis import APIS
from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.headers import decode_response_header
from protocol.messages import (
    add_partitions_to_txn,
    api_versions,
    find_coordinator,
    init_producer_id,
    join_group,
    metadata,
    produce,
    sync_group,
)
from protocol.records.batches import Record, encode_records
from protocol.records.fetched import decode_fetched
from protocol.records.message_sets import encode_message_set
from protocol.wire import ZERO_UUID
from tests.waiting import wait_until
from tests.wire import WireClient

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])

GROUP, TRANSACTION, SHARE = 0, 1, 2  # key types of FindCoordinator

_TIMEOUT_S: Final = 30.0

# What a broker may say for a moment after something was made.
_NOT_YET: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INVALID_REPLICATION_FACTOR,  # of a new topic, while 3.9 does not know of its one broker
}

# By API key: the oldest and newest version that 0.8.2 has, which cannot be asked for them. Source: Kafka 0.8.2.2.
_WITHOUT_API_VERSIONS: Final = {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (0, 0), 8: (0, 1), 9: (0, 1), 10: (0, 0)}


class Member(NamedTuple):
    """The one member of a stable group."""

    group: str
    id: str
    generation: int
    metadata: bytes
    assignment: bytes


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass
class Place:
    """One broker. `accepted` are the (API key, version) pairs whose answers it gave, to the last byte as expected.

    At the end no transaction is left open: groups in the same partition of the broker's log would wait for it.
    """

    port: int
    release: str
    accepted: set[tuple[int, int]] = field(default_factory=set)
    transactional_ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = WireClient(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    def abort_transactions(self) -> None:
        """Of those that were begun here, what is open yet."""
        if self.transactional_ids:
            with Place(self.port, self.release) as another:  # this connection may have ended with the test
                version = another.newest(init_producer_id.API)
                for each in self.transactional_ids:
                    another.new_producer(version, each)

    def ask(self, api: Api[Request, Response], version: int, request: Request) -> Response:
        """The answer, of which no byte is left over, and which we would have written just so."""
        sent = self.client.send(api, version, request)
        frame = self.client.receive_frame()
        header, pos = decode_response_header(api.response_header_version(version), frame)
        assert header.correlation_id == sent
        response, end = api.decode_response(version, frame, pos)
        assert end == len(frame)
        assert api.encode_response(version, response) == frame[pos:]
        self.accepted.add((api.key, version))
        return response

    def ask_until(
        self,
        api: Api[Request, Response],
        version: int,
        request: Request,
        error_of: Callable[[Response], int],
        expected: ErrorCode = ErrorCode.NONE,
    ) -> Response:
        """Ask again for as long as the error is one of those that pass by themselves; then it must be `expected`."""

        def ask() -> Response | None:
            return None if error_of(response := self.ask(api, version, request)) in _NOT_YET else response

        response = wait_until(ask, lambda: ErrorCode.for_code(error_of(self.ask(api, version, request))).name)
        error = error_of(response)
        assert error == expected, f"{error}: {ErrorCode.for_code(error).name}"
        return response

    def advertised(self) -> dict[int, tuple[int, int]]:
        """By API key: the oldest and the newest version that this broker says it has."""
        if self.release == "kafka-0.8.2.2":
            return _WITHOUT_API_VERSIONS
        answer = self.ask(api_versions.API, 0, api_versions.ApiVersionsRequest())
        return {key: (oldest, newest) for key, oldest, newest, _ in answer.api_keys}

    def newest(self, api: Api[Any, Any], at_most: int = 99) -> int:
        """The newest version that both sides have."""
        return min(at_most, api.versions[1], self.advertised()[api.key][1])

    def new_topic(self, name: str = "") -> str:
        """A topic of one partition, made as the oldest clients make it: by asking for it (all brokers allow that)."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        request = metadata.MetadataRequest((metadata.MetadataRequestTopic(name=name),))

        def error_of(answer: metadata.MetadataResponse) -> int:
            (topic,) = answer.topics
            if topic.error_code:
                return topic.error_code
            (partition,) = topic.partitions
            return partition.error_code

        self.ask_until(metadata.API, 0, request, error_of)
        return name

    def topic_id(self, name: str) -> bytes:
        request = metadata.MetadataRequest((metadata.MetadataRequestTopic(name=name),))
        (topic,) = self.ask_until(metadata.API, 12, request, lambda answer: answer.topics[0].error_code).topics
        assert topic.topic_id != ZERO_UUID
        return topic.topic_id

    def send(self, topic: str, version: int, records: bytes) -> int:
        """Produce to partition 0; its base offset."""
        partition = produce.PartitionProduceData(0, records)
        data = (
            produce.TopicProduceData(topic_id=self.topic_id(topic), partition_data=(partition,))
            if version >= 13
            else produce.TopicProduceData(topic, partition_data=(partition,))
        )
        request = produce.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(data,))
        answer = self.ask_until(
            produce.API, version, request, lambda response: response.responses[0].partition_responses[0].error_code
        )
        (topic_answer,) = answer.responses
        assert (topic_answer.name or topic_answer.topic_id) == (data.name or data.topic_id)
        (found,) = topic_answer.partition_responses
        return found.base_offset

    def filled_topic(self) -> tuple[str, list[Record]]:
        """A topic with three records in its one partition, in the newest format that the broker takes."""
        topic = self.new_topic()
        version = self.newest(produce.API, 9)
        records = some_records(version)
        assert self.send(topic, version, as_written(records, version)) == 0
        return topic, records

    def new_group(self) -> str:
        """A group id whose coordinator is ready."""
        group = f"group-{uuid.uuid4().hex[:12]}"
        request = find_coordinator.FindCoordinatorRequest(group)
        self.ask_until(find_coordinator.API, 0, request, lambda response: response.error_code)
        return group

    def join(self, version: int, group: str) -> tuple[join_group.JoinGroupResponse, bytes]:
        """Join a group as its first member; the answer, and the subscription that was sent."""
        subscription = encode_subscription(ConsumerProtocolSubscription(("topic",), b"user data"), 0)
        request = join_group.JoinGroupRequest(
            group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(
                join_group.JoinGroupRequestProtocol("range", subscription),
                join_group.JoinGroupRequestProtocol("roundrobin", b""),
            ),
            reason="a test",
        )
        if version >= 4:  # KIP-394
            refused = self.ask_until(
                join_group.API, version, request, lambda response: response.error_code, ErrorCode.MEMBER_ID_REQUIRED
            )
            assert refused.member_id
            request = request._replace(member_id=refused.member_id)
        answer = self.ask_until(join_group.API, version, request, lambda response: response.error_code)
        return answer, subscription

    def sync(self, version: int, group: str, joined: join_group.JoinGroupResponse) -> bytes:
        """The assignment that the leader made for itself, as the coordinator gave it back."""
        assignment = encode_assignment(ConsumerProtocolAssignment((TopicPartition("topic", (0, 1)),)), 0)
        request = sync_group.SyncGroupRequest(
            group,
            joined.generation_id,
            joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(sync_group.SyncGroupRequestAssignment(joined.member_id, assignment),),
        )
        answer = self.ask(sync_group.API, version, request)
        assert answer.error_code == 0
        if version >= 5:
            assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
        assert answer.assignment == assignment
        return assignment

    def new_member(self) -> Member:
        group = self.new_group()
        joined, subscription = self.join(self.newest(join_group.API), group)
        assignment = self.sync(self.newest(sync_group.API), group, joined)
        return Member(group, joined.member_id, joined.generation_id, subscription, assignment)

    def new_producer(self, version: int, transactional_id: str | None = None) -> tuple[int, int]:
        """A producer id and its epoch."""
        request = init_producer_id.InitProducerIdRequest(transactional_id, 60_000)
        answer = self.ask_until(init_producer_id.API, version, request, lambda response: response.error_code)
        assert answer.producer_id >= 0
        assert answer.producer_epoch >= 0
        return answer.producer_id, answer.producer_epoch

    def new_transaction(self) -> Transaction:
        """A transactional id with its producer; no transaction is open."""
        transactional_id = f"transaction-{uuid.uuid4().hex[:12]}"
        request = find_coordinator.FindCoordinatorRequest(transactional_id, TRANSACTION)
        self.ask_until(find_coordinator.API, 1, request, lambda response: response.error_code)
        self.transactional_ids.append(transactional_id)
        version = self.newest(init_producer_id.API)
        return Transaction(transactional_id, *self.new_producer(version, transactional_id))

    def begin(self, transaction: Transaction, topic: str, version: int = 3) -> None:
        """Open a transaction with partition 0 of a topic."""
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction.transactional_id,
            v3_and_below_producer_id=transaction.producer_id,
            v3_and_below_producer_epoch=transaction.producer_epoch,
            v3_and_below_topics=(add_partitions_to_txn.AddPartitionsToTxnTopic(topic, (0,)),),
        )

        def error_of(response: add_partitions_to_txn.AddPartitionsToTxnResponse) -> int:
            ((name, ((index, error, _),), _),) = response.results_by_topic_v3_and_below
            assert (name, index) == (topic, 0)
            return error

        self.ask_until(add_partitions_to_txn.API, version, request, error_of)


def magic_of(produce_version: int) -> int:
    """The newest record format that this version of Produce carries, as Kafka's own clients send it."""
    return 0 if produce_version < 2 else 1 if produce_version == 2 else 2


def some_records(produce_version: int) -> list[Record]:
    timestamps = [-1] * 3 if magic_of(produce_version) == 0 else [1_700_000_000_000 + n for n in range(3)]
    return [Record(b"key %d" % n, b"value %d" % n, (), time, n) for n, time in enumerate(timestamps)]


def as_written(records: list[Record], produce_version: int) -> bytes:
    magic = magic_of(produce_version)
    return encode_records(records) if magic == 2 else encode_message_set(records, magic)


def as_read(data: bytes | None) -> list[Record]:
    """The records of a Fetch response, in whatever format they are."""
    return [record for _, records in decode_fetched(data or b"") for record in records]


Scenario = Callable[[Place, int], None]
SCENARIOS: dict[int, Scenario] = {}
"""By API key: asks a broker something worth asking in the version given, and checks the answer."""


def scenario(api: Api[Any, Any]) -> Callable[[Scenario], Scenario]:
    def register(function: Scenario) -> Scenario:
        assert api.key in APIS
        assert api.key not in SCENARIOS
        SCENARIOS[api.key] = function
        return function

    return register
