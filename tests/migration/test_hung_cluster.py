"""The brokers hang, or ZooKeeper does, and one looks at what the shim knows of its groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from shim.demo.parts import Broker, ZooKeeper
from tests.admin.live.running import offset_shim
from tests.admin.running import Result
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.migration.test_changing_hands import administered
from tests.migration.test_first_contact import commit
from tests.migration.test_steps import with_zookeeper
from tests.offsets.conftest import kazoo, put
from tests.waiting import wait_until


def test_status_tells_what_the_shim_knows(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """Of many that are passed through each would wait for as long as a request may take."""
    topic, ours, others = make_topic(), fresh_name(), [fresh_name() for _ in range(5)]
    for group in others:
        commit(broker.bootstrap_servers, group, topic, 3)
    with administered(broker, tmp_path / "data", **{"request.timeout.ms": 30_000}) as at:
        commit(at.shim.bootstrap, ours, topic, 5)
        for group in others:
            commit(at.shim.bootstrap, group, topic, 4)  # which makes it known
        with hung(broker.pid):
            rows = {each["group"]: each for each in at.migrate("status").json["groups"]}
        assert (rows[ours]["offsets_storage"], rows[ours]["state"]) == ("kafka", "Empty")
        for group in others:
            assert (rows[group]["offsets_storage"], rows[group]["state"]) == ("upstream", "Unknown")
            assert rows[group]["members"] is None
            assert "has not answered in 3 s" in rows[group]["alarm"]


def test_every_look_tells_what_it_could_not_ask(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """And not only once a request has taken as long as it may."""
    topic, theirs, ours = make_topic(), fresh_name(), sorted(fresh_name() for _ in range(2))
    commit(broker.bootstrap_servers, theirs, topic, 3)
    with administered(broker, tmp_path / "data", **{"request.timeout.ms": 30_000}) as at:
        commit(at.shim.bootstrap, theirs, topic, 4)
        for group in ours:
            commit(at.shim.bootstrap, group, topic, 5)

        def asked(*args: str) -> Result:
            return offset_shim(*args, "--admin", at.address)

        with hung(broker.pid):
            verified = asked("migrate", "verify")
            looked = asked("migrate", "rollback", ours[0], "--dry-run")
            planned = asked("migrate", "plan")
            described = asked("groups", "describe", theirs)
            deleted = asked("groups", "delete", theirs, "--dry-run")
            listed = asked("groups", "list", "--lag")
            of_nobody = asked("groups", "delete", fresh_name(), "--dry-run")
            resets = [
                asked("groups", "reset", group, "--to-earliest", "--topic", topic, "--dry-run")
                for group in (theirs, ours[0], fresh_name())
            ]
        answers = verified, looked, planned, described, deleted, listed, of_nobody, *resets
        assert [each.status for each in answers] == [1] * len(answers)
        for each in answers:
            assert re.search(r"not answered in 3 s|not said in 3 s|no broker has said in 3 s", each.stderr), each
        assert f"{', '.join(ours)}: refused: cannot be compared: " in verified.stderr, "once, and not for each"
        assert "not all groups are known: " in planned.stderr
        assert f"group {theirs} is passed through, and not told of: " in described.stderr
        assert [line.split()[-2] for line in listed.stdout.splitlines()[1:]] == ["-"] * 3


def test_a_plan_while_zookeeper_hangs(
    broker: Broker, zookeeper: ZooKeeper, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """Each group would wait in its turn: of a few dozens none was told."""
    topic, groups = make_topic(), sorted(fresh_name() for _ in range(8))
    for group in groups:
        commit(broker.bootstrap_servers, group, topic, 3)
    with (
        administered(broker, tmp_path / "data", "--zookeeper", zookeeper.connect_string) as at,
        hung(zookeeper.pid),
    ):
        planned = at.migrate("plan", *groups)
        of_nobody = fresh_name()
        deleted = offset_shim("groups", "delete", of_nobody, "--dry-run", "--admin", at.address)
    assert deleted.status == 1
    whether = f"whether ZooKeeper has offsets of group {of_nobody} cannot be found out for now"
    assert (
        deleted.stderr.splitlines()[-1]
        == f"{of_nobody}: refused: {whether}: group {of_nobody}: ZooKeeper does not answer"
    )
    assert planned.status == 1
    rows = planned.json["groups"]
    assert sorted(each["group"] for each in rows) == groups
    for each in rows:
        assert (each["state"], each["offsets"]) == ("Empty", 1)
        assert "whether ZooKeeper has other offsets of it cannot be found out: " in each["hindrance"]


def test_looks_while_there_is_no_connection_to_zookeeper(
    broker: Broker, zookeeper: ZooKeeper, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """That is known, and nobody waits until one is there."""
    topic, group, chroot = make_topic(), fresh_name(), fresh_name()
    with kazoo(zookeeper.connect_string) as client:
        client.ensure_path(f"/{chroot}")
        put(client, f"/{chroot}/consumers/{group}/offsets/{topic}/0", b"3")
    away = "there is no connection to ZooKeeper"
    with with_zookeeper(broker, tmp_path / "data", f"{zookeeper.connect_string}/{chroot}") as at:
        assert at.migrate("start", group).status == 0
        with hung(zookeeper.pid):
            wait_until(lambda: away in at.status(group)["alarm"], "it is not noticed")
            looks = [
                offset_shim("migrate", *look, "--admin", at.address)
                for look in (("verify",), ("advance", group, "--dry-run"), ("plan",))
            ]
    assert [each.status for each in looks] == [1, 1, 1]
    assert [each.stderr for each in looks] == [
        f"{group}: refused: cannot be compared: {away}\n",
        f"{group}: refused: cannot be compared: {away}\n",
        f"not all groups are known: ZooKeeper: {away}\n",
    ]
