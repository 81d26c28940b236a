"""ConsumerGroupDescribe (key 69, KIP-848), served: the shim has no group of that protocol."""

from __future__ import annotations

from protocol.messages.consumer_group_describe import API, ConsumerGroupDescribeResponse, DescribedGroup
from shim.api.none_of_a_kind import NoneOfAKind

VERSIONS = (0, 1)

_NONE = NoneOfAKind("consumer", DescribedGroup, ConsumerGroupDescribeResponse)

handle, failure, failed = _NONE.handle, _NONE.failure, _NONE.failed

__all__ = ["API", "VERSIONS", "failed", "failure", "handle"]
