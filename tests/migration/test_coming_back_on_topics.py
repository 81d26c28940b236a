"""As test_coming_back, with the log on topics: what is kept stays kept where the partition goes to another shim, and
comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.migration.test_changing_hands import Administered, administered
from tests.waiting import wait_until

_SAYS: Final = "the cluster has other offsets than were loaded here, and keeps them: "


@contextmanager
def _client(at: str, group: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": at, "group.id": group, "enable.auto.commit": "false"})
    try:
        yield consumer
    finally:
        consumer.close()


def commit_some(at: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    with _client(at, group) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, *each) for each in offsets.items()], asynchronous=False)


def committed_of_two(at: str, group: str, topic: str) -> dict[int, int]:
    with _client(at, group) as consumer:
        asked = [TopicPartition(topic, number) for number in (0, 1)]
        return {each.partition: each.offset for each in consumer.committed(asked, 20)}


def _alarm(at: Administered, group: str) -> str:
    """None of a shim that does not have the group."""
    found = at.migrate("status", group)
    groups = found.json["groups"] if found.stdout.strip().startswith("{") else []
    return "".join(str(each.get("alarm") or "") for each in groups)


def test_what_is_kept_goes_to_another_shim_and_comes_back(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    settings: dict[str, str | int] = {
        "offsets.log": "kafka",
        "offsets.log.topics.prefix": f"__{topic}",
        "offsets.topic.num.partitions": 5,
        "offsets.topic.replication.factor": 1,
    }
    cluster = broker.bootstrap_servers
    with administered(broker, tmp_path / "a", **settings) as at:
        commit_some(at.shim.bootstrap, group, topic, {0: 5, 1: 5})
        wait_until(lambda: committed_of_two(cluster, group, topic) == {0: 5, 1: 5}, "it does not arrive")
    commit_some(cluster, group, topic, {0: 17, 1: 17})
    with ExitStack() as shims:
        both = {name: shims.enter_context(administered(broker, tmp_path / name, **settings)) for name in "ab"}
        wait_until(lambda: any(_SAYS in _alarm(each, group) for each in both.values()), "nobody says so")
        first = next(each for each in both.values() if _SAYS in _alarm(each, group))
        (other,) = (each for each in both.values() if each is not first)
        with hung(first.shim.pid):
            wait_until(lambda: _SAYS in _alarm(other, group), "the other one does not say so", 60)
            assert committed_of_two(cluster, group, topic) == {0: 17, 1: 17}
            assert committed_of_two(other.shim.bootstrap, group, topic) == {0: 5, 1: 5}
            assert other.migrate("rollback", group).status == 1
            commit_some(other.shim.bootstrap, group, topic, {0: 6})
            wait_until(lambda: committed_of_two(cluster, group, topic) == {0: 6, 1: 17}, "it does not arrive")
            assert f"{topic}-0 (" not in _alarm(other, group)
        assert other.shim.stop() == 0
        wait_until(lambda: f"keeps them: {topic}-1 (5 here, 17 there); " in _alarm(first, group), "it is forgotten", 60)
        assert committed_of_two(first.shim.bootstrap, group, topic) == {0: 6, 1: 5}
        assert committed_of_two(cluster, group, topic) == {0: 6, 1: 17}
        commit_some(first.shim.bootstrap, group, topic, {1: 8})
        wait_until(lambda: committed_of_two(cluster, group, topic) == {0: 6, 1: 8}, "it does not arrive")
        assert _alarm(first, group) == ""
