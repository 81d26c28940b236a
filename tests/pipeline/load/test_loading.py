"""Topics through a real shim into real tables, row for row."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from pipeline.errors import NotDone, SomethingWrong
from pipeline.load.cluster import ClusterOfGroup
from pipeline.load.delta import DeltaSink
from pipeline.load.loading import Loaded, Loading, load, look, next_plan
from pipeline.load.offsets import TopicPartition
from pipeline.load.parquet import ParquetSink
from pipeline.load.record import BatchRecord
from pipeline.load.rows import LATEST_TIMESTAMP_MS, Reading
from pipeline.load.sinks import Sink
from pipeline.load.values import Form, Values
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.pipeline.load.filling import differences, fill, fill_values, of_topic, straight
from tests.shim_process import Shim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

MakeSink = Callable[["SparkSession", str, str], Sink]
SINKS: dict[str, MakeSink] = {"delta": DeltaSink, "parquet": ParquetSink}


def loaded(spark: SparkSession, shim: Shim, group: str, sink: Sink, loading: Loading) -> Loaded:
    told: list[str] = []
    return load(spark, ClusterOfGroup(shim.bootstrap, group, {}), sink, loading, tell=told.append)


class BreaksOff:
    """A table after whose next batch the load dies: before the group is committed."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.last = sink.last
        self.next_number = sink.next_number

    def add(self, record: BatchRecord, frame: DataFrame, partition_columns: Sequence[str]) -> None:
        self._sink.add(record, frame, partition_columns)
        raise KeyboardInterrupt


class Meanwhile(BreaksOff):
    """A table at which something is done when a batch is planned and not read yet, or when it has been added."""

    def __init__(
        self, sink: Sink, *, before: Callable[[], object] = lambda: None, after: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(sink)
        self._before, self._after = before, after

    def add(self, record: BatchRecord, frame: DataFrame, partition_columns: Sequence[str]) -> None:
        self._before()
        self._sink.add(record, frame, partition_columns)
        self._after()


@pytest.mark.parametrize("form", ["delta", pytest.param("parquet", marks=pytest.mark.soak)])
def test_two_loads_a_break_and_a_group_that_is_moved(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str, form: str
) -> None:
    topic = make_topic(4)
    cluster = ClusterOfGroup(shim.bootstrap, group, {})
    sink = SINKS[form](spark, table, group)
    loading = Loading([topic], Reading(shim.bootstrap, offsets_per_task=100), most=400)

    fill(broker.bootstrap_servers, topic, 4, 2_000)
    first = loaded(spark, shim, group, sink, loading)
    assert (len(first.batches), first.offsets) == (2, 2_000)
    assert of_topic(cluster.committed(), topic) == dict.fromkeys(range(4), 500)

    fill(broker.bootstrap_servers, topic, 4, 400, seed=2)
    with pytest.raises(KeyboardInterrupt):
        loaded(spark, shim, group, BreaksOff(sink), loading)
    assert of_topic(cluster.committed(), topic) == dict.fromkeys(range(4), 500), "the table is ahead of the group now"

    again = loaded(spark, shim, group, sink, loading)
    assert (again.offsets, of_topic(again.caught_up, topic)) == (0, dict.fromkeys(range(4), 600))
    assert of_topic(cluster.committed(), topic) == dict.fromkeys(range(4), 600)
    read = spark.read.format(form).load(table)
    assert differences(read, straight(spark, broker.bootstrap_servers, topic)) == (0, 0)

    cluster.commit({TopicPartition(topic, 0): 17})
    with pytest.raises(NotDone, match=f"somebody has moved group {group}: {topic}-0 is at 17, in the table up to 600"):
        loaded(spark, shim, group, sink, loading)
    twice = loaded(spark, shim, group, sink, replace(loading, accept=True))
    assert twice.offsets == 583
    last = sink.last()
    assert last is not None
    assert of_topic(last.ends, topic) == of_topic(cluster.committed(), topic) == dict.fromkeys(range(4), 600)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_topic_that_is_made_anew_while_it_is_loaded(
    spark: SparkSession,
    broker: Broker,
    shim: Shim,
    make_topic: TopicFactory,
    group: str,
    table: str,
    moment: Literal["before", "after"],
) -> None:
    """Also by its last batch: rows of the new topic would else count as the old one's, and the group with them."""
    topic = make_topic(1)
    fill(broker.bootstrap_servers, topic, 1, 30)

    def make_anew() -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})  # its requests end with it
        admin.delete_topics([topic])[topic].result(30)
        make_topic(1, name=topic)
        fill(broker.bootstrap_servers, topic, 1, 40, seed=2)

    sink = ParquetSink(spark, table, group)
    loading = Loading([topic], Reading(shim.bootstrap))
    why = f"batch 1 is in the table, .* topic {topic} was deleted and made anew while it was loaded"
    with pytest.raises(SomethingWrong, match=why):
        loaded(spark, shim, group, Meanwhile(sink, **{moment: make_anew}), loading)
    assert of_topic(ClusterOfGroup(shim.bootstrap, group, {}).committed(), topic) == {}
    with pytest.raises(NotDone, match=f"topic {topic} was deleted and made anew since batch 1"):
        loaded(spark, shim, group, sink, loading)


