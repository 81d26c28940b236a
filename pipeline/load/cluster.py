"""What a load asks of the cluster, through the shim: topics, offsets, and the group. Nothing of it is a consumer.

A group is committed to as a simple consumer does it, without being a member (generation -1): the coordinator refuses
that where the group has members.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError, UnknownMemberIdError
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Name

from pipeline.errors import NotDone
from pipeline.kafka_admin import admin_of
from pipeline.load.offsets import Offsets, TopicPartition

_GIVE_UP_S: Final = 60.0
_AGAIN_S: Final = 0.2
_NO_ID: Final = "00000000-0000-0000-0000-000000000000"
_IDLE: Final = frozenset({"Empty", "Dead", ""})
_SHOWN: Final = 3

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Topics:
    """``topic_ids``: empty text for brokers that have none (before 2.8)."""

    cluster_id: str
    topic_ids: Mapping[str, str]
    partitions: tuple[TopicPartition, ...]


class ClusterOfGroup:
    """The cluster at ``bootstrap_servers``, and one group of it.

    What may pass (a coordinator that is loading, a leader that moves) is asked again for a minute. Raises NotDone with
    one line for everything else. ``settings``: of kafka-python's client.
    """

    def __init__(self, bootstrap_servers: str, group: str, settings: Mapping[str, Any]) -> None:
        self.group = group
        self._bootstrap_servers = bootstrap_servers
        self._settings = settings

    def topics(self, names: Iterable[str]) -> Topics:
        chosen = sorted(set(names))

        def ask(admin: KafkaAdminClient) -> Topics:
            described = {topic["name"]: topic for topic in admin.describe_topics(chosen)}
            missing = [name for name in chosen if name not in described or not described[name]["partitions"]]
            if missing:
                raise NotDone(f"topic {', '.join(missing)} does not exist, or may not be described")
            cluster_id = admin.describe_cluster().get("cluster_id") or ""
            return Topics(
                cluster_id,
                {name: _topic_id(described[name]) for name in chosen},
                tuple(
                    TopicPartition(name, partition["partition_index"])
                    for name in chosen
                    for partition in sorted(described[name]["partitions"], key=lambda each: each["partition_index"])
                ),
            )

        return self._asked("looking up topics", ask)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Of records that read_committed sees: behind the last one there is nothing, or a transaction is open."""
        return self._offsets(partitions, OffsetSpec.LATEST)

    def first_since(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """Of the first record with that timestamp or a later one; -1 where there is none."""
        return self._offsets(partitions, timestamp_ms)

    def _offsets(self, partitions: Iterable[TopicPartition], spec: int) -> dict[TopicPartition, int]:
        asked = {Name(*at): spec for at in partitions}

        def ask(admin: KafkaAdminClient) -> dict[TopicPartition, int]:
            found = admin.list_partition_offsets(asked, isolation_level="read_committed")
            offsets = {TopicPartition(at.topic, at.partition): its for at, its in found.items()}
            return {at: -1 if its is None else its.offset for at, its in offsets.items()}

        return self._asked("looking up offsets", ask) if asked else {}

    def committed(self) -> dict[TopicPartition, int]:
        def ask(admin: KafkaAdminClient) -> dict[TopicPartition, int]:
            found = admin.list_group_offsets(self.group)[self.group]
            offsets = {TopicPartition(at.topic, at.partition): each.offset for at, each in found.items()}
            return {at: offset for at, offset in offsets.items() if offset >= 0}

        return self._asked(f"reading the offsets of group {self.group}", ask)

    def check_idle(self) -> None:
        """Raises NotDone for a group that has members: its consumers commit, too."""

        def ask(admin: KafkaAdminClient) -> Mapping[str, Any]:
            return dict(admin.describe_groups([self.group])[self.group])

        found = self._asked(f"looking at group {self.group}", ask)
        members = [str(member["client_id"]) for member in found["members"]]
        if members or found["group_state"] not in _IDLE:
            shown = ", ".join(members[:_SHOWN]) + (", …" if len(members) > _SHOWN else "")
            raise NotDone(
                f"group {self.group} is in use ({found['group_state']}, members: {shown or 'none yet'}): "
                "stop its consumers, or load with a group of its own"
            )

    def commit(self, offsets: Offsets) -> None:
        """All in one request: the coordinator has all of them then, or none."""
        asked = {Name(*at): OffsetAndMetadata(offset, "", None) for at, offset in offsets.items()}

        def ask(admin: KafkaAdminClient) -> None:
            errors = admin.alter_group_offsets(self.group, asked)
            for at, error in errors.items():
                if error is UnknownMemberIdError:
                    raise NotDone(f"group {self.group} is in use: its offsets were not committed")
                if error.errno:
                    raise error(f"{at.topic}-{at.partition}")

        if asked:
            self._asked(f"committing the offsets of group {self.group}", ask)

    def _asked(self, doing: str, ask: Callable[[KafkaAdminClient], Answer]) -> Answer:
        # A client of its own each time: one keeps a coordinator that it has found, whether it still is it or not.
        deadline = time.monotonic() + _GIVE_UP_S
        while True:
            try:
                admin = admin_of(self._bootstrap_servers, self._settings)
                try:
                    return ask(admin)
                finally:
                    admin.close()
            except KafkaError as error:
                # A time-out has been waited for already.
                passing = error.retriable and not isinstance(error, KafkaTimeoutError)
                if not passing or time.monotonic() > deadline:
                    raise NotDone(f"{doing} at {self._bootstrap_servers}: {error}") from error
                time.sleep(_AGAIN_S)  # nobody tells when a coordinator has loaded


def _topic_id(described: Mapping[str, Any]) -> str:
    found = str(described.get("topic_id") or "")
    return "" if found == _NO_ID else found
