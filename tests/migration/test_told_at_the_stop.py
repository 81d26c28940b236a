"""The last that a shim says of the cluster's own offsets: whether clients that go there now go on where they stood."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.messages.offset_commit import OffsetCommitRequestPartition
from shim.config import parse_servers
from shim.demo.parts import Broker
from shim.disk_log import DiskBackend, open_log
from shim.migration import feeding
from shim.migration.mirror import last_word
from shim.runtime import Clock, Runtime
from shim.upstream import Cluster
from tests.conftest import TopicFactory
from tests.migration.mirrored import SETTINGS, Mirrored, mirrored
from tests.migration.test_first_contact import commit
from tests.runtime.test_hands import WAIT_SECONDS
from tests.waiting import until

_FROM = (feeding.__name__, last_word.__name__)
_ALL = "the cluster's own offsets are those of the log: "
_NOT_ALL = "the cluster's own offsets may not be those of the log: "


async def _drain(at: Mirrored, caplog: pytest.LogCaptureFixture, seconds: float = 30.0) -> list[tuple[str, str]]:
    """What is said at its end."""
    caplog.set_level("INFO")
    caplog.clear()
    await feeding.Feeding(at.runtime, at.mirror, None).drain(seconds)
    return [(each.levelname, each.getMessage()) for each in caplog.records if each.name in _FROM]


async def test_all_is_there(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        assert await _drain(at, caplog) == [("INFO", f"{_ALL}0 groups")]
        await at.serve(group)
        await at.commit_offset(group, topic, 4)
        await at.reached(group)  # a broker that is new has its coordinators by then
        await at.commit_offset(group, topic, 5)
        assert await _drain(at, caplog) == [("INFO", f"{_ALL}1 group")]
        assert await at.offset_in_cluster(group, topic) == 5


async def test_what_is_found_to_differ_at_the_last_moment_is_written(
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by the comparison of a partition that was loaded a moment ago."""
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 4)
        await at.reached(group)
        outbox, found = at.mirror._outbox, iter([group])
        drained = outbox.drained

        async def drained_and_found() -> None:
            await drained()
            for one in found:
                at.mirror.doubt(one)

        monkeypatch.setattr(outbox, "drained", drained_and_found)
        assert await _drain(at, caplog) == [("INFO", f"{_ALL}1 group")]


async def test_what_has_no_place_there_is_counted(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, *(OffsetCommitRequestPartition(number, 5) for number in (0, 7)))
        more = ", but for partitions that it does not have, of 1 group"
        assert await _drain(at, caplog) == [("INFO", f"{_ALL}1 group{more}")]


