"""`serve --workers`: several processes are one shim for whoever comes, and whichever of them dies."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from shim.config import OPTIONS, SettingError, load_configuration
from shim.demo.parts import Broker, free_port_range
from shim.demo.parts.process import Child
from shim.given import given_to_serve
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.workers_folder import SHARES_NAME
from tests.admin.live.running import in_a_process
from tests.conftest import TopicFactory
from tests.hands_on_disk import hands_on_disk
from tests.hung import hung
from tests.serve.scraped import AdminPort, until
from tests.serve.test_start import serve
from tests.shim_process import Shim
from tests.workers.conftest import OFFSETS_PARTITIONS, PATIENT, admin_of, shim_of
from tests.workers.groups import of_both
from tests.workers.load import CLIENT_ID, SteadyGroup
from tests.workers.processes import wait_until_gone, workers_of

GROUPS = 24
READY = "offset-shim ready"
TIME_LIMIT_SECONDS = 120


def steady(shim: Shim, names: Sequence[str], topic: str, seed: int) -> list[SteadyGroup]:
    ports = [shim.port, shim.broker_port(1)]
    return [SteadyGroup(name, topic, ports, random.Random(seed * 1000 + at)) for at, name in enumerate(names)]


async def under_load(groups: Sequence[SteadyGroup], what: Callable[[], object]) -> None:
    """Do that in a thread while all commit; they have gone on at the end, and what was acknowledged is there."""
    done = asyncio.Event()
    async with asyncio.timeout(TIME_LIMIT_SECONDS), asyncio.TaskGroup() as tasks:
        for each in groups:
            tasks.create_task(each.run(done))
        await asyncio.gather(*(each.further(5) for each in groups))
        await asyncio.to_thread(what)
        await asyncio.gather(*(each.further(5) for each in groups))
        done.set()
    for each in groups:
        await each.look()
        assert each.reads


def test_as_many_workers_as_it_is_told(broker: Broker, data_dir: Path) -> None:
    """And one line, when all of them serve."""
    port = free_port_range(3, "127.0.0.1")
    said: list[str] = []
    child = Child(serve(data_dir, broker.bootstrap_servers, port, "--workers", "2"), ready=READY, on_line=said.append)
    try:
        child.wait_ready(60)
        assert len(workers_of(child.pid)) == 2
        child.stop(30)
    finally:
        child.kill()
    assert child.returncode == 0
    (line,) = [line for line in said if line.startswith(READY)]
    at = f"broker {broker.node_id} at port {port + 1 + broker.node_id}"
    assert line == f"{READY} on 127.0.0.1:{port}, {at}, data in {data_dir}, 2 workers"
    assert not [line for line in said if "on topics of the cluster" in line], "the log is in the directory"


# --- clients ---------------------------------------------------------------------------------------------------------


async def test_consumers_of_two_libraries_over_one_address(
    shim: Shim, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic = make_topic(2)
    names = of_both(fresh_name(), 4)
    async with AIOKafkaProducer(bootstrap_servers=shim.bootstrap) as producer:
        for number in range(20):
            await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
    for name in names[:2]:
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=shim.bootstrap,
            group_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            count = 0
            while count < 20:
                count += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
            await consumer.commit()
            assert {await consumer.committed(AioPartition(topic, partition)) for partition in (0, 1)} == {10}
    for name in names[2:]:
        await asyncio.to_thread(_consume_all, shim.bootstrap, name, topic)
    admin = AdminClient({"bootstrap.servers": shim.bootstrap})
    listed = await asyncio.to_thread(lambda: admin.list_consumer_groups().result(30))
    assert not listed.errors
    there = [group.group_id for group in listed.valid]  # of others, too, who use the broker
    assert sorted(each for each in there if each in names) == sorted(names)
    described = admin.describe_consumer_groups(names)
    assert {(await asyncio.to_thread(each.result, 30)).group_id for each in described.values()} == set(names)
    for name in names:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name]
        offsets = (await asyncio.to_thread(asked.result, 30)).topic_partitions
        assert {(each.partition, each.offset) for each in offsets} == {(0, 10), (1, 10)}


def _consume_all(bootstrap: str, group: str, topic: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        count = 0
        while count < 20:
            message = consumer.poll(30)
            assert message is not None
            assert not message.error(), message.error()
            count += 1
        consumer.commit(asynchronous=False)
        committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert [each.offset for each in committed] == [10, 10]
    finally:
        consumer.close()


@pytest.fixture
def patient_shim(broker: Broker, data_dir: Path) -> Iterator[Shim]:
    with shim_of(broker, data_dir, 2, PATIENT) as running:
        yield running


async def test_every_worker_has_clients_and_asks_the_other(
    patient_shim: Shim, topic: str, fresh_name: Callable[[], str]
) -> None:
    """Connections go to whichever is free, and each is served there whatever group it is about."""
    shim = patient_shim
    names = of_both(fresh_name(), GROUPS)
    groups = steady(shim, names, topic, 1)
    await under_load(groups, lambda: None)  # a broker that is new has no coordinator yet that could tell of groups
    for each in groups:
        each.refusals.clear()
    await under_load(groups, lambda: None)
    assert not [told for each in groups for told in each.refusals], shim.log()
    for name in names[:2]:
        for _ in range(20):  # connections to either worker
            (reader,) = steady(shim, [name], topic, 2)
            reader.acknowledged = reader.sent = next(each for each in groups if each.group == name).acknowledged
            await reader.read()
            reader.close()
    port = AdminPort(admin_of(shim))
    until(lambda: len(connections_of_each(port)) == 2)
    assert port.get("/livez")[0] == 200


def connections_of_each(port: AdminPort) -> list[int]:
    """That steady groups had, of each worker that had any."""
    return [row["connections"] for row in port.document("/v1/clients")[1]["clients"] if row["client_id"] == CLIENT_ID]


# --- deaths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [(1,), pytest.param((1, 0, 1), marks=pytest.mark.soak)], ids=str)
async def test_a_worker_is_killed_under_load(
    numbers: Sequence[int], shim: Shim, topic: str, fresh_name: Callable[[], str]
) -> None:
    groups = steady(shim, of_both(fresh_name(), GROUPS), topic, 3)
    for number in numbers:

        def kill(number: int = number) -> None:
            (victim,) = [pid for pid in workers_of(shim.pid) if _is_worker(shim, pid, number)]
            os.kill(victim, signal.SIGKILL)
            wait_until_gone([victim])

        await under_load(groups, kill)
    assert any(each.refusals for each in groups)
    assert shim.log().count("another one takes its place") == len(numbers)
    assert "Traceback" not in shim.log()
    assert shim.stop() == 0


def _is_worker(shim: Shim, pid: int, number: int) -> bool:
    """By the socket that it listens on: it has its journal open, too."""
    journal = shim.data_dir.resolve() / SHARES_NAME / str(number) / "flush.journal"
    found = False
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found |= link.readlink() == journal
    return found


async def test_the_parent_is_killed_under_load(shim: Shim, topic: str, fresh_name: Callable[[], str]) -> None:
    """Its workers end by themselves, in good order, and nobody else can have the directory before they have."""
    groups = steady(shim, of_both(fresh_name(), GROUPS), topic, 4)

    def kill() -> None:
        theirs = workers_of(shim.pid)
        shim.kill()
        wait_until_gone(theirs)
        shim.start()

    await under_load(groups, kill)
    assert shim.log().count("the process that began this one is gone") == 2
    assert shim.stop() == 0


@pytest.mark.parametrize("counts", [(1, 2, 1), pytest.param((1, 2, 3, 1), marks=pytest.mark.soak)], ids=str)
async def test_all_are_killed_and_as_many_others_come(
    counts: Sequence[int], broker: Broker, data_dir: Path, topic: str, fresh_name: Callable[[], str]
) -> None:
    """What the last ones had in their journals is there whoever comes."""
    first = shim_of(broker, data_dir, counts[0])
    names = of_both(fresh_name(), GROUPS)
    groups = [SteadyGroup(name, topic, [first.port, first.broker_port(1)], random.Random(name)) for name in names]
    running = [first]
    first.start()
    try:
        for workers in counts[1:]:

            def change(workers: int = workers) -> None:
                before = running.pop()
                theirs = workers_of(before.pid)
                for pid in (before.pid, *theirs):
                    os.kill(pid, signal.SIGKILL)
                before.kill()
                wait_until_gone(theirs)
                assert not (data_dir / CLEAN_SHUTDOWN).exists()
                after = shim_of(broker, data_dir, workers)
                after.port = first.port
                running.append(after)
                after.start()

            await under_load(groups, change)
        assert running[0].stop() == 0
    finally:
        running[0].kill()
    assert (data_dir / CLEAN_SHUTDOWN).exists()
    assert not (data_dir / SHARES_NAME).exists()


async def test_sigterm_under_load_ends_all_in_good_order(
    shim: Shim, data_dir: Path, topic: str, fresh_name: Callable[[], str]
) -> None:
    groups = steady(shim, of_both(fresh_name(), GROUPS), topic, 5)

    def again() -> None:
        assert shim.stop() == 0
        assert (data_dir / CLEAN_SHUTDOWN).exists()
        assert not (data_dir / SHARES_NAME).exists()
        shim.start()

    await under_load(groups, again)
    assert "Traceback" not in shim.log()
    assert "has closed the connection" not in shim.log(), "that the others end, too, is no trouble"


def test_settings_that_change_are_for_all_and_for_who_comes_later(shim: Shim) -> None:
    os.kill(shim.pid, signal.SIGHUP)
    until(lambda: shim.log().count("settings read again") == 2)
    (victim, _) = workers_of(shim.pid)
    os.kill(victim, signal.SIGKILL)
    until(lambda: shim.log().count("settings read again") == 3)


def test_a_worker_that_cannot_go_on_is_the_end_of_all(broker: Broker, data_dir: Path) -> None:
    other = "version=1\ncluster.id=another-cluster\n"
    with shim_of(broker, data_dir, 2) as first:
        assert first.stop() == 0
    (data_dir / "meta.properties").write_text(other)
    second = shim_of(broker, data_dir, 2)
    with pytest.raises(Exception, match="exit status 1"):
        second.start()
    assert second.log().count("Error: ") == 1
    assert "Error: data directory" in second.log()
    assert "belongs to cluster another-cluster" in second.log()
    assert "Traceback" not in second.log()


def test_another_shim_has_neither_the_directory_nor_the_ports(broker: Broker, shim: Shim, tmp_path: Path) -> None:
    same_directory = shim_of(broker, shim.data_dir, 2)
    with pytest.raises(Exception, match="in use by another process"):
        same_directory.start()
    same_port = shim_of(broker, tmp_path / "d", 2)
    same_port.port = shim.port
    with pytest.raises(Exception, match="Address already in use"):
        same_port.start()
    assert "Traceback" not in same_port.log()


# --- who looks after them --------------------------------------------------------------------------------------------


async def test_the_admin_port_tells_of_all_groups(shim: Shim, topic: str, fresh_name: Callable[[], str]) -> None:
    names = of_both(fresh_name(), 8)
    await under_load(steady(shim, names, topic, 6), lambda: None)
    address = admin_of(shim)
    listed = in_a_process("groups", "list", "--json", "--admin", address).json["groups"]
    assert sorted(each["group"] for each in listed) == sorted(names)
    port = AdminPort(address)
    for name in names[:2]:
        assert port.document(f"/v1/groups/describe?group={name}")[1]["offsets"]
        assert port.document(f"/v1/groups/history?group={name}")[1]["moves"]
    assert port.get("/v1/groups/describe?group=nobody-knows-it")[0] == 404
    name = names[1]  # of the worker that has no such port
    reset = in_a_process("groups", "reset", name, "--to-earliest", "--topic", topic, "--yes", "--admin", address)
    assert reset.status == 0, reset
    (reader,) = steady(shim, [name], topic, 7)
    await reader.read()
    reader.close()
    assert in_a_process("groups", "delete", name, "--yes", "--admin", address).status == 0
    listed = port.document("/v1/groups")[1]["groups"]
    assert sorted(each["group"] for each in listed) == sorted(set(names) - {name})


async def test_metrics_and_readiness_are_of_all(shim: Shim, topic: str, fresh_name: Callable[[], str]) -> None:
    groups = steady(shim, of_both(fresh_name(), GROUPS), topic, 8)
    await under_load(groups, lambda: None)
    port = AdminPort(admin_of(shim))
    until(lambda: port.get("/readyz")[0] == 200)
    scraped = port.scrape()
    assert scraped.value("partitions", state="loaded") == OFFSETS_PARTITIONS
    assert scraped.value("groups", state="Empty") == GROUPS
    assert not scraped.labels("log_topic_complaints"), "nothing is on topics"
    assert scraped.value("offsets_committed_total") >= sum(each.acknowledged for each in groups)
    (overview,) = [json.loads(port.get("/v1/overview")[1])]
    assert overview["loaded"] == overview["partitions"] == OFFSETS_PARTITIONS
    until(lambda: len(connections_of_each(port)) == 2)
    (second,) = [pid for pid in workers_of(shim.pid) if _is_worker(shim, pid, 1)]
    with hung(second):
        until(lambda: port.get("/readyz")[0] == 503)
        assert any("worker 1: " in line for line in json.loads(port.get("/readyz")[1])["missing"])
        assert len(connections_of_each(port)) == 1
    until(lambda: port.get("/readyz")[0] == 200)


async def test_a_backup_while_they_work_has_what_was_acknowledged(
    shim: Shim, tmp_path: Path, topic: str, fresh_name: Callable[[], str]
) -> None:
    names = of_both(fresh_name(), 8)
    backup = tmp_path / "backup"

    def back_up() -> None:
        done = in_a_process("log", "backup", "--data-dir", str(shim.data_dir), str(backup))
        assert done.status == 0, done

    await under_load(steady(shim, names, topic, 9), back_up)
    assert set(hands_on_disk(backup)) == set(names)
    assert in_a_process("log", "verify", "--data-dir", str(backup)).status == 0


# --- what does not go with it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"offsets.log": "kafka"}, "--workers 2 does not go with offsets.log yet"),
        ({"offsets.log": "moving"}, "--workers 2 does not go with offsets.log=moving: start it without workers"),
        ({"zookeeper.connect": "localhost:1"}, "--workers 2 does not go with --zookeeper yet"),
        ({"metrics.statsd.address": "localhost:1"}, "does not go with metrics.statsd.address yet"),
        ({"offsets.topic.num.partitions": 1}, "offsets.topic.num.partitions is 1, and each needs one"),
        ({"data.dir": "/tmp/" + "d" * 120}, "have it in a folder whose path is shorter"),
    ],
)
def test_what_does_not_go_with_workers_is_refused(more: dict[str, str | int], told: str) -> None:
    named = {"bootstrap.servers": "h:1", "listen": "h:2", "data.dir": "/nowhere", "workers": 2, **more}
    options = {name: (OPTIONS.get(name, "--set"), value) for name, value in named.items()}
    with pytest.raises(SettingError, match=re.escape(told)):
        given_to_serve(load_configuration(None, [], {}, options))
