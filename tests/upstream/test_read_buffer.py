"""Memory that is read into is used again, and never while anybody has a view of it."""

import pytest

from shim.upstream.read_buffer import COPIED_BELOW, READ_BYTES, ReadBuffer, worth_keeping


def read(buffer: ReadBuffer, data: bytes) -> bytes | memoryview:
    buffer.room()[: len(data)] = data
    return buffer.taken(len(data))


def test_there_is_room_for_a_whole_read() -> None:
    buffer = ReadBuffer()
    assert len(buffer.room()) == READ_BYTES
    assert read(buffer, b"x" * READ_BYTES) == b"x" * READ_BYTES
    assert len(buffer.room()) == READ_BYTES


def test_a_small_read_is_handed_over_as_bytes_of_its_own() -> None:
    buffer = ReadBuffer()
    first = read(buffer, b"a" * (COPIED_BELOW - 1))
    assert isinstance(first, bytes)
    read(buffer, b"b" * COPIED_BELOW)
    assert first == b"a" * (COPIED_BELOW - 1)


def test_a_large_read_is_a_view_and_the_memory_is_used_again() -> None:
    buffer = ReadBuffer()
    first = read(buffer, b"a" * COPIED_BELOW)
    assert isinstance(first, memoryview)
    piece = first.obj
    del first
    second = read(buffer, b"b" * COPIED_BELOW)
    assert isinstance(second, memoryview)
    assert second.obj is piece


def test_no_small_part_has_the_whole_piece_kept() -> None:
    buffer = ReadBuffer()
    first = read(buffer, b"a" * READ_BYTES)
    assert isinstance(first, memoryview)
    piece = first.obj
    small, large = worth_keeping(first[: COPIED_BELOW - 1]), worth_keeping(first[:COPIED_BELOW])
    assert small == b"a" * (COPIED_BELOW - 1)
    assert isinstance(large, memoryview)
    del first, large
    again = read(buffer, b"b" * READ_BYTES)
    assert isinstance(again, memoryview)
    assert again.obj is piece
    assert small == b"a" * (COPIED_BELOW - 1)


@pytest.mark.parametrize("part", [slice(None), slice(0, 1), slice(-1, None)])
def test_what_is_kept_is_not_written_over(part: slice) -> None:
    buffer = ReadBuffer()
    kept = [read(buffer, bytes([number]) * COPIED_BELOW)[part] for number in range(5)]
    assert [bytes(each) for each in kept] == [(bytes([number]) * COPIED_BELOW)[part] for number in range(5)]
