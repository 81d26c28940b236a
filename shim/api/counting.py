"""What the shim's own answers say, counted: errors, and offsets that were committed.

Each where it was decided. An answer that was put together of what other shims or workers have said is counted there as
far as it is theirs, and here as far as it is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from protocol.apis import ApiKey
from protocol.commit_rows import AllCommitted
from protocol.group_kinds import OTHER_KINDS
from shim.metrics import AnswerCounts

Codes = Callable[[Any], Iterable[int]]
"""Of a response: the error codes in it, 0 among them."""


def _of_response(response: Any) -> Iterable[int]:
    return (response.error_code,)


def _of_partitions(response: Any) -> Iterable[int]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def _of_groups(response: Any) -> Iterable[int]:
    return [each.error_code for each in response.groups]


def _of_fetched(response: Any) -> Iterable[int]:
    whole = [response.error_code, *(group.error_code for group in response.groups)]
    return whole + [
        each.error_code for group in (response, *response.groups) for t in group.topics for each in t.partitions
    ]


CODES: Final[Mapping[int, Codes]] = {
    ApiKey.OFFSET_COMMIT: _of_partitions,
    ApiKey.TXN_OFFSET_COMMIT: _of_partitions,
    ApiKey.OFFSET_FETCH: _of_fetched,
    ApiKey.OFFSET_DELETE: lambda response: (response.error_code, *_of_partitions(response)),
    ApiKey.FIND_COORDINATOR: lambda response: (
        response.error_code,
        *(each.error_code for each in response.coordinators),
    ),
    ApiKey.JOIN_GROUP: _of_response,
    ApiKey.SYNC_GROUP: _of_response,
    ApiKey.HEARTBEAT: _of_response,
    ApiKey.LEAVE_GROUP: lambda response: (response.error_code, *(each.error_code for each in response.members)),
    ApiKey.LIST_GROUPS: _of_response,
    ApiKey.DESCRIBE_GROUPS: _of_groups,
    **{kind.heartbeat.key: _of_response for kind in OTHER_KINDS},
    **{kind.describe.key: _of_groups for kind in OTHER_KINDS},
    ApiKey.DELETE_GROUPS: lambda response: [each.error_code for each in response.results],
    ApiKey.API_VERSIONS: _of_response,
}
"""Of the APIs that the shim answers itself. What it translates has the brokers' errors."""


def count_answer(
    counts: AnswerCounts, api_key: int, response: Any, answers: int = 1, elsewhere: Sequence[Any] = ()
) -> None:
    """``answers``: to so many requests at once. ``elsewhere``: the responses that others have counted, and of which
    this one is made."""
    if response.__class__ is AllCommitted:
        counts.offsets_committed += sum([len(topic.partitions) for topic in response.request.topics])
        return
    codes = CODES.get(api_key)
    if codes is None:
        return
    told = codes(response)
    if elsewhere:
        told = _but_for([code for each in elsewhere for code in codes(each)], told)
    for code in set(told):
        if code:
            counts.errors[api_key << 16 | (code & 0xFFFF)] += answers
    if api_key == ApiKey.OFFSET_COMMIT:
        counts.offsets_committed += sum(not code for code in told)


def _but_for(counted: Iterable[int], told: Iterable[int]) -> Sequence[int]:
    return list((Counter(told) - Counter(counted)).elements())
