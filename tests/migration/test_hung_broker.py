"""One of three brokers hangs: what is known of the groups of the others is told, and not taken for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from protocol.messages import find_coordinator
from shim.demo.parts import Broker, Cluster
from shim.migration.mirror.guard import Guard
from shim.offsets.cluster.groups import ClusterGroups
from shim.upstream.errors import UpstreamError
from tests.admin.live.running import offset_shim
from tests.cluster.conftest import coordinators
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.migration.mirrored import mirrored
from tests.migration.test_changing_hands import Administered, administered
from tests.migration.test_first_contact import commit
from tests.wire import WireClient

__all__ = ["coordinators"]

HANGS = 2
"""The node id of a broker that is no controller."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """In which nobody takes the place of one that hangs for as long as a test takes."""
    properties = {"broker.session.timeout.ms": 60_000}
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=3, properties=properties) as running:
        yield running


def by_hanging(cluster: Cluster, fresh_name: Callable[[], str], count: int) -> tuple[list[str], list[str]]:
    """So many groups that the broker coordinates that is going to hang, and as many that others do."""
    there: list[str] = []
    elsewhere: list[str] = []
    with WireClient(cluster.brokers[0].port, cluster.brokers[0].host) as client:
        while len(there) < count or len(elsewhere) < count:
            name = fresh_name()
            request = find_coordinator.FindCoordinatorRequest(name)
            found = client.ask(find_coordinator.API, 2, request)
            (there if found.node_id == HANGS else elsewhere).append(name)
    return there[:count], elsewhere[:count]


def hanging(cluster: Cluster) -> Broker:
    (found,) = (each for each in cluster.brokers if each.node_id == HANGS)
    return found


def committed_past(cluster: Cluster, groups: Sequence[str], topic: str) -> None:
    for group in groups:
        commit(cluster.bootstrap_servers, group, topic, 3)


def of_these(rows: Sequence[dict[str, str]], groups: Sequence[str], column: str) -> dict[str, str]:
    return {each["group"]: each[column] for each in rows if each["group"] in groups}


def test_the_groups_of_one_that_hangs_are_unknown_and_no_others(
    cluster: Cluster, coordinators: None, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic = make_topic()
    there, elsewhere = by_hanging(cluster, fresh_name, 4)
    committed_past(cluster, [*there, *elsewhere], topic)
    broker = hanging(cluster)
    with administered(cluster, tmp_path / "data") as at:
        for group in (*there, *elsewhere):
            commit(at.shim.bootstrap, group, topic, 4)
        with hung(broker.pid):
            status = at.migrate("status")
            listed = offset_shim("groups", "list", "--admin", at.address)
        why = f"broker {HANGS} at {broker.host}:{broker.port} has not answered in 3 s"
        rows = status.json["groups"]
        assert of_these(rows, elsewhere, "state") == dict.fromkeys(elsewhere, "Empty")
        assert of_these(rows, elsewhere, "alarm") == dict.fromkeys(elsewhere, "")
        assert of_these(rows, there, "state") == dict.fromkeys(there, "Unknown")
        assert of_these(rows, there, "alarm") == dict.fromkeys(there, why)
        assert status.status == 1
        assert of_these(rows, there, "members") == dict.fromkeys(there)
        told = [line for line in listed.stderr.splitlines() if why in line]
        assert told == [f"state and members of {len(there)} groups are not known: {why}"]
        for group in there:
            (line,) = [line for line in listed.stdout.splitlines() if line.startswith(f"{group} ")]
            assert line.split() == [group, "upstream", "Unknown", "Classic", "-", "-"]


def led_by(cluster: Cluster, make_topic: TopicFactory, *, hanging: bool) -> str:
    """A topic with one partition, which the broker leads that is going to hang, or another one."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    while True:
        topic = make_topic()
        if (admin.list_topics(topic).topics[topic].partitions[0].leader == HANGS) is hanging:
            return topic


