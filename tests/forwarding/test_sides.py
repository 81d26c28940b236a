"""The two sides of a connection between shims, as bytes: whatever pieces these come in, wherever they end, and whatever
else comes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.errors import DecodeError, ErrorCode
from protocol.own.between_shims import (
    FROM_OWNER,
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
from shim.forwarding import Entrusted, Failed, HomeSide, OwnerSide, Request, Room
from shim.forwarding.broken import Broken
from shim.forwarding.home import MOST_TO_STRANGER_BYTES
from shim.forwarding.owner import MOST_STRANGE_BYTES
from shim.upstream.errors import PASSED_ON_WITHIN_SECONDS

MOST = 1 << 20
LOG = Hello("cluster/__offset_shim", "home", MOST)
REQUEST = Request(b"\0\0\0\x04abcd", "User:alice", "/192.0.2.1")


class Client:
    """What has forwarded a request."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def ask(self, question: int, frame: bytes, *, prompt: bool) -> None:
        self.heard.append(("ask", question, frame, prompt))

    def begun(self) -> None:
        self.heard.append("begun")

    def answered(self, frame: bytes) -> None:
        self.heard.append(frame)

    def failed(self, error: ErrorCode) -> None:
        self.heard.append(error)


class Connected:
    """Two sides. What one writes is in ``to_owner`` and ``to_home`` until it is carried."""

    def __init__(self, most: int = MOST) -> None:
        self.now = 0.0
        self.to_owner: list[bytes] = []
        self.to_home: list[bytes] = []
        self.taken: list[Entrusted] = []
        self.home = HomeSide(LOG, self.to_owner.append, lambda: self.now)
        self.owner = OwnerSide(
            LOG._replace(name="owner", most_request_bytes=most), self.to_home.append, self.taken.append, Room(0)
        )

    def carry(self) -> None:
        while self.to_owner or self.to_home:
            data, self.to_owner[:] = b"".join(self.to_owner), []
            self.owner.feed(data)
            data, self.to_home[:] = b"".join(self.to_home), []
            self.home.feed(data)

    def forward(self) -> tuple[Client, int]:
        client = Client()
        return client, self.home.forward(REQUEST, client)


def test_a_request_goes_there_and_its_answer_back() -> None:
    link = Connected()
    client, _ = link.forward()
    link.carry()
    (entrusted,) = link.taken
    assert entrusted.request == REQUEST
    entrusted.begun()
    link.carry()
    assert client.heard == ["begun"]
    entrusted.answer(b"the answer")
    entrusted.answer(b"another")
    entrusted.refuse(ErrorCode.NOT_COORDINATOR)
    link.carry()
    assert client.heard == ["begun", b"the answer"]
    assert not len(link.home)
    assert not len(link.owner)


def test_answers_come_as_they_are_ready() -> None:
    link = Connected()
    clients = [link.forward()[0] for _ in range(3)]
    link.carry()
    first, second, third = link.taken
    third.answer(b"3")
    first.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    link.carry()
    assert [client.heard for client in clients] == [[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS], [], [b"3"]]
    second.answer(b"2")
    link.carry()
    assert clients[1].heard == [b"2"]


def test_the_owner_asks_the_clients_broker() -> None:
    link = Connected()
    client, number = link.forward()
    link.carry()
    replies: list[bytes | None] = []
    link.taken[0].ask(b"first", replies.append, prompt=True)
    link.taken[0].ask(b"second", replies.append, prompt=False)
    link.carry()
    assert client.heard == [("ask", 1, b"first", True), ("ask", 2, b"second", False)]
    one, two = 1, 2
    link.home.tell(number, two, b"reply")
    link.home.tell(number, two, b"once more")
    link.home.tell(number, one, None)
    link.carry()
    assert replies == [b"reply", None]


