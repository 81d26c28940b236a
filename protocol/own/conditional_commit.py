"""Conditional commit: "set the offset to x if and only if it is y", an extension of OffsetCommit by offset-shim.

A partition of an OffsetCommit request (version 8 and newer) may carry one tagged field more, an int64: the offset that
has to be committed now, or -1 where none may be. Where one of a request does not hold, nothing of the request is
written: partitions whose condition does not hold get :data:`REFUSED`, all others :data:`NOT_ATTEMPTED`. Partitions
without the field are written if all the others' conditions hold. The partition may have a commit of a transaction that
is not settled yet; then nobody can say what is committed, and it gets UNSTABLE_OFFSET_COMMIT, for which a retry helps.
Any other error of a partition, too, keeps the whole request from being written.

A broker would pass over the field and commit whatever is committed now. So ApiVersions (version 3 and newer) announces
it, as the supported feature :data:`FEATURE`, and nobody may send it on a connection where that was not seen.
"""

from __future__ import annotations

import struct
from typing import Final

from protocol.errors import EncodeError, ErrorCode
from protocol.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition

FEATURE: Final = SupportedFeatureKey("offset.shim.conditional.commit", 1, 1)
"""What ApiVersions announces. Clients that do not know it pass over it."""

FIRST_VERSION: Final = 8
"""Of OffsetCommit: the first flexible one."""

# Kafka's message generator refuses a schema whose tags are not 0, 1, 2 and so on, so its own numbers grow from below,
# one with each new field. Round numbers are where others might put theirs. This one is "OS", read as an int16.
TAG: Final = 20_307

NONE_COMMITTED: Final = -1
"""Expected where there must be no offset; what OffsetFetch answers then."""

REFUSED: Final = ErrorCode.INVALID_UPDATE_VERSION
"""Kafka's code for a compare-and-set that came too late (AlterPartition, UpdateFeatures); no OffsetCommit has it. It is
not retriable: the Java client, librdkafka, kafka-python and aiokafka report an error they do not expect in a commit."""

NOT_ATTEMPTED: Final = ErrorCode.OPERATION_NOT_ATTEMPTED
"""The partition's own condition holds, if it has one; another partition of the request was refused."""

_EXPECTED: Final = struct.Struct(">q")


def announced(response: ApiVersionsResponse) -> bool:
    """Whether whoever answered this takes conditional commits."""
    return any(
        feature.name == FEATURE.name and feature.min_version <= FEATURE.max_version <= feature.max_version
        for feature in response.supported_features
    )


def expecting(partition: OffsetCommitRequestPartition, expected: int) -> OffsetCommitRequestPartition:
    """The partition, to be committed only if `expected` (-1: none) is. Raises EncodeError for what is no int64."""
    try:
        field = (TAG, _EXPECTED.pack(expected))
    except struct.error:
        raise EncodeError(f"{expected!r} is no int64", "expected offset") from None
    return partition._replace(tagged=tuple(sorted([*(other for other in partition.tagged if other[0] != TAG), field])))


def expected_offset(partition: OffsetCommitRequestPartition) -> int | None:
    """What has to be committed (-1: none), None where nothing is said. Raises ValueError for what is no int64."""
    for tag, raw in partition.tagged:
        if tag == TAG:
            if len(raw) != _EXPECTED.size:
                raise ValueError(f"an expected offset of {len(raw)} bytes")
            expected: int = _EXPECTED.unpack(raw)[0]
            return expected
    return None


def is_conditional(request: OffsetCommitRequest) -> bool:
    """Whether any of its partitions has a condition, well-formed or not."""
    for topic in request.topics:
        for partition in topic.partitions:
            if partition.tagged and any(tag == TAG for tag, _ in partition.tagged):
                return True
    return False
