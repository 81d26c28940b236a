"""Record batches and message sets, sound and damaged, beside what Kafka's consumer makes of them.

The inputs are the fuzzer's. Up to where one of them fails, both have read the same records, in every input; where one
alone fails, it does so for a reason that is listed here. What is stricter or laxer here by intent is said in the
docstrings of the modules, and held to their words.
"""

from __future__ import annotations

import random
import re
import struct
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

import lz4.frame
import pytest

from protocol.records import batches, compression, message_sets
from protocol.records.batch_errors import BatchError, TruncatedBatch
from protocol.records.batches import HEADER_SIZE, MAGIC, MAGIC_POSITION, Record, encode_batch
from protocol.records.compression import Compression, compress, with_right_checksum
from protocol.records.fetched import decode_fetched
from protocol.records.message_sets import encode_message_set
from shim.demo.parts.tools import java_tool
from tests.protocol import fuzz, verdicts
from tests.protocol.parts import zigzag
from tests.protocol.test_batches import recompressed, with_body, with_field
from tests.protocol.test_message_sets import message, wrapper

PROGRAM: Final = str(Path(__file__).with_name("KafkaRecords.java"))
TIMEOUT_S: Final = 300.0
SHARDS: Final = 10
INPUTS_PER_SHARD: Final = 20_000

READ: Final = "read by both"
REFUSED: Final = "refused by both"


class Kind(NamedTuple):
    """A reason for which one alone refuses, and an input that it refuses for it.

    `error` matches what it says, all of it. `words` are those of the module's docstring; where it has none, they say
    here what the other one does.
    """

    error: str
    module: ModuleType | None
    words: str
    example: bytes


def batch_of(*bodies: bytes, count: int | None = None, codec: Compression = Compression.NONE) -> bytes:
    """A batch whose records have these bytes, their lengths put before them."""
    records = b"".join(zigzag(len(body)) + body for body in bodies)
    raw = with_body(records, len(bodies) if count is None else count)
    return recompressed(raw, codec, records) if codec else raw


def with_payload(codec: Compression, payload: bytes) -> bytes:
    """A batch of RECORD with these bytes for its compressed records."""
    sized = with_field(SOUND[:HEADER_SIZE] + payload, 8, "i", HEADER_SIZE - 12 + len(payload))
    return with_field(sized, 21, "h", codec)


def inside(raw: bytes) -> bytes:
    return wrapper(raw, 1, offset=7)


def of_magic(magic: int) -> bytes:
    """A message in the layout of magic 1."""
    return message(struct.pack(">BBqii", magic, 0, 5, -1, 1) + b"v", 7)


SOUND: Final = encode_batch(0, [(b"k", b"v")], 1000)
RECORD: Final = b"\0\0\0\x02k\x02v\0"  # of that batch
RECORDS: Final = zigzag(len(RECORD)) + RECORD
FRAME: Final = compress(Compression.LZ4, RECORDS)
EMPTY_BLOCK: Final = b"\0\0\0\x80"  # of lz4, not compressed
MESSAGE: Final = encode_message_set([Record(b"k", b"v", (), 5, 7)], 1)

