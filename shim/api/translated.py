"""Versions that brokers dropped: the broker is asked in one that it has, and its answer told in the client's (compat).

Further requests of the connection wait until this one is answered, as they do in a broker. What takes long to convert
is converted in a thread, so that nobody else waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, NoReturn

from compat.translation import Exchange, Translation, Unanswerable
from protocol.errors import ErrorCode
from shim.api.call import SIZE_FIELD, Call, Services
from shim.api.waiting import while_requests_are_paused

AT_ONCE: Final = 16 << 10
"""Bytes of records that are converted in the loop: it takes less than the way to a thread and back."""

THREADS: Final = 2
"""So many are converted at once; what else waits for its turn."""

_threads: Final = ThreadPoolExecutor(THREADS, "compat")

_Call = Call[Any, Any]


class _Step(NamedTuple):
    """Of an exchange: the ``response``, if it is over, or what is to be asked."""

    is_over: bool
    asked: tuple[Any, ...]
    response: Any


def handler(translation: Translation) -> Callable[[Services, _Call], Coroutine[Any, Any, None]]:
    @while_requests_are_paused
    async def translate(_: Services, call: _Call) -> None:
        exchange = translation.exchange(call.version, call.request, call.connection.context)
        try:
            step = await _advanced(exchange, None, translation.records(call.request))
            if not translation.answered(call.request):
                for request in step.asked:
                    call.connection.tell(call.broker_frame(translation.to, request))
                if not step.is_over:
                    _advance(exchange, [])
                call.answer_frame(b"")
                return
        except Unanswerable as error:
            call.connection.give_up(str(error), level=logging.WARNING)
            return
        while not step.is_over:
            # All of them are sent before the first answer is waited for.
            asked = [
                call.connection.ask(call.broker_frame(translation.to, request), prompt=False) for request in step.asked
            ]
            frames = [await answer for answer in asked]
            responses = [translation.api.parse_response(translation.to, frame, SIZE_FIELD)[1] for frame in frames]
            step = await _advanced(exchange, responses, sum(map(translation.records, responses)))
        call.answer(step.response)

    return translate


async def _advanced(exchange: Exchange, responses: list[Any] | None, records: int) -> _Step:
    if records <= AT_ONCE:
        return _advance(exchange, responses)
    return await asyncio.get_running_loop().run_in_executor(_threads, _advance, exchange, responses)


def _advance(exchange: Exchange, responses: list[Any] | None) -> _Step:
    try:
        asked = next(exchange) if responses is None else exchange.send(responses)
    except StopIteration as end:
        return _Step(True, (), end.value)
    return _Step(False, tuple(asked), None)


def failure(_: _Call, error: ErrorCode) -> NoReturn:
    """Nobody fails such a request: the broker answers it."""
    raise AssertionError(f"a translated request fails with {error!r}")
