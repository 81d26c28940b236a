"""A question about each of many groups, in one request.

A request of a few bytes a group can ask for any amount: so what is asked twice is decided once, the loop is given back
after some milliseconds' work, and a response that has become too large goes no further.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from shim.api.call import Gather, Part, Services
from shim.coordinator import ReadablePartition

RESPONSE_BYTES: Final = 8 << 20
"""Groups behind so much of a response are COORDINATOR_LOAD_IN_PROGRESS, at which clients ask for them once more."""

_TURN_BYTES: Final = 64 << 10  # of answers: some milliseconds' work
_QUESTION_BYTES: Final = 256  # what takes as long as a group of which there is nothing


def ask_each_at_once(
    services: Services,
    group_ids: Sequence[str],
    ask: Callable[[str, ReadablePartition], Any],
    failed: Callable[[str, ErrorCode], Any],
    finish: Callable[[list[Any]], None],
) -> None:
    """As :func:`ask_each`, for what takes next to nothing: in this turn of the loop."""
    gather = Gather(len(group_ids), finish)
    for position, group_id in enumerate(group_ids):
        part = gather.part(position, partial(failed, group_id))
        services.runtime.ask(services.runtime.partition_of(group_id), partial(ask, group_id), part)


class Question(NamedTuple):
    """About one group. ``same`` is equal where the answers are."""

    group_id: str
    same: Hashable
    ask: Callable[[ReadablePartition], Any]
    failed: Callable[[ErrorCode], Any]


async def ask_each(
    services: Services, questions: Sequence[Question], size: Callable[[Any], int], finish: Callable[[list[Any]], None]
) -> None:
    """Ask them all, a few in each turn of the loop, and have ``finish`` called with the answers, in their order, when
    these are there, which may be later. ``size``: about how many bytes an answer takes in the response.
    """
    gather = Gather(len(questions), finish)
    asked: dict[Hashable, _Asked] = {}
    response_bytes = turn_bytes = 0
    for position, question in enumerate(questions):
        if turn_bytes >= _TURN_BYTES:
            await asyncio.sleep(0)
            turn_bytes = 0
        part = gather.part(position, question.failed)
        first = asked.get(question.same)
        if response_bytes >= RESPONSE_BYTES:
            part.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif first is not None:
            first.tell(part)
        else:
            first = asked[question.same] = _Asked(question, size)
            first.tell(part)
            services.runtime.ask(services.runtime.partition_of(question.group_id), first.decide, first)
            turn_bytes += first.bytes
        response_bytes += first.bytes if first is not None else 0
        turn_bytes += _QUESTION_BYTES


class _Asked:
    """The ticket of a question, for all who have asked it."""

    def __init__(self, question: Question, size: Callable[[Any], int]) -> None:
        self.bytes = 0
        self._question = question
        self._size = size
        self._parts: list[Part] = []
        self._answer: Any = None
        self._answered = False

    def decide(self, coordinator: ReadablePartition) -> Any:
        answer = self._question.ask(coordinator)
        self.bytes = self._size(answer)
        return answer

    def tell(self, part: Part) -> None:
        if self._answered:
            part.answer(self._answer)
        else:
            self._parts.append(part)

    def answer(self, response: Any) -> None:
        self._answered, self._answer = True, response
        parts, self._parts = self._parts, []
        for part in parts:
            part.answer(response)

    def fail(self, error: ErrorCode) -> None:
        self.answer(self._question.failed(error))
