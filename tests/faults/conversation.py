"""Many requests of mixed kinds on one connection, each with an answer that is no other one's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import (
    fetch,
    find_coordinator,
    heartbeat,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from protocol.records.batches import encode_batch
from protocol.records.fetched import decode_fetched
from tests.wire import WireClient

TOPICS: Final = 6
_RECORD_BYTES: Final = 700
_WAIT_MS: Final = 10_000


class Question(NamedTuple):
    """``said``: what a response says that only this question's does, which is ``answer``."""

    api: Api[Any, Any]
    version: int
    request: Any
    said: Callable[[Any], object]
    answer: object


class Wrong(AssertionError):
    """An answer to another question."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """Topic number n has n + 1 records with its name in them. Group number n has offset 1000 + n for topic n."""

    topics: Sequence[str]
    groups: Sequence[str]

    def prepare(self, port: int) -> None:
        """Once, by way of the shim's port of the broker."""
        with WireClient(port, client_id="before") as client:
            for number, topic in enumerate(self.topics):
                batch = encode_batch(0, [(None, text) for text in self.records(number)], 0)
                data = produce.TopicProduceData(topic, partition_data=(produce.PartitionProduceData(0, batch),))
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # a broker names a leader before that one has begun
                while error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    done = client.ask(produce.API, 9, produce.ProduceRequest(None, -1, _WAIT_MS, (data,)))
                    error = ErrorCode(done.responses[0].partition_responses[0].error_code)
                assert error == ErrorCode.NONE
                question = self._commit(self.groups[number], number, 1000 + number)
                assert question.said(client.ask(question.api, question.version, question.request)) == topic

    def records(self, number: int) -> list[bytes]:
        return [f"{self.topics[number]}-{at}".encode().ljust(_RECORD_BYTES, b".") for at in range(number + 1)]

    def questions(self, client_id: str, seed: int) -> list[Question]:
        """In another order with another seed. Offset ``seed`` is committed for every topic, in groups of this client's
        own."""
        found = [
            make(number)
            for number in range(len(self.topics))
            for make in (
                self._fetch,
                self._list_offsets,
                self._metadata,
                self._offset_fetch,
                self._beat,
                self._find_coordinator,
                lambda n: self._commit(f"{client_id}-{n}", n, seed),
            )
        ]
        random.Random(seed).shuffle(found)
        return found

    def committed(self, port: int, client_id: str) -> list[int | None]:
        """By topic, what the client's own groups have; None: nothing."""
        offsets: list[int | None] = []
        with WireClient(port, client_id="after") as client:
            for number in range(len(self.topics)):
                wanted = offset_fetch.OffsetFetchRequestGroup(f"{client_id}-{number}", topics=None)
                answer = client.ask(offset_fetch.API, 8, offset_fetch.OffsetFetchRequest(groups=(wanted,)))
                (group,) = answer.groups
                assert group.error_code == ErrorCode.NONE
                offsets.append(group.topics[0].partitions[0].committed_offset if group.topics else None)
        return offsets

    def _fetch(self, number: int) -> Question:
        topic = self.topics[number]
        partition = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = fetch.FetchRequest(
            max_wait_ms=100, min_bytes=1, topics=(fetch.FetchTopic(topic, partitions=(partition,)),)
        )

        def said(response: fetch.FetchResponse) -> object:
            ((name, _, (found,), _),) = response.responses
            return name, [r.value for _, records in decode_fetched(found.records or b"") for r in records]

        return Question(fetch.API, 12, request, said, (topic, self.records(number)))

    def _list_offsets(self, number: int) -> Question:
        partition = list_offsets.ListOffsetsPartition(0, timestamp=-1)
        topic = list_offsets.ListOffsetsTopic(self.topics[number], (partition,))

        def said(response: list_offsets.ListOffsetsResponse) -> object:
            (found,) = response.topics
            return found.name, found.partitions[0].offset

        request = list_offsets.ListOffsetsRequest(-1, topics=(topic,))
        return Question(list_offsets.API, 7, request, said, (self.topics[number], number + 1))

    def _metadata(self, number: int) -> Question:
        topic = metadata.MetadataRequestTopic(name=self.topics[number])

        def said(response: metadata.MetadataResponse) -> object:
            return [each.name for each in response.topics]

        version = 9 + 3 * (number % 2)  # up to 9 the shim asks for the topics' ids, on its own connection
        return Question(metadata.API, version, metadata.MetadataRequest((topic,), False), said, [self.topics[number]])

    def _offset_fetch(self, number: int) -> Question:
        wanted = offset_fetch.OffsetFetchRequestGroup(self.groups[number], topics=None)

        def said(response: offset_fetch.OffsetFetchResponse) -> object:
            (group,) = response.groups
            return group.group_id, [(each.name, each.partitions[0].committed_offset) for each in group.topics]

        answer = (self.groups[number], [(self.topics[number], 1000 + number)])
        return Question(offset_fetch.API, 8, offset_fetch.OffsetFetchRequest(groups=(wanted,)), said, answer)

    def _beat(self, number: int) -> Question:
        request = heartbeat.HeartbeatRequest(self.groups[number], 1, "nobody")
        return Question(heartbeat.API, 4, request, lambda response: response.error_code, ErrorCode.UNKNOWN_MEMBER_ID)

    def _find_coordinator(self, number: int) -> Question:
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=(self.groups[number],))

        def said(response: find_coordinator.FindCoordinatorResponse) -> object:
            return [each.key for each in response.coordinators]

        return Question(find_coordinator.API, 4, request, said, [self.groups[number]])

    def _commit(self, group: str, number: int, offset: int) -> Question:
        partition = offset_commit.OffsetCommitRequestPartition(0, offset)
        topic = offset_commit.OffsetCommitRequestTopic(self.topics[number], partitions=(partition,))

        def said(response: offset_commit.OffsetCommitResponse) -> object:
            (found,) = response.topics
            assert found.partitions[0].error_code == ErrorCode.NONE
            return found.name

        return Question(
            offset_commit.API, 8, offset_commit.OffsetCommitRequest(group, topics=(topic,)), said, self.topics[number]
        )


