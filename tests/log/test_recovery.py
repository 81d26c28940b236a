"""Torn and damaged segments: a torn tail is cut and kept, anything else is refused, nothing is lost in silence."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.records.batches import Compression, encode_batch
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.errors import CorruptLog, LogError
from shim.log.journal.journal import JOURNAL_NAME
from shim.log.offsets_log import OffsetsLog
from tests.log.faulty_files import FaultyFiles, FillingFiles, NeverSyncedFiles
from tests.log.test_log import NOW, on_disk, one, recovered, segment, write
from tests.protocol.test_batches import with_field

BATCHES = [
    encode_batch(0, [(b"first", b"1")], NOW),
    encode_batch(1, [(b"second", b"2"), (b"third", None)], NOW + 1),
    encode_batch(3, [(b"last-%d" % i, b"4") for i in range(3)], NOW + 2),
]
WHOLE = b"".join(BATCHES)
ENDS = [0, len(BATCHES[0]), len(BATCHES[0] + BATCHES[1]), len(WHOLE)]
OFFSETS = [0, 1, 3, 6]
LAST = ENDS[2]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    OffsetsLog.open(tmp_path, 1).close()
    return tmp_path


def recover(data_dir: Path, contents: bytes) -> int:
    """Recovers a log that holds these bytes, writes on, and reads all again. Gives how many records were recovered."""
    files = NeverSyncedFiles()
    crashed_with(data_dir, contents)
    log = OffsetsLog.open(data_dir, 1, files=files)
    try:
        offsets = [record.offset for record in log.recover(0)]
        assert offsets == list(range(len(offsets)))
        assert log.log_end_offset(0) == len(offsets)
        assert log.write([write(0, one("new"))]) == {}
    finally:
        log.close()
        assert files.open_files == {}
    assert [offset for offset, _, _ in on_disk(data_dir, 0)] == [*offsets, len(offsets)]
    return len(offsets)


def crashed_with(data_dir: Path, contents: bytes) -> None:
    """The segment as a crash left it, at a time when nothing had been noted of what was synced."""
    segment(data_dir, 0).write_bytes(contents)
    for note in (CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT):
        (data_dir / note).unlink(missing_ok=True)


def cut_copies(data_dir: Path) -> dict[str, bytes]:
    folder = segment(data_dir, 0).parent
    return {path.name: path.read_bytes() for path in folder.iterdir() if ".cut-" in path.name}


def drop_cut_copies(data_dir: Path) -> None:
    for name in cut_copies(data_dir):
        (segment(data_dir, 0).parent / name).unlink()


def refused(data_dir: Path, contents: bytes) -> CorruptLog:
    """Asserts that these bytes are refused, and left as they are."""
    with pytest.raises(CorruptLog) as corrupt:
        recover(data_dir, contents)
    assert segment(data_dir, 0).read_bytes() == contents
    assert cut_copies(data_dir) == {}
    assert str(segment(data_dir, 0)) in str(corrupt.value)
    assert f"byte {corrupt.value.position}" in str(corrupt.value)
    return corrupt.value


def test_truncation_at_every_byte(data_dir: Path) -> None:
    for size in range(len(WHOLE) + 1):
        whole = max(i for i, end in enumerate(ENDS) if end <= size)
        assert recover(data_dir, WHOLE[:size]) == OFFSETS[whole]
        kept = cut_copies(data_dir)
        torn = WHOLE[ENDS[whole] : size]
        assert list(kept.values()) == ([torn] if torn else [])
        assert list(kept) == ([f"{0:020d}.log.cut-{ENDS[whole]}"] if torn else [])
        drop_cut_copies(data_dir)


def test_what_is_cut_is_said_once(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        recover(data_dir, WHOLE[:-1])
    (line,) = caplog.messages
    assert str(segment(data_dir, 0)) in line
    assert f"byte {LAST}" in line
    assert f"{0:020d}.log.cut-{LAST}" in line


@pytest.mark.parametrize(
    "tail",
    [b"\0", bytes(100), bytes(4096), bytes(3 << 20), b"\xff" * 200, b"\x02" * 5000, bytes(range(256)) * 20],
    ids=["a zero", "100 zeros", "a page of zeros", "3 MiB of zeros", "ones", "magic bytes", "all bytes"],
)
@pytest.mark.parametrize("torn", [0, 1, 17, 60])
def test_garbage_at_the_tail(data_dir: Path, tail: bytes, torn: int) -> None:
    contents = WHOLE[: len(WHOLE) - torn] + tail
    torn_away = not contents.startswith(WHOLE)  # the last byte of the batch is a zero, too
    assert recover(data_dir, contents) == (3 if torn_away else 6)
    assert b"".join(cut_copies(data_dir).values()) == contents[LAST if torn_away else len(WHOLE) :]


def test_zeroed_blocks(data_dir: Path) -> None:
    for start in range(LAST, len(WHOLE), 8):
        assert recover(data_dir, WHOLE[:start] + bytes(len(WHOLE) - start)) == 3
        drop_cut_copies(data_dir)
    # A block of the last batch that never reached the disk, the rest of it did.
    for start in range(LAST + 8, len(WHOLE) - 16, 8):
        assert recover(data_dir, WHOLE[:start] + bytes(16) + WHOLE[start + 16 :]) == 3


EVERY = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.soak)])
"""One bit of so many is flipped: another one of each byte."""


def bit_flips(start: int, end: int, every: int) -> list[tuple[int, bytes]]:
    flips = []
    for bit in range(start * 8, end * 8, every):
        damaged = bytearray(WHOLE)
        damaged[bit // 8] ^= 1 << bit % 8
        flips.append((bit // 8, bytes(damaged)))
    return flips


LEADER_EPOCH = range(12, 16)  # is covered by no CRC and used by nobody


@EVERY
def test_a_flipped_bit_in_the_last_batch_cuts_it(data_dir: Path, every: int) -> None:
    for position, damaged in bit_flips(LAST, len(WHOLE), every):
        if position - LAST in LEADER_EPOCH:
            assert recover(data_dir, damaged) == 6
        elif int.from_bytes(damaged[LAST : LAST + 8], "big", signed=True) > 3:
            # Whole but for a base offset that is too high: no torn write makes that, and offsets may be missing.
            assert refused(data_dir, damaged).position == LAST
        else:
            assert recover(data_dir, damaged) == 3
            drop_cut_copies(data_dir)


@EVERY
def test_a_flipped_bit_before_the_last_batch_refuses(data_dir: Path, every: int) -> None:
    for position, damaged in bit_flips(0, LAST, every):
        batch = 0 if position < ENDS[1] else 1
        if position - ENDS[batch] in LEADER_EPOCH:
            assert recover(data_dir, damaged) == 6
        else:
            assert refused(data_dir, damaged).position == ENDS[batch]


def test_missing_and_doubled_batches_refuse(data_dir: Path) -> None:
    first, second, last = BATCHES
    assert refused(data_dir, first + last).position == ENDS[1]
    assert refused(data_dir, second + last).position == 0
    assert refused(data_dir, first + first + second + last).position == ENDS[1]
    assert refused(data_dir, first + second[:-2] + last).position == ENDS[1]
    assert refused(data_dir, first + bytes(70_000) + second).position == ENDS[1]


def test_a_sound_batch_is_found_wherever_it_stands(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Around the ends of the blocks in which the search reads, and larger than one of them.
    block = 1 << 14
    monkeypatch.setattr("shim.log.segments.segment._READ_SIZE", block)
    for distance in (1, block, block - 16, block - 17, block - 30, block + 1, 3 * block):
        assert "follows" in refused(data_dir, BATCHES[0] + b"\x02" * distance + BATCHES[1]).reason
    large = encode_batch(3, [(b"k", bytes(range(256)) * 128)], NOW)
    reason = refused(data_dir, BATCHES[0] + BATCHES[1][:-2] + large).reason
    assert f"byte {LAST - 2}" in reason


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (encode_batch(0, [(b"k", b"v")], NOW, attributes=0x10), "transactional"),
        (encode_batch(0, [(b"\0\0\0\1", b"v")], NOW, attributes=0x20), "control"),
        (encode_batch(0, [(None, b"v")], NOW), "no key"),
    ],
    ids=["transactional", "control", "null key"],
)
def test_sound_batches_of_other_kinds_are_neither_served_nor_cut(data_dir: Path, batch: bytes, reason: str) -> None:
    with pytest.raises(LogError, match=reason):
        recover(data_dir, batch)
    assert segment(data_dir, 0).read_bytes() == batch


@pytest.mark.parametrize("delta", [0, 3, -1], ids=["falls", "beyond the batch", "before the batch"])
def test_offsets_out_of_order_under_a_right_crc_are_refused(data_dir: Path, delta: int) -> None:
    """Clients read such batches; a log that has one is no broker's, and which commit is the newest cannot be told."""
    batch = encode_batch(6, [(b"k", b"1"), (b"l", b"2")], NOW)
    at = batch.index(b"\x02\x02l")  # the second record's offset delta, zigzag-coded
    damaged = with_field(batch, at, "B", (delta << 1 ^ delta >> 31) & 0xFF)
    found = refused(data_dir, WHOLE + damaged)
    assert found.position == len(WHOLE)
    assert "under a right CRC" in found.reason


