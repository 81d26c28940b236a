"""Every message in every version: there and back, compiled against reference, and hostile bytes."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol import offsets_log, reference
from protocol.apis import APIS
from protocol.compiler import SKIM_ABOVE, codec
from protocol.errors import DecodeError, EncodeError, UnsupportedVersion
from protocol.messages import offset_commit
from protocol.schema import table
from tests.protocol.schemas import CASES, Case
from tests.protocol.strategies import messages, sample

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def outcome(decode: Any, *args: Any) -> Any:
    """What a decoder made of some bytes, or how it refused them."""
    try:
        return decode(*args)
    except DecodeError as error:
        return (error.reason, error.position, error.path)


@every_case
@settings(max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_round_trip_and_agreement_with_the_reference(case: Case, data: st.DataObject) -> None:
    compiled = codec(*case)
    here = table(*case)
    msg = data.draw(messages(*case))
    raw = compiled.encode(msg)
    assert raw == reference.encode(here, msg)
    assert compiled.decode(raw) == (msg, len(raw)) == reference.decode(here, raw)
    decoded, _ = compiled.decode(raw)
    assert type(decoded) is case.cls
    # In the middle of something larger, and in another kind of buffer.
    assert compiled.decode(b"??" + raw + b"!!", 2) == (msg, len(raw) + 2)
    assert compiled.decode(memoryview(b"??" + raw + b"!!"), 2) == (msg, len(raw) + 2)
    assert compiled.encode(msg, b"before") == b"before" + raw


@every_case
def test_truncation_at_every_byte(case: Case) -> None:
    compiled = codec(*case)
    here = table(*case)
    rng = random.Random(str(case))
    raw = compiled.encode(sample(rng, *case))
    for size in range(len(raw)):
        with pytest.raises(DecodeError) as refused:
            compiled.decode(raw[:size])
        assert refused.value.path.startswith(case.cls.__name__)
        assert 0 <= refused.value.position <= size
        assert outcome(reference.decode, here, raw[:size]) == (
            refused.value.reason,
            refused.value.position,
            refused.value.path,
        )


def mutated(rng: random.Random, raw: bytes) -> bytes:
    broken = bytearray(raw)
    for _ in range(rng.randint(1, 3)):
        if not broken:
            return rng.randbytes(3)
        at = rng.randrange(len(broken))
        match rng.randrange(5):
            case 0:
                broken[at] ^= 1 << rng.randrange(8)
            case 1:
                broken[at] = rng.choice([0x00, 0x7F, 0x80, 0xFF])
            case 2:
                broken[at : at + 4] = rng.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 5])
            case 3:
                del broken[at : at + rng.randint(1, 4)]
            case _:
                broken[at:at] = rng.randbytes(rng.randint(1, 6))
    return bytes(broken)


@every_case
def test_mutations_are_decoded_alike_or_refused_alike(case: Case) -> None:
    compiled = codec(*case)
    here = table(*case)
    rng = random.Random(f"{case} mutated")
    raws = [compiled.encode(sample(rng, *case)) for _ in range(2)]
    refused = 0
    for number in range(40):
        broken = mutated(rng, rng.choice(raws))
        if number >= 36:
            broken += bytes(SKIM_ABOVE)  # what follows a message is left alone, but this much has it skimmed first
        result = outcome(compiled.decode, broken)
        assert result == outcome(reference.decode, here, broken)
        if isinstance(result[0], str):
            refused += 1
        else:
            msg, end = result
            again = compiled.encode(msg)
            assert compiled.decode(again) == (msg, len(again))
            assert end <= len(broken)
    assert refused or not raws[0]


@every_case
def test_a_position_outside_of_the_buffer_is_refused(case: Case) -> None:
    compiled = codec(*case)
    raw = compiled.encode(sample(random.Random(1), *case))
    for pos in (-1, -len(raw) - 1, len(raw) + 1):
        for buf in (raw, bytearray(raw)):
            with pytest.raises(DecodeError):
                compiled.decode(buf, pos)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: str(api.name))
def test_versions_outside_of_the_range_are_unsupported(api: Any) -> None:
    for version in (-1, api.versions[1] + 1):
        with pytest.raises(UnsupportedVersion, match=api.name):
            api.decode_request(version, b"")
        with pytest.raises(UnsupportedVersion, match=api.name):
            api.decode_response(version, b"")


@every_case
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
