"""The codecs of record batches and message sets: gzip, snappy, lz4, zstd (KIP-110); whole payloads, in memory.

Decompression takes a limit for its output and checks it as it goes, a chunk at a time, so a bomb costs the limit and a
chunk, no more.

Snappy comes in two forms. Java's is xerial's stream: a 16-byte header and blocks of 32 KiB, each with its length before
it. Others write one raw snappy block. Both are read, xerial's is written.

Every Kafka client writes one gzip member, one lz4 or zstd frame, or one snappy stream, with nothing after it. What
comes after it all the same is taken as Kafka 4.3's Java client takes it; the limit is that of all together:

========  ==========================  ===================================================================
codec     read on with                passed over
========  ==========================  ===================================================================
gzip      the next member             what does not begin like a member, and fewer than 19 bytes
snappy    xerial's next stream        up to three bytes after xerial's blocks; nothing after a raw block
lz4       nothing                     all that comes after the first frame, be it another frame
zstd      the next frame              skippable frames, before others too
========  ==========================  ===================================================================

Refused here, though that client reads it: a second gzip member or zstd frame that is cut off in its header (it ends
there without a word, and a zstd frame wherever it is cut off), gzip's reserved flags, a wrong checksum of an lz4
frame's content, what comes after an uncompressed lz4 block of no bytes (the end of the frame to it), and a zstd payload
of no bytes at all. The other way round, it does not read lz4 blocks that depend on
those before them.

In message sets of magic 0, lz4 frames have a wrong header checksum: Kafka 0.8 and 0.9 took it over the frame's magic
number too (KIP-57). :func:`with_kafka_checksum` and :func:`with_right_checksum` go from one to the other.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from io import BytesIO
from typing import Final

import cramjam
import lz4.frame
import zstandard

from protocol.records.batch_errors import CorruptBatch, DecompressedTooLarge, UnsupportedBatch

MAX_DECOMPRESSED_SIZE: Final = 100 << 20
"""Default limit of a payload's size once decompressed, bytes: a broker's ``socket.request.max.bytes`` (its default),
so what a batch could not be without compression."""

_CHUNK: Final = 256 << 10  # of output
_INPUT_CHUNK: Final = 1 << 16  # what is not consumed of it is copied, so it is small
_FIRST_INPUT: Final = 1 << 10  # of each gzip member: what is left over is copied as well, and members can be tiny
_SMALL: Final = 1 << 16


class Compression(IntEnum):
    """Codec in the lowest three attribute bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """``data``, compressed as Java's producer does; ``level`` is the codec's own (KIP-390), by default a fast one.

    Raises ValueError for a codec that Kafka does not have, for no codec, and for an impossible level.
    """
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise ValueError(f"compression codec {codec}")
    try:
        return compressor(data, level)
    except (zlib.error, zstandard.ZstdError) as error:
        raise ValueError(f"{Compression(codec).name.lower()} with level {level}: {error}") from None


def decompress(codec: int, data: bytes, max_size: int = MAX_DECOMPRESSED_SIZE, position: int = 0) -> bytes:
    """What was compressed to ``data``.

    ``position`` is where ``data`` starts in the caller's buffer; errors name it. Raises DecompressedTooLarge for more
    than ``max_size`` bytes, CorruptBatch, and UnsupportedBatch for a codec that Kafka does not have, or none.
    """
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedBatch(f"records compressed with codec {codec} (unknown)", position)
    try:
        return decompressor(data, max_size, position)
    except _CODEC_ERRORS as error:
        raise CorruptBatch(f"{Compression(codec).name.lower()}: {error}", position) from None


# zlib: malformed; lz4: RuntimeError, malformed; the others have an error class.
_CODEC_ERRORS: Final = (zlib.error, cramjam.DecompressionError, RuntimeError, zstandard.ZstdError)


def _bounded(chunks: Iterator[bytes], max_size: int, position: int) -> bytes:
    # BytesIO grows in place and gives its content away without a copy.
    content = BytesIO()
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > max_size:
            raise _too_large(max_size, position)
        content.write(chunk)
    return content.getvalue()


def _too_large(max_size: int, position: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"records of more than {max_size} bytes once decompressed", position)


# --- gzip ------------------------------------------------------------------------------------------------------------

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # 16: with gzip's header and trailer
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"  # the last byte is the one method that there is
_GZIP_OVERHEAD: Final = 18  # header and trailer of a member


def _gzip(data: bytes, level: int | None) -> bytes:
    try:
        member = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=_GZIP_WINDOW)
    except ValueError as error:
        raise zlib.error(str(error)) from None
    return member.compress(data) + member.flush()


