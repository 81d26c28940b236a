"""Asking for rights: only for what is not known, all at once, and a failure grants nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from protocol.api import Api
from protocol.errors import DecodeError, ErrorCode
from protocol.messages import fetch, heartbeat, offset_commit
from shim.security.probing import LONGEST_THROTTLE_MS, PROBES_AT_ONCE, TRIES, NotSaid, granted
from shim.security.rights import Need, Right, Rights

GROUP = Need(Right.READ_GROUP, "g")
TOPIC = Need(Right.READ_TOPIC, "t")


class Broker:
    """Answers when it is told to; ``says`` is the error of whatever it is asked for."""

    def __init__(self, says: int = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        self.says = says
        self.over_quota_ms: list[int] = []  # the throttle times of the next responses, which are empty then
        self.left_over = b""
        self.waiting: list[asyncio.Future[bytes]] = []
        self.asked: list[tuple[Api[Any, Any], int, Any]] = []

    def ask(self, api: Api[Any, Any], version: int, request: Any) -> Awaitable[bytes]:
        self.asked.append((api, version, request))
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    def answer(self) -> None:
        for (api, version, request), waiting in zip(reversed(self.asked), reversed(self.waiting), strict=False):
            response: Any = heartbeat.HeartbeatResponse(error_code=self.says)
            if api is fetch.API and self.over_quota_ms:
                response = fetch.FetchResponse(self.over_quota_ms.pop(0))
            elif api is offset_commit.API:
                refused = (offset_commit.OffsetCommitResponsePartition(-1, self.says),)
                response = offset_commit.OffsetCommitResponse(
                    50,
                    tuple(offset_commit.OffsetCommitResponseTopic(t.name, partitions=refused) for t in request.topics),
                )
            elif api is fetch.API:
                partitions = (fetch.PartitionData(-1, self.says, -1),)
                response = fetch.FetchResponse(
                    responses=tuple(
                        fetch.FetchableTopicResponse(t.topic, partitions=partitions) for t in request.topics
                    )
                )
            frame = api.response_frame(version, 1, response)
            waiting.set_result((len(frame) - 4 + len(self.left_over)).to_bytes(4, "big") + frame[4:] + self.left_over)
        self.waiting.clear()


async def ask(rights: Rights, needs: list[Need], broker: Broker, now: float = 0) -> set[Need]:
    asking = asyncio.ensure_future(granted(rights, needs, broker.ask, lambda: now))
    while not asking.done():
        await asyncio.sleep(0)
        broker.answer()
    return set(asking.result())


async def test_what_is_known_is_not_asked_for_again() -> None:
    rights, broker = Rights(10), Broker()
    assert await ask(rights, [GROUP], broker) == {GROUP}
    assert await ask(rights, [GROUP], broker, 9) == {GROUP}
    assert len(broker.asked) == 1
    assert await ask(rights, [GROUP], broker, 10) == {GROUP}
    assert len(broker.asked) == 2


async def test_a_refusal_is_kept_too() -> None:
    rights, broker = Rights(10), Broker(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert await ask(rights, [GROUP], broker) == set()
    assert await ask(rights, [GROUP], broker, 9) == set()
    assert len(broker.asked) == 1


async def test_an_answer_that_is_not_understood_grants_nothing_and_is_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rights, broker = Rights(10), Broker(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert await ask(rights, [GROUP], broker) == set()
    assert "READ_GROUP for 'g' is refused" in caplog.text
    broker.says = ErrorCode.UNKNOWN_MEMBER_ID
    assert await ask(rights, [GROUP], broker) == {GROUP}


async def test_all_of_it_is_asked_for_before_anything_is_answered() -> None:
    rights, broker = Rights(10), Broker()
    asking = asyncio.ensure_future(granted(rights, [GROUP, TOPIC, Need(Right.READ_GROUP, "h")], broker.ask, lambda: 0))
    await asyncio.sleep(0)
    assert [api.name for api, _, _ in broker.asked] == ["Heartbeat", "Heartbeat", "OffsetCommit"]
    asking.cancel()


async def test_of_very_many_only_so_many_are_under_way() -> None:
    rights, broker = Rights(10), Broker()
    needs = [Need(Right.READ_GROUP, str(number)) for number in range(2 * PROBES_AT_ONCE + 1)]
    asking = asyncio.ensure_future(granted(rights, needs, broker.ask, lambda: 0))
    most = 0
    while not asking.done():
        await asyncio.sleep(0)
        most = max(most, len(broker.waiting))
        broker.answer()
    assert most == PROBES_AT_ONCE
    assert set(asking.result()) == set(needs)


async def test_without_a_broker_nothing_is_granted_or_kept() -> None:
    rights, broker = Rights(10), Broker()
    asking = asyncio.ensure_future(granted(rights, [GROUP], broker.ask, lambda: 0))
    await asyncio.sleep(0)
    broker.waiting[0].set_exception(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await asking
    assert len(rights) == 0


async def test_nonsense_grants_nothing() -> None:
    rights, broker = Rights(10), Broker()
    asking = asyncio.ensure_future(granted(rights, [TOPIC], broker.ask, lambda: 0))
    await asyncio.sleep(0)
    broker.waiting[0].set_result(b"\0\0\0\x08\0\0\0\1\xff\xff\xff\xff")
    with pytest.raises(DecodeError):
        await asking
    assert len(rights) == 0


@pytest.mark.parametrize("needs", [[GROUP], [TOPIC], [GROUP, TOPIC]], ids=["group", "topic", "both"])
async def test_an_answer_with_bytes_left_over_grants_nothing(needs: list[Need]) -> None:
    rights, broker = Rights(10), Broker(ErrorCode.NONE)
    broker.left_over = b"\0"
    with pytest.raises(DecodeError, match="1 bytes are left over"):
        await ask(rights, needs, broker)
    assert len(rights) == 0


async def test_an_empty_answer_to_who_is_over_a_quota_is_no_refusal() -> None:
    rights, broker = Rights(10), Broker(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    broker.over_quota_ms = [40] * (TRIES - 1)
    assert await ask(rights, [TOPIC], broker) == {TOPIC}
    assert len(broker.asked) == TRIES


@pytest.mark.parametrize(
    ("throttle_ms", "asked"), [([1] * 100, TRIES), ([LONGEST_THROTTLE_MS, 1], 2), ([LONGEST_THROTTLE_MS + 1], 1)]
)
async def test_who_stays_over_the_quota_is_told_to_ask_again(throttle_ms: list[int], asked: int) -> None:
    rights, broker = Rights(10), Broker(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    broker.over_quota_ms = [*throttle_ms]
    with pytest.raises(NotSaid):
        await ask(rights, [TOPIC], broker)
    assert len(broker.asked) == asked
    assert len(rights) == 0
    broker.over_quota_ms = []
    assert await ask(rights, [TOPIC], broker) == {TOPIC}


async def test_topics_are_asked_for_beside_a_group_with_what_is_answered_over_a_quota_too() -> None:
    rights, broker = Rights(10), Broker(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rights.learn({GROUP: True}, 0)
    assert await ask(rights, [GROUP, TOPIC], broker) == {GROUP, TOPIC}
    assert [api.name for api, _, _ in broker.asked] == ["OffsetCommit"]


async def test_a_group_that_is_refused_by_now_is_not_taken_for_topics_that_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rights, broker = Rights(10), Broker(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rights.learn({GROUP: True}, 0)
    assert await ask(rights, [GROUP, TOPIC], broker, 5) == set()
    assert rights.known([GROUP, TOPIC], 6) == {GROUP: False}
    assert caplog.messages == []
