"""What every decoder owes whoever hands it bytes, checked for one input: an answer that holds, or a declared refusal.

Each function takes the input and gives whether it was accepted. It raises AssertionError where a promise is broken, and
lets through whatever exception was never declared.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any, TypeAlias

from protocol import reference
from protocol.api import Api
from protocol.codec import check, codec
from protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.consumer import decode_assignment as _decode_assignment
from protocol.consumer import decode_subscription as _decode_subscription
from protocol.errors import DecodeError
from protocol.frames import BadFrame, FrameParser
from protocol.headers import RequestHeader, ResponseHeader
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from protocol.records import batch_reading, batches, message_sets
from protocol.records.batch_errors import BatchError, CorruptBatch, TruncatedBatch
from protocol.records.batches import (
    MIN_OBJECT_SIZE,
    Record,
    control_record_type,
    decode_records,
    end_transaction_marker,
    read_header,
    rewrite_batch,
)
from protocol.records.compression import Compression, decompress
from protocol.records.fetched import decode_fetched
from protocol.records.message_sets import decode_message_set, read_messages
from protocol.schema import ArrayOf, Kind, Struct, StructOf, declared, table
from tests.protocol.schemas import Case

Verdict: TypeAlias = Callable[[bytes], bool]

MAX_SIZE = 1 << 16
"""What batches and message sets may become here, bytes."""

_UNEXPLAINED = "refused by the compiled codec alone"
"""How the compiled codec begins when the reference codec, asked why, finds nothing wrong."""

_STEP = re.compile(r"\.(\w+)((?:\[\d+\])*)")


@cache
def _fields(cls: Struct) -> dict[str, Kind | None]:
    fields: dict[str, Kind | None] = {}
    for field in declared(cls):
        fields[field.name] = field.kind if isinstance(field.kind, ArrayOf | StructOf) else None
    return fields


def names_a_field(cls: Struct, path: str) -> bool:
    """Whether `path` begins with the struct's name and leads, step by step, to something it declares."""
    if not path.startswith(cls.__name__):
        return False
    here: Struct | None = cls
    at = len(cls.__name__)
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or here is None or step[1] not in _fields(here):
            return False
        kind = _fields(here)[step[1]]
        for _ in range(step[2].count("[")):
            if not isinstance(kind, ArrayOf):
                return False
            # What an array of numbers or strings holds has no fields.
            kind = kind.element if isinstance(kind.element, ArrayOf | StructOf) else None
        here = kind.cls if isinstance(kind, StructOf) else None
        at = step.end()
    return True


def refused(error: DecodeError, size: int, *roots: Struct, also: str = "") -> bool:
    """False, after checking that the refusal says what, where, and in which field."""
    assert error.reason
    assert not error.reason.startswith(_UNEXPLAINED), f"refused by the compiled codec alone: {error}"
    assert 0 <= error.position <= size, f"position {error.position} in {size} bytes"
    assert error.path == also or any(names_a_field(root, error.path) for root in roots), f"path {error.path!r}"
    return False


def refused_alike(mine: DecodeError, decode: Callable[[bytes], Any], raw: bytes) -> None:
    """Another decoder refuses this with the same reason, at the same place."""
    try:
        decode(raw)
    except DecodeError as theirs:
        if mine.args == theirs.args:
            return
        raise AssertionError(f"{mine.args} and {theirs.args}") from theirs
    raise AssertionError(f"refused by one alone: {mine}")


def same(one: Any, other: Any) -> bool:
    """Equal, where a NaN equals itself."""
    return bool(one == other) or repr(one) == repr(other)


# --- messages --------------------------------------------------------------------------------------------------------


@cache
def struct_verdict(case: Case) -> Verdict:
    """The compiled codec of a struct: decoder, skimmer and reference agree, and what is decoded can be encoded."""
    compiled = codec(*case)
    decode, encode = compiled.decode, compiled.encode
    here = table(*case)
    cls = case.cls

    def verdict(raw: bytes) -> bool:
        try:
            msg, end = decode(raw)
        except DecodeError as error:
            # Whoever asks the compiled decoder is told what the reference codec has found.
            refused_alike(error, partial(check, table(*case)), raw)
            return refused(error, len(raw), cls)
        assert end <= len(raw)
        assert check(table(*case), raw) == end
        expected, expected_end = reference.decode(here, raw)
        assert end == expected_end
        assert same(msg, expected)
        again = encode(msg)
        # Padded varints and tagged fields that hold their defaults are not written again.
        assert len(again) <= end
        if again != raw[:end]:
            assert same(decode(again), (msg, len(again)))
        return True

    return verdict


