"""What is told of a change when nobody knows what became of it: not that it was refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from shim.groups.beforehand import Beforehand
from shim.groups.changing import Changing
from shim.groups.deleting import Deleting
from shim.groups.resetting import Resetting
from shim.groups.words import NO_OFFSET, Change, NotCertain, Refused
from shim.migration.hands.placements import Whose
from shim.offsets.cluster.brokers import BrokerRefused
from shim.runtime import Clock
from shim.upstream import UpstreamError


def changing(answer: ErrorCode) -> Changing:
    """Of a runtime that fails every request so."""
    runtime: Any = SimpleNamespace(
        partition_of=lambda _: 0, submit=lambda _number, _operation, ticket: ticket.fail(answer)
    )
    return Changing(runtime, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]


def passed_through() -> tuple[Beforehand, Changing]:
    """Of a group that the cluster serves."""
    placements: Any = SimpleNamespace(
        of=lambda _: Whose.PASSED_THROUGH, passing=lambda *_: None, surely_here=lambda _: True
    )

    async def whose(*_: object) -> Whose:
        return Whose.PASSED_THROUGH

    first_contact: Any = SimpleNamespace(whose=whose)
    nobody: Any = SimpleNamespace()
    return Beforehand(first_contact, placements, nobody), Changing(nobody, placements, nobody)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, NotCertain),  # a write has failed, or the shim stops
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, NotCertain),
        (ErrorCode.UNKNOWN_SERVER_ERROR, NotCertain),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Refused),
    ],
)
async def test_the_log_does_not_say(answer: ErrorCode, told: type[Exception]) -> None:
    with pytest.raises(told):
        await changing(answer).decided("g", lambda *_: pytest.fail("nobody decides"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UpstreamError("no answer in 30 s"), NotCertain),
        (BrokerRefused(ErrorCode.NON_EMPTY_GROUP, "group g"), Refused),
        (BrokerRefused(ErrorCode.GROUP_AUTHORIZATION_FAILED, "group g"), Refused),
    ],
)
async def test_the_cluster_does_not_say_whether_it_has_deleted(error: Exception, told: type[Exception]) -> None:
    async def delete_group(_: str) -> None:
        raise error

    async def described(_: str, within_seconds: float | None) -> Any:
        assert within_seconds is None, "that is for who only looks"
        return SimpleNamespace(group_state="Empty")

    async def offsets(_: str, within_seconds: float | None) -> Any:
        assert within_seconds is None
        return {("orders", 0): 3}

    async def refusal(group: str, error: ErrorCode) -> Refused:
        return Refused(f"group {group}: {error.name}")

    looking: Any = SimpleNamespace(described=described, offsets=offsets, in_use=lambda _: "", refusal=refusal)
    cluster: Any = SimpleNamespace(delete_group=delete_group, forget=lambda _: None)
    with pytest.raises(told):
        await Deleting(*passed_through(), looking, cluster).delete("g", "why", "127.0.0.1")


async def test_nothing_is_sent_where_another_shim_may_have_the_group() -> None:
    async def confirmed_here(_: list[str]) -> ErrorCode:
        return ErrorCode.NOT_COORDINATOR

    placements: Any = SimpleNamespace(
        of=lambda _: Whose.PASSED_THROUGH,
        passing=lambda *_: pytest.fail("nothing is on its way"),
        surely_here=lambda _: False,
        confirmed_here=confirmed_here,
    )
    with pytest.raises(Refused, match="another shim"):
        async with Changing(SimpleNamespace(), placements, SimpleNamespace()).passing("g"):  # type: ignore[arg-type]
            pytest.fail("it was passed on")


async def test_no_offset_is_no_offset_to_commit() -> None:
    """The cluster takes -1 for an offset."""

    async def one(_: list[str]) -> Any:
        return {"orders": SimpleNamespace(partitions=1)}

    async def state_of(_: str) -> str:
        return "Empty"

    async def try_commit(_: str, to_set: Any) -> Any:
        raise AssertionError(f"committed: {to_set}")

    async def found(_: list[str]) -> Any:
        return {"g": {TopicPartition("orders", 0): SimpleNamespace(offset=3)}}

    cluster: Any = SimpleNamespace(state_of=state_of, offsets_of=found, try_commit=try_commit)
    there: Any = SimpleNamespace()
    topics: Any = SimpleNamespace(one=one)
    resetting = Resetting(*passed_through(), there, there, cluster, there, topics, Clock())
    with pytest.raises(Refused, match="no offset can be taken away there"):
        await resetting.reset("g", [Change("orders", 0, 3, NO_OFFSET)], "why", "127.0.0.1")
