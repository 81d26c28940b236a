"""Hostile bytes, aimed: every cut, every bit, and nasty numbers in the place of every length, count, tag and flag.

What an answer has to be is in `tests.protocol.verdicts`; here, what is refused must also be refused for the right field
where the damage leaves no doubt.

Where there is most to try, it is a share of it, which hangs on the message and its version; `soak` has the whole. Many
versions of a message have the same decoder, and of these each tries another share; what is tried whole is tried once.
"""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import count
from typing import Any, TypeVar

import pytest

from protocol.api import Api
from protocol.apis import APIS
from protocol.codec import SKIM_ABOVE, codec
from protocol.consumer import encode_subscription
from protocol.errors import DecodeError
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.records.batch_errors import CorruptBatch, DecompressedTooLarge, TruncatedBatch
from protocol.records.batches import HEADER_SIZE, Record, decode_records, encode_records
from protocol.records.compression import Compression
from protocol.records.message_sets import decode_message_set
from tests.examples import examples
from tests.protocol import fuzz, verdicts
from tests.protocol.parts import Part, joined, parts_of, parts_of_records, varint, zigzag
from tests.protocol.schemas import CASES, DECODERS, Case, each_version
from tests.protocol.strategies import sample

every_case = each_version(CASES)
every_decoder = each_version(DECODERS)
every_flexible_case = each_version([case for case in CASES if case.flexible])

NOW = 1_767_225_600_123

SMALL = 80
"""Bytes of the samples of which every bit is tried."""

NUMBERS = {"h": 2, "i": 4}
# Beyond 32 bits, or deeper than five bytes.
TOO_DEEP = (b"\xff\xff\xff\xff\x10", b"\xff" * 5 + b"\x01", b"\x80" * 5 + b"\x00", b"\xff" * 40)
NASTY = (
    b"\xff\xff",
    b"\x80\x00",
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    *TOO_DEEP[:2],
)
BAD_TEXTS = {
    "a lone continuation": b"a\x80",
    "an overlong slash": b"\xc0\xaf",
    "an overlong nul": b"\xe0\x80\x80",
    "a surrogate": b"\xed\xa0\x80",
    "a pair of surrogates": b"\xed\xa0\x81\xed\xb0\x80",
    "beyond U+10FFFF": b"\xf4\x90\x80\x80",
    "no UTF-8 at all": b"\xff\xfe",
    "two bytes, cut": b"ok\xc3",
    "three bytes, cut": b"\xe2\x82",
    "four bytes, cut": b"\xf0\x9f\x98",
    "cut by another": b"\xe2\x82a",
}
ANOTHER_ELEMENT = re.compile(r"\[[1-9]")
"""In the path of what is not in the first element of each array on the way to it."""


SHARE, GREATER_SHARE = 15, 4
"""One of so many is tried where it is not the whole; each time another bit of a byte. The greater one is of what is
tried at each place."""

Item = TypeVar("Item")
Share = Callable[[str, Sequence[Item]], Sequence[Item]]
"""Of what there is to try, what is tried; and what it hangs on."""


def some(what: str, items: Sequence[Item]) -> Sequence[Item]:
    """Always the same ones."""
    return items[zlib.crc32(what.encode()) % SHARE :: SHARE]


def more(what: str, items: Sequence[Item]) -> Sequence[Item]:
    """Likewise, at least one of two; at places that follow one another, others."""
    return items[zlib.crc32(what.encode()) % min(GREATER_SHARE, len(items)) :: GREATER_SHARE]


def every(what: str, items: Sequence[Item]) -> Sequence[Item]:
    return items


def samples(case: Case, number: int = 3) -> Sequence[tuple[object, bytes]]:
    """The first of them with something in every array and every tagged field."""
    return _samples(case)[:number]


@cache
def _samples(case: Case) -> list[tuple[object, bytes]]:
    rng = random.Random(str(case))
    messages = [sample(rng, *case, sparse=at > 0) for at in range(6)]
    return [(msg, codec(*case).encode(msg)) for msg in messages]


def refusal(case: Case, raw: bytes) -> DecodeError | None:
    """How the input is refused, checked in all that can be checked."""
    if verdicts.struct_verdict(case)(raw):
        return None
    assert not verdicts.refusals_agree(case, raw)
    with pytest.raises(DecodeError) as refused:
        codec(*case).decode(raw)
    return refused.value