def test_a_group_that_is_moved_between_two_batches(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str
) -> None:
    """What the next load would refuse this one does not undo."""
    topic = make_topic(1)
    fill(broker.bootstrap_servers, topic, 1, 30)
    cluster = ClusterOfGroup(shim.bootstrap, group, {})
    sink = ParquetSink(spark, table, group)
    loading = Loading([topic], Reading(shim.bootstrap), most=10)
    moving = Meanwhile(sink, after=lambda: cluster.commit({TopicPartition(topic, 0): 3}))
    moved = f"somebody has moved group {group}: {topic}-0 is at 3, in the table up to 10"
    with pytest.raises(SomethingWrong, match=f"batch 1 is in the table, and the next load finds it there: {moved}"):
        loaded(spark, shim, group, moving, loading)
    assert of_topic(cluster.committed(), topic) == {0: 3}
    with pytest.raises(NotDone, match=moved):
        loaded(spark, shim, group, sink, loading)


def test_transactions_only_what_was_committed(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str
) -> None:
    topic = make_topic(1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    committed, aborted = producer.commit_transaction, producer.abort_transaction
    for number, end in enumerate([committed, aborted, committed]):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, value=str(number).encode(), partition=0)
        producer.flush()
        end()
    producer.begin_transaction()
    producer.produce(topic, value=b"open", partition=0)
    producer.flush()
    sink = DeltaSink(spark, table, group)
    done = loaded(spark, shim, group, sink, Loading([topic], Reading(shim.bootstrap)))
    producer.abort_transaction()
    assert done.offsets == 33, "three transactions of ten, and the marker of each"
    rows = spark.read.format("delta").load(table).select("offset", "value").orderBy("offset").collect()
    assert [row.offset for row in rows] == [*range(10), *range(22, 32)]
    assert {bytes(row.value) for row in rows} == {b"0", b"2"}
    # What is left now are offsets without a record: the group goes on over them, so that it has no lag.
    rest = loaded(spark, shim, group, sink, Loading([topic], Reading(shim.bootstrap)))
    assert rest.offsets == 2
    assert spark.read.format("delta").load(table).count() == 20
    assert of_topic(ClusterOfGroup(shim.bootstrap, group, {}).committed(), topic) == {0: 35}


def test_what_retention_has_deleted(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str
) -> None:
    from kafka.admin import KafkaAdminClient
    from kafka.structs import TopicPartition as Name

    topic = make_topic(1)
    fill(broker.bootstrap_servers, topic, 1, 100)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    ClusterOfGroup(shim.bootstrap, group, {}).commit({TopicPartition(topic, 0): 10})
    admin.delete_records({Name(topic, 0): 40})
    admin.close()
    sink = DeltaSink(spark, table, group)
    loading = Loading([topic], Reading(shim.bootstrap))
    with pytest.raises(NotDone, match=f"deleted by retention before they were loaded: {topic}-0 offsets 10 to 39"):
        loaded(spark, shim, group, sink, loading)
    assert not Path(table).exists()
    done = loaded(spark, shim, group, sink, replace(loading, reading=replace(loading.reading, allow_gaps=True)))
    assert [(gap.start, gap.end) for gap in done.gaps] == [(10, 40)]
    rows = spark.read.format("delta").load(table).orderBy("offset").collect()
    assert [row.offset for row in rows] == [*range(40, 100)]


