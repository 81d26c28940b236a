"""Where a group's offsets are kept beside the log, as its step says: what is read first, and what is waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, TypeVar

from protocol.errors import ErrorCode
from protocol.own.state_log import IN_ZOOKEEPER, ZOOKEEPER_IS_RIGHT, Hands, Step
from shim.logged_once import LoggedOnce
from shim.migration.dual.dual_commit import DualCommit
from shim.migration.mirror.mirror import Mirror
from shim.offsets.store import STORE_SECONDS, Partition, StoreError, StoreUnavailable
from shim.runtime import Runtime

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_GLANCE_SECONDS: Final = 1.0
"""For so long a store is waited for that is not right where it differs."""
_AT_ONCE: Final = 8
"""Groups of which something is asked elsewhere for requests."""


class Stores:
    """For the event loop. ``dual_commit``: None where the shim runs without a ZooKeeper."""

    def __init__(self, runtime: Runtime, mirror: Mirror, dual_commit: DualCommit | None) -> None:
        self._runtime = runtime
        self.mirror = mirror
        self._dual_commit = dual_commit
        self._trouble = LoggedOnce(log)
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    # -- for requests

    def is_ready(self, group: str) -> bool:
        """Whether changes of the group's offsets may be decided: not before the log has what decides about them."""
        return self._step_of(group) not in IN_ZOOKEEPER or (
            self._dual_commit is not None
            and self._dual_commit.is_adopted(group)
            and not (self._step_of(group) in ZOOKEEPER_IS_RIGHT and self._dual_commit.outbox.why(group))
        )

    def takes_transactions(self, group: str) -> bool:
        """Not where ZooKeeper is right, which knows none."""
        return self._step_of(group) not in ZOOKEEPER_IS_RIGHT

    def committed_by_none(self, group: str, partitions: Iterable[Partition]) -> None:
        """A client that is no member, as old consumers are, has committed these, and was told so."""
        if self._dual_commit is not None:
            self._dual_commit.consumers.committed(group, partitions)

    async def not_ready(self, groups: Sequence[str]) -> dict[str, ErrorCode]:
        """Wait until the log has all that decides about the offsets of these groups; gives those of which it has not,
        and what is answered for each."""
        ready = await asyncio.gather(*map(self._got_ready, groups))
        return {
            group: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS for group, its in zip(groups, ready, strict=True) if not its
        }

    async def ready(self, group: str) -> None:
        """As :meth:`not_ready`, of one, for whoever is told why not. Raises :class:`StoreError`."""
        async with self._at_once:
            await self._before(group)

    async def _got_ready(self, group: str) -> bool:
        async with self._at_once:  # one request may name any number
            return await self._went_well(group, "requests", self._before(group))

    async def not_deletable(self, groups: Sequence[str]) -> dict[str, ErrorCode]:
        """As :meth:`not_ready`; and not while consumers of a group are in ZooKeeper, who are members, too."""
        errors = await asyncio.gather(*map(self._in_use, groups))
        refused = {group: error for group, error in zip(groups, errors, strict=True) if error}
        return {**refused, **await self.not_ready([each for each in groups if each not in refused])}

    async def consumers(self, group: str) -> Sequence[str]:
        """The ids of those that are in ZooKeeper, of a group whose offsets are there, too. Raises
        :class:`StoreError`."""
        async with self._at_once:
            if self._step_of(group) not in IN_ZOOKEEPER:
                return ()
            return await _in_time(group, self.zookeeper.store.members(group))

    def after(self, groups: Sequence[str]) -> Awaitable[list[str]]:
        """To be called when changes of these groups' offsets are durable, but not answered yet, and never raises, as
        others wait to be answered behind them. Wait until they are where else they have to be; gives the groups of
        which they are not, or nobody knows."""
        # Each is asked now: what has been decided by now is what is to be there.
        told = [self._after(each) for each in groups]
        return asyncio.ensure_future(self._failed(groups, told))

    async def _failed(self, groups: Sequence[str], told: Sequence[Awaitable[None]]) -> list[str]:
        went_well = await asyncio.gather(*(self._went_well(*each) for each in zip(groups, repeat("changes"), told)))
        return [group for group, well in zip(groups, went_well, strict=True) if not well]

    async def _went_well(self, group: str, which: str, other_place: Awaitable[None]) -> bool:
        """What does not is told once for each group, until it goes well again."""
        what = f"{which} of group {group} are refused"
        try:
            await other_place
        except StoreError as error:
            self._trouble.failed(what, error)
            return False
        self._trouble.went_well(what)
        return True

    async def _in_use(self, group: str) -> ErrorCode:
        try:
            return ErrorCode.NON_EMPTY_GROUP if await self.consumers(group) else ErrorCode.NONE
        except StoreError as error:
            log.info("group %s is not deleted now: %s", group, error)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def _before(self, group: str) -> None:
        step = self._step_of(group)
        if step not in IN_ZOOKEEPER:
            return
        if step in ZOOKEEPER_IS_RIGHT:
            if why := self.zookeeper.outbox.why(group):
                self.zookeeper.outbox.hasten(group)
                raise StoreUnavailable(why)
            await _in_time(group, self.zookeeper.refresh(group))
            return
        if self._dual_commit is None or self._dual_commit.outbox.why(group):
            return  # it is away, and the log is right
        try:
            await _in_time(group, self._dual_commit.refresh(group), _GLANCE_SECONDS)
        except StoreError as error:
            log.info("group %s: what was written to ZooKeeper last is not known: %s", group, error)

    def _after(self, group: str) -> Awaitable[None]:
        try:
            return self._told(group)
        except StoreError as error:  # it was decided, and nobody knows any more where else it has to be
            return _refused(str(error))

    def _told(self, group: str) -> Awaitable[None]:
        step = self._step_of(group)
        if step in ZOOKEEPER_IS_RIGHT:
            if not self.zookeeper.is_adopted(group):
                return _refused(f"group {group}: what is in ZooKeeper is not known yet")
            return self._in_zookeeper(group, self.zookeeper.owed(group))
        if step is Step.UPSTREAM_DUAL:
            return _in_time(group, self.mirror.fed(group), who="the cluster")
        return _nothing()

    async def _in_zookeeper(self, group: str, owed: Mapping[Partition, int | None]) -> None:
        """Not before what is owed there by now is there; where that fails, what anybody else writes is newer."""
        try:
            await _in_time(group, self.zookeeper.outbox.fed(group))
        except StoreError:
            self.zookeeper.undo(group, owed)
            raise

    @property
    def zookeeper(self) -> DualCommit:
        """Raises :class:`StoreUnavailable` where there is none."""
        if self._dual_commit is None:
            raise StoreUnavailable("this shim runs without a ZooKeeper (serve --zookeeper)")
        return self._dual_commit

    @property
    def has_zookeeper(self) -> bool:
        return self._dual_commit is not None

    def in_sight(self) -> None:
        """Raises :class:`StoreUnavailable` where it is known that ZooKeeper, if there is one, cannot be asked now: who
        only looks need not wait for it."""
        if self._dual_commit is not None and not self._dual_commit.has_session:
            raise StoreUnavailable("there is no connection to ZooKeeper")

    # -- for whoever looks after them

    def lag_seconds(self, group: str) -> float | None:
        """For how long the oldest change waits that a second place has not; None where none does."""
        step = self._step_of(group)
        lags = [self.mirror.lag_seconds(group)]
        if self._dual_commit is not None and step in IN_ZOOKEEPER:
            lags.append(self._dual_commit.outbox.lag_seconds(group))
        return max((each for each in lags if each is not None), default=None)

    def why(self, group: str) -> str:
        """Why another place does not have what the log has; "" where nothing has failed."""
        if self._dual_commit is not None and (why := self._dual_commit.outbox.why(group)):
            return why
        if self._dual_commit is None and self._step_of(group) in IN_ZOOKEEPER:
            return "the shim runs without a ZooKeeper (serve --zookeeper)"
        if self._dual_commit is not None and self._step_of(group) in IN_ZOOKEEPER and not self._dual_commit.has_session:
            return "there is no connection to ZooKeeper"
        return self.mirror.why(group)

    def _step_of(self, group: str) -> Step:
        """Raises :class:`StoreUnavailable` while its partition is not served."""
        coordinator = self._runtime.coordinator_of(group)
        if coordinator is None:
            raise StoreUnavailable(f"the partition of group {group} is not served")
        return coordinator.step_of(group) if coordinator.hands_of(group) is Hands.SERVED else Step.KAFKA


async def _in_time(
    group: str, done: Awaitable[Answer], seconds: float = STORE_SECONDS, who: str = "ZooKeeper"
) -> Answer:
    try:
        async with asyncio.timeout(seconds):
            return await done
    except TimeoutError:
        raise StoreUnavailable(f"group {group}: {who} does not answer") from None


async def _refused(why: str) -> None:
    raise StoreUnavailable(why)


async def _nothing() -> None:
    return None
