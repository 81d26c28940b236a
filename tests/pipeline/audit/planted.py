"""Offsets at three real places, most of them alike, with differences of each kind planted in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer
from kazoo.client import KazooClient

from protocol.messages import offset_commit
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.wire import WireClient

COMMIT_VERSION: Final = 8
RECORDS: Final = 160
"""In each partition's log."""
_UNDER_WAY: Final = 32


class Kind(NamedTuple):
    """What each place has, beside the offset that they would be alike with (None: nothing; bytes: that, in ZooKeeper),
    and the verdicts of zookeeper/log, upstream/log and zookeeper/upstream, the steps not being known."""

    zookeeper: int | bytes | None
    log: int | None
    upstream: int | None
    verdicts: tuple[str | None, str | None, str | None]


ALIKE: Final = Kind(0, 0, 0, ("equal", "equal", None))
KINDS: Final[Mapping[str, Kind]] = {
    "zookeeper behind": Kind(-1, 0, 0, ("behind", "equal", None)),
    "zookeeper ahead": Kind(2, 0, 0, ("ahead", "equal", None)),
    "zookeeper missing": Kind(None, 0, 0, ("missing", "equal", None)),
    "upstream behind": Kind(0, 0, -3, ("equal", "behind", None)),
    "upstream ahead": Kind(0, 0, 4, ("equal", "ahead", None)),
    "upstream missing": Kind(0, 0, None, ("equal", "missing", None)),
    "log behind": Kind(5, 0, 5, ("ahead", "ahead", None)),
    "log missing": Kind(0, None, 0, ("only here", "only here", "equal")),
    "only in zookeeper": Kind(0, None, None, ("only here", None, None)),
    "only in the log": Kind(None, 0, None, ("missing", "missing", None)),
    "only upstream": Kind(None, None, 0, (None, "only here", None)),
    "no number": Kind(b"a lot", 0, 0, ("unreadable", "equal", None)),
    "negative": Kind(b"-1", 0, 0, ("missing", "equal", None)),
}
"""By name."""

At = tuple[str, int]
"""Group and partition."""


class Planted:
    """Of ``groups`` with ``partitions`` each; every ``every``-th differs, of one kind after the other."""

    def __init__(self, groups: Sequence[str], topic: str, partitions: int, every: int) -> None:
        self.groups = groups
        self.topic = topic
        self.partitions = partitions
        self.kinds: dict[At, Kind] = {}
        names = list(KINDS)
        for number in range(0, len(groups) * partitions, every):
            self.kinds[groups[number // partitions], number % partitions] = KINDS[names[number // every % len(names)]]

    def kind(self, at: At) -> Kind:
        return self.kinds.get(at, ALIKE)

    def offset(self, at: At) -> int:
        """The one that the places would be alike with."""
        return 100 + at[1] % 50

    def expected(self) -> dict[At, tuple[Any, ...]]:
        """Of each partition what the table is to say: the offsets, then the verdicts."""
        return {
            (group, number): self._row((group, number)) for group in self.groups for number in range(self.partitions)
        }

    def lag(self) -> int:
        """Of all of them, from where the log, else the cluster, else ZooKeeper has them."""
        return sum(
            RECORDS - next(each for each in (log, upstream, zookeeper) if each is not None)
            for zookeeper, log, upstream, *_ in self.expected().values()
        )

    def differing(self) -> set[At]:
        return set(self.kinds)

    def _row(self, at: At) -> tuple[Any, ...]:
        kind, offset = self.kind(at), self.offset(at)
        zookeeper = None if isinstance(kind.zookeeper, bytes) else kind.zookeeper
        offsets = [None if each is None else offset + each for each in (zookeeper, kind.log, kind.upstream)]
        return (*offsets, *kind.verdicts)

    # -- into the places

    def put(self, zookeeper: KazooClient, shim_port: int, broker_port: int) -> None:
        """The log first: a group that the cluster knew would be the cluster's."""
        self._produce(f"127.0.0.1:{broker_port}")
        for port, place in ((shim_port, "log"), (broker_port, "upstream")):
            with WireClient(port) as client:
                for group in self.groups:
                    self._commit(client, group, place)
        self._write(zookeeper)

    def _produce(self, bootstrap: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(self.partitions):
            for _ in range(RECORDS):
                producer.produce(self.topic, b"", partition=number)
            producer.poll(0)
        assert producer.flush(60.0) == 0

    def _commit(self, client: WireClient, group: str, place: str) -> None:
        wanted = ((number, getattr(self.kind((group, number)), place)) for number in range(self.partitions))
        partitions = tuple(
            OffsetCommitRequestPartition(number, self.offset((group, number)) + beside)
            for number, beside in wanted
            if beside is not None
        )
        request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(self.topic, partitions=partitions),))
        answer = client.ask(offset_commit.API, COMMIT_VERSION, request)
        refused = [each for topic in answer.topics for each in topic.partitions if each.error_code]
        assert not refused, refused[:3]

    def _write(self, zookeeper: KazooClient) -> None:
        zookeeper.ensure_path("/consumers")
        under_way: list[Any] = []
        for group in self.groups:
            made = zookeeper.transaction()
            for path in (f"/consumers/{group}", f"/consumers/{group}/offsets"):
                made.create(path)
            made.create(f"/consumers/{group}/offsets/{self.topic}")
            for number, data in self._znodes(group):
                made.create(f"/consumers/{group}/offsets/{self.topic}/{number}", data)
            under_way.append(made.commit_async())
            if len(under_way) >= _UNDER_WAY:
                _done(under_way)
        _done(under_way)

    def _znodes(self, group: str) -> Iterator[tuple[int, bytes]]:
        for number in range(self.partitions):
            beside = self.kind((group, number)).zookeeper
            if beside is not None:
                at = self.offset((group, number))
                yield number, beside if isinstance(beside, bytes) else b"%d" % (at + beside)


def _done(under_way: list[Any]) -> None:
    for each in under_way:
        failed = [result for result in each.get(timeout=60) if isinstance(result, Exception)]
        assert not failed, failed
    under_way.clear()
