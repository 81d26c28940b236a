"""Descriptions of groups of a kind that the shim serves none of: a broker says of a classic group that it is not one.
Tools then ask with DescribeGroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from protocol.errors import ErrorCode
from shim.api.call import Call, Services
from shim.api.many_groups import ask_each_at_once
from shim.coordinator import ReadablePartition

_Call = Call[Any, Any]


class NoneOfAKind(NamedTuple):
    """``kind``: in the words of brokers. ``described``: makes the answer of a group, of error code, message and group
    id; ``response``: one of throttle time and these."""

    kind: str
    described: Callable[..., Any]
    response: Callable[[int, tuple[Any, ...]], Any]

    def handle(self, services: Services, call: _Call) -> None:
        ask_each_at_once(
            services,
            call.request.group_ids,
            self._answer,
            self.failed,
            lambda groups: call.answer(self.response(0, tuple(groups))),
        )

    def _answer(self, group_id: str, partition: ReadablePartition) -> Any:
        if not group_id:
            return self.failed(group_id, ErrorCode.INVALID_GROUP_ID)
        # Kafka's tools show this: it is what brokers say.
        why = f"is not a {self.kind} group" if group_id in partition.group_ids() else "not found"
        return self.described(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.", group_id)

    def failure(self, call: _Call, error: ErrorCode) -> Any:
        return self.response(0, tuple(self.failed(group_id, error) for group_id in call.request.group_ids))

    def failed(self, group_id: str, error: ErrorCode) -> Any:
        return self.described(error, None, group_id)
