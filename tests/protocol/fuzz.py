"""A seeded, mutating fuzzer of every decoder: what it fed them, and that each kept its promises.

A target is a decoder with samples that it accepts. An input is a sample, or two spliced, damaged a few times over, and
finished: checksums made right again, or records compressed again, so that the damage gets past the first check.
Everything follows from the seed. A failing input is given as hex, with its target, for `replay`.

Usage: python -m tests.protocol.fuzz TARGET HEX      one input again
       python -m tests.protocol.fuzz SEED COUNT      a run
"""

from __future__ import annotations

import faulthandler
import random
import signal
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

import google_crc32c
import zstandard

from protocol.apis import APIS
from protocol.codec import codec
from protocol.consumer import (
    NEWEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.records.batches import (
    HEADER_SIZE,
    ControlRecordType,
    EndTransactionMarker,
    Record,
    encode_end_transaction,
    encode_records,
)
from protocol.records.compression import Compression, compress, with_kafka_checksum
from protocol.records.message_sets import encode_message_set
from tests.protocol import verdicts
from tests.protocol.parts import varint, zigzag
from tests.protocol.schemas import CASES
from tests.protocol.strategies import sample

Finish: TypeAlias = Callable[[random.Random, bytearray], bytes]

NOW = 1_767_225_600_123
CODECS = [codec for codec in Compression if codec]


class Target(NamedTuple):
    """`finish` makes the input of a damaged sample; `weight` is how many of the inputs it gets, against the others."""

    name: str
    verdict: verdicts.Verdict
    samples: tuple[bytes, ...]
    finish: Finish
    weight: int


class Failure(AssertionError):
    """A decoder that broke its promise, and the input that made it do so."""

    def __init__(self, target: str, raw: bytes, error: BaseException) -> None:
        super().__init__(f"{error!r}; again with: python -m tests.protocol.fuzz {target!r} {raw.hex()}")


class Careful(random.Random):
    """Never makes the rare choice: every checksum is made right, and nothing is wrapped twice."""

    def random(self) -> float:
        return 0.5


# --- finishing -------------------------------------------------------------------------------------------------------


def as_is(_: random.Random, damaged: bytearray) -> bytes:
    return bytes(damaged)


def with_batch_checksums(rng: random.Random, damaged: bytearray) -> bytes:
    """The CRCs of the batches in a row, as far as their lengths lead; now and then they stay wrong."""
    pos = 0
    while rng.random() < 0.95 and len(damaged) - pos >= HEADER_SIZE:
        (length,) = struct.unpack_from(">i", damaged, pos + 8)
        end = pos + 12 + length
        if not pos + HEADER_SIZE <= end <= len(damaged):
            break
        struct.pack_into(">I", damaged, pos + 17, google_crc32c.value(bytes(damaged[pos + 21 : end])))
        pos = end
    return bytes(damaged)


def with_message_checksums(rng: random.Random, damaged: bytearray) -> bytes:
    pos = 0
    while rng.random() < 0.97 and len(damaged) - pos >= 16:
        (size,) = struct.unpack_from(">i", damaged, pos + 8)
        end = pos + 12 + size
        if not pos + 16 <= end <= len(damaged):
            break
        struct.pack_into(">I", damaged, pos + 12, zlib.crc32(damaged[pos + 16 : end]))
        pos = end
    return bytes(damaged)


def fitting_batch(rng: random.Random, damaged: bytearray) -> bytes:
    """The batch with a length that fits what became of it."""
    if len(damaged) >= HEADER_SIZE:
        struct.pack_into(">i", damaged, 8, len(damaged) - 12)
    return with_batch_checksums(rng, damaged)


def compressed_batch(codec_number: Compression, rng: random.Random, damaged: bytearray) -> bytes:
    """A plain batch, its records compressed."""
    if len(damaged) < HEADER_SIZE:
        return bytes(damaged)
    body = _compressed(codec_number, bytes(damaged[HEADER_SIZE:]))
    del damaged[HEADER_SIZE:]
    damaged += body
    damaged[22] = damaged[22] & 0xF8 | codec_number
    return fitting_batch(rng, damaged)


def wrapped_set(codec_number: Compression, magic: int, rng: random.Random, damaged: bytearray) -> bytes:
    """A plain message set, compressed, in a wrapper. Now and then that, in a wrapper."""
    inner = with_message_checksums(rng, damaged)
    for _ in range(2 if rng.random() < 0.05 else 1):
        value = _compressed(codec_number, inner)
        if magic == 0 and codec_number is Compression.LZ4 and rng.random() < 0.5:
            value = with_kafka_checksum(value)
        attributes = codec_number | rng.choice((0, 0, 8))
        time = struct.pack(">q", NOW) if magic else b""
        body = struct.pack(">BB", magic, attributes) + time + struct.pack(">ii", -1, len(value)) + value
        inner = struct.pack(">qiI", rng.choice((0, 7, 9)), len(body) + 4, zlib.crc32(body)) + body
    return inner


_zstd = zstandard.ZstdCompressor(level=1)


def _compressed(codec_number: Compression, content: bytes) -> bytes:
    # A zstd compressor takes longer to make than all the rest of an input.
    return _zstd.compress(content) if codec_number is Compression.ZSTD else compress(codec_number, content)


# --- what is fed -----------------------------------------------------------------------------------------------------


@cache
def targets() -> dict[str, Target]:
    """Every decoder there is, by name. The samples are always the same."""
    found = {}
    for target in [*_structs(), *_requests_and_responses(), *_payloads(), *_batches(), *_message_sets(), *_codecs()]:
        for raw in target.samples if target.finish is as_is else ():
            assert target.verdict(raw), f"{target.name}: a sample is refused"
        found[target.name] = target
    return found


def _structs() -> Iterator[Target]:
    for case in CASES:
        rng = random.Random(str(case))
        samples = (codec(*case).encode(sample(rng, *case, sparse=at > 0)) for at in range(4))
        yield Target(str(case), verdicts.struct_verdict(case), tuple(samples), as_is, 4)


def _requests_and_responses() -> Iterator[Target]:
    for api in APIS.values():
        for version in range(api.versions[0], api.versions[1] + 1):
            rng = random.Random(f"{api.name} {version}")
            flexible = api.is_flexible(version)
            messages = [sample(rng, api.request, version, flexible, sparse=True) for _ in range(3)]
            names = [None, "", "client"]
            frames = (
                api.request_frame(version, at - 1, name, msg)[4:]
                for at, (name, msg) in enumerate(zip(names, messages, strict=True))
            )
            name = f"{api.name}-v{version}"
            yield Target(f"{name} request frame", verdicts.request_verdict(api, version), tuple(frames), as_is, 1)
            messages = [sample(rng, api.response, version, flexible, sparse=True) for _ in range(3)]
            frames = (api.response_frame(version, 2**31 - 1 - at, msg)[4:] for at, msg in enumerate(messages))
            yield Target(f"{name} response frame", verdicts.response_verdict(api, version), tuple(frames), as_is, 1)


def _payloads() -> Iterator[Target]:
    rng = random.Random("payloads")
    formats: list[tuple[Any, Any, verdicts.Verdict]] = [
        (ConsumerProtocolSubscription, encode_subscription, verdicts.subscription),
        (ConsumerProtocolAssignment, encode_assignment, verdicts.assignment),
    ]
    for cls, encode, verdict in formats:
        encoded = [encode(sample(rng, cls, version, False), version) for version in range(NEWEST_VERSION + 1)]
        yield Target(cls.__name__, verdict, tuple(encoded), as_is, 20)
    key_classes: list[Any] = [OffsetCommitKey, OffsetCommitKey, GroupMetadataKey]
    raws = tuple(encode_key(sample(rng, cls, 0, False)) for cls in key_classes)
    yield Target("offsets key", verdicts.offsets_key, (*raws, b"\0\0" + raws[0][2:], b"\0\3\0\1g"), as_is, 20)
    for value_cls, verdict in (
        (OffsetCommitValue, verdicts.offset_value),
        (GroupMetadataValue, verdicts.group_value),
    ):
        values: list[bytes] = []
        for version in range(5):
            value: Any = sample(rng, value_cls, version, version >= 4)
            values.append(encode_value(value, version))
        yield Target(value_cls.__name__, verdict, tuple(values), as_is, 20)
    stream = b"".join(struct.pack(">i", size) + rng.randbytes(size) for size in (4, 9, 30, 5))
    yield Target("frames", verdicts.frames, (stream, stream[:29], b""), as_is, 20)


def plain_batches() -> dict[str, bytes]:
    """Batches without compression, of every shape."""
    headers = (("name", b"content"), ("", None), ("größe", b""))
    one = [Record(b"key", b"value", (), NOW, 0)]
    some = [
        Record(b"k" * 9, b"value", headers, NOW, 0),
        Record(None, b"v" * 70, (), NOW + 9, 3),
        Record(b"", None, headers[:1], NOW - 200, 4),
    ]
    marker = EndTransactionMarker(ControlRecordType.COMMIT, 5)
    # The offsets of the second go on from those of the first.
    later = encode_records([record._replace(offset=record.offset + 5) for record in some], leader_epoch=3)
    return {
        "one": encode_records(one),
        "headers": encode_records(some),
        "transactional": encode_records(some, attributes=0x10, producer_id=7, producer_epoch=1, base_sequence=4),
        "log append time": encode_records(some, log_append_time=NOW + 50),
        "delete horizon": encode_records(one, attributes=0x40),
        "control": encode_end_transaction(5, marker, NOW, producer_id=7, producer_epoch=1),
        "in a row": encode_records(some) + later,
    }


def _batches() -> Iterator[Target]:
    plain = plain_batches()
    whole = tuple(plain.values())
    single = tuple(raw for name, raw in plain.items() if name != "in a row")
    yield Target("batches", verdicts.batch, whole, with_batch_checksums, 400)
    yield Target("batches that fit", verdicts.batch, single, fitting_batch, 400)
    for number in CODECS:
        rng = random.Random(number)
        samples = tuple(compressed_batch(number, rng, bytearray(raw)) for raw in single)
        name = number.name.lower()
        yield Target(f"{name} batches", verdicts.batch, samples, fitting_batch, 60)
        yield Target(f"{name} records", verdicts.batch, single, partial(compressed_batch, number), 60)


def plain_sets(magic: int) -> list[bytes]:
    time = NOW if magic else -1
    records = [Record(b"key" * 3, b"value", (), time, 0), Record(None, b"v" * 20, (), time, 1)]
    sets = [encode_message_set(records, magic), encode_message_set(records[:1], magic)]
    sets.append(encode_message_set([Record(b"", None, (), time, 7)], magic))
    return sets


def _message_sets() -> Iterator[Target]:
    both: list[bytes] = []
    for magic in (0, 1):
        plain = plain_sets(magic)
        both += plain
        for number in CODECS[:3]:
            rng = random.Random(number)
            name = f"{number.name.lower()} magic {magic}"
            wrapped = tuple(wrapped_set(number, magic, rng, bytearray(raw)) for raw in plain)
            after = tuple(raw + plain[0] for raw in wrapped)
            yield Target(f"{name} message sets", verdicts.message_set, (*wrapped, *after), with_message_checksums, 40)
            yield Target(
                f"{name} messages", verdicts.message_set, tuple(plain), partial(wrapped_set, number, magic), 40
            )
    yield Target("message sets", verdicts.message_set, (*both, b"".join(both)), with_message_checksums, 400)


def _codecs() -> Iterator[Target]:
    contents = (b"", b"a", b"".join(b"%d " % n for n in range(60)), bytes(3_000))
    for number in CODECS:
        samples = tuple(compress(number, content) for content in contents[number is Compression.SNAPPY :])
        yield Target(f"{number.name.lower()} payload", verdicts.payload_verdict(number), samples, as_is, 60)


# --- damage ----------------------------------------------------------------------------------------------------------

_NASTY = (
    b"\xff\xff",
    b"\x80\x00",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x10",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x08",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 10 + b"\x01",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
)
_BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF)


