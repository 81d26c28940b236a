"""A partition's log as brokers keep one, made by Hypothesis, and what a Fetch of it gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from protocol.records.batches import (
    Compression,
    ControlRecordType,
    EndTransactionMarker,
    Record,
    encode_end_transaction,
    encode_records,
    read_header,
    rewrite_batch,
)
from protocol.records.message_sets import encode_message_set

CODECS = list(Compression)
OLD_CODECS = [codec for codec in Compression if codec != Compression.ZSTD]

contents = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=1, max_size=3).map(lambda b: b * 300))
timestamps = st.one_of(st.just(-1), st.integers(0, 2**62))
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)


class Piece(NamedTuple):
    """A batch, or messages. ``records``: those that a client sees; ``first`` and ``last``: the offsets it spans."""

    data: bytes
    records: list[Record]
    first: int
    last: int


Log = list[Piece]


@st.composite
def records_from(draw: st.DrawFn, offset: int, most: int = 8) -> list[Record]:
    """At rising offsets from that one on, with gaps."""
    records = []
    drawn = st.tuples(contents, contents, headers, timestamps, st.integers(1, 4))
    for key, value, some_headers, timestamp, step in draw(st.lists(drawn, min_size=1, max_size=most)):
        records.append(Record(key, value, some_headers, timestamp, offset))
        offset += step
    return records


@st.composite
def batch_from(draw: st.DrawFn, offset: int) -> Piece:
    """A batch as compaction may have left it: some of its records are gone, or all."""
    records = draw(records_from(offset))
    append_time = draw(st.none() | st.integers(0, 2**62))
    whole = encode_records(records, compression=draw(st.sampled_from(CODECS)), log_append_time=append_time)
    kept = [record for record in records if draw(st.integers(0, 3))]
    seen = kept if append_time is None else [record._replace(timestamp=append_time) for record in kept]
    return Piece(rewrite_batch(read_header(whole), kept), seen, offset, records[-1].offset)


@st.composite
def messages_from(draw: st.DrawFn, offset: int) -> Piece:
    magic = draw(st.integers(0, 1))
    records = [
        record._replace(headers=(), timestamp=record.timestamp if magic else -1)
        for record in draw(records_from(offset))
    ]
    data = encode_message_set(records, magic, compression=draw(st.sampled_from(OLD_CODECS)))
    return Piece(data, records, offset, records[-1].offset)


@st.composite
def marker_from(draw: st.DrawFn, offset: int) -> Piece:
    marker = EndTransactionMarker(draw(st.sampled_from([ControlRecordType.ABORT, ControlRecordType.COMMIT])), 3)
    return Piece(encode_end_transaction(offset, marker, 1, producer_id=1, producer_epoch=1), [], offset, offset)


@st.composite
def logs(draw: st.DrawFn, most: int = 5) -> Log:
    """Batches, messages and markers, with gaps between them."""
    offset = draw(st.sampled_from([0, 1, 2**40]))
    log: Log = []
    for make in draw(
        st.lists(st.sampled_from([batch_from, batch_from, messages_from, marker_from]), min_size=1, max_size=most)
    ):
        log.append(draw(make(offset)))
        offset = log[-1].last + draw(st.sampled_from([1, 1, 3]))
    return log


def read_from(log: Log, offset: int, max_bytes: int) -> bytes:
    """From the batch on that has the offset: the first one whole (KIP-74), the last one may be cut off."""
    found = [piece.data for piece in log if piece.last >= offset]
    return b"".join(found)[: max(max_bytes, len(found[0]))] if found else b""


def as_old(records: Sequence[Record], magic: int) -> list[Record]:
    """With what their format has of them."""
    return [record._replace(headers=(), timestamp=record.timestamp if magic else -1) for record in records]


def records_in(log: Log) -> list[Record]:
    return [record for piece in log for record in piece.records]
