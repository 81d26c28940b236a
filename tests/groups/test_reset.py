"""What `groups reset` promises beyond Kafka's tool: on condition, all or none, in the history, and undone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from protocol.messages import delete_groups, offset_delete
from shim.demo.parts import Broker, ZooKeeper
from shim.terminal.times import time_shown
from tests.admin.live.running import offset_shim
from tests.clients.test_admin_of_groups import member
from tests.conftest import TopicFactory
from tests.groups.place import TIMEOUT_S, Hours, Place, post
from tests.migration.changing_topics import delete, make_many
from tests.migration.test_changing_hands import administered
from tests.migration.test_steps import with_zookeeper
from tests.offsets.conftest import kazoo, put
from tests.waiting import wait_until
from tests.wire import WireClient

NONE = -1001


def wait_for_another_millisecond(than: int) -> None:
    wait_until(lambda: time.time_ns() // 1_000_000 > than)


def test_a_reset_is_in_the_history_and_can_be_undone(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3)
    place.done("reset", group, "--to-latest", "--topic", topic, "--cause", "change 4711", "--yes")
    assert place.committed(group, topic) == [10, 10]
    moves = place.done("history", group)["moves"]
    assert [(row["partition"], row["from"], row["to"], row["client_id"]) for row in moves] == [
        (0, None, 3, "etl"),
        (0, 3, 10, "offset-shim"),
        (1, -1, 10, "offset-shim"),
    ]
    assert moves[0]["cause"] == ""
    assert moves[1]["cause"] == moves[2]["cause"]
    assert moves[1]["cause"].startswith("groups reset --to-latest, by ")
    assert moves[1]["cause"].endswith(": change 4711")
    assert moves[1]["client_host"] == "/127.0.0.1"
    assert moves[1]["cause"] in place.shim.log()
    described = place.done("describe", group)
    assert described["last_commit"]["cause"] == moves[1]["cause"]
    told = place.done("reset", group, "--undo", "--yes")
    assert [(row["partition"], row["offset"], row["new_offset"]) for row in told["offsets"]] == [
        (0, 10, 3),
        (1, 10, None),
    ]
    assert place.committed(group, topic) == [3, NONE]
    last = place.done("history", group, "--last", "2")["moves"]
    assert [(row["from"], row["to"], row["deleted"], row["cause"].partition(",")[0]) for row in last] == [
        (10, 3, False, "groups reset --undo"),
        (10, -1, True, "groups reset --undo"),
    ]
    place.done("reset", group, "--undo", "--yes")
    assert place.committed(group, topic) == [10, 10], "the undo is undone, with what it took away"


def test_back_to_what_was_committed_at_a_time(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3, 4)
    moves = place.done("history", group)["moves"]
    then = max(row["time_ms"] for row in moves)
    wait_for_another_millisecond(then)
    place.commit(group, topic, 8, 9)
    place.done("reset", group, "--from-history", str(then), "--all-topics", "--yes")
    assert place.committed(group, topic) == [3, 4]
    since = place.done("history", group, "--since", str(then + 1), "--topic", topic)["moves"]
    assert [row["to"] for row in since] == [8, 9, 3, 4]
    assert place.done("history", group, "--topic", "another")["moves"] == []


def test_a_group_that_was_deleted_is_brought_back(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3, 4)
    then = max(row["time_ms"] for row in place.done("history", group)["moves"])
    place.done("delete", group, "--yes")
    refused = place.refused("reset", group, "--to-earliest", "--all-topics")
    assert refused == f"Error: group {group}: there is no offset that this could be about\n"
    planned = place.done("reset", group, "--from-history", str(then), "--all-topics", "--dry-run")["offsets"]
    assert [(each["new_offset"], each["note"]) for each in planned] == [(3, ""), (4, "")]
    place.done("reset", group, "--from-history", str(then), "--all-topics", "--yes")
    assert place.committed(group, topic) == [3, 4]


def test_why_there_is_nothing_to_go_back_to(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    """Of a group that was deleted, of one that nobody has heard of, and at a time that is still to come."""
    topic, group, unknown = hours.topic, fresh_name(), fresh_name()
    place.commit(group, topic, 3, 4)
    began = min(row["time_ms"] for row in place.done("history", group)["moves"])
    wait_for_another_millisecond(began)
    place.done("delete", group, "--yes")
    gone = max(row["time_ms"] for row in place.done("history", group)["moves"])

    def refused(name: str, time_ms: int, *scope: str) -> str:
        return place.refused("reset", name, "--from-history", str(time_ms), *(scope or ("--all-topics",)))

    assert refused(group, gone) == (
        f"Error: group {group}: all offsets that the history has of it had been deleted, or had expired, by that time\n"
    )
    assert f"group {group}: the history has nothing of it at that time, or before: it begins at 20" in refused(
        group, began - 1
    )
    assert "there is no offset that this could be about, and this shim has not heard of such a group yet" in refused(
        unknown, gone
    )
    tomorrow = gone + 86_400_000
    for scope in ((), ("--topic", topic)):
        assert "that time is still to come, by the shim's clock it is 20" in refused(group, tomorrow, *scope)


def test_who_deleted_is_told(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    """By a client, one offset and the group; by the command, with its cause; and what there was then is had again."""
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3, 4)
    one = offset_delete.OffsetDeleteRequestTopic(topic, (offset_delete.OffsetDeleteRequestPartition(1),))
    with WireClient(place.shim.broker_port(place.broker.node_id), client_id="a-script") as client:
        assert client.ask(offset_delete.API, 0, offset_delete.OffsetDeleteRequest(group, (one,))).error_code == 0
        then = place.done("history", group)["moves"][-1]["time_ms"]
        wait_for_another_millisecond(then)
        deleted = client.ask(delete_groups.API, 1, delete_groups.DeleteGroupsRequest((group,)))
        assert deleted.results[0].error_code == 0
    place.commit(group, topic, 5)
    place.done("delete", group, "--yes", "--cause", "change 4711")
    moves = place.done("history", group)["moves"]
    told = [(row["partition"], row["from"], row["to"], row["client_id"], row["cause"]) for row in moves]
    assert told[:-1] == [
        (0, None, 3, "etl", ""),
        (1, None, 4, "etl", ""),
        (1, 4, -1, "a-script", "the offset was deleted"),
        (0, 3, -1, "a-script", "the group was deleted"),
        (0, -1, 5, "etl", ""),
    ]
    assert told[-1][:4] == (0, 5, -1, "offset-shim")
    assert told[-1][-1].startswith("groups delete, by ")
    assert told[-1][-1].endswith(": change 4711")
    assert [row["deleted"] for row in moves] == [False, False, True, True, False, True]
    shown = place.groups("history", group, "--last", "1").stdout.splitlines()[-1].split()
    assert shown[2:5] == ["0", "5", "deleted"]

    planned = place.done("reset", group, "--from-history", str(then), "--topic", topic, "--dry-run")["offsets"]
    assert [(each["new_offset"], each["note"]) for each in planned] == [(3, ""), (None, "it had been deleted by then")]
    place.done("reset", group, "--from-history", str(then), "--all-topics", "--yes")
    assert place.committed(group, topic) == [3, NONE]


def test_what_was_committed_of_a_topic_that_was_deleted_is_none_of_the_next_one(
    place: Place, broker: Broker, hours: Hours, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, kept, group = hours.topic, make_topic(2), fresh_name()
    place.commit(group, topic, 3, 4)
    place.commit(group, kept, 0)
    then = max(row["time_ms"] for row in place.done("history", group)["moves"])
    delete(broker.bootstrap_servers, topic)
    asking = AdminClient({"bootstrap.servers": place.bootstrap})

    def is_known() -> bool:
        asking.list_topics(timeout=TIMEOUT_S)  # which the shim has a look at
        return bool(place.done("history", group)["moves"][-1]["cause"] == "its topic was deleted")

    wait_until(is_known, "the shim has not noticed", TIMEOUT_S)
    make_many(broker, [topic], 2)

    def is_refused() -> bool:
        why = place.refused("reset", group, "--from-history", str(then), "--topic", topic, "--yes")
        return f"{topic}-0: its topic was deleted after that time" in why

    for offsets in ((), (0, 0)):
        if offsets:
            place.commit(group, topic, *offsets)
        # Before that nobody may lead it yet.
        wait_until(is_refused, "it is refused for something else", TIMEOUT_S)
        assert place.committed(group, topic) == list(offsets or (NONE, NONE))
    assert "deleted after that time" in place.refused("reset", group, "--from-history", str(then), "--all-topics")
    place.done("reset", group, "--from-history", str(then), "--topic", f"{kept}:0", "--yes")
    now = str(time.time_ns() // 1_000_000)
    planned = place.done("reset", group, "--from-history", now, "--topic", topic, "--dry-run")["offsets"]
    assert [(each["new_offset"], each["note"]) for each in planned] == [(0, ""), (0, "")]


def test_what_the_cluster_did_meanwhile_is_said(
    broker: Broker, place: Place, hours: Hours, fresh_name: Callable[[], str]
) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3, 4)
    place.done("reset", group, "--to-earliest", "--all-topics", "--yes")
    then = max(row["time_ms"] for row in place.done("history", group)["moves"])
    assert place.at.migrate("rollback", group).status == 0
    place.commit(group, topic, 7, 7, bootstrap=broker.bootstrap_servers)
    assert place.at.migrate("start", group).status == 0
    adopted = place.done("history", group, "--last", "1")["moves"][0]
    assert (adopted["to"], adopted["cause"]) == (7, "adopted from the cluster")
    planned = place.done("reset", group, "--from-history", str(then), "--all-topics", "--dry-run")["offsets"]
    assert [(each["new_offset"], "the cluster had the group after that" in each["note"]) for each in planned] == [
        (0, True),
        (0, True),
    ]
    planned = place.done("reset", group, "--from-history", str(adopted["time_ms"]), "--all-topics", "--dry-run")
    assert [(each["new_offset"], each["note"]) for each in planned["offsets"]] == [(7, ""), (7, "")]
    assert "none since the cluster had it" in place.refused("reset", group, "--undo", "--yes")


def test_a_reset_of_what_was_deleted_since_is_not_undone(
    place: Place, hours: Hours, fresh_name: Callable[[], str]
) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3, 4)
    place.done("reset", group, "--to-earliest", "--all-topics", "--yes")
    place.done("delete", group, "--yes")
    refusal = f"{topic}-0, {topic}-1: deleted, or expired, since the reset: not undone"
    assert refusal in place.refused("reset", group, "--undo", "--yes")
    place.commit(group, topic, 7, 7)  # it is another life of the group
    assert refusal in place.refused("reset", group, "--undo", "--yes")


def test_an_undo_of_a_group_that_never_was_says_so(place: Place, fresh_name: Callable[[], str]) -> None:
    assert place.refused("reset", fresh_name(), "--undo").endswith(
        ", and this shim has not heard of such a group yet\n"
    )


def test_an_undo_says_what_has_moved_since(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    """As by a reset of Kafka's own tool, which is a commit like any other, and may be the one that is meant."""
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3)
    place.done("reset", group, "--to-latest", "--topic", topic, "--cause", "wanted", "--yes")
    place.commit(group, topic, 5)
    planned = place.done("reset", group, "--undo", "--dry-run")["offsets"]
    assert [(each["offset"], each["new_offset"]) for each in planned] == [(5, 3), (10, None)]
    moved, stays = (each["note"] for each in planned)
    assert moved == "that reset had set 10, it has moved since"
    assert stays == ""