def _gunzip(data: bytes, max_size: int, position: int) -> bytes:
    return _bounded(_gunzip_chunks(data, position), max_size, position)


def _gunzip_chunks(data: bytes, position: int) -> Iterator[bytes]:
    at = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        size = _FIRST_INPUT
        while not member.eof:
            piece = member.unconsumed_tail
            if not piece:
                piece = data[at : at + size]
                at += len(piece)
                size = min(2 * size, _INPUT_CHUNK)
            chunk = member.decompress(piece, _CHUNK)
            if not chunk and not piece:
                raise CorruptBatch("gzip: cut off", position)
            yield chunk
        at -= len(member.unused_data)
        if len(data) - at <= _GZIP_OVERHEAD or not data.startswith(_GZIP_MAGIC, at):
            return


# --- snappy ----------------------------------------------------------------------------------------------------------

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version; the oldest version that can read it
_XERIAL_BLOCK: Final = 32 << 10
_BLOCK_LENGTH: Final = struct.Struct(">i")
_XERIAL_START: Final = int.from_bytes(_XERIAL_MAGIC[:4], signed=True)  # no block has a negative length
_MAX_SNAPPY_RATIO: Final = 22  # three bytes make a copy of at most 64


def _snappy(data: bytes, level: int | None) -> bytes:
    if level is not None:
        raise ValueError("snappy has no levels")
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: bytes, max_size: int, position: int) -> bytes:
    # Each block begins with the length that it will have, so the limit is checked before anything is allocated.
    # Blocks are walked twice rather than kept: small ones would take more memory kept than they are.
    blocks = _xerial_blocks if data.startswith(_XERIAL_MAGIC) else _raw_block
    size = sum(_snappy_size(block, position) for block in blocks(data, position))
    if size > max_size:
        raise _too_large(max_size, position)
    content = BytesIO(bytes(size))
    with content.getbuffer() as view:
        start = 0
        for block in blocks(data, position):
            end = start + _snappy_size(block, position)
            if cramjam.snappy.decompress_raw_into(block, view[start:end]) != end - start:
                raise CorruptBatch("snappy: a block is shorter than it says", position)
            start = end
    return content.getvalue()


def _raw_block(data: bytes, position: int) -> Iterator[memoryview]:
    yield memoryview(data)


def _xerial_blocks(data: bytes, position: int) -> Iterator[memoryview]:
    # The header's version numbers are not looked at: some write them little-endian, and there is but one version.
    view = memoryview(data)
    at, end = 0, len(data)
    while end - at >= _BLOCK_LENGTH.size:
        (length,) = _BLOCK_LENGTH.unpack_from(data, at)
        if length == _XERIAL_START:
            at += len(_XERIAL_HEADER)
            if at > end:
                raise CorruptBatch("snappy: cut off in xerial's header", position)
            continue
        start = at + _BLOCK_LENGTH.size
        at = start + length
        if length <= 0 or at > end:
            raise CorruptBatch(f"snappy: block of {length} bytes, {end - start} left", position)
        yield view[start:at]


def _snappy_size(block: memoryview, position: int) -> int:
    size = 0
    for index in range(min(5, len(block))):
        byte = block[index]
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if size > len(block) * _MAX_SNAPPY_RATIO:
                break
            return size
    raise CorruptBatch("snappy: impossible length of a block", position)


# --- lz4 -------------------------------------------------------------------------------------------------------------

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_FLAGS_AT: Final = 4
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_DICTIONARY: Final = 0x01


def _lz4(data: bytes, level: int | None) -> bytes:
    # Independent blocks of 64 KiB and no content size: all that Kafka 0.8 and 0.9 can read.
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _unlz4(data: bytes, max_size: int, position: int) -> bytes:
    return _bounded(_unlz4_chunks(data, position), max_size, position)


def _unlz4_chunks(data: bytes, position: int) -> Iterator[bytes]:
    if not data.startswith(_LZ4_MAGIC):
        raise CorruptBatch("lz4: no frame", position)
    frame = lz4.frame.LZ4FrameDecompressor()
    # What is asked for is allocated, so little is asked for of a small frame.
    chunk_size = _SMALL if len(data) <= _SMALL // 8 else _CHUNK
    at = 0
    while not frame.eof:
        hungry = frame.needs_input
        piece = data[at : at + _INPUT_CHUNK] if hungry else b""
        at += len(piece)
        chunk: bytes = frame.decompress(piece, chunk_size)
        if hungry and not piece and not chunk and not frame.eof:
            raise CorruptBatch("lz4: cut off", position)
        yield chunk


