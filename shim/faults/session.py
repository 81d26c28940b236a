"""A client's session with the rules between it and the client."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from protocol.apis import APIS, ApiKey
from protocol.errors import DecodeError, ErrorCode
from shim.api import ROUTES, Call, Route, Served
from shim.faults.frames import NOBODYS, TOKEN, Asked, Frames, Tokens, groups_of, with_error
from shim.faults.rules import CUT, DELAY, ERROR, REQUEST, RESPONSE, Faults, Rule
from shim.tls import Receiver

_HEAD = struct.Struct(">ihhi")
_SIZE_FIELD: Final = 4


class Line:
    """One direction: what passes it does so in order, each piece when those before it have."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.dead = False

    def then(self, step: Callable[[], object], delay_seconds: float = 0.0) -> None:
        """Have ``step`` taken after all before it, and ``delay_seconds`` after that; never where nothing passes."""
        if self.dead:
            return
        if delay_seconds:
            self._waiting.append(partial(self._pause, delay_seconds))
        self._waiting.append(step)
        if self._timer is None:
            self._run()

    def _pause(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._run()

    def _run(self) -> None:
        while self._waiting and self._timer is None and not self.dead:
            self._waiting.popleft()()

    def end(self) -> None:
        """Nothing passes any more."""
        self.dead = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class FaultyTransport:
    """A transport whose writes go elsewhere, and its end behind them; all else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, write: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self._transport = transport
        self._write = write
        self.close = close

    def write(self, data: bytes | memoryview) -> None:
        self._write(bytes(data))  # a rule may keep it for long

    def writelines(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._write(b"".join(pieces))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class FaultySession(asyncio.Protocol):
    """A client's session, with the rules between it and the client. Frames are passed on whole."""

    def __init__(self, session: Receiver, faults: Faults) -> None:
        self._session = session
        self._faults = faults
        self._requests, self._responses = Frames(), Frames()
        self._in, self._out = Line(), Line()
        self._asked: deque[Asked] = deque()
        self._tokens = Tokens()
        self._undecided: deque[bytes] = deque()

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, made)
        wrapped = FaultyTransport(self._transport, self._write, self._close)
        self._session.connection_made(cast(asyncio.BaseTransport, wrapped))

    def connection_lost(self, exc: Exception | None) -> None:
        self._in.end()
        self._out.end()
        self._session.connection_lost(exc)

    def pause_writing(self) -> None:
        self._session.pause_writing()

    def resume_writing(self) -> None:
        self._session.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._in.dead:
            return
        self._undecided.extend(self._requests.feed(data))
        self._pass_requests()

    def _pass_requests(self) -> None:
        while self._undecided and not self._tokens.undecided and not self._in.dead:
            self._pass_request(self._undecided.popleft())

    def _pass_request(self, frame: bytes) -> None:
        if self._tokens.expected:
            self._tokens.token(frame)
            self._in.then(partial(self._asked.append, TOKEN))
            self._in.then(partial(self._session.data_received, frame))
            return
        _, api, version, _ = _HEAD.unpack_from(frame.ljust(_HEAD.size, b"\0"))
        route = ROUTES.get((api & 0xFFFF) << 16 | (version & 0xFFFF))
        if route is None or len(frame) < _HEAD.size:
            self._in.then(partial(self._session.data_received, frame))
            return
        if api == ApiKey.SASL_HANDSHAKE and version == 0:
            self._tokens.handshake(frame)
        groups = groups_of(api, version, frame) if self._faults.wants_groups(api) else ()
        rule = self._faults.find(REQUEST, api, version, groups)
        asked = Asked(api, version, groups)
        if rule is not None and rule.action == ERROR:
            answers: list[bytes] = []
            served = cast(Served, route.disposition)
            Call(served, version, frame, cast(Any, self._session), answers.append).fail(rule.error)
            self._in.then(partial(self._answer, asked._replace(answer=answers[0])))
            return
        if _is_answered(route, version, frame):
            self._in.then(partial(self._asked.append, asked))
        self._apply(rule, self._in, frame, self._session.data_received, self._transport.abort)

    def _answer(self, asked: Asked) -> None:
        self._asked.append(asked)
        self._answer_front()

    def _write(self, data: bytes) -> None:
        for frame in self._responses.feed(data):
            # A response to what nobody asked would be a bug of the shim's: let it be seen.
            asked = self._asked.popleft() if self._asked else NOBODYS
            rule = None
            if asked is not TOKEN:
                rule = self._faults.find(RESPONSE, asked.api, asked.version, asked.groups)
            if asked is TOKEN or (asked.api, asked.version) == (ApiKey.SASL_HANDSHAKE, 0):
                self._tokens.answered(frame)
            if rule is not None and rule.action == ERROR and asked is not NOBODYS:
                frame = _refused(asked, frame, rule.error)
            self._apply(rule, self._out, frame, self._transport.write, self._transport.close)
            self._answer_front()
            if self._undecided:
                # Not from here: the session is in the middle of writing, and has not heard the answer either.
                asyncio.get_running_loop().call_soon(self._pass_requests)

    def _close(self) -> None:
        """Behind what is delayed."""
        if self._out.dead:
            self._transport.close()
        else:
            self._out.then(self._transport.close)

    def _answer_front(self) -> None:
        while self._asked and (answer := self._asked[0].answer) is not None:
            self._asked.popleft()
            self._out.then(partial(self._transport.write, answer))

    def _apply(
        self, rule: Rule | None, line: Line, frame: bytes, pass_on: Callable[[bytes], object], cut: Callable[[], object]
    ) -> None:
        if rule is None or rule.action in (DELAY, ERROR):
            line.then(partial(pass_on, frame), rule.delay_seconds if rule else 0.0)
            return
        if rule.action == CUT:
            line.then(partial(pass_on, frame[: rule.after_bytes]))
            line.then(cut)
        line.then(line.end)


def _is_answered(route: Route, version: int, frame: bytes) -> bool:
    if route.answered is None:
        return True
    try:
        says, _ = route.answered(frame, 0, len(frame), version)
    except DecodeError:  # at which the session closes
        return False
    return says is True


def _refused(asked: Asked, frame: bytes, error: ErrorCode) -> bytes:
    api = APIS[asked.api]
    correlation_id, response = api.parse_response(asked.version, frame[_SIZE_FIELD:])
    return api.response_frame(asked.version, correlation_id, with_error(response, error))
