"""A place where offsets are kept, as those see it who carry offsets from one to another."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from protocol.own.state_log import ABSENT as ABSENT  # what a store says of versions is written there as it is
from protocol.topic_partition import Partition as Partition

STORE_SECONDS: Final = 4.0
"""The longest that somebody who asks for offsets, or commits them, waits for a store: behind it on its connection a
heartbeat may wait, too."""


class StoredOffset(NamedTuple):
    """``offset``: a negative one stands for none, where a store can hold one. ``leader_epoch``: -1 where it is not
    known. A store that cannot hold leader epoch and metadata leaves them out.

    ``version``: of what a store gives, which of its writes that is, where it can tell. Of what it is to write: the
    version that is expected to be there, :data:`ABSENT` where none is; None: whatever is there.
    """

    offset: int
    version: int | None = None
    leader_epoch: int = -1
    metadata: str = ""


class Ownership(NamedTuple):
    """Of a partition. ``consumer``: the owner's id, as among the members. ``claim``: no two claims have the same."""

    consumer: str
    claim: int


class Moved(NamedTuple):
    """What somebody else has written: ``offset`` is None where it is no number; ``version`` is :data:`ABSENT` where it
    was deleted."""

    offset: int | None
    version: int


class StoreError(Exception):
    """The message is one line for an operator. ``written``: what of a commit was written before, and its versions."""

    def __init__(self, message: str, written: Mapping[Partition, int] | None = None) -> None:
        super().__init__(message)
        self.written: Mapping[Partition, int] = dict(written or {})


class StoreUnavailable(StoreError):
    """Try again. Whether a write was done that is not among ``written`` nobody knows: where it was, a conditional one
    finds its own offset when it is tried again."""


class StoreUnanswered(StoreUnavailable):
    """As that; and it may be done yet."""


class StoreRefused(StoreError):
    """The shim may not do that there."""


class StoreUnreadable(StoreError):
    """What stands there is no offset."""


class GroupInUse(StoreError):
    """The group has consumers; nothing was deleted."""


class StoreConflict(StoreError):
    """Somebody else has written. ``moved``: where, and what; these and others of the commit were not written."""

    def __init__(self, group: str, moved: Mapping[Partition, Moved], written: Mapping[Partition, int]) -> None:
        (topic, partition), first = next(iter(moved.items()))
        more = f", and {len(moved) - 1} more" if len(moved) > 1 else ""
        found = "deleted" if first.version == ABSENT else f"{first.offset}, version {first.version}"
        super().__init__(f"group {group!r}: somebody else changed {topic}-{partition} ({found}){more}", written)
        self.moved = dict(moved)


class OffsetStore(Protocol):
    """Every method raises :class:`StoreUnavailable`, :class:`StoreRefused` and, for whatever else went wrong,
    :class:`StoreError`; ValueError for a group or topic that cannot be there."""

    async def fetch(self, group: str, topics: Collection[str] | None = None) -> dict[Partition, StoredOffset]:
        """Of these topics, or of all. Raises :class:`StoreUnreadable`."""

    async def partitions(self, group: str) -> list[Partition]:
        """Those of which it has an offset, whatever that is."""

    async def commit(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> dict[Partition, int]:
        """The new versions, where the store has such. Raises :class:`StoreConflict`."""

    async def delete(
        self,
        group: str,
        partitions: Collection[Partition] | None = None,
        versions: Mapping[Partition, int] | None = None,
    ) -> None:
        """The offsets of these partitions, or the whole group. ``versions``: those that are expected to be there; where
        one is not, :class:`StoreError`, and nothing was deleted. Raises :class:`GroupInUse`."""

    async def members(self, group: str) -> list[str]:
        """Consumers that are there, in the store itself."""

    async def owned(self, group: str) -> dict[Partition, Ownership]:
        """Which of them has which partitions."""

    async def groups(self) -> list[str]: ...
