"""A whole data directory read and judged: ``log verify`` tells it, ``log repair`` and ``log backup`` go by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from protocol.offsets_log import UnknownKey, decode_key
from protocol.own.history_log import HISTORY_TOPIC, is_known
from protocol.partition import OFFSETS_TOPIC, partition_for
from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.data_dir import DataDir
from shim.admin.at_rest.walk import Damage, Located, TornTail, fault_for, walk
from shim.admin.progress import Advancing, Progress
from shim.log import LogError
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT, read_checkpoint
from shim.log.disk.files import Files
from shim.log.disk.layout import index_name
from shim.log.recovery.torn_tail import Known
from shim.log.segments.index import IndexBuilder
from shim.log.segments.swap import base_offset_of, is_swap, standing_segments

_SPARES_WORK: Final = "it only spares work, and is made anew by the next compaction"


@dataclass(slots=True)
class Examined:
    """One partition. ``damages`` keep the shim from serving it; ``notes`` do not.

    ``unreadable``: files that cannot be read, and why; nothing is said of what is in them behind that place.

    ``misplaced``: the files are another partition's. That keeps the shim from serving it, too, and nothing but putting
    them where they belong mends it; a note names a group.
    """

    partition: TopicPartition
    folder: Path
    segments: int = 0
    size: int = 0
    batches: int = 0
    records: int = 0
    tombstones: int = 0
    unknown_keys: int = 0
    end_offset: int = 0
    misplaced: bool = False
    unreadable: dict[Path, str] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Nothing was ever written to it, and there is nothing to say of it."""
        return not (self.batches or self.size or self.damages or self.notes or self.misplaced or self.unreadable)

    @property
    def is_sound(self) -> bool:
        return not (self.damages or self.misplaced or self.unreadable)


class Examination(NamedTuple):
    """Of a whole data directory. ``damages``: those of no one partition."""

    partitions: list[Examined]
    damages: list[Damage]
    notes: list[str]

    @property
    def unreadable(self) -> dict[Path, str]:
        return {path: reason for examined in self.partitions for path, reason in examined.unreadable.items()}

    @property
    def is_sound(self) -> bool:
        return not self.damages and all(examined.is_sound for examined in self.partitions)

    @property
    def all_damages(self) -> list[Damage]:
        return [*self.damages, *(damage for examined in self.partitions for damage in examined.damages)]


def examine(
    files: Files,
    held: DataDir,
    what: str,
    progress: Progress,
    *,
    past_unreadable: bool = False,
) -> Examination:
    """Reads all of it, with progress under the name ``what``.

    Raises OSError; of what a partition has, and cannot be read, only where it is not to go ``past_unreadable`` files.
    """
    damages = [Damage(path, 0, 0, 0, None, str(error)) for path, error in held.malformed.items()]
    notes: list[str] = []
    cleaned: dict[TopicPartition, int] = {}
    try:
        cleaned = read_checkpoint(files, held.path / CLEANER_OFFSET_CHECKPOINT)
    except LogError as malformed:
        notes.append(f"{malformed}; {_SPARES_WORK}")
    except OSError as error:
        if not past_unreadable:
            raise
        notes.append(f"{held.path / CLEANER_OFFSET_CHECKPOINT}: {error.strerror}; {_SPARES_WORK}")
    damages += [Damage(folder, 0, 0, 0, None, "the partition's folder is missing") for folder in held.missing()]
    examined = []
    total = sum(_size_as_far_as_known(files, folder) for folder in held.partitions.values())
    with progress(what, total) as ongoing:
        for partition, folder in held.partitions.items():
            known, num_partitions = held.known(partition), held.num_partitions
            one = _Examining(files, Examined(partition, folder), known, num_partitions, ongoing).run(past_unreadable)
            if cleaned.get(partition, 0) > one.end_offset and one.is_sound:
                one.notes.append("the cleaner's checkpoint is beyond the end of the log; all segments count as dirty")
            examined.append(one)
    return Examination(examined, damages, notes)


def _size_as_far_as_known(files: Files, folder: Path) -> int:
    """Whoever reads it then says what is wrong."""
    try:
        return size_of_segments(files, [folder])
    except OSError:
        return 0


