"""What the second look makes of what the first one could not read: by Spark, of places that are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pipeline.audit import tasks
from pipeline.audit.asked import Addresses
from pipeline.audit.table import Audit, shuffle_partitions
from pipeline.audit.verdicts import Rules
from pipeline.audit.words import LOG, NO_PARTITION, UPSTREAM, WhereGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[Any, ...]


def offset(group: str, place: str, its: int | None, unread: str = "") -> Row:
    at = (group, "", NO_PARTITION) if its is None else (group, "t", 0)
    problem = "refused" if its is None else None
    return (place, *at, its, None, None, 1, problem, "kafka", unread)


FIRST = [
    offset("ahead", LOG, 9, UPSTREAM), offset("ahead", UPSTREAM, None, UPSTREAM),
    offset("alone", UPSTREAM, None, UPSTREAM),
    offset("moving", LOG, 9), offset("moving", UPSTREAM, 5),
    offset("one", LOG, 9), (UPSTREAM, "one", "t", 0, None, None, None, 1, "refused", "kafka", ""),
]  # fmt: skip
SECOND = [
    offset("ahead", LOG, 9), offset("ahead", UPSTREAM, 12),
    offset("alone", UPSTREAM, 12),
    offset("moving", LOG, 15), offset("moving", UPSTREAM, 12),
    offset("one", LOG, 9), offset("one", UPSTREAM, 12),
]  # fmt: skip


def given(first_is_over: Path) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    types = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
    fields = [each.split() for each in tasks.READINGS_SCHEMA.split(", ")]
    schema = pa.schema([(name, types[kind]) for name, kind in fields])
    first, second = FIRST, SECOND

    def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            groups = set(batch.column("group").to_pylist())
            rows = [row for row in (second if first_is_over.exists() else first) if row[1] in groups]
            if rows:
                yield pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

    return read


def test_a_place_that_the_first_look_could_not_read_has_not_moved(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = tmp_path / "over"
    read = given(over)
    monkeypatch.setattr(tasks, "readings", lambda _: read)
    monkeypatch.setattr(tasks, "log_ends", lambda _: lambda batches: (each.slice(0, 0) for each in batches if False))
    wheres = [WhereGroup(group, False, 1, 1, "kafka") for group in ("ahead", "alone", "moving", "one")]

    def again() -> list[WhereGroup]:
        over.touch()
        return wheres

    rules = Rules([LOG, UPSTREAM])
    made = Audit(spark, Addresses((), (), None), rules, 0.0, lambda _: nullcontext())
    found = made.table(wheres, again).select("group", "upstream_log", "looks").collect()
    assert sorted(tuple(row) for row in found) == [
        ("ahead", "ahead", 2),
        ("alone", "only here", 2),
        ("moving", "moving", 2),
        ("one", "ahead", 2),
    ]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2", "as the session was told"


@pytest.mark.parametrize(
    ("cores", "groups", "partitions"), [(2, 0, 2), (2, 4, 2), (2, 2_001, 5), (2, 200_000, 400), (1_000, 4, 200)]
)
def test_shuffles_are_as_wide_as_there_is_work(cores: int, groups: int, partitions: int) -> None:
    """Of 200, as Spark has them by default, four groups took two and a half times the processor time."""
    assert shuffle_partitions(cores, groups) == partitions
