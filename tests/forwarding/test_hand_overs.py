"""What is asked at any port of any shim while the owner of the group's partition changes: the right answer, or that the
client is to ask again, and nothing else."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_delete,
    sync_group,
)
from shim.config import HostPort
from shim.demo.parts import Cluster
from shim.upstream.errors import UpstreamError
from tests.conftest import TopicFactory
from tests.forwarding.shims import NODES, forwarding, owner_of
from tests.hung import hung
from tests.ownership.registers import PARTITIONS_OF_A_COMMIT, PATIENCE_S, Register, connection
from tests.ownership.test_shims_together import GROUPS, started
from tests.shim_process import Shim
from tests.wire import WireClient

AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
ASSIGNMENT: Final = b"assigned"
PROTOCOLS: Final = (join_group.JoinGroupRequestProtocol("range", b""),)
MEMBERS_GROUP: Final = "with-a-member"
_OF_A_CONNECTION: Final = 5  # requests
_PAUSE_S: Final = 0.05  # between those of one task: two cores have other things to do, too


def join_of(group: str, member_id: str = "") -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(group, 120_000, 120_000, member_id, None, "test", PROTOCOLS)


def member_of(shim: Shim, group: str) -> str:
    """Of a new group, the only one, with its assignment."""
    with WireClient(shim.port) as client:
        member_id = ""
        while True:
            joined = client.ask(join_group.API, 5, join_of(group, member_id))
            member_id = joined.member_id or member_id
            if not joined.error_code:
                break
        assignments = (sync_group.SyncGroupRequestAssignment(member_id, ASSIGNMENT),)
        request = sync_group.SyncGroupRequest(group, joined.generation_id, member_id, assignments=assignments)
        assert client.ask(sync_group.API, 3, request).assignment == ASSIGNMENT
        return str(member_id)


Question = tuple[Api[Any, Any], int, Any, Callable[[Any], tuple[int, bool]]]


def questions(member_id: str, topic: str) -> list[Question]:
    """What is asked of the group with a member; of each answer its error, and whether it is right where that is not in
    AGAIN."""
    group = MEMBERS_GROUP
    partitions = (offset_delete.OffsetDeleteRequestPartition(0),)
    deleted = offset_delete.OffsetDeleteRequest(group, (offset_delete.OffsetDeleteRequestTopic(topic, partitions),))
    stranger = leave_group.LeaveGroupRequest(group, members=(leave_group.MemberIdentity("nobody", None),))
    return [
        (heartbeat.API, 3, heartbeat.HeartbeatRequest(group, 1, member_id), lambda its: (its.error_code, not its[1])),
        (
            sync_group.API,
            3,
            sync_group.SyncGroupRequest(group, 1, member_id),
            # Who loads tells clients to join again.
            lambda its: (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if its[1] == ErrorCode.REBALANCE_IN_PROGRESS else its[1],
                its.assignment == ASSIGNMENT,
            ),
        ),
        (
            describe_groups.API,
            3,
            describe_groups.DescribeGroupsRequest((group,)),
            lambda its: (its.groups[0].error_code, [each.member_id for each in its.groups[0].members] == [member_id]),
        ),
        (
            delete_groups.API,
            1,
            delete_groups.DeleteGroupsRequest((group,)),
            lambda its: (its.results[0].error_code, its.results[0].error_code == ErrorCode.NON_EMPTY_GROUP),
        ),
        (offset_delete.API, 0, deleted, lambda its: (its.error_code, its[0] == ErrorCode.NON_EMPTY_GROUP)),
        (
            leave_group.API,
            3,
            stranger,
            lambda its: (
                its.error_code,
                not its.error_code and its.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID,
            ),
        ),
        (
            join_group.API,
            5,
            join_of(group, "somebody-else"),
            lambda its: (its.error_code, its.error_code == ErrorCode.UNKNOWN_MEMBER_ID),
        ),
    ]


class AnyPort:
    """Asks at any port of any shim, all the time, and remembers what was wrong."""

    def __init__(self, shims: list[Shim], topic: str, member_id: str) -> None:
        self.wrong: list[str] = []
        self.right: Counter[str] = Counter()
        self.registers = [Register(group, topic) for group in GROUPS]
        self._shims = shims
        self._rng = random.Random(1)
        self._tasks = [asyncio.ensure_future(self._ask(*each)) for each in questions(member_id, topic)]
        for register in self.registers:
            self._tasks += [asyncio.ensure_future(each) for each in (self._commit(register), self._read(register))]

    def _anywhere(self) -> HostPort:
        return HostPort("127.0.0.1", self._rng.choice(self._shims).broker_port(self._rng.choice(NODES)))

    async def _ask(self, api: Api[Any, Any], version: int, request: Any, judge: Callable[[Any], Any]) -> None:
        while True:
            with closing(connection(self._anywhere())) as at, suppress(UpstreamError, TimeoutError):
                async with asyncio.timeout(5.0):
                    for _ in range(_OF_A_CONNECTION):
                        await asyncio.sleep(_PAUSE_S)
                        answer = await at.ask(api, request, at_least=version, at_most=version, once=True)
                        error, is_right = judge(answer)
                        if is_right:
                            self.right[api.name] += 1
                        elif error not in AGAIN:
                            self.wrong.append(f"{api.name}: {answer}")

    async def _commit(self, register: Register) -> None:
        while True:
            with closing(connection(self._anywhere())) as at, suppress(UpstreamError, TimeoutError):
                for _ in range(_OF_A_CONNECTION):
                    await asyncio.sleep(_PAUSE_S)
                    if await register.commit(at, 0):
                        self.right["OffsetCommit"] += 1

    async def _read(self, register: Register) -> None:
        while True:
            with closing(connection(self._anywhere())) as at, suppress(UpstreamError, TimeoutError):
                async with asyncio.timeout(5.0):
                    for _ in range(_OF_A_CONNECTION):
                        await asyncio.sleep(_PAUSE_S)
                        await register.fetch(at, 0)

    async def go_on(self, more: int = 3) -> None:
        """Until each question was answered, and each group had a commit, that often."""
        due = {name: count + more for name, count in self.right.items()}
        commits = [register.acknowledged + more for register in self.registers]
        async with asyncio.timeout(PATIENCE_S):
            while any(self.right[name] < count for name, count in due.items()) or any(
                register.acknowledged < count for register, count in zip(self.registers, commits, strict=True)
            ):
                self.check()
                await asyncio.sleep(0.05)  # it is counted by tasks that answer to nobody

    def check(self) -> None:
        assert not self.wrong, self.wrong[:5]
        for task in self._tasks:
            assert not task.done(), task.exception()

    async def end(self) -> None:
        self.check()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Not before: what is under way may be told, and is written down when it is over.
        wrong = [each for register in self.registers for each in register.wrong]
        assert not wrong, wrong[:5]


async def hand_over(kind: str, owner: Shim, its: AnyPort) -> None:
    match kind:
        case "killed":
            owner.kill()
            await its.go_on()
            await started(owner)
        case "held up":
            with hung(owner.pid):
                await asyncio.gather(its.go_on(), asyncio.sleep(8.0))  # longer than its session, and than its lease
        case "stopped":
            assert await asyncio.to_thread(owner.stop) == 0, owner.log()[-2000:]
            await its.go_on()
            await started(owner)


KINDS: Final = ("killed", "held up", "stopped")


@pytest.mark.parametrize("hand_overs", [1, pytest.param(60, marks=pytest.mark.soak)])
async def test_hand_overs(cluster: Cluster, make_topic: TopicFactory, tmp_path: Path, hand_overs: int) -> None:
    topic = make_topic(len(PARTITIONS_OF_A_COMMIT))
    with forwarding(cluster, topic, tmp_path) as shims:
        member_id = await asyncio.to_thread(member_of, shims[0], MEMBERS_GROUP)
        its = AnyPort(shims, topic, member_id)
        while len(its.right) < 8:  # one of each
            its.check()
            await asyncio.sleep(0.05)  # as above
        for number in range(hand_overs):
            owner, _ = await asyncio.to_thread(owner_of, shims, MEMBERS_GROUP)
            await hand_over(KINDS[number % len(KINDS)], owner, its)
            await its.go_on()
        await its.end()


async def test_who_waits_for_others_is_told_when_the_owner_dies(
    cluster: Cluster, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """Of a JoinGroup that stays for minutes, and of a shim that hangs and one that is gone."""
    with forwarding(cluster, make_topic(len(PARTITIONS_OF_A_COMMIT)), tmp_path) as shims:
        for hangs in (True, False):
            group = f"waits-{hangs}"
            owner, _ = await asyncio.to_thread(owner_of, shims, group)
            other = next(shim for shim in shims if shim is not owner)
            await asyncio.to_thread(member_of, other, group)
            with WireClient(other.port) as client, ExitStack() as ending:
                member_id = client.ask(join_group.API, 5, join_of(group)).member_id
                client.send(join_group.API, 5, join_of(group, member_id))
                sent = time.monotonic()
                if hangs:
                    ending.enter_context(hung(owner.pid))
                else:
                    owner.kill()
                answer = await asyncio.to_thread(client.receive, join_group.API, 5)
                assert answer[1].error_code == ErrorCode.NOT_COORDINATOR, time.monotonic() - sent
