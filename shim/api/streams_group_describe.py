"""StreamsGroupDescribe (key 89, KIP-1071), served: the shim has no group of that protocol."""

from __future__ import annotations

from protocol.group_kinds import STREAMS
from protocol.messages.streams_group_describe import API, DescribedGroup
from shim.api.none_of_a_kind import NoneOfAKind

VERSIONS = (0, 0)

_NONE = NoneOfAKind(STREAMS, DescribedGroup)

handle, failure, failed, response = _NONE.handle, _NONE.failure, _NONE.failed, _NONE.response

__all__ = ["API", "VERSIONS", "failed", "failure", "handle", "response"]
