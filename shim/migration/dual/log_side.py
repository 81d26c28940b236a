"""What the log has of groups whose offsets are in ZooKeeper, too, and what is noted there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.own.state_log import NOT_CARRIED, About, WrittenValue
from shim.coordinator import GroupCoordinator
from shim.coordinator.state.offsets import Moved
from shim.migration.deciding import decide
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.offsets.store import ABSENT, Partition, StoredOffset, StoreUnavailable
from shim.runtime import Runtime


class LogSide:
    """Raises :class:`StoreUnavailable` while a group's partition is not served."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.moved: Final = Moved()
        """Of groups that are followed, since somebody last looked."""

    async def offsets(self, group: str) -> dict[Partition, int]:
        """What is durable, or on its way there: nothing is told of it that the log could still lose but what was not
        answered."""
        await self._runtime.settled(self._runtime.partition_of(group))
        return self.offsets_now(group)

    def offsets_now(self, group: str) -> dict[Partition, int]:
        """Raises StoreUnavailable, also while the partition has not caught up with the cluster's transactions: nothing
        is known of its offsets then, which is not that there are none."""
        try:
            found = own_offsets(self.coordinator(group), group)
        except NotReadable as error:
            raise StoreUnavailable(str(error)) from error
        return {at: each.offset for at, each in found.items() if each.offset >= 0}

    def notes(self, group: str) -> Mapping[Partition, WrittenValue]:
        """What is noted of ZooKeeper."""
        return self.coordinator(group).written(group)

    def pending(self, group: str) -> Set[Partition]:
        """What a transaction that has not ended may yet change. A carry would overrule it, as every later commit does,
        and what is carried may have been written before the transaction began."""
        return {(topic, number) for topic, number, _ in self.coordinator(group).pending_offsets(group)}

    async def carry(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit what somebody has written to ZooKeeper directly; a negative offset stands for none."""
        await self._decided(group, partial(_carry, group, offsets))

    async def note(
        self,
        group: str,
        written: Mapping[Partition, StoredOffset | None],
        *,
        replaced: Mapping[Partition, int] | None = None,
        about: Mapping[Partition, About] | None = None,
    ) -> None:
        """What stands in ZooKeeper, None for what is not there any more; with ``about``, what is about to be written
        there; with ``replaced``, what is about to be carried from there, and what the log has of it."""
        if notes := _notes(written, replaced, about or {}):
            await self._decided(group, partial(_note_written, group, notes))

    def coordinator(self, group: str) -> GroupCoordinator:
        coordinator = self._runtime.coordinator_of(group)
        if coordinator is None:
            raise StoreUnavailable(f"the partition of group {group} is not loaded")
        return coordinator

    async def _decided(self, group: str, operation: Callable[[GroupCoordinator, int, Any], Any]) -> None:
        answer = await decide(self._runtime, group, operation)
        if isinstance(answer, ErrorCode):
            raise StoreUnavailable(f"group {group}: the log answers {answer.name}")


def _notes(
    written: Mapping[Partition, StoredOffset | None],
    replaced: Mapping[Partition, int] | None,
    about: Mapping[Partition, About],
) -> dict[Partition, WrittenValue | None]:
    return {
        at: None
        if each is None
        else WrittenValue(
            each.offset,
            ABSENT if each.version is None else each.version,
            NOT_CARRIED if replaced is None else replaced.get(at, -1),
            about.get(at, About.STANDS),
        )
        for at, each in written.items()
    }


def _carry(group: str, offsets: Mapping[Partition, int], coordinator: GroupCoordinator, now: int, asker: object) -> Any:
    return coordinator.carry(now, group, offsets, asker)


def _note_written(
    group: str,
    written: Mapping[Partition, WrittenValue | None],
    coordinator: GroupCoordinator,
    now: int,
    asker: object,
) -> Any:
    return coordinator.note_written(now, group, written, asker)