STRICTER: Final = (
    Kind(r"last offset delta -\d+", batches, "a last offset delta below 0", with_field(SOUND, 23, "i", -1)),
    Kind(
        r"\d+ records in \d+ offsets",
        batches,
        "below the number of records less one",
        with_field(encode_batch(0, [(b"k", b"v")] * 2, 1000), 23, "i", 0),
    ),
    Kind(
        "no records: .*",
        batches,
        "bytes after the last record of a batch without any",
        batch_of(RECORD, count=0),
    ),
    Kind(
        "negative (key|value) length|header value length",
        batches,
        "lengths below -1 (null to it)",
        batch_of(b"\0\0\0\x03\x02v\0"),
    ),
    Kind(
        "varint beyond 32 bits|varlong beyond 64 bits",
        batches,
        "varints of more bits than their type has",
        batch_of(b"\0\0\0\x82\x80\x80\x80\x10k\x02v\0"),
    ),
    Kind(
        r"base offset -?\d+",
        batches,
        "base offsets less than 2^31 from the ends of 64 bits",
        with_field(SOUND, 0, "q", 2**63 - 2),
    ),
    Kind(
        "timestamp beyond 64 bits", batches, "timestamps beyond them", batch_of(b"\0" + zigzag(2**63 - 1) + RECORD[2:])
    ),
    Kind(
        "in a wrapper: (a message is cut off|message of (1[4-9]|2[01]) bytes)",
        message_sets,
        "a wrapper whose last message is cut off",
        inside(MESSAGE + MESSAGE[:-1]),
    ),
    Kind(
        r"(in a wrapper: )?((key|value) length -\d+|value of -\d+ bytes, .*)",
        message_sets,
        "lengths below -1 (null to them)",
        message(struct.pack(">BBqii", 1, 0, 5, -2, -1)),
    ),
    Kind(
        r"(in a wrapper: )?value of \d+ bytes, .*",
        message_sets,
        "bytes after the value",
        message(struct.pack(">BBqii", 1, 0, 5, -1, 1) + b"vv"),
    ),
    Kind(
        "(in a wrapper: )?(gzip|zstd): cut off",
        compression,
        "a second gzip member or zstd frame that is cut off in its header",
        with_payload(Compression.ZSTD, compress(Compression.ZSTD, RECORDS) + compress(Compression.ZSTD, RECORDS)[:7]),
    ),
    Kind(
        "(in a wrapper: )?gzip: .* unknown header flags set",
        compression,
        "gzip's reserved flags",
        with_payload(Compression.GZIP, (member := compress(Compression.GZIP, RECORDS))[:3] + b"\x20" + member[4:]),
    ),
    Kind(
        "(in a wrapper: )?(empty block: )?lz4: .* ERROR_contentChecksum_invalid",
        compression,
        "a wrong checksum of an lz4 frame's content",
        with_payload(
            Compression.LZ4, lz4.frame.compress(RECORDS, content_checksum=True, block_linked=False)[:-4] + bytes(4)
        ),
    ),
    Kind(
        r"(in a wrapper: )?records of more than \d+ bytes once decompressed",
        compression,
        "Decompression takes a limit for its output",
        encode_batch(0, [(None, bytes(verdicts.MAX_SIZE))], 1000, compression=Compression.GZIP),
    ),
    # In no docstring:
    Kind(
        r"-\d+ records in \d+ offsets|batch length below that of a header|message of (1[4-9]|2[01]) bytes",
        batches,
        "at the magic alone, and at the length that a message of magic 0 has at least",
        with_field(SOUND, 57, "i", -1)[:-1],
    ),
    Kind(r"in a wrapper: magic \d+", message_sets, "that is not 1 either (1 to them)", inside(of_magic(9))),
    Kind(
        "in a wrapper: offset beyond 64 bits",
        message_sets,
        "that lead beyond 64 bits (they go round)",
        inside(struct.pack(">q", 2**63 - 1) + MESSAGE[8:] + bytes(8) + MESSAGE[8:]),
    ),
    Kind(
        "(in a wrapper: )?empty block: lz4: (?!.*contentChecksum).*",
        compression,
        "what comes after an uncompressed lz4 block of no bytes",
        with_payload(Compression.LZ4, FRAME[:-4] + EMPTY_BLOCK),
    ),
)

LAXER: Final = (
    Kind(
        "org.apache.kafka.common.KafkaException: java.lang.RuntimeException: Dependent block stream is unsupported .*",
        compression,
        "it does not read lz4 blocks that depend on those before them",
        with_payload(Compression.LZ4, with_right_checksum(FRAME[:4] + bytes((FRAME[4] & ~0x20,)) + FRAME[5:])),
    ),
    # In no docstring:
    Kind(
        r"java.lang.IllegalArgumentException: newLimit < 0: \(-\d+ < 0\)",
        None,
        "a size of nearly 2 GiB goes round; here the buffer ends in that message or batch",
        MESSAGE[:8] + b"\x7f\xff\xff\xff" + MESSAGE[12:],
    ),
)


# --- what is asked, and what each says -------------------------------------------------------------------------------


@cache
def targets() -> list[fuzz.Target]:
    found = [each for each in fuzz.targets().values() if each.verdict in (verdicts.batch, verdicts.message_set)]
    assert len(found) == 23
    return found


def sound() -> Iterator[bytes]:
    for target in targets():
        yield from (target.finish(fuzz.Careful(0), bytearray(raw)) for raw in target.samples)


def damaged(seed: int, count: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    for number in range(count):
        target = targets()[number % len(targets())]
        yield target.finish(rng, fuzz.damaged(rng, target))


class Answer(NamedTuple):
    """The records up to the end or to the error, and the error; "" for none."""

    records: list[Record]
    error: str


def kafka(inputs: list[bytes]) -> list[Answer]:
    """Kafka's answers. Header keys are as `shown` has them."""
    # One that takes all memory is an answer as well: the last of these options holds.
    asked = "".join(f"{raw.hex()}\n" for raw in inputs)
    told = java_tool("-XX:-ExitOnOutOfMemoryError", PROGRAM, input=asked, timeout=TIMEOUT_S).stdout.splitlines()
    assert len(told) == len(inputs)
    return [_answer(line) for line in told]


def _answer(line: str) -> Answer:
    words, failed, error = line.partition("failed ")
    *records, end = words.split(" ")
    assert end == ("" if failed else "end"), line
    return Answer([shown(_record(*word.split(","))) for word in records], error)


def _record(offset: str, timestamp: str, key: str, value: str, *headers: str) -> Record:
    names = (bytes.fromhex(name).decode() for name in headers[::2])
    contents = map(_bytes, headers[1::2])
    return Record(_bytes(key), _bytes(value), tuple(zip(names, contents, strict=True)), int(timestamp), int(offset))


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)


