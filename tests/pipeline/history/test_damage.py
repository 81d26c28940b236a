"""A torn end is left out; any other damage is told, with file and byte, or passed over where that is asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.history.errors import DamagedSegment, UnreadableLog
from pipeline.history.reading import Question, read_segment
from pipeline.history.schemas import COLUMNS, OFFSETS, SEGMENTS
from pipeline.history.segments import OFFSETS_TOPIC, Segment, Wanted, segments_in
from protocol.records.batches import Record
from protocol.records.message_sets import encode_message_set
from shim.log.directory.places import Place, Places
from shim.log.disk.files import Files
from tests.examples import examples
from tests.pipeline.history.logs import TIME, Row, batch, commit, make_ours, read, segment

BATCHES = [batch(at * 3, *(commit("g", "t", partition, at) for partition in range(3))) for at in range(6)]
SIZES = [len(each) for each in BATCHES]
STARTS = [sum(SIZES[:at]) for at in range(6)]


def described(folder: Path) -> list[Row]:
    question = Question(SEGMENTS, tuple(COLUMNS[SEGMENTS]))
    found = segments_in([str(folder)], OFFSETS_TOPIC, Wanted())
    return [row for each in found for part in read_segment(each, question) for row in part.to_pylist()]


def offsets(folder: Path, *, skip: bool = False) -> list[int]:
    return [row["offset"] for row in read(folder, names=["offset"], skip=skip)]


@pytest.mark.parametrize("cut", [1, 10, 61, SIZES[-1] - 1])
def test_a_torn_end_of_the_newest_segment_is_left_out(tmp_path: Path, cut: int) -> None:
    path = segment(tmp_path, 0, *BATCHES[:5], BATCHES[5][:cut])
    assert offsets(tmp_path) == [at for at in range(5) for _ in range(3)]
    (row,) = described(tmp_path)
    assert (row["torn_at"], row["damaged_at"], row["size"]) == (STARTS[5], -1, path.stat().st_size)
    assert (row["batches"], row["next_offset"]) == (5, 15)


def test_a_torn_end_in_zeros_and_of_messages(tmp_path: Path) -> None:
    segment(tmp_path, 0, *BATCHES[:2], bytes(5000))
    message = encode_message_set([Record(*commit("g", "t", 0, 77), (), TIME, 3)], 1)
    segment(tmp_path, 0, message, message[:-5], partition=1)
    assert offsets(tmp_path) == [0, 0, 0, 1, 1, 1, 77]
    assert [row["torn_at"] for row in described(tmp_path)] == [sum(SIZES[:2]), len(message)]


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(8, sum(SIZES[:5]) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_told_with_file_and_byte(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    index = max(each for each in range(5) if STARTS[each] <= at)
    if STARTS[index] <= at < STARTS[index] + 8 or STARTS[index] + 12 <= at < STARTS[index] + 16:
        return  # base offset and leader epoch, which no CRC covers
    folder = tmp_path_factory.mktemp("flipped")
    raw = bytearray(b"".join(BATCHES))
    raw[at] ^= 1 << bit
    path = segment(folder, 0, bytes(raw))
    told = rf"^{re.escape(str(path))} is damaged at byte {STARTS[index]}: \S"
    with pytest.raises(DamagedSegment, match=told):
        offsets(folder)
    assert offsets(folder, skip=True) == [each for each in range(6) if each != index for _ in range(3)]
    (row,) = described(folder)
    assert (row["damaged_at"], row["torn_at"]) == (STARTS[index], -1)


def test_an_end_that_is_cut_off_a_closed_segment_is_damage(tmp_path: Path) -> None:
    path = segment(tmp_path, 0, *BATCHES[:2], BATCHES[2][:-1])
    segment(tmp_path, 9, *BATCHES[3:])
    with pytest.raises(DamagedSegment, match=f"is damaged at byte {STARTS[2]}: "):
        offsets(tmp_path)
    assert offsets(tmp_path, skip=True) == [0, 0, 0, 1, 1, 1, 3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert [row["path"] for row in described(tmp_path) if row["damaged_at"] >= 0] == [str(path)]


def test_whole_batches_that_are_missing_are_damage_in_a_log_of_ours(tmp_path: Path) -> None:
    """A broker's cleaner leaves such holes, the shim's does not."""
    broker, ours = tmp_path / "broker", tmp_path / "ours"
    make_ours(ours, 1)
    for folder in (broker, ours):
        segment(folder, 0, *BATCHES[:2])
        segment(folder, 9, *BATCHES[3:])
    assert len(offsets(broker)) == 15
    with pytest.raises(DamagedSegment, match="ends here at offset 6, the next one begins at 9"):
        offsets(ours)
    assert len(offsets(ours, skip=True)) == 15


def test_a_record_that_says_nothing_known_is_told_with_its_batch(tmp_path: Path) -> None:
    bad = batch(18, commit("g", "t", 0, 6), (b"\x00\x01\x00\x05to", b""))
    path = segment(tmp_path, 0, *BATCHES, bad, batch(20, commit("g", "t", 0, 7)))
    at = sum(SIZES)
    with pytest.raises(DamagedSegment, match=f"{path} is damaged at byte {at}: the record at offset 19 cannot be"):
        offsets(tmp_path)
    assert offsets(tmp_path, skip=True)[-2:] == [5, 7]
    assert described(tmp_path)[0]["damaged_at"] == at


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.integers(0, sum(SIZES) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_whatever_the_bytes_are_it_is_one_of_ours(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    raw = bytearray(b"".join(BATCHES))
    for at, byte in changes:
        raw[at] = byte
    segment(folder, 0, bytes(raw))
    try:
        found = offsets(folder)
    except DamagedSegment as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert len(found) in range(0, 19, 3)
    assert set(offsets(folder, skip=True)) <= set(range(6))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLog, match="no partition of __consumer_offsets in "):
        offsets(tmp_path)
    gone = Segment(OFFSETS_TOPIC, 0, str(tmp_path / "gone.log"), 0, None, False, (), 1)
    with pytest.raises(UnreadableLog, match="is gone: it was compacted or dropped meanwhile"):
        list(read_segment(gone, Question(OFFSETS, ("offset",))))
    for name in ("a", "b"):
        segment(tmp_path / name, 0, BATCHES[0], partition=7)
    with pytest.raises(UnreadableLog, match="partition 7 of __consumer_offsets is in "):
        read(tmp_path / "a", tmp_path / "b")


def test_what_is_left_behind_of_what_was_moved_to_a_topic_is_not_read(tmp_path: Path) -> None:
    """It is as old as the move."""
    make_ours(tmp_path, 4)
    for partition in range(4):
        segment(tmp_path, 0, *BATCHES, partition=partition)
    places = [Place.DIRECTORY, Place.TOPIC, Place.TO_TOPIC, Place.TO_DIRECTORY]
    noted = Places.begun(Files(), tmp_path, "__shim", places)
    with pytest.raises(
        UnreadableLog, match=f"log partition 1 of {tmp_path} is on a topic of the cluster, and so are 2"
    ):
        offsets(tmp_path)
    for partition in (1, 2, 3):
        with pytest.raises(
            UnreadableLog, match=f"log partition {partition} of {tmp_path} is on a topic of the cluster:"
        ):
            read(tmp_path, wanted=Wanted(partitions=frozenset({partition})))
    assert len(read(tmp_path, wanted=Wanted(partitions=frozenset({0})))) == 18
    for partition in (1, 2, 3):
        noted.note(partition, Place.DIRECTORY)
    assert len(offsets(tmp_path)) == 72


def test_a_cleaned_segment_is_read_instead_of_those_that_it_stands_for(tmp_path: Path) -> None:
    segment(tmp_path, 0, *BATCHES[:2])
    segment(tmp_path, 6, *BATCHES[2:4])
    segment(tmp_path, 12, *BATCHES[4:])
    cleaned = segment(tmp_path, 0, BATCHES[1], BATCHES[3])
    swap = cleaned.rename(cleaned.with_name(f"{cleaned.name}.swap"))
    segment(tmp_path, 0, *BATCHES[:2])
    assert offsets(tmp_path) == [1, 1, 1, 3, 3, 3, 4, 4, 4, 5, 5, 5]
    swap.rename(cleaned.with_name(f"{cleaned.name}.cleaned"))
    assert len(offsets(tmp_path)) == 18


@pytest.mark.parametrize("closed", [True, False])
def test_a_segment_that_was_compacted_after_it_was_looked_for_is_told(tmp_path: Path, closed: bool) -> None:
    """What it lacks stands in a segment that nobody has looked for, so that it would be missing."""
    path = segment(tmp_path, 0, *BATCHES[:2])
    if closed:
        segment(tmp_path, 6, *BATCHES[2:])
    first, *_ = segments_in([str(tmp_path)], OFFSETS_TOPIC, Wanted())
    path.write_bytes(BATCHES[1])
    with pytest.raises(UnreadableLog, match=f"{path} is another file by now: it was compacted"):
        list(read_segment(first, Question(OFFSETS, ("offset",))))


def test_a_newest_segment_may_have_grown(tmp_path: Path) -> None:
    segment(tmp_path, 0, *BATCHES[:2])
    (only,) = segments_in([str(tmp_path)], OFFSETS_TOPIC, Wanted())
    segment(tmp_path, 0, *BATCHES[:3])
    assert sum(each.num_rows for each in read_segment(only, Question(OFFSETS, ("offset",)))) == 9
