"""A group whose znodes are followed: what is known of each, what was told since, and what is to be done."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from protocol.own.state_log import WrittenValue
from shim.migration.dual.znode import Verdict, Znode, offset_of, same
from shim.offsets.store import Partition, StoredOffset


class Followed:
    """``adopted``: whether the log has what stands there; until then ZooKeeper is right. ``told``: what the watch has
    told since somebody last looked. ``doubtful``: where that may be older than what is known, and is to be read again:
    no version says so where somebody has deleted a znode, and created it anew. ``read_anew``: all is to be read,
    whatever was told.

    ``own``, where it is asked for: what the log has.
    """

    __slots__ = ("_known_at", "_znodes", "adopted", "doubtful", "read_anew", "told")

    def __init__(self, notes: Mapping[Partition, WrittenValue] | None, *, look: int, read_anew: bool) -> None:
        """``notes``: what the log has noted of ZooKeeper; None where nothing has been adopted yet. ``look``: as for
        :meth:`known_at`."""
        self._znodes: dict[Partition, Znode] = {}
        self.adopted = notes is not None
        self.told: dict[Partition, StoredOffset] = {}
        self.doubtful: set[Partition] = set()
        self._known_at = look
        self.read_anew = read_anew
        self.take_notes(notes or {})

    def znode(self, at: Partition) -> Znode:
        found = self._znodes.get(at)
        if found is None:
            found = self._znodes[at] = Znode()
        return found

    # -- what is known

    def is_news(self, at: Partition, there: StoredOffset) -> bool:
        """Whether anything else was known to stand there."""
        return at not in self._znodes or self._znodes[at].known != there

    @property
    def is_certain(self) -> bool:
        """Whether the log has what stands there, but for what was told; not where something was attempted."""
        return self.adopted and all(znode.attempted is None for znode in self._znodes.values())

    def judge(self, at: Partition, there: StoredOffset, own: Mapping[Partition, int]) -> Verdict:
        """As :meth:`Znode.judge`."""
        if not self.adopted and self.znode(at).is_new:
            return Verdict.KNOWN if own.get(at) == offset_of(there) else Verdict.CARRY
        return self.znode(at).judge(there, own.get(at))

    def to_delete(self, own: Mapping[Partition, int]) -> list[Partition]:
        """What ZooKeeper has and the log has not."""
        return [at for at, znode in self._znodes.items() if znode.is_to_be_deleted(own.get(at))]

    def to_write(self, own: Mapping[Partition, int]) -> dict[Partition, StoredOffset]:
        """What the log has and ZooKeeper has not, as :meth:`Znode.to_write`."""
        return {at: due for at in own if (due := self.znode(at).to_write(own[at])) is not None}

    def to_say(self, own: Mapping[Partition, int]) -> dict[Partition, StoredOffset | None]:
        """What is to be noted of what stands there, None for nothing."""
        return {at: znode.known for at, znode in self._znodes.items() if znode.is_to_be_said(own.get(at))}

    def owed(self, own: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """What ZooKeeper has not, or may not have, of what the log has; None for what it is not to have."""
        owed: dict[Partition, int | None] = {at: offset for at, offset in own.items() if at not in self._znodes}
        owed.update((at, own.get(at)) for at, znode in self._znodes.items() if znode.is_owed(own.get(at)))
        return owed

    # -- what has happened

    def compared(self, there: Mapping[Partition, StoredOffset]) -> None:
        """The log had that, too, when the step was decided: what it has no more by now was deleted since."""
        self.told = dict(there)
        if not self.adopted:
            for at, each in there.items():
                self.znode(at).both_have(each)

    def known_at(self, look: int) -> None:
        """What stands there was read or written just now. ``look``: the last of the watch's that had begun by then, and
        may have read before."""
        self._known_at = look

    def tell(self, news: Mapping[Partition, StoredOffset], look: int) -> None:
        """``look``: in which that was read."""
        self.told.update(news)
        if look <= self._known_at:
            self.doubtful.update(news)

    def found(self, at: Partition, there: StoredOffset) -> None:
        """By a write that was not done for it. What was told meanwhile may have been read before that, or after."""
        if not same(there, self.told.get(at, there)):
            self.doubtful.add(at)
        self.told[at] = there

    def changed(self, partitions: Iterable[Partition]) -> None:
        """By the shim, just now: what was told of these meanwhile may have been read before."""
        self.doubtful.update(at for at in partitions if at in self.told)

    def take_notes(self, notes: Mapping[Partition, WrittenValue]) -> None:
        """In the log, by now. What nobody has known yet was noted with a deletion, or as it was about to be carried,
        and is looked for as after a crash."""
        for at, note in notes.items():
            if self.znode(at).is_new:
                self.znode(at).take_note(note)

    def log_moved(self, partitions: Iterable[Partition]) -> None:
        """The log has, or has had, something else of these."""
        for at in partitions:
            self.znode(at).log_moved()

    def all_read(self, found: Container[Partition]) -> None:
        """Nothing stands there but these."""
        for at, znode in self._znodes.items():
            if at not in found:
                znode.looked_for()

    def some_read(self, partitions: Iterable[Partition], found: Container[Partition]) -> None:
        """Of these nothing stands there but what was found. Of what was known to stand there the watch tells."""
        for at in partitions:
            if at not in found and self.znode(at).known is None:
                self.znode(at).looked_for()

    def all_told(self) -> None:
        """What was told is all of what is not known."""
        for at, znode in self._znodes.items():
            if znode.attempted is not None and at not in self.told:
                znode.gone()

    def adopt(self, own: Mapping[Partition, int], found: Container[Partition]) -> None:
        """The log has what stands there by now, which is ``found``. What else it has was deleted there, and is written
        again."""
        if not self.adopted:
            self.adopted = True
            for at, offset in own.items():
                if at not in found:
                    self.znode(at).agree(offset)

    def all_written(self, own: Mapping[Partition, int]) -> bool:
        """ZooKeeper has all that the log has, or is about to: of what neither has nothing is left. Gives whether it is
        known to have nothing else; where not, that is to be read."""
        unknown = {at for at, znode in self._znodes.items() if at not in own and not znode.neither_has()}
        self.doubtful |= unknown
        return not unknown

    def undo(self, offsets: Iterable[tuple[Partition, int | None]]) -> None:
        """What the log has of these, None for nothing, was told to have failed."""
        for at, own in offsets:
            self.znode(at).undo(own)

    def said(self, partitions: Iterable[Partition]) -> None:
        """It is noted what stands there of these."""
        for at in partitions:
            self.znode(at).said()
