"""The records of a Fetch response, in whatever formats the log has them: message sets, record batches, or both."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.records.batch_errors import TruncatedBatch
from protocol.records.batches import MAGIC, MAGIC_POSITION, BatchHeader, Record, check_crc, read_header, records_of
from protocol.records.compression import MAX_DECOMPRESSED_SIZE
from protocol.records.message_sets import decode_message_set


def decode_fetched(
    buf: bytes, pos: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE
) -> Iterator[tuple[BatchHeader | None, list[Record]]]:
    """From ``pos`` to the end of ``buf``: the records of each record batch with its header, and those of the messages
    before, between and after with None. CRCs are checked.

    ``max_size`` is that of one batch, and of the messages up to the next. Raises TruncatedBatch when ``buf`` ends in a
    batch or message (as a response may), and as :func:`protocol.records.message_sets.decode_message_set` does; what is
    before that batch, or that message, has been given by then.
    """
    while pos < len(buf):
        if 0 <= pos < len(buf) - MAGIC_POSITION and buf[pos + MAGIC_POSITION] == MAGIC:
            header = read_header(buf, pos)
            check_crc(buf, pos, header)
            yield header, records_of(buf, pos, header, max_size)
            pos += header.size
        else:
            records, pos, needed = decode_message_set(buf, pos, max_size)
            if records:
                yield None, records
            if needed:
                raise TruncatedBatch("message cut off", pos, needed)