def size_of_segments(files: Files, folders: Iterable[Path]) -> int:
    """Bytes that :func:`walk` reads there."""
    return sum(files.size_of(path) for folder in folders for path in standing_segments(files, folder).segments.values())


class _Examining:
    def __init__(
        self,
        files: Files,
        examined: Examined,
        known: Known,
        num_partitions: int,
        ongoing: Advancing,
    ) -> None:
        self._files = files
        self._examined = examined
        self._known = known
        self._num_partitions = num_partitions
        self._ongoing = ongoing
        self._indexes: dict[Path, IndexBuilder] = {}
        self._groups: set[str] = set()

    def run(self, past_unreadable: bool) -> Examined:
        try:
            return self._run(past_unreadable)
        except OSError as error:  # the folder, say
            if not past_unreadable:
                raise
            self._unreadable(Path(error.filename or self._examined.folder), error)
            return self._examined

    def _run(self, past_unreadable: bool) -> Examined:
        examined = self._examined
        fault_of = fault_for(examined.partition.topic)
        unreadable = self._unreadable if past_unreadable else None
        for found in walk(self._files, examined.folder, self._known, fault_of, unreadable):
            if isinstance(found, Located):
                self._count(found)
            elif isinstance(found, TornTail):
                examined.notes.append(
                    f"{found.path}: a torn write of {found.end - found.position} bytes at byte {found.position} "
                    f"({found.reason}): the next start cuts it off, nothing that was acknowledged is in it"
                )
            else:
                examined.damages.append(found)
        segments = standing_segments(self._files, examined.folder).segments
        examined.segments = len(segments)
        examined.size = sum(map(self._files.size_of, segments.values()))
        examined.notes += (
            f"{path}: a compaction broke off; this is read in the place of the segments that it was made of, as the "
            "next start puts it there"
            for path in segments.values()
            if is_swap(path)
        )
        examined.notes += self._wrong_indexes(segments, unreadable)
        if examined.unknown_keys:
            examined.notes.append(f"records of an unknown type, which are skipped: {examined.unknown_keys}")
        return examined

    def _unreadable(self, path: Path, error: OSError) -> None:
        self._examined.unreadable[path] = error.strerror or str(error)

    def _count(self, located: Located) -> None:
        path, batch = located
        examined = self._examined
        examined.batches += 1
        examined.records += len(batch.records)
        examined.end_offset = batch.header.next_offset
        for record in batch.records if not batch.header.is_control else ():
            if record.value is None:
                examined.tombstones += 1
            if examined.partition.topic == OFFSETS_TOPIC and record.key is not None:
                key = decode_key(record.key)
                if isinstance(key, UnknownKey):
                    examined.unknown_keys += 1
                elif key.group not in self._groups:
                    self._groups.add(key.group)
                    self._check_place(key.group, located)
            elif examined.partition.topic == HISTORY_TOPIC and record.key is not None:
                examined.unknown_keys += not is_known(record.key, record.value)
        size = batch.end - batch.position
        if path not in self._indexes:
            self._indexes[path] = IndexBuilder(base_offset_of(path))
        self._indexes[path].add(batch.header.last_offset, batch.position, size)
        self._ongoing.advance(size)

    def _check_place(self, group: str, located: Located) -> None:
        at = self._examined.partition
        belongs = partition_for(group, self._num_partitions)
        if belongs != at.partition and not self._examined.misplaced:
            self._examined.misplaced = True
            self._examined.notes.append(
                f"{located.path}: group {group!r} belongs into partition {belongs} of {self._num_partitions}: "
                "these files are another partition's, and the shim does not serve them"
            )

    def _wrong_indexes(
        self, segments: Mapping[int, Path], unreadable: Callable[[Path, OSError], None] | None
    ) -> Iterator[str]:
        damaged = {damage.path for damage in self._examined.damages}.union(self._examined.unreadable)
        for base_offset, path in list(segments.items())[:-1]:  # the active one has none
            index = path.with_name(index_name(base_offset))
            if is_swap(path) or path in damaged or path not in self._indexes or not self._files.exists(index):
                continue
            try:
                is_wrong = self._files.read_file(index) != self._indexes[path].to_bytes()
            except OSError as error:
                if unreadable is None:
                    raise
                unreadable(index, error)
                continue
            if is_wrong:
                yield f"{index}: wrong; nothing is believed from it, and it is made anew when it is needed"