def shown(record: Record) -> Record:
    """The record, its header keys in Java's characters. How many replace what is no UTF-8 differs: here it is one."""
    names = (name.encode(errors="surrogateescape").decode(errors="replace") for name, _ in record.headers)
    contents = (content for _, content in record.headers)
    single = (re.sub("\N{REPLACEMENT CHARACTER}+", "\N{REPLACEMENT CHARACTER}", name) for name in names)
    return record._replace(headers=tuple(zip(single, contents, strict=True)))


def ours(raw: bytes) -> Answer:
    """A batch or message that the end cuts off is none, as it is to a consumer."""
    records: list[Record] = []
    try:
        for _, some in decode_fetched(raw, 0, verdicts.MAX_SIZE):
            records += map(shown, some)
    except TruncatedBatch:
        pass
    except BatchError as error:
        return Answer(records, _reason(raw, error))
    return Answer(records, "")


def _reason(raw: bytes, error: BatchError) -> str:
    """Without the places, but with what makes it another kind: a wrapper, a header of no records, an empty block."""
    reason, _, place = error.reason.partition(" (at byte ")
    if reason.startswith("lz4: ") and EMPTY_BLOCK in raw:
        reason = f"empty block: {reason}"
    if "in the wrapper" in error.reason:
        return f"in a wrapper: {reason.partition(' in the wrapper')[0]}"
    # Errors in what was decompressed have the batch's position, those in what follows the header have theirs.
    start = error.position if place else error.position - HEADER_SIZE
    is_batch = start >= 0 and raw[start + MAGIC_POSITION : start + MAGIC_POSITION + 1] == bytes((MAGIC,))
    if is_batch and not any(raw[start + HEADER_SIZE - 4 : start + HEADER_SIZE]):
        return f"no records: {reason}"
    return reason


def compared(raw: bytes, theirs: Answer) -> str:
    """READ, REFUSED, or the `error` of the one kind for which one alone refuses."""
    mine = ours(raw)
    where = f"{raw.hex()}\n{mine}\n{theirs}"
    both = min(len(mine.records), len(theirs.records))
    assert mine.records[:both] == theirs.records[:both], where
    if not mine.error and not theirs.error:
        assert len(mine.records) == len(theirs.records), where
        return READ
    if mine.error and theirs.error:
        return REFUSED
    kinds = [kind.error for kind in STRICTER if re.fullmatch(kind.error, mine.error)]
    kinds += [kind.error for kind in LAXER if re.fullmatch(kind.error, theirs.error)]
    assert len(kinds) == 1, where
    return kinds[0]


# --- tests -----------------------------------------------------------------------------------------------------------


def test_in_short() -> None:
    """All samples as they are, which both read; an example of every kind; and damage."""
    samples = list(sound())
    kinds = [*STRICTER, *LAXER]
    inputs = [*samples, *(kind.example for kind in kinds), *damaged(20260105, 3_000)]
    outcomes = [compared(raw, theirs) for raw, theirs in zip(inputs, kafka(inputs), strict=True)]
    assert outcomes[: len(samples)] == [READ] * len(samples)
    assert outcomes[len(samples) : len(samples) + len(kinds)] == [kind.error for kind in kinds]
    counts = Counter(outcomes[len(samples) + len(kinds) :])
    assert counts[READ] > 500, counts
    assert counts[REFUSED] > 1_000, counts


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS))
def test_two_hundred_thousand_inputs(shard: int) -> None:
    assert SHARDS * INPUTS_PER_SHARD >= 200_000
    inputs = list(damaged(shard, INPUTS_PER_SHARD))
    counts = Counter(compared(raw, theirs) for raw, theirs in zip(inputs, kafka(inputs), strict=True))
    assert counts[READ] > INPUTS_PER_SHARD // 5, counts
    assert counts[REFUSED] > INPUTS_PER_SHARD // 3, counts


def test_docstrings_say_what_is_stricter_and_laxer() -> None:
    for kind in (*STRICTER, *LAXER):
        if kind.module is not None:
            assert kind.words in " ".join((kind.module.__doc__ or "").split()), kind.words
