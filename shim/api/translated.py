"""Versions that brokers dropped: the broker is asked in one that it has, and its answer told in the client's (compat).

A broker that does not have that one is so old that it has the client's: then it is asked in the client's. Which
broker it is, the connection's own answers to ApiVersions: clients before 0.10 do not ask for it.

Further requests of the connection wait until this one is answered, as they do in a broker. What takes long to convert
is converted in a thread, so that nobody else waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

from compat.table import TRANSLATIONS
from compat.translation import Exchange, Translation, Unanswerable
from protocol.errors import ErrorCode
from protocol.messages import api_versions
from shim.api.call import SIZE_FIELD, Call, Services
from shim.api.fetched_bytes import FetchedBytes
from shim.api.waiting import while_requests_are_paused

AT_ONCE: Final = 16 << 10
"""What is converted in the loop, as :func:`compat.formats.cost` counts it: a millisecond's work or two, about what a
thread that converts takes from the loop at a time. It costs a quarter less there."""

THREADS: Final = 2
"""So many are converted at once; what else waits for its turn."""

_threads: Final = ThreadPoolExecutor(THREADS, "compat")
_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = WeakKeyDictionary()

_Call = Call[Any, Any]

BeforeAnswered = Callable[[Services, Any], Coroutine[Any, Any, None]]
"""What is to be done when a response is known, before its client is told."""


class _Step(NamedTuple):
    """Of an exchange: the ``response``, if it is over, or what is to be asked."""

    is_over: bool
    asked: tuple[Any, ...]
    response: Any


def handler(
    translation: Translation, before_answered: BeforeAnswered | None = None
) -> Callable[[Services, _Call], Coroutine[Any, Any, None]]:
    fetched = FetchedBytes()

    @while_requests_are_paused
    async def translate(services: Services, call: _Call) -> None:
        if translation.api.key in await _lacking(call):
            await _pass_on(translation, call)
            return
        with fetched.share() as call.connection.context.fetch_bytes:
            try:
                response = await _translate(translation, call)
            except Unanswerable as error:
                call.connection.refuse(str(error))
                call.answer_frame(b"")
            else:
                if response is not None:
                    if before_answered is not None:
                        await before_answered(services, response)
                    call.answer(response)
                await call.connection.taken()

    return translate


async def _translate(translation: Translation, call: _Call) -> Any:
    """The response; None where none is due."""
    exchange = translation.exchange(call.version, call.request, call.connection.context)
    step = await _advanced(exchange, None, translation.cost(call.request))
    if not translation.answered(call.request):
        for request in step.asked:
            call.connection.tell(call.broker_frame(translation.to, request))
        if not step.is_over:
            _advance(exchange, [])
        call.answer_frame(b"")
        return None
    while not step.is_over:
        # All of them are sent before the first answer is waited for.
        asked = [
            call.connection.ask(call.broker_frame(translation.to, request), prompt=False) for request in step.asked
        ]
        frames = [await answer for answer in asked]
        responses = [translation.api.parse_response(translation.to, frame, SIZE_FIELD)[1] for frame in frames]
        step = await _advanced(exchange, responses, sum(map(translation.cost, responses)))
    return step.response


async def _lacking(call: _Call) -> frozenset[int]:
    """The APIs that cannot be translated for the broker behind this connection."""
    context = call.connection.context
    if context.lacking is None:
        frame = await call.ask_as_client(api_versions.API, 0, api_versions.ApiVersionsRequest())
        _, answer = api_versions.API.parse_response(0, frame, SIZE_FIELD)
        has = {theirs.api_key: (theirs.min_version, theirs.max_version) for theirs in answer.api_keys}
        context.lacking = frozenset(
            key for key, translation in TRANSLATIONS.items() if key in has and not translation.fits(*has[key])
        )
    return context.lacking


async def _pass_on(translation: Translation, call: _Call) -> None:
    frame = call.broker_frame(call.version, call.request)
    if translation.answered(call.request):
        call.answer_frame(await call.connection.ask(frame, prompt=False))
    else:
        call.connection.tell(frame)
        call.answer_frame(b"")


async def _advanced(exchange: Exchange, responses: list[Any] | None, cost: int) -> _Step:
    if cost <= AT_ONCE:
        return _advance(exchange, responses)
    loop = asyncio.get_running_loop()
    # Who waits for a thread waits here: what stands in the executor's own queue stays there when its client is gone. A
    # conversion that nobody waits for any more goes on, and has its thread until it ends.
    turns = _turns.setdefault(loop, asyncio.Semaphore(THREADS))
    await turns.acquire()
    converting = _threads.submit(_advance, exchange, responses)
    converting.add_done_callback(lambda _: _release(loop, turns))
    return await asyncio.wrap_future(converting)


def _release(loop: asyncio.AbstractEventLoop, turns: asyncio.Semaphore) -> None:
    """From the thread; the loop may have ended meanwhile, and then nobody waits."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(turns.release)


def _advance(exchange: Exchange, responses: list[Any] | None) -> _Step:
    try:
        asked = next(exchange) if responses is None else exchange.send(responses)
    except StopIteration as end:
        return _Step(True, (), end.value)
    return _Step(False, tuple(asked), None)


def failure(_: _Call, error: ErrorCode) -> NoReturn:
    """Nobody fails such a request: the broker answers it."""
    raise AssertionError(f"a translated request fails with {error!r}")