def damaged(rng: random.Random, target: Target) -> bytearray:
    """One of the target's samples, changed one to four times."""
    samples = target.samples
    raw = bytearray(samples[int(rng.random() * len(samples))])
    dice = rng.random()
    while True:
        size = len(raw)
        at = int(rng.random() * size)
        kind = int(rng.random() * 20)
        if not size:
            raw += rng.randbytes(4)
        elif kind < 5:
            raw[at] ^= 1 << int(rng.random() * 8)
        elif kind < 8:
            raw[at] = _BYTES[int(rng.random() * 8)]
        elif kind < 10:
            raw[at] = int(rng.random() * 256)
        elif kind < 11:
            raw[at] = (raw[at] + (1 if dice < 0.5 else -1)) & 0xFF
        elif kind < 13:
            nasty = _NASTY[int(rng.random() * len(_NASTY))]
            raw[at : at + len(nasty)] = nasty
        elif kind < 14:
            nasty = _NASTY[int(rng.random() * len(_NASTY))]
            raw[at:at] = nasty
        elif kind < 15:
            del raw[at : at + 1 + int(rng.random() * 6)]
        elif kind < 16:
            del raw[at:]
        elif kind < 17:
            raw[at:at] = rng.randbytes(1 + int(rng.random() * 5))
        elif kind < 18:
            other = samples[int(rng.random() * len(samples))]
            raw[at:] = other[int(rng.random() * len(other)) :]
        elif kind < 19:
            # A varint of one byte, stretched: the same number in more bytes, or a larger one.
            stretched = varint(raw[at] & 0x7F, 2 + int(rng.random() * 5))
            raw[at : at + 1] = stretched if rng.random() < 0.5 else zigzag(int(rng.random() * 2**32) - 2**31)
        else:
            chunk = raw[at : at + 1 + int(rng.random() * 12)]
            raw[at:at] = chunk
        dice *= 2
        if dice > 1:
            return raw


