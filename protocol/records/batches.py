"""Record batches, magic 2: the format of Kafka's logs and of its Produce and Fetch since Kafka 0.11 (KIP-98).

Layout, big-endian. The CRC-32C covers everything from the attributes to the end of the batch, so it does not cover
the base offset, the length, the leader epoch and the magic::

     0  base offset             int64        23  last offset delta   int32
     8  length (bytes after)    int32        27  base timestamp      int64
    12  partition leader epoch  int32        35  max timestamp       int64
    16  magic (2)               int8         43  producer id         int64
    17  crc                     uint32       51  producer epoch      int16
    21  attributes              int16        53  base sequence       int32
                                             57  number of records   int32
    61  records: length varint, attributes int8, timestamp delta varlong, offset delta varint,
        key length varint + key, value length varint + value, header count varint + headers (length -1: null)

The base timestamp is the delete horizon when that attribute is set (KIP-534); deltas are relative to it all the same.
A batch may hold fewer records than its offsets span, down to none: compaction leaves such batches behind.
Where a codec is named in the attributes, it has compressed all that comes after the header: header, CRC and offsets
are read without decompressing.

What is read is what brokers keep and Kafka 4.3's consumer reads: brokers assign base offsets, so producers send what
they like (0 or -1, most of them); and of a batch that is not compressed brokers take any offset deltas, so its records
need not rise, nor keep within the batch's offsets. Refused here, though that consumer reads it: what no broker takes
from a producer (a last offset delta below 0 or below the number of records less one; bytes after the last record of a
batch without any, compressed or not); lengths below -1 (null to it); varints of more bits than their type has (it drops
these); and base offsets less than 2^31 from the ends of 64 bits, and timestamps beyond them (it goes round). Of what is
cut off, it looks at the magic alone, and at the length that a message of magic 0 has at least; here all is judged that
is there.
"""

from __future__ import annotations

from protocol.records.batch_errors import (
    BatchError,
    CorruptBatch,
    DecompressedTooLarge,
    TruncatedBatch,
    UnsupportedBatch,
)
from protocol.records.batch_layout import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MIN_OBJECT_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SKIM_ABOVE,
    BatchHeader,
    ControlRecordType,
    EndTransactionMarker,
    Record,
)
from protocol.records.batch_reading import (
    batches,
    check_crc,
    control_record_type,
    decode_records,
    end_transaction_marker,
    read_header,
    records_of,
)
from protocol.records.batch_writing import (
    encode_batch,
    encode_end_transaction,
    encode_framed,
    encode_records,
    encoded_size,
    frame_records,
    framed_batch,
    of_producer,
    record_parts,
    rewrite_batch,
    rewrite_framed,
)
from protocol.records.compression import MAX_DECOMPRESSED_SIZE, Compression
from protocol.records.tombstones import tombstones

__all__ = [
    "HEADER_SIZE",
    "LENGTH_OVERHEAD",
    "MAGIC",
    "MAGIC_POSITION",
    "MAX_DECOMPRESSED_SIZE",
    "MIN_OBJECT_SIZE",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "SKIM_ABOVE",
    "BatchError",
    "BatchHeader",
    "Compression",
    "ControlRecordType",
    "CorruptBatch",
    "DecompressedTooLarge",
    "EndTransactionMarker",
    "Record",
    "TruncatedBatch",
    "UnsupportedBatch",
    "batches",
    "check_crc",
    "control_record_type",
    "decode_records",
    "encode_batch",
    "encode_end_transaction",
    "encode_framed",
    "encode_records",
    "encoded_size",
    "end_transaction_marker",
    "frame_records",
    "framed_batch",
    "of_producer",
    "read_header",
    "record_parts",
    "records_of",
    "rewrite_batch",
    "rewrite_framed",
    "tombstones",
]
