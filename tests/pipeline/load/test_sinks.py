"""What tables do when several write to them."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.errors import NotDone, SomethingWrong
from pipeline.load.delta import DeltaSink
from pipeline.load.offsets import TopicPartition
from pipeline.load.parquet import ParquetSink
from pipeline.load.record import BatchRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = TopicPartition("t", 0)


def record(group: str, number: int) -> BatchRecord:
    return BatchRecord(group, number, str(uuid.uuid4()), "c", {"t": "id"}, {AT: 0}, {AT: 10})


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(10).selectExpr("'t' as topic", "id as offset").coalesce(1)


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("make", [DeltaSink, ParquetSink])
def test_of_two_first_loads_of_a_group_one_is_refused(
    spark: SparkSession, frame: DataFrame, tmp_path: Path, make: type[DeltaSink] | type[ParquetSink], others: int
) -> None:
    """Both have looked before either has added; others may have been there before them."""
    table = str(tmp_path / "table")
    for number in range(others):
        make(spark, table, f"other-{number}").add(record(f"other-{number}", 1), frame, ())
    one, two = make(spark, table, "g"), make(spark, table, "g")
    assert (one.last(), two.last()) == (None, None)
    one.add(record("g", one.next_number(None)), frame, ())
    with pytest.raises(SomethingWrong):
        two.add(record("g", two.next_number(None)), frame, ())
    form = "delta" if make is DeltaSink else "parquet"
    assert spark.read.format(form).load(table).count() == 10 * (1 + others)


def test_what_other_writers_say_may_have_any_characters(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    sink = DeltaSink(spark, table, "g")
    sink.add(record("g", 1), frame, ())
    frame.write.format("delta").mode("append").option("userMetadata", "a\u2028b\x85c").save(table)
    last = sink.last()
    assert last is not None
    assert last.number == 1


def test_what_another_group_is_loading_is_left_alone(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    """Though its name begins as this one's, and looks like a number of a batch behind that."""
    loading = tmp_path / "table" / "_loading"
    under_way = [loading / f"{group}-00000001-{uuid.uuid4()}" for group in ("a-0", "a-00000001", "a-1")]
    left_over = loading / f"a-00000001-{uuid.uuid4()}"
    for folder in (*under_way, left_over):
        folder.mkdir(parents=True)
    ParquetSink(spark, str(tmp_path / "table"), "a").add(record("a", 1), frame, ())
    assert sorted(loading.iterdir()) == sorted(under_way)


def test_a_folder_that_looks_like_a_batch_and_is_none(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    foreign = tmp_path / "table" / "batch=somebody"
    foreign.mkdir(parents=True)
    with pytest.raises(NotDone, match=f"{foreign} is no batch of a load: _schema.json is missing"):
        ParquetSink(spark, str(tmp_path / "table"), "g").add(record("g", 1), frame, ())
    assert [*(tmp_path / "table").iterdir()] == [foreign]
