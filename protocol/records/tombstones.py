"""Which keys a batch deletes, without making its records: who looks for that reads much, and finds little."""

from __future__ import annotations

from protocol.records.batch_errors import CorruptBatch
from protocol.records.batch_layout import COMPRESSION, HEADER_SIZE, BatchHeader, Record
from protocol.records.batch_reading import only_record, records_of, varint
from protocol.records.compression import MAX_DECOMPRESSED_SIZE


def tombstones(buf: bytes, pos: int, header: BatchHeader, max_size: int = MAX_DECOMPRESSED_SIZE) -> list[Record]:
    """The records with a key, without a value, and without headers, of the batch at ``pos``, whose header is read and
    whose CRC is checked already. ``max_size``: of a compressed batch, see :func:`records_of`.

    Raises CorruptBatch where the records are not as long as they say; into those that are none it does not look.
    Raises as :func:`records_of` for a compressed batch, which it decodes as that does.
    """
    if header.attributes & COMPRESSION:
        records = records_of(buf, pos, header, max_size)
        return [each for each in records if each.key is not None and each.value is None and not each.headers]
    found = []
    batch_end = pos + header.size
    pos += HEADER_SIZE
    try:
        for _ in range(header.record_count):
            start = pos
            n = buf[pos]
            pos += 1
            if n >= 0x80:
                n, pos = varint(buf, start)
            end = pos + (n >> 1)
            if n & 1 or end > batch_end:
                raise CorruptBatch(f"record of {n >> 1} bytes, {batch_end - pos} left in the batch", start)
            # They end with a value's length of -1 and no headers; others do by chance.
            if not buf[end - 1] and buf[end - 2] == 1:
                record = only_record(buf, start, end, header)
                if record.key is not None and record.value is None and not record.headers:
                    found.append(record)
            pos = end
    except IndexError:
        raise CorruptBatch("record cut off", batch_end) from None
    if pos != batch_end:
        raise CorruptBatch(f"{batch_end - pos} bytes after the last record", pos)
    return found