def test_what_was_withdrawn_leaves_nothing() -> None:
    link = Connected()
    client, number = link.forward()
    link.carry()
    replies: list[bytes | None] = []
    ended: list[str] = []
    link.taken[0].ask(b"?", replies.append, prompt=True)
    link.taken[0].when_withdrawn(lambda: ended.append("ended"))
    link.home.withdraw(number)
    link.home.withdraw(number)
    link.carry()
    assert (replies, ended, client.heard) == ([None], ["ended"], []), "nor is what had been asked by then"
    link.taken[0].answer(b"too late")
    link.taken[0].begun()
    link.taken[0].ask(b"?", replies.append, prompt=True)
    link.carry()
    assert replies == [None, None]
    assert not len(link.home)
    assert not len(link.owner)


def test_what_the_owner_asks_is_passed_on_while_it_is_fresh() -> None:
    link = Connected()
    client, _ = link.forward()
    link.carry()
    replies: list[bytes | None] = []

    link.taken[0].ask(b"in time", replies.append, prompt=True)
    link.now = PASSED_ON_WITHIN_SECONDS
    link.carry()
    assert len(client.heard) == 1

    link.taken[0].ask(b"too late", replies.append, prompt=True)
    link.now += 0.1
    link.carry()
    assert len(client.heard) == 1, "this side was held up, or the request is old"
    assert replies == [None]

    link.home.ping()
    link.carry()
    link.now += PASSED_ON_WITHIN_SECONDS
    link.taken[0].ask(b"after a ping", replies.append, prompt=True)
    link.carry()
    assert len(client.heard) == 2

    link.taken[0].ask(b"before the ping", replies.append, prompt=True)
    link.now += 60.0  # it lies there
    link.home.ping()
    link.carry()
    assert len(client.heard) == 2
    assert replies == [None, None]


def test_a_connection_that_is_lost_ends_all_of_it() -> None:
    link = Connected()
    client, _ = link.forward()
    link.carry()
    ended: list[str] = []
    link.taken[0].when_withdrawn(lambda: ended.append("ended"))
    link.home.lost()
    link.owner.lost()
    assert client.heard == [ErrorCode.NOT_COORDINATOR]
    assert ended == ["ended"]


@pytest.mark.parametrize("other", ["another/__offset_shim", ""])
def test_who_has_another_log_is_asked_nothing_and_told_nothing(other: str) -> None:
    link = Connected()
    stranger = HomeSide(Hello(other, "stranger", MOST), link.to_owner.append, lambda: 0.0)
    link.to_owner.clear()
    sent: list[bytes] = [encode(Hello(other, "stranger", MOST)), encode(Forward(1, "", "", b"x" * 8))]
    with pytest.raises(Broken, match="another log"):
        link.owner.feed(b"".join(sent))
    assert not link.taken
    with pytest.raises(Broken, match="another log"):
        stranger.feed(b"".join(link.to_home))


def test_a_request_that_the_owner_would_not_take_is_not_forwarded() -> None:
    link = Connected(most=1000)
    large = REQUEST._replace(frame=b"x" * (MOST_TO_STRANGER_BYTES + 1))
    with pytest.raises(Failed) as early:
        link.home.forward(large, Client())
    assert early.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "what it takes is not known yet"
    link.carry()
    with pytest.raises(Failed) as late:
        link.home.forward(REQUEST._replace(frame=b"x" * 1001), Client())
    assert late.value.error is ErrorCode.INVALID_REQUEST
    link.home.forward(REQUEST._replace(frame=b"x" * 1000), Client())
    link.carry()
    assert len(link.taken) == 1


def test_what_is_not_answered_has_so_much_room() -> None:
    taken: list[Entrusted] = []
    room = Room(10_000)
    said: list[bytes] = []
    owner = OwnerSide(LOG, said.append, taken.append, room)
    owner.feed(encode(LOG))
    for number, size in enumerate((6_000, 6_000, 100, 50_000)):
        owner.feed(encode(Forward(number, "", "", b"x" * size)))
    assert [len(each.request.frame) for each in taken] == [6_000, 100], "small ones need none"
    assert [decode(FROM_OWNER, each[4:]) for each in said[1:]] == [
        Refuse(number, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) for number in (1, 3)
    ]
    taken[0].let_go()
    taken[0].answer(b"")
    taken[1].refuse(ErrorCode.NOT_COORDINATOR)
    assert room.taken == 0
    owner.feed(encode(Forward(9, "", "", b"x" * 50_000)))
    assert len(taken) == 3, "a large one is taken by itself"
    owner.feed(encode(Withdraw(9)))
    assert room.taken == 0


