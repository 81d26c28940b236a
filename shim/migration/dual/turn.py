"""One turn of a group's outbox: what others have written to ZooKeeper is carried into the log, and what the log has is
written there, until both have the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Set
from typing import Final

from protocol.own.state_log import ZOOKEEPER_IS_RIGHT, About, Step
from shim.counted import counted
from shim.migration.dual.followed import Followed
from shim.migration.dual.log_side import LogSide
from shim.migration.dual.znode import Verdict, next_version, same
from shim.offsets.store import (
    ABSENT,
    STORE_SECONDS,
    GroupInUse,
    OffsetStore,
    Partition,
    StoreConflict,
    StoredOffset,
    StoreError,
    StoreUnavailable,
)
from shim.offsets.zookeeper.watching import OffsetsWatch

log = logging.getLogger(__name__)

_READ_SECONDS: Final = 15.0
_BESIDE_OTHERS_SECONDS: Final = STORE_SECONDS - 1.0
"""The longest that a turn writes beside somebody who writes at the same time: a consumer commits its partitions one by
one, and each may come between. Clients wait a second longer for all of it."""


class DualTurn:
    """For the event loop, and once. ``watch``: has the group among those that it watches."""

    def __init__(
        self, group: str, its: Followed, step: Step, log_side: LogSide, store: OffsetStore, watch: OffsetsWatch
    ) -> None:
        self._group = group
        self._its = its
        self._zookeeper_is_right = step in ZOOKEEPER_IS_RIGHT
        self._log = log_side
        self._store = store
        self._watch = watch
        self._held: set[Partition] = set()
        """What is neither carried nor written over, as a transaction that has not ended decides which."""

    async def take(self) -> None:
        """Raises :class:`StoreError`; what ZooKeeper has then is to be read anew."""
        loop = asyncio.get_running_loop()
        self._its.take_notes({} if self._zookeeper_is_right else self._log.notes(self._group))
        try:
            await self._read()
            until = loop.time() + _BESIDE_OTHERS_SECONDS
            while loop.time() < until:
                await self._carry()
                if await self._wrote():
                    self._check_none_held()
                    return
                if self._its.read_anew or self._its.doubtful:
                    await self._read()
        except ValueError as error:  # of a name that cannot be there
            self._its.read_anew = True
            raise StoreError(f"group {self._group}: {error}") from error
        except BaseException:  # what was told may not have been carried
            self._its.read_anew = True
            raise
        raise StoreUnavailable(f"group {self._group}: somebody else writes its offsets all the time")

    # -- what stands there

    async def _read(self) -> None:
        its = self._its
        if its.read_anew:
            its.read_anew = False
            its.told = await self._fetched()
            its.all_read(its.told)
            return
        if not its.is_certain:
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    await self._watch.known(self._group)
            except TimeoutError:
                raise StoreUnavailable("ZooKeeper does not tell the offsets of groups") from None
            its.all_told()
        if its.doubtful:
            told, doubtful = its.told, its.doubtful
            found = await self._fetched({topic for topic, _ in doubtful})
            its.some_read(doubtful, found)
            read = doubtful | its.told.keys()  # what was told meanwhile of another one is not told again
            sure = {at: there for at, there in told.items() if at not in read}
            its.told = sure | {at: found[at] for at in read if at in found}

    async def _fetched(self, topics: Collection[str] | None = None) -> dict[Partition, StoredOffset]:
        """What stands there. What was told meanwhile may be newer, or older, so it is to be read once more; by the next
        turn, which comes as it was told."""
        its = self._its
        its.told, its.doubtful = {}, set()
        found = await self._store.fetch(self._group, topics)
        its.known_at(self._watch.look)
        its.doubtful.update(at for at, there in its.told.items() if not same(there, found.get(at)))
        return found

    async def _own(self) -> dict[Partition, int]:
        """What the log has; where it has moved until then is known, too."""
        own = await self._log.offsets(self._group)
        self._its.log_moved(self._log.moved.take(self._group))
        return own

    # -- from there into the log

    async def _carry(self) -> None:
        its = self._its
        found, its.told = its.told, {}  # at once: what is told from here on may be older than what was read
        own = await self._own()
        foreign = {at: there for at, there in found.items() if self._judged(at, there, own) is Verdict.CARRY}
        carried: Set[Partition] = frozenset()
        now: Mapping[Partition, int] = own
        if foreign:
            carried = await self._carried(foreign, own)
            now = self._log.offsets_now(self._group)  # a client may have committed meanwhile, even what is there
            for at in self._held & foreign.keys():
                del found[at], foreign[at]
        for at, there in found.items():
            its.znode(at).read(there, now.get(at))
            if at in carried:
                its.znode(at).both_have(there)
        its.adopt(own, found)
        if foreign:
            # It is there. What the log had before it may have again from here on, by a commit that is newer.
            moved = self._log.moved.of(self._group)
            stand = {at: each for at, each in foreign.items() if at not in moved and not its.znode(at).moved}
            await self._note(stand)
            its.said(stand)

    def _judged(self, at: Partition, there: StoredOffset, own: Mapping[Partition, int]) -> Verdict:
        verdict = self._its.judge(at, there, own)
        if verdict is Verdict.OURS:
            lost, newer = there.offset, own.get(at, "nothing")
            what = "group %s: %s-%d: %s, written to ZooKeeper, gives way to %s, newer here"
            log.info(what, self._group, *at, lost, newer)
        if verdict is not Verdict.KNOWN:
            log.debug("group %s: %s-%d: %s: %s", self._group, *at, verdict.name, self._its.znode(at))
        return verdict

    async def _carried(self, foreign: Mapping[Partition, StoredOffset], own: Mapping[Partition, int]) -> Set[Partition]:
        """Those that are in the log from here on: of ``foreign`` those of which it has nothing else meanwhile. What is
        held is none of them."""
        # Two logs, and a kill can come between them: so what is about to be carried is noted first.
        await self._note(foreign, replaced=own)
        now, moved = self._log.offsets_now(self._group), self._log.moved.take(self._group)
        self._its.log_moved(moved)
        same_still = {at for at in foreign if now.get(at) == own.get(at) and at not in moved}
        # Where ZooKeeper is right there are no transactions, and nothing waits for one.
        pending: Set[Partition] = frozenset() if self._zookeeper_is_right else self._log.pending(self._group)
        self._held |= same_still & pending
        offsets = {at: foreign[at].offset for at in foreign if at in same_still - pending}
        await self._log.carry(self._group, offsets)
        log.debug("group %s: %s written to ZooKeeper directly", self._group, counted(len(offsets), "offset"))
        return offsets.keys()

    # -- from the log to there

    async def _wrote(self) -> bool:
        """Whether ZooKeeper has now what the log has; not where somebody else has written since it was read, which has
        been told then, or may have."""
        its = self._its
        own = await self._own()
        if gone := its.to_delete(own):
            await self._delete(gone, whole=not own)
            await self._note(dict.fromkeys(gone))
            its.said(gone)
            own = await self._own()
        due = {at: each for at, each in its.to_write(own).items() if at not in self._held}
        all_known = its.all_written(own)
        if due and not await self._written(due):
            return False
        # What somebody else writes from here on is newer than what was written, after a crash, too.
        moved = self._log.moved.of(self._group)  # and noted with it, which stands
        there = {at: each for at, each in its.to_say(own).items() if at not in moved}
        await self._note(there)
        its.said(there)
        return all_known

    async def _written(self, due: Mapping[Partition, StoredOffset]) -> bool:
        """Whether all of it was."""
        its = self._its
        written = {at: StoredOffset(each.offset, next_version(each.version)) for at, each in due.items()}
        about = {at: its.znode(at).about(each.offset) for at, each in due.items()}
        await self._note(written, about=about)
        had_moved = {at for at in due if its.znode(at).moved}
        for at, each in due.items():
            its.znode(at).attempt(each)
        try:
            versions = await self._store.commit(self._group, due)
        except StoreConflict as conflict:
            self._both_have(due, conflict.written)
            for at in due.keys() - conflict.written.keys():
                its.znode(at).not_attempted(moved=at in had_moved)
            for at, moved in conflict.moved.items():
                if moved.version == ABSENT:
                    its.znode(at).gone()
                elif moved.offset is None:
                    its.znode(at).read(StoredOffset(-1, moved.version), due[at].offset)  # it is written over
                else:
                    its.found(at, StoredOffset(moved.offset, moved.version))
            return False
        except StoreError as error:
            self._both_have(due, error.written)
            raise
        finally:
            its.known_at(self._watch.look)
        self._both_have(due, versions)
        return True

    def _both_have(self, due: Mapping[Partition, StoredOffset], versions: Mapping[Partition, int]) -> None:
        for at, version in versions.items():
            self._its.znode(at).both_have(StoredOffset(due[at].offset, version))
        self._its.changed(versions)

    async def _delete(self, gone: Collection[Partition], *, whole: bool) -> None:
        """``whole``: the log has no offset of the group."""
        its = self._its
        deleted = whole and self._group not in self._log.coordinator(self._group).group_ids()
        try:
            if not deleted and self._zookeeper_is_right and await self._store.members(self._group):
                raise GroupInUse(f"group {self._group!r} has consumers in ZooKeeper")
            versions = {at: known.version for at in gone if (known := its.znode(at).known) is not None}
            for at in gone:
                its.znode(at).deleting()
            await self._store.delete(
                self._group,
                None if deleted else gone,
                {at: version for at, version in versions.items() if version is not None},
            )
        except GroupInUse:
            # Consumers have come since it was asked whether there are any. They stay, and what stands there is theirs.
            for at in gone:
                its.znode(at).left()
            its.read_anew = True
            raise
        its.known_at(self._watch.look)
        for at in gone:
            its.znode(at).deleted()
        its.changed(gone)

    async def _note(
        self,
        written: Mapping[Partition, StoredOffset | None],
        *,
        replaced: Mapping[Partition, int] | None = None,
        about: Mapping[Partition, About] | None = None,
    ) -> None:
        """As :meth:`LogSide.note`. Where ZooKeeper is right nothing has to be known of what was written there."""
        if not self._zookeeper_is_right:
            await self._log.note(self._group, written, replaced=replaced, about=about)

    def _check_none_held(self) -> None:
        """Raises StoreUnavailable: another turn has to come."""
        if self._held:
            offsets = counted(len(self._held), "offset")
            raise StoreUnavailable(
                f"group {self._group}: a transaction that has not ended decides about {offsets} written to ZooKeeper "
                "directly"
            )
