"""ShareGroupDescribe (key 77, KIP-932), served: the shim has no group of that protocol."""

from __future__ import annotations

from protocol.group_kinds import SHARE
from protocol.messages.share_group_describe import API, DescribedGroup
from shim.api.none_of_a_kind import NoneOfAKind

VERSIONS = (1, 1)

_NONE = NoneOfAKind(SHARE, DescribedGroup)

handle, failure, failed, response = _NONE.handle, _NONE.failure, _NONE.failed, _NONE.response

__all__ = ["API", "VERSIONS", "failed", "failure", "handle", "response"]
