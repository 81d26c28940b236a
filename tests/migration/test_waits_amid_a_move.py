"""A request is taken as the group's step calls for, and waits, for its topics here, while the group is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import offset_commit, offset_delete, offset_fetch, txn_offset_commit
from protocol.own.state_log import Step
from shim.api import OFFERED, Services
from shim.config import Settings
from shim.following import Topics, TransactionFollower
from shim.upstream import Cluster, PortMap
from tests.api.driving import BOOTSTRAP, HOST, Client, call
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import GROUP, DualPlace, at_kafka_dual
from tests.migration.simulated.shim_process import TOPIC
from tests.security.authorizers import NO_AUTHORIZER

BOTH_HAD, CLIENTS = 9, 60
_BACK: Final = (Step.KAFKA_DUAL, Step.ZOOKEEPER_DUAL)
_ON: Final = (Step.UPSTREAM_DUAL,)
_AND_BACK: Final = (Step.KAFKA_DUAL, Step.KAFKA)

_COMMIT: Final = offset_commit.OffsetCommitRequest(
    GROUP,
    topics=(
        offset_commit.OffsetCommitRequestTopic(
            TOPIC, partitions=(offset_commit.OffsetCommitRequestPartition(0, CLIENTS),)
        ),
    ),
)
_IN_A_TRANSACTION: Final = txn_offset_commit.TxnOffsetCommitRequest(
    "t",
    GROUP,
    7,
    0,
    topics=(
        txn_offset_commit.TxnOffsetCommitRequestTopic(
            TOPIC, (txn_offset_commit.TxnOffsetCommitRequestPartition(0, CLIENTS),)
        ),
    ),
)
_DELETION: Final = offset_delete.OffsetDeleteRequest(
    GROUP, (offset_delete.OffsetDeleteRequestTopic(TOPIC, (offset_delete.OffsetDeleteRequestPartition(0),)),)
)
_FETCH: Final = offset_fetch.OffsetFetchRequest(GROUP, (offset_fetch.OffsetFetchRequestTopic(TOPIC, (0,)),))


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


class _Asked:
    """Topics of which it is not known yet which they are, and a transaction's follower that is ready."""

    partition_counts: Final[dict[str, int]] = {}
    any_in_doubt: Final = True

    def __init__(self) -> None:
        self.asked, self.answered = asyncio.Event(), asyncio.Event()

    async def partitions_of(self, names: Iterable[str]) -> dict[str, int | None]:
        await self.certain(names)
        return dict.fromkeys(names, 3)

    def blocked(self, names: Iterable[str]) -> list[str]:
        return [] if self.answered.is_set() else list(names)

    async def certain(self, _: Iterable[str]) -> None:
        self.asked.set()
        await self.answered.wait()

    def ready(self, _: str) -> ErrorCode:
        return ErrorCode.NONE


async def _amid(at: DualPlace, steps: Sequence[Step], api: Api[Any, Any], version: int, request: Any) -> int:
    """The error that is answered to who has asked at kafka, and waits while these are taken."""
    topics = _Asked()
    to = Services(
        at.shim.runtime,
        Cluster([], Settings()),
        PortMap(HOST, BOOTSTRAP),
        OFFERED,
        cast(TransactionFollower, topics),
        cast(Topics, topics),
        NO_AUTHORIZER,
        at.shim.first_contact,
        at.shim.placements,
        at.shim.stores,
    )
    await at.shim.does(at.shim.stepping.move(GROUP, Step.KAFKA, "a test"))
    answers: asyncio.Queue[bytes] = asyncio.Queue()
    served, made = call(api, version, api.request_frame(version, 7, "me", request), Client(), answers.put_nowait)
    waiting = served.handle(to, made)
    assert waiting is not None
    decided = asyncio.ensure_future(at.shim.does(waiting))
    await asyncio.wait([decided, asyncio.ensure_future(topics.asked.wait())], return_when=asyncio.FIRST_COMPLETED)
    assert not decided.done(), decided
    for step in steps:
        await at.shim.does(at.shim.stepping.move(GROUP, step, "a test"))
    topics.answered.set()
    await decided
    response = api.parse_response(version, await answers.get(), 4)[1]
    of_partitions = {each.error_code for topic in response.topics for each in topic.partitions}
    return int(getattr(response, "error_code", 0) or max(of_partitions, default=0))


@pytest.mark.parametrize("steps", [_BACK, _ON], ids=["zookeeper+dual", "upstream+dual"])
@pytest.mark.parametrize(
    ("api", "version", "request_"),
    [
        (offset_commit.API, 8, _COMMIT),
        (txn_offset_commit.API, 3, _IN_A_TRANSACTION),
        (offset_delete.API, 0, _DELETION),
        (offset_fetch.API, 7, _FETCH),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_it_is_asked_again_where_the_group_is_at_another_step(
    api: Api[Any, Any], version: int, request_: Any, steps: Sequence[Step], tmp_path: Path
) -> None:
    """Answered as at the step before, a commit would not be where it has to be."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            error = await _amid(at, steps, api, version, request_)
            assert (error, at.log) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {0: BOTH_HAD})

    virtual_time.run(lived())


@pytest.mark.parametrize("steps", [(), _AND_BACK], ids=["not moved", "moved, and back"])
def test_a_commit_is_taken_where_it_is_at_the_same(steps: Sequence[Step], tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            error = await _amid(at, steps, offset_commit.API, 8, _COMMIT)
            assert (error, at.log) == (ErrorCode.NONE, {0: CLIENTS})

    virtual_time.run(lived())
