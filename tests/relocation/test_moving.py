"""Partitions are moved between the data directory and topics of a real broker, and killed between any two steps: what
counts is in one place, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer

from protocol.messages.describe_groups import DescribedGroupMember
from protocol.own.shim_group import ShimMember, encode_member
from shim.demo.parts import Broker
from shim.groups.groups import Groups
from shim.log import LogError
from shim.log.directory.places import Place
from shim.migration.migration import Migration
from shim.relocation.mover import Stage
from shim.relocation.others import _called
from shim.relocation.words import CannotMove, Side
from shim.serve.health import Health
from shim.serve.measuring import Measuring
from shim.serve.overview import Whole
from shim.upstream.topic_leaders import LedTopic
from tests.conftest import TopicFactory
from tests.relocation.rig import PARTITIONS, not_served, running, settings_of

BOTH = range(PARTITIONS)


@pytest.fixture
def prefix(fresh_name: Callable[[], str]) -> str:
    return f"__moved_{fresh_name()}"


async def test_there_and_back(broker: Broker, tmp_path: Path, prefix: str) -> None:
    """All that a partition has is there as it was, and goes on from there, over restarts; twice, as the second time
    there is something old where it comes to."""
    settings = settings_of(prefix)
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        for number in BOTH:
            await shim.fill(number)
    for turn in (1, 2):
        for side in (Side.KAFKA, Side.LOCAL):
            async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
                before = [shim.state(number) for number in BOTH]
                await shim.move(side)
                assert [shim.state(number) for number in BOTH] == before
                group = shim.group_in(0)
                await shim.commit(group, turn * 1_000, 7)
                await shim.begin(80 + turn, group, turn, 8)
                after = [shim.state(number) for number in BOTH]
            async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
                assert [shim.state(number) for number in BOTH] == after
                assert shim.offset(group, 7) == turn * 1_000
                await shim.end(80 + turn, 0, committed=True)
                assert shim.offset(group, 8) == turn
                await shim.commit(group, turn * 2_000, 7)
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        await shim.end(71, 0, committed=True)
        await shim.end(72, 0, committed=True)
        assert [shim.offset(group, at) for at in range(3)] == [50, 200, 200]


async def test_what_is_replayed_of_a_topic_counts(
    broker: Broker, tmp_path: Path, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A start tells how many records it has replayed, whichever log they are in."""
    caplog.set_level("INFO", "shim.runtime.progress")
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        await shim.commit(shim.group_in(0), 5)
        await shim.move(Side.KAFKA)
    caplog.clear()
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)):
        (told,) = [each.getMessage() for each in caplog.records if each.name == "shim.runtime.progress"]
    assert re.match(r"loaded 2 partitions \(0 from snapshots\), [1-9]\d* records? replayed", told), told


@pytest.mark.parametrize("step", Stage)
@pytest.mark.parametrize("to", Side)
async def test_killed_between_two_steps(broker: Broker, tmp_path: Path, prefix: str, to: Side, step: Stage) -> None:
    settings = settings_of(prefix)
    data_dir = tmp_path / "d"
    async with running(broker.bootstrap_servers, data_dir, settings) as shim:
        await shim.fill(1)
        if to is Side.LOCAL:
            await shim.move(Side.KAFKA)
        before = shim.state(1)
    async with running(broker.bootstrap_servers, data_dir, settings) as shim:
        await shim.move_until(1, to, step)
    async with running(broker.bootstrap_servers, data_dir, settings) as shim:
        # From when the topic has said so on, and not before, it is there.
        has_come = step in (Stage.TOLD, Stage.SETTLED)
        assert shim.places[1] is _place_of(to if has_come else _other(to))
        assert shim.state(1) == before
        await shim.commit(shim.group_in(1), 77, 7)
        after = shim.state(1)
        await shim.move(to)
        assert shim.state(1) == after
    async with running(broker.bootstrap_servers, data_dir, settings_of(prefix, str(to))) as shim:
        assert shim.state(1) == after, "one without the other log finds it all the same"


