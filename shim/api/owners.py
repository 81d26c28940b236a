"""A client's request at another shim, which owns the group's offsets partition: what it answers is the answer.

What that one asks of the client's broker is asked here, on the client's own connection; whose the group is, and under
what lease it is passed on, that one knows. So the client's later requests wait until it says that it has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from struct import Struct
from typing import Any, Final, Protocol, TypeAlias

from protocol.errors import ErrorCode
from shim.api.call import SIZE_FIELD, Call, Connection, Services
from shim.forwarding import ONE_BY_ONE, Failed, Forwarded, Peer, Request

AnyCall: TypeAlias = Call[Any, Any]

_API_KEY: Final = slice(4, 6)  # of a frame

# Of a frame: its size, and the correlation id.
_REQUEST: Final = Struct(">i4xi")
_RESPONSE: Final = Struct(">ii")


async def forwarded(services: Services, call: AnyCall, peer: Peer, kept: Callable[[Any], Any] | None = None) -> None:
    """The whole request. To be called while the connection's requests are paused; it resumes them. ``kept``: what is
    kept of it here once it has been sent; None: all of it."""
    frame = call.broker_frame(call.version, call.request)
    if kept is not None:
        call.request = kept(call.request)
    try:
        answer = await at_owner(services, call.connection, peer, frame, call.connection.resume_requests)
    except Failed as failed:
        call.fail(failed.error)
        return
    if call.is_amended:
        response = call.parse_response(call.version, answer)
        call.counted_elsewhere(response)
        call.answer(response)
    else:
        call.answer_frame(answer)


class InARow(Protocol):
    """The ticket of requests that have come together."""

    def answer_frames(self, frames: bytes) -> None: ...

    def fail(self, error: ErrorCode) -> None: ...


async def forwarded_in_a_row(
    services: Services, connection: Connection, peer: Peer, frames: bytes, ticket: InARow
) -> None:
    """Several requests about one group at once, as they have come: otherwise each would wait until it is known of the
    one before it that it has begun. Called as :func:`forwarded` is."""
    try:
        try:
            answers = await at_owner(services, connection, peer, frames, connection.resume_requests)
        except Failed as failed:
            if failed.error is not ONE_BY_ONE:
                raise
            answers = await _one_by_one(services, connection, peer, frames)
    except Failed as failed:
        ticket.fail(failed.error)
    else:
        ticket.answer_frames(answers)


async def _one_by_one(services: Services, connection: Connection, peer: Peer, frames: bytes) -> bytes:
    """In the turn of the loop in which the requests behind them may be taken, and before these are."""
    connection.pause_requests()
    try:
        return b"".join([await at_owner(services, connection, peer, frame) for frame in frames_of(frames)])
    finally:
        connection.resume_requests()


def frames_of(data: bytes) -> Iterator[bytes]:
    """Each with its size. What is left over is the last one."""
    while data:
        end = SIZE_FIELD + int.from_bytes(data[:SIZE_FIELD], "big")
        yield data[:end]
        data = data[end:]


async def at_owner(
    services: Services, connection: Connection, peer: Peer, frame: bytes, begun: Callable[[], None] = lambda: None
) -> bytes:
    """What the owner answers to this request, or to each of several, as the connection's client, whose requests are
    paused. ``begun`` is called once, when they need not be any more because of this. Raises :class:`Failed`, also where
    it answers something else: the client would take it for the answer to another request, or not find the next."""
    assert services.peers is not None
    its = _AtOwner(connection.ask, frame[_API_KEY])
    request = Request(frame, connection.principal, connection.client_host)
    try:
        try:
            its.forwarded = services.peers.forward(peer, request, its)
            await its.has_begun.wait()
        finally:
            begun()
        answer = await its.answer
    finally:
        if its.forwarded is not None:
            its.forwarded.withdraw()
    if _correlation_ids(_RESPONSE, answer) != _correlation_ids(_REQUEST, frame):
        services.peers.misanswered(peer)
        raise Failed(ErrorCode.NOT_COORDINATOR)
    return answer


def _correlation_ids(head: Struct, frames: bytes) -> list[int]:
    """Of whole frames, one behind the other; none of what is anything else."""
    found, position = [], 0
    while len(frames) - position >= head.size:
        size, correlation_id = head.unpack_from(frames, position)
        if size < head.size - SIZE_FIELD:
            break
        found.append(correlation_id)
        position += SIZE_FIELD + size
    return found if position == len(frames) else []


class _AtOwner:
    """See :class:`shim.forwarding.Asked`."""

    def __init__(self, ask: Callable[..., Awaitable[bytes]], api_key: bytes) -> None:
        self._ask = ask
        self._api_key = api_key
        self.forwarded: Forwarded | None = None
        self.has_begun = asyncio.Event()
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def ask(self, question: int, frame: bytes, *, prompt: bool) -> None:
        # Another API would be no part of this request, and what has to wait for it does not any more.
        if frame[_API_KEY] != self._api_key or self.has_begun.is_set():
            self._tell(question, None)
            return
        asked = asyncio.ensure_future(self._ask(frame, prompt=prompt))
        asked.add_done_callback(lambda done: self._tell(question, _frame_of(done)))

    def _tell(self, question: int, frame: bytes | None) -> None:
        if self.forwarded is not None:
            self.forwarded.tell(question, frame)

    def begun(self) -> None:
        self.has_begun.set()

    def answered(self, frame: bytes) -> None:
        self.has_begun.set()
        if not self.answer.done():  # it is when the client has gone
            self.answer.set_result(frame)

    def failed(self, error: ErrorCode) -> None:
        self.has_begun.set()
        if not self.answer.done():
            self.answer.set_exception(Failed(error))
            self.answer.exception()  # nobody may be waiting for it any more


def _frame_of(asked: asyncio.Future[bytes]) -> bytes | None:
    return None if asked.cancelled() or asked.exception() is not None else asked.result()
