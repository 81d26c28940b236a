"""StreamsGroupDescribe (key 89, KIP-1071), served: the shim has no group of that protocol."""

from __future__ import annotations

from protocol.messages.streams_group_describe import API, DescribedGroup, StreamsGroupDescribeResponse
from shim.api.none_of_a_kind import NoneOfAKind

VERSIONS = (0, 0)

_NONE = NoneOfAKind("streams", DescribedGroup, StreamsGroupDescribeResponse)

handle, failure, failed = _NONE.handle, _NONE.failure, _NONE.failed

__all__ = ["API", "VERSIONS", "failed", "failure", "handle"]
