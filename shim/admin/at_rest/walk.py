"""A partition from its first byte to its last, past whatever damage there is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from protocol.errors import DecodeError
from protocol.offsets_log import decode_key, decode_value
from protocol.own.history_log import HISTORY_TOPIC, decode_history
from protocol.own.state_log import STATE_TOPIC, decode_state
from protocol.partition import OFFSETS_TOPIC
from protocol.records.batches import LENGTH_OVERHEAD, UnsupportedBatch, read_header
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.recovery.torn_tail import Known, why_not_torn
from shim.log.segments.segment import BadBytes, SoundBatch, find_sound_batch, sound_batches
from shim.log.segments.swap import standing_segments
from shim.log.segments.transactions import why_foreign


class Located(NamedTuple):
    """A sound batch, and the segment that it is in."""

    path: Path
    batch: SoundBatch


class Damage(NamedTuple):
    """The bytes from ``position`` to ``end`` of a file cannot be used; none, where there should be more of them.

    ``offset``: the first one that is in doubt. ``next_offset``: where the log goes on, None when that is not known
    (behind the last sound batch of the last segment).
    """

    path: Path
    position: int
    end: int
    offset: int
    next_offset: int | None
    reason: str

    @property
    def is_litter(self) -> bool:
        """Whether no offset is missing there: bytes that do not belong into the file, and have displaced nothing."""
        return self.offset == self.next_offset and self.path.suffix == ".log" and self.end > self.position


class TornTail(NamedTuple):
    """What a write that a crash interrupted left at the end of the log. The next start cuts it off: nothing is lost."""

    path: Path
    position: int
    end: int
    offset: int
    reason: str


Found: TypeAlias = Located | Damage | TornTail


def walk(
    files: Files,
    folder: Path,
    known: Known,
    fault_of: Callable[[SoundBatch], str | None],
    unreadable: Callable[[Path, OSError], None] | None = None,
) -> Iterator[Found]:
    """Everything in a partition's folder, in the order of the log. ``fault_of`` says what is wrong with a batch that is
    sound as such.

    Where a compaction broke off, its swap file is read for the segments that it stands for; nothing is changed. Raises
    OSError; ``unreadable`` is told instead of a segment that cannot be read, and the next one is gone on with.
    """
    segments, damaged = standing_segments(files, folder)
    if damaged is not None:
        yield Damage(damaged.path, damaged.position, damaged.position, 0, 0, damaged.reason)
    bases = list(segments)
    if not bases or bases[0] != 0:
        following = bases[0] if bases else None
        yield Damage(folder / segment_name(0), 0, 0, 0, following, "the first segment is missing")
    for (base_offset, path), next_base in zip(segments.items(), [*bases[1:], None], strict=False):
        try:
            fd = files.open(path)
            try:
                yield from _Segment(files, fd, path, base_offset, next_base, known, fault_of).walk()
            finally:
                files.close(fd)
        except OSError as error:
            if unreadable is None:
                raise
            unreadable(path, error)


class _Segment:
    """One file. ``next_base`` is None for the last one, the active segment."""

    def __init__(
        self,
        files: Files,
        fd: int,
        path: Path,
        base_offset: int,
        next_base: int | None,
        known: Known,
        fault_of: Callable[[SoundBatch], str | None],
    ) -> None:
        self._files = files
        self._fd = fd
        self._path = path
        self._size = files.size(fd)
        self._next_base = next_base
        self._known = known
        self._fault_of = fault_of
        self._position = 0
        self._due = base_offset
        # The newest batch is held back: what comes next may show that its base offset, which no CRC covers, is wrong.
        self._held: SoundBatch | None = None
        self._held_due = base_offset

    def walk(self) -> Iterator[Found]:
        closed = self._next_base is not None
        if closed and not self._size:
            reason = f"the segment is empty, and one that begins at offset {self._next_base} follows"
            yield self._damage(0, 0, self._due, self._next_base, reason)
            return
        batches = self._batches(gaps=closed)
        after_damage = False
        while True:
            try:
                batch = next(batches, None)
            except BadBytes as bad:
                goes_on = yield from self._past(bad)
            except UnsupportedBatch as unsupported:
                goes_on = yield from self._past(BadBytes(self._position, unsupported.reason, intact=True))
            else:
                if batch is None:
                    break
                if self._next_base is not None and batch.header.next_offset > self._next_base:
                    reason = (
                        f"it ends at offset {batch.header.next_offset}, the next segment begins at {self._next_base}"
                    )
                    if not (yield from self._past(BadBytes(batch.position, reason, intact=True))):
                        return
                    batches = self._batches(gaps=True)
                    continue
                yield from self._release()
                self._held, self._held_due = batch, self._due
                self._position, self._due = batch.end, batch.header.next_offset
                if after_damage and not closed:
                    batches, after_damage = self._batches(gaps=False), False
                continue
            if not goes_on:
                return
            batches, after_damage = self._batches(gaps=True), True
        yield from self._at_end()

    def _batches(self, *, gaps: bool) -> Iterator[SoundBatch]:
        return sound_batches(self._files, self._fd, self._size, self._due, position=self._position, gaps=gaps)

    def _release(self) -> Iterator[Found]:
        batch, self._held = self._held, None
        if batch is None:
            return
        reason = self._fault_of(batch)
        if reason is None:
            yield Located(self._path, batch)
        else:
            header = batch.header
            yield self._damage(batch.position, batch.end, header.base_offset, header.next_offset, reason)

    def _damage(self, position: int, end: int, offset: int, next_offset: int | None, reason: str) -> Damage:
        return Damage(self._path, position, end, offset, next_offset, reason)

    def _past(self, bad: BadBytes) -> Generator[Found, None, bool]:
        """Tells of what is wrong, and moves on to the next sound batch; False when there is none in the file."""
        follows = self._sound_from(bad.position, 0)
        if follows and self._held is not None and self._held_due <= follows[0].header.base_offset < self._due:
            held, self._held = self._held, None
            reason = (
                f"base offset {held.header.base_offset}, and the next batch begins at {follows[0].header.base_offset}"
            )
            self._position, self._due = bad.position, self._held_due
            yield self._damage(held.position, held.end, self._due, follows[0].header.base_offset, reason)
            return True
        yield from self._release()
        self._position = bad.position
        if self._next_base is None and len(follows) > 1 and follows[0].header.base_offset > self._due:
            # Two batches agree: their offsets are right, and others are missing before them.
            base_offset = follows[0].header.base_offset
            yield self._damage(bad.position, bad.position, self._due, base_offset, bad.reason)
            return True
        why = self._why_damage(bad)
        if why is None:
            yield TornTail(self._path, bad.position, self._size, self._due, bad.reason)
            return False
        resume = find_sound_batch(self._files, self._fd, bad.position + 1, self._size, self._due)
        while resume is not None and not self._may_be_right(bad.position, resume):
            resume = find_sound_batch(self._files, self._fd, resume + 1, self._size, self._due)
        if resume is None:
            yield self._damage(bad.position, self._size, self._due, self._next_base, why)
            return False
        self._position = resume
        base_offset = int.from_bytes(self._files.read_at(self._fd, 8, resume), "big")
        yield self._damage(bad.position, resume, self._due, base_offset, why)
        return True

    def _why_damage(self, bad: BadBytes) -> str | None:
        """None where a torn write explains it, as it can at the end of the log only."""
        if self._next_base is not None:
            return bad.reason
        return why_not_torn(self._files, self._fd, self._size, self._due, bad, self._known)

    def _sound_from(self, position: int, offset: int) -> list[SoundBatch]:
        """The batch at this position, and the one after it if it begins where the first ends; as far as sound."""
        found: list[SoundBatch] = []
        for batch in self._sound(position, offset):
            if found and batch.header.base_offset != found[0].header.next_offset:
                break
            found.append(batch)
            if len(found) == 2:
                break
        return found

    def _sound(self, position: int, offset: int) -> Iterator[SoundBatch]:
        try:
            yield from sound_batches(self._files, self._fd, self._size, offset, position=position, gaps=True)
        except (BadBytes, UnsupportedBatch):
            return

    def _may_be_right(self, damaged_from: int, position: int) -> bool:
        """Whether the sound batch there can have the offsets that it says: no CRC covers its base offset."""
        size = int.from_bytes(self._files.read_at(self._fd, 4, position + 8), "big") + LENGTH_OVERHEAD
        header = read_header(self._files.read_at(self._fd, size, position))
        if self._next_base is not None:
            return header.next_offset <= self._next_base
        # In the active segment there are no gaps, and no record is smaller than a byte.
        return header.base_offset - self._due <= position - damaged_from

    def _at_end(self) -> Iterator[Found]:
        next_base = self._next_base
        if next_base is None:
            yield from self._release()
            if self._due < self._known.recovery_point:
                reason = f"the log ends here at offset {self._due}, synced were {self._known.recovery_point}"
                yield self._damage(self._size, self._size, self._due, None, reason)
        elif self._due == next_base:
            yield from self._release()
        else:
            reason = f"the segment ends here at offset {self._due}, the next one begins at {next_base}"
            yield from self._release()
            yield self._damage(self._size, self._size, self._due, next_base, reason)


# --- what can be wrong with a sound batch ----------------------------------------------------------------------------


def fault_of_batch(batch: SoundBatch) -> str | None:
    """What no log of the shim's has in it."""
    if (reason := why_foreign(batch)) is not None:
        return reason
    for record in batch.records:
        if record.key is None:
            return f"the record at offset {record.offset} has no key"
    return None


def fault_for(topic: str) -> Callable[[SoundBatch], str | None]:
    """The whole judgement on batches of this topic: as :func:`fault_of_batch`, and what it cannot have in it."""
    decode = _DECODERS.get(topic)
    return fault_of_batch if decode is None else lambda batch: fault_of_batch(batch) or _undecodable(batch, decode)


def _undecodable(batch: SoundBatch, decode: Callable[[bytes, bytes | None], object]) -> str | None:
    for record in batch.records if not batch.header.is_control else ():
        assert record.key is not None
        try:
            decode(record.key, record.value)
        except DecodeError as error:
            return f"the record at offset {record.offset} cannot be decoded: {error}"
    return None


_DECODERS: Final[Mapping[str, Callable[[bytes, bytes | None], object]]] = {
    OFFSETS_TOPIC: lambda key, value: decode_value(decode_key(key), value),
    STATE_TOPIC: decode_state,
    HISTORY_TOPIC: decode_history,
}