def parts(message: object, size: int = 50_000) -> tuple[bytes, bytes]:
    """The beginning of a message, with all that a refusal needs, and the rest of it."""
    sent = encode(message)
    assert len(sent) > size
    return sent[:64], sent[64:]


def test_room_is_asked_for_before_a_request_has_come() -> None:
    taken: list[Entrusted] = []
    room = Room(60_000)
    said: list[bytes] = []
    first, second = (OwnerSide(LOG, said.append, taken.append, room) for _ in range(2))
    for each in (first, second):
        each.feed(encode(LOG))
    said.clear()
    one, its_rest = parts(Forward(1, "", "", b"x" * 50_000))
    first.feed(one)
    assert room.taken > 50_000, "it has been announced"
    other, rest_of_other = parts(Forward(7, "", "", b"x" * 50_000))
    second.feed(other[:10])
    assert not said, "it is not known yet which one it is"
    second.feed(other[10:])
    assert decode(FROM_OWNER, said.pop()[4:]) == Refuse(7, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    second.feed(rest_of_other[:-1])
    assert room.taken < 60_000
    second.feed(rest_of_other[-1:] + encode(Withdraw(7)) + encode(Ping(3)) + encode(Forward(8, "", "", b"small")))
    assert decode(FROM_OWNER, said.pop()[4:]) == Pong(3), "what comes behind it is read as ever"
    assert [each.request.frame for each in taken] == [b"small"]
    first.feed(its_rest)
    assert len(taken[1].request.frame) == 50_000
    taken[1].let_go()
    assert not taken[1].request.frame, "what has given its room back is not kept"
    taken[0].answer(b"")
    assert room.taken == 0
    first.feed(encode(Forward(2, "", "", b"x" * 50_000))[:-1])
    first.lost()
    assert room.taken == 0, "nor does one keep it that never comes"


@pytest.mark.parametrize("pieces", [1, 13, 100, 4096, 60_000])
def test_what_is_refused_is_dropped_in_any_pieces(pieces: int) -> None:
    taken: list[Entrusted] = []
    room = Room(10_000)
    room.take(10_000)
    said: list[bytes] = []
    owner = OwnerSide(LOG, said.append, taken.append, room)
    sent = b"".join(map(encode, (LOG, Forward(1, "", "", b"x" * 50_000), Ping(1), Forward(2, "", "", b"small"))))
    for at in range(0, len(sent), pieces):
        owner.feed(sent[at : at + pieces])
    assert [decode(FROM_OWNER, each[4:]) for each in said[1:]] == [
        Refuse(1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        Pong(1),
    ]
    assert [each.request.frame for each in taken] == [b"small"]


def test_what_brokers_have_answered_has_room_of_its_own() -> None:
    taken: list[Entrusted] = []
    room = Room(60_000)
    first, second = (OwnerSide(LOG, lambda data: None, taken.append, room) for _ in range(2))
    replies: list[bytes | None] = []
    for each in (first, second):
        each.feed(encode(LOG) + encode(Forward(1, "", "", b"x" * 50_000 if each is first else b"small")))
        taken[-1].ask(b"?", replies.append, prompt=True)
    beginning, rest = parts(Told(1, 1, b"y" * 50_000))
    first.feed(beginning)
    assert room.replies.taken > 50_000, "a request that has the room is told all the same"
    second.feed(beginning)
    assert replies == [None], "it is not to be had"
    second.feed(rest)
    first.feed(rest)
    assert replies == [None, b"y" * 50_000]
    assert room.replies.taken == 0


def conversation() -> tuple[bytes, bytes]:
    """All that goes to the owner, and from it, where each message is there."""
    to_owner = [encode(each) for each in (LOG, Forward(7, *REQUEST[1:], REQUEST[0]), Told(7, 1, b"reply"), Ping(1))]
    to_home = [encode(each) for each in (LOG, Ask(1, 1, True, b"?"), Begun(1), Answer(1, b"answer"))]
    return b"".join(to_owner), b"".join(to_home)


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 64])
def test_it_is_the_same_in_any_pieces(pieces: int) -> None:
    to_owner, to_home = conversation()
    taken: list[Entrusted] = []
    owner = OwnerSide(LOG, lambda data: None, taken.append, Room(0))
    for at in range(0, len(to_owner), pieces):
        owner.feed(to_owner[at : at + pieces])
    assert [each.request for each in taken] == [REQUEST]
    client = Client()
    home = HomeSide(LOG, lambda data: None, lambda: 0.0)
    home.forward(REQUEST, client)
    for at in range(0, len(to_home), pieces):
        home.feed(to_home[at : at + pieces])
    assert client.heard == [("ask", 1, b"?", True), "begun", b"answer"]