def refusals_agree(case: Case, raw: bytes) -> bool:
    """Whether the input is accepted; where not, both codecs refuse with the same reason, at the same place."""
    try:
        codec(*case).decode(raw)
    except DecodeError as error:
        refused_alike(error, partial(reference.decode, table(*case)), raw)
        return refused(error, len(raw), case.cls)
    return True


def request_verdict(api: Api[Any, Any], version: int) -> Verdict:
    """A whole request frame, without its size."""

    def verdict(raw: bytes) -> bool:
        try:
            header, request = api.parse_request(version, raw)
        except DecodeError as error:
            return refused(error, len(raw), RequestHeader, api.request)
        frame = api.request_frame(version, header.correlation_id, header.client_id, request)
        assert len(frame) - 4 <= len(raw)
        return True

    return verdict


def response_verdict(api: Api[Any, Any], version: int) -> Verdict:
    """A whole response frame, without its size."""

    def verdict(raw: bytes) -> bool:
        try:
            correlation_id, response = api.parse_response(version, raw)
        except DecodeError as error:
            return refused(error, len(raw), ResponseHeader, api.response)
        frame = api.response_frame(version, correlation_id, response)
        assert len(frame) - 4 <= len(raw)
        return True

    return verdict


def subscription(raw: bytes) -> bool:
    return _payload(_decode_subscription, ConsumerProtocolSubscription, raw)


def assignment(raw: bytes) -> bool:
    return _payload(_decode_assignment, ConsumerProtocolAssignment, raw)


def _payload(decode: Callable[[bytes], Any], cls: Struct, raw: bytes) -> bool:
    try:
        payload = decode(raw)
    except DecodeError as error:
        return refused(error, len(raw), cls)
    version = min(int.from_bytes(raw[:2]), 3)
    compiled: Any = codec(cls, version, flexible=False)
    again = compiled.encode(payload)
    assert again == raw[2 : 2 + len(again)]
    return True


# --- the offsets log -------------------------------------------------------------------------------------------------


def offsets_key(raw: bytes) -> bool:
    try:
        key = decode_key(raw)
    except DecodeError as error:
        return refused(error, len(raw), OffsetCommitKey, GroupMetadataKey, also="key")
    if isinstance(key, UnknownKey):
        assert key == (int.from_bytes(raw[:2], signed=True), raw)
    else:
        # Types 0 and 1 are the same struct.
        assert encode_key(key)[2:] == raw[2:]
    return True


def offset_value(raw: bytes) -> bool:
    return _value(OffsetCommitKey("g", "t", 0), OffsetCommitValue, raw)


def group_value(raw: bytes) -> bool:
    return _value(GroupMetadataKey("g"), GroupMetadataValue, raw)


def _value(key: OffsetCommitKey | GroupMetadataKey, cls: Struct, raw: bytes) -> bool:
    try:
        value = decode_value(key, raw)
    except DecodeError as error:
        return refused(error, len(raw), cls, also="value")
    assert type(value) is cls
    again = encode_value(value, version=raw[1])
    assert len(again) <= len(raw)
    assert decode_value(key, again) == value
    return True


# --- frames ----------------------------------------------------------------------------------------------------------

_FRAME_LIMIT = 4096


def frames(raw: bytes) -> bool:
    """A stream, in one piece and in pieces of one to eight bytes."""
    whole, failure = _fed([raw])
    step = zlib.crc32(raw) % 8 + 1
    pieces = [raw[at : at + step] for at in range(0, len(raw), step)]
    assert _fed(pieces) == (whole, failure)
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in whole)
    assert raw.startswith(stream)
    if failure is not None:
        (size,) = struct.unpack_from(">i", raw, len(stream))
        assert failure == size
        assert not 4 <= size <= _FRAME_LIMIT
    return failure is None


def _fed(pieces: list[bytes]) -> tuple[list[bytes], int | None]:
    parser = FrameParser(_FRAME_LIMIT)
    found: list[bytes] = []
    for piece in pieces:
        try:
            found += parser.feed(piece)
        except BadFrame as error:
            assert parser.unfinished == 0
            return found + error.frames, error.size
        assert parser.unfinished <= _FRAME_LIMIT + 4
    return found, None


# --- batches and message sets ----------------------------------------------------------------------------------------


def _refused_batch(error: BatchError, size: int) -> bool:
    assert error.reason
    assert 0 <= error.position <= size, f"position {error.position} in {size} bytes"
    if isinstance(error, TruncatedBatch):
        assert error.size > size - error.position
    return False


