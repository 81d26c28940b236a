"""What the cluster has of the groups of a partition that was loaded: which of them it does not have as they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from protocol.own.state_log import Hands
from shim.coordinator import GroupCoordinator
from shim.counted import counted
from shim.logged_once import LoggedOnce
from shim.migration.compared import to_bring
from shim.migration.mirror.last_written import Written
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.offsets.cluster.store import ClusterStore
from shim.offsets.store import StoreError, StoreUnavailable
from shim.runtime import Runtime
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_OFFSETS_AT_ONCE: Final = 5_000
_GROUPS_AT_ONCE: Final = 500
_AGAIN_SECONDS: Final = 1.0
_LISTED_WITHIN_SECONDS: Final = 10.0
"""One that hangs may not be in the cluster any more when it is asked again."""
_TROUBLE: Final = "the offsets that were loaded cannot be compared to the cluster's own"


class Comparison:
    """One partition after the other, many groups a request. ``written`` takes what the cluster has; ``touched`` those
    groups of which it is something else. ``waits``: whether the group has a turn, which finds out for itself.
    """

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        written: Written,
        waits: Callable[[str], bool],
        touched: Callable[[Iterable[str]], None],
        look: Callable[[GroupCoordinator, str, Committed, Committed], None],
    ) -> None:
        """``look``: of each group what the log and the cluster have."""
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._cluster = ClusterStore(cluster_groups)
        self._written = written
        self._waits = waits
        self._touched = touched
        self._look = look
        self._compared = 0
        self._portion: dict[str, Committed] = {}
        """Groups that the cluster is asked about now, with what the log has."""
        self._loaded: set[int] = set()
        self._any = asyncio.Event()
        self._trouble = LoggedOnce(log)

    def served(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """A partition begins to be served, or ends: :meth:`Runtime.watch`."""
        if coordinator is None:
            self._loaded.discard(number)
        else:
            self._loaded.add(number)
            self._any.set()

    def leave(self, group: str) -> None:
        """It has a turn, which finds out for itself: what was asked before is older."""
        self._portion.pop(group, None)

    def is_compared(self, number: int) -> bool:
        """Whether all groups of a partition that was loaded have been looked at."""
        return number not in self._loaded

    async def run(self) -> None:
        """Until cancelled. It may be begun again."""
        if self._loaded:
            self._any.set()
        while True:
            await self._any.wait()
            self._any.clear()
            try:
                await self._compare_loaded()
            except (UpstreamError, StoreUnavailable) as error:
                self._trouble.failed(_TROUBLE, error)
            else:
                self._trouble.went_well(_TROUBLE)
            if self._loaded:
                await asyncio.sleep(_AGAIN_SECONDS)  # nobody tells when brokers are back, or a partition has caught up
                self._any.set()

    async def _compare_loaded(self) -> None:
        """Those that cannot be read yet are left for the next time."""
        listed = await self._cluster_groups.groups(_LISTED_WITHIN_SECONDS)
        for number in sorted(self._loaded):
            coordinator = self._runtime.coordinator(number)
            if coordinator is None or coordinator.is_behind:
                continue
            await self._compare(number, coordinator, listed.keys())
            if self._runtime.coordinator(number) is coordinator:
                self._loaded.discard(number)
        if self._compared and not self._loaded:
            missing = self._runtime.unavailable.total()
            so_far = f" so far, {counted(missing, 'partition')} not loaded yet" if missing else ""
            log.info("compared with the cluster's own offsets: %s%s", counted(self._compared, "group"), so_far)
            if not missing:
                self._compared = 0

    async def _compare(self, number: int, coordinator: GroupCoordinator, listed: Collection[str]) -> None:
        """``listed``: the groups that brokers say they have. One whose coordinator is away or has just moved is not
        among them, and may have offsets all the same: it finds out for itself. Ends where the partition is read back,
        or given away."""
        self._portion.clear()
        offsets = 0
        for group in {*coordinator.hands(), *coordinator.group_ids()}:
            if self._runtime.coordinator(number) is not coordinator:
                return
            if coordinator.hands_of(group) is not Hands.SERVED:
                continue
            try:
                own = own_offsets(coordinator, group)
            except NotReadable as error:
                raise StoreUnavailable(str(error)) from error
            self._compared += 1
            known = self._written.get(group)
            if known is not None:
                self._judge(coordinator, group, own, known)
            elif self._waits(group):
                continue
            elif group in listed:
                self._portion[group] = own
                offsets += len(own)
            elif own or coordinator.overruled(group):
                # Of one that has none here nothing is written before its first turn, which looks itself.
                self._touched([group])
            if offsets >= _OFFSETS_AT_ONCE or len(self._portion) >= _GROUPS_AT_ONCE:
                await self._compare_portion(number, coordinator)
                self._portion.clear()
                offsets = 0
            await asyncio.sleep(0)  # clients have their turns
        await self._compare_portion(number, coordinator)

    async def _compare_portion(self, number: int, coordinator: GroupCoordinator) -> None:
        try:
            found = await self._cluster.offsets_of(dict(self._portion))
        except StoreUnavailable:
            raise
        except StoreError:  # of one of them: each finds out for itself, in its turn
            self._touched(self._portion)
            return
        await self._runtime.settled(number)
        if self._runtime.coordinator(number) is not coordinator:
            return  # what was read of it was decided, and is not there: the first look would take it for a commit
        for group, own in self._portion.items():
            if not coordinator.has_pending(group):
                self._written.update(group, found[group], ())
            self._judge(coordinator, group, own, found[group])

    def _judge(self, coordinator: GroupCoordinator, group: str, own: Committed, there: Committed) -> None:
        self._look(coordinator, group, own, there)
        if any(to_bring(own, there)) or coordinator.overruled(group):
            self._touched([group])
