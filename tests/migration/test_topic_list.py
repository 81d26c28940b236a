"""Which topics there are, where brokers do not all know the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

import pytest

from compat.registration import Partition, Partitions
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    API,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from shim.config import Settings
from shim.migration.registrar import topic_list
from shim.migration.registrar.topic_list import TopicList, listed
from shim.upstream import Cluster, ClusterTopics, Topic, UpstreamError
from tests.upstream.scripted_broker import METADATA_VERSION, ScriptedBroker, scripted_broker

ID = bytes([1]) * 16
ONE = Partition(1, 0, (1, 2), (1,))
_OURS = ("__offset_shim_offsets", "__offset_shim_history")


def _topic(name: str, partitions: int, error: int = ErrorCode.NONE, *, internal: bool = False) -> MetadataResponseTopic:
    its = tuple(MetadataResponsePartition(ErrorCode.NONE, n, 1, -1, (1, 2), (1,)) for n in range(partitions))
    return MetadataResponseTopic(error, name, ID, internal, its)


def _of(partitions: int) -> Partitions:
    return dict.fromkeys(range(partitions), ONE)


def test_internal_topics_and_those_with_errors_are_not_listed() -> None:
    answer = MetadataResponse(
        topics=(
            _topic("orders", 2),
            _topic("__consumer_offsets", 5, internal=True),
            _topic("soon", 1, ErrorCode.LEADER_NOT_AVAILABLE),
            _topic("empty", 0),
            _topic("__offset_shim_offsets", 5),
        )
    )
    assert listed(answer, _OURS) == {"orders": _of(2)}


class _Said(ClusterTopics):
    """What all brokers say together: one of them alone that has lost touch cannot be had from real ones at will."""

    def __init__(self, cluster: Cluster, said: Mapping[str, Topic | None] | None) -> None:
        super().__init__(cluster, Settings())
        self._said = said
        self.asked: list[str] = []

    def says(self, said: Mapping[str, Topic | None]) -> None:
        self._said = said

    async def all(self, names: Collection[str]) -> Mapping[str, Topic | None]:
        self.asked += names
        if self._said is None:
            raise UpstreamError("most brokers are down")
        return {name: self._said[name] for name in names if name in self._said}


def _answers(broker: ScriptedBroker, *topics: MetadataResponseTopic) -> None:
    def instead(frame: bytes) -> bytes:
        view = MetadataResponse(brokers=(MetadataResponseBroker(1, *broker.address),), topics=topics)
        return API.response_frame(METADATA_VERSION, int.from_bytes(frame[4:8], "big"), view)

    broker.spoil = instead


@pytest.mark.parametrize(
    ("seen", "said", "listed_then"),
    [
        (None, {"orders": None}, None),
        (None, {"orders": Topic(ID, 3)}, 3),
        (None, {}, 3),
        (None, None, 3),
        (2, {"orders": Topic(ID, 2)}, 2),
        (2, {"orders": Topic(ID, 3)}, 3),
        (2, {"orders": None}, None),
        (2, {}, 3),
        (2, None, 3),
    ],
)
async def test_what_one_broker_misses_is_believed_when_all_say_so(
    seen: int | None, said: Mapping[str, Topic | None] | None, listed_then: int | None
) -> None:
    async with scripted_broker() as broker:
        _answers(broker, _topic("payments", 1), *(() if seen is None else (_topic("orders", seen),)))
        cluster = Cluster([broker.address], Settings())
        asking = _Said(cluster, said)
        topics = TopicList(cluster, asking, Settings(), _OURS)
        found = await topics.look({"orders": _of(3), "payments": _of(1)})
        assert found == {"payments": _of(1)} | ({} if listed_then is None else {"orders": _of(listed_then)})
        assert asking.asked == ["orders"]
        topics.close()


async def test_what_grows_or_is_new_is_believed_at_once() -> None:
    async with scripted_broker() as broker:
        _answers(broker, _topic("orders", 4), _topic("new", 1))
        cluster = Cluster([broker.address], Settings())
        asking = _Said(cluster, None)
        topics = TopicList(cluster, asking, Settings(), _OURS)
        assert await topics.look({"orders": _of(3)}) == {"orders": _of(4), "new": _of(1)}
        assert not asking.asked
        topics.close()


async def test_of_another_cluster_nothing_is_believed() -> None:
    async with scripted_broker() as broker:
        _answers(broker, _topic("orders", 4))
        cluster = Cluster([broker.address], Settings())
        cluster.cluster_id = "another"
        topics = TopicList(cluster, _Said(cluster, {}), Settings(), _OURS)
        with pytest.raises(UpstreamError, match="is of another cluster"):
            await topics.look({})
        topics.close()


async def test_a_broker_that_hangs_is_not_waited_for_where_another_one_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which is then the one that is asked first, and the only one that there is a connection to."""
    async with scripted_broker() as hanging, scripted_broker() as other:
        hanging.spoil = lambda _: b""
        _answers(other, _topic("orders", 4))
        settings = Settings(request_timeout_ms=3_600_000)
        cluster = Cluster([hanging.address, other.address], settings)
        topics = TopicList(cluster, _Said(cluster, {}), settings, _OURS)
        for seconds in (0.01, 3600.0):
            monkeypatch.setattr(topic_list, "NEXT_AFTER_SECONDS", seconds)
            assert await asyncio.wait_for(topics.look({}), 30) == {"orders": _of(4)}
        assert topics._connections._open.keys() == {other.address}
        assert hanging.asked.qsize() == 1
        topics.close()


@pytest.mark.parametrize("seen_again", [False, True])
async def test_that_brokers_do_not_say_is_a_line_and_that_it_is_over(
    caplog: pytest.LogCaptureFixture, *, seen_again: bool
) -> None:
    caplog.set_level(logging.INFO)
    async with scripted_broker() as broker:
        _answers(broker, _topic("payments", 1))
        cluster = Cluster([broker.address], Settings())
        asking = _Said(cluster, None)
        topics = TopicList(cluster, asking, Settings(), _OURS)
        for names in (["orders", "users"], ["users", "orders"]):
            await topics.look(dict.fromkeys(names, _of(3)))
        what = "topics that one broker does not have stay registered"
        why = "orders and perhaps others, as not all brokers say: most brokers are down"
        assert caplog.messages == [f"{what} for now: {why}"]
        if seen_again:
            _answers(broker, _topic("orders", 3), _topic("users", 3))
        else:
            asking.says({"orders": None, "users": None})
        await topics.look({"orders": _of(3), "users": _of(3)})
        assert caplog.messages[1:] == [f"this is over: {what}"]
        topics.close()
