"""Message sets to record batches and back: lost is what the format lacks, and an old client sees every record once."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from contextlib import suppress

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compat import formats
from compat.formats import Refused, cost, to_batch, to_message_sets
from protocol.errors import ErrorCode
from protocol.records.batches import (
    BatchError,
    Compression,
    CorruptBatch,
    DecompressedTooLarge,
    Record,
    UnsupportedBatch,
    decode_records,
    encode_records,
    read_header,
)
from protocol.records.compression import compress
from protocol.records.message_sets import decode_message_set, encode_message_set, read_messages
from shim.api.translated import AT_ONCE
from tests.compat.logs import (
    CODECS,
    OLD_CODECS,
    Log,
    as_old,
    batch_from,
    contents,
    logs,
    marker_from,
    read_from,
    records_from,
    records_in,
    timestamps,
)
from tests.examples import examples
from tests.protocol.bomb import BOMBS

MAGICS = [0, 1]
NOW = 1_767_225_600_123
ALL = 1 << 30
OLD_FORMATS = [(magic, codec) for magic in MAGICS for codec in OLD_CODECS]
unhurried = settings(deadline=None, max_examples=examples(20))


def down(fetched: bytes, magic: int, offset: int = 0, max_bytes: int = ALL, *, whole: bool = True) -> bytes:
    return to_message_sets(fetched, magic, offset, max_bytes, whole=whole).data


def up(message_set: bytes) -> bytes:
    batch = to_batch(message_set)
    assert batch is not None
    return batch


def with_crc(body: bytes, offset: int = 0) -> bytes:
    """A message, from the magic on, with the size and the CRC that it has."""
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(content: bytes, magic: int, attributes: int, offset: int = 0) -> bytes:
    time = struct.pack(">q", NOW) if magic else b""
    return with_crc(bytes((magic, attributes)) + time + struct.pack(">ii", -1, len(content)) + content, offset)


def batch_crc(batch: bytes) -> bytes:
    """The batch with the CRC that it has."""
    crc: int = google_crc32c.value(batch[21:])
    return batch[:17] + crc.to_bytes(4, "big") + batch[21:]


def refusal(message_set: bytes) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        to_batch(message_set)
    assert str(refused.value)
    return refused.value.code


# --- there and back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS)
@settings(unhurried, max_examples=examples(10))
@given(data=st.data())
def test_a_batch_that_becomes_messages_and_a_batch_again(codec: Compression, magic: int, data: st.DataObject) -> None:
    records = data.draw(records_from(data.draw(st.sampled_from([0, 1, 2**40]))))
    old = down(encode_records(records, compression=codec), magic)
    assert decode_message_set(old) == (as_old(records, magic), len(old), 0)

    old_codec = Compression.GZIP if codec == Compression.ZSTD else codec
    messages = read_messages(old).messages
    assert {(message.magic, message.attributes) for message in messages} == {(magic, old_codec)}
    assert len(messages) == (1 if codec else len(records))
    assert messages[-1].offset == records[-1].offset

    again = up(old)
    header = read_header(again)
    assert (header.size, header.compression, header.base_offset) == (len(again), old_codec, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.max_timestamp == max(record.timestamp for record in as_old(records, magic))
    assert decode_records(again) == [
        record._replace(offset=offset) for offset, record in enumerate(as_old(records, magic))
    ]


@pytest.mark.parametrize(("magic", "codec"), OLD_FORMATS)
@settings(unhurried, max_examples=examples(8))
@given(data=st.data())
def test_messages_that_become_a_batch_and_messages_again(magic: int, codec: Compression, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.tuples(contents, contents, timestamps), min_size=1, max_size=8))
    records = [
        Record(key, value, (), timestamp if magic else -1, offset)
        for offset, (key, value, timestamp) in enumerate(drawn)
    ]
    old = encode_message_set(records, magic, compression=codec)
    again = down(up(old), magic)
    assert decode_message_set(again) == (records, len(again), 0)
    if codec == Compression.GZIP:
        # Of another level than it was.
        (before,), (after,) = read_messages(old).messages, read_messages(again).messages
        assert after._replace(value=None) == before._replace(value=None)
    else:
        assert again == old


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time(codec: Compression) -> None:
    records = [Record(b"k", b"v", (), NOW + i, 40 + 2 * i) for i in range(3)]
    batch = encode_records(records, compression=codec, log_append_time=NOW + 99)
    old = down(batch, 1)
    assert {(m.is_log_append_time, m.timestamp) for m in read_messages(old).messages} == {(True, NOW + 99)}
    assert decode_message_set(old).records == [record._replace(timestamp=NOW + 99) for record in records]
    assert decode_message_set(down(batch, 0)).records == [record._replace(timestamp=-1) for record in records]
    assert not any(message.is_log_append_time for message in read_messages(down(batch, 0)).messages)


# --- down ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", MAGICS)
@unhurried
@given(log=logs(), data=st.data())
def test_all_from_an_offset_on_and_nothing_before(magic: int, log: Log, data: st.DataObject) -> None:
    offset = data.draw(st.integers(log[0].first, log[-1].last + 1))
    fetched = read_from(log, offset, ALL)
    old, next_offset = to_message_sets(fetched, magic, offset, ALL, whole=True)
    wanted = [record for record in records_in(log) if record.offset >= offset]
    assert decode_message_set(old) == (as_old(wanted, magic), len(old), 0)
    assert next_offset == max(offset, log[-1].last + 1)


@pytest.mark.parametrize("magic", MAGICS)
@settings(unhurried, max_examples=examples(10))
@given(data=st.data())
def test_what_is_cut_off_is_left_out(magic: int, data: st.DataObject) -> None:
    log = data.draw(logs(most=3))
    whole = b"".join(piece.data for piece in log)
    cut = data.draw(st.integers(0, len(whole) - 1))
    found = decode_message_set(down(whole[:cut], magic, log[0].first))
    expected = as_old(records_in(log), magic)
    assert (found.records, found.needed) == (expected[: len(found.records)], 0)
    ends = [sum(len(piece.data) for piece in log[: i + 1]) for i in range(len(log))]
    sure = sum(len(piece.records) for piece, end in zip(log, ends, strict=True) if end <= cut)
    more = sum(len(piece.records) for piece, end in zip(log, [0, *ends], strict=False) if end < cut)
    assert sure <= len(found.records) <= more


@settings(unhurried, max_examples=examples(10))
@given(data=st.data())
def test_nothing_but_markers_and_empty_batches_leads_behind_them(data: st.DataObject) -> None:
    log: Log = []
    offset = 7
    for make in data.draw(st.lists(st.sampled_from([marker_from, batch_from]), min_size=1, max_size=4)):
        piece = data.draw(make(offset).filter(lambda piece: not piece.records))
        log.append(piece)
        offset = piece.last + 1
    whole = b"".join(piece.data for piece in log)
    assert to_message_sets(whole, 1, 7, ALL, whole=True) == (b"", offset)
    behind_first = log[1].first if log[1:] else 7
    assert to_message_sets(whole[:-1], 1, 7, ALL, whole=True) == (b"", log[-1].first if log[1:] else 7)
    assert to_message_sets(whole, 1, offset + 5, ALL, whole=True) == (b"", offset + 5), "it never leads back"
    assert behind_first <= offset


def test_nothing_fetched() -> None:
    for fetched in (b"", bytes(5), bytes(16)):
        assert to_message_sets(fetched, 1, 9, ALL, whole=True) == (b"", 9)


def read_by_an_old_client(log: Log, magic: int, max_bytes: int, fetched_bytes: int, *, whole: bool) -> list[Record]:
    """All that it sees: it goes on behind the last message that it got whole, and asks for more if it got a cut one."""
    seen: list[Record] = []
    position = log[0].first
    while position <= log[-1].last:
        fetched = read_from(log, position, fetched_bytes)
        data, next_offset = to_message_sets(fetched, magic, position, max_bytes, whole=whole)
        found, end, needed = decode_message_set(data)
        if found:
            assert found[0].offset >= position
            assert not needed
            assert len(data) <= max_bytes or (whole and len(found) == 1)
            seen += found
            position = found[-1].offset + 1
        elif data or next_offset == position:
            assert not whole
            assert (len(data), end) == (max_bytes, 0)
            max_bytes = max(1, 2 * max_bytes)
        else:
            assert max_bytes or whole or not any(position <= r.offset < next_offset for r in records_in(log))
            position = next_offset
    return seen


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("whole", [True, False])
@unhurried
@given(log=logs(), max_bytes=st.integers(0, 60) | st.integers(0, 3000), fetched_bytes=st.integers(0, 4000))
def test_an_old_client_sees_every_record_once_and_in_order(
    whole: bool, magic: int, log: Log, max_bytes: int, fetched_bytes: int
) -> None:
    seen = read_by_an_old_client(log, magic, max_bytes, fetched_bytes, whole=whole)
    assert seen == as_old(records_in(log), magic)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
def test_as_much_as_fits(magic: int, codec: Compression) -> None:
    rng = random.Random(7)
    records = [Record(b"k", rng.randbytes(100), (), NOW, offset) for offset in range(50)]
    batch = encode_records(records, compression=codec)
    size = len(down(batch, magic))
    one = len(down(encode_records(records[:1], compression=codec), magic))
    for whole in (True, False):
        assert len(down(batch, magic, max_bytes=size, whole=whole)) == size
        half = down(batch, magic, max_bytes=size // 2, whole=whole)
        assert len(half) <= size // 2
        assert 20 <= len(decode_message_set(half).records) <= 25, "nearly all that fits"
        assert len(down(batch, magic, max_bytes=one, whole=whole)) == one
    for max_bytes in (0, 1, 12, one - 1):
        assert len(down(batch, magic, max_bytes=max_bytes, whole=True)) == one
        cut = down(batch, magic, max_bytes=max_bytes, whole=False)
        assert cut == down(batch, magic, max_bytes=one, whole=True)[:max_bytes]
    assert down(batch * 2, magic, max_bytes=size + one - 1) == down(batch, magic), "of the second not even one"


@pytest.mark.parametrize("whole", [True, False])
def test_a_client_that_asks_for_no_bytes_is_not_led_past_any(whole: bool) -> None:
    batch = encode_records([Record(b"k", b"v", (), NOW, offset) for offset in range(3)])
    for max_bytes in (0, -1):
        data, next_offset = to_message_sets(batch, 1, 0, max_bytes, whole=whole)
        assert [record.offset for record in decode_message_set(data).records] == ([0] if whole else [])
        assert whole or next_offset == 0


# --- what is refused on the way down ---------------------------------------------------------------------------------


def test_bad_batches() -> None:
    batch = encode_records([Record(b"k", b"v", (), NOW, 0)])
    unknown = batch_crc(batch[:22] + b"\5" + batch[23:])
    wrong_crc = batch[:-2] + b"w" + batch[-1:]
    assert decode_records(batch_crc(wrong_crc))[0].value == b"w"
    for bad, error in ((wrong_crc, CorruptBatch), (unknown, UnsupportedBatch), (b"\0" * 61, CorruptBatch)):
        with pytest.raises(error):
            down(bad, 1)
        # What is before it is given first.
        given_first = to_message_sets(batch + bad, 1, 0, 1 << 20, whole=True)
        assert [record.value for record in decode_message_set(given_first.data).records] == [b"v"]


@pytest.mark.parametrize("delta", [0, 1, 2])
def test_offsets_that_do_not_rise(delta: int) -> None:
    """Brokers take them from producers, in a batch that is not compressed; no message set can have them."""
    batch = encode_records([Record(b"k", b"v", (), NOW, offset) for offset in (5, 6, 7)])
    at = batch.rindex(b"\x04\x02k")  # the last one's offset delta, before its key
    changed = batch_crc(batch[:at] + bytes((2 * delta,)) + batch[at + 1 :])
    assert [record.offset for record in decode_records(changed)] == [5, 6, 5 + delta]
    if delta == 2:
        assert down(changed, 1) == down(batch, 1)
        return
    with pytest.raises(CorruptBatch, match="offset"):
        down(changed, 1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
def test_changed_batches_raise_nothing_else(magic: int, codec: Compression) -> None:
    rng = random.Random(20260104)
    records = [Record(b"key" * 9, b"value", (("h", b"v"),), NOW, i) for i in range(3)]
    batch = encode_records(records, compression=codec)
    refused = 0
    for _ in range(500):
        damaged = bytearray(batch)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(min(len(damaged), rng.choice((30, 62, 1000))))
            damaged[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        changed = batch_crc(bytes(damaged)) if len(damaged) >= 21 else bytes(damaged)
        try:
            to_message_sets(
                changed, magic, rng.choice((-1, 0, 1, 2**62)), rng.choice((0, 50, ALL)), whole=bool(rng.randrange(2))
            )
        except BatchError:
            refused += 1
    assert 50 < refused < 500


# --- what is refused on the way up -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("magic", "codec"), OLD_FORMATS)
def test_a_message_that_is_cut_off_is_left_out(magic: int, codec: Compression) -> None:
    first = [Record(b"k", b"v" * 9, (), -1, 0), Record(b"k", None, (), -1, 1)]
    whole = encode_message_set(first, magic, compression=codec)
    last = encode_message_set([Record(b"k", b"last", (), -1, 2)], magic, compression=codec)
    for cut in range(len(last)):
        assert to_batch(whole + last[:cut]) == up(whole)
        assert to_batch(last[:cut]) is None
    if codec:
        assert refusal(whole + last) == ErrorCode.INVALID_RECORD, "one wrapper, and nothing beside it"
    else:
        assert len(decode_records(up(whole + last))) == 3


@pytest.mark.parametrize("count", [formats._AT_ONCE - 1, formats._AT_ONCE, 2 * formats._AT_ONCE + 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_many_messages(codec: Compression, count: int) -> None:
    records = [Record(b"%d" % i, None, (), NOW - i, i) for i in range(count)]
    batch = up(encode_message_set(records, 1, compression=codec))
    assert decode_records(batch) == records
    assert read_header(batch).max_timestamp == NOW


def test_all_messages_of_a_set_are_of_one_kind() -> None:
    records = [Record(b"k", b"v", (), -1, offset) for offset in range(2)]
    kinds = [
        encode_message_set(records, magic, compression=codec)
        for magic in MAGICS
        for codec in (Compression.NONE, Compression.GZIP)
    ]
    for first in kinds:
        for second in kinds:
            if first is second is kinds[0] or first is second is kinds[2]:
                assert len(decode_records(up(first + second))) == 4
            else:
                assert refusal(first + second) == ErrorCode.INVALID_RECORD


def test_offsets_are_the_brokers_to_give() -> None:
    one = encode_message_set([Record(b"k", b"v", (), NOW, 0)], 1)
    for offsets in ((0, 0), (-1, -1), (9, 3), (-(2**63), 2**63 - 1)):
        message_set = b"".join(struct.pack(">q", offset) + one[8:] for offset in offsets)
        for old in (message_set, wrapper(compress(Compression.GZIP, message_set), 1, Compression.GZIP)):
            assert [record.offset for record in decode_records(up(old))] == [0, 1]


def test_a_wrappers_offset_is_not_below_those_in_it() -> None:
    """In magic 1; at 0 it says nothing, as some producers leave it."""
    for magic in MAGICS:
        inner = encode_message_set([Record(b"k", b"v", (), -1, offset) for offset in (0, 5)], magic)
        content = compress(Compression.GZIP, inner)
        for offset in (-1, 0, 4, 5, 1000):
            old = wrapper(content, magic, Compression.GZIP, offset)
            if magic and offset in (-1, 4):
                assert refusal(old) == ErrorCode.INVALID_RECORD
            else:
                assert len(decode_records(up(old))) == 2


def test_a_batch_stays_what_it_is() -> None:
    batch = encode_records([Record(b"k", b"v", (("h", None),), NOW, 0)])
    for given_set in (batch, batch[:-1], batch + b"?", batch[:17]):
        assert to_batch(given_set) == given_set


def test_a_batch_behind_messages_is_not_dropped_without_a_word() -> None:
    batch = encode_records([Record(b"k", b"v", (), NOW, 1)])
    for codec in OLD_CODECS:
        old = encode_message_set([Record(b"k", b"v", (), NOW, 0)], 1, compression=codec)
        assert refusal(old + batch) == ErrorCode.INVALID_RECORD
        assert refusal(old + batch[:17]) == ErrorCode.INVALID_RECORD
        assert to_batch(old + batch[:16]) == up(old), "which may as well be a message that is cut off"


def test_a_wrappers_log_append_time_is_that_of_its_messages() -> None:
    """Otherwise the attribute says nothing, as to a 3.9 broker."""
    records = [Record(b"k", b"v", (), NOW + i, i) for i in range(2)]
    for codec in OLD_CODECS[1:]:
        batch = up(encode_message_set(records, 1, compression=codec, log_append_time=NOW + 9))
        assert [record.timestamp for record in decode_records(batch)] == [NOW + 9] * 2
        assert not read_header(batch).is_log_append_time
    assert decode_records(up(with_crc(b"\0\x08" + b"\xff" * 8))) == [Record(None, None, (), -1, 0)]


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_timestamps_that_a_batch_cannot_tell(codec: Compression) -> None:
    def with_times(*times: int) -> bytes:
        records = [Record(b"k", b"v", (), time, i) for i, time in enumerate(times)]
        return encode_message_set(records, 1, compression=codec)

    for times in ((2**63 - 1, -1), (0, 2**63 - 1), (-1, 2**63 - 2), (5, -1, 7)):
        assert [record.timestamp for record in decode_records(up(with_times(*times)))] == list(times)
    assert refusal(with_times(-1, 2**63 - 1)) == ErrorCode.INVALID_TIMESTAMP, "further apart than 64 bits"
    many = [-1] * formats._AT_ONCE + [2**63 - 1] * formats._AT_ONCE
    assert refusal(with_times(*many)) == ErrorCode.INVALID_TIMESTAMP
    for refused in ((-2,), (0, -2), (-(2**63), 0), (-1, 2**63 - 1, -2)):
        assert refusal(with_times(*refused)) == ErrorCode.UNKNOWN_SERVER_ERROR
    if not codec:
        apart = with_times(-1, 2**63 - 1)
        assert refusal(apart + apart[:-1] + b"?") == ErrorCode.CORRUPT_MESSAGE
        assert refusal(apart + encode_message_set([Record(b"k", b"v", (), -1, 0)], 0)) == ErrorCode.INVALID_RECORD


def test_one_large_message_is_kept_no_more_often_than_it_has_to_be() -> None:
    large = encode_message_set([Record(b"k", bytes(4 << 20), (), NOW, 0)], 1)
    tracemalloc.start()
    try:
        to_batch(large)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3.5 * len(large), "its value, that in the batch's body, and the batch"


@pytest.mark.parametrize("magic", MAGICS)
def test_bad_messages(magic: int) -> None:
    good = encode_message_set([Record(b"k", b"v", (), -1, 0), Record(b"k", b"w", (), -1, 1)], magic)
    bad_crc = good[:-1] + b"?"
    zipped = compress(Compression.GZIP, good)
    empty = with_crc(bytes((magic, 1)) + bytes(8 * magic) + b"\xff" * 8)
    cases = {
        bad_crc: ErrorCode.CORRUPT_MESSAGE,
        good + bad_crc: ErrorCode.CORRUPT_MESSAGE,
        good[:16] + b"\3" + good[17:]: ErrorCode.CORRUPT_MESSAGE,
        bytes(8) + b"\x7f\xff\xff\xff" + good[12:]: ErrorCode.UNKNOWN_SERVER_ERROR,
        wrapper(zipped[:-9], magic, 1): ErrorCode.UNKNOWN_SERVER_ERROR,
        wrapper(zipped, magic, 2): ErrorCode.UNKNOWN_SERVER_ERROR,
        wrapper(compress(Compression.GZIP, bad_crc), magic, 1): ErrorCode.CORRUPT_MESSAGE,
        wrapper(compress(Compression.GZIP, wrapper(zipped, magic, 1)), magic, 1): ErrorCode.INVALID_RECORD,
        wrapper(compress(Compression.GZIP, good[:9]), magic, 1): ErrorCode.INVALID_RECORD,
        empty: ErrorCode.INVALID_RECORD,
        wrapper(zipped, magic, 4): ErrorCode.INVALID_RECORD,
        **{wrapper(zipped, magic, codec): ErrorCode.UNKNOWN_SERVER_ERROR for codec in (5, 6, 7)},
    }
    for bad, code in cases.items():
        assert refusal(bad) == code
    cut_off_inside = wrapper(compress(Compression.GZIP, good[:-1]), magic, 1)
    assert [record.value for record in decode_records(up(cut_off_inside))] == [b"v"]


@pytest.mark.parametrize(("magic", "codec"), OLD_FORMATS)
def test_changed_messages_raise_nothing_else(magic: int, codec: Compression) -> None:
    rng = random.Random(20260105)
    records = [Record(b"key" * 9, b"value", (), NOW if magic else -1, i) for i in range(3)]
    old = encode_message_set(records, magic, compression=codec)
    size = 12 + int.from_bytes(old[8:12], "big")
    refused = 0
    for _ in range(500):
        damaged = bytearray(old)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(min(len(damaged), rng.choice((30, 60, 1000))))
            damaged[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        damaged[12:16] = zlib.crc32(damaged[16:size]).to_bytes(4, "big")
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        try:
            taken = to_batch(bytes(damaged))
        except Refused:
            refused += 1
        else:
            if taken is not None and taken != damaged:
                assert read_header(taken).record_count == len(decode_records(taken))
    assert 50 < refused < 500


@unhurried
@given(st.binary(max_size=200))
def test_arbitrary_bytes(data: bytes) -> None:
    with suppress(Refused):
        to_batch(data)
    with suppress(BatchError):
        down(data, 1)


@pytest.mark.parametrize(
    ("magic", "name"), [(1, name) for name, (codec, _) in BOMBS.items() if codec != Compression.ZSTD] + [(0, "lz4")]
)
def test_bombs(magic: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1 << 20
    monkeypatch.setattr(formats, "MAX_DECOMPRESSED", limit)
    codec, make = BOMBS[name]
    bomb = wrapper(make(), magic, codec)
    tracemalloc.start()
    try:
        assert refusal(bomb) == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(DecompressedTooLarge):
            down(bomb, magic)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * limit + 5 * len(bomb)


@pytest.mark.parametrize("size", [9, 1 << 14])
def test_what_converting_costs(size: int) -> None:
    """What is compressed counts for what it may become, wherever it stands; much counts for itself."""
    plain = [Record(b"k", bytes(size), (), NOW, 0), Record(b"k", b"v", (), NOW, 1)]
    for codec in CODECS:
        record = [Record(b"k", b"v", (), NOW, 2)]
        for last in (
            encode_records(record, compression=codec),
            *(encode_message_set(record, magic, compression=codec) for magic in MAGICS[1:] if codec in OLD_CODECS),
        ):
            for before in (encode_records(plain), encode_message_set(plain, 1)):
                whole = before + last
                if codec:
                    assert cost(whole) == len(whole) * (1000 if size == 9 else 1)
                else:
                    assert cost(whole) <= len(whole)
    for nothing in (None, b"", bytes(22), b"\xff" * 22):
        assert cost(nothing) == len(nothing or b"")
    assert cost(bytes(1000)) == cost(b"\0\0\0\0\0\0\0\0\xff\xff\xff\xf4" + bytes(988)) == 1000


def test_what_large_and_small_records_cost_on_their_way_down() -> None:
    """It is the records that take long: a megabyte of a thousand is soon done, and so is not one of many more."""

    def batch(count: int, size: int) -> bytes:
        return encode_records([Record(None, bytes(size), (), NOW, i) for i in range(count)])

    assert cost(batch(1000, 1024)) < AT_ONCE < cost(batch(10_000, 100)) < cost(batch(50_000, 20))
    assert cost(batch(100, 20) * 1200) > AT_ONCE
    assert cost(encode_message_set([Record(None, bytes(1024), (), NOW, i) for i in range(20)], 1)) > AT_ONCE


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_is_cut_off_costs_nothing_on_its_way_down(codec: Compression) -> None:
    """As a broker fetches as many bytes as were asked for, that is the rule; it is left out."""
    whole = encode_records([Record(None, bytes(100), (), NOW, i) for i in range(100)])
    cut = encode_records([Record(None, bytes(range(256)) * 80, (), NOW, i) for i in range(2000)], compression=codec)
    for end in (61, 100, len(cut) - 1):
        assert down(whole + cut[:end], 1) == down(whole, 1)
        assert cost(whole + cut[:end]) == cost(whole)
        assert cost(cut[:end]) == 0
    assert cost(whole + cut) > AT_ONCE


def test_small_messages_take_no_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the way up they are objects a few at a time; on the way down they count for what objects take."""
    records = [Record(None, None, (), -1, i) for i in range(40_000)]
    old = encode_message_set(records, 1, compression=Compression.GZIP)
    batch = encode_records(records, compression=Compression.GZIP)
    tracemalloc.start()
    try:
        assert read_header(up(old)).record_count == 40_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * len(records)
    monkeypatch.setattr(formats, "MAX_DECOMPRESSED", 64 * 40_000)
    assert len(decode_message_set(down(batch, 1)).records) == 40_000
    monkeypatch.setattr(formats, "MAX_DECOMPRESSED", 64 * 40_000 - 1)
    with pytest.raises(DecompressedTooLarge):
        down(batch, 1)
