"""What is known of one offset's znode, and whose is what stands there: the shim's own, or somebody's who has written
there directly?

The log's order is the only one. What somebody has written directly is carried into the log, where it comes now; unless
the log has moved on since the two were last alike: then what it has stands, and is written over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from protocol.own.state_log import NO_OFFSET, NOT_CARRIED, About, WrittenValue
from shim.offsets.store import ABSENT, StoredOffset


class Verdict(Enum):
    """``KNOWN``: the log knows of it. ``CARRY``: somebody else's, newer than what the log has. ``OURS``: somebody
    else's, and the log has something newer."""

    KNOWN = auto()
    CARRY = auto()
    OURS = auto()


class NotYet(Enum):
    """In place of an offset, and of None for none."""

    NOT_YET = auto()


NOT_YET: Final = NotYet.NOT_YET
_STOOD: Final = (About.STANDS, About.RESTORES)


@dataclass(slots=True)
class Znode:
    """Of one partition of a group; printed, it says where it is. What changes it are the methods under "what has
    happened". An offset of the log, or of both, is None for none."""

    known: StoredOffset | None = None
    """What stands there. None: nothing does, or nobody has looked."""
    attempted: WrittenValue | None = None
    """The note of what was about to be written or carried, of which nobody knows what came: where ZooKeeper was lost on
    the way, or after a crash. By its ``about`` it stood there for certain when that was noted, or was to be restored
    where somebody had deleted the znode; by its ``replaced`` it was about to be carried."""
    alike: int | NotYet | None = NOT_YET
    """What both had when they were last alike; of a znode that has been deleted since, too."""
    moved: bool = False
    """The log has had something else since then, or since what was attempted, which it may not have any more."""
    undone: int | NotYet | None = NOT_YET
    """What the log has where whoever committed it was told that it failed: anybody else's is newer."""
    is_unsaid: bool = False
    """What is noted is not what is known by now."""
    is_absent: bool = False
    """Somebody has looked since the log last moved, and nothing stood there."""
    is_deleting: bool = False
    """The shim was about to delete it since the log last moved, or may have been before a crash, and nobody knows what
    came of that."""

    # -- whose it is

    def judge(self, there: StoredOffset, own: int | None) -> Verdict:
        """``there``: what was read, since all that is known. ``own``: what the log has."""
        if own == offset_of(there):
            return Verdict.KNOWN
        before, attempted = self.known, self.attempted
        if attempted is not None and not self.moved and attempted.replaced == (NO_OFFSET if own is None else own):
            return Verdict.CARRY  # it was noted, and a crash came between
        if same(there, before) or same(there, attempted):
            return Verdict.KNOWN
        if attempted is not None and before is None and _version(there) == attempted.version - 1:
            return Verdict.KNOWN  # it was not written
        if self.undone is not NOT_YET and self.undone == own:
            return Verdict.CARRY
        alike = None if self.alike is NOT_YET else self.alike
        last = alike if attempted is None else offset_of(attempted)
        # What nobody knows to stand there somebody else may not have seen: he may have written before it was committed.
        unseen = attempted is not None and attempted.about not in _STOOD
        moved = own != last or self.moved or unseen
        if self.is_deleting and own is None and _version(there) < _version(attempted or before or there):
            moved = False  # it was deleted, and created anew since
        return Verdict.OURS if moved else Verdict.CARRY

    @property
    def is_new(self) -> bool:
        """Whether nothing has been known of it yet."""
        return self.known is None and self.attempted is None and self.alike is NOT_YET

    # -- what is to be done

    def to_write(self, own: int | None) -> StoredOffset | None:
        """What the log has and ZooKeeper has not, on condition of what is known to stand there; what has come back to
        that, too, which tells whether it stands there still. None for nothing."""
        if own is None or (self.known is not None and self.known.offset == own and not self.moved):
            return None
        return StoredOffset(own, ABSENT if self.known is None else self.known.version)

    def is_to_be_deleted(self, own: int | None) -> bool:
        """Whether ZooKeeper has an offset and the log has none."""
        return own is None and self.known is not None and self.known.offset >= 0

    def is_owed(self, own: int | None) -> bool:
        """Whether ZooKeeper has not, or may not have, what the log has."""
        return self.attempted is not None or self.to_write(own) is not None or self.is_to_be_deleted(own)

    def is_to_be_said(self, own: int | None) -> bool:
        """Whether what is known is to be noted: what was about to be written stands there by now, or something else
        does; or nothing does, and the log has nothing either."""
        return self.is_unsaid and not self.moved and self.attempted is None and (self.known is not None or own is None)

    def about(self, own: int) -> About:
        """What is to be noted when that is about to be written."""
        return About.RESTORES if self.alike == own and not self.moved else About.WRITES

    # -- what has happened

    def take_note(self, note: WrittenValue) -> None:
        """It is in the log, and whether it is more than a note is to be found out."""
        self.attempted = note
        self.is_deleting = True
        self.is_unsaid = note.about != About.STANDS

    def log_moved(self) -> None:
        """The log has, or has had, something else."""
        self.moved = True
        self.is_absent = self.is_deleting = False

    def attempt(self, due: StoredOffset) -> None:
        """What the log has is about to be written, and that is noted. ``due``: as by :meth:`to_write`."""
        self.attempted = WrittenValue(due.offset, next_version(due.version), about=self.about(due.offset))
        self.is_unsaid = True
        self.moved = False

    def not_attempted(self, *, moved: bool) -> None:
        """It was not written, as others have come between. ``moved``: as it was before."""
        self.attempted = None
        self.moved = moved

    def read(self, there: StoredOffset, own: int | None) -> None:
        """It stands there. Where the log has something else, that is newer."""
        came_back = self._came_back(there, own)
        self._stands(there)
        self.moved = came_back

    def both_have(self, there: StoredOffset) -> None:
        """It stands there, as it was carried or written just now."""
        self._stands(there)
        self.agree(offset_of(there))

    def agree(self, offset: int | None) -> None:
        """Both have that now: whoever was told before that it failed need not care."""
        self.alike = offset
        self.undone = NOT_YET
        self.moved = False

    def neither_has(self) -> bool:
        """The log has none; and ZooKeeper, where it is known to have none either. Gives whether that is known: where
        the log has had something since anybody looked, what others have written before that is not newer."""
        if self.known is not None:
            return True
        if self.moved and not self.is_absent:
            return False
        if self.moved or self.alike is not NOT_YET:
            self.is_unsaid |= self.moved  # its deletion is noted
            self.agree(None)
        return True

    def looked_for(self) -> None:
        """And nothing stands there."""
        self.gone()
        self.is_absent = True

    def gone(self) -> None:
        """Nothing stands there any more, or yet."""
        if not (self.attempted is None and self.known is None):
            self.is_unsaid = True
        attempted = self.attempted
        if attempted is not None and (attempted.about in _STOOD or attempted.version > 0):
            self.alike = offset_of(attempted)
        self.known = self.attempted = None

    def deleting(self) -> None:
        """The shim is about to delete it, as the log has none."""
        self.is_deleting = True

    def deleted(self) -> None:
        """By the shim, as the log has none."""
        self.gone()
        self.agree(None)

    def left(self) -> None:
        """To consumers that have come since, when it was about to be deleted: what stands there is theirs."""
        self.known = None
        self.agree(None)

    def undo(self, own: int | None) -> None:
        """Whoever has committed that is told that it failed."""
        self.undone = own

    def said(self) -> None:
        """It is noted what stands there, or that nothing does."""
        self.is_unsaid = False

    def _stands(self, there: StoredOffset) -> None:
        """What both have by chance has not been carried or written, and nothing is noted of it yet."""
        attempted = self.attempted
        stood = offset_of(attempted) if attempted is not None and attempted.about == About.STANDS else None
        if (stood if self.alike is NOT_YET else self.alike) != offset_of(there):
            self.is_unsaid = True
        self.known = there
        self.alike = offset_of(there)
        self.attempted = None
        self.moved = self.is_absent = self.is_deleting = False

    def _came_back(self, there: StoredOffset, own: int | None) -> bool:
        """Whether both have the same, though the log has had something else since, or something else was attempted
        before a crash: what was read may be old, and it is written once more, which tells, and what others write after
        that is newer."""
        if own is None or own != offset_of(there):
            return False
        return self.moved or (self.attempted is not None and self.known is None and not same(there, self.attempted))

    # -- for people

    def __str__(self) -> str:
        return "; ".join(self._told())

    def _told(self) -> Iterator[str]:
        if self.known is not None:
            yield f"{_shown(self.known)} stands there"
        else:
            yield "nothing is known to stand there"
        if self.attempted is not None:
            replaced = self.attempted.replaced
            carried = "" if replaced == NOT_CARRIED else f" in place of {'none' if replaced == NO_OFFSET else replaced}"
            about = About(self.attempted.about).name
            yield f"{_shown(self.attempted)}{carried} is noted ({about}), and not known to have come"
        if self.alike is not NOT_YET:
            yield "neither had any last" if self.alike is None else f"both had {self.alike} last"
        if self.moved:
            yield "the log has had another one since"
        if self.undone is not NOT_YET:
            yield f"the {'deletion' if self.undone is None else f'commit of {self.undone}'} has failed"
        if self.is_deleting:
            yield "the shim may have deleted it"
        if self.is_unsaid:
            yield "what is noted is older"


def same(some: StoredOffset, other: StoredOffset | WrittenValue | None) -> bool:
    return other is not None and (some.offset, some.version) == (other.offset, other.version)


def is_own(there: StoredOffset, note: WrittenValue | None) -> bool:
    """Of a znode that nobody has looked after since the ``note``: whether nobody else has written it. What was about to
    be written may not have been; what stood there has no older version but of a znode that was created anew."""
    if note is None or there.version is None:
        return False
    return same(there, note) or (note.about != About.STANDS and there.version == note.version - 1)


def next_version(version: int | None) -> int:
    """Of a znode that has this one, or is created."""
    return 0 if version is None else version + 1


def _shown(value: StoredOffset | WrittenValue) -> str:
    return f"{value.offset}, version {value.version},"


def _version(value: StoredOffset | WrittenValue) -> int:
    return ABSENT if value.version is None else value.version


def offset_of(value: StoredOffset | WrittenValue) -> int | None:
    """A negative one stands for none."""
    return value.offset if value.offset >= 0 else None
