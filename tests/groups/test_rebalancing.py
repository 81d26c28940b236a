"""A rebalance that does not come to its end, as somebody on call sees it: unmodified clients, a running shim."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from confluent_kafka import Consumer

from tests.conftest import TopicFactory
from tests.groups.place import Place
from tests.waiting import wait_until


@contextmanager
def a_member(place: Place, group: str, topic: str, client_id: str) -> Iterator[Consumer]:
    with closing(Consumer({"bootstrap.servers": place.bootstrap, "group.id": group, "client.id": client_id})) as member:
        member.subscribe([topic])
        yield member


_SESSION_MS: Final = 20_000
_CHILD: Final = f"""
import sys
from confluent_kafka import Consumer
bootstrap, group, topic, client_id = sys.argv[1:]
consumer = Consumer({{
    "bootstrap.servers": bootstrap, "group.id": group, "client.id": client_id, "session.timeout.ms": {_SESSION_MS}
}})
consumer.subscribe([topic])
while True:
    consumer.poll(1)
"""


@contextmanager
def a_process(place: Place, group: str, topic: str, client_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """A member that can be killed."""
    with subprocess.Popen([sys.executable, "-c", _CHILD, place.bootstrap, group, topic, client_id]) as child:
        try:
            yield child
        finally:
            child.kill()


def assigned(*members: Consumer) -> bool:
    """All of them are polled, so that each takes its part in a rebalance."""
    for member in members:
        member.poll(0.05)
    return all(member.assignment() for member in members)


def test_who_keeps_all_others_waiting_is_named(
    place: Place, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    group, topic = fresh_name(), make_topic(2)

    def told() -> Any:
        return place.done("describe", group)

    def awaited() -> list[str]:
        return [each["member_id"] for each in told()["generation"]["awaited"]]

    with a_member(place, group, topic, "stuck") as stuck:
        wait_until(lambda: assigned(stuck), "the first member has partitions")
        calm = told()["generation"]
        assert (calm["awaited"], calm["pending"], calm["until_ms"]) == ([], [], None)
        (of_stuck,) = [each["member_id"] for each in told()["member_details"]]

        # From here on it sends heartbeats, and its application does not poll.
        with a_member(place, group, topic, "other") as other:
            wait_until(lambda: assigned(other) or awaited() == [of_stuck], "it is waited for")
            found = told()
            assert found["state"] == "PreparingRebalance"
            assert found["generation"]["generation_id"] == calm["generation_id"]
            assert found["generation"]["since_ms"] < found["generation"]["until_ms"]
            shown = place.groups("describe", group).stdout
            assert f"\ngeneration: {calm['generation_id']}, PreparingRebalance since " in shown
            assert "\nlast rebalance: member other-" in shown
            (line,) = [line for line in shown.splitlines() if line.startswith("awaited: ")]
            assert f"awaited: {of_stuck} (stuck at /127.0.0.1, the leader, last heard of " in line

            wait_until(lambda: assigned(stuck, other), "both have partitions")
            assert told()["generation"]["generation_id"] > calm["generation_id"]
    log = place.shim.log()
    before = f"after generation {calm['generation_id']} (Stable, members: 2): member other-"
    assert f"group {group}: preparing to rebalance {before}" in log
    assert f"group {group}: it has no members any more" in log


def test_a_member_of_a_stable_group_that_was_killed(
    place: Place, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """Its partitions nobody reads until its session ends; who joins meanwhile waits for it, and is not to blame."""
    group, topic = fresh_name(), make_topic(2)

    def told() -> dict[str, Any]:
        members = place.done("describe", group)["member_details"]
        return {each["client_id"]: each for each in members}

    with a_member(place, group, topic, "alive") as alive:
        wait_until(lambda: assigned(alive), "the first member has partitions")
        with a_process(place, group, topic, "killed") as child:

            def shared() -> bool:
                alive.poll(0.05)
                return [len(each["partitions"] or ()) for each in told().values()] == [1, 1]

            def heard() -> bool:
                """Since it was told its partition, from when its session counts, too."""
                alive.poll(0.05)
                its = told()["killed"]
                return bool(its["removed_ms"] == its["heard_ms"] + _SESSION_MS)

            wait_until(shared, "both have a partition")
            wait_until(heard, "what is killed then has been heard")
            child.kill()
            wait_until(lambda: (of := told())["alive"]["heard_ms"] > of["killed"]["heard_ms"] + 1_000, "one is silent")
            dead = told()["killed"]
            assert dead["session_timeout_ms"] == _SESSION_MS
            assert dead["removed_ms"] == dead["heard_ms"] + _SESSION_MS
            shown = place.groups("describe", group).stdout
            assert "\nstate: Stable, Classic, 2 members\n" in shown
            (line,) = [line for line in shown.splitlines() if line.startswith("killed ")]
            who = r"it has 2 members \(it is Stable\): killed at /127.0.0.1 \(last heard of \d+ s ago, its session ends"
            for command in (("delete", group), ("reset", group, "--to-earliest", "--topic", topic)):
                assert re.search(who, place.refused(*command, "--yes"))
            assert re.search(rf"  \d+ s ago  20 s     in \d+ s +{topic}:[01]$", line)

        with a_member(place, group, topic, "newcomer") as newcomer:
            wait_until(lambda: assigned(alive, newcomer) and "killed" not in told(), "they go on without it")
            found = place.done("describe", group)["generation"]
            assert found["reason"].startswith("member newcomer-")
            gone = f"(killed at /127.0.0.1), gone, not heard of for its session timeout, {_SESSION_MS} ms"
            assert re.fullmatch(rf"killed-\S+ {re.escape(gone)}", found["waited_for"])
            assert f"\nit had to wait for: {found['waited_for']}\n" in place.groups("describe", group).stdout
