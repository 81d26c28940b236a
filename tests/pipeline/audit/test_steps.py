"""Where a group is decides what has to be alike; and looking changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from pipeline.audit.admin_port import admin_ports
from pipeline.audit.auditing import Audited, audit
from pipeline.audit.groups import find_groups
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import Administered, administered
from tests.migration.test_first_contact import commit
from tests.offsets.conftest import kazoo, put
from tests.pipeline.audit.conftest import asked
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audited(
    spark: SparkSession, at: Administered, broker: Broker, connect: str | None, groups: str, **more: Any
) -> Audited:
    question = asked(at.shim.bootstrap, broker.bootstrap_servers, connect, groups=groups, formats=(), **more)
    return audit(spark, question, find_groups(question))


def left_out(found: Audited) -> list[tuple[str, int, str]]:
    return [(each["group"], each["partitions"], each["why"]) for each in found.left_out]


def test_only_what_the_step_keeps_is_judged(
    spark: SparkSession,
    broker: Broker,
    connect: str,
    tmp_path: Path,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
) -> None:
    topic, name = make_topic(), fresh_name()
    old, moved = f"{name}-old", f"{name}-moved"
    with kazoo(connect) as others, administered(broker, tmp_path / "data", "--zookeeper", connect) as at:
        for group in (old, moved):
            put(others, f"/consumers/{group}/offsets/{topic}/0", b"5")
        others.ensure_path(f"/consumers/{name}-none/offsets")
        for step in ("start", "advance", "advance"):
            assert at.migrate(step, moved).status == 0
        commit(at.shim.bootstrap, moved, topic, 9)  # at kafka: ZooKeeper keeps the 5
        wait_until(lambda: at.status(moved)["lag_seconds"] is None, "the mirror does not follow", 30)
        without_steps = audited(spark, at, broker, connect, f"{name}-*")
        assert {(each["group"], each["zookeeper_log"]) for each in without_steps.differences} == {
            (moved, "behind"),
            (old, "only here"),
        }
        none = (f"{name}-none", 0, "no place has an offset of it")
        assert left_out(without_steps) == [none]
        with_steps = audited(spark, at, broker, connect, f"{name}-*", admins=admin_ports(at.address, None))
        totals = with_steps.totals
        assert (totals.steps, totals.groups, totals.partitions, totals.differences) == ({"kafka": 1}, 1, 1, 0)
        assert (totals.left_out_groups, totals.left_out_partitions, totals.lag) == (2, 1, 0)
        unknown = (old, 1, "only zookeeper has it, and the shim does not know the group")
        assert left_out(with_steps) == [none, unknown]
        assert with_steps.totals.verdicts["upstream_log"]["equal"] == 1
        # The shim has not taken it up for being looked at.
        assert at.migrate("status", old).status != 0


def test_groups_that_move_while_they_are_read_are_no_differences(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
) -> None:
    topic = make_topic(4)
    begun, over = threading.Event(), threading.Event()
    with administered(broker, tmp_path / "data") as at:
        commit(at.shim.bootstrap, group, topic, 1)

        def go_on() -> None:
            consumer = Consumer({"bootstrap.servers": at.shim.bootstrap, "group.id": group})
            offset = 1
            while not over.wait(0.01):
                offset += 1
                moved = [TopicPartition(topic, number, offset) for number in range(4)]
                consumer.commit(offsets=moved, asynchronous=False)
                begun.set()
            consumer.close()

        moves = threading.Thread(target=go_on)
        moves.start()
        try:
            assert begun.wait(30), "it does not move"
            # The mirror is a second behind, but for a moment each second; on a busy machine for longer.
            for _ in range(5):
                found = audited(spark, at, broker, None, group, second_look_seconds=3.0)
                assert found.totals.partitions == 4
                assert found.totals.differences == 0, found.differences
                if found.totals.moving:
                    break
        finally:
            over.set()
            moves.join()
    assert found.totals.moving > 0, "the mirror is a second behind: none was caught moving"