async def test_what_the_cluster_does_not_take_is_named(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    names = [f"{group}-{number}" for number in range(8)]
    async with mirrored(broker, tmp_path) as at:
        for name in (group, *names):
            await at.serve(name)
        await at.commit_offset(group, topic, 5)
        await at.reached(group)
        at.groups.hangs = True
        for name in names:
            await at.commit_offset(name, topic, 5)
        ((level, told),) = await _drain(at, caplog)
        at.groups.hangs = False
        assert (level, told.startswith(f"{_NOT_ALL}8 of 9 groups: ")) == ("WARNING", True)
        assert told.count("timed out") == told.count("(") > 0
        assert names[0] in told
        assert f"{group} " not in told, "the cluster has it"
        assert await _drain(at, caplog) == [("INFO", f"{_ALL}9 groups")]


async def test_there_is_no_time_for_it(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.reached(group)
        async with at.mirror.alone(group):
            await at.commit_offset(group, topic, 5)
            why = "there was no time to write them"
            (_, said) = await _drain(at, caplog, 0.1)
            assert said == ("WARNING", f"{_NOT_ALL}1 of 1 group: {group} ({why})")


async def test_other_offsets_that_the_cluster_keeps_are_told(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, OffsetCommitRequestPartition(0, 5))
        await at.reached(group)
    commit(broker.bootstrap_servers, group, topic, 77)
    async with mirrored(broker, tmp_path) as at:
        await until(lambda: at.mirror.alarm(group))
        why = "the cluster keeps other offsets, as `migrate status` has told"
        assert await _drain(at, caplog) == [("WARNING", f"{_NOT_ALL}1 of 1 group: {group} ({why})")]


async def test_what_was_loaded_and_not_compared_is_not_vouched_for(
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 5)
        await at.reached(group)
    monkeypatch.setattr("shim.migration.mirror.comparison.Comparison._compare_loaded", _never)
    async with mirrored(broker, tmp_path) as at:
        why = "they were loaded, and not compared yet"
        assert await _drain(at, caplog) == [("WARNING", f"{_NOT_ALL}1 of 1 group: {group} ({why})")]


async def _never(_: object) -> None:
    return


@asynccontextmanager
async def _before_the_cluster_is_reached(data_dir: Path) -> AsyncIterator[Mirrored]:
    """Its log is loaded, and nothing is served yet."""
    runtime = Runtime(DiskBackend(open_log(data_dir, SETTINGS), SETTINGS, Clock()), SETTINGS, Clock())
    at = Mirrored(runtime, Cluster(parse_servers("127.0.0.1:1"), SETTINGS), SETTINGS)
    try:
        await runtime.load()
        yield at
    finally:
        at.close()
        runtime.stop()
        await runtime.close(WAIT_SECONDS)


async def test_what_was_loaded_before_the_cluster_was_reached_is_all_there_is(
    broker: Broker, tmp_path: Path, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An empty log was warned of as so many partitions that were not served."""
    async with _before_the_cluster_is_reached(tmp_path) as at:
        assert await _drain(at, caplog) == [("INFO", f"{_ALL}0 groups")]
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
    async with _before_the_cluster_is_reached(tmp_path) as at:
        why = "they were loaded, and not compared yet"
        assert await _drain(at, caplog) == [("WARNING", f"{_NOT_ALL}1 of 1 group: {group} ({why})")]


async def test_who_was_not_given_any_partition_yet_does_not_speak_of_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a shim whose log is on topics, and that has not reached the cluster: others may have them."""
    backend = DiskBackend(open_log(tmp_path, SETTINGS), SETTINGS, Clock())
    backend.is_divided = True
    runtime = Runtime(backend, SETTINGS, Clock())
    at = Mirrored(runtime, Cluster(parse_servers("127.0.0.1:1"), SETTINGS), SETTINGS)
    try:
        assert await _drain(at, caplog) == [("INFO", f"{_ALL}0 groups")]
        runtime.own([0, 1])
        assert await _drain(at, caplog, 0.1) == [("WARNING", f"{_NOT_ALL}2 partitions that it did not serve")]
    finally:
        at.close()
        runtime.stop()
        await runtime.close(WAIT_SECONDS)


async def test_where_nothing_is_mirrored_nothing_is_said(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(SETTINGS, offsets_mirror_upstream=False)
    async with mirrored(broker, tmp_path, settings) as at:
        await at.serve(group)
        await at.commit_offset(group, make_topic(), 5)
        assert await _drain(at, caplog) == []


async def test_what_is_handed_out_while_the_last_is_waited_for_is_brought_too(
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the chore, which goes on until the end."""
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 4)
        await at.reached(group)
        its = feeding.Feeding(at.runtime, at.mirror, None)
        drained = at.mirror.drained
        rounds = 0

        async def meanwhile() -> None:
            nonlocal rounds
            rounds += 1
            await drained()
            if rounds == 1:
                monkeypatch.setattr(at, "tell", its._hand_out)
                await at.commit_offset(group, topic, 5)

        monkeypatch.setattr(at.mirror, "drained", meanwhile)
        caplog.set_level("INFO")
        await its.drain(30.0)
        assert f"{_ALL}1 group" in caplog.messages
        assert (rounds, await at.offset_in_cluster(group, topic)) == (2, 5)