def test_an_undo_names_what_it_undoes(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    """Whether something has moved since or not, before it is done and when it is."""
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3)
    plain = place.done("reset", group, "--to-latest", "--topic", topic, "--cause", "wanted", "--yes")
    assert plain["undoes"] is None
    when = place.done("history", group, "--last", "1")["moves"][0]["time_ms"]
    planned = place.done("reset", group, "--undo", "--dry-run")["undoes"]
    assert planned == {"time_ms": when, "cause": plain["cause"], "client_host": "/127.0.0.1", "offsets": 2}
    told = place.groups("reset", group, "--undo", "--yes")
    assert told.stdout.splitlines()[0] == (
        f"undoes the reset of 2 offsets at {time_shown(when)} ({plain['cause']}; from /127.0.0.1); "
        "now: set 1 offset and delete 1 offset"
    )
    again = place.done("reset", group, "--undo", "--yes")
    assert again["undoes"]["cause"].startswith("groups reset --undo, by ")


def test_a_commit_that_comes_between_keeps_all_of_it_from_being_done(
    place: Place, hours: Hours, fresh_name: Callable[[], str]
) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3, 4)
    status, plan = post(place, "/v1/groups/reset/plan", group=group, to_earliest=True, topics=[{"topic": topic}])
    assert status == 200
    offsets = [{name: row[name] for name in ("topic", "partition", "offset", "new_offset")} for row in plan["offsets"]]
    place.commit(group, topic, 5)
    status, refused = post(place, "/v1/groups/reset", group=group, offsets=offsets)
    assert status == 409
    assert f"another offset is committed by now than was shown for {topic}-0" in refused["error"]
    assert place.committed(group, topic) == [5, 4]
    offsets[0]["offset"] = 5
    assert post(place, "/v1/groups/reset", group=group, offsets=offsets)[0] == 200
    assert place.committed(group, topic) == [0, 0]


