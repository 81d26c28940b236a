"""Resetting the offsets of a group: what would be set, and setting it if nothing has changed since that was shown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.group_kinds import kind_of
from protocol.messages.describe_groups import DescribedGroup
from protocol.offsets_log import CommittedOffset
from protocol.own.conditional_commit import REFUSED
from protocol.topic_partition import TopicPartition
from shim.coordinator import Caller, OffsetReset, OffsetsReset
from shim.counted import counted, some_of
from shim.groups.beforehand import Beforehand
from shim.groups.changing import Changing
from shim.groups.history import History, Then, utc
from shim.groups.looking import Looking
from shim.groups.planning import Known, planned
from shim.groups.words import (
    NO_OFFSET,
    Change,
    Kind,
    Moved,
    NotCertain,
    NotKnown,
    Partition,
    Plan,
    Refused,
    Scope,
    Target,
    Undone,
)
from shim.offsets.cluster.describing import DEAD, NOBODY
from shim.offsets.cluster.groups import ClusterGroups, RefusedPartition
from shim.runtime import Clock
from shim.upstream import ClusterTopics, UpstreamError
from shim.upstream.log_ends import EARLIEST, LATEST, NO_RECORD, Asked, log_ends

log = logging.getLogger(__name__)

_OF_HISTORY: Final = frozenset({Kind.HISTORY, Kind.UNDO})


class _Group(NamedTuple):
    """What is there before a reset. ``state``: Dead where there is none, be it deleted or never ``heard_of``.
    ``in_use``: who is in it, or ""."""

    state: str
    served: bool
    offsets: Mapping[Partition, int]
    heard_of: bool = True
    in_use: str = ""


class Resetting:
    """For the event loop. Everything raises UpstreamError and Refused."""

    def __init__(
        self,
        beforehand: Beforehand,
        changing: Changing,
        looking: Looking,
        history: History,
        cluster_groups: ClusterGroups,
        brokers: Asked,
        topics: ClusterTopics,
        clock: Clock,
    ) -> None:
        self._beforehand = beforehand
        self._changing = changing
        self._looking = looking
        self._history = history
        self._cluster_groups = cluster_groups
        self._brokers = brokers
        self._topics = topics
        self._clock = clock

    async def plan(self, group: str, target: Target, scope: Scope, within_seconds: float | None = None) -> Plan:
        """What a reset would do now; changes nothing. ``within_seconds``: how long each broker is waited for; None: as
        long as a request may take."""
        found = await self._found(group, within_seconds)
        if target.kind in _OF_HISTORY and not found.served:
            raise Refused(f"group {group} is not served by the shim, which has no history of it then")
        if target.kind is Kind.UPSTREAM and not found.served:
            raise Refused(f"group {group} is not served by the shim: what the cluster has is what it goes on from")
        then = await self._then(group, target, found, within_seconds)
        partitions = await self._partitions(group, target, scope, found, then, within_seconds)
        known = await self._known(target, partitions, found, then, within_seconds)
        return Plan(group, found.state, planned(target, partitions, known), found.in_use, then.undoes)

    async def reset(self, group: str, changes: Sequence[Change], cause: str, host: str) -> None:
        """Set all of them, each only if its offset is still what the change says, or none. ``cause``: for the history;
        ``host``: from where it was asked for. Raises NotCertain besides.

        Of a group that is passed through the cluster sets them, as of Kafka's own tool: whether they are what was
        shown is looked at just before.
        """
        await self._refuse_missing([(each.topic, each.partition) for each in changes])
        served = await self._beforehand.is_served(group, opening=True)
        if served:
            await self._beforehand.ready(group)
            await self._reset_here(group, changes, cause, Caller("offset-shim", f"/{host}"))
        else:
            if none := [(each.topic, each.partition) for each in changes if each.new_offset == NO_OFFSET]:
                raise Refused(f"group {group} is passed through, no offset can be taken away there: {_some(none)}")
            await self._reset_there(group, changes)
        # The message is the event: none is left out for others, however many there are in a minute.
        log.info("%s", f"group {group}: {_done(changes)} from {host}: {cause}")
        if served:
            await self._changing.told_in_cluster(group)

    # -- what there is

    async def _found(self, group: str, within_seconds: float | None) -> _Group:
        try:
            served = await self._beforehand.is_served(group, opening=False, within_seconds=within_seconds)
        except NotKnown:
            return _Group(DEAD, True, {}, heard_of=False)
        if served:
            await self._beforehand.ready_to_look(group)
        described = await self._looking.described(group, within_seconds)
        _refuse_share_group(described)
        in_use = self._looking.in_use(described) or await self._in_use_in_zookeeper(group)
        offsets = await self._looking.offsets(group, within_seconds)
        return _Group(described.group_state, served, offsets, in_use=in_use)

    async def _in_use_in_zookeeper(self, group: str) -> str:
        try:
            return await self._beforehand.in_use_in_zookeeper(group)
        except Refused as error:  # what would be set is told all the same
            return str(error)

    async def _then(self, group: str, target: Target, found: _Group, within_seconds: float | None) -> Then:
        """What is to be had, of the past or of the cluster; empty for all other targets."""
        if target.kind is Kind.UPSTREAM:
            there = await self._cluster_groups.offsets_of_one(group, within_seconds)
            return Then({at: each.offset for at, each in there.items()})
        if target.kind is Kind.HISTORY:
            if target.number > (now := self._clock.surely_not_before()):
                raise Refused(f"group {group}: that time is still to come, by the shim's clock it is {utc(now)}")
            return await self._history.at(group, target.number)
        if target.kind is not Kind.UNDO:
            return Then({})
        last = await self._history.last_reset(group)
        before = {(each.topic, each.partition): _replaced(each.before) for each in last.moves}
        if not before:
            none = "the history knows of no reset of it, or of none since the cluster had it"
            raise Refused(f"group {group}: {none}{_unheard(found)}")
        had_set = {(each.topic, each.partition) for each in last.moves if not each.deleted}
        if gone := sorted((had_set - found.offsets.keys()) | (last.deleted & before.keys())):
            raise Refused(f"group {group}: {_some(gone)}: deleted, or expired, since the reset: not undone")
        first = last.moves[0]
        undoes = Undone(first.time_ms, first.cause, first.client_host, len(before))
        return Then(before, moved=_moved(last.moves, found.offsets), undoes=undoes)

    # -- which partitions

    async def _partitions(
        self,
        group: str,
        target: Target,
        scope: Scope,
        found: _Group,
        then: Then,
        within_seconds: float | None,
    ) -> Collection[Partition]:
        meant: set[Partition] = set()
        before = then.offsets
        if scope.all_topics:
            # Of a group that was deleted, those that it had then.
            meant = set(found.offsets) or {at for at, offset in before.items() if offset != NO_OFFSET}
        elif scope.topics:
            meant = await self._named(scope.topics, within_seconds)
        by_itself = {Kind.FILE: set(target.offsets), Kind.UNDO: set(before), Kind.UPSTREAM: set(before)}
        if target.kind in by_itself:
            meant = by_itself[target.kind] & meant if meant else by_itself[target.kind]
        if not meant:
            raise Refused(f"group {group}: {_why_none(target, found, then)}")
        await self._refuse_missing(meant, within_seconds)
        return meant

    async def _named(self, topics: Mapping[str, Sequence[int] | None], within_seconds: float | None) -> set[Partition]:
        counts = await self._counts(topics, within_seconds)
        found: set[Partition] = set()
        for topic, partitions in topics.items():
            found.update((topic, number) for number in (range(counts[topic]) if partitions is None else partitions))
        return found

    async def _refuse_missing(self, partitions: Collection[Partition], within_seconds: float | None = None) -> None:
        counts = await self._counts({topic for topic, _ in partitions}, within_seconds)
        missing = sorted(at for at in partitions if not 0 <= at[1] < counts[at[0]])
        if missing:
            raise Refused(f"there is no partition {_some(missing)}")

    async def _counts(self, topics: Collection[str], within_seconds: float | None) -> dict[str, int]:
        """How many partitions each has. Raises Refused for one that is not there."""
        try:
            async with asyncio.timeout(within_seconds):
                view = await self._topics.one(sorted(topics))
        except TimeoutError:
            raise UpstreamError(f"no broker has said in {within_seconds:g} s which topics there are") from None
        if unknown := sorted(topic for topic in topics if topic not in view):
            raise Refused(f"whether there is a topic {unknown[0]} cannot be found out now")
        if missing := sorted(topic for topic in topics if view[topic] is None):
            raise Refused(f"there is no topic {missing[0]}")
        return {topic: found.partitions for topic in topics if (found := view[topic]) is not None}

    # -- where the logs begin and end

    async def _known(
        self,
        target: Target,
        partitions: Collection[Partition],
        found: _Group,
        then: Then,
        within_seconds: float | None,
    ) -> Known:
        starts = await self._ends(partitions, EARLIEST, within_seconds)
        ends = await self._ends(partitions, LATEST, within_seconds)
        at_time: dict[Partition, int] = {}
        if target.kind is Kind.TIME:
            offsets = await self._ends(partitions, target.number, within_seconds)
            at_time = {at: offset for at, offset in offsets.items() if offset != NO_RECORD}
        return Known(found.offsets, starts, ends, at_time, *then[:5])

    async def _ends(
        self, partitions: Collection[Partition], timestamp: int, within_seconds: float | None
    ) -> dict[Partition, int]:
        offsets: dict[Partition, int] = {}
        found = await log_ends(self._brokers, partitions, timestamp, within_seconds=within_seconds)
        for at, end in found.items():
            if isinstance(end, UpstreamError):
                raise end
            offsets[at] = end
        return offsets

    # -- setting them

    async def _reset_here(self, group: str, changes: Sequence[Change], cause: str, caller: Caller) -> None:
        resets = [
            OffsetReset(
                each.topic, each.partition, each.offset, None if each.new_offset == NO_OFFSET else each.new_offset
            )
            for each in changes
        ]
        answer: OffsetsReset = await self._changing.decided(
            group,
            lambda coordinator, now, asker: coordinator.reset_offsets(now, caller, group, resets, cause, asker),
        )
        if answer.error is REFUSED:
            raise _changed_since(group, [(each.topic, each.partition) for each in answer.failed])
        if answer.error is not ErrorCode.NONE:
            raise await self._looking.refusal(group, answer.error)

    async def _reset_there(self, group: str, changes: Sequence[Change]) -> None:
        async with self._changing.passing(group):
            described = await self._cluster_groups.described(group)
            _refuse_share_group(described)
            if described.group_state not in NOBODY:
                raise await self._looking.refusal(group, ErrorCode.NON_EMPTY_GROUP)
            offsets = await self._cluster_groups.offsets_of_one(group)
            found: dict[Partition, int] = {at: each.offset for at, each in offsets.items()}
            stands = [each for each in changes if found.get((each.topic, each.partition), NO_OFFSET) == each.offset]
            if changed := [(each.topic, each.partition) for each in changes if each not in stands]:
                raise _changed_since(group, changed)
            to_set = {
                TopicPartition(each.topic, each.partition): CommittedOffset(each.new_offset, -1, "", 0)
                for each in changes
            }
            refused = await self._set_there(group, to_set)
        if refused and len(refused) == len(changes):
            raise await self._looking.refusal(group, ErrorCode.for_code(refused[0].code))
        if refused:
            raise NotCertain(
                f"the cluster has set {counted(len(changes) - len(refused), 'offset')}, and refused: {refused[0]}"
            )

    async def _set_there(self, group: str, to_set: dict[TopicPartition, CommittedOffset]) -> list[RefusedPartition]:
        try:
            return await self._cluster_groups.try_commit(group, to_set)
        except UpstreamError as error:
            self._cluster_groups.forget(group)
            raise NotCertain(f"group {group}: which offsets the cluster has set is not known: {error}") from error


def _refuse_share_group(described: DescribedGroup) -> None:
    if kind_of(described).stays:
        raise Refused(
            f"group {described.group_id} is a share group, whose offsets are no committed ones: reset them with "
            "kafka-share-groups.sh --reset-offsets"
        )


def _why_none(target: Target, found: _Group, then: Then) -> str:
    """Why there is no offset to be reset."""
    if target.kind is Kind.HISTORY and then.begins is not None:
        if then.offsets:
            return "all offsets that the history has of it had been deleted, or had expired, by that time"
        return f"the history has nothing of it at that time, or before: it begins at {utc(then.begins)}"
    return f"there is no offset that this could be about{_unheard(found)}"


def _unheard(found: _Group) -> str:
    """Behind why there is nothing: it was misspelt as a rule."""
    return "" if found.heard_of else ", and this shim has not heard of such a group yet"


def _replaced(before: int | None) -> int:
    assert before is not None, "resets say what they replace"
    return before


def _moved(last: Sequence[Moved], committed: Mapping[Partition, int]) -> dict[Partition, str]:
    """What is another offset than that reset has set: another reset may be meant, as one by Kafka's own tool,
    which the history knows as commits."""
    return {
        (each.topic, each.partition): f"that reset had {_had_set(each)}, it has moved since"
        for each in last
        if committed.get((each.topic, each.partition), NO_OFFSET) != each.offset
    }


def _had_set(move: Moved) -> str:
    return "taken it away" if move.deleted else f"set {move.offset}"


def _changed_since(group: str, partitions: Sequence[Partition]) -> Refused:
    return Refused(f"group {group}: another offset is committed by now than was shown for {_some(sorted(partitions))}")


def _done(changes: Sequence[Change]) -> str:
    deleted = sum(each.new_offset == NO_OFFSET for each in changes)
    counts = {"set": len(changes) - deleted, "deleted": deleted}
    return ", ".join(f"{counted(count, 'offset')} {what}" for what, count in counts.items() if count)


def _some(partitions: Sequence[Partition]) -> str:
    return some_of(partitions, lambda at: f"{at[0]}-{at[1]}")