# --- messages --------------------------------------------------------------------------------------------------------


@every_case
def test_the_parts_are_the_message(case: Case) -> None:
    for msg, raw in samples(case):
        assert joined(parts_of(case, msg)) == raw


def truncate(case: Case, share: Share[int]) -> None:
    """What is small is cut at every byte."""
    verdict = verdicts.struct_verdict(case)
    for number, (_, raw) in enumerate(samples(case)):
        for size in share(f"{case} {number} cut", range(len(raw))) if len(raw) > SMALL else range(len(raw)):
            assert not verdict(raw[:size])
            if number == 1:
                assert not verdicts.refusals_agree(case, raw[:size])


@every_decoder
def test_truncation_at_any_byte(case: Case) -> None:
    truncate(case, some)


def flip_bits(case: Case, share: Share[int]) -> None:
    verdict = verdicts.struct_verdict(case)
    for number, (_, raw) in enumerate(samples(case, 6)):
        assert verdict(raw)
        for bit in share(f"{case} {number}", range(len(raw) * 8 if len(raw) <= SMALL else 0)):
            verdict(with_bit_flipped(raw, bit))


def with_bit_flipped(raw: bytes, bit: int) -> bytes:
    damaged = bytearray(raw)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@every_case
def test_bits_flipped(case: Case) -> None:
    flip_bits(case, some)


def put_nasty_numbers(case: Case, share: Share[tuple[int, bytes]]) -> None:
    verdict = verdicts.struct_verdict(case)
    _, raw = min(samples(case, 6), key=lambda pair: len(pair[1]))
    for at, nasty in share(str(case), [(at, nasty) for at in range(len(raw)) for nasty in NASTY]):
        verdict(raw[:at] + nasty + raw[at + len(nasty) :])
        verdict(raw[:at] + nasty + raw[at:])


@every_case
def test_nasty_numbers(case: Case) -> None:
    put_nasty_numbers(case, some)


@pytest.mark.examples
@every_case
def test_damage_with_much_behind_it(case: Case) -> None:
    """So much that the message is skimmed before it is decoded, although what follows is left alone."""
    verdict = verdicts.struct_verdict(case)
    rng = random.Random(f"{case} skimmed")
    target = fuzz.targets()[str(case)]
    behind = bytes(SKIM_ABOVE + 1)
    for raw in target.samples:
        assert verdict(raw + behind)
    for _ in range(examples(4)):
        raw = bytes(fuzz.damaged(rng, target)) + behind
        assert verdict(raw) == verdicts.refusals_agree(case, raw)


def surely_refused(part: Part) -> list[bytes]:
    """Numbers that cannot stand in the place of this one, whatever follows."""
    if part.role == "flag":
        return [bytes((flag,)) for flag in (0, 2, 0x7F, 0x80, 0xFE)]
    if part.code != "varint":
        size = NUMBERS[part.code]
        least, most = -(1 << size * 8 - 1), (1 << size * 8 - 1) - 1
        values = [-2, -3, least, least + 1, most, most - 1] + ([] if part.nullable else [-1])
        return [struct.pack(f">{part.code}", value) for value in values]
    padded_null = [b"\x80\x00", b"\x80\x80\x80\x80\x00"]
    huge = [varint(2**31), varint(2**31 - 1), varint(2**32 - 1), varint(2**32 - 1, 5)]
    if part.role == "tag":
        return [*TOO_DEEP]
    if part.role in ("tags", "size"):
        return [*TOO_DEEP, *huge]
    return [*TOO_DEEP, *huge, *padded_null] + ([] if part.nullable else [b"\0"])


def doubtful(part: Part) -> list[bytes]:
    """Numbers that shift what follows: one too many, one too few, and null."""
    if part.code == "varint":
        return [varint(part.value + 1), varint(max(part.value - 1, 0)), varint(part.value, 3), b"\0"]
    if part.role == "flag":
        return [b"\xff", b"\x01"]
    return [struct.pack(f">{part.code}", value) for value in (part.value + 1, max(part.value - 1, -1), -1)]


