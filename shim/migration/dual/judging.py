"""Whose is what stands in ZooKeeper: the shim's own, or somebody's who has written there directly?

The log's order is the only one. What somebody has written directly is carried into the log, where it comes now; unless
the log has moved on since the two were last alike: then what it has stands, and is written over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from protocol.own.state_log import WrittenValue
from shim.offsets.store import ABSENT, Partition, StoredOffset


class Verdict(Enum):
    """``KNOWN``: the log knows of it. ``CARRY``: somebody else's, newer than what the log has. ``OURS``: somebody
    else's, and the log has something newer."""

    KNOWN = auto()
    CARRY = auto()
    OURS = auto()


class Znodes:
    """Of the offsets of one group: what the log knows of what stands there.

    ``attempted``: what was about to be written, of which nobody knows whether it was: after a crash, or where ZooKeeper
    was lost on the way. ``alike``: what both had when they were last alike, None for nothing; of a znode that has been
    deleted since, too. ``moved``: where the log has had something else since then, or since what was attempted, which
    it may not have any more. ``adopted``: whether the log has what stands there; until then ZooKeeper is right.
    ``undone``: what the log has (None: nothing) and whoever committed it was told that it failed: anybody else's is
    newer. ``deleted``: by the shim, and nothing was seen there since. ``replaced``: what the log had (None: nothing)
    when it was about to carry what was attempted. ``restored``: of what was attempted, where the log had not moved, but
    the znode was gone.
    """

    __slots__ = ("adopted", "alike", "attempted", "deleted", "known", "moved", "replaced", "restored", "undone")

    def __init__(
        self,
        attempted: Mapping[Partition, StoredOffset] | None = None,
        replaced: Mapping[Partition, int | None] | None = None,
    ) -> None:
        """``attempted``: None where nothing has been adopted yet."""
        self.replaced = dict(replaced or {})
        self.known: dict[Partition, StoredOffset] = {}
        self.attempted = dict(attempted or {})
        self.alike: dict[Partition, int | None] = {}
        self.undone: dict[Partition, int | None] = {}
        self.deleted: set[Partition] = set()
        self.moved: set[Partition] = set()
        self.restored: set[Partition] = set()
        self.adopted = attempted is not None

    def judge(self, at: Partition, there: StoredOffset, own: int | None) -> Verdict:
        """``there``: what was read, since all that is known. ``own``: what the log has, None for nothing."""
        if own == _offset(there):
            return Verdict.KNOWN
        if not self.adopted:
            return Verdict.CARRY
        before, attempted = self.known.get(at), self.attempted.get(at)
        if attempted is not None and at in self.replaced and self.replaced[at] == own:
            return Verdict.CARRY  # it was noted, and a crash came between
        if same(there, before) or same(there, attempted):
            return Verdict.KNOWN
        if attempted is not None and before is None and _version(there) == _version(attempted) - 1:
            return Verdict.KNOWN  # it was not written
        if at in self.undone and self.undone[at] == own:
            return Verdict.CARRY
        last = self.alike.get(at) if attempted is None else _offset(attempted)
        moved = own != last or at in self.moved
        if _version(there) < _version(attempted or before or there):  # it was deleted, and created anew
            moved = moved and own is not None
        elif attempted is not None and _version(there) == _version(attempted):  # somebody else was faster
            moved = moved or at not in self.restored
        return Verdict.OURS if moved else Verdict.CARRY

    def came_back(self, at: Partition, there: StoredOffset, own: int | None) -> bool:
        """Whether both have the same after a crash, though something else was attempted: what was read may be old, and
        it is written once more, which tells, and what others write after that is newer."""
        attempted = self.attempted.get(at)
        if attempted is None or own is None or at in self.known:
            return False
        return own == _offset(there) and not same(there, attempted)

    def is_doubtful(self, at: Partition, there: StoredOffset) -> bool:
        """Whether it may have been read before what is known was written, or deleted: it has to be read again."""
        before = self.known.get(at)
        return at in self.deleted or (before is not None and _version(there) < _version(before))

    def stands(self, at: Partition, there: StoredOffset) -> None:
        """From here on that is known. Where the log has something else, that is newer."""
        self.known[at] = there
        self.alike[at] = _offset(there)
        self.attempted.pop(at, None)
        self.replaced.pop(at, None)
        self.deleted.discard(at)
        self.moved.discard(at)

    def attempt(self, written: Mapping[Partition, StoredOffset]) -> None:
        """What the log has is about to be written."""
        self.attempted.update(written)
        self.restored -= written.keys()
        self.restored |= {
            at for at, each in written.items() if self.alike.get(at) == each.offset and at not in self.moved
        }
        self.moved -= written.keys()

    def gone(self, at: Partition) -> None:
        """Nothing stands there any more, or yet."""
        self.replaced.pop(at, None)
        attempted = self.attempted.pop(at, None)
        if attempted is not None and _version(attempted) > 0:
            self.alike[at] = _offset(attempted)
        self.known.pop(at, None)

    def agree(self, at: Partition, offset: int | None) -> None:
        """Both have that now: whoever was told before that it failed need not care."""
        self.alike[at] = offset
        self.undone.pop(at, None)
        self.moved.discard(at)

    def agree_on_none(self, own: Mapping[Partition, int]) -> None:
        """What neither has, ZooKeeper having all that the log has."""
        for at in (self.alike.keys() | self.moved) - own.keys() - self.known.keys():
            self.agree(at, None)

    def to_write(self, own: Mapping[Partition, int]) -> dict[Partition, StoredOffset]:
        """What the log has and ZooKeeper has not, each on condition of what is known to stand there; what has come back
        to that, too, which tells whether it stands there still."""
        due = {}
        for at, offset in own.items():
            known = self.known.get(at)
            if known is None or known.offset != offset or at in self.moved:
                due[at] = StoredOffset(offset, ABSENT if known is None else known.version)
        return due

    def owed(self, own: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """What ZooKeeper has not, or may not have, of what the log has; None for what it is not to have."""
        return {at: own.get(at) for at in (*self.to_write(own), *self.to_delete(own), *self.attempted)}

    def to_delete(self, own: Mapping[Partition, int]) -> list[Partition]:
        """What ZooKeeper has and the log has not."""
        return [at for at, known in self.known.items() if known.offset >= 0 and at not in own]


def same(some: StoredOffset, other: StoredOffset | None) -> bool:
    return other is not None and (some.offset, some.version) == (other.offset, other.version)


def is_own(there: StoredOffset, noted: WrittenValue | None) -> bool:
    """Of a znode that nobody has looked after since that was noted: whether nobody else has written it. What was about
    to be written may not have been."""
    if noted is None or there.version is None:
        return False
    return (there.offset, there.version) == (noted.offset, noted.version) or there.version == noted.version - 1


def next_version(version: int | None) -> int:
    """Of a znode that has this one, or is created."""
    return 0 if version is None else version + 1


def _version(stored: StoredOffset) -> int:
    return ABSENT if stored.version is None else stored.version


def _offset(stored: StoredOffset) -> int | None:
    """A negative one stands for none."""
    return stored.offset if stored.offset >= 0 else None
