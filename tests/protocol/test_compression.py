"""The codecs against themselves, against the libraries that two clients use, and against hostile bytes."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiokafka.codec as aiokafka_codec
import lz4.frame
import pytest
import snappy
import xxhash
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch_errors import BatchError, CorruptBatch, DecompressedTooLarge, UnsupportedBatch
from protocol.records.compression import (
    Compression,
    _short_xxh32,
    compress,
    decompress,
    with_kafka_checksum,
    with_right_checksum,
)
from tests.examples import examples
from tests.protocol.bomb import BOMBS, GIGABYTE

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas by functions that Python 3.11 and 3.12 call deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka.codec as kafka_python_codec

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
unhurried = settings(deadline=None, max_examples=examples(10))
data = st.one_of(st.binary(max_size=300), st.binary(max_size=20).map(lambda b: b * 20_000))

Coder = Callable[[bytes], bytes]

ENCODERS: dict[str, tuple[Compression, Coder]] = {
    "kafka-python gzip": (Compression.GZIP, kafka_python_codec.gzip_encode),
    "kafka-python snappy": (Compression.SNAPPY, kafka_python_codec.snappy_encode),
    "kafka-python raw snappy": (Compression.SNAPPY, lambda d: kafka_python_codec.snappy_encode(d, False)),
    "kafka-python lz4": (Compression.LZ4, kafka_python_codec.lz4_encode),
    "kafka-python zstd": (Compression.ZSTD, kafka_python_codec.zstd_encode),
    "aiokafka gzip": (Compression.GZIP, aiokafka_codec.gzip_encode),
    "aiokafka snappy": (Compression.SNAPPY, aiokafka_codec.snappy_encode),
    "aiokafka lz4": (Compression.LZ4, aiokafka_codec.lz4_encode),
    "aiokafka zstd": (Compression.ZSTD, aiokafka_codec.zstd_encode),
    "lz4, linked blocks of 4 MiB": (
        Compression.LZ4,
        lambda d: lz4.frame.compress(d, block_size=lz4.frame.BLOCKSIZE_MAX4MB, content_checksum=True),
    ),
    "zstd with a checksum": (
        Compression.ZSTD,
        lambda d: zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(d),
    ),
    "zstd, streamed": (
        Compression.ZSTD,
        lambda d: (z := zstandard.ZstdCompressor().compressobj()).compress(d) + z.flush(),
    ),
}
DECODERS: dict[str, tuple[Compression, Coder]] = {
    "kafka-python gzip": (Compression.GZIP, kafka_python_codec.gzip_decode),
    "kafka-python snappy": (Compression.SNAPPY, kafka_python_codec.snappy_decode),
    "kafka-python lz4": (Compression.LZ4, kafka_python_codec.lz4_decode),
    "kafka-python zstd": (Compression.ZSTD, kafka_python_codec.zstd_decode),
    "aiokafka gzip": (Compression.GZIP, aiokafka_codec.gzip_decode),
    "aiokafka snappy": (Compression.SNAPPY, aiokafka_codec.snappy_decode),
    "aiokafka lz4": (Compression.LZ4, aiokafka_codec.lz4_decode),
    "aiokafka zstd": (Compression.ZSTD, aiokafka_codec.zstd_decode),
}


@pytest.mark.parametrize("codec", CODECS)
@unhurried
@given(content=data)
def test_round_trip(codec: Compression, content: bytes) -> None:
    assert decompress(codec, compress(codec, content), max(len(content), 1)) == content


@pytest.mark.parametrize("codec", CODECS)
def test_large_payloads(codec: Compression) -> None:
    rng = random.Random(5)
    words = [rng.randbytes(7) for _ in range(200)]
    for content in (rng.randbytes(3_000_000), b"".join(rng.choices(words, k=700_000)), bytes(20 << 20)):
        compressed = compress(codec, content)
        assert decompress(codec, compressed, len(content)) == content
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, compressed, len(content) - 1)


@pytest.mark.parametrize(("codec", "encode"), ENCODERS.values(), ids=ENCODERS.keys())
@unhurried
@given(content=data.filter(bool))
def test_what_others_compress_is_read(codec: Compression, encode: Coder, content: bytes) -> None:
    assert decompress(codec, bytes(encode(content))) == content


@pytest.mark.parametrize(("codec", "decode"), DECODERS.values(), ids=DECODERS.keys())
@unhurried
@given(content=data.filter(bool))
def test_others_read_what_is_compressed(codec: Compression, decode: Coder, content: bytes) -> None:
    assert bytes(decode(compress(codec, content))) == content


def test_levels() -> None:
    content = b"".join(b"%d;" % n for n in range(30_000))
    for codec, fast, small in ((Compression.GZIP, 1, 9), (Compression.LZ4, 0, 9), (Compression.ZSTD, 1, 19)):
        payloads = [compress(codec, content, level) for level in (fast, small)]
        assert len(payloads[0]) != len(payloads[1])
        assert [decompress(codec, payload) for payload in payloads] == [content] * 2
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.ZSTD):
        with pytest.raises(ValueError, match="level"):
            compress(codec, content, 99)


@pytest.mark.parametrize("codec", [-1, 0, 5, 6, 7])
def test_other_codecs(codec: int) -> None:
    with pytest.raises(ValueError, match=f"codec {codec}"):
        compress(codec, b"data")
    with pytest.raises(UnsupportedBatch, match=rf"codec {codec} .*at byte 9"):
        decompress(codec, b"data", position=9)


# --- xerial's stream -------------------------------------------------------------------------------------------------


def test_snappy_is_written_in_blocks_as_java_does() -> None:
    content = random.Random(1).randbytes(70_000)
    stream = compress(Compression.SNAPPY, content)
    assert stream.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    blocks = []
    at = 16
    while at < len(stream):
        length = int.from_bytes(stream[at : at + 4], "big")
        blocks.append(snappy.decompress(stream[at + 4 : at + 4 + length]))
        at += 4 + length
    assert [len(block) for block in blocks] == [32 << 10, 32 << 10, 70_000 - (64 << 10)]
    assert b"".join(blocks) == content


def test_xerial_version_numbers_may_be_little_endian() -> None:
    stream = compress(Compression.SNAPPY, b"content")
    assert decompress(Compression.SNAPPY, stream[:8] + b"\1\0\0\0\1\0\0\0" + stream[16:]) == b"content"


# --- lz4 as Kafka 0.8 and 0.9 have it --------------------------------------------------------------------------------


@given(st.binary(max_size=15))
def test_the_hash_is_xxh32(content: bytes) -> None:
    assert _short_xxh32(content) == xxhash.xxh32(content).intdigest()


@unhurried
@given(content=data.filter(bool))
def test_the_wrong_header_checksum(content: bytes) -> None:
    right = compress(Compression.LZ4, content)
    wrong = with_kafka_checksum(right)
    assert [i for i in range(len(right)) if right[i] != wrong[i]] == [6]
    assert wrong[6] == xxhash.xxh32(wrong[:6]).intdigest() >> 8 & 0xFF
    with pytest.raises(CorruptBatch):
        decompress(Compression.LZ4, wrong)
    assert with_right_checksum(wrong) == right
    assert kafka_python_codec.lz4_decode_old_kafka(wrong) == content
    assert with_right_checksum(kafka_python_codec.lz4_encode_old_kafka(content))[:7] == right[:7]


@pytest.mark.parametrize("content_size", [False, True])
def test_the_wrong_header_checksum_is_found_behind_a_content_size(content_size: bool) -> None:
    frame = lz4.frame.compress(b"content", store_size=content_size)
    wrong = with_kafka_checksum(frame)
    assert wrong != frame
    assert with_right_checksum(wrong) == frame


@given(st.binary(max_size=30))
def test_no_frame_at_all_has_no_checksum(content: bytes) -> None:
    assert len(with_right_checksum(content)) == len(content)
    assert len(with_right_checksum(b"\x04\x22\x4d\x18" + content)) == 4 + len(content)


# --- what comes after the end ----------------------------------------------------------------------------------------

MORE_CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD]
PASSED_OVER = b"\x5f\x2a\x4d\x18\x03\x00\x00\x00abc"  # a skippable frame of zstd

# The payload's end, what comes after it, and what Kafka 4.3.1's streams make of that; None: they fail.
AFTER: list[tuple[Compression, bytes, bytes | None]] = [
    *((codec, compress(codec, b"more"), b"more") for codec in MORE_CODECS),
    *((codec, compress(codec, b""), b"") for codec in MORE_CODECS),
    *((codec, compress(codec, b"1") + compress(codec, b"") + compress(codec, b"2"), b"12") for codec in MORE_CODECS),
    (Compression.GZIP, b"\0", b""),
    (Compression.GZIP, b"\xff" * 40, b""),
    (Compression.GZIP, b"\0" * 40, b""),
    (Compression.GZIP, compress(Compression.GZIP, b"more")[:18], b""),
    (Compression.GZIP, compress(Compression.GZIP, b"more")[:19], None),
    (Compression.GZIP, compress(Compression.GZIP, b"more")[:-1], None),
    (Compression.GZIP, compress(Compression.GZIP, b"more") + b"\xff" * 40, b"more"),
    (Compression.GZIP, compress(Compression.GZIP, b"more")[:-1] + b"\xff", None),
    (Compression.GZIP, gzip.compress(b"more")[:3] + b"\x08" + gzip.compress(b"more")[4:10] + b"longer name\0", None),
    (Compression.SNAPPY, b"\0", b""),
    (Compression.SNAPPY, b"\xff" * 3, b""),
    (Compression.SNAPPY, b"\0" * 4, None),
    (Compression.SNAPPY, b"\xff" * 4, None),
    (Compression.SNAPPY, compress(Compression.SNAPPY, b"more")[:3], b""),
    *((Compression.SNAPPY, compress(Compression.SNAPPY, b"more")[:size], None) for size in range(4, 16)),
    (Compression.SNAPPY, compress(Compression.SNAPPY, b"more")[:-1], None),
    (Compression.LZ4, b"\0", b""),
    (Compression.LZ4, b"\xff" * 40, b""),
    (Compression.LZ4, compress(Compression.LZ4, b"more"), b""),
    (Compression.LZ4, PASSED_OVER, b""),
    (Compression.ZSTD, PASSED_OVER, b""),
    (Compression.ZSTD, PASSED_OVER * 2 + compress(Compression.ZSTD, b"more") + PASSED_OVER, b"more"),
    (Compression.ZSTD, b"\0", None),
    (Compression.ZSTD, b"\xff" * 40, None),
]
# That client reads these, as much as there is of them; a zstd frame is refused here where it does not end.
STRICTER = [PASSED_OVER[:-1], *(compress(Compression.ZSTD, b"more")[:size] for size in range(1, 13))]


@pytest.mark.parametrize("content", [b"content", b"", bytes(1_000_000)], ids=["some", "nothing", "a megabyte"])
@pytest.mark.parametrize(("codec", "more", "read"), AFTER)
def test_what_comes_after_the_end(codec: Compression, more: bytes, read: bytes | None, content: bytes) -> None:
    payload = compress(codec, content) + more
    if read is None:
        with pytest.raises(CorruptBatch):
            decompress(codec, payload)
        return
    whole = content + read
    assert decompress(codec, payload, len(whole)) == whole
    if whole:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, payload, len(whole) - 1)


@pytest.mark.parametrize("more", STRICTER)
def test_a_second_zstd_frame_has_to_end(more: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, compress(Compression.ZSTD, b"content") + more)


@pytest.mark.parametrize("block", [b"\0\0", b"\0\x05\0"])
def test_nothing_comes_after_a_snappy_block_of_nothing(block: bytes) -> None:
    stream = compress(Compression.SNAPPY, b"") + struct.pack(">i", len(block)) + block
    for data in (block, stream):
        with pytest.raises(CorruptBatch):
            decompress(Compression.SNAPPY, data)


@pytest.mark.parametrize("codec", MORE_CODECS)
@pytest.mark.parametrize("content", [b"", b"a", bytes(70_000)], ids=["nothing", "a byte", "much"])
def test_very_many_after_one_another(codec: Compression, content: bytes) -> None:
    count = 50_000 if len(content) < 2 else 50
    assert decompress(codec, compress(codec, content) * count) == content * count


def test_the_members_of_others() -> None:
    """Their headers may have fields that ours do not have."""
    named = (
        gzip.compress(b"named")[:3] + b"\x08" + gzip.compress(b"named")[4:10] + b"name\0" + gzip.compress(b"named")[10:]
    )
    extra = (
        gzip.compress(b"extra")[:3] + b"\x04" + gzip.compress(b"extra")[4:10] + b"\2\0xx" + gzip.compress(b"extra")[10:]
    )
    assert decompress(Compression.GZIP, compress(Compression.GZIP, b"ours ") + named + extra) == b"ours namedextra"
    checked = ENCODERS["zstd with a checksum"][1](b"checked")
    window = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=20))
    streamed = (part := window.compressobj()).compress(b"streamed") + part.flush()
    sized = [zstandard.ZstdCompressor().compress(bytes(size)) for size in (0, 200, 300, 70_000)]
    whole = b"checkedstreamed" + bytes(70_500)
    assert decompress(Compression.ZSTD, PASSED_OVER + checked + streamed + b"".join(sized)) == whole


# --- what is refused -------------------------------------------------------------------------------------------------

CONTENT = b"".join(b"%d:%d " % (n, n * n) for n in range(400))
PAYLOADS = {codec.name.lower(): (codec, compress(codec, CONTENT)) for codec in CODECS}
PAYLOADS["raw snappy"] = (Compression.SNAPPY, snappy.compress(CONTENT))
PAYLOADS["zstd with checksum"] = (Compression.ZSTD, ENCODERS["zstd with a checksum"][1](CONTENT))
PAYLOADS["empty zstd"] = (Compression.ZSTD, compress(Compression.ZSTD, b""))
PAYLOADS["linked lz4"] = (Compression.LZ4, ENCODERS["lz4, linked blocks of 4 MiB"][1](CONTENT))


@pytest.mark.parametrize(("codec", "payload"), PAYLOADS.values(), ids=PAYLOADS.keys())
def test_truncation_at_every_byte(codec: Compression, payload: bytes) -> None:
    for cut in range(len(payload)):
        try:
            read = decompress(codec, payload[:cut])
        except CorruptBatch:
            continue
        # xerial's stream does not say where it ends: cut off between blocks, or in a block's length, it is a shorter
        # stream. This one has one block.
        assert (codec, read) == (Compression.SNAPPY, b"")
        assert 16 <= cut < 20


@pytest.mark.parametrize(("codec", "payload"), PAYLOADS.values(), ids=PAYLOADS.keys())
def test_damaged_payloads_raise_nothing_else(codec: Compression, payload: bytes) -> None:
    rng = random.Random(20260102)
    limit = 1 << 20
    damages = [1 << bit for bit in range(len(payload) * 8)]
    for _ in range(1_500):
        damaged = bytearray(payload)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(min(len(damaged), rng.choice((20, 100, 10_000))))] = rng.randrange(256)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        damages.append(int.from_bytes(payload, "little") ^ int.from_bytes(damaged, "little"))
    refused = 0
    for damage in rng.sample(damages, 3_000) if len(damages) > 3_000 else damages:
        damaged = bytearray((int.from_bytes(payload, "little") ^ damage).to_bytes(len(payload), "little"))
        try:
            assert len(decompress(codec, bytes(damaged), limit)) <= limit
        except (CorruptBatch, DecompressedTooLarge):
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("codec", CODECS)
@unhurried
@given(content=st.binary(max_size=200))
def test_arbitrary_bytes(codec: Compression, content: bytes) -> None:
    start = compress(codec, b"")[:4]
    for payload in (content, start + content):
        with suppress(BatchError):
            decompress(codec, payload, 1 << 16)


HOSTILE = {
    "xerial block length negative": (Compression.SNAPPY, compress(Compression.SNAPPY, b"")[:16] + b"\xff\xff\xff\xff"),
    "xerial block length 0": (Compression.SNAPPY, compress(Compression.SNAPPY, b"")[:16] + b"\0\0\0\0"),
    "xerial block length huge": (Compression.SNAPPY, compress(Compression.SNAPPY, b"")[:16] + b"\x7f\xff\xff\xff\0"),
    "snappy length without content": (Compression.SNAPPY, b"\xff\xff\xff\x0f"),
    "snappy length of six bytes": (Compression.SNAPPY, b"\x80\x80\x80\x80\x80\x00"),
    "zstd window of 2 GiB": (Compression.ZSTD, b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00"),
    "zstd skippable frame, cut off": (Compression.ZSTD, b"\x50\x2a\x4d\x18\x01\x00\x00\x00"),
    "zstd skippable frame, cut off in its length": (Compression.ZSTD, b"\x50\x2a\x4d\x18\x00\x00\x00"),
    "zstd without a frame": (Compression.ZSTD, b""),
    "lz4 skippable frame": (Compression.LZ4, b"\x50\x2a\x4d\x18\x00\x00\x00\x00"),
    "gzip without a member": (Compression.GZIP, b""),
    "zlib, not gzip": (Compression.GZIP, b"\x78\x9c\x03\x00\x00\x00\x00\x01"),
}


@pytest.mark.parametrize(("codec", "payload"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_payloads(codec: Compression, payload: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, payload)


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_cost_the_limit_and_a_chunk(bomb: str) -> None:
    limit = 64 << 20
    run = subprocess.run(
        [sys.executable, "-m", "tests.protocol.bomb", bomb, str(limit)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    error, growth = run.stdout.split()
    assert error == "DecompressedTooLarge"
    # BytesIO grows by an eighth; lz4 has two blocks of 4 MiB of its own; and a chunk.
    assert int(growth) < limit * 9 // 8 + (16 << 20)


@pytest.mark.parametrize("bomb", ["lz4", "zstd", "gzip"])
def test_the_bombs_are_what_they_are_called(bomb: str) -> None:
    codec, make = BOMBS[bomb]
    payload = make()
    assert len(payload) < GIGABYTE // 200
    with pytest.raises(DecompressedTooLarge, match=str(64 << 20)):
        decompress(codec, payload, 64 << 20)
