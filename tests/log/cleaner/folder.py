"""A partition as the cleaner sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from protocol.records.batches import BatchHeader, Record, batches, encode_batch, records_of
from protocol.topic_partition import TopicPartition
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_base_offsets, segment_name
from shim.log.partition.partition import PartitionLog
from shim.log.recovery.recovery import LeftBehind
from shim.log.segments.segment import Segment, SoundBatch
from shim.log.segments.swap import finish_swap
from shim.log.settings import LogSettings

NOW = 1_700_000_000_000


RETENTION = 24 * 3600 * 1000


ALWAYS = CleanerSettings(min_cleanable_ratio=0.0)


class Pair(NamedTuple):
    key: bytes
    value: bytes | None


def put(key: str, value: str | None = "v") -> Pair:
    return Pair(key.encode(), None if value is None else value.encode())


class Folder(PartitionLog):
    """A partition as the cleaner sees it: a folder of closed segments, and an active one behind them."""

    def __init__(self, data_dir: Path, files: Files | None = None, partition: int = 0) -> None:
        self.files = files or Files()
        topic_partition = TopicPartition("topic", partition)
        folder = data_dir / str(topic_partition)
        folder.mkdir(exist_ok=True)
        super().__init__(self.files, folder, topic_partition, LogSettings(), LeftBehind(clean=True, loose=False), 0)
        self.swap_failed = False
        self.refuses_swaps = False
        if not segment_base_offsets(Files(), self.folder):
            (self.folder / segment_name(0)).touch()

    @property
    def active(self) -> Path:
        return self.folder / segment_name(segment_base_offsets(Files(), self.folder)[-1])

    @property
    def end_offset(self) -> int:
        last = [header for _, header in batches(self.active.read_bytes())]
        return last[-1].next_offset if last else int(self.active.stem)

    def append(self, *records: Pair, timestamp_ms: int = NOW) -> None:
        with self.active.open("ab") as file:
            file.write(encode_batch(self.end_offset, records, timestamp_ms))

    def begin_segment(self) -> None:
        (self.folder / segment_name(self.end_offset)).touch()

    def closed_segments(self) -> list[Segment]:
        found = []
        for base, following in pairwise(segment_base_offsets(self.files, self.folder)):
            path = self.folder / segment_name(base)
            found.append(Segment(path, base, following, path.stat().st_size))
        return found

    def swap_segments(self, old: Sequence[Segment], swap: Callable[[], None]) -> bool:
        if self.swap_failed:
            finish_swap(self.files, self.folder)
            self.swap_failed = False
        if self.refuses_swaps or not old:
            return False
        assert list(old) == [segment for segment in self.closed_segments() if segment in old]
        self.swap_failed = True
        swap()
        self.swap_failed = False
        return True

    # --- what is in it -----------------------------------------------------------------------------------------------

    def logged(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Every batch; asserts that the segments join, and that offsets rise."""
        bases = segment_base_offsets(Files(), self.folder)
        assert bases[0] == 0
        due = 0
        for base in bases:
            assert due == base
            log = (self.folder / segment_name(base)).read_bytes()
            for position, header in batches(log):
                assert header.base_offset >= due
                due = header.next_offset
                yield header, records_of(log, position, header)

    def records(self) -> list[Record]:
        return [record for _, records in self.logged() for record in records]

    def replay(self) -> dict[bytes | None, tuple[int, bytes]]:
        """Offset and value of every key that has one."""
        newest: dict[bytes | None, tuple[int, bytes]] = {}
        for record in self.records():
            if record.value is None:
                newest.pop(record.key, None)
            else:
                newest[record.key] = (record.offset, record.value)
        return newest

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


def cleaner(folder: Folder, settings: CleanerSettings = ALWAYS) -> Cleaner:
    return Cleaner(folder.folder.parent, [folder], settings, files=folder.files)


def clean(folder: Folder, settings: CleanerSettings = ALWAYS, now_ms: int = NOW) -> CleanerStats:
    stats = cleaner(folder, settings).step(now_ms)
    assert stats is not None
    return stats


def sound(raw: bytes) -> SoundBatch:
    ((position, header),) = batches(raw)
    return SoundBatch(position, header.size, header, records_of(raw, position, header), raw)
