"""One turn of a group's outbox: what others have written to ZooKeeper is carried into the log, and what the log has is
written there, until both have the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from protocol.own.state_log import ZOOKEEPER_IS_RIGHT, Step
from shim.counted import counted
from shim.migration.dual.judging import Verdict, Znodes, next_version, same
from shim.migration.dual.log_side import LogSide
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
from shim.offsets.zookeeper.watching import OffsetsWatch

log = logging.getLogger(__name__)

_READ_SECONDS: Final = 15.0
_BESIDE_OTHERS_SECONDS: Final = 3.0
"""The longest that a turn writes beside somebody who writes at the same time: a consumer commits its partitions one by
one, and each may come between. Clients wait a second longer for all of it."""


class Followed:
    """What is known of a group's znodes. ``seen``: what was told of them since they were last looked at. ``held``: what
    is neither carried nor written over in this turn, as a transaction that has not ended decides which."""

    __slots__ = ("held", "read_anew", "seen", "znodes")

    def __init__(self, znodes: Znodes, *, read_anew: bool) -> None:
        self.znodes = znodes
        self.seen: dict[Partition, StoredOffset] = {}
        self.held: set[Partition] = set()
        self.read_anew = read_anew


class Turn:
    """For the event loop. ``watch``: has the group among those that it watches."""

    def __init__(self, log_side: LogSide, store: OffsetStore, watch: OffsetsWatch) -> None:
        self._log = log_side
        self._store = store
        self._watch = watch

    async def take(self, group: str, its: Followed, step: Step) -> None:
        """Raises :class:`StoreError`; what ZooKeeper has then is to be read anew."""
        loop = asyncio.get_running_loop()
        its.held.clear()
        its.znodes.is_noted(self._log.noted(group, step))
        try:
            await self._read(group, its)
            until = loop.time() + _BESIDE_OTHERS_SECONDS
            while loop.time() < until:
                await self._carry(group, its, step)
                if await self._wrote(group, its, step):
                    _check_none_held(group, its)
                    return
        except ValueError as error:  # of a name that cannot be there
            its.read_anew = True
            raise StoreError(f"group {group}: {error}") from error
        except BaseException:  # what was seen may not have been carried
            its.read_anew = True
            raise
        raise StoreUnavailable(f"group {group}: somebody else writes its offsets all the time")

    async def _read(self, group: str, its: Followed) -> None:
        if its.read_anew:
            its.read_anew = False
            found = its.seen = await self._fetched(group, its)
            for at in [*its.znodes.known.keys() - found.keys(), *its.znodes.attempted.keys() - found.keys()]:
                its.znodes.gone(at)
        elif not its.znodes.adopted or its.znodes.attempted:
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    await self._watch.known(group)
            except TimeoutError:
                raise StoreUnavailable("ZooKeeper does not tell the offsets of groups") from None
            for at in its.znodes.attempted.keys() - its.seen.keys():
                its.znodes.gone(at)
        doubtful = {at for at, there in its.seen.items() if its.znodes.is_doubtful(at, there)}
        if doubtful:
            seen = its.seen
            found = await self._fetched(group, its, {topic for topic, _ in doubtful})
            sure = {at: there for at, there in seen.items() if at not in doubtful}
            its.seen = sure | {at: found[at] for at in doubtful if at in found}

    async def _fetched(
        self, group: str, its: Followed, topics: Collection[str] | None = None
    ) -> dict[Partition, StoredOffset]:
        """What stands there. What was told meanwhile may be newer, or older: no version says so where somebody has
        deleted the znode in between, and created it anew. So it is for the next turn to read, which comes as it was
        told."""
        its.seen = {}
        found = await self._store.fetch(group, topics)
        if any(not same(there, found.get(at)) for at, there in its.seen.items()):
            its.read_anew = True
        return found

    async def _own(self, group: str, its: Followed) -> dict[Partition, int]:
        """What the log has; where it has moved until then is known, too."""
        own = await self._log.offsets(group)
        its.znodes.moved |= self._log.moved.take(group)
        return own

    async def _carry(self, group: str, its: Followed, step: Step) -> None:
        seen, its.seen = its.seen, {}  # at once: what is told from here on may be older than what was read
        own = await self._own(group, its)
        judged = {at: its.znodes.judge(at, there, own.get(at)) for at, there in seen.items()}
        carried = {at: seen[at] for at, verdict in judged.items() if verdict is Verdict.CARRY}
        for at in (at for at, verdict in judged.items() if verdict is Verdict.OURS):
            lost, newer = seen[at].offset, own.get(at, "nothing")
            log.info("group %s: %s-%d: %s, written to ZooKeeper, gives way to %s, newer here", group, *at, lost, newer)
        offsets: dict[Partition, int] = {}
        if carried:
            # Two logs, and a kill can come between them: so what is about to be carried is noted first.
            await self._log.note(group, carried, step, replaced=own)
            still, since = self._log.offsets_now(group), self._log.moved.take(group)
            its.znodes.moved |= since
            held = self._log.pending(group, step)
            same_still = {at for at in carried if still.get(at) == own.get(at) and at not in since}
            its.held |= same_still & held
            offsets = {at: carried[at].offset for at in carried if at in same_still - held}
            await self._log.carry(group, offsets)
            log.debug("group %s: %s written to ZooKeeper directly", group, counted(len(offsets), "offset"))
            for at in its.held & carried.keys():
                del seen[at], carried[at]
        for at, there in seen.items():
            came_back = its.znodes.came_back(at, there, own.get(at))
            its.znodes.stands(at, there)
            if came_back:
                its.znodes.moved.add(at)
            if at in carried and at in offsets:
                its.znodes.agree(at, there.offset if there.offset >= 0 else None)
        if not its.znodes.adopted:
            for at in own.keys() - seen.keys():
                its.znodes.agree(at, own[at])  # it was deleted, and is written again
        its.znodes.adopted = True
        if carried:
            # It is there. What the log had before it may have again from here on, by a commit that is newer.
            moved = self._log.moved.of(group)
            await self._log.note(group, {at: each for at, each in carried.items() if at not in moved}, step)
            its.znodes.said(carried)

    async def _wrote(self, group: str, its: Followed, step: Step) -> bool:
        """Whether ZooKeeper has now what the log has; not where somebody else has written since it was read. Then what
        that is has been seen."""
        own = await self._own(group, its)
        gone = its.znodes.to_delete(own)
        if gone:
            await self._delete(group, its, gone, step, whole=not own)
            await self._log.note(group, dict.fromkeys(gone), step)
            its.znodes.said(gone)
        due = {at: each for at, each in its.znodes.to_write(own).items() if at not in its.held}
        its.znodes.agree_on_none(own)
        if not due:
            await self._say(group, its, step, own)
            return True
        written = {at: StoredOffset(each.offset, next_version(each.version)) for at, each in due.items()}
        await self._log.note(group, written, step, about=its.znodes.about(written))
        had_moved = its.znodes.moved & written.keys()
        its.znodes.attempt(written)
        try:
            versions = await self._store.commit(group, due)
        except StoreConflict as conflict:
            self._stand(its, due, conflict.written)
            for at in due.keys() - conflict.written.keys():
                its.znodes.attempted.pop(at, None)  # none of them was written
            its.znodes.moved |= had_moved - conflict.written.keys()
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
        await self._say(group, its, step, own)
        return True

    async def _say(self, group: str, its: Followed, step: Step, own: Mapping[Partition, int]) -> None:
        """What somebody else writes from here on is newer than what was written, after a crash, too."""
        moved = self._log.moved.of(group)  # and noted with it, which stands
        there = {at: each for at, each in its.znodes.to_say(own).items() if at not in moved}
        await self._log.note(group, there, step)
        its.znodes.said(there)

    def _stand(self, its: Followed, due: Mapping[Partition, StoredOffset], versions: Mapping[Partition, int]) -> None:
        for at, version in versions.items():
            its.znodes.stands(at, StoredOffset(due[at].offset, version))
            its.znodes.agree(at, due[at].offset)

    async def _delete(self, group: str, its: Followed, gone: list[Partition], step: Step, *, whole: bool) -> None:
        deleted = whole and group not in self._log.coordinator(group).group_ids()
        try:
            if not deleted and step in ZOOKEEPER_IS_RIGHT and await self._store.members(group):
                raise GroupInUse(f"group {group!r} has consumers in ZooKeeper")
            versions = {at: its.znodes.known[at].version for at in gone}
            await self._store.delete(
                group,
                None if deleted else gone,
                {at: version for at, version in versions.items() if version is not None},
            )
        except GroupInUse:
            # Consumers have come since it was asked whether there are any. They stay, and what stands there is theirs.
            for at in gone:
                its.znodes.known.pop(at, None)
                its.znodes.agree(at, None)
            its.read_anew = True
            raise
        for at in gone:
            its.znodes.gone(at)
            its.znodes.agree(at, None)
            its.znodes.deleted.add(at)


def _check_none_held(group: str, its: Followed) -> None:
    """Raises StoreUnavailable: another turn has to come."""
    if its.held:
        offsets = counted(len(its.held), "offset")
        raise StoreUnavailable(
            f"group {group}: a transaction that has not ended decides about {offsets} written to ZooKeeper directly"
        )