def test_the_lag_that_can_be_told_is_told(
    cluster: Cluster, coordinators: None, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    lost, led = (led_by(cluster, make_topic, hanging=hanging) for hanging in (True, False))
    there, elsewhere = by_hanging(cluster, fresh_name, 1)
    committed_past(cluster, [*there, *elsewhere], led)
    behind_it, behind_others = fresh_name(), fresh_name()
    broker = hanging(cluster)
    why = f"broker {HANGS} at {broker.host}:{broker.port} has not answered in 3 s"
    with administered(cluster, tmp_path / "data") as at:
        commit(at.shim.bootstrap, behind_it, lost, 0)
        commit(at.shim.bootstrap, behind_others, led, 0)
        for group in (*there, *elsewhere):
            commit(at.shim.bootstrap, group, led, 0)
        with hung(broker.pid):
            listed = offset_shim("groups", "list", "--lag", "--json", "--admin", at.address)
            described = offset_shim("groups", "describe", behind_it, "--json", "--admin", at.address)
        lags = {each["group"]: each["lag"] for each in listed.json["groups"]}
        known = {behind_it: None, behind_others: 0, there[0]: None, elsewhere[0]: 0}
        assert {group: lags[group] for group in known} == known
        assert listed.status == described.status == 1
        assert f"no lag of 2 groups: {why}\n" in listed.stderr
        assert [(each["offset"], each["why"]) for each in described.json["offsets"]] == [(0, why)]
        assert f"no log end: {why}\n" in described.stderr


def planned(at: Administered, *names: str) -> tuple[list[dict[str, str]], list[str]]:
    result = at.migrate("plan", *names)
    assert result.status == 1
    return result.json["groups"], result.json.get("unanswered", [])


def test_what_is_known_is_planned_and_not_taken_for_all(
    cluster: Cluster, coordinators: None, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic = make_topic()
    there, elsewhere = by_hanging(cluster, fresh_name, 2)
    committed_past(cluster, [*there, *elsewhere], topic)
    broker = hanging(cluster)
    why = f"broker {HANGS} at {broker.host}:{broker.port} has not answered in 3 s"
    with administered(cluster, tmp_path / "data") as at:
        with hung(broker.pid):
            rows, unanswered = planned(at)
            assert unanswered == [why]
            assert of_these(rows, [*there, *elsewhere], "state") == dict.fromkeys(elsewhere, "Empty")
            # Shims that share a log may be in a group of the broker that hangs.
            assert all(why in each["hindrance"] for each in rows)
            refused = at.migrate("start", "--pattern", f"{elsewhere[0][:-8]}*", "--yes")
            assert refused.status == 2
            assert why in refused.stderr
        with hung(broker.pid):
            rows, unanswered = planned(at, there[0], elsewhere[0])
            assert unanswered == []
            assert of_these(rows, there, "state") == {there[0]: "Unknown"}
            assert of_these(rows, there, "members") == of_these(rows, there, "offsets") == {there[0]: None}
            assert of_these(rows, there, "hindrance") == {there[0]: f"the cluster cannot be asked: {why}"}
            assert of_these(rows, elsewhere, "state") == {elsewhere[0]: "Empty"}


def test_a_look_at_a_group_that_nobody_has_heard_of_names_the_broker(
    cluster: Cluster, coordinators: None, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """It was found out as for a client, who has all the time that a request may take."""
    topic = make_topic()
    (lost,), (there,) = by_hanging(cluster, fresh_name, 1)
    broker = hanging(cluster)
    why = f"the cluster cannot be asked: broker {HANGS} at {broker.host}:{broker.port} has not answered in 3 s"
    with administered(cluster, tmp_path / "data") as at, hung(broker.pid):
        deleted = offset_shim("groups", "delete", lost, there, "--dry-run", "--json", "--admin", at.address)
        reset = ("groups", "reset", lost, "--to-offset", "0", "--topic", topic, "--dry-run")
        refused = offset_shim(*reset, "--admin", at.address)
    assert {each["group"]: each["kind"] for each in deleted.json["not_done"]} == {lost: "refused", there: "not known"}
    assert why in [each["error"] for each in deleted.json["not_done"]]
    assert (refused.status, refused.stderr.splitlines()[-1]) == (1, f"Error: {why}")


async def test_the_guard_looks_at_the_groups_of_the_others(
    cluster: Cluster,
    coordinators: None,
    tmp_path: Path,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = make_topic()
    there, elsewhere = by_hanging(cluster, fresh_name, 1)
    async with mirrored(cluster, tmp_path) as at:
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        for group in (*there, *elsewhere):
            await at.serve(group)
            await at.commit_offset(group, topic, 12)
        await at.reached(*there, *elsewhere)
        for group in (*there, *elsewhere):
            await asyncio.to_thread(partial(commit, cluster.bootstrap_servers, group, topic, 17))
        with hung(hanging(cluster).pid), monkeypatch.context() as impatient:
            impatient.setattr("shim.migration.mirror.guard._ANSWERED_WITHIN_SECONDS", 3.0)
            await guard.look()
            assert list(guard.alarms) == elsewhere
            # What one broker does not list is not taken for what is not there.
            with pytest.raises(UpstreamError, match=f"broker {HANGS} at"):
                await at.cluster_groups.groups(1.0)
        assert f"broker {HANGS} at" in caplog.text
        await guard.look()
        assert sorted(guard.alarms) == sorted([*there, *elsewhere])


async def test_another_broker_is_asked_who_coordinates_a_group(
    cluster: Cluster, coordinators: None, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    """Whichever is asked first: one that is silent is asked at last from then on."""
    _, groups = by_hanging(cluster, fresh_name, 6)
    async with mirrored(cluster, tmp_path) as at:
        with hung(hanging(cluster).pid):
            asked = ClusterGroups(at.brokers)
            async with asyncio.timeout(25):  # a request may take 30 s
                assert {await asked.state_of(group) for group in groups} == {"Dead"}
