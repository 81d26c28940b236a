"""A cluster that keeps what it is given, and has no group else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from protocol.messages.describe_groups import DescribedGroup
from protocol.topic_partition import TopicPartition
from shim.offsets.cluster.groups import Committed


class NoGroups:
    """Has the methods of :class:`shim.offsets.cluster.groups.ClusterGroups` that placing a group needs."""

    def __init__(self) -> None:
        self.offsets: Committed = {}

    def forget(self, group: str) -> None:
        return

    async def described(self, group: str, within_seconds: float | None = None) -> DescribedGroup:
        return DescribedGroup(0, group_id=group, group_state="Empty")

    async def transactions_ended(self, group: str, known: object = ()) -> None:
        return

    async def offsets_of(self, groups: list[str], *, stable: bool = True) -> dict[str, Committed]:
        return {group: dict(self.offsets) for group in groups}

    async def offsets_of_one(self, group: str, within_seconds: float | None = None) -> Committed:
        return dict(self.offsets)

    async def try_commit(
        self, group: str, offsets: Committed, may_send: Callable[[], None] = lambda: None
    ) -> list[str]:
        may_send()
        self.offsets.update(offsets)
        return []

    async def try_delete(
        self, group: str, partitions: Sequence[TopicPartition], may_send: Callable[[], None] = lambda: None
    ) -> list[str]:
        may_send()
        for at in partitions:
            self.offsets.pop(at, None)
        return []

    async def keeps_leader_epochs(self, group: str) -> bool:
        return True


async def passed_by(_group: str) -> bool:
    return True


def none_blocked(_topics: Iterable[str]) -> Sequence[str]:
    return ()


async def none_uncertain(_topics: Collection[str]) -> Sequence[str]:
    return ()
