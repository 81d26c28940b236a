"""What the tasks read, and what they say of what they cannot."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.audit.addresses import servers
from pipeline.audit.auditing import audit
from pipeline.audit.brokers import Brokers, Connection
from pipeline.audit.committed import Wanted, read_committed
from pipeline.audit.ensemble import Ensemble
from pipeline.audit.groups import find_groups
from pipeline.audit.table import COLUMNS
from pipeline.audit.words import NO_LEADER, NO_PARTITION, UPSTREAM, CannotRead, Reading
from shim.config import HostPort
from shim.demo.parts import Broker, Cluster, free_port
from tests.conftest import TopicFactory
from tests.migration.test_first_contact import commit
from tests.migration.test_share_groups import beat, deleted
from tests.offsets.conftest import kazoo, put
from tests.pipeline.audit.conftest import asked
from tests.shim_process import Shim
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def of_znodes(connect: str, *groups: str) -> list[Reading]:
    with Ensemble(connect) as ensemble:
        return ensemble.read(groups)


def test_offsets_of_old_consumers_with_what_tells_them_apart(connect: str) -> None:
    with kazoo(connect) as others:
        for partition in range(300):
            put(others, f"/consumers/etl/offsets/orders/{partition}", b"%d" % partition)
        put(others, "/consumers/etl/offsets/clicks/0", b"7")
        put(others, "/consumers/etl/ids/etl_host-1")
        put(others, "/consumers/other/offsets/orders/0", b"1")
        put(others, "/consumers/none/ids")
        stat = others.get("/consumers/etl/offsets/clicks/0")[1]
        with Ensemble(connect) as ensemble:
            assert sorted(ensemble.groups()) == ["etl", "none", "other"]
    found = of_znodes(connect, "etl", "none", "not there")
    assert {each.group for each in found} == {"etl"}
    orders = {each.partition: each.offset for each in found if each.topic == "orders"}
    assert orders == {partition: partition for partition in range(300)}
    (clicks,) = [each for each in found if each.topic == "clicks"]
    assert (clicks.offset, clicks.mzxid, clicks.mtime_ms) == (7, stat.mzxid, stat.mtime)
    assert abs(clicks.read_ms - stat.mtime) < 60_000


def test_znodes_that_are_no_offsets(connect: str) -> None:
    with kazoo(connect) as others:
        for name, value in {
            "0": b"-1",
            "1": b"",
            "2": b"9" * 40,
            "3": b"12",
            "0-4": b"5",
            "1-5": b"6",
            "2-5": b"7",
        }.items():
            put(others, f"/consumers/etl/offsets/orders/{name}", value)
        put(others, "/consumers/etl/offsets/orders/notes", b"8")
    found = of_znodes(connect, "etl")
    assert {each.partition: each.offset for each in found if not each.problem} == {3: 12, 4: 5}
    problems = {(each.partition, each.problem) for each in found if each.problem}
    path = "/consumers/etl/offsets/orders"
    assert problems == {
        (1, f"{path}/1: b'' is no offset"),
        (2, f"{path}/2: b'{'9' * 40}' is no offset"),
        (NO_PARTITION, "znode '1-5': partition 5 of several brokers"),
        (NO_PARTITION, "znode '2-5': partition 5 of several brokers"),
        (NO_PARTITION, "znode 'notes': not the name of a partition"),
    }


def test_a_place_that_goes_while_it_is_read_is_one_line(
    spark: SparkSession, broker: Broker, make_topic: TopicFactory, group: str
) -> None:
    commit(broker.bootstrap_servers, group, make_topic(), 1)
    at = broker.bootstrap_servers
    question = asked(at, at, None, groups=group)
    wheres = find_groups(question)
    assert [each.group for each in wheres] == [group]
    nobody = f"127.0.0.1:{free_port()}"
    gone = question._replace(addresses=question.addresses._replace(upstream=servers("--upstream", nobody)))
    with pytest.raises(CannotRead) as raised:
        audit(spark, gone, wheres)
    assert str(raised.value) == f"the cluster: no broker answers at {nobody}: Connection refused"


def test_groups_that_no_broker_can_list_are_not_missing(tmp_path: Path, make_topic: TopicFactory) -> None:
    """They were differences: the shim had them, and the cluster did not seem to."""
    cluster = Cluster(tmp_path / "cluster", brokers=2, properties={"offsets.topic.replication.factor": 1})
    with cluster, Shim(cluster.bootstrap_servers, tmp_path / "data") as shim:
        topic = make_topic(replication_factor=2, on=cluster)
        groups = [f"group-{number}" for number in range(8)]
        for group in groups:
            commit(shim.bootstrap, group, topic, 1)
        gone = next(broker for broker in cluster.brokers if not broker.is_controller)
        question = asked(shim.bootstrap, cluster.bootstrap_servers, None, groups="group-*")

        def upstream_nodes() -> dict[str, int | None]:
            try:
                return {each.group: each.upstream_node for each in find_groups(question)}
            except CannotRead:  # the cluster, or the shim, does not know yet that the broker has gone
                return {}

        wait_until(lambda: None not in {upstream_nodes().get(group) for group in groups}, "the mirror is behind", 30)
        before = upstream_nodes()
        unled = {group for group, node in before.items() if node == gone.node_id}
        gone.kill()
        wait_until(lambda: NO_LEADER in upstream_nodes().values(), "the broker counts as there", 60)
        assert upstream_nodes() == before | dict.fromkeys(unled, NO_LEADER)
        with Brokers("the cluster", question.addresses.upstream) as brokers:
            found = list(read_committed(UPSTREAM, brokers, [Wanted(group, NO_LEADER) for group in unled]))
    why = "its partition of __consumer_offsets has no leader"
    assert {(each.group, each.topic, each.partition, each.problem) for each in found} == {
        (group, "", NO_PARTITION, f"group {group}: {why}") for group in unled
    }


def test_where_there_is_nothing_nothing_differs(
    spark: SparkSession, broker: Broker, tmp_path: Path, group: str
) -> None:
    at = broker.bootstrap_servers
    question = asked(at, at, None, groups=group, to=tmp_path / "audit")
    found = audit(spark, question, find_groups(question))
    assert (found.totals.groups, found.totals.partitions, found.totals.differences) == (0, 0, 0)
    assert "No offsets anywhere" in (tmp_path / "audit" / "report.html").read_text(encoding="utf-8")
    assert spark.read.parquet(str(tmp_path / "audit" / "offsets.parquet")).columns == list(COLUMNS)


def test_a_share_group_is_left_out_by_name(
    spark: SparkSession, broker: Broker, make_topic: TopicFactory, group: str
) -> None:
    beat(broker.port, group, "A" * 22, 0, make_topic())
    try:
        at = broker.bootstrap_servers
        question = asked(at, at, None, groups=group, formats=())
        found = audit(spark, question, find_groups(question))
        why = "a share group, which has no committed offsets"
        assert found.left_out == [{"group": group, "step": None, "partitions": 0, "why": why}]
        assert (found.totals.groups, found.totals.left_out_groups) == (0, 1)
    finally:
        beat(broker.port, group, "A" * 22, -1, "")
        deleted(broker, group)


def test_the_group_in_which_shims_share_their_log_is_none_of_those_to_compare(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    commit(broker.bootstrap_servers, group, make_topic(), 7)
    one_partition = {"offsets.topic.num.partitions": 1}
    with Shim(broker.bootstrap_servers, tmp_path / "shim", settings=one_partition, offsets_log="kafka") as sharing:
        found = {each.group for each in find_groups(asked(sharing.bootstrap, broker.bootstrap_servers, None))}
    assert group in found
    assert sharing.topics_prefix not in found


@contextmanager
def answering(data: bytes) -> Iterator[HostPort]:
    """Somebody who takes one connection, reads a little, sends that, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(data)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield HostPort(*listening.getsockname())
        finally:
            thread.join()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\0\x02\x02\x0a",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x08\0\0\0\x01\0\0",
        b"\0\0\0\x0a\0\0\0\x01\0\0\x7f\xff\xff\xff",
        b"\0\0\0\x0a\0\0\0\x09\0\0\0\0\0\0",
    ],
)
def test_what_is_no_broker_is_one_line(data: bytes) -> None:
    with answering(data) as address, pytest.raises(CannotRead) as raised:
        Connection(address)
    assert str(raised.value).startswith(f"{address}: ")
    assert "\n" not in str(raised.value)


@pytest.fixture
def group(fresh_name: Callable[[], str]) -> str:
    """As a pattern it means itself."""
    return fresh_name()
