"""Requests about groups of another process: the client's rights are asked where it is connected, the owner asks nobody,
and what the owner needs of the client's broker it is told by way of the client's own connection."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Self, cast

import pytest

from protocol.api import Api
from protocol.errors import DecodeError, ErrorCode
from protocol.group_kinds import Kind
from protocol.messages import (
    delete_groups,
    describe_groups,
    heartbeat,
    list_groups,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
)
from protocol.own.between_shims import Hello
from protocol.own.state_log import Step
from shim.api import EntrustedRequests, Services, commits_in_a_row
from shim.api.route import Route
from shim.api.table import TO_OWNERS, TO_WORKERS
from shim.coordinator import GroupCoordinator
from shim.forwarding import Asked, Dial, Forwarded, HomeSide, OwnerSide, Peer, Peers, Request, Room
from shim.metrics import AnswerCounts
from shim.migration.hands.members_seen import MembersSeen
from shim.migration.hands.placements import Placements, Whose
from shim.runtime import Runtime
from tests.api.driving import Client, Partitions, answer, services
from tests.api.test_authorization import Untouched, all_requests, answered, errors_in, refuses, request_of
from tests.migration.placed import EVERYTHING_SERVED
from tests.security.authorizers import AUTHORIZER, NO_AUTHORIZER
from tests.waiting import turns_of_the_loop

HERE, THERE = "group-0", "group-1"
OWNER: Final = "the owner"


class Shared(Partitions):
    """Partition 1 is another process's."""

    def is_owned_elsewhere(self, number: int) -> bool:
        return number == 1


class InMemory:
    """Stands for connections: both sides, in turns of the loop."""

    def __init__(self, owner: EntrustedRequests, counts: AnswerCounts) -> None:
        """``counts``: the owner's."""
        loop = asyncio.get_running_loop()
        self.counts = counts
        hello = Hello("log", "a shim", 1 << 20)
        self.forwarded: list[Request] = []
        self._owner = OwnerSide(
            hello, lambda data: cast(None, loop.call_soon(self._home.feed, data)), owner.accept, Room(0)
        )
        self._home = HomeSide(hello, lambda data: cast(None, loop.call_soon(self._owner.feed, data)), loop.time)

    def owner_of(self, partition: int) -> Peer:
        assert partition == 1
        return OWNER

    def forward(self, peer: Peer, request: Request, asked: Asked) -> Forwarded:
        assert peer == OWNER
        self.forwarded.append(request)
        return Forwarded(self._home, self._home.forward(request, asked))


async def shared(
    here: Any,
    there: Any,
    authorizer: Any = AUTHORIZER,
    doubt: Callable[[], str | None] = lambda: None,
    placements: Placements = EVERYTHING_SERVED,
    forwarded: Mapping[int, Route] = TO_OWNERS,
) -> tuple[Services, InMemory]:
    at_owner = await services({0: ErrorCode.NOT_COORDINATOR, 1: there}, placements=placements)
    counts = AnswerCounts()
    peers = InMemory(EntrustedRequests(at_owner, counts, doubt, forwarded), counts)
    runtime = cast(Runtime, Shared({0: here, 1: ErrorCode.NOT_COORDINATOR}))
    home = await services(authorizer=authorizer)
    return home._replace(runtime=runtime, peers=cast(Peers, peers)), peers


def commit_of(group: str, *names: str) -> offset_commit.OffsetCommitRequest:
    partitions = (offset_commit.OffsetCommitRequestPartition(0, 5),)
    topics = tuple(offset_commit.OffsetCommitRequestTopic(name, partitions=partitions) for name in names)
    return offset_commit.OffsetCommitRequest(group, topics=topics)


