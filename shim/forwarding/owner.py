"""Of one connection between shims, the side that owns offsets partitions: pure, bytes in and out."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from protocol.errors import DecodeError, ErrorCode
from protocol.frames import BadFrame, FrameParser
from protocol.own.between_shims import (
    BESIDE_FRAME,
    TO_OWNER,
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
from shim.forwarding.home import Request

MOST_STRANGE_BYTES: Final = 4096
"""Of what somebody says who has not said who it is."""

_SIZE_FIELD: Final = 4

SMALL: Final = 4096
"""Bytes of a message that needs no room, as of clients' own requests."""

_BEGINNING: Final = Struct(">ibii")
"""Of a message: size, kind, number of the request and, of Told, of the question. A large one has as much."""


class _Space:
    """As a client's own one, what is larger than all of it is taken when no other is there."""

    def __init__(self, most: int) -> None:
        """``most``: bytes; none or less: no bound."""
        self.taken = 0
        self._most = most

    def take(self, size: int) -> bool:
        """Whether there is any."""
        if size > SMALL and self._most > 0 and self.taken and self.taken + size > self._most:
            return False
        self.taken += size
        return True

    def give_back(self, size: int) -> None:
        self.taken -= size


class Room(_Space):
    """For the requests that others forward, of all connections: from when a message's size is known until it is
    answered. ``replies``: as much beside it, for what clients' brokers have answered, while it comes: so a request that
    has all the room is not refused what it needs to be answered."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.replies = _Space(most)


Replied = Callable[[bytes | None], None]
"""Called once with what the client's broker has answered; with None where that is not to be had."""


class Entrusted:
    """A client's request that another shim has forwarded here. What is done with it after its end does nothing."""

    __slots__ = ("_held", "_number", "_on_end", "_questions", "_room", "_side", "request")

    def __init__(self, side: OwnerSide, number: int, request: Request, room: Room, held: int) -> None:
        """``room``: so much of it has been taken for the request."""
        self._room = room
        self._held = held
        self._side: OwnerSide | None = side
        self._number = number
        self._questions: dict[int, Replied] = {}
        self._on_end: Callable[[], object] = lambda: None
        self.request = request

    def ask(self, frame: bytes, replied: Replied, *, prompt: bool) -> None:
        """Have the client's broker asked, as the client. Not after :meth:`begun`."""
        if self._side is None:
            replied(None)
            return
        question = self._side.next_question()
        self._questions[question] = replied
        self._side.write(Ask(self._number, question, prompt, frame))

    def begun(self) -> None:
        """Nothing more is asked because of it, and what the client has asked behind it comes behind it."""
        if self._side is not None:
            self._side.write(Begun(self._number))

    def answer(self, frame: bytes) -> None:
        self._end(Answer, frame)

    def refuse(self, error: ErrorCode) -> None:
        self._end(Refuse, int(error))

    def let_go(self) -> None:
        """Nothing is kept of it but what is answered."""
        held, self._held = self._held, 0
        self.request = self.request._replace(frame=b"")
        self._room.give_back(held)

    def when_withdrawn(self, call: Callable[[], object]) -> None:
        """Have this called when nobody waits for the answer any more, before there is one."""
        self._on_end = call

    def _end(self, kind: Callable[[int, Any], Any], what: Any) -> None:
        side = self._side
        if side is not None:
            self.over()
            side.ended(self._number)
            side.write(kind(self._number, what))

    def told(self, question: int, frame: bytes | None) -> None:
        if (replied := self._questions.pop(question, None)) is not None:
            replied(frame)

    def over(self) -> None:
        """Nobody waits for it any more."""
        self._side = None
        self.let_go()
        self._on_end = lambda: None
        questions, self._questions = self._questions, {}
        for replied in questions.values():
            replied(None)

    def withdrawn(self) -> None:
        on_end = self._on_end
        self.over()
        on_end()


