"""Groups whose offsets are in ZooKeeper, too: what old consumers write there comes into the log, what the log has is
written there, and both are at all times told apart (:mod:`shim.migration.dual.znode`).

The log is always written first. Where ZooKeeper is right (`offsets.storage=zookeeper`) a commit is answered when it is
there, and one that could not be written is undone; where the log is (`kafka`, with `dual.commit.enabled`) ZooKeeper
follows. What is about to be written there is noted in the shim's own log then, before, and once more when it is there,
for whoever comes after a crash.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

from protocol.own.state_log import IN_ZOOKEEPER, ZOOKEEPER_IS_RIGHT, About, Hands, Step
from shim.coordinator import GroupCoordinator
from shim.migration.compared import differences_to_zookeeper
from shim.migration.dual.followed import Followed
from shim.migration.dual.log_side import LogSide
from shim.migration.dual.old_consumers import OldConsumers
from shim.migration.dual.turn import DualTurn
from shim.migration.dual.znode import is_own, next_version
from shim.migration.words import Difference
from shim.offsets.outbox import Outbox
from shim.offsets.store import ABSENT, OffsetStore, Partition, StoredOffset, StoreError
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.watching import OffsetsWatch
from shim.runtime import Runtime

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 60.0  # between two looks for consumers in ZooKeeper


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
        self._ensemble = ensemble
        self.store = store
        self.consumers = OldConsumers(store)
        self.watch = OffsetsWatch(ensemble, self._told)
        self.outbox = Outbox("offsets in ZooKeeper", self._take_turn)
        self._log = LogSide(runtime)
        self._groups: dict[str, Followed] = {}
        runtime.watch(self._loaded)

    @property
    def has_session(self) -> bool:
        """Whether ZooKeeper answers for now."""
        return self._ensemble.session_id is not None

    # -- which groups

    def _loaded(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """The partition has been read back: nothing is certain of what was under way."""
        for group in [group for group in self._groups if self._runtime.partition_of(group) == number]:
            self.leave(group)
        if coordinator is not None:
            coordinator.note_moved(self._log.moved)
            for group in coordinator.hands():
                if self.keeps(group):
                    self._enter(group, coordinator, read_anew=False)
                    self.outbox.touch(group)

    def keeps(self, group: str) -> bool:
        """Whether the group's offsets are in ZooKeeper at its step."""
        coordinator = self._runtime.coordinator_of(group)
        return (
            coordinator is not None
            and coordinator.hands_of(group) is Hands.SERVED
            and coordinator.step_of(group) in IN_ZOOKEEPER
        )

    def _enter(self, group: str, coordinator: GroupCoordinator, *, read_anew: bool) -> Followed:
        notes = None if coordinator.step_of(group) in ZOOKEEPER_IS_RIGHT else coordinator.written(group)
        found = self._groups[group] = Followed(notes, look=self.watch.look, read_anew=read_anew)
        self._log.moved.add(group)
        self.watch.watch(group)
        return found

    def leave(self, group: str) -> None:
        """Its offsets are not in ZooKeeper any more, as far as the shim cares."""
        if self._groups.pop(group, None) is not None:
            self.watch.unwatch(group)
            self._log.moved.forget(group)
            self.outbox.forget(group)

    # -- what others write

    def _told(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> None:
        its = self._groups.get(group)
        if its is None:
            return
        news = {at: there for at, there in offsets.items() if its.is_news(at, there)}
        if news:
            its.tell(news, self.watch.look)
            self.outbox.touch(group)

    async def refresh(self, group: str) -> None:
        """Wait until the log has what stands in ZooKeeper by now, of a group whose offsets are there. Raises
        :class:`StoreError`."""
        self._its(group).read_anew = True
        await self.outbox.fed(group)

    def owed(self, group: str) -> dict[Partition, int | None]:
        """What the log has by now and ZooKeeper is yet to have, None for what it is not to have."""
        its = self._groups.get(group)
        return {} if its is None else self._owed(group, its)

    def _owed(self, group: str, its: Followed) -> dict[Partition, int | None]:
        own = self._log.offsets_now(group)
        return its.owed(own) | {at: own.get(at) for at in self._log.moved.of(group)}

    def undo(self, group: str, owed: Mapping[Partition, int | None]) -> None:
        """Whoever has committed that is told that it failed: it goes on being brought there, but not over what anybody
        else writes."""
        its = self._groups.get(group)
        if its is not None:
            its.undo(self._owed(group, its).items() & owed.items())

    async def follow(self, group: str) -> None:
        """Wait until the log has what is known of ZooKeeper, which may lag behind a little; of a group that nobody has
        followed, that is all that stands there. Raises :class:`StoreError`."""
        if group not in self._groups:
            self._enter(group, self._log.coordinator(group), read_anew=False)
        await self.outbox.fed(group)

    async def run(self) -> None:
        """Look from time to time for consumers in ZooKeeper, whose offsets do not expire, and for what they own, until
        cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for group in list(self._groups):
                coordinator = self._runtime.coordinator_of(group)
                if coordinator is not None and coordinator.step_of(group) is Step.KAFKA_DUAL:
                    try:
                        used = bool(await self.store.members(group))
                        await self.consumers.doubtful(group)
                    except StoreError as error:
                        log.debug("group %s: it is not known whether it has consumers in ZooKeeper: %s", group, error)
                        used = True
                    coordinator.is_used_in_zookeeper(time.time_ns() // 1_000_000, group, used=used)

    def is_adopted(self, group: str) -> bool:
        """Whether what stands in ZooKeeper was known, and in the log, when it was last looked at."""
        its = self._groups.get(group)
        return its is not None and its.adopted

    # -- for a step from or to ZooKeeper

    def enter(self, group: str, there: Mapping[Partition, StoredOffset]) -> None:
        """Its offsets are in ZooKeeper from here on, or still, at another step. ``there``: what was found just now, so
        that it need not be read once more."""
        before = self._groups.get(group)
        told_since = before is not None and bool(before.told)
        self._enter(group, self._log.coordinator(group), read_anew=told_since).compared(there)
        self.outbox.touch(group)

    async def compare(self, group: str) -> tuple[dict[Partition, StoredOffset], list[Difference]]:
        """What stands in ZooKeeper, and where the log has something else. Raises :class:`StoreError`."""
        there = await self.store.fetch(group)
        own = await self._log.offsets(group)
        return there, differences_to_zookeeper(own, there)

    def differing(self, group: str, there: Mapping[Partition, StoredOffset]) -> list[Difference]:
        """Where the log has something else by now than what was found in ZooKeeper. Raises
        :class:`StoreUnavailable`."""
        return differences_to_zookeeper(self._log.offsets_now(group), there)

    async def note_all(self, group: str, there: Mapping[Partition, StoredOffset]) -> None:
        """What ZooKeeper has is what the log has, which is right from here on: whatever else is found there later is
        somebody else's. What was noted at that step before, and is not there any more, is over."""
        over = dict.fromkeys(self._log.coordinator(group).written(group))
        await self._log.note(group, {**over, **there})

    async def bring(self, group: str) -> list[Difference]:
        """Have ZooKeeper, which knows nothing of it yet or no longer, be given what the log has, but for what somebody
        else has written there since the shim last did: gives that, and then nothing was written. Raises
        :class:`StoreError`."""
        there = await self.store.fetch(group)
        own = await self._log.offsets(group)
        notes = self._log.coordinator(group).written(group)
        differing = differences_to_zookeeper(own, there)
        strange = [
            each
            for each in differing
            if (found := there.get((each.topic, each.partition))) is not None
            and not is_own(found, notes.get((each.topic, each.partition)))
        ]
        if strange:
            return strange
        due = {
            at: StoredOffset(own[at], there[at].version if at in there else ABSENT)
            for at in ((each.topic, each.partition) for each in differing)
            if at in own
        }
        gone = {at: each.version for at, each in there.items() if at not in own and each.version is not None}
        written = {at: StoredOffset(each.offset, next_version(each.version)) for at, each in due.items()}
        await self._log.note(group, written, about=dict.fromkeys(due, About.WRITES))
        await self.store.commit(group, due)
        if gone:
            await self.store.delete(group, gone.keys(), gone)
            await self._log.note(group, dict.fromkeys(gone))
        return []

    # -- a turn of the outbox

    async def _take_turn(self, group: str) -> None:
        step = self._log.coordinator(group).step_of(group)
        if self.keeps(group):  # it may have gone on a step
            await DualTurn(group, self._its(group), step, self._log, self.store, self.watch).take()

    def _its(self, group: str) -> Followed:
        found = self._groups.get(group)
        return found if found is not None else self._enter(group, self._log.coordinator(group), read_anew=True)
