"""The dump of the offset table: its bytes, and that nothing else is taken for one."""

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.offsets_log import CommittedOffset
from shim.coordinator.state.offset_table import OffsetTable
from tests.examples import examples

OFFSET = CommittedOffset(5, 6, "", 7)


def slot(flags: int = 1, offset: CommittedOffset = OFFSET) -> bytes:
    return struct.pack("<Bqiq", flags, offset.offset, offset.leader_epoch, offset.commit_timestamp)


def name(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text


def topic(
    slots: Iterable[bytes] = (),
    far: Iterable[tuple[int, bytes]] = (),
    expire: Iterable[tuple[int, int]] = (),
    metadata: Iterable[tuple[int, bytes]] = (),
    *,
    topic: bytes = b"t",
) -> bytes:
    slots, far, expire, metadata = list(slots), list(far), list(expire), list(metadata)
    return b"".join(
        [
            name(topic),
            struct.pack("<4I", len(slots), len(far), len(expire), len(metadata)),
            *slots,
            *(struct.pack("<i", partition) for partition, _ in far),
            *(raw for _, raw in far),
            *(struct.pack("<i", partition) for partition, _ in expire),
            *(struct.pack("<q", timestamp) for _, timestamp in expire),
            *(struct.pack("<i", partition) for partition, _ in metadata),
            *(struct.pack("<I", len(text)) for _, text in metadata),
            *(text for _, text in metadata),
        ]
    )


def group(*topics: bytes, group: bytes = b"g") -> bytes:
    return name(group) + struct.pack("<I", len(topics)) + b"".join(topics)


def dump(*groups: bytes, count: int = 1, magic: bytes = b"OFTB", version: int = 1) -> bytes:
    return struct.pack("<4sHIQ", magic, version, len(groups), count) + b"".join(groups)


def everything() -> OffsetTable:
    table = OffsetTable()
    for partition, metadata, expire_timestamp in ((0, "", -1), (2, "m", -1), (3, "", 8), (70_000, "é\udcff", 9)):
        table.set("g", "t", partition, OFFSET._replace(metadata=metadata, expire_timestamp=expire_timestamp))
    table.set("g", "u", 0, OFFSET)
    table.set("h\ud800", "t", 0, OFFSET)
    return table


def test_the_bytes_of_version_1() -> None:
    assert b"".join(everything().dump()) == dump(
        group(
            topic(
                [slot(), bytes(21), slot(3), slot(5)],
                [(70_000, slot(7))],
                [(3, 8), (70_000, 9)],
                [(2, b"m"), (70_000, "é".encode() + b"\xed\xb3\xbf")],
            ),
            topic([slot()], topic=b"u"),
        ),
        group(topic([slot()]), group=b"h\xed\xa0\x80"),
        count=6,
    )
    assert b"".join(OffsetTable().dump()) == dump(count=0)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_restored_is_what_was_dumped(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    table = everything()
    restored = OffsetTable.restore(kind(b"".join(table.dump())))
    for group_id in ("g", "h\ud800"):
        assert list(restored.of_group(group_id)) == list(table.of_group(group_id))
    assert len(restored) == 6
    assert restored.dump() == table.dump()


def test_a_restored_table_lives_on() -> None:
    raw = bytearray(b"".join(everything().dump()))
    restored = OffsetTable.restore(raw)
    raw[:] = bytes(len(raw))  # it has nothing of the buffer
    for partition in range(200):
        restored.set("g", "t", partition, OFFSET)
    restored.delete("g", "t", 70_000)
    restored.delete("g", "u", 0)
    assert list(restored.of_group("g")) == [("t", partition, OFFSET) for partition in range(200)]
    assert len(restored) == 201


def test_a_dump_is_of_the_moment_of_the_call() -> None:
    table = everything()
    before = b"".join(table.dump())
    pieces = table.dump()
    for partition in range(100):
        table.set("g", "t", partition, OFFSET._replace(offset=0, metadata="later"))
    table.delete("g", "u", 0)
    assert b"".join(pieces) == before


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "bytes wanted"),
        (dump(group(topic([slot()])), magic=b"OFTC"), "no dump of version 1"),
        (dump(group(topic([slot()])), version=2), "no dump of version 1"),
        (dump(group(topic([slot()])), count=2), "1 offsets instead of 2"),
        (dump(group(topic([slot()]))) + b"\0", "1 bytes too many"),
        (dump(group(topic([slot()])), group(topic([slot()])), count=2), "a group twice"),
        (dump(group(), count=0), "without a topic"),
        (dump(group(topic([slot()]), topic([slot()])), count=2), "a topic twice"),
        (dump(group(topic()), count=0), "without an offset"),
        (dump(group(topic([bytes(21)])), count=0), "without an offset"),
        (dump(group(topic([slot(2)], metadata=[(0, b"m")]))), "unknown flags"),
        (dump(group(topic([slot(8)]))), "unknown flags"),
        (dump(group(topic([slot(255)]))), "unknown flags"),
        (dump(group(topic(far=[(9, slot(8))]))), "unknown flags"),
        (dump(group(topic(far=[(9, slot(0))]))), "far partition without"),
        (dump(group(topic(far=[(9, slot()), (9, slot())])), count=2), "two offsets of one partition"),
        (dump(group(topic([slot()], far=[(0, slot())])), count=2), "two offsets of one partition"),
        (dump(group(topic([slot()], metadata=[(0, b"m")]))), "of other partitions"),
        (dump(group(topic([slot(3)]))), "of other partitions"),
        (dump(group(topic([slot(3)], expire=[(0, 8)]))), "of other partitions"),
        (dump(group(topic([slot(5)], metadata=[(0, b"m")]))), "of other partitions"),
        (dump(group(topic([slot(3), slot()], metadata=[(1, b"m")])), count=2), "of other partitions"),
        (dump(group(topic([slot(5), slot()], expire=[(1, 8)])), count=2), "of other partitions"),
        (dump(group(topic([slot(3)], metadata=[(-1, b"m")]))), "of other partitions"),
        (dump(group(topic([slot(3)], metadata=[(9, b"m")]))), "of other partitions"),
        (dump(group(topic([slot(3), slot(3)], metadata=[(0, b"m"), (0, b"m")])), count=2), "of other partitions"),
        (dump(group(topic([slot(5), slot(5)], expire=[(0, 8), (0, 8)])), count=2), "of other partitions"),
        (dump(group(topic([slot(3)], metadata=[(0, b"")]))), "that is none"),
        (dump(group(topic([slot(5)], expire=[(0, -1)]))), "that is none"),
        (dump(group(topic([slot(3)], metadata=[(0, b"\xff")]))), "no UTF-8"),
        (dump(group(topic([slot()], topic=b"\xc0\x80"))), "no UTF-8"),
        (dump(group(topic([slot()]), group=b"\xe2\x82"))[:-1], "no UTF-8"),
    ],
)
def test_nonsense_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        OffsetTable.restore(raw)


