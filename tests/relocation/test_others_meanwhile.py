"""Who else could have partitions while some are moved, and what is left of a move that somebody comes between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from shim.demo.parts import Broker
from shim.kafka_log.owning.outcomes import Fenced
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.log.directory.places import Place
from shim.relocation.backend import TwoLogs
from shim.relocation.mover import Stage
from shim.relocation.words import Side
from shim.upstream import UpstreamError
from tests.relocation.rig import PARTITIONS, WAIT_S, Rig, not_served, running, settings_of


@pytest.fixture
def prefix(fresh_name: Callable[[], str]) -> str:
    return f"__moved_{fresh_name()}"


def owned(shim: Rig) -> OwnedTopic:
    assert isinstance(shim.backend, TwoLogs)
    offsets = shim.backend._kafka._offsets
    assert offsets is not None
    return offsets


async def until_served(shim: Rig, *, was_lost: bool = False) -> None:
    """Both partitions; ``was_lost``: and one of them was not, before."""
    changed = asyncio.Event()
    shim.runtime.watch(lambda *_: changed.set())
    async with asyncio.timeout(WAIT_S):
        while True:
            unserved = [number for number in range(PARTITIONS) if shim.runtime.coordinator(number) is None]
            was_lost = was_lost and not any(
                shim.runtime.why_not(number) is ErrorCode.NOT_COORDINATOR for number in unserved
            )
            if not unserved and not was_lost:
                return
            changed.clear()
            await changed.wait()


async def test_who_has_its_log_on_topics_serves_none_that_is_still_to_come(
    broker: Broker, tmp_path: Path, prefix: str
) -> None:
    """Killed when the first one has come: of all others the topic says where they are."""
    settings = settings_of(prefix)
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        for number in range(PARTITIONS):
            await shim.fill(number)
        await shim.move_until(0, Side.KAFKA, Stage.SETTLED)
        left = [number for number in range(PARTITIONS) if shim.places[number] is Place.DIRECTORY]
    assert left
    why = await not_served(broker.bootstrap_servers, tmp_path / "other", settings_of(prefix, "kafka"), left[0])
    assert "is in the data directory of a shim" in why


async def test_none_is_moved_where_one_topic_partition_cannot_be_told(
    broker: Broker, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has its log on topics would begin that one with nothing, while it has the others. What was told of the
    first is in nobody's way: all goes on from the directory, and moves when it can."""
    settings = settings_of(prefix)
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        for number in range(PARTITIONS):
            await shim.fill(number)
        before = [shim.state(number) for number in range(PARTITIONS)]
        assert isinstance(shim.backend, TwoLogs)
        await shim.backend.open_topics()
        offsets = owned(shim)
        take_over = offsets.take_over

        async def denied(number: int) -> None:
            if number == 1:
                raise UpstreamError("TOPIC_AUTHORIZATION_FAILED")
            await take_over(number)

        with monkeypatch.context() as patched:
            patched.setattr(offsets, "take_over", denied)
            first, second = await shim.tried(Side.KAFKA)
        assert (first.log, second.log) == ("local", "local")
        assert "see __consumer_offsets-1" in first.trouble
        assert second.trouble == "TOPIC_AUTHORIZATION_FAILED"
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix, "local")) as shim:
        assert [shim.state(number) for number in range(PARTITIONS)] == before
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        await shim.move(Side.KAFKA)
        assert [shim.state(number) for number in range(PARTITIONS)] == before


async def test_one_that_was_fenced_is_taken_again_when_nobody_has_it(
    broker: Broker, tmp_path: Path, prefix: str
) -> None:
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        await shim.fill(1)
        await shim.move(Side.KAFKA)
        before = shim.state(1)
        # As after `transactional.id.expiration.ms`: the brokers give out another producer id.
        offsets = owned(shim)
        for number, (producer, asked) in list(offsets._claiming._epochs.items()):
            offsets._claiming._epochs[number] = producer._replace(producer_id=producer.producer_id - 1), asked
        shim.runtime._failed({1: UpstreamError("nobody knows what is written")}, None)
        await until_served(shim, was_lost=True)
        assert shim.state(1) == before


async def test_a_move_ends_where_somebody_else_gets_the_partition(
    broker: Broker, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        await shim.fill(1)
        await shim.move(Side.KAFKA)
        offsets = owned(shim)

        async def fenced(number: int) -> None:
            raise Fenced("somebody else has got an epoch")

        with monkeypatch.context() as patched:
            patched.setattr(offsets, "take_over", fenced)
            troubles = await shim.tried(Side.LOCAL)
        assert "somebody else has got an epoch" in str(troubles)
        await until_served(shim)
        await shim.move(Side.LOCAL)


async def test_a_stop_amid_a_write_is_in_good_order(
    broker: Broker, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(prefix)
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        await shim.fill(1)
        before = shim.state(1)
        assert isinstance(shim.backend, TwoLogs)
        await shim.backend.open_topics()
        offsets = owned(shim)
        asked, sent = offsets._producer._requests._ask, asyncio.Event()

        async def never_answered(leader: object, batches: object) -> object:
            answer = await asked(leader, batches)  # type: ignore[arg-type]
            if Stage.NOTED in reached:
                sent.set()
                await asyncio.Event().wait()
            return answer

        monkeypatch.setattr(offsets._producer._requests, "_ask", never_answered)
        reached: list[Stage] = []
        shim.mover.reached = lambda number, step: reached.append(step)
        shim.backend.wish(1, Place.TOPIC)
        shim.runtime.reload(1)
        async with asyncio.timeout(WAIT_S):
            await sent.wait()
    # It ended without an error, and the next one knows what counts.
    monkeypatch.undo()
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        assert shim.state(1) == before
