"""Every message in every version: there and back, compiled against reference. Hostile bytes: `test_hostile`."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol import offsets_log, reference
from protocol.apis import APIS
from protocol.codec import codec
from protocol.errors import DecodeError, EncodeError, UnsupportedVersion
from protocol.messages import offset_commit
from protocol.schema import table
from tests.examples import examples
from tests.protocol.schemas import CASES, Case, by_message, each_version
from tests.protocol.strategies import messages, sample


def outcome(decode: Any, *args: Any) -> Any:
    """What a decoder made of some bytes, or how it refused them."""
    try:
        return decode(*args)
    except DecodeError as error:
        return (error.reason, error.position, error.path)


@pytest.mark.parametrize("versions", by_message(CASES).values(), ids=by_message(CASES))
@settings(
    max_examples=examples(3), deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_round_trip_and_agreement_with_the_reference(versions: list[Case], data: st.DataObject) -> None:
    for case in versions:
        _goes_round(case, data.draw(messages(*case), label=str(case)))


def _goes_round(case: Case, msg: Any) -> None:
    compiled = codec(*case)
    here = table(*case)
    raw = compiled.encode(msg)
    assert raw == reference.encode(here, msg)
    assert compiled.decode(raw) == (msg, len(raw)) == reference.decode(here, raw)
    decoded, _ = compiled.decode(raw)
    assert type(decoded) is case.cls
    # In the middle of something larger, and in another kind of buffer.
    assert compiled.decode(b"??" + raw + b"!!", 2) == (msg, len(raw) + 2)
    assert compiled.decode(memoryview(b"??" + raw + b"!!"), 2) == (msg, len(raw) + 2)
    assert compiled.encode(msg, b"before") == b"before" + raw


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: str(api.name))
def test_versions_outside_of_the_range_are_unsupported(api: Any) -> None:
    for version in (-1, api.versions[1] + 1):
        with pytest.raises(UnsupportedVersion, match=api.name):
            api.decode_request(version, b"")
        with pytest.raises(UnsupportedVersion, match=api.name):
            api.decode_response(version, b"")


@each_version(CASES)
def test_values_that_a_version_cannot_carry_are_refused_unless_ignorable(case: Case) -> None:
    here = table(*case)
    compiled = codec(*case)
    msg = sample(random.Random(2), *case)
    for name, default in here.absent.items():
        other: Any = "x" if default is None or isinstance(default, str) else default
        if isinstance(other, bool):
            other = not other
        elif isinstance(other, int):
            other += 1
        elif isinstance(other, bytes):
            other = b"\x01" * len(other)
        elif isinstance(other, tuple):
            other = (*other, None)
        changed = msg._replace(**{name: other})
        if name in here.strict:
            with pytest.raises(EncodeError, match=name):
                compiled.encode(changed)
        else:
            assert compiled.encode(changed) == compiled.encode(msg)


@pytest.mark.parametrize(
    "raw", [b"\xff\xfeXX", b"\xed\xa0\x80X", b"\x80", "é".encode() + b"\xc3", bytes(range(1, 256))]
)
def test_offset_metadata_comes_back_byte_for_byte_whatever_it_holds(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    partition = offset_commit.OffsetCommitRequestPartition(0, 5, committed_metadata=text)
    request = offset_commit.OffsetCommitRequest(
        "g", topics=(offset_commit.OffsetCommitRequestTopic("t", partitions=(partition,)),)
    )
    for version in (2, 8):
        encoded = offset_commit.API.encode_request(version, request)
        assert raw in encoded
        assert offset_commit.API.decode_request(version, encoded)[0] == request
        assert reference.decode(table(offset_commit.OffsetCommitRequest, version, version >= 8), encoded)[0] == request
    value = offsets_log.OffsetCommitValue(5, metadata=text, commit_timestamp=1)
    encoded = offsets_log.encode_value(value)
    assert raw in encoded
    assert offsets_log.decode_value(offsets_log.OffsetCommitKey("g", "t", 0), encoded) == value
