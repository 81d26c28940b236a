"""Whatever fails on the way: both places agree afterwards, and what was acknowledged is there, or something later.

A client of today commits through the shim all the time, an old consumer in ZooKeeper itself, and both commit one
partition; then something is lost. See :mod:`tests.migration.attempts` for what may be there in the end.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from kazoo.exceptions import KazooException

from protocol.messages import offset_commit
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from shim.demo.parts import Broker, ZooKeeper
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.migration.at_both import FIRST, PARTITIONS, AtBoth, at_both
from tests.migration.zookeeper_ensemble import zookeeper_ensemble
from tests.offsets.conftest import kazoo
from tests.waiting import wait_until
from tests.wire import WireClient

STEPS: Final = ["zookeeper+dual", "kafka+dual"]
SESSION_MS: Final = 1_000
SEEDS: Final = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 21))]
KILLS: Final = 3
MOST_BETWEEN_KILLS: Final = 40  # acknowledged commits

COMMITTED: Final = 4
OTHER: Final = 3
AFTER_A_KILL: Final = {
    # Nobody was told that it is committed; what the old consumer has written came later.
    ("zookeeper+dual", False, True): {FIRST[COMMITTED]},
    ("zookeeper+dual", False, False): {FIRST[COMMITTED], 500},
    ("zookeeper+dual", True, True): {7},
    ("zookeeper+dual", True, False): {7},
    # It was acknowledged, and ZooKeeper did not have it when the old consumer wrote: then the log stands.
    ("kafka+dual", False, True): {500},
    ("kafka+dual", False, False): {500},
    ("kafka+dual", True, True): {500},
    ("kafka+dual", True, False): {500, 7},
}
"""By step, whether an old consumer has written, and whether what the shim had sent was lost: what may be there."""

NOT_ANSWERED: Final = re.compile(r"requests of group \S+ are refused for now")

at_each_step = pytest.mark.parametrize("step", STEPS)
at_one_place = pytest.mark.parametrize(
    "step",
    [step if not number else pytest.param(step, marks=pytest.mark.soak) for number, step in enumerate(STEPS)],
)
"""Of those that take long."""


class Made(Protocol):
    def __call__(self, step: str, connect: str, **settings: str | int) -> Any: ...


@pytest.fixture
def made(broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]) -> Made:
    def make(step: str, connect: str, **settings: str | int) -> Any:
        return at_both(broker, connect, tmp_path / "data", fresh_name(), make_topic(PARTITIONS), step, **settings)

    return make


@pytest.fixture
def connect(zookeeper: ZooKeeper, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    with kazoo(zookeeper.connect_string) as client:
        client.ensure_path(f"/{name}")
    return f"{zookeeper.connect_string}/{name}"


# --- the shim --------------------------------------------------------------------------------------------------------


@at_each_step
@pytest.mark.parametrize("seed", SEEDS)
def test_the_shim_is_killed_again_and_again(made: Made, connect: str, step: str, seed: int) -> None:
    rng = random.Random(seed)
    with made(step, connect) as both:
        with both.commits(seed) as (today, old):
            for _ in range(KILLS):
                today.wait_acknowledged(rng.randint(1, MOST_BETWEEN_KILLS))
                both.at.shim.kill()
                old.wait_acknowledged(rng.randint(1, 5))
                both.at.shim.start()
            today.wait_acknowledged()
            old.wait_acknowledged()
        both.zookeeper_agrees()


def _commit_sent(client: WireClient, both: AtBoth, partition: int, offset: int) -> int:
    partitions = (OffsetCommitRequestPartition(partition, offset),)
    request = OffsetCommitRequest(both.group, topics=(OffsetCommitRequestTopic(both.topic, partitions=partitions),))
    return client.send(offset_commit.API, 8, request)


def _written(data_dir: Path) -> int:
    """Bytes of all partitions of the offsets log, and of what is before it in the journal."""
    return sum(each.stat().st_size for each in data_dir.glob("__consumer_offsets-*/*.log"))


@at_each_step
@pytest.mark.parametrize("lost", [True, False], ids=["lost", "late"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an old consumer"])
def test_killed_between_the_two_writes(
    made: Made, connect: str, zookeeper: ZooKeeper, step: str, lost: bool, beside: bool
) -> None:
    """ZooKeeper hangs, so that the log has a commit, ZooKeeper has not, and the shim is killed. What it may have sent
    is ``lost`` with ZooKeeper's process, or comes there afterwards. ``beside``: an old consumer has written the same
    partition, and another one, when the shim starts again."""
    with made(step, connect) as both:
        both.zookeeper_agrees()
        before = _written(both.at.shim.data_dir)
        with WireClient(both.at.shim.port) as client, hung(zookeeper.pid):
            _commit_sent(client, both, COMMITTED, 500)
            if step == "kafka+dual":
                _, answer = client.receive(offset_commit.API, 8)
                assert answer.topics[0].partitions[0].error_code == 0
            wait_until(lambda: _written(both.at.shim.data_dir) > before, "the log does not have it")
            both.at.shim.kill()
            if lost:
                zookeeper.kill()
        zookeeper.start()
        if beside:
            for number in (COMMITTED, OTHER):
                wait_until(partial(_set, both, number, b"7"), "ZooKeeper is not there")
        both.at.shim.start()
        found = both.alike(both.in_zookeeper)
        assert found[COMMITTED] in AFTER_A_KILL[step, beside, lost]
        assert found == {**FIRST, COMMITTED: found[COMMITTED], OTHER: 7 if beside else FIRST[OTHER]}


def _set(both: AtBoth, number: int, data: bytes) -> bool:
    try:
        both.others.set(f"{both.path}/{number}", data)
    except KazooException:
        return False
    return True


@at_each_step
def test_the_session_expires(made: Made, zookeeper: ZooKeeper, connect: str, step: str) -> None:
    """The shim hangs for longer than that, and old consumers go on."""
    with made(step, connect, **{"zookeeper.session.timeout.ms": SESSION_MS}) as both:
        with both.commits() as (today, old):
            today.wait_acknowledged()
            before = _expired(zookeeper)
            with hung(both.at.shim.pid):
                wait_until(lambda: _expired(zookeeper) > before, "the session has not expired")
                old.wait_acknowledged()
            today.wait_acknowledged()
            old.wait_acknowledged()
        both.zookeeper_agrees()


def _expired(zookeeper: ZooKeeper) -> int:
    return len(re.findall(r"Expiring session 0x", zookeeper.log.read_text(errors="replace")))


@at_one_place
def test_the_disk_is_full(made: Made, connect: str, step: str) -> None:
    with made(step, connect) as both:
        with both.commits() as (today, old):
            today.wait_acknowledged()
            both.flag.touch()
            refused = len(today.errors)
            wait_until(lambda: len(today.errors) > refused, "a commit is acknowledged, or nobody knows")
            old.wait_acknowledged()
            both.flag.unlink()
            today.wait_acknowledged()
            old.wait_acknowledged()
        both.zookeeper_agrees()


# --- ZooKeeper -------------------------------------------------------------------------------------------------------


@at_each_step
def test_zookeeper_is_stopped_and_started(made: Made, zookeeper: ZooKeeper, connect: str, step: str) -> None:
    with made(step, connect) as both:
        with both.commits() as (today, old):
            today.wait_acknowledged()
            zookeeper.kill()
            acknowledged = today.acknowledged
            if step == "kafka+dual":
                today.wait_acknowledged(20)
            else:
                wait_until(lambda: NOT_ANSWERED.search(both.at.shim.log()) is not None, "nobody is told that it failed")
                assert today.acknowledged <= acknowledged + 1  # the one that was there already
            zookeeper.start()
            today.wait_acknowledged()
            old.wait_acknowledged()
        both.zookeeper_agrees()


@at_one_place
def test_an_ensemble_loses_its_leader(made: Made, tmp_path: Path, step: str) -> None:
    with zookeeper_ensemble(tmp_path / "ensemble") as ensemble, made(step, ensemble.connect_string) as both:
        with both.commits() as (today, old):
            today.wait_acknowledged()
            old.wait_acknowledged()
            ensemble.leader().kill()
            ensemble.leader()
            today.wait_acknowledged(20)
            old.wait_acknowledged(20)
            ensemble.start()
            today.wait_acknowledged()
        both.zookeeper_agrees()


# --- the broker ------------------------------------------------------------------------------------------------------


def test_the_broker_is_lost_where_it_has_to_have_each_commit(made: Made, broker: Broker, connect: str) -> None:
    with made("upstream+dual", connect) as both:
        with both.commits_of_today() as today:
            today.wait_acknowledged()
            broker.kill()
            wait_until(lambda: both.at.status(both.group)["lag_seconds"] is not None, "nothing says that it is behind")
            broker.start()
            today.wait_acknowledged()
        both.agree(both.in_cluster)


def test_a_cluster_that_takes_no_offsets_keeps_nobody_from_going_back(made: Made, broker: Broker, connect: str) -> None:
    with made("upstream+dual", connect) as both:
        broker.kill()
        try:
            refused = both.at.migrate("advance", both.group)
            back = both.at.migrate("rollback", both.group)
        finally:
            broker.start()
        assert (refused.status, back.status) == (1, 0), back
        assert both.at.status(both.group)["offsets_storage"] == "kafka"


def test_the_shim_is_killed_where_the_cluster_has_to_have_each_commit(made: Made, connect: str) -> None:
    with made("upstream+dual", connect) as both:
        with both.commits_of_today() as today:
            for _ in range(KILLS):
                today.wait_acknowledged()
                both.at.shim.kill()
                both.may_stand(both.in_cluster())
                both.at.shim.start()
            today.wait_acknowledged()
        both.agree(both.in_cluster)


@at_one_place
def test_the_broker_is_lost_and_the_mirror_follows(made: Made, broker: Broker, connect: str, step: str) -> None:
    with made(step, connect) as both:
        with both.commits() as (today, old):
            today.wait_acknowledged()
            broker.kill()
            old.wait_acknowledged(20)
            wait_until(lambda: both.at.offsets(both.group)[both.topic, 3] > FIRST[3], "old consumers are not heard")
            broker.start()
            today.wait_acknowledged()
            old.wait_acknowledged()
        both.agree(both.in_zookeeper, both.in_cluster)