class Conversation:
    """A connection on which all questions are sent at once; the correlation ids are their numbers."""

    def __init__(self, subjects: Subjects, port: int, client_id: str, seed: int) -> None:
        self.client_id = client_id
        self.seed = seed
        self.questions = subjects.questions(client_id, seed)
        self.answered: list[Question] = []
        self._subjects = subjects
        self._client = WireClient(port, client_id=client_id)

    def send(self) -> None:
        """A relay that ends the connection may do so meanwhile."""
        requests = b"".join(
            each.api.request_frame(each.version, number, self.client_id, each.request)
            for number, each in enumerate(self.questions)
        )
        with suppress(ConnectionError):
            self._client.socket.sendall(requests)

    def take_answers(self) -> bool:
        """Those that come before the other side ends the connection: whether it did. Raises Wrong, and TimeoutError
        where nothing comes and nothing ends."""
        for number in range(len(self.answered), len(self.questions)):
            question = self.questions[number]
            try:
                frame = self._client.receive_frame()
            except ConnectionError:
                return True
            if int.from_bytes(frame[:4], "big") != number:
                raise Wrong(f"correlation id {int.from_bytes(frame[:4], 'big')} where {number} was due")
            _, response = question.api.parse_response(question.version, frame)
            if (said := question.said(response)) != question.answer:
                raise Wrong(f"{question.api.name}: {said}, not {question.answer}")
            self.answered.append(question)
        return False

    def check_commits(self, port: int) -> None:
        """What was acknowledged is there, and nothing else than what was to be committed."""
        acknowledged = {each.answer for each in self.answered if each.api is offset_commit.API}
        for topic, offset in zip(self._subjects.topics, self._subjects.committed(port, self.client_id), strict=True):
            assert offset == self.seed or (offset is None and topic not in acknowledged), (self.client_id, topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
