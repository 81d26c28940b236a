"""A rebalance that does not come to its end, as somebody on call sees it: unmodified clients, a running shim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import Consumer

from tests.conftest import TopicFactory
from tests.groups.place import Place
from tests.waiting import wait_until


@contextmanager
def a_member(place: Place, group: str, topic: str, client_id: str) -> Iterator[Consumer]:
    with closing(Consumer({"bootstrap.servers": place.bootstrap, "group.id": group, "client.id": client_id})) as member:
        member.subscribe([topic])
        yield member


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
            (line,) = [line for line in shown.splitlines() if line.startswith("awaited: until ")]
            assert f", {of_stuck} (stuck at /127.0.0.1, the leader, heard of at " in line

            wait_until(lambda: assigned(stuck, other), "both have partitions")
            assert told()["generation"]["generation_id"] > calm["generation_id"]
    log = place.shim.log()
    before = f"after generation {calm['generation_id']} (Stable, members: 2): member other-"
    assert f"group {group}: preparing to rebalance {before}" in log
    assert f"group {group}: it has no members any more" in log
