"""What the shim's own answers say, counted: errors, and offsets that were committed.

Each where it was decided. An answer that was put together of what other shims or workers have said is counted there as
far as it is theirs, and here as far as it is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from protocol.apis import ApiKey
from protocol.commit_rows import AllCommitted
from shim.metrics import AnswerCounts

Codes = Callable[[Any], Iterable[int]]
"""Of a response: the error codes in it that the shim itself has decided, 0 among them."""


def of_response(response: Any) -> Iterable[int]:
    return (response.error_code,)


def of_partitions(response: Any) -> Iterable[int]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def of_groups(response: Any) -> Iterable[int]:
    return [each.error_code for each in response.groups]


def of_the_broker(_: Any) -> Iterable[int]:
    """The response has the broker's errors."""
    return ()


def count_answer(
    counts: AnswerCounts, api_key: int, codes: Codes, response: Any, answers: int = 1, elsewhere: Sequence[Any] = ()
) -> None:
    """``answers``: to so many requests at once. ``elsewhere``: the responses that others have counted, and of which
    this one is made."""
    if response.__class__ is AllCommitted:
        counts.offsets_committed += sum([len(topic.partitions) for topic in response.request.topics])
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
