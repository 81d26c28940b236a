"""Whose is what stands in ZooKeeper: the shim's own, or somebody's who has written there directly?

The log's order is the only one. What somebody has written directly is carried into the log, where it comes now; unless
the log has moved on since the two were last alike: then what it has stands, and is written over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto

from protocol.own.state_log import NOT_CARRIED, About, WrittenValue
from shim.offsets.store import ABSENT, Partition, StoredOffset


class Verdict(Enum):
    """``KNOWN``: the log knows of it. ``CARRY``: somebody else's, newer than what the log has. ``OURS``: somebody
    else's, and the log has something newer."""

    KNOWN = auto()
    CARRY = auto()
    OURS = auto()


class Znodes:
    """Of the offsets of one group: what the log knows of what stands there.

    ``attempted``: what was about to be written, of which nobody knows whether it was: where ZooKeeper was lost on the
    way, or after a crash. ``sure``: of what is noted, after a crash, what stood there for certain. ``alike``: what both
    had when they were last alike, None for nothing; of a znode that has been deleted since, too. ``moved``: where the
    log has had something else since then, or since what was attempted, which it may not have any more. ``adopted``:
    whether the log has what stands there; until then ZooKeeper is right. ``undone``: what the log has (None: nothing)
    and whoever committed it was told that it failed: anybody else's is newer. ``deleted``: by the shim, and nothing was
    seen there since. ``replaced``: what the log had (None: nothing) when it was about to carry what was attempted.
    ``restored``: of what was attempted, where the log had not moved, but the znode was gone. ``unsaid``: where what
    is noted is not what is known by now.
    """

    __slots__ = (
        "adopted",
        "alike",
        "attempted",
        "deleted",
        "known",
        "moved",
        "replaced",
        "restored",
        "sure",
        "undone",
        "unsaid",
    )

    def __init__(self, noted: Mapping[Partition, WrittenValue] | None = None) -> None:
        """``noted``: None where nothing has been adopted yet."""
        its = noted or {}
        self.attempted = {at: StoredOffset(value.offset, value.version) for at, value in its.items()}
        self.sure = {at for at, value in its.items() if value.about == About.STANDS}
        self.restored = {at for at, value in its.items() if value.about == About.RESTORES}
        self.unsaid = its.keys() - self.sure
        self.replaced = {
            at: value.replaced if value.replaced >= 0 else None
            for at, value in its.items()
            if value.replaced != NOT_CARRIED
        }
        self.known: dict[Partition, StoredOffset] = {}
        self.alike: dict[Partition, int | None] = {}
        self.undone: dict[Partition, int | None] = {}
        self.deleted: set[Partition] = set()
        self.moved: set[Partition] = set()
        self.adopted = noted is not None

    def is_noted(self, noted: Mapping[Partition, WrittenValue]) -> None:
        """In the log, by now. What nobody has known yet was noted with a deletion, and is looked for as after a
        crash."""
        for at in noted.keys() - self.known.keys() - self.attempted.keys() - self.alike.keys():
            self.attempted[at] = StoredOffset(noted[at].offset, noted[at].version)
            self.unsaid.add(at)

    def judge(self, at: Partition, there: StoredOffset, own: int | None) -> Verdict:
        """``there``: what was read, since all that is known. ``own``: what the log has, None for nothing."""
        if own == _offset(there):
            return Verdict.KNOWN
        if not self.adopted:
            return Verdict.CARRY
        before, attempted = self.known.get(at), self.attempted.get(at)
        if attempted is not None and at not in self.moved and self.replaced.get(at, NOT_CARRIED) == own:
            return Verdict.CARRY  # it was noted, and a crash came between
        if same(there, before) or same(there, attempted):
            return Verdict.KNOWN
        if attempted is not None and before is None and _version(there) == _version(attempted) - 1:
            return Verdict.KNOWN  # it was not written
        if at in self.undone and self.undone[at] == own:
            return Verdict.CARRY
        last = self.alike.get(at) if attempted is None else _offset(attempted)
        # What nobody knows to stand there somebody else may not have seen: he may have written before it was committed.
        unseen = attempted is not None and at not in self.sure and at not in self.restored
        moved = own != last or at in self.moved or unseen
        if _version(there) < _version(attempted or before or there):  # it was deleted, and created anew
            moved = moved and own is not None
        return Verdict.OURS if moved else Verdict.CARRY

    def came_back(self, at: Partition, there: StoredOffset, own: int | None) -> bool:
        """Whether both have the same, though the log has had something else since, or something else was attempted
        before a crash: what was read may be old, and it is written once more, which tells, and what others write after
        that is newer."""
        if own is None or own != _offset(there):
            return False
        attempted = self.attempted.get(at)
        if attempted is None or at in self.known:
            return at in self.moved
        return at in self.moved or not same(there, attempted)

    def is_doubtful(self, at: Partition, there: StoredOffset) -> bool:
        """Whether it may have been read before what is known was written, or deleted: it has to be read again."""
        before = self.known.get(at)
        return at in self.deleted or (before is not None and _version(there) < _version(before))

    def stands(self, at: Partition, there: StoredOffset) -> None:
        """From here on that is known. Where the log has something else, that is newer. What both have by chance has not
        been carried or written, and nothing is noted of it yet."""
        noted = _offset(self.attempted[at]) if at in self.sure else None
        if self.alike.get(at, noted) != _offset(there):
            self.unsaid.add(at)
        self.known[at] = there
        self.alike[at] = _offset(there)
        self._tried(at)
        self.deleted.discard(at)
        self.moved.discard(at)

    def about(self, written: Mapping[Partition, StoredOffset]) -> dict[Partition, About]:
        """Of what the log has and is about to be written, what is to be noted."""
        restored = {at for at, each in written.items() if self.alike.get(at) == each.offset and at not in self.moved}
        return {at: About.RESTORES if at in restored else About.WRITES for at in written}

    def attempt(self, written: Mapping[Partition, StoredOffset]) -> None:
        """What the log has is about to be written, and that is noted."""
        about = self.about(written)
        self.attempted.update(written)
        self.sure -= written.keys()
        self.unsaid |= written.keys()
        self.restored -= written.keys()
        self.restored |= {at for at, its in about.items() if its is About.RESTORES}
        self.moved -= written.keys()

    def to_say(self, own: Mapping[Partition, int]) -> dict[Partition, StoredOffset | None]:
        """What is to be noted otherwise: what was about to be written stands there by now, or something else does; or
        nothing does, and the log has nothing either."""
        certain = self.unsaid - self.attempted.keys() - self.moved
        return {at: self.known.get(at) for at in certain if at in self.known or at not in own}

    def said(self, noted: Iterable[Partition]) -> None:
        """It is noted what stands there, or that nothing does."""
        self.unsaid.difference_update(noted)

    def gone(self, at: Partition) -> None:
        """Nothing stands there any more, or yet."""
        stood = at in self.sure or at in self.restored
        attempted = self._tried(at)
        if attempted is not None or at in self.known:
            self.unsaid.add(at)
        if attempted is not None and (stood or _version(attempted) > 0):
            self.alike[at] = _offset(attempted)
        self.known.pop(at, None)

    def _tried(self, at: Partition) -> StoredOffset | None:
        """It is known what stands there. Gives what was attempted."""
        self.replaced.pop(at, None)
        self.sure.discard(at)
        return self.attempted.pop(at, None)

    def agree(self, at: Partition, offset: int | None) -> None:
        """Both have that now: whoever was told before that it failed need not care."""
        self.alike[at] = offset
        self.undone.pop(at, None)
        self.moved.discard(at)

    def agree_on_none(self, own: Mapping[Partition, int]) -> None:
        """What neither has, ZooKeeper having all that the log has."""
        for at in (self.alike.keys() | self.moved) - own.keys() - self.known.keys():
            if at in self.moved:
                self.unsaid.add(at)  # its deletion is noted
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
