"""What brokers leave behind when they are killed, or their disk is damaged, as `log import` reads it."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from protocol.records.batches import Record, encode_batch
from protocol.records.compression import Compression
from protocol.records.message_sets import encode_message_set
from shim.admin.transfer import broker_files
from shim.log.disk.files import Files
from shim.log.segments.segment import find_sound_batch
from tests.admin.running import TIMESTAMP, Result, commit_record, log, served

SEGMENT = f"{0:020d}.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "broker" / "__consumer_offsets-0"
    path.mkdir(parents=True)
    return path


def imported(folder: Path) -> Result:
    return log("import", "--data-dir", folder.parent.parent / "data", "--from-folder", folder.parent, "--json")


def offsets_by_group(folder: Path) -> dict[str, int]:
    """What is in force after the import."""
    found = served(folder.parent.parent / "data")
    return {group: committed.offset for group, its in found.items() for committed in its.values()}


# --- message sets ----------------------------------------------------------------------------------------------------


def message(magic: int, offset: int, compression: Compression = Compression.NONE) -> bytes:
    key, value = commit_record("group", "t", 0, offset)
    timestamp = TIMESTAMP if magic else -1
    return encode_message_set([Record(key, value, (), timestamp, offset)], magic, compression=compression)


KINDS = [(0, Compression.NONE), (1, Compression.NONE), (0, Compression.GZIP), (1, Compression.GZIP)]


@pytest.mark.parametrize(("magic", "compression"), KINDS)
def test_damage_among_messages_is_no_torn_write(folder: Path, magic: int, compression: Compression) -> None:
    """Whichever byte of one message it is; all but that of its offset, which no CRC covers."""
    messages = [message(magic, offset, compression) for offset in range(6)]
    start = len(b"".join(messages[:2]))
    for at in range(8, len(messages[2])):
        damaged = bytearray(b"".join(messages))
        damaged[start + at] ^= 1
        (folder / SEGMENT).write_bytes(damaged)
        result = imported(folder)
        assert result.status == 1, at
        assert f"is damaged at byte {start}: " in result.stderr
        assert "as a sound batch or message follows at byte" in result.stderr
        assert not (folder.parent.parent / "data").exists()


@pytest.mark.parametrize(("magic", "compression"), KINDS)
def test_a_message_that_was_torn_is_left_out(folder: Path, magic: int, compression: Compression) -> None:
    """Cut off, or with zeros where the disk did not get to, or where a file was made large beforehand."""
    sound = b"".join(message(magic, offset, compression) for offset in range(5))
    torn = message(magic, 5, compression)
    for at in range(1, len(torn)):
        for tail in (torn[:at], torn[:at] + bytes(len(torn) - at), torn[:at] + bytes(5000)):
            if tail.startswith(torn):  # it ends with zeros itself
                continue
            (folder / SEGMENT).write_bytes(sound + tail)
            (found,) = tails_in(folder)
            assert (found.position, found.size) == (len(sound), len(tail))
    result = imported(folder)
    assert (result.status, result.json["source"]["records"]) == (0, 5)
    assert offsets_by_group(folder) == {"group": 4}


def tails_in(folder: Path) -> list[broker_files.IgnoredTail]:
    files = Files()
    found = broker_files.read_partition(files, broker_files.segments_of(files, folder))
    return [each for each in found if isinstance(each, broker_files.IgnoredTail)]


@pytest.mark.parametrize("window", [26, 27, 64, 101])
def test_a_sound_message_is_found_wherever_the_window_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(broker_files, "_READ_SIZE", window)
    rng = random.Random(window)
    files = Files()
    for magic in (0, 1):
        wanted = message(magic, 7)
        for before in range(60):
            path = tmp_path / f"{magic}-{before}"
            path.write_bytes(rng.randbytes(before) + wanted + rng.randbytes(40))
            fd = files.open(path)
            try:
                size = files.size(fd)
                assert broker_files._find_sound_message(files, fd, 0, size) == before
                assert broker_files._find_sound_message(files, fd, before + 1, size) is None
                assert broker_files._find_sound_message(files, fd, 0, before + len(wanted) - 1) is None
                assert find_sound_batch(files, fd, 0, size, 0) is None
            finally:
                files.close(fd)


def test_damage_before_messages_of_another_format(folder: Path) -> None:
    """A topic that was upgraded has one format after the other."""
    parts = [message(0, 0), message(1, 1), encode_batch(2, [commit_record("group", "t", 0, 2)], TIMESTAMP)]
    for number in (0, 1):
        damaged = [bytearray(part) for part in parts]
        damaged[number][-1] ^= 1
        (folder / SEGMENT).write_bytes(b"".join(damaged))
        assert imported(folder).status == 1
    (folder / SEGMENT).write_bytes(b"".join(parts))
    assert imported(folder).status == 0
    assert offsets_by_group(folder) == {"group": 2}


def test_a_last_message_that_nobody_can_open_is_no_torn_write(folder: Path) -> None:
    """Its CRC is right, so these bytes are what the broker wrote."""
    wrapper = bytearray(message(1, 1))
    wrapper[17] = Compression.GZIP
    wrapper[12:16] = zlib.crc32(wrapper[16:]).to_bytes(4, "big")
    (folder / SEGMENT).write_bytes(message(1, 0) + wrapper)
    result = imported(folder)
    assert result.status == 1
    assert f"is damaged at byte {len(message(1, 0))}" in result.stderr
    assert "under a right CRC" in result.stderr


# --- a cleaner that was interrupted ----------------------------------------------------------------------------------


def put(folder: Path, name: str, *batches: tuple[int, str, int]) -> None:
    """A file of batches: offset in the log, group, committed offset."""
    folder.joinpath(name).write_bytes(
        b"".join(
            encode_batch(at, [commit_record(group, "t", 0, committed)], TIMESTAMP) for at, group, committed in batches
        )
    )


@pytest.mark.parametrize("replaced", [".deleted", ""], ids=["taken away", "still there"])
def test_a_swap_file_stands_for_what_it_was_made_of(folder: Path, replaced: str) -> None:
    put(folder, f"{0:020d}.log.swap", (0, "cleaned", 5), (19, "newest", 6))
    put(folder, f"{0:020d}.log{replaced}", (0, "cleaned", 5), (1, "gone", 1))
    put(folder, f"{10:020d}.log{replaced}", (10, "gone", 2), (19, "newest", 6))
    put(folder, f"{20:020d}.log", (20, "active", 7))
    result = imported(folder)
    assert result.status == 0, result.stderr
    assert offsets_by_group(folder) == {"cleaned": 5, "newest": 6, "active": 7}
    assert result.json["source"]["swaps"] == [str(folder / f"{0:020d}.log.swap")]
    assert result.json["source"]["segments"] == 2


def test_a_swap_file_beside_an_unfinished_one_is_not_read(folder: Path) -> None:
    """A segment that is split in two: before all parts have their names, the whole one is what counts."""
    put(folder, f"{0:020d}.log.cleaned", (0, "first", 1))
    put(folder, f"{10:020d}.log.swap", (10, "second", 2))
    put(folder, f"{0:020d}.log", (0, "first", 1), (10, "second", 2), (15, "third", 3))
    put(folder, f"{20:020d}.log", (20, "active", 4))
    result = imported(folder)
    assert result.status == 0, result.stderr
    assert offsets_by_group(folder) == {"first": 1, "second": 2, "third": 3, "active": 4}
    assert result.json["source"]["swaps"] == []


def test_a_damaged_swap_file_is_refused(folder: Path) -> None:
    put(folder, f"{0:020d}.log.swap", (0, "cleaned", 5))
    put(folder, f"{0:020d}.log", (0, "cleaned", 5))
    swap = folder / f"{0:020d}.log.swap"
    swap.write_bytes(swap.read_bytes()[:-1])
    result = imported(folder)
    assert result.status == 1
    assert f"{swap} is damaged at byte 0" in result.stderr


def test_the_lines_name_the_swap_file(folder: Path) -> None:
    put(folder, f"{0:020d}.log.swap", (0, "cleaned", 5))
    result = log("import", "--data-dir", folder.parent / "data", "--from-folder", folder.parent, "--dry-run")
    assert f"read {folder / f'{0:020d}.log.swap'} in the place of" in result.stderr