def with_kafka_checksum(frame: bytes) -> bytes:
    """The lz4 frame with the header checksum that Kafka 0.8 and 0.9 want: over the magic number too."""
    at = _lz4_checksum_at(frame)
    return _with_byte(frame, at, _short_xxh32(frame[:at]) >> 8 & 0xFF)


def with_right_checksum(frame: bytes) -> bytes:
    """The lz4 frame with the header checksum of its format, whatever it had: Kafka does not look at it in magic 0.

    Bytes too short for a header are given back as they are.
    """
    at = _lz4_checksum_at(frame)
    if at >= len(frame):
        return frame
    return _with_byte(frame, at, _short_xxh32(frame[_LZ4_FLAGS_AT:at]) >> 8 & 0xFF)


def _with_byte(data: bytes, at: int, byte: int) -> bytes:
    return b"".join((data[:at], bytes((byte,)), memoryview(data)[at + 1 :]))


def _lz4_checksum_at(frame: bytes) -> int:
    flags = frame[_LZ4_FLAGS_AT] if len(frame) > _LZ4_FLAGS_AT else 0
    content_size = 8 if flags & _LZ4_CONTENT_SIZE else 0
    return _LZ4_FLAGS_AT + 2 + content_size + (4 if flags & _LZ4_DICTIONARY else 0)


_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393
_32_BITS: Final = 0xFFFF_FFFF


def _short_xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, so without its stripes."""
    h = _PRIME_5 + len(data)
    words = len(data) & ~3
    for at in range(0, words, 4):
        h = (h + int.from_bytes(data[at : at + 4], "little") * _PRIME_3) & _32_BITS
        h = ((h << 17 | h >> 15) * _PRIME_4) & _32_BITS
    for byte in data[words:]:
        h = (h + byte * _PRIME_5) & _32_BITS
        h = ((h << 11 | h >> 21) * _PRIME_1) & _32_BITS
    h = ((h ^ h >> 15) * _PRIME_2) & _32_BITS
    h = ((h ^ h >> 13) * _PRIME_3) & _32_BITS
    return h ^ h >> 16


# --- zstd ------------------------------------------------------------------------------------------------------------

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)  # magic numbers, little-endian; a length follows
_ZSTD_LENGTH: Final = struct.Struct("<I")
_ZSTD_CHECKSUM: Final = 0x04
_RLE: Final = 1


def _zstd_header_size(descriptor: int) -> int:
    """Bytes of a frame before its first block, by the byte after its magic number: that and this, and its fields."""
    is_single = descriptor >> 5 & 1
    content_size = (is_single, 2, 4, 8)[descriptor >> 6]
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    return 5 + (1 - is_single) + dictionary + content_size


_ZSTD_HEADER_SIZES: Final = tuple(_zstd_header_size(descriptor) for descriptor in range(256))


def _zstd(data: bytes, level: int | None) -> bytes:
    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def _unzstd(data: bytes, max_size: int, position: int) -> bytes:
    _check_zstd_frames(data, position)
    chunk_size = _SMALL * 2 if len(data) <= _SMALL else _CHUNK
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        return _bounded(iter(lambda: reader.read(chunk_size), b""), max_size, position)


def _check_zstd_frames(data: bytes, position: int) -> None:
    # The reader takes a frame that is cut off for one that ends there, so where frames end is looked for first.
    at, end = 0, len(data)
    while True:
        if data.startswith(_ZSTD_MAGIC, at) and at + 4 < end:
            at = _zstd_frame_end(data, at)
        elif end - at >= 8 and _ZSTD_LENGTH.unpack_from(data, at)[0] in _ZSTD_SKIPPABLE:
            at += 8 + _ZSTD_LENGTH.unpack_from(data, at + 4)[0]
        else:
            raise CorruptBatch("zstd: bytes after the end" if at else "zstd: no frame", position)
        if at > end:
            raise CorruptBatch("zstd: cut off", position)
        if at == end:
            return


def _zstd_frame_end(data: bytes, at: int) -> int:
    """Where the frame ends that starts at ``at``; beyond the data where it is cut off."""
    descriptor = data[at + 4]
    at += _ZSTD_HEADER_SIZES[descriptor]
    last = 0
    while not last:
        if at + 3 > len(data):
            return len(data) + 1
        block = int.from_bytes(data[at : at + 3], "little")
        last = block & 1
        at += 4 if block >> 1 & 3 == _RLE else 3 + (block >> 3)
    return at + (4 if descriptor & _ZSTD_CHECKSUM else 0)


_COMPRESSORS: Final[dict[int, Callable[[bytes, int | None], bytes]]] = {
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESSORS: Final[dict[int, Callable[[bytes, int, int], bytes]]] = {
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