# --- a run -----------------------------------------------------------------------------------------------------------

_TICK = 5.0
_NOT_IN_PYTHON = 30.0
"""Seconds without a tick until the process ends: its own, as a tick may be short where it is tested, and then a busy
machine alone would end it."""
_BLOCK = 16
_STDERR = 2  # not sys.stderr: it may be one without a file descriptor


class Hang(AssertionError):
    """An input that takes more than ten seconds."""


class Watch:
    """Raises Hang when an input takes longer than two ticks. One that does not come back to Python ends the process."""

    def __init__(self) -> None:
        self.number = 0
        self._last = -1
        self._stuck = 0

    @contextmanager
    def on(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
        faulthandler.dump_traceback_later(_NOT_IN_PYTHON, exit=True, file=_STDERR)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
            signal.signal(signal.SIGALRM, before)

    def _tick(self, _: int, __: FrameType | None) -> None:
        self._stuck = self._stuck + 1 if self.number == self._last else 0
        self._last = self.number
        if self._stuck > 2:
            signal.setitimer(signal.ITIMER_REAL, 0)  # a second one would be raised while the first is dealt with
            raise Hang(f"input {self.number} takes more than {2 * _TICK:.0f} s")
        faulthandler.dump_traceback_later(_NOT_IN_PYTHON, exit=True, file=_STDERR)


class Result(NamedTuple):
    """How many inputs there were, and how many of them each target accepted and refused."""

    inputs: int
    accepted: Counter[str]
    refused: Counter[str]


def run(seed: int, count: int, block: int = _BLOCK) -> Result:
    """Feed `count` inputs, ``block`` of them to a target at a time. Raises Failure for the first promise broken, and
    Hang."""
    rng = random.Random(seed)
    deck: list[Target] = []
    accepted: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    watch = Watch()
    with watch.on():
        while watch.number < count:
            # Every target in turn, as often as it weighs, and some inputs at a time: what it needs is then at hand.
            if not deck:
                deck = [target for target in targets().values() for _ in range(target.weight)]
                rng.shuffle(deck)
            target = deck.pop()
            name, verdict, finish = target.name, target.verdict, target.finish
            good = 0
            fed = min(block, count - watch.number)
            for _ in range(fed):
                raw = finish(rng, damaged(rng, target))
                watch.number += 1
                try:
                    good += verdict(raw)
                except Exception as error:
                    raise Failure(name, raw, error) from error
            accepted[name] += good
            refused[name] += fed - good
    return Result(watch.number, accepted, refused)


def main(first: str, second: str) -> None:
    target = targets().get(first)
    if target is not None:
        print("accepted" if target.verdict(bytes.fromhex(second)) else "refused")
        return
    result = run(int(first), int(second))
    print(f"{result.inputs} inputs, {result.accepted.total()} accepted, {result.refused.total()} refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