def put_what_cannot_be(case: Case, share: Share[bytes]) -> None:
    """In the place of lengths, counts, tags and flags: each is refused where it stands, by the name of its field."""
    verdict = verdicts.struct_verdict(case)
    for msg, raw in samples(case, 1):
        parts = parts_of(case, msg)
        start = 0
        for number, part in enumerate(parts):
            if part.role in ("length", "count", "tags", "tag", "size", "flag"):
                for bad in share(f"{case} {number}", surely_refused(part)):
                    error = refusal(case, joined(parts, number, bad))
                    assert error is not None, (part, bad)
                    assert error.path == part.path or part.role == "size", (part, bad, error)
                    assert start <= error.position <= start + len(bad), (part, bad, error)
                for shifted in share(f"{case} {number}", doubtful(part)):
                    verdict(joined(parts, number, shifted))
            start += len(part.raw)
        assert start == len(raw)


@every_case
def test_lengths_counts_tags_and_flags_that_cannot_be(case: Case) -> None:
    put_what_cannot_be(case, some)


def put_bad_texts(case: Case, share: Share[bytes], share_of_first: Share[bytes] = every) -> None:
    """Refused at the byte, by the name of the field; kept, byte for byte, where text is opaque.

    ``share_of_first``: in the first elements of arrays.
    """
    msg = sample(random.Random(f"{case} text"), *case)
    bads = tuple(BAD_TEXTS.values())
    for number in count():
        if (found := with_text(case, msg, number, bads[0])) is None:
            return
        is_another_element = ANOTHER_ELEMENT.search(found[0][found[1]].path)
        for bad in (share if is_another_element else share_of_first)(f"{case} text {number}", bads):
            put_bad_text(case, msg, number, bad)


def with_text(case: Case, msg: Any, number: int, text: bytes) -> tuple[list[Part], int] | None:
    """The parts with that in the place of text ``number``, and which of them it is; None where there are fewer."""
    parts = parts_of(case, msg, {number: text})
    changed = [at for at, part in enumerate(parts) if part.role == "text" and part.raw == text]
    return (parts, changed[0]) if changed else None


def put_bad_text(case: Case, msg: Any, number: int, bad: bytes) -> None:
    found = with_text(case, msg, number, bad)
    assert found is not None
    parts, at = found
    raw = joined(parts)
    error = refusal(case, raw)
    if not parts[at].strict:
        assert error is None
        assert codec(*case).encode(codec(*case).decode(raw)[0]) == raw
        return
    start = len(joined(parts[:at]))
    assert error is not None
    assert error.path == parts[at].path
    assert error.reason.startswith("not UTF-8")
    assert start <= error.position < start + len(bad)


@every_decoder
def test_text_that_is_not_utf_8(case: Case) -> None:
    put_bad_texts(case, some, more)


@pytest.mark.soak
@pytest.mark.parametrize("damage", [truncate, flip_bits, put_nasty_numbers, put_what_cannot_be, put_bad_texts])
def test_the_whole_of_every_case(damage: Callable[[Case, Share[Any]], None]) -> None:
    for case in CASES:
        damage(case, every)


@every_flexible_case
def test_a_tagged_field_of_another_size(case: Case) -> None:
    """A declared tagged field ends where its size says, or is refused under its name; an undeclared one moves on."""
    msg, _ = samples(case)[0]
    parts = parts_of(case, msg)
    start = 0
    for number, part in enumerate(parts):
        if part.role == "size" and not part.path.endswith(".tagged"):
            for size in {0, max(part.value - 1, 0), part.value + 1} - {part.value}:
                error = refusal(case, joined(parts, number, varint(size)) + bytes(8))
                assert error is not None
                assert error.path.startswith(part.path)
                assert error.position >= start
        start += len(part.raw)


@every_flexible_case
def test_tags_that_do_not_ascend(case: Case) -> None:
    msg, _ = samples(case)[0]
    parts = parts_of(case, msg)
    # The section of the outermost struct is the last thing in it: one field more, of the same tag or of a lower one.
    path = f"{case.cls.__name__}.tagged"
    (section,) = (number for number, part in enumerate(parts) if part.role == "tags" and part.path == path)
    last = max(part.value for part in parts[section:] if part.role == "tag" and part.path == path)
    head = joined(parts[:section]) + varint(parts[section].value + 1) + joined(parts[section + 1 :])
    for tag in (last, last - 1, 0):
        error = refusal(case, head + varint(tag) + b"\0")
        assert error is not None
        assert (error.reason, error.position, error.path) == (f"tag {tag} after tag {last}", len(head), path)


