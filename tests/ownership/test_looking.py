"""Groups at shims that share a log, as Kafka's own tools see them, which ask every broker, and as each shim does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline.audit.admin_port import admin_ports
from pipeline.audit.steps import steps_of_groups
from pipeline.audit.verdicts import NOT_KNOWN
from pipeline.audit.words import CannotRead
from shim.demo.parts import Cluster, free_port
from tests.admin.live.running import offset_shim
from tests.admin.running import Result
from tests.clients.group_commands import GroupCommands
from tests.conftest import TopicFactory
from tests.ownership.test_shims_together import GROUPS, PARTITIONS, shims_of
from tests.shim_process import Shim
from tests.waiting import wait_until


def commit(bootstrap: str, group: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    finally:
        consumer.close()


def in_groups(admin: str, *args: str) -> Result:
    return offset_shim("groups", *args, "--admin", admin)


def owned_in(line: str) -> int:
    """How many partitions a shim has, by what it says: nothing where it has all of them."""
    has = re.match(rf"this shim has (\d+) of {PARTITIONS} partitions", line)
    return int(has[1]) if has else PARTITIONS


def are_shared_out(shims: Sequence[Shim], admins: Sequence[str]) -> bool:
    """Whether each partition is at one shim, and each shim names the others that have any. There may be one that has
    none: a broker that was stopped before leads no partition of the cluster's own topic for a while."""
    told = [in_groups(admin, "list").stderr for admin in admins]
    owned = [owned_in(line) for line in told]
    how = "(clients' addresses; ask each one's --admin)"
    for shim, line, count in zip(shims, told, owned, strict=True):
        others = sorted(each.bootstrap for each, its in zip(shims, owned, strict=True) if its and each is not shim)
        where = f"; others: {', '.join(others)} {how}" if others else ""
        if count < PARTITIONS and line.splitlines()[0] != f"this shim has {count} of {PARTITIONS} partitions{where}":
            return False
    return sum(owned) == PARTITIONS


def test_all_groups_at_any_shim(cluster: Cluster, make_topic: TopicFactory, tmp_path: Path) -> None:
    topic = make_topic()
    shims = shims_of(cluster, topic, tmp_path)
    admins = [f"127.0.0.1:{free_port()}" for _ in shims]
    try:
        for shim, admin in zip(shims, admins, strict=True):
            shim.args = ("--admin", admin)
            shim.start()
        for number, group in enumerate(GROUPS):
            commit(shims[number % len(shims)].bootstrap, group, topic)
        wait_until(
            partial(are_shared_out, shims, admins), lambda: str([in_groups(admin, "list").stderr for admin in admins])
        )
        with GroupCommands(tmp_path / "group-commands") as group_commands:
            for shim in shims:
                listed = group_commands.run(shim.bootstrap, "--list").text.split()
                assert sorted(name for name in listed if name in GROUPS) == sorted(GROUPS), "each once"
                asked = ("--describe", *(f"--group={group}" for group in GROUPS))
                told = group_commands.run(shim.bootstrap, *asked).text
                assert {line.split()[0] for line in told.splitlines() if topic in line} == set(GROUPS)
        for group in GROUPS:
            answers = [in_groups(admin, "describe", group) for admin in admins]
            assert sorted(answer.status for answer in answers) == [0, 1, 1], answers
            for answer in answers:
                if answer.status:
                    (owner,) = (each for each, its in zip(shims, answers, strict=True) if not its.status)
                    where = f"at another shim, {owner.bootstrap} (ask its --admin)"
                    assert answer.stderr == f"Error: the partition of group {group} is {where}\n"
            histories = {in_groups(admin, "history", group).stdout for admin in admins}
            assert len(histories) == 1, "each reads the topic"
            assert topic in histories.pop()
        assert "to be taken over on topics of the cluster, and read" in shims[0].log()
        steps = steps_of_groups(admin_ports(",".join(admins), None), [*GROUPS, "nobody"])
        assert steps == {**dict.fromkeys(GROUPS, "kafka"), "nobody": NOT_KNOWN}
        has_some = next(admin for admin in admins if owned_in(in_groups(admin, "list").stderr) < PARTITIONS)
        with pytest.raises(CannotRead, match=r"is at another shim, .*Of shims that share a log --admin takes all"):
            steps_of_groups(admin_ports(has_some, None), GROUPS)
    finally:
        for shim in shims:
            if shim.running:
                shim.kill()