@pytest.mark.parametrize("to", Side)
async def test_a_partition_that_is_moved_is_not_missed(broker: Broker, tmp_path: Path, prefix: str, to: Side) -> None:
    """Whoever asks whether the shim is ready is not told otherwise: the others are served, and that one comes back."""
    found: list[tuple[int, list[str]]] = []
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        if to is Side.LOCAL:
            await shim.move(Side.KAFKA)
        health = Health()
        health.opened(shim.runtime, shim.cluster, cast(Whole, None), cast(Measuring, None))
        health.started(cast(Migration, None), cast(Groups, None), shim.relocation)

        def names() -> list[str]:
            return [shim.runtime.name_of(number) for number in BOTH]

        there = {Side.LOCAL: "__consumer_offsets", Side.KAFKA: f"{prefix}_offsets"}
        assert names() == [f"{there[Side.KAFKA if to is Side.LOCAL else Side.LOCAL]}-{number}" for number in BOTH]

        def lacking() -> tuple[int, list[str]]:
            return shim.runtime.unavailable.total(), [line for line in health.missing() if "partition" in line]

        shim.mover.reached = lambda number, step: found.append(lacking())
        await shim.move(to)
        assert names() == [f"{there[to]}-{number}" for number in BOTH]
        assert found
        assert set(map(str, found)) == {"(1, [])"}
        assert lacking() == (0, [])
        shim.runtime.own([0])
        shim.runtime.own([0, 1])
        assert lacking() == (1, ["1 of 2 partitions is not loaded"]), "of one that is not moved it is told"


async def test_what_had_offsets_is_told_of_in_a_line_and_the_sum(
    broker: Broker, tmp_path: Path, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "shim.relocation.relocation")
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        await shim.commit(shim.group_in(1), 5)
        await shim.move(Side.KAFKA)
    assert [each.getMessage() for each in caplog.records if each.name == "shim.relocation.relocation"][-3:] == [
        "2 partitions of 2 to be moved to kafka",
        "__consumer_offsets-1 is moved to kafka: 1 offset",
        "all 2 partitions are at kafka; 1 offset moved just now",
    ]