def test_a_group_with_members_is_neither_reset_nor_deleted(
    place: Place, broker: Broker, hours: Hours, fresh_name: Callable[[], str]
) -> None:
    for group, bootstrap in ((fresh_name(), place.bootstrap), (fresh_name(), broker.bootstrap_servers)):
        topic = hours.topic
        place.commit(group, topic, 3, 4, bootstrap=bootstrap)
        assert place.committed(group, topic) == [3, 4]  # the shim has heard of it
        with member(bootstrap, group, topic):
            who = "it has 1 member (it is Stable): member at /127.0.0.1"
            if bootstrap == place.bootstrap:
                who += " (last heard of "
            assert who in place.refused("reset", group, "--to-earliest", "--all-topics", "--yes")
            dry = place.groups("reset", group, "--to-earliest", "--all-topics", "--dry-run")
            assert dry.status == 1
            assert f"it would be refused now: {who}" in dry.stderr
            changes = [{"topic": topic, "partition": 0, "offset": 3, "new_offset": 0}]
            status, refused = post(place, "/v1/groups/reset", group=group, offsets=changes)
            assert (status, who in refused["error"]) == (409, True)
            assert who in place.refused("delete", group, "--yes")
            described = place.done("describe", group)
            (only,) = described["member_details"]
            assert (only["client_id"], only["client_host"]) == ("member", "/127.0.0.1")
            assert only["partitions"] == [{"topic": topic, "partition": number} for number in (0, 1)]
            times = only["heard_ms"], only["session_timeout_ms"], only["removed_ms"]
            if bootstrap == place.bootstrap:
                assert times[0] <= described["now_ms"] < times[2] == times[0] + times[1]
            else:
                assert times == (None, None, None)
            assert described["type"] == "Classic"
            shown = place.groups("describe", group).stdout
            assert f"{topic}:0,1" in shown
        assert place.committed(group, topic) == [3, 4]