def test_a_compressed_batch_is_neither_served_nor_cut(data_dir: Path) -> None:
    batch = with_field(BATCHES[0], 21, "h", Compression.ZSTD)
    with pytest.raises(LogError, match="compressed"):
        recover(data_dir, batch)
    assert segment(data_dir, 0).read_bytes() == batch


def test_a_batch_larger_than_what_is_read_at_once(data_dir: Path) -> None:
    large = encode_batch(0, [(b"k%d" % i, bytes(100)) for i in range(30_000)], NOW)
    assert recover(data_dir, large + encode_batch(30_000, [(b"k", b"v")], NOW)) == 30_001
    assert recover(data_dir, large[:-1]) == 0


def test_copies_of_earlier_cuts_are_never_overwritten(data_dir: Path) -> None:
    for _ in range(3):
        recover(data_dir, WHOLE[:-1])
    assert len(cut_copies(data_dir)) == 3
    assert set(cut_copies(data_dir).values()) == {WHOLE[LAST:-1]}


@pytest.mark.parametrize("method", ["create", "pwrite", "fsync", "sync_directory", "truncate"])
def test_a_cut_that_fails_cuts_nothing(data_dir: Path, method: str) -> None:
    segment(data_dir, 0).write_bytes(WHOLE[:-1])
    files = FaultyFiles()
    log = OffsetsLog.open(data_dir, 1, files=files)
    files.fail(method, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        recovered(log, 0)
    assert {path.name for path in files.open_files.values()} == {JOURNAL_NAME}
    assert segment(data_dir, 0).read_bytes() == WHOLE[:-1]
    files.heal()
    assert len(recovered(log, 0)) == 3
    log.close()


def test_nothing_is_cut_while_there_is_no_room_for_the_copy(data_dir: Path) -> None:
    segment(data_dir, 0).write_bytes(WHOLE[:-1])
    files = FillingFiles()
    files.room = 10
    log = OffsetsLog.open(data_dir, 1, files=files)
    with pytest.raises(OSError, match="No space left"):
        recovered(log, 0)
    assert segment(data_dir, 0).read_bytes() == WHOLE[:-1]
    assert cut_copies(data_dir) == {}
    files.room = 1000
    assert len(recovered(log, 0)) == 3
    assert set(cut_copies(data_dir).values()) == {WHOLE[LAST:-1]}
    log.close()


def test_the_copy_is_durable_before_the_cut_and_the_cut_before_any_write(data_dir: Path) -> None:
    files = FaultyFiles()
    segment(data_dir, 0).write_bytes(WHOLE[:-1])
    log = OffsetsLog.open(data_dir, 1, files=files)
    files.calls.clear()
    recovered(log, 0)
    path = segment(data_dir, 0)
    copy = path.with_name(f"{path.name}.cut-{LAST}")
    assert [call for call in files.calls if call[0] not in ("open", "pread")] == [
        ("fsync", path),  # what a killed process left in memory is made durable before it is served
        ("drop_cache", path),
        ("create", copy),
        ("pwrite", copy),
        ("fsync", copy),
        ("sync_directory", path.parent),
        ("truncate", path),
        ("fsync", path),
    ]
    log.close()


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.rename(path.with_name(f"{7:020d}.log")), "missing"),
        (lambda path: path.with_name(f"{7:020d}.log").touch(), "empty, and one that begins at offset 7"),
    ],
    ids=["no segment", "no first segment", "more segments"],
)
def test_segments_that_are_not_the_expected_ones(tmp_path: Path, break_it: Callable[[Path], None], reason: str) -> None:
    OffsetsLog.open(tmp_path, 2).close()
    break_it(segment(tmp_path, 1))
    log = OffsetsLog.open(tmp_path, 2)
    with pytest.raises(LogError, match=reason):
        recovered(log, 1)
    assert recovered(log, 0) == []
    log.close()