async def test_of_each_that_had_offsets_one_line_is_told(
    broker: Broker, tmp_path: Path, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is taken over several times for that, which is of no interest to anybody; and once at the next start."""
    caplog.set_level(logging.DEBUG, "shim")

    def told(level: int) -> list[str]:
        lines = [each.getMessage() for each in caplog.records if each.levelno == level]
        caplog.clear()
        return [each for each in lines if re.search(r"offsets-\d", each)]

    taken_over = f"{prefix}_offsets-%d: taken over, "
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        for number in BOTH:
            await shim.commit(shim.group_in(number), 5)
        for to in (Side.KAFKA, Side.LOCAL, Side.KAFKA):
            told(logging.INFO)
            await shim.move(to)
            debug = [each.getMessage() for each in caplog.records if each.levelno == logging.DEBUG]
            assert told(logging.INFO) == [f"__consumer_offsets-{number} is moved to {to}: 1 offset" for number in BOTH]
            assert all(any(each.startswith(taken_over % number) for each in debug) for number in BOTH)
    told(logging.INFO)
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)):
        lines = told(logging.INFO)
        assert all(sum(each.startswith(taken_over % number) for each in lines) == 1 for number in BOTH)


async def test_not_while_others_share_the_topics(
    broker: Broker, tmp_path: Path, prefix: str, make_topic: TopicFactory
) -> None:
    topic = make_topic(1)
    member = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": prefix})
    member.subscribe([topic])
    settings = settings_of(prefix)
    try:
        async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
            assert shim.relocation is not None
            while not member.assignment():
                await asyncio.to_thread(member.poll, 0.1)
            with pytest.raises(
                CannotMove, match=r"1 other shim shares the topics of the log \(one at 127\.0\.0\.1\): stop it "
            ):
                await shim.relocation.begin(Side.KAFKA)
            await asyncio.to_thread(member.close)
            await shim.move(Side.KAFKA)
        member = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": prefix})
        member.subscribe([topic])
        while not member.assignment():
            await asyncio.to_thread(member.poll, 0.1)
        with pytest.raises(LogError, match="1 other shim shares the topics"):
            async with running(broker.bootstrap_servers, tmp_path / "d", settings):
                pass
    finally:
        member.close()


def test_shims_are_told_of_by_their_addresses() -> None:
    member = DescribedGroupMember("m", "i", client_host="/10.0.0.5", member_metadata=b"of another release")
    assert _called(member) == "one at 10.0.0.5"
    said = encode_member(ShimMember("shim-1:19092", ()))
    assert _called(member._replace(member_metadata=said)) == "shim-1:19092"


async def test_not_over_offsets_of_shims_that_had_the_topics(broker: Broker, tmp_path: Path, prefix: str) -> None:
    """They have some in one partition alone; the other one is not moved either, as the first can be had by them."""
    async with running(broker.bootstrap_servers, tmp_path / "k", settings_of(prefix, "kafka")) as shim:
        await shim.commit(shim.group_in(0), 5)
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        await shim.commit(shim.group_in(0), 6)
        await shim.commit(shim.group_in(1), 7)
        found = await shim.tried(Side.KAFKA)
        assert {each.log for each in found} == {"local"}
        assert "has offsets of its own" in found[0].trouble
        assert "none is moved before each topic partition says where it is" in found[1].trouble
        assert (shim.offset(shim.group_in(0)), shim.offset(shim.group_in(1))) == (6, 7)


async def test_another_number_of_partitions_than_the_cluster_has_is_told_of(
    broker: Broker, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        assert shim.relocation is not None
        assert not shim.relocation.places().warning
        await shim.move(Side.KAFKA)
        warning = shim.relocation.places().warning
        assert warning.startswith(
            "this log has 2 partitions, the cluster's __consumer_offsets 5: with offsets.log=kafka"
        )
        await shim.move(Side.LOCAL)
        assert not shim.relocation.places().warning
        look_up = shim.relocation._clusters_offsets.look_up

        async def alike(patience: float) -> LedTopic:
            found = await look_up(patience)
            return found._replace(places={number: found.places[number] for number in BOTH})

        monkeypatch.setattr(shim.relocation._clusters_offsets, "look_up", alike)
        await shim.move(Side.KAFKA)
        assert not shim.relocation.places().warning


@pytest.mark.parametrize(
    ("last", "remedy"),
    [
        (Stage.READ, "see offset-shim log verify"),
        (Stage.NOTED, "put that right, and start the shim again"),
        (Stage.SETTLED, "put that right, and start the shim again"),
    ],
)
async def test_what_is_to_be_done_about_one_is_said_for_where_it_is_looked_for(
    broker: Broker, tmp_path: Path, prefix: str, last: Stage, remedy: str
) -> None:
    """Of one that was on its way that is its topic."""
    async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix)) as shim:
        await shim.move_until(0, Side.KAFKA, last)
        assert shim.backend.remedy(0) == remedy


async def test_not_over_what_another_directory_has_moved_there(broker: Broker, tmp_path: Path, prefix: str) -> None:
    """And a shim with its log on topics does not serve what is in a directory."""
    settings = settings_of(prefix)
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        await shim.commit(shim.group_in(0), 6)
        await shim.move_until(0, Side.KAFKA, Stage.SETTLED)
    async with running(broker.bootstrap_servers, tmp_path / "o", settings) as shim:
        found = await shim.tried(Side.KAFKA)
        assert "was moved there from the data directory" in found[0].trouble
        assert "is in the data directory of another shim" in found[1].trouble
        assert {each.log for each in found} == {"local"}
    for log in ("local", "kafka"):
        with pytest.raises(LogError, match=r"1 partition of 2 of data directory .* with offsets\.log=moving"):
            async with running(broker.bootstrap_servers, tmp_path / "d", settings_of(prefix, log)):
                pass
    async with running(broker.bootstrap_servers, tmp_path / "d", settings) as shim:
        await shim.move(Side.LOCAL)
    backend = await not_served(broker.bootstrap_servers, tmp_path / "k", settings_of(prefix, "kafka"), 1)
    assert "is in the data directory of a shim with shim.instance.id=" in backend
    assert backend.endswith("; put that right, and start the shim again")


def _other(side: Side) -> Side:
    return Side.LOCAL if side is Side.KAFKA else Side.KAFKA


def _place_of(side: Side) -> Place:
    return Place.TOPIC if side is Side.KAFKA else Place.DIRECTORY
