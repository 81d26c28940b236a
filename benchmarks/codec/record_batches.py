"""Record batches of 1,000 and 10,000 records, read and written; the large ones are checked before they are made.

Everybody reads all records, checks the CRC, and touches offset, timestamp, key, value and headers of each: the batches
of kafka-python and aiokafka read a record when it is asked for, ours and kio's are read at once.

aiokafka has this codec twice, in C and in Python; the second is what it falls back to where there is no C. It is
loaded beside the first here, with the compiled CRC-32C put in, since that of its Python code would take longer than
all the rest.
"""

import importlib
import io
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import aiokafka.record.default_records
import aiokafka.util
import crc32c
import kafka.record.default_records
import kio.records.readers
import kio.records.schema
import kio.records.writers
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from benchmarks.codec.sides import Column, Line, Side
from protocol.records.batches import Record, decode_records, encode_batch, encode_records

COUNT = 1_000
LARGE_COUNT = 10_000
# Whole seconds: kio cuts the milliseconds of a timestamp off when it reads one.
_TIME = 1_700_000_000_000
_LEADER_EPOCH = slice(12, 16)  # outside of the CRC, set by brokers; the builders write one of their own choice


class Batch(NamedTuple):
    label: str
    records: tuple[Record, ...]
    encode: Callable[[], bytes]

    @property
    def whole_seconds(self) -> bool:
        return all(record.timestamp % 1000 == 0 for record in self.records)


def _commits(count: int) -> Batch:
    """As in the log of the offsets: 30 bytes of key, 24 of value, all of one time."""
    pairs = [(b"\0\1\0\x10billing-invoices\0\4paid" + i.to_bytes(4), i.to_bytes(24)) for i in range(count)]
    records = tuple(Record(key, value, (), _TIME, offset) for offset, (key, value) in enumerate(pairs))
    return Batch(f"batch of {count:,} records, one timestamp", records, partial(encode_batch, 0, pairs, _TIME))


def _events(count: int) -> Batch:
    """As applications write them: 8 bytes of key, 100 of value, a header, a millisecond apart."""
    headers = (("trace-id", bytes(16)),)
    records = tuple(Record(i.to_bytes(8), bytes([i % 256]) * 100, headers, _TIME + i, i) for i in range(count))
    return Batch(f"batch of {count:,} records, timestamps and headers", records, partial(encode_records, records))


def _plain_events(count: int) -> Batch:
    """Likewise, without headers and at one time, so that kio can read it."""
    records = tuple(Record(i.to_bytes(8), bytes([i % 256]) * 100, (), _TIME, i) for i in range(count))
    return Batch(f"batch of {count:,} records, no headers", records, partial(encode_records, records))


def batch_lines() -> Iterator[Line]:
    for count in (COUNT, LARGE_COUNT):
        for make in (_commits, _plain_events, _events):
            yield from _lines(make(count))


def _lines(batch: Batch) -> tuple[Line, Line]:
    raw = batch.encode()
    modules = {
        Column.KAFKA_PYTHON: kafka.record.default_records,
        Column.AIOKAFKA: _aiokafka_in_python(),
        Column.AIOKAFKA_C: aiokafka.record.default_records,
    }
    readers = [_reader(batch, Column.OURS, partial(_read_ours, raw))]
    writers = [_writer(raw, Column.OURS, batch.encode)]
    for column, module in modules.items():
        native = column is Column.AIOKAFKA_C
        readers.append(_reader(batch, column, partial(_read_lazy, module.DefaultRecordBatch, raw), native))
        builder = partial(module.DefaultRecordBatchBuilder, 2, 0, False, -1, -1, -1, 2**30)
        rows = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch.records]
        writers.append(_writer(raw, column, partial(_build, builder, rows), native))
    if batch.whole_seconds:
        readers.append(_reader(batch, Column.KIO, partial(_read_kio, raw), native=True))
        writers.append(_writer(raw, Column.KIO, partial(_write_kio, _new_kio_batch(batch))))
    return Line(batch.label, "read", tuple(readers)), Line(batch.label, "write", tuple(writers))


Fields = list[tuple[Any, ...]]
"""Offset, timestamp, key, value and headers of each record; the last as a codec has them."""


def _read_ours(raw: bytes) -> Fields:
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in decode_records(raw)]


def _read_lazy(batch_class: Any, raw: bytes) -> Fields:
    batch = batch_class(raw)
    if not batch.validate_crc():
        raise ValueError("CRC mismatch")
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch]


def _read_kio(raw: bytes) -> Fields:
    batch, _ = kio.records.readers.read_batch(raw, 0)
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records]


def _build(new_builder: Callable[[], Any], rows: Fields) -> bytearray:
    builder = new_builder()
    append = builder.append
    for offset, timestamp, key, value, headers in rows:
        append(offset, timestamp, key, value, headers)
    built: bytearray = builder.build()
    return built


def _write_kio(batch: kio.records.schema.NewRecordBatch) -> bytes:
    out = io.BytesIO()
    kio.records.writers.write_new_batch(out, batch)
    return out.getvalue()


def _new_kio_batch(batch: Batch) -> kio.records.schema.NewRecordBatch:
    assert not any(record.headers for record in batch.records)
    return kio.records.schema.NewRecordBatch(
        producer_id=i64(-1),
        producer_epoch=i16(-1),
        base_sequence=i32(-1),
        attributes=i16(0),
        records=tuple(
            kio.records.schema.Record(
                attributes=i8(0),
                timestamp=TZAwareMicros.parse(datetime.fromtimestamp(record.timestamp / 1000, UTC)),
                offset=i64(record.offset),
                key=record.key,
                value=record.value,
                headers=(),
            )
            for record in batch.records
        ),
    )


def _reader(batch: Batch, column: Column, run: Callable[[], Fields], native: bool = False) -> Side:
    def agrees() -> None:
        found = run()
        for offset, timestamp, key, value, headers in found:
            when = timestamp if isinstance(timestamp, int) else int(timestamp.timestamp() * 1000)
            assert batch.records[offset] == (key, value, tuple(headers), when, offset)
        assert len(found) == len(batch.records)

    return Side(column, run, agrees, native)


def _writer(raw: bytes, column: Column, run: Callable[[], bytes | bytearray], native: bool = False) -> Side:
    def agrees() -> None:
        written = bytearray(run())
        written[_LEADER_EPOCH] = raw[_LEADER_EPOCH]
        assert written == raw

    return Side(column, run, agrees, native)


def _aiokafka_in_python() -> ModuleType:
    """aiokafka's module as it is without its extensions, but for a compiled CRC-32C; the imported one is left alone."""
    package = aiokafka.record
    names = ("util", "default_records")
    kept = {name: sys.modules.pop(f"{package.__name__}.{name}") for name in names}
    extensions, aiokafka.util.NO_EXTENSIONS = aiokafka.util.NO_EXTENSIONS, True
    try:
        module = importlib.import_module(f"{package.__name__}.default_records")
    finally:
        aiokafka.util.NO_EXTENSIONS = extensions
        for name, before in kept.items():
            sys.modules[f"{package.__name__}.{name}"] = before
            setattr(package, name, before)
    vars(module)["calc_crc32c"] = crc32c.crc32c
    return module
