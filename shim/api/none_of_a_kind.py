"""Descriptions of groups of a kind that the shim serves none of: a broker says of a classic group that it is not one.
Tools then ask with DescribeGroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from protocol.errors import ErrorCode
from protocol.group_kinds import Kind
from shim.api.call import Call, Services
from shim.api.many_groups import ask_each_at_once
from shim.coordinator import ReadablePartition

_Call = Call[Any, Any]


class NoneOfAKind(NamedTuple):
    """``described``: makes the answer of a group, of error code, message and group id."""

    kind: Kind
    described: Callable[..., Any]

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
        why = f"is not a {self.kind.name} group" if group_id in partition.group_ids() else "not found"
        return self.described(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.", group_id)

    def failure(self, call: _Call, error: ErrorCode) -> Any:
        return self.response(tuple(self.failed(group_id, error) for group_id in call.request.group_ids))

    def response(self, groups: tuple[Any, ...]) -> Any:
        return self.kind.describe.response(0, groups)

    def failed(self, group_id: str, error: ErrorCode) -> Any:
        return self.described(error, None, group_id)
