"""A gigabyte of zeros in each codec, made without a gigabyte; and, run as a program, how refusing it ends and how much
memory that takes: prints the exception's name, and by how many bytes the process's peak grew."""

import re
import struct
import sys
import zlib
from pathlib import Path

import cramjam
import lz4.frame

from protocol.records.batch_errors import BatchError
from protocol.records.compression import Compression, decompress

GIGABYTE = 1 << 30
_MIB = bytes(1 << 20)


def _gzip() -> bytes:
    member = zlib.compressobj(9, wbits=31)
    head = member.compress(_MIB) + member.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers back, so what a MiB of zeros adds is the same each time.
    block = member.compress(_MIB) + member.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(9, wbits=-15).flush()
    crc = 0
    for _ in range(1024):
        crc = zlib.crc32(_MIB, crc)
    return head + block * 1023 + end + struct.pack("<II", crc, GIGABYTE)


def _xerial() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(32 << 10)))
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + (struct.pack(">i", len(block)) + block) * (GIGABYTE >> 15)


def _raw_snappy() -> bytes:
    # The length as a varint, a literal zero, and copies of 64 bytes from one byte back.
    return b"\x80\x80\x80\x80\x04" + b"\x00\x00" + b"\xfe\x01\x00" * (GIGABYTE // 64)


def _lz4() -> bytes:
    size = 4 << 20
    frame = lz4.frame.compress(bytes(size), block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False, store_size=False)
    header, block, end = frame[:7], frame[7:-4], frame[-4:]
    return bytes(header + block * (GIGABYTE // size) + end)


def _zstd() -> bytes:
    # A window of 128 KiB, and as many blocks of one zero repeated.
    size = 128 << 10
    block = size << 3 | 1 << 1
    return (
        b"\x28\xb5\x2f\xfd\x00\x38"
        + (block.to_bytes(3, "little") + b"\0") * (GIGABYTE // size - 1)
        + ((block | 1).to_bytes(3, "little") + b"\0")
    )


def _members() -> bytes:
    member = zlib.compressobj(9, wbits=31)
    return (member.compress(_MIB) + member.flush()) * 1024


def _streams() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(32 << 10)))
    return (b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + struct.pack(">i", len(block)) + block) * (GIGABYTE >> 15)


def _frames() -> bytes:
    # A window of 128 KiB, and one block of one zero repeated.
    size = 128 << 10
    return (b"\x28\xb5\x2f\xfd\x00\x38" + (size << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0") * (GIGABYTE // size)


BOMBS = {
    "gzip": (Compression.GZIP, _gzip),
    "snappy (xerial)": (Compression.SNAPPY, _xerial),
    "snappy (raw)": (Compression.SNAPPY, _raw_snappy),
    "lz4": (Compression.LZ4, _lz4),
    "zstd": (Compression.ZSTD, _zstd),
    "gzip, many members": (Compression.GZIP, _members),
    "snappy (xerial), many streams": (Compression.SNAPPY, _streams),
    "zstd, many frames": (Compression.ZSTD, _frames),
}


def _peak() -> int:
    """Bytes. Not getrusage's: a program begins with the peak of the one that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def main() -> None:
    name, limit = sys.argv[1:]
    codec, make = BOMBS[name]
    bomb = make()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is in use
    before = _peak()
    try:
        decompress(codec, bomb, int(limit))
    except BatchError as error:
        print(type(error).__name__, _peak() - before)


if __name__ == "__main__":
    main()