@every_case
def test_a_position_outside_of_the_buffer_is_refused(case: Case) -> None:
    _, raw = samples(case)[0]
    for pos in (-1, -len(raw) - 1, len(raw) + 1):
        for buf in (raw, bytearray(raw), memoryview(raw)):
            with pytest.raises(DecodeError):
                codec(*case).decode(buf, pos)


# --- everything else that is decoded ---------------------------------------------------------------------------------

OTHERS = [name for name in fuzz.targets() if name not in {str(case) for case in CASES}]


def damage_other(name: str, share: Share[int]) -> None:
    """Cuts, and bits; behind right checksums, and in what was compressed, where there is such a thing."""
    target = fuzz.targets()[name]
    # Frames hold the messages that are tried above; one sample of each shows the header, and what goes on behind it.
    is_frame = name.endswith("frame")
    for number, raw in enumerate(target.samples[:1] if is_frame else target.samples):
        if len(raw) > 250:
            continue
        finish = partial(target.finish, fuzz.Careful(0))
        for size in share(f"{name} cut", range(len(raw))) if is_frame else range(len(raw)):
            target.verdict(finish(bytearray(raw[:size])))
        for bit in share(f"{name} {number}", range(len(raw) * 8)):
            target.verdict(finish(bytearray(with_bit_flipped(raw, bit))))


@pytest.mark.parametrize("name", OTHERS)
def test_other_decoders(name: str) -> None:
    damage_other(name, some)


@pytest.mark.soak
def test_every_bit_of_other_decoders() -> None:
    for name in OTHERS:
        damage_other(name, every)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: str(api.name))
def test_truncated_frames_are_refused(api: Api[Any, Any]) -> None:
    for kind in ("request", "response"):
        name = f"{api.name}-v{api.versions[1]} {kind} frame"
        target = fuzz.targets()[name]
        for raw in target.samples:
            for size in range(len(raw)):
                assert not target.verdict(raw[:size])


def test_truncated_keys_values_and_payloads_are_refused() -> None:
    for name in ("offsets key", "OffsetCommitValue", "GroupMetadataValue", "ConsumerProtocolSubscription"):
        target = fuzz.targets()[name]
        for raw in target.samples:
            if name == "offsets key" and raw[:2] == b"\0\3":
                continue  # of a type that is not known: given back, whatever its length
            for size in range(len(raw)):
                assert not target.verdict(raw[:size])


def test_versions_of_payloads_from_everywhere() -> None:
    subscription = encode_subscription(sample(random.Random(1), *_subscription()))
    key = encode_key(OffsetCommitKey("g", "t", 1))
    value = encode_value(OffsetCommitValue(1))
    for version in (-1, -(2**15), 4, 5, 2**15 - 1):
        head = struct.pack(">h", version)
        assert verdicts.subscription(head + subscription[2:]) == (version > 0)
        assert verdicts.offsets_key(head + key[2:])
        assert not verdicts.offset_value(head + value[2:])


def _subscription() -> Case:
    return next(case for case in CASES if str(case) == "ConsumerProtocolSubscription-v3")


# --- record batches --------------------------------------------------------------------------------------------------

RECORDS = [
    Record(b"key", b"value", (("name", b"content"), ("", None)), NOW, 0),
    Record(None, b"v" * 70, (), NOW + 9, 1),
    Record(b"", None, (("größe", b""),), NOW - 200, 4),
]
CODECS = list(Compression)
# Of zigzag-coded numbers: null for what may not be null, below null, huge, and too deep.
BAD_SIZES = (zigzag(-2), zigzag(-(2**31)), zigzag(2**31 - 1), *TOO_DEEP)


def in_a_batch(codec_number: Compression, records: bytes) -> bytes:
    raw = bytearray(encode_records(RECORDS)[:HEADER_SIZE] + records)
    if codec_number:
        return fuzz.compressed_batch(codec_number, fuzz.Careful(0), raw)
    return fuzz.fitting_batch(fuzz.Careful(0), raw)