def test_cut_at_any_byte_everybody_is_told() -> None:
    to_owner, to_home = conversation()
    for cut in range(len(to_home)):
        client = Client()
        home = HomeSide(LOG, lambda data: None, lambda: 0.0)
        home.forward(REQUEST, client)
        home.feed(to_home[:cut])
        home.lost()
        ends = [each for each in client.heard if isinstance(each, bytes | ErrorCode)]
        assert ends == [ErrorCode.NOT_COORDINATOR], cut
    for cut in range(len(to_owner)):
        taken: list[Entrusted] = []
        owner = OwnerSide(LOG, lambda data: None, taken.append, Room(0))
        owner.feed(to_owner[:cut])
        owner.lost()
        assert not len(owner)


def test_a_frame_that_is_too_large_is_refused_by_its_size() -> None:
    link = Connected(most=100)
    with pytest.raises(Broken, match="allowed"):
        link.owner.feed((MOST_STRANGE_BYTES + 1).to_bytes(4, "big"))
    link = Connected(most=100)
    with pytest.raises(Broken, match="allowed"):
        link.owner.feed(encode(LOG) + (1 << 20).to_bytes(4, "big"))


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\0\0\x01\x7f",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        encode(LOG)[:4] + b"\x22" + encode(LOG)[5:],
        encode(Forward(1, "", "", b"x")),
        encode(LOG) + encode(LOG),
        encode(LOG) + encode(Forward(1, "", "", b"x")) * 2,
        encode(LOG) + b"\0\0\0\x03\x01\xff\xff",
        encode(LOG) + b"\0\0\x70\0\x04" + b"\0" * 16,
        encode(LOG) + encode(Ping(1))[:-1],
    ],
)
def test_what_no_shim_says_ends_the_connection(sent: bytes) -> None:
    link = Connected()
    with pytest.raises(Broken):
        link.owner.feed(sent + b"\0" * 8192)


@given(st.binary(max_size=400), st.booleans())
@example(b"", True)
def test_hostile_bytes_raise_nothing_else(data: bytes, is_known: bool) -> None:
    link = Connected()
    try:
        link.owner.feed((encode(LOG) if is_known else b"") + data)
    except Broken:
        link.owner.lost()
    link.home.forward(REQUEST, Client())
    try:
        link.home.feed((encode(LOG) if is_known else b"") + data)
    except Broken:
        link.home.lost()


@given(st.sampled_from([*TO_OWNER, *FROM_OWNER]), st.binary(max_size=80))
def test_any_message_is_read_or_refused(kind: int, body: bytes) -> None:
    for kinds in (TO_OWNER, FROM_OWNER):
        try:
            message = decode(kinds, bytes((kind,)) + body)
        except DecodeError:
            continue
        assert decode(kinds, encode(message)[4:]) == message