def test_a_gap_that_opens_between_plan_and_read(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str
) -> None:
    from kafka.admin import KafkaAdminClient
    from kafka.structs import TopicPartition as Name

    topic = make_topic(1)
    fill(broker.bootstrap_servers, topic, 1, 100)

    def delete_some() -> None:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        admin.delete_records({Name(topic, 0): 40})
        admin.close()

    sink = ParquetSink(spark, table, group)
    with pytest.raises(SomethingWrong, match=f"batch 1: deleted by retention .*: {topic}-0 offsets 0 to 39"):
        loaded(spark, shim, group, Meanwhile(sink, before=delete_some), Loading([topic], Reading(shim.bootstrap)))
    assert sink.last() is None
    assert of_topic(ClusterOfGroup(shim.bootstrap, group, {}).committed(), topic) == {}


def test_a_timestamp_that_is_no_time(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str
) -> None:
    """Brokers before 4.0 took any by default, and some producers give microseconds."""
    topic = make_topic(2, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for timestamp in (1_700_000_000_000, LATEST_TIMESTAMP_MS, LATEST_TIMESTAMP_MS + 1):
        producer.produce(topic, value=b"", partition=1, timestamp=timestamp)
    assert producer.flush(60) == 0
    sink = ParquetSink(spark, table, group)
    loading = Loading([topic], Reading(shim.bootstrap), most=2)
    with pytest.raises(SomethingWrong, match=f"batch 2: no time .*: the timestamp of {topic}-1 at offset 2$"):
        loaded(spark, shim, group, sink, loading)
    assert spark.read.parquet(table).count() == 2


_FIELDS = [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]
AVRO = json.dumps({"type": "record", "name": "R", "fields": _FIELDS})
FORMS: list[tuple[Form, str, list[bytes | None], bytes]] = [
    ("json", "id BIGINT, s STRING", [b'{"id": 1, "s": "a"}', None, b'{"id": 2, "s": "b"}'], b'{"id": "x"}'),
    ("json", "id BIGINT, s STRING", [b'{"id": 1, "s": "a"}', None, b'{"id": 2, "s": "b"}'], b'{"id": 3, "s": "\xff"}'),
    ("avro", AVRO, [b"\x02\x02a", None, b"\x04\x02b"], b"\x02\x7f"),
]


@pytest.mark.parametrize(("form", "schema", "good", "bad"), FORMS)
def test_values_of_a_schema_and_one_that_does_not_fit(
    spark: SparkSession,
    broker: Broker,
    shim: Shim,
    make_topic: TopicFactory,
    group: str,
    table: str,
    form: Form,
    schema: str,
    good: list[bytes | None],
    bad: bytes,
) -> None:
    topic = make_topic(1)
    fill_values(broker.bootstrap_servers, topic, [*good, bad])
    sink = DeltaSink(spark, table, group)
    loading = Loading([topic], Reading(shim.bootstrap, Values(form, schema), partition_by="date"))
    with pytest.raises(SomethingWrong) as refused:
        loaded(spark, shim, group, sink, loading)
    assert str(refused.value) == f"batch 1: the value of {topic}-0 at offset 3 does not fit the schema"
    assert sink.last() is None
    assert of_topic(ClusterOfGroup(shim.bootstrap, group, {}).committed(), topic) == {}

    kept = replace(loading, reading=replace(loading.reading, values=Values(form, schema, "null")))
    assert loaded(spark, shim, group, sink, kept).offsets == 4
    rows = spark.read.format("delta").load(table).orderBy("offset").collect()
    assert [None if row.value is None else tuple(row.value) for row in rows] == [(1, "a"), None, (2, "b"), None]
    assert [None if row.bad_value is None else bytes(row.bad_value) for row in rows] == [None, None, None, bad]
    assert rows[0].date == rows[0].timestamp.date()


def test_a_table_with_other_columns(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    topic = make_topic(1)
    fill_values(broker.bootstrap_servers, topic, [b'{"id": 1}'])
    raw = Loading([topic], Reading(shim.bootstrap))
    parsed = Loading([topic], Reading(shim.bootstrap, Values("json", "id BIGINT")))
    for form, make in SINKS.items():
        sink = make(spark, str(tmp_path / form), f"{group}-{form}")
        loaded(spark, shim, f"{group}-{form}", sink, raw)
        fill_values(broker.bootstrap_servers, topic, [b'{"id": 2}'])
        before = spark.read.format(form).load(str(tmp_path / form)).count()
        with pytest.raises((NotDone, SomethingWrong)) as refused:
            loaded(spark, shim, f"{group}-{form}", sink, parsed)
        assert "\n" not in str(refused.value)
        assert spark.read.format(form).load(str(tmp_path / form)).count() == before


def test_a_plan_changes_nothing(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str
) -> None:
    topic = make_topic(2)
    fill(broker.bootstrap_servers, topic, 2, 10)
    cluster = ClusterOfGroup(shim.bootstrap, group, {})
    loading = Loading([topic], Reading(shim.bootstrap))
    standing = look(cluster, DeltaSink(spark, table, group), loading)
    assert next_plan(cluster, loading, standing.starts, standing.ends).offsets == 10
    assert not Path(table).exists()
    assert of_topic(cluster.committed(), topic) == {}


def test_what_was_accepted_is_not_asked_for_again(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str
) -> None:
    """Though there was nothing to read, so that there is nothing of it in the table."""
    topic = make_topic(1)
    fill(broker.bootstrap_servers, topic, 1, 20)
    cluster = ClusterOfGroup(shim.bootstrap, group, {})
    sink = DeltaSink(spark, table, group)
    loading = Loading([topic], Reading(shim.bootstrap))
    loaded(spark, shim, group, sink, loading)
    fill(broker.bootstrap_servers, topic, 1, 5)
    cluster.commit({TopicPartition(topic, 0): 25})
    assert loaded(spark, shim, group, sink, replace(loading, accept=True)).offsets == 0
    assert loaded(spark, shim, group, sink, loading).batches == []
    assert spark.read.format("delta").load(table).count() == 20


def test_where_a_load_from_the_end_began_outlives_the_groups_offsets(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str
) -> None:
    """They expire where nobody commits; of one of the partitions there was nothing to load."""
    topic = make_topic(2)
    fill(broker.bootstrap_servers, topic, 2, 20)
    cluster = ClusterOfGroup(shim.bootstrap, group, {})
    sink = DeltaSink(spark, table, group)
    loading = Loading([topic], Reading(shim.bootstrap), begin="latest")
    assert loaded(spark, shim, group, sink, loading).batches == []
    assert of_topic(cluster.committed(), topic) == {0: 10, 1: 10}
    fill_values(broker.bootstrap_servers, topic, [b"new"])
    assert loaded(spark, shim, group, sink, loading).offsets == 1
    last = sink.last()
    assert last is not None
    assert of_topic(last.starts, topic) == {0: 10, 1: 10}
    assert sorted(of_topic(last.ends, topic).values()) == [10, 11]


@pytest.mark.parametrize("form", ["parquet", pytest.param("delta", marks=pytest.mark.soak)])
def test_two_groups_share_a_table_and_two_loads_of_one_group_do_not(
    spark: SparkSession, broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str, form: str
) -> None:
    topic = make_topic(1)
    fill(broker.bootstrap_servers, topic, 1, 50)
    loading = Loading([topic], Reading(shim.bootstrap))
    one, other = f"{group}/a", f"{group}/b"
    for name in (one, other):
        assert loaded(spark, shim, name, SINKS[form](spark, table, name), loading).offsets == 50
    read = spark.read.format(form).load(table)
    assert (read.count(), read.select("offset").distinct().count()) == (100, 50)

    fill(broker.bootstrap_servers, topic, 1, 50)
    sink = SINKS[form](spark, table, one)
    overtaken = Meanwhile(sink, before=lambda: loaded(spark, shim, one, SINKS[form](spark, table, one), loading))
    with pytest.raises(SomethingWrong):
        loaded(spark, shim, one, overtaken, loading)
    assert spark.read.format(form).load(table).count() == 150