@pytest.mark.parametrize(("api", "version"), [case for case in all_requests() if case.values[0] is not list_groups.API])
async def test_what_is_refused_is_not_forwarded(api: Api[Any, Any], version: int) -> None:
    to, peers = await shared(Untouched(), Untouched())
    request = request_of(api, version)
    text = repr(request).replace(HERE, THERE)
    assert text != repr(request)
    request = eval(text, {**vars(__import__(type(request).__module__, fromlist=["x"]))})
    response = await answer(api, version, request, to, Client(broker=refuses))
    refusal = (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if api is txn_offset_commit.API
        else ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    assert set(errors_in(response)) - {ErrorCode.NONE} == {refusal}
    assert peers.forwarded == []


async def test_of_a_commit_what_is_left_is_forwarded() -> None:
    owner = GroupCoordinator()
    to, peers = await shared(Untouched(), owner)
    client = Client(broker=lambda frame: answered(frame, {THERE}, {"yes"}))
    response = await answer(offset_commit.API, 8, commit_of(THERE, "no", "yes"), to, client)
    assert [(t.name, t.partitions[0].error_code) for t in response.topics] == [
        ("no", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("yes", ErrorCode.NONE),
    ]
    everything = offset_fetch.OffsetFetchRequestGroup(THERE, topics=None)
    assert [topic.name for topic in owner.offset_fetch(everything).topics] == ["yes"]
    assert [(each.principal, each.client_host) for each in peers.forwarded] == [("User:alice", "/127.0.0.1")]


@pytest.mark.parametrize("version", [2, 5, 7, 8])
async def test_of_all_offsets_there_a_client_sees_those_of_topics_that_it_may_describe(version: int) -> None:
    owner = GroupCoordinator()
    to, peers = await shared(Untouched(), owner, NO_AUTHORIZER)
    await answer(offset_commit.API, 8, commit_of(THERE, "no", "yes"), to)
    assert len(peers.forwarded) == 1

    guarded = to._replace(authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {THERE}, {"yes"}))
    groups = (offset_fetch.OffsetFetchRequestGroup(THERE, topics=None),)
    request = offset_fetch.OffsetFetchRequest(THERE, None)
    if version >= 8:
        request = offset_fetch.OffsetFetchRequest(groups=groups)
    response = await answer(offset_fetch.API, version, request, guarded, client)
    found = response.groups[0] if version >= 8 else response
    assert (found.error_code, [topic.name for topic in found.topics]) == (ErrorCode.NONE, ["yes"])
    assert len(peers.forwarded) == 3, "once for the topics that there are"


async def test_groups_of_both_are_put_together() -> None:
    to, peers = await shared(GroupCoordinator(), GroupCoordinator(), NO_AUTHORIZER)
    for group in (HERE, THERE):
        await answer(offset_commit.API, 8, commit_of(group, "t"), to)
    names = (THERE, HERE, "other-1", THERE)
    request = offset_fetch.OffsetFetchRequest(
        groups=tuple(offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in names)
    )
    fetched = await answer(offset_fetch.API, 8, request, to)
    assert [(group.group_id, len(group.topics)) for group in fetched.groups] == [
        (THERE, 1), (HERE, 1), ("other-1", 0), (THERE, 1)
    ]  # fmt: skip
    described = await answer(describe_groups.API, 4, describe_groups.DescribeGroupsRequest((THERE, HERE)), to)
    assert [(group.group_id, group.group_state) for group in described.groups] == [(THERE, "Empty"), (HERE, "Empty")]
    deleted = await answer(delete_groups.API, 1, delete_groups.DeleteGroupsRequest((HERE, THERE, "other-1")), to)
    assert [(each.group_id, each.error_code) for each in deleted.results] == [
        (HERE, 0), (THERE, 0), ("other-1", ErrorCode.GROUP_ID_NOT_FOUND)
    ]  # fmt: skip
    assert len(peers.forwarded) == 4


async def test_some_of_the_groups_there_are_refused() -> None:
    to, _ = await shared(GroupCoordinator(), GroupCoordinator())
    client = Client(broker=lambda frame: answered(frame, {HERE, THERE}, set()))
    request = describe_groups.DescribeGroupsRequest(("other-1", HERE, THERE, "other-0"))
    described = await answer(describe_groups.API, 4, request, to, client)
    assert [(group.group_id, group.error_code) for group in described.groups] == [
        ("other-1", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("other-0", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (HERE, ErrorCode.NONE),
        (THERE, ErrorCode.NONE),
    ]


async def test_the_owner_asks_the_clients_broker_for_its_operations() -> None:
    to, _ = await shared(GroupCoordinator(), GroupCoordinator(), NO_AUTHORIZER)

    def broker(frame: bytes) -> bytes:
        correlation_id = int.from_bytes(frame[8:12], "big")
        group = describe_groups.DescribedGroup(0, group_id=THERE, authorized_operations=328)
        return describe_groups.API.response_frame(
            5, correlation_id, describe_groups.DescribeGroupsResponse(groups=(group,))
        )

    request = describe_groups.DescribeGroupsRequest((THERE,), include_authorized_operations=True)
    described = await answer(describe_groups.API, 5, request, to, Client(broker=broker))
    assert [group.authorized_operations for group in described.groups] == [328]


class Underway:
    """An owner that takes its time: the test says when it has begun, and what it answers."""

    def owner_of(self, partition: int) -> Peer:
        return OWNER

    def forward(self, peer: Peer, request: Request, asked: Asked) -> Self:
        self.request, self.asked = request, asked
        return self

    def withdraw(self) -> None:
        """Nobody waits for it any more."""


async def test_a_clients_later_requests_wait_until_the_owner_has_begun_and_no_longer() -> None:
    """What the owner asks the client's broker comes before them."""
    owner = Underway()
    to, _ = await shared(Untouched(), Untouched(), NO_AUTHORIZER)
    to, client = to._replace(peers=cast(Peers, owner)), Client()
    answering = asyncio.create_task(
        answer(heartbeat.API, 4, heartbeat.HeartbeatRequest(THERE, 1, "a member"), to, client)
    )
    await turns_of_the_loop()
    before = client.paused
    owner.asked.begun()
    await turns_of_the_loop()
    assert (before, client.paused, answering.done()) == (True, False, False)
    said = heartbeat.HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    owner.asked.answered(heartbeat.API.response_frame(4, 7, said))
    assert await answering == said


class Heard:
    """What is told of a request where its client is."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.question = -1
        self.over = asyncio.Event()

    def ask(self, question: int, frame: bytes, *, prompt: bool) -> None:
        self.words.append("ask")
        self.question = question

    def begun(self) -> None:
        self.words.append("begun")

    def answered(self, frame: bytes) -> None:
        self.words.append("answered")
        self.over.set()

    def failed(self, error: ErrorCode) -> None:
        self.words.append(error.name)
        self.over.set()


class NotFoundOut(Placements):
    """Of a group that turns out to be the cluster's."""

    def __init__(self) -> None:
        self.is_known = asyncio.Event()
        self.members = MembersSeen()

    def of(self, group_id: str) -> Whose:
        return Whose.PASSED_THROUGH if self.is_known.is_set() else Whose.UNKNOWN

    async def find_out(self, group_id: str, opens: Kind | None) -> ErrorCode:
        await self.is_known.wait()
        return ErrorCode.NONE

    def gathering(self, group_id: str) -> None:
        return None

    def surely_here(self, group_ids: Iterable[str]) -> bool:
        return True

    def passing(self, group_ids: Iterable[str], answered: asyncio.Future[bytes]) -> None:
        """It is not moved meanwhile."""

    def steps_of(self, group_ids: Iterable[str]) -> dict[str, Step | None]:
        return {}


async def test_an_owner_begins_when_it_has_asked_the_clients_broker() -> None:
    """Otherwise what the client has sent behind its request would come to its broker first."""
    placements, heard = NotFoundOut(), Heard()
    _, peers = await shared(Untouched(), Untouched(), NO_AUTHORIZER, placements=placements)
    frame = offset_commit.API.request_frame(8, 7, "me", commit_of(THERE, "t"))
    forwarded = peers.forward(OWNER, Request(frame, "", ""), heard)
    await turns_of_the_loop()
    before = list(heard.words)
    placements.is_known.set()
    await turns_of_the_loop()
    assert (before, heard.words) == ([], ["ask", "begun"])
    said = offset_commit.API.response_frame(8, 7, offset_commit.OffsetCommitResponse())
    forwarded.tell(heard.question, said)
    await heard.over.wait()
    assert heard.words == ["ask", "begun", "answered"]


class NotAtOnce(Placements):
    """Of a group that is the cluster's when it is first asked for, and served from then on."""

    def __init__(self) -> None:
        self._answers = iter((Whose.PASSED_THROUGH,))

    def of(self, group_id: str) -> Whose:
        return next(self._answers, Whose.SERVED)

    def gathering(self, group_id: str) -> None:
        return None


@pytest.mark.parametrize("at_once", [True, False])
async def test_commits_that_come_together(at_once: bool) -> None:
    """Forwarded as they came, and where the owner does not take them at once, one after the other."""
    owner = GroupCoordinator()
    to, peers = await shared(
        Untouched(), owner, NO_AUTHORIZER, placements=EVERYTHING_SERVED if at_once else NotAtOnce()
    )
    frames = [offset_commit.API.request_frame(8, number, "me", commit_of(THERE, "t")) for number in range(3)]
    row = b"".join(frames)
    client = Client()
    assert commits_in_a_row.several(to, client, row, 0, 64) == len(row)
    was_paused = client.paused
    await client.followed
    assert (was_paused, client.paused) == (True, False)
    assert [each.frame for each in peers.forwarded] == ([row] if at_once else [row, *frames])
    (answers,) = client.answered
    answer_size = len(answers) // 3
    for number in range(3):
        frame = answers[number * answer_size : (number + 1) * answer_size]
        correlation_id, response = offset_commit.API.parse_response(8, frame, 4)
        assert (correlation_id, response.topics[0].partitions[0].error_code) == (number, ErrorCode.NONE)


async def test_commits_that_come_together_are_refused_together() -> None:
    to, _ = await shared(Untouched(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NO_AUTHORIZER)
    row = b"".join(offset_commit.API.request_frame(8, number, "me", commit_of(THERE, "t")) for number in range(3))
    client = Client()
    assert commits_in_a_row.several(to, client, row, 0, 64) == len(row)
    await client.followed
    (answers,) = client.answered
    assert answers.count(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.to_bytes(2, "big")) == 3


def errors(counts: AnswerCounts) -> dict[int, int]:
    return {kind & 0xFFFF: count for kind, count in counts.errors.items()}


async def test_of_a_commit_each_counts_what_it_has_decided() -> None:
    to, peers = await shared(Untouched(), GroupCoordinator())
    client = Client(broker=lambda frame: answered(frame, {THERE}, {"yes", "too"}))
    await answer(offset_commit.API, 8, commit_of(THERE, "no", "yes", "too"), to, client)
    assert (client.counts.offsets_committed, errors(client.counts)) == (0, {ErrorCode.TOPIC_AUTHORIZATION_FAILED: 1})
    assert (peers.counts.offsets_committed, errors(peers.counts)) == (2, {})


@pytest.mark.parametrize(
    ("names", "here", "there"),
    [
        ((HERE, THERE), 1, 1),
        ((THERE,), 0, 1),
        ((THERE, "other-1"), 0, 1),
        (("kept-0", THERE, "other-1"), 0, 1),
        ((HERE, "kept-1"), 1, 0),
    ],
)
async def test_of_a_divided_request_each_counts_its_part(names: tuple[str, ...], here: int, there: int) -> None:
    to, peers = await shared(GroupCoordinator(), GroupCoordinator(), NO_AUTHORIZER)
    for group in ("kept-0", "kept-1"):
        await answer(offset_commit.API, 8, commit_of(group, "t"), to)
    client = Client()
    deleted = await answer(delete_groups.API, 1, delete_groups.DeleteGroupsRequest(names), to, client)
    assert {each.group_id for each in deleted.results} == set(names)
    missing = ErrorCode.GROUP_ID_NOT_FOUND
    assert errors(client.counts) == ({missing: here} if here else {})
    assert errors(peers.counts) == ({missing: there} if there else {})


@pytest.mark.parametrize(("is_loading", "at_home"), [(False, 0), (True, 1)])
async def test_a_list_that_another_one_refuses_is_counted_there(is_loading: bool, at_home: int) -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    to, peers = await shared(
        loading if is_loading else GroupCoordinator(), loading, NO_AUTHORIZER, forwarded=TO_WORKERS
    )
    cast(Any, to.runtime).owned = range(1)
    client = Client()
    listed = await answer(list_groups.API, 4, list_groups.ListGroupsRequest(), to._replace(others=[OWNER]), client)
    assert listed.error_code
    assert sum(errors(peers.counts).values()) == 1
    assert sum(errors(client.counts).values()) == at_home


async def test_what_the_owner_did_not_answer_is_counted_here() -> None:
    to, peers = await shared(GroupCoordinator(), Untouched(), NO_AUTHORIZER, lambda: "nobody is believed")
    client = Client()
    await answer(describe_groups.API, 4, describe_groups.DescribeGroupsRequest((HERE, THERE)), to, client)
    assert errors(client.counts) == {ErrorCode.NOT_COORDINATOR: 1}
    assert errors(peers.counts) == {}


class Slow(Client):
    """Its broker answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def ask(self, frame: bytes, *, prompt: bool = True) -> Awaitable[bytes]:
        return self.pending


class Nonsense:
    """In the place of :class:`Peers`."""

    def forward(self, peer: Peer, request: Request, asked: Asked) -> None:
        asked.answered(b"\0\0\0\4" + request.frame[8:12])


async def test_of_a_list_that_fails_nothing_is_left_behind() -> None:
    """Another process has answered nonsense, and then the broker goes away."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    to = (await services())._replace(peers=cast(Peers, Nonsense()), others=[OWNER])
    client = Slow()
    with pytest.raises(DecodeError):
        await answer(list_groups.API, 4, list_groups.ListGroupsRequest(), to, client)
    client.pending.set_exception(ConnectionError())
    await asyncio.sleep(0)
    del client
    gc.collect()
    assert complaints == []


class Misanswering(Peers):
    """Its owner answers what ``misanswer`` makes of the answers."""

    def __init__(self, answering: InMemory, misanswer: Callable[[bytes], bytes]) -> None:
        super().__init__(answering.owner_of, cast(Dial, None), lambda: Hello("log", "a shim", 1 << 20))
        self._answering = answering
        self._misanswer = misanswer

    def forward(self, peer: Peer, request: Request, asked: Asked) -> Forwarded:
        its = cast(Any, asked)
        answered = its.answered
        its.answered = lambda frame: answered(self._misanswer(frame))
        return self._answering.forward(peer, request, asked)


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


MISANSWERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "to another request": lambda frame: frame[:4] + b"\0\0\1\0" + frame[8:],
    "nothing": lambda frame: b"",
    "an empty frame": lambda frame: sized(b""),
    "no correlation id": lambda frame: sized(frame[4:7]),
    "a negative size": lambda frame: b"\xff\xff\xff\xff" + frame[4:],
    "cut": lambda frame: frame[:-1],
    "a byte more": lambda frame: frame + b"\0",
    "a size of more": lambda frame: (len(frame) - 3).to_bytes(4, "big") + frame[4:],
    "one more": lambda frame: frame + frame,
}


async def misanswering(misanswer: Callable[[bytes], bytes]) -> Services:
    to, answering = await shared(Untouched(), GroupCoordinator(), NO_AUTHORIZER)
    return to._replace(peers=Misanswering(answering, misanswer))


@pytest.mark.parametrize("misanswer", [pytest.param(make, id=name) for name, make in MISANSWERS.items()])
async def test_what_is_no_answer_to_it_does_not_reach_the_client(
    misanswer: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """It is said of whom it came, each time."""
    to = await misanswering(misanswer)
    request = heartbeat.HeartbeatRequest(THERE, 1, "m")
    found = [await answer(heartbeat.API, 3, request, to) for _ in range(2)]
    assert [each.error_code for each in found] == [ErrorCode.NOT_COORDINATOR] * 2
    told = "the shim at the owner answers something else than it was asked: its answer is thrown away"
    assert [each.getMessage() for each in caplog.records] == [told] * 2
    assert to.peers is not None
    assert {why: count for why, count in to.peers.counts.failed.items() if count} == {"misanswered": 2}


def split(answers: bytes, count: int) -> list[bytes]:
    """They are all of one size."""
    size = len(answers) // count
    return [answers[start : start + size] for start in range(0, len(answers), size)]


@pytest.mark.parametrize(
    "misanswer",
    [
        *(pytest.param(make, id=name) for name, make in MISANSWERS.items()),
        pytest.param(lambda answers: b"".join(split(answers, 3)[:2]), id="one less"),
        pytest.param(lambda answers: b"".join(reversed(split(answers, 3))), id="in another order"),
        pytest.param(lambda answers: b"".join([split(answers, 3)[0]] * 3), id="one of them again and again"),
    ],
)
async def test_answers_that_are_not_those_to_a_row_do_not_reach_the_client(
    misanswer: Callable[[bytes], bytes],
) -> None:
    to = await misanswering(misanswer)
    row = b"".join(offset_commit.API.request_frame(8, number, "me", commit_of(THERE, "t")) for number in range(3))
    client = Client()
    assert commits_in_a_row.several(to, client, row, 0, 64) == len(row)
    await client.followed
    (answers,) = client.answered
    found = [offset_commit.API.parse_response(8, frame, 4) for frame in split(answers, 3)]
    assert [(number, response.topics[0].partitions[0].error_code) for number, response in found] == [
        (number, ErrorCode.NOT_COORDINATOR) for number in range(3)
    ]


async def test_nobody_is_believed_who_cannot_be(caplog: pytest.LogCaptureFixture) -> None:
    """It is said why, once for each reason."""
    doubts = [*["shims.principals names nobody"] * 3, None, "shims.principals names nobody"]
    because = iter(doubts)
    to, peers = await shared(Untouched(), GroupCoordinator(), NO_AUTHORIZER, lambda: next(because))
    found = [await answer(heartbeat.API, 3, heartbeat.HeartbeatRequest(THERE, 1, "m"), to) for _ in doubts]
    refused, served = ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.error_code for each in found] == [refused, refused, refused, served, refused]
    assert len(peers.forwarded) == 5
    said = "requests that other shims forward are answered NOT_COORDINATOR for now: shims.principals names nobody"
    assert [each.getMessage() for each in caplog.records if each.name == "shim.api.entrusted"] == [said] * 2


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b"", ErrorCode.NOT_COORDINATOR),
        (b"\0\0\0\4\0\0\0\1", ErrorCode.NOT_COORDINATOR),
        (b"\0\0\0\4\0\x10\0\4\0\0\0\1", ErrorCode.NOT_COORDINATOR),  # ListGroups
        (b"\0\0\0\4\0\x0c\x7f\xff\0\0\0\1", ErrorCode.NOT_COORDINATOR),
        (b"\0\0\0\4\0\x0c\xff\xff\0\0\0\1", ErrorCode.NOT_COORDINATOR),
        (b"\0\0\0\x08\0\x0c\0\1\0\0\0\1", ErrorCode.INVALID_REQUEST),
        (b"\0\0\0\0\0\x08\0\7\0\0\0\1" * 3, ErrorCode.OPERATION_NOT_ATTEMPTED),  # in a row
        (b"\x7f\xff\xff\xff\0\x08\0\7\0\0\0\1\0\0", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_no_request_is_refused(frame: bytes, error: ErrorCode) -> None:
    _, peers = await shared(Untouched(), Untouched())
    told: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    class Hostile:
        def failed(self, error: ErrorCode) -> None:
            told.set_result(error)

        def begun(self) -> None:
            """Whatever that means here."""

    peers.forward(OWNER, Request(frame, "", ""), cast(Asked, Hostile()))
    async with asyncio.timeout(30.0):
        assert await told == error