def test_lag(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3, 4)
    before = time.time_ns() // 1_000_000
    described = place.done("describe", group)
    assert [(at["offset"], at["log_end_offset"], at["lag"]) for at in described["offsets"]] == [(3, 10, 7), (4, 10, 6)]
    assert all(before - 60_000 < at["committed_ms"] <= before + 1_000 for at in described["offsets"])
    assert described["last_commit"]["client_id"] == "etl"
    (listed,) = place.done("list", "--lag", "--pattern", group)["groups"]
    assert (listed["lag"], listed["state"], listed["type"], listed["offsets_storage"]) == (
        13,
        "Empty",
        "Classic",
        "kafka",
    )


def test_who_has_never_committed_has_no_lag_of_0(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    topic, group = hours.topic, fresh_name()
    with member(place.shim.bootstrap, group, topic):
        described = place.done("describe", group)
        assert [(at["partition"], at["offset"], at["log_end_offset"], at["lag"]) for at in described["offsets"]] == [
            (0, None, 10, None),
            (1, None, 10, None),
        ]
        shown = [line.split() for line in place.groups("describe", group).stdout.splitlines()]
        assert [topic, "0", "-", "10", "-", "-"] in shown
        (listed,) = place.done("list", "--lag", "--pattern", group)["groups"]
        assert listed["lag"] is None


def test_a_group_that_is_gone_is_not_listed(place: Place, hours: Hours, fresh_name: Callable[[], str]) -> None:
    topic, group = hours.topic, fresh_name()
    told = place.groups("reset", group, "--to-earliest", "--topic", topic, "--dry-run")
    new = f"group {group} has no offsets here: a reset makes the group"
    assert told.stderr == f"{new}\n"
    assert place.done("reset", group, "--to-earliest", "--topic", topic, "--dry-run")["new_group"] is True
    told = place.groups("reset", group, "--to-earliest", "--topic", topic, "--yes")
    assert told.status == 0
    assert told.stderr.splitlines() == [new, "2 offsets set", f"group {group} is new"]
    assert place.done("reset", group, "--to-latest", "--topic", topic, "--yes")["new_group"] is False
    place.commit(group, topic, 3)
    assert [row["group"] for row in place.done("list", "--pattern", group)["groups"]] == [group]
    place.done("delete", group, "--yes")
    assert group not in [row["group"] for row in place.done("list")["groups"]]
    assert place.done("describe", group)["state"] == "Dead", "whoever asks for it is told"


def test_the_topic_is_deleted(
    place: Place, broker: Broker, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """Whether the shim has noticed or not: what is not there cannot be told, and the rest is."""
    topic, group = make_topic(1), fresh_name()
    place.commit(group, topic, 0)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    described = place.groups("describe", group, "--json")
    for at in described.json["offsets"]:
        assert (at["lag"], at["log_end_offset"]) == (None, None)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in at["why"]
    assert described.status == bool(described.json["offsets"]), "the shim may have noticed"


def test_what_was_reset_outlives_the_shim(
    broker: Broker, hours: Hours, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    topic, group = hours.topic, fresh_name()
    with administered(broker, tmp_path / "data") as at:
        place = Place(at, broker)
        place.commit(group, topic, 3, 4)
        place.done("reset", group, "--to-latest", "--topic", topic, "--yes")
        place.shim.kill()
        place.shim.start()
        assert place.committed(group, topic) == [10, 10]
        assert [row["to"] for row in place.done("history", group)["moves"]] == [3, 4, 10, 10]
        place.done("reset", group, "--undo", "--yes")
        assert place.committed(group, topic) == [3, 4]


def test_delete(place: Place, broker: Broker, hours: Hours, fresh_name: Callable[[], str]) -> None:
    served, passed, unknown = fresh_name(), fresh_name(), fresh_name()
    place.commit(served, hours.topic, 3, 4)
    place.commit(passed, hours.topic, 5, bootstrap=broker.bootstrap_servers)
    dry = place.groups("delete", served, passed, unknown, "--dry-run", "--json")
    assert dry.status == 1
    assert {row["group"]: (row["offsets"], row["deleted"]) for row in dry.json["groups"]} == {
        served: (2, False),
        passed: (1, False),
    }
    assert [row["group"] for row in dry.json["not_done"]] == [unknown]
    assert place.committed(served, hours.topic) == [3, 4]
    told = place.groups("delete", served, passed, "--yes")
    assert told.status == 0
    assert place.committed(served, hours.topic) == [NONE, NONE]
    assert place.committed(passed, hours.topic, bootstrap=broker.bootstrap_servers) == [NONE, NONE]
    again = place.groups("delete", served, passed, "--yes")
    assert again.status == 1
    assert again.stderr.count("not known: there is no group") == 2
    assert "groups delete, by " in place.shim.log()


@pytest.mark.parametrize("steps", [1, 2])
def test_a_group_whose_offsets_are_in_zookeeper_too(
    broker: Broker, zookeeper: ZooKeeper, hours: Hours, tmp_path: Path, fresh_name: Callable[[], str], steps: int
) -> None:
    topic, group, chroot = hours.topic, fresh_name(), fresh_name()
    with kazoo(zookeeper.connect_string) as client:
        client.ensure_path(f"/{chroot}")
    connect = f"{zookeeper.connect_string}/{chroot}"
    with kazoo(connect) as others, with_zookeeper(broker, tmp_path / "data", connect) as at:
        place = Place(at, broker)
        paths = [f"/consumers/{group}/offsets/{topic}/{number}" for number in range(2)]
        for path in paths:
            put(others, path, b"3")
        assert at.migrate("start", group).status == 0
        for _ in range(steps - 1):
            assert at.migrate("advance", group).status == 0
        told = place.done("reset", group, "--to-latest", "--all-topics", "--yes")
        assert [(row["offset"], row["new_offset"]) for row in told["offsets"]] == [(3, 10), (3, 10)]
        if steps == 1:  # where ZooKeeper is right, it is there by now
            assert [others.get(path)[0] for path in paths] == [b"10", b"10"]
        assert place.committed(group, topic) == [10, 10]
        others.create(f"/consumers/{group}/ids/old", b"{}", ephemeral=True, makepath=True)
        described = place.done("describe", group)
        assert (described["state"], described["zookeeper_consumers"]) == ("Empty", ["old"])
        assert "it has members in ZooKeeper: old. " in place.refused("reset", group, "--undo", "--yes")
        look = offset_shim("groups", "reset", group, "--undo", "--dry-run", "--admin", at.address)
        assert look.status == 1
        assert "it would be refused now: it has members in ZooKeeper: old. " in look.stderr
        assert "it has members in ZooKeeper: old. " in place.refused("delete", group, "--yes")
        others.delete(f"/consumers/{group}/ids/old")
        place.done("reset", group, "--undo", "--yes")
        assert place.committed(group, topic) == [3, 3]
        assert at.migrate("verify", group).json["groups"][0]["offsets"] == 2
        place.done("delete", group, "--yes")
        if steps == 1:
            assert not any(others.exists(path) for path in paths)