@pytest.mark.parametrize(
    "counts", [(2**32 - 1, 0, 0, 0), (1, 2**32 - 1, 0, 0), (1, 0, 2**32 - 1, 0), (1, 0, 0, 2**32 - 1)]
)
def test_a_count_is_not_believed_beyond_the_bytes_that_there_are(counts: tuple[int, int, int, int]) -> None:
    raw = dump(group(name(b"t") + struct.pack("<4I", *counts) + slot()))
    with pytest.raises(DecodeError, match="bytes wanted"):
        OffsetTable.restore(raw)


def test_no_part_of_a_dump_is_a_dump() -> None:
    raw = b"".join(everything().dump())
    for size in range(len(raw)):
        with pytest.raises(DecodeError):
            OffsetTable.restore(raw[:size])


def test_the_place_of_what_is_wrong() -> None:
    head, body = dump(), group(topic([slot(3)], metadata=[(0, b"ok\xff")]))
    with pytest.raises(DecodeError) as caught:
        OffsetTable.restore(dump(body))
    assert (caught.value.path, caught.value.position) == ("dump", len(head) + len(body) - 1)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_what_is_taken_for_a_dump_is_the_dump_of_what_it_gives(data: st.DataObject) -> None:
    raw = bytearray(b"".join(everything().dump()))
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=4)):
        raw[at] = data.draw(st.one_of(st.integers(0, 8), st.integers(0, 255)))
    try:
        restored = OffsetTable.restore(raw)
    except DecodeError:
        return
    assert b"".join(restored.dump()) == raw


@pytest.mark.parametrize("partition", [0, 70_000])
def test_what_stood_aside_and_does_no_more_is_in_no_dump(partition: int) -> None:
    table, plain = OffsetTable(), OffsetTable()
    for aside in (OFFSET._replace(metadata="m", expire_timestamp=9), OFFSET._replace(metadata="m"), OFFSET):
        table.set("g", "t", partition, aside)
    plain.set("g", "t", partition, OFFSET)
    assert table.dump() == plain.dump()
    assert OffsetTable.restore(b"".join(table.dump())).get("g", "t", partition) == OFFSET