@pytest.mark.parametrize("codec_number", CODECS)
def test_records_with_numbers_that_cannot_be(codec_number: Compression) -> None:
    parts = parts_of_records(RECORDS)
    assert decode_records(in_a_batch(codec_number, joined(parts))) == RECORDS
    for number, part in enumerate(parts):
        if part.role in ("length", "count"):
            for bad in BAD_SIZES:
                raw = in_a_batch(codec_number, joined(parts, number, bad))
                assert not verdicts.batch(raw)
                with pytest.raises(CorruptBatch):
                    decode_records(raw)
            for shifted in (zigzag(part.value + 1), zigzag(part.value - 1), varint(2 * abs(part.value), 3)):
                verdicts.batch(in_a_batch(codec_number, joined(parts, number, shifted)))
        elif part.code == "zigzag":
            for deep in (b"\xff" * 10 + b"\x01", b"\x80" * 11):
                assert not verdicts.batch(in_a_batch(codec_number, joined(parts, number, deep)))
        elif part.role == "text":
            for bad in BAD_TEXTS.values():
                text = bad[: len(part.raw)].ljust(len(part.raw), b"a")
                if text.decode(errors="replace").isascii():
                    continue
                # Not every producer keeps to UTF-8 in header keys: what is not is kept byte for byte.
                raw = in_a_batch(codec_number, joined(parts, number, text))
                assert verdicts.batch(raw)
                keys = [name for record in decode_records(raw) for name, _ in record.headers]
                assert text in [key.encode(errors="surrogateescape") for key in keys]


BATCH_FIELDS = {
    "base offset": (0, "q", (-(2**63), -(2**63) + 2**31 - 1, 2**63 - 2**31, 2**63 - 1)),
    "length": (8, "i", (-1, -(2**31), 2**31 - 1, 0, 48)),
    "magic": (16, "b", (-1, 0, 1, 3, 127)),
    "last offset delta": (23, "i", (-1, -(2**31), 0, 1)),
    "record count": (57, "i", (-1, -(2**31), 2**31 - 1, 0, 2, 4)),
}


@pytest.mark.parametrize("codec_number", CODECS)
@pytest.mark.parametrize("field", BATCH_FIELDS)
def test_batch_headers_with_numbers_that_cannot_be(codec_number: Compression, field: str) -> None:
    at, code, values = BATCH_FIELDS[field]
    good = in_a_batch(codec_number, joined(parts_of_records(RECORDS)))
    for value in values:
        damaged = bytearray(good)
        struct.pack_into(f">{code}", damaged, at, value)
        raw = fuzz.with_batch_checksums(fuzz.Careful(0), damaged)
        for after in (b"", good):
            with pytest.raises((CorruptBatch, DecompressedTooLarge)) as refused:
                decode_records(raw + after, max_size=verdicts.MAX_SIZE)
            assert 0 <= refused.value.position <= len(raw)
            assert not verdicts.batch(raw + after)


@pytest.mark.parametrize("codec_number", CODECS)
def test_batches_cut_at_every_byte(codec_number: Compression) -> None:
    good = in_a_batch(codec_number, joined(parts_of_records(RECORDS)))
    for size in range(len(good)):
        assert not verdicts.batch(good[:size])
        with pytest.raises(TruncatedBatch) as cut:
            decode_records(good[:size])
        assert cut.value.size == (HEADER_SIZE if size < HEADER_SIZE else len(good))


MESSAGE_SETS = [name for name in OTHERS if "message" in name]
BAD_LENGTHS = (b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\0")


def put_bad_lengths(name: str, share: Share[bytes]) -> None:
    """In every place, inside and outside of wrappers, behind right checksums."""
    target = fuzz.targets()[name]
    finish = partial(target.finish, fuzz.Careful(0))
    refused = 0
    for raw in target.samples:
        records = decode_message_set(finish(bytearray(raw))).records
        assert records
        for at in range(8, len(raw) - 4):
            for bad in share(f"{name} {at}", BAD_LENGTHS):
                damaged = bytearray(raw)
                damaged[at : at + 4] = bad
                refused += not target.verdict(finish(damaged))
    assert refused > 20


@pytest.mark.parametrize("name", MESSAGE_SETS)
def test_message_sets_with_numbers_that_cannot_be(name: str) -> None:
    put_bad_lengths(name, more)


@pytest.mark.soak
def test_message_sets_with_every_number_that_cannot_be() -> None:
    for name in MESSAGE_SETS:
        put_bad_lengths(name, every)


# --- frames ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 3, 4097, 2**31 - 1])
def test_sizes_that_no_frame_has(size: int) -> None:
    good = b"\0\0\0\x05hello"
    assert verdicts.frames(good)
    for raw in (struct.pack(">i", size), good + struct.pack(">i", size) + good):
        assert not verdicts.frames(raw)
