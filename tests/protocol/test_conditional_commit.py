"""The tagged field of a conditional commit, and its announcement."""

import pytest

from protocol.errors import EncodeError
from protocol.messages.api_versions import API as API_VERSIONS
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, SupportedFeatureKey
from protocol.messages.offset_commit import (
    API,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.own import conditional_commit
from protocol.own.conditional_commit import FEATURE, TAG, announced, expected_offset, expecting, is_conditional
from protocol.schema import table

PLAIN = OffsetCommitRequestPartition(3, 9, 2, committed_metadata="m")


def request_of(*partitions: OffsetCommitRequestPartition) -> OffsetCommitRequest:
    return OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=partitions),))


def test_the_bytes() -> None:
    raw = API.encode_request(8, request_of(expecting(PLAIN, 5)))
    plain = API.encode_request(8, request_of(PLAIN))
    # One tagged field: tag 20307 as an unsigned varint, its size, its value; then nothing for topic and request.
    assert raw == plain[:-3] + b"\x01" + b"\xd3\x9e\x01" + b"\x08" + (5).to_bytes(8, "big") + b"\0\0"


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("expected", [-(2**63), -1, 0, 2**63 - 1])
def test_it_comes_back(version: int, expected: int) -> None:
    request = request_of(PLAIN, expecting(PLAIN, expected))
    decoded, _ = API.decode_request(version, API.encode_request(version, request))
    assert [expected_offset(partition) for partition in decoded.topics[0].partitions] == [None, expected]
    assert is_conditional(decoded)
    assert not is_conditional(request_of(PLAIN))


def test_beside_other_tagged_fields() -> None:
    tagged = PLAIN._replace(tagged=((0, b"new"), (2**32 - 1, b"other")))
    twice = expecting(expecting(tagged, 1), 2)
    assert [tag for tag, _ in twice.tagged] == [0, TAG, 2**32 - 1]
    decoded, _ = API.decode_request(8, API.encode_request(8, request_of(twice, tagged)))
    assert [expected_offset(partition) for partition in decoded.topics[0].partitions] == [2, None]
    assert not is_conditional(request_of(tagged))


@pytest.mark.parametrize("version", range(8))
def test_older_versions_cannot_carry_it(version: int) -> None:
    assert not API.is_flexible(conditional_commit.FIRST_VERSION - 1)
    assert API.is_flexible(conditional_commit.FIRST_VERSION)
    with pytest.raises(EncodeError):
        API.encode_request(version, request_of(expecting(PLAIN, 1)))


@pytest.mark.parametrize("expected", [2**63, -(2**63) - 1])
def test_what_is_no_offset(expected: int) -> None:
    with pytest.raises(EncodeError):
        expecting(PLAIN, expected)


@pytest.mark.parametrize("size", [0, 4, 7, 9])
def test_a_malformed_one_is_conditional_all_the_same(size: int) -> None:
    malformed = PLAIN._replace(tagged=((TAG, bytes(size)),))
    assert is_conditional(request_of(malformed))
    with pytest.raises(ValueError, match=f"{size} bytes"):
        expected_offset(malformed)


def test_kafka_has_no_such_tag() -> None:
    for version in range(8, API.versions[1] + 1):
        assert TAG not in table(OffsetCommitRequestPartition, version, True).tagged


@pytest.mark.parametrize(
    ("feature", "is_announced"),
    [
        (FEATURE, True),
        (FEATURE._replace(max_version=4), True),
        (FEATURE._replace(min_version=2, max_version=4), False),
        (SupportedFeatureKey("transaction.version", 0, 2), False),
    ],
)
def test_the_announcement(feature: SupportedFeatureKey, is_announced: bool) -> None:
    response = ApiVersionsResponse(0, (ApiVersion(8, 2, 9),), supported_features=(feature,))
    for version, carries in ((2, False), (3, True), (4, True)):
        decoded, _ = API_VERSIONS.decode_response(version, API_VERSIONS.encode_response(version, response))
        assert announced(decoded) == (is_announced and carries)