def _outcome(decode: Callable[[bytes, int, int], Any], raw: bytes, skim_above: int) -> Any:
    """What `decode` gives or raises, with the rest skimmed before more than so many objects are made."""
    modules = vars(batch_reading), vars(message_sets)
    before = batches.SKIM_ABOVE
    for module in modules:
        module["SKIM_ABOVE"] = skim_above
    try:
        return decode(raw, 0, MAX_SIZE)
    except BatchError as error:
        return error
    finally:
        for module in modules:
            module["SKIM_ABOVE"] = before


def _skimmed_or_not(decode: Callable[[bytes, int, int], Any], raw: bytes) -> Any:
    """What `decode` gives or raises, which is the same with skimming and without."""
    outcome = _outcome(decode, raw, MAX_SIZE + len(raw))
    for skim_above in (-1, 2):  # before anything is made, and somewhere in the middle
        skimmed = _outcome(decode, raw, skim_above)
        if isinstance(outcome, BatchError):
            assert (type(skimmed), skimmed.args) == (type(outcome), outcome.args)
        else:
            assert skimmed == outcome
    return outcome


def batch(raw: bytes) -> bool:
    """A batch, its records and control records; and all the batches in a row that there are."""
    try:
        for _ in batches.batches(raw):
            pass
    except CorruptBatch as error:
        _refused_batch(error, len(raw))
    records = _skimmed_or_not(decode_records, raw)
    if isinstance(records, BatchError):
        return _refused_batch(records, len(raw))
    header = read_header(raw)
    assert len(records) == header.record_count
    assert header.size <= len(raw)
    if header.compression:
        objects = len(records) + sum(len(record.headers) for record in records)
        assert objects * MIN_OBJECT_SIZE <= MAX_SIZE
    for record in records:
        _control(record)
    try:
        again = rewrite_batch(header, records)
    except ValueError:
        # Brokers do not write offsets out of order; and with log append time, the records' time may lie further from
        # the batch's than a delta can say.
        offsets = [header.base_offset - 1, *(record.offset for record in records), header.next_offset]
        in_order = header.base_offset >= 0 and all(one < other for one, other in pairwise(offsets))
        far = abs(header.max_timestamp - header.base_timestamp) >= 2**63
        assert not in_order or (header.is_log_append_time and far)
    else:
        assert decode_records(again) == records
    return True


def _control(record: Record) -> None:
    for read in (control_record_type, end_transaction_marker):
        try:
            read(record)
        except CorruptBatch as error:
            _refused_at(error, 0)


def message_set(raw: bytes) -> bool:
    """A message set, with its wrappers closed, and with them open."""
    opened = _skimmed_or_not(decode_message_set, raw)
    closed = _skimmed_or_not(lambda buf, pos, _: read_messages(buf, pos), raw)
    _fetched(raw, opened)
    if isinstance(closed, BatchError):
        # A wrapper before that may be bad as well.
        assert opened.args == closed.args or opened.position < closed.position
        return _refused_batch(opened, len(raw)) or _refused_batch(closed, len(raw))
    messages, end, needed = closed
    assert 0 <= end <= len(raw)
    if needed:
        assert needed > len(raw) - end
    else:
        assert end == len(raw) or raw[end + 16] == batches.MAGIC
    written = bytearray()
    for offset, magic, attributes, timestamp, key, value in messages:
        body = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
        for content in (key, value):
            body += struct.pack(">i", -1 if content is None else len(content)) + (content or b"")
        written += struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
    assert written == raw[:end]
    if isinstance(opened, BatchError):
        return _refused_batch(opened, len(raw))
    assert (opened.end, opened.needed) == (end, needed)
    plain = sum(not message.compression for message in messages)
    assert plain <= len(opened.records) <= plain + MAX_SIZE // MIN_OBJECT_SIZE
    return True


def _fetched(raw: bytes, opened: Any) -> None:
    """Read as what a Fetch response may have, it begins with the same records, and ends no sooner."""
    found: list[Any] = []
    failure: BatchError | None = None
    try:
        for piece in decode_fetched(raw, 0, MAX_SIZE):
            found.append(piece)  # noqa: PERF402 - they are wanted when it raises, too
    except BatchError as error:
        failure = error
        _refused_batch(error, len(raw))
    if isinstance(opened, BatchError):
        assert failure is not None
        assert failure.args == opened.args
    else:
        assert failure is None or failure.position >= opened.end
        assert not opened.records or found[0] == (None, opened.records)


def _refused_at(error: BatchError, position: int) -> bool:
    assert error.reason
    assert error.position == position
    return False


def payload_verdict(compression: Compression) -> Verdict:
    """Compressed bytes, without a batch around them."""

    def verdict(raw: bytes) -> bool:
        try:
            content = decompress(compression, raw, MAX_SIZE, position=7)
        except BatchError as error:
            return _refused_at(error, 7)
        assert len(content) <= MAX_SIZE
        return True

    return verdict