class OwnerSide:
    """``came`` is called with each request."""

    def __init__(
        self,
        hello: Hello,
        write: Callable[[bytes], None],
        came: Callable[[Entrusted], None],
        room: Room,
        met: Callable[[], None] = lambda: None,
    ) -> None:
        """``met`` is called when the other one has said who it is; it raises :class:`Broken` where that one is not
        taken."""
        self._hello = hello
        self._write = write
        self._came = came
        self._met = met
        self._most = hello.most_request_bytes + BESIDE_FRAME
        self._room = room
        self._frames = FrameParser(MOST_STRANGE_BYTES, 1)
        self._underway: dict[int, Entrusted] = {}
        self._question = 0
        self._space: _Space | None = None
        self._taken = 0  # of it, for the message that is coming
        self._unwanted = 0  # bytes of one that was refused, still to come
        self.is_known = False
        """Whether the other one has said who it is."""

    def __len__(self) -> int:
        """Requests that are not answered."""
        return len(self._underway)

    def next_question(self) -> int:
        self._question = self._question % (2**31 - 1) + 1
        return self._question

    def write(self, message: Any) -> None:
        self._write(encode(message))

    def ended(self, number: int) -> None:
        del self._underway[number]

    def feed(self, data: bytes) -> None:
        """Raises :class:`Broken`: then the connection is to be closed, and :meth:`lost` called."""
        try:
            if self.is_known:
                self._take_all(data)
            else:
                self._take_first(data)
        except BadFrame as error:
            raise Broken(error.reason) from None
        except DecodeError as error:
            raise Broken(str(error)) from None

    def _take_first(self, data: bytes) -> None:
        """The first message is short; what comes behind it in the same piece may be a whole request, or a part."""
        most = MOST_STRANGE_BYTES + _SIZE_FIELD
        first, behind = data[:most], data[most:]
        for position in range(len(first)):
            found = self._frames.feed(first[position : position + 1])
            if found:
                self._meet(decode(TO_OWNER, found[0]))
                self._frames = FrameParser(self._most, 1)
                self._take_all(first[position + 1 :] + behind)
                return
        if behind:
            raise Broken("it does not say who it is")

    def _meet(self, message: Any) -> None:
        if not isinstance(message, Hello):
            raise Broken("it does not say who it is")
        self.write(self._hello)  # so that the other one can say why
        if message.log != self._hello.log:
            raise Broken(f"{message.name} has another log: {message.log}")
        self._met()
        self.is_known = True

    def _take_all(self, data: bytes) -> None:
        if self._unwanted:
            unwanted = min(self._unwanted, len(data))
            self._unwanted -= unwanted
            data = data[unwanted:]
        for frame in self._frames.feed(data):
            self._take(decode(TO_OWNER, frame), len(frame))
            self._give_back()
        if self._space is None and self._frames.unfinished >= _BEGINNING.size:
            self._admit(*_BEGINNING.unpack(self._frames.begun(_BEGINNING.size)))

    def _admit(self, size: int, kind: int, number: int, question: int) -> None:
        """Room for the message that is coming, before more of it is kept than has been read with its size.

        Where there is none it is refused, and what else comes of it is dropped. The connection is read on: behind it
        are the words by which room is given back (what is withdrawn, what brokers have answered) and the pings; without
        an answer to these the other side would give up all that is under way.
        """
        if size <= SMALL:
            return
        message = TO_OWNER.get(kind)
        if message is Forward:
            self._is_new(number)
            space: _Space = self._room
        elif message is Told:
            space = self._room.replies
        else:
            raise Broken(f"{size} bytes of what is never so many")
        if space.take(size):
            self._space, self._taken = space, size
            return
        self._unwanted = self._frames.give_up()
        if message is Forward:
            self._refuse(number)
        else:
            self._told(number, question, None)

    def _give_back(self) -> None:
        """What was taken for the message that was coming, unless its request has it now."""
        space, self._space = self._space, None
        if space is not None:
            space.give_back(self._taken)

    def _is_new(self, number: int) -> None:
        if number in self._underway:
            raise Broken("a number is there twice")

    def _refuse(self, number: int) -> None:
        self.write(Refuse(number, int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))

    def _told(self, number: int, question: int, reply: bytes | None) -> None:
        if (underway := self._underway.get(number)) is not None:
            underway.told(question, reply)

    def _take(self, message: Any, size: int) -> None:
        match message:
            case Forward(number, principal, client_host, frame):
                self._is_new(number)
                if self._space is None and not self._room.take(size):  # it has come in one read
                    self._refuse(number)
                    return
                self._space = None
                entrusted = Entrusted(self, number, Request(frame, principal, client_host), self._room, size)
                self._underway[number] = entrusted
                self._came(entrusted)
            case Withdraw(number):
                if (withdrawn := self._underway.pop(number, None)) is not None:
                    withdrawn.withdrawn()
            case Told(number, question, reply):
                self._told(number, question, reply)
            case Ping(sequence):
                self.write(Pong(sequence))
            case _:
                raise Broken("it says twice who it is")

    def lost(self) -> None:
        """The connection is no more, and nobody waits for any answer."""
        self._give_back()
        underway, self._underway = self._underway, {}
        for each in underway.values():
            each.withdrawn()
