"""Of one connection to an owner, the side that has the clients: pure, bytes in and out.

The owner may ask the client's own broker, as that client, until it says that it has begun with the request: the
connection's later requests have to wait for that, as what they pass on to the broker comes before what is asked then.
What it asks is passed on only while its word is fresh: it has made sure that the partition is its own, and a question
that has lain in a buffer of a shim that was held up may come after another owner has begun to serve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from protocol.errors import DecodeError, ErrorCode
from protocol.frames import BadFrame, FrameParser
from protocol.own.between_shims import (
    BESIDE_FRAME,
    FROM_OWNER,
    Answer,
    Ask,
    Begun,
    Forward,
    Hello,
    Ping,
    Pong,
    Refuse,
    Told,
    Withdraw,
    decode,
    encode,
)
from shim.forwarding.broken import Broken
from shim.metrics import ForwardingCounts, NotForwarded
from shim.upstream.errors import PASSED_ON_WITHIN_SECONDS

MOST_ANSWER_BYTES: Final = 256 << 20
"""As of any broker's response."""
MOST_TO_STRANGER_BYTES: Final = 1 << 20
"""Of a request, to an owner that has not said how much it takes."""
MOST_UNSENT_BYTES: Final = 16 << 20
"""From there on nothing more is forwarded: the owner does not read."""

ONE_BY_ONE: Final = ErrorCode.OPERATION_NOT_ATTEMPTED
"""What an owner says of requests that it cannot take at once, though it may take each: no failure."""

_LAST_NUMBER: Final = 2**31 - 1


class Failed(Exception):
    """The request was not answered by the owner; ``error`` is what the client gets."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Request(NamedTuple):
    """A client's, as it came: ``frame`` with its size and header. ``client_host``: in Kafka's form, `/127.0.0.1`."""

    frame: bytes
    principal: str
    client_host: str


class Asked(Protocol):
    """Who has forwarded a request, and is told what comes of it: each of the last two is the end of it."""

    def ask(self, question: int, frame: bytes, *, prompt: bool) -> None:
        """The client's broker is to be asked this, now; :meth:`HomeSide.tell` what it says."""

    def begun(self) -> None:
        """The client's later requests may be taken."""

    def answered(self, frame: bytes) -> None: ...

    def failed(self, error: ErrorCode) -> None: ...


class _Underway(NamedTuple):
    asked: Asked
    sent_at: float


class HomeSide:
    """``clock``: seconds, of one that runs on through a suspend. ``counts``: what has failed is added to them."""

    def __init__(
        self,
        hello: Hello,
        write: Callable[[bytes], None],
        clock: Callable[[], float],
        counts: ForwardingCounts | None = None,
    ) -> None:
        self._hello = hello
        self._write = write
        self._clock = clock
        self._counts = counts or ForwardingCounts()
        self._frames = FrameParser(MOST_ANSWER_BYTES + BESIDE_FRAME, 1)
        self._underway: dict[int, _Underway] = {}
        self._number = 0
        self._pings: dict[int, float] = {}
        self._sequence = 0
        self._fresh_at = float("-inf")
        self._most = MOST_TO_STRANGER_BYTES
        self.is_known = False
        """Whether the owner has said who it is."""
        write(encode(hello))

    def __len__(self) -> int:
        """Requests that are under way."""
        return len(self._underway)

    # -- what goes out

    def forward(self, request: Request, asked: Asked) -> int:
        """Gives its number. Raises EncodeError and :class:`Failed`, and nothing has gone out then."""
        if len(request.frame) > self._most:
            raise Failed(ErrorCode.INVALID_REQUEST if self.is_known else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        number = self._next_number()
        message = encode(Forward(number, request.principal, request.client_host, request.frame))
        self._underway[number] = _Underway(asked, self._clock())
        self._write(message)
        return number

    def tell(self, number: int, question: int, frame: bytes | None) -> None:
        """What the broker has said; nothing where nobody waits for that any more."""
        if number in self._underway:
            self._write(encode(Told(number, question, frame)))

    def withdraw(self, number: int) -> None:
        """Nobody waits for the answer any more, if there was none."""
        if self._underway.pop(number, None) is not None:
            self._write(encode(Withdraw(number)))

    def ping(self) -> None:
        """From its answer on what the owner says is as fresh as this."""
        self._sequence = self._sequence % _LAST_NUMBER + 1
        self._pings = {self._sequence: self._clock()}  # one that was not answered by now is of no use
        self._write(encode(Ping(self._sequence)))

    def _next_number(self) -> int:
        number = self._number
        while number in self._underway or number == self._number:
            number = number % _LAST_NUMBER + 1
        self._number = number
        return number

    # -- what comes in

    def feed(self, data: bytes) -> None:
        """Raises :class:`Broken`: then the connection is to be closed, and :meth:`lost` called."""
        try:
            for frame in self._frames.feed(data):
                self._take(decode(FROM_OWNER, frame))
        except BadFrame as error:
            raise Broken(error.reason) from None
        except DecodeError as error:
            raise Broken(str(error)) from None

    def _take(self, message: Any) -> None:
        if not self.is_known:
            if not isinstance(message, Hello):
                raise Broken("it does not say who it is")
            if message.log != self._hello.log:
                raise Broken(f"{message.name} has another log: {message.log}")
            self.is_known = True
            self._most = message.most_request_bytes
            return
        match message:
            case Ask(number, question, prompt, frame):
                self._ask(number, question, frame, prompt=prompt)
            case Begun(number):
                if (underway := self._underway.get(number)) is not None:
                    underway.asked.begun()
            case Answer(number, frame):
                if (ended := self._underway.pop(number, None)) is not None:
                    ended.asked.answered(frame)
            case Refuse(number, code):
                if (ended := self._underway.pop(number, None)) is not None:
                    self._counts.failed["refused"] += code != ONE_BY_ONE
                    ended.asked.failed(ErrorCode.for_code(code) or ErrorCode.UNKNOWN_SERVER_ERROR)
            case Pong(sequence):
                self._fresh_at = self._pings.pop(sequence, self._fresh_at)
            case _:
                raise Broken("it says twice who it is")

    def _ask(self, number: int, question: int, frame: bytes, *, prompt: bool) -> None:
        underway = self._underway.get(number)
        if underway is None:
            return  # it was withdrawn, and the owner hears of that
        said_after = max(underway.sent_at, self._fresh_at)
        if self._clock() - said_after > PASSED_ON_WITHIN_SECONDS:
            self.tell(number, question, None)
        else:
            underway.asked.ask(question, frame, prompt=prompt)

    def lost(self, why: NotForwarded | None = "lost") -> None:
        """The connection is no more: what came of each request is not known. ``why`` it is so; None: this side has
        ended it."""
        underway, self._underway = self._underway, {}
        if why is not None:
            self._counts.failed[why] += len(underway)
        for each in underway.values():
            each.asked.failed(ErrorCode.NOT_COORDINATOR)
