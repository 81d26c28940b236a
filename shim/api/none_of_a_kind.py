"""ConsumerGroupDescribe, StreamsGroupDescribe and ShareGroupDescribe (keys 69, 89 and 77), served: of groups of a kind
that the shim serves none of. A broker says of a classic group that it is not one. Tools then ask with DescribeGroups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.group_kinds import CONSUMER, SHARE, STREAMS, Kind
from protocol.messages import consumer_group_describe, share_group_describe, streams_group_describe
from shim.api.call import Call, Services
from shim.api.counting import of_groups
from shim.api.descriptions import Describes
from shim.api.many_groups import ask_each_at_once
from shim.coordinator import ReadablePartition

_Call = Call[Any, Any]


class NoneOfAKind:
    """What a handler's module has. ``described``: makes the answer of a group, of error code, message and group id."""

    def __init__(self, kind: Kind, described: Callable[..., Any]) -> None:
        self.API = kind.describe
        self.VERSIONS = kind.describe.versions
        self._name = kind.name
        self.DESCRIBES = Describes("group_ids", self.failed, self.response)
        self._described = described

    def handle(self, services: Services, call: _Call) -> None:
        ask_each_at_once(
            services,
            call.request.group_ids,
            self._answer,
            self.failed,
            lambda groups: call.answer(self.response(tuple(groups))),
        )

    def _answer(self, group_id: str, partition: ReadablePartition) -> Any:
        if not group_id:
            return self.failed(group_id, ErrorCode.INVALID_GROUP_ID)
        # Kafka's tools show this: it is what brokers say.
        why = f"is not a {self._name} group" if group_id in partition.group_ids() else "not found"
        return self._described(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.", group_id)

    def failure(self, call: _Call, error: ErrorCode) -> Any:
        return self.response(tuple(self.failed(group_id, error) for group_id in call.request.group_ids))

    def codes(self, response: Any) -> Iterable[int]:
        return of_groups(response)

    def response(self, groups: tuple[Any, ...]) -> Any:
        return self.API.response(0, groups)

    def failed(self, group_id: str, error: ErrorCode) -> Any:
        return self._described(error, None, group_id)


NONE_OF_OTHER_KINDS: Final = (
    NoneOfAKind(CONSUMER, consumer_group_describe.DescribedGroup),
    NoneOfAKind(STREAMS, streams_group_describe.DescribedGroup),
    NoneOfAKind(SHARE, share_group_describe.DescribedGroup),
)
