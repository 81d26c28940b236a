"""Topics at a real broker, ready to be written to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from protocol.errors import ErrorCode
from protocol.messages import create_topics, list_offsets
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.waiting import wait_until
from tests.wire import WireClient

_END = -1
_MADE = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
# A broker that has just started may not know yet that it is the controller, or that there is any broker.
_NOT_YET = {ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REPLICATION_FACTOR}


def make_topics(port: int, names: Iterable[str], config: Mapping[str, Mapping[str, str]] | None = None) -> None:
    """Of one partition each, and wait until the broker leads all of them."""
    names, config = list(names), config or {}
    with WireClient(port) as client:
        wait_until(lambda: _made(client, names, config))
        wait_until(lambda: not any(error for error, _ in _ends(client, names)))


def end_offset(port: int, topic: str) -> int:
    """The high watermark of partition 0."""
    with WireClient(port) as client:
        ((error, offset),) = _ends(client, [topic])
    assert error == ErrorCode.NONE
    return offset


def _made(client: WireClient, names: Iterable[str], config: Mapping[str, Mapping[str, str]]) -> bool:
    topics = tuple(
        CreatableTopic(name, 1, 1, (), tuple(CreatableTopicConfig(*each) for each in config.get(name, {}).items()))
        for name in names
    )
    answer = client.ask(create_topics.API, 2, CreateTopicsRequest(topics, timeout_ms=10_000))
    errors = {ErrorCode(topic.error_code) for topic in answer.topics}
    assert errors <= _MADE | _NOT_YET, errors
    return errors <= _MADE


def _ends(client: WireClient, names: Iterable[str]) -> list[tuple[int, int]]:
    """Error and offset."""
    asked = tuple(ListOffsetsTopic(name, (ListOffsetsPartition(0, timestamp=_END),)) for name in names)
    answer = client.ask(list_offsets.API, 1, ListOffsetsRequest(-1, topics=asked))
    return [(each.error_code, each.offset) for topic in answer.topics for each in topic.partitions]
