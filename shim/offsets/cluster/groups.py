"""The cluster's own groups with their offsets, through the APIs that every consumer uses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

from protocol.messages import (
    delete_groups,
    describe_producers,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from protocol.offsets_log import CommittedOffset
from protocol.partition import OFFSETS_TOPIC, partition_for
from protocol.topic_partition import TopicPartition
from shim.offsets.cluster.brokers import (
    PASSES_BY_ITSELF,
    BrokerRefused,
    passes,
    raise_for,
    told,
)
from shim.offsets.cluster.coordinators import GROUPS_A_REQUEST, slices
from shim.offsets.cluster.describing import DescribedGroups
from shim.upstream.errors import UpstreamError

Committed = dict[TopicPartition, CommittedOffset]
"""The offsets of one group."""

_PARTITIONS_A_REQUEST: Final = 1000

# Newer versions name topics by id.
_NEWEST_OFFSET_FETCH: Final = 9
_NEWEST_OFFSET_COMMIT: Final = 9
_MANY_GROUPS_SINCE: Final = 8
_STABLE_SINCE: Final = 7
_LEADER_EPOCHS_SINCE: Final = 6
_LOOK_S: Final = 0.05


class RefusedPartition(NamedTuple):
    """What a broker has refused of a commit or a deletion; as text a line for an operator."""

    group: str
    at: TopicPartition
    code: int

    def __str__(self) -> str:
        return str(BrokerRefused(self.code, f"group {self.group} {self.at}"))


class ClusterGroups(DescribedGroups):
    """The groups of one cluster, with their offsets. Everything raises UpstreamError."""

    async def offsets_of(self, groups: Sequence[str], *, stable: bool = True) -> dict[str, Committed]:
        """Of each group all that it has committed; waits for transactions that are about to commit more, but for
        ``stable=False``.

        Brokers do not tell when an offset was committed, so that is now.
        """
        found: dict[str, Committed] = {}
        for its_groups in _by_coordinator(await self._coordinators.of_each(groups)).values():
            for some in slices(its_groups, GROUPS_A_REQUEST):
                await self._until_ready(partial(self._fetch_rest, some, found, stable))
        return found

    async def offsets_soon(
        self, groups: Collection[str], within_seconds: float, *, stable: bool = True
    ) -> dict[str, Committed | UpstreamError]:
        """Of each as :meth:`offsets_of`; see :meth:`at_once`."""

        async def ask(_: int, its: Sequence[str]) -> Mapping[str, Committed]:
            return await self.offsets_of(its, stable=stable)

        return await self.at_once(groups, ask, within_seconds)

    async def offsets_of_one(
        self, group: str, within_seconds: float | None = None, *, stable: bool = True
    ) -> Committed:
        """As :meth:`offsets_of`. ``within_seconds``: see :meth:`listed`."""
        if within_seconds is None:
            return (await self.offsets_of([group], stable=stable))[group]
        return told((await self.offsets_soon([group], within_seconds, stable=stable))[group])

    async def _fetch_rest(self, groups: Sequence[str], found: dict[str, Committed], stable: bool) -> None:
        """Of these what is not found yet. Where it is not believed another one is asked the next time."""
        left = [group for group in groups if group not in found]
        for node_id, its_groups in _by_coordinator(await self._coordinators.found(left)).items():
            version = await self._brokers.newest(node_id, offset_fetch.API, at_least=2, at_most=_NEWEST_OFFSET_FETCH)
            for some in slices(its_groups, GROUPS_A_REQUEST if version >= _MANY_GROUPS_SINCE else 1):
                try:
                    fetched = await self._fetch(node_id, version, some, stable)
                except UpstreamError as error:
                    if passes(error):
                        for group in some:
                            self.forget(group)
                    raise
                await self._raise_where_not_believed(node_id, some)
                found |= fetched

    async def _fetch(self, node_id: int, version: int, groups: Sequence[str], stable: bool) -> dict[str, Committed]:
        if version < _MANY_GROUPS_SINCE:
            stable = stable and version >= _STABLE_SINCE
            request = offset_fetch.OffsetFetchRequest(groups[0], topics=None, require_stable=stable)
            answer = await self._brokers.ask(node_id, offset_fetch.API, request, version=version)
            return {groups[0]: _committed(groups[0], answer.error_code, answer.topics)}
        wanted = tuple(offset_fetch.OffsetFetchRequestGroup(group, topics=None) for group in groups)
        request = offset_fetch.OffsetFetchRequest(groups=wanted, require_stable=stable)
        answer = await self._brokers.ask(node_id, offset_fetch.API, request, version=version)
        return {each.group_id: _committed(each.group_id, each.error_code, each.topics) for each in answer.groups}

    async def _raise_where_not_believed(self, node_id: int, groups: Sequence[str]) -> None:
        for error in (await self._coordinators.not_believed(node_id, groups)).values():
            raise error

    async def commit(self, group: str, offsets: Committed) -> list[str]:
        """As somebody who is no member (generation -1), which a group without members lets in. Gives a line for each
        partition that was refused."""
        return [str(each) for each in await self.try_commit(group, offsets)]

    async def try_commit(
        self, group: str, offsets: Committed, may_send: Callable[[], None] = lambda: None
    ) -> list[RefusedPartition]:
        """As :meth:`commit`; gives the partitions that were refused. ``may_send``: called right before each request is
        sent, of which many offsets are several, and raises what this is to raise where the group's are somebody else's
        by then."""
        refused: list[RefusedPartition] = []
        for some in slices(sorted(offsets.items()), _PARTITIONS_A_REQUEST):
            topics = tuple(
                offset_commit.OffsetCommitRequestTopic(topic, partitions=tuple(_to_commit(*each) for each in its))
                for topic, its in groupby(some, key=lambda each: each[0].topic)
            )
            request = offset_commit.OffsetCommitRequest(group, topics=topics)
            refused += await self._until_ready(partial(self._commit, request, may_send))
        return refused

    async def _commit(
        self, request: offset_commit.OffsetCommitRequest, may_send: Callable[[], None]
    ) -> list[RefusedPartition]:
        node_id = (await self._coordinators.found([request.group_id]))[request.group_id]
        version = await self._brokers.newest(node_id, offset_commit.API, at_least=2, at_most=_NEWEST_OFFSET_COMMIT)
        answer = await self._brokers.ask(node_id, offset_commit.API, request, version=version, may_send=may_send)
        answers = ((t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions)
        try:
            return _refused(request.group_id, answers)
        except BrokerRefused:
            self.forget(request.group_id)  # it may not be its coordinator any more
            raise

    async def keeps_leader_epochs(self, group: str) -> bool:
        """Whether :meth:`commit` can tell them (KIP-320, Kafka 2.1)."""
        node_id = await self._coordinators.of(group)
        newest = await self._brokers.newest(node_id, offset_commit.API, at_least=2, at_most=_NEWEST_OFFSET_COMMIT)
        return newest >= _LEADER_EPOCHS_SINCE

    async def delete(self, group: str, partitions: Sequence[TopicPartition]) -> list[str]:
        """Forget offsets; as :meth:`commit`."""
        return [str(each) for each in await self.try_delete(group, partitions)]

    async def try_delete(
        self, group: str, partitions: Sequence[TopicPartition], may_send: Callable[[], None] = lambda: None
    ) -> list[RefusedPartition]:
        """As :meth:`delete` and :meth:`try_commit`."""
        topics = tuple(
            offset_delete.OffsetDeleteRequestTopic(
                topic, tuple(offset_delete.OffsetDeleteRequestPartition(at.partition) for at in its)
            )
            for topic, its in groupby(sorted(partitions), key=lambda at: at.topic)
        )
        request = offset_delete.OffsetDeleteRequest(group, topics)
        return await self._until_ready(partial(self._delete, request, may_send))

    async def _delete(
        self, request: offset_delete.OffsetDeleteRequest, may_send: Callable[[], None]
    ) -> list[RefusedPartition]:
        node_id = (await self._coordinators.found([request.group_id]))[request.group_id]
        answer = await self._brokers.ask(node_id, offset_delete.API, request, may_send=may_send)
        answers = ((t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions)
        try:
            raise_for(answer.error_code, f"group {request.group_id}")
            return _refused(request.group_id, answers)
        except BrokerRefused:
            self.forget(request.group_id)
            raise

    async def delete_group(self, group: str) -> None:
        """With its offsets. Raises BrokerRefused where it has members, or is not there."""
        node_id = await self._coordinators.of(group)
        answer = await self._brokers.ask(node_id, delete_groups.API, delete_groups.DeleteGroupsRequest((group,)))
        for each in answer.results:
            if each.error_code in PASSES_BY_ITSELF:
                self.forget(group)
            raise_for(each.error_code, f"group {group}")

    async def transactions_ended(self, group: str, known: Collection[int] = ()) -> None:
        """Wait until those that are open now, in the partition of the cluster's log that has the group, have ended:
        what they have of the group no OffsetFetch tells. ``known``: producers of whose transactions it is known that
        they have nothing of it. Raises UpstreamError where it takes too long.

        Brokers before 2.8 cannot be asked.
        """
        node_id = await self._coordinators.of(group)
        if not await self._brokers.offers(node_id, describe_producers.API):
            return
        look = partial(self._open_transactions, group)
        begun = {each for each in await self._until_ready(look) if each[0] not in known}
        deadline = time.monotonic() + self._patience_seconds
        while begun & await self._until_ready(look):
            if time.monotonic() > deadline:
                raise UpstreamError(f"group {group}: a transaction that may have offsets of it has not ended yet")
            await asyncio.sleep(_LOOK_S)  # a broker tells nobody when it ends

    async def _open_transactions(self, group: str) -> set[tuple[int, int]]:
        """Of each the producer and where it begins."""
        partition = partition_for(group, await self._coordinators.leaders.partitions())
        request = describe_producers.DescribeProducersRequest(
            (describe_producers.TopicRequest(OFFSETS_TOPIC, (partition,)),)
        )
        node_id = (await self._coordinators.found([group]))[group]
        answer = await self._brokers.ask(node_id, describe_producers.API, request)
        ((found,),) = (topic.partitions for topic in answer.topics)
        if found.error_code:
            self.forget(group)
            raise_for(found.error_code, f"the transactions in {OFFSETS_TOPIC}-{partition}")
        await self._raise_where_not_believed(node_id, [group])
        return {
            (each.producer_id, each.current_txn_start_offset)
            for each in found.active_producers
            if each.current_txn_start_offset >= 0
        }


def _by_coordinator(coordinators: Mapping[str, int]) -> dict[int, list[str]]:
    by_node: dict[int, list[str]] = {}
    for group, node_id in coordinators.items():
        by_node.setdefault(node_id, []).append(group)
    return by_node


def _committed(group: str, code: int, topics: Sequence[Any]) -> Committed:
    raise_for(code, f"group {group}")
    found: Committed = {}
    now_ms = time.time_ns() // 1_000_000
    for topic in topics:
        for index, offset, leader_epoch, text, error, _ in topic.partitions:
            raise_for(error, f"group {group}, {topic.name}-{index}")
            if offset >= 0:
                found[TopicPartition(topic.name, index)] = CommittedOffset(offset, leader_epoch, text or "", now_ms)
    return found


def _to_commit(at: TopicPartition, committed: CommittedOffset) -> offset_commit.OffsetCommitRequestPartition:
    return offset_commit.OffsetCommitRequestPartition(
        at.partition, committed.offset, committed.leader_epoch, committed_metadata=committed.metadata
    )


def _refused(group: str, answers: Iterator[tuple[str, int, int]]) -> list[RefusedPartition]:
    """Raises BrokerRefused where all that can be done is to ask again."""
    refused = [RefusedPartition(group, TopicPartition(topic, index), code) for topic, index, code in answers if code]
    for each in refused:
        if each.code in PASSES_BY_ITSELF:
            raise BrokerRefused(each.code, f"group {group} {each.at}")
    return refused
