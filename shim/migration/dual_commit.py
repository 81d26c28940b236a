"""Groups whose offsets are in ZooKeeper, too: what old consumers write there comes into the log, what the log has is
written there, and both are at all times told apart (:mod:`shim.migration.judging`).

The log is always written first. Where ZooKeeper is right (`offsets.storage=zookeeper`) a commit is answered when it is
there, and one that could not be written is undone; where the log is (`kafka`, with `dual.commit.enabled`) ZooKeeper
follows. What is about to be written there then is noted in the shim's own log before, for whoever comes after a crash.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.own.state_log import NOT_CARRIED, Hands, Step, WrittenValue
from shim.coordinator import GroupCoordinator
from shim.migration.deciding import decide
from shim.migration.judging import Verdict, Znodes, differences, is_newer
from shim.migration.old_consumers import OldConsumers
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.migration.words import Difference
from shim.offsets.ensemble import Ensemble
from shim.offsets.outbox import Outbox
from shim.offsets.store import (
    ABSENT,
    GroupInUse,
    OffsetStore,
    Partition,
    StoreConflict,
    StoredOffset,
    StoreError,
    StoreUnavailable,
)
from shim.offsets.watching import OffsetsWatch
from shim.runtime import Runtime

log = logging.getLogger(__name__)

IN_ZOOKEEPER: Final = frozenset({Step.ZOOKEEPER, Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL})
"""Steps at which the offsets of a group are in ZooKeeper."""
ZOOKEEPER_IS_RIGHT: Final = frozenset({Step.ZOOKEEPER, Step.ZOOKEEPER_DUAL})

_READ_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 60.0  # between two looks for consumers in ZooKeeper
_ROUNDS: Final = 5
"""Of writing beside somebody who writes at the same time."""


class _Group:
    """``seen``: what was told of the znodes since they were last looked at."""

    __slots__ = ("read_anew", "seen", "znodes")

    def __init__(self, znodes: Znodes, *, read_anew: bool) -> None:
        self.znodes = znodes
        self.seen: dict[Partition, StoredOffset] = {}
        self.read_anew = read_anew


class DualCommit:
    """For the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        store: OffsetStore,
        ensemble: Ensemble,
    ) -> None:
        """``ensemble``: the one of the ``store``."""
        self._runtime = runtime
        self.store = store
        self.consumers = OldConsumers(store)
        self.watch = OffsetsWatch(ensemble, self._told)
        self.outbox = Outbox("offsets in ZooKeeper", self._take_turn)
        self._groups: dict[str, _Group] = {}
        runtime.watch(self._loaded)

    # -- which groups

    def _loaded(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """The partition has been read back: nothing is certain of what was under way."""
        for group in [group for group in self._groups if self._runtime.partition_of(group) == number]:
            self.leave(group)
        if coordinator is not None:
            for group in coordinator.hands():
                if self.keeps(group):
                    self._enter(group, coordinator, read_anew=False)
                    self.outbox.touch(group)

    def keeps(self, group: str) -> bool:
        """Whether the group's offsets are in ZooKeeper at its step."""
        coordinator = self._runtime.coordinator(self._runtime.partition_of(group))
        return (
            coordinator is not None
            and coordinator.hands_of(group) is Hands.SERVED
            and coordinator.step_of(group) in IN_ZOOKEEPER
        )

    def _enter(self, group: str, coordinator: GroupCoordinator, *, read_anew: bool) -> _Group:
        znodes = Znodes()
        if coordinator.step_of(group) not in ZOOKEEPER_IS_RIGHT:
            written = coordinator.written(group)
            znodes = Znodes(
                {at: StoredOffset(value.offset, value.version) for at, value in written.items()},
                {
                    at: value.replaced if value.replaced >= 0 else None
                    for at, value in written.items()
                    if value.replaced != NOT_CARRIED
                },
            )
        found = self._groups[group] = _Group(znodes, read_anew=read_anew)
        self.watch.watch(group)
        return found

    def leave(self, group: str) -> None:
        """Its offsets are not in ZooKeeper any more, as far as the shim cares."""
        if self._groups.pop(group, None) is not None:
            self.watch.unwatch(group)
            self.outbox.forget(group)

    # -- what others write

    def _told(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> None:
        its = self._groups.get(group)
        if its is None:
            return
        news = {at: there for at, there in offsets.items() if its.znodes.known.get(at) != there}
        if news:
            its.seen.update(news)
            self.outbox.touch(group)

    async def refresh(self, group: str) -> None:
        """Wait until the log has what stands in ZooKeeper by now, of a group whose offsets are there. Raises
        :class:`StoreError`."""
        self._its(group).read_anew = True
        await self.outbox.fed(group)

    def owed(self, group: str) -> dict[Partition, int | None]:
        """What the log has by now and ZooKeeper is yet to have, None for what it is not to have."""
        its = self._groups.get(group)
        return {} if its is None else its.znodes.owed(self._offsets_now(group))

    def undo(self, group: str, owed: Mapping[Partition, int | None]) -> None:
        """Whoever has committed that is told that it failed: it goes on being brought there, but not over what anybody
        else writes."""
        its = self._groups.get(group)
        if its is not None:
            its.znodes.undone.update(its.znodes.owed(self._offsets_now(group)).items() & owed.items())

    async def follow(self, group: str) -> None:
        """Wait until the log has what is known of ZooKeeper, which may lag behind a little; of a group that nobody has
        followed, that is all that stands there. Raises :class:`StoreError`."""
        if group not in self._groups:
            self._enter(group, self._coordinator(group), read_anew=False)
        await self.outbox.fed(group)

    async def is_in_use(self, group: str) -> bool:
        """Whether consumers of it are in ZooKeeper. Raises :class:`StoreError`."""
        return bool(await self.store.members(group))

    async def run(self) -> None:
        """Look from time to time for consumers in ZooKeeper, whose offsets do not expire, and for what they own, until
        cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for group in list(self._groups):
                coordinator = self._runtime.coordinator(self._runtime.partition_of(group))
                if coordinator is not None and coordinator.step_of(group) is Step.KAFKA_DUAL:
                    try:
                        used = await self.is_in_use(group)
                        await self.consumers.doubtful(group)
                    except StoreError as error:
                        log.debug("group %s: it is not known whether it has consumers in ZooKeeper: %s", group, error)
                        used = True
                    coordinator.is_used_elsewhere(time.time_ns() // 1_000_000, group, used=used)

    def is_adopted(self, group: str) -> bool:
        """Whether what stands in ZooKeeper was known, and in the log, when it was last looked at."""
        its = self._groups.get(group)
        return its is not None and its.znodes.adopted

    # -- for a step from or to ZooKeeper

    def enter(self, group: str, there: Mapping[Partition, StoredOffset]) -> None:
        """Its offsets are in ZooKeeper from here on, or still, at another step. ``there``: what was found just now, so
        that it need not be read once more."""
        before = self._groups.get(group)
        told_since = before is not None and bool(before.seen)
        self._enter(group, self._coordinator(group), read_anew=told_since).seen = dict(there)
        self.outbox.touch(group)

    async def compare(self, group: str) -> tuple[dict[Partition, StoredOffset], list[Difference]]:
        """What stands in ZooKeeper, and where the log has something else. Raises :class:`StoreError`."""
        there = await self.store.fetch(group)
        own = await self._own_offsets(group)
        return there, differences(own, {at: each.offset for at, each in there.items() if each.offset >= 0})

    async def note_all(self, group: str, there: Mapping[Partition, StoredOffset]) -> None:
        """What ZooKeeper has is what the log has: from here on the log is right."""
        await self._note(group, there, Step.KAFKA_DUAL)

    async def bring(self, group: str) -> list[Difference]:
        """Have ZooKeeper, which knows nothing of it yet or no longer, be given what the log has, but for what somebody
        else has written there since the shim last did: gives that, and then nothing was written. Raises
        :class:`StoreError`."""
        there = await self.store.fetch(group)
        own = await self._own_offsets(group)
        written = self._coordinator(group).written(group)
        differing = differences(own, {at: each.offset for at, each in there.items() if each.offset >= 0})
        strange = [
            each
            for each in differing
            if (found := there.get((each.topic, each.partition))) is not None
            and (found.offset, found.version) != (written.get((each.topic, each.partition)) or (None,))[:2]
        ]
        if strange:
            return strange
        due = {
            at: StoredOffset(own[at], there[at].version if at in there else ABSENT)
            for at in ((each.topic, each.partition) for each in differing)
            if at in own
        }
        gone = {at: each.version for at, each in there.items() if at not in own and each.version is not None}
        await self._note(group, {at: StoredOffset(e.offset, _next(e.version)) for at, e in due.items()}, Step.KAFKA)
        await self.store.commit(group, due)
        if gone:
            await self.store.delete(group, gone.keys(), gone)
            await self._note(group, dict.fromkeys(gone), Step.KAFKA)
        return []

    # -- a turn of the outbox

    async def _take_turn(self, group: str) -> None:
        step = self._coordinator(group).step_of(group)
        if not self.keeps(group):
            return  # it has gone on a step
        its = self._its(group)
        try:
            await self._read(group, its)
            for _ in range(_ROUNDS):
                await self._carry(group, its, step)
                if await self._wrote(group, its, step):
                    return
        except StoreError:
            its.read_anew = True
            raise
        except ValueError as error:  # of a name that cannot be there
            its.read_anew = True
            raise StoreError(f"group {group}: {error}") from error
        raise StoreUnavailable(f"group {group}: somebody else writes its offsets all the time")

    async def _read(self, group: str, its: _Group) -> None:
        if its.read_anew:
            its.read_anew = False
            its.seen = {}
            found = await self.store.fetch(group)
            # What was told since is as new, or newer.
            its.seen = {**found, **{at: there for at, there in its.seen.items() if is_newer(there, found.get(at))}}
            for at in [*its.znodes.known.keys() - found.keys(), *its.znodes.attempted.keys() - found.keys()]:
                its.znodes.gone(at)
        elif not its.znodes.adopted or its.znodes.attempted:
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    await self.watch.known(group)
            except TimeoutError:
                raise StoreUnavailable(f"group {group}: ZooKeeper does not tell its offsets") from None
            for at in its.znodes.attempted.keys() - its.seen.keys():
                its.znodes.gone(at)
        doubtful = {at for at, there in its.seen.items() if its.znodes.is_doubtful(at, there)}
        if doubtful:
            found = await self.store.fetch(group, {topic for topic, _ in doubtful})
            for at in doubtful:
                if at in found:
                    its.seen[at] = found[at]
                else:
                    del its.seen[at]

    async def _carry(self, group: str, its: _Group, step: Step) -> None:
        own = await self._own_offsets(group)
        seen, its.seen = its.seen, {}
        judged = {at: its.znodes.judge(at, there, own.get(at)) for at, there in seen.items()}
        carried = {at: seen[at] for at, verdict in judged.items() if verdict is Verdict.CARRY}
        for at in (at for at, verdict in judged.items() if verdict is Verdict.OURS):
            lost, newer = seen[at].offset, own.get(at, "nothing")
            log.info("group %s: %s-%d: %s, written to ZooKeeper, gives way to %s, newer here", group, *at, lost, newer)
        offsets: dict[Partition, int] = {}
        if carried:
            # Two logs, and a kill can come between them: so what is about to be carried is noted first.
            await self._note(group, carried, step, replaced=own)
            still = self._offsets_now(group)
            offsets = {at: each.offset for at, each in carried.items() if still.get(at) == own.get(at)}
            await self._decided(group, partial(_carry, group, offsets))
            log.debug("group %s: %d offsets that were written to ZooKeeper directly", group, len(carried))
        for at, there in seen.items():
            its.znodes.stands(at, there)
            if at in carried and at in offsets:
                its.znodes.agree(at, there.offset if there.offset >= 0 else None)
        if not its.znodes.adopted:
            for at in own.keys() - seen.keys():
                its.znodes.agree(at, own[at])  # it was deleted, and is written again
        its.znodes.adopted = True

    async def _wrote(self, group: str, its: _Group, step: Step) -> bool:
        """Whether ZooKeeper has now what the log has; not where somebody else has written since it was read. Then what
        that is has been seen."""
        own = await self._own_offsets(group)
        gone = its.znodes.to_delete(own)
        if gone:
            await self._delete(group, its, gone, whole=not own)
            await self._note(group, dict.fromkeys(gone), step)
        due = its.znodes.to_write(own)
        its.znodes.agree_on_none(own)
        if not due:
            return True
        written = {at: StoredOffset(each.offset, _next(each.version)) for at, each in due.items()}
        await self._note(group, written, step)
        its.znodes.attempted.update(written)
        try:
            versions = await self.store.commit(group, due)
        except StoreConflict as conflict:
            self._stand(its, due, conflict.written)
            for at in due.keys() - conflict.written.keys():
                its.znodes.attempted.pop(at, None)  # none of them was written
            for at, moved in conflict.moved.items():
                if moved.version == ABSENT:
                    its.znodes.gone(at)
                elif moved.offset is None:
                    its.znodes.stands(at, StoredOffset(-1, moved.version))  # no offset: it is written over
                else:
                    its.seen[at] = StoredOffset(moved.offset, moved.version)
            return False
        except StoreError as error:
            self._stand(its, due, error.written)
            raise
        self._stand(its, due, versions)
        return True

    def _stand(self, its: _Group, due: Mapping[Partition, StoredOffset], versions: Mapping[Partition, int]) -> None:
        for at, version in versions.items():
            its.znodes.stands(at, StoredOffset(due[at].offset, version))
            its.znodes.agree(at, due[at].offset)

    async def _delete(self, group: str, its: _Group, gone: list[Partition], *, whole: bool) -> None:
        deleted = whole and group not in self._coordinator(group).group_ids()
        try:
            if not deleted and await self.store.members(group):
                raise GroupInUse(f"group {group!r} has consumers in ZooKeeper")
            versions = {at: its.znodes.known[at].version for at in gone}
            await self.store.delete(
                group,
                None if deleted else gone,
                {at: version for at, version in versions.items() if version is not None},
            )
        except GroupInUse:
            # Consumers have come since it was asked whether there are any. They stay, and what stands there is theirs.
            its.znodes = Znodes()
            its.read_anew = True
            raise
        for at in gone:
            its.znodes.gone(at)
            its.znodes.agree(at, None)
            its.znodes.deleted.add(at)

    async def _note(
        self,
        group: str,
        written: Mapping[Partition, StoredOffset | None],
        step: Step,
        replaced: Mapping[Partition, int] | None = None,
    ) -> None:
        """``replaced``: what the log has of what is about to be carried."""
        noted = _noted(written, step, replaced)
        if noted:
            await self._decided(group, partial(_write_ahead, group, noted))

    # -- the log

    async def _own_offsets(self, group: str) -> dict[Partition, int]:
        """What is durable, or on its way there: nothing is told of it that the log could still lose but what was not
        answered."""
        await self._runtime.settled(self._runtime.partition_of(group))
        return self._offsets_now(group)

    def _offsets_now(self, group: str) -> dict[Partition, int]:
        """Raises StoreUnavailable, also while the partition has not caught up with the cluster's transactions: nothing
        is known of its offsets then, which is not that there are none."""
        try:
            found = own_offsets(self._coordinator(group), group)
        except NotReadable as error:
            raise StoreUnavailable(str(error)) from error
        return {(at.topic, at.partition): each.offset for at, each in found.items() if each.offset >= 0}

    async def _decided(self, group: str, operation: Callable[[GroupCoordinator, int, Any], Any]) -> None:
        answer = await decide(self._runtime, group, operation)
        if isinstance(answer, ErrorCode):
            raise StoreUnavailable(f"group {group}: the log answers {answer.name}")

    def _coordinator(self, group: str) -> GroupCoordinator:
        coordinator = self._runtime.coordinator(self._runtime.partition_of(group))
        if coordinator is None:
            raise StoreUnavailable(f"the partition of group {group} is not loaded")
        return coordinator

    def _its(self, group: str) -> _Group:
        found = self._groups.get(group)
        return found if found is not None else self._enter(group, self._coordinator(group), read_anew=True)


def _noted(
    written: Mapping[Partition, StoredOffset | None], step: Step, replaced: Mapping[Partition, int] | None
) -> dict[Partition, WrittenValue | None]:
    """Where ZooKeeper is right nothing has to be known of what was written there."""
    if step in ZOOKEEPER_IS_RIGHT:
        return {}
    return {
        at: None
        if each is None
        else WrittenValue(
            each.offset,
            ABSENT if each.version is None else each.version,
            NOT_CARRIED if replaced is None else replaced.get(at, -1),
        )
        for at, each in written.items()
    }


def _next(version: int | None) -> int:
    """Of a znode that has this one, or is created."""
    return 0 if version is None else version + 1


def _carry(group: str, offsets: Mapping[Partition, int], coordinator: GroupCoordinator, now: int, asker: object) -> Any:
    return coordinator.carry(now, group, offsets, asker)


def _write_ahead(
    group: str,
    written: Mapping[Partition, WrittenValue | None],
    coordinator: GroupCoordinator,
    now: int,
    asker: object,
) -> Any:
    return coordinator.write_ahead(now, group, written, asker)
